"""What the user calls the thing that a guard looks at.

Dynamo names a value by the way it is reached (``L['self']._modules['layers']._modules['0']``,
``G['SCALE']``, ``___from_numpy(L['a'])``); the user wrote ``self.layers[0]``, ``SCALE`` and ``a``.
"""

from __future__ import annotations

import re
from typing import Final

_Q: Final = r"""(?:'([^'\\\n]*)'|"([^"\\\n]*)")"""
_SCOPE: Final = re.compile(r"\b([LG])\[\s*" + _Q + r"\s*\]")
_UNNAMED: Final = re.compile(r"^(?:___unnamed_scope|__builtins_dict__)")
_IMPORT: Final = re.compile(r"^__import_(.+)$")
_CONTAINER: Final = re.compile(r"\.(?:_modules|_parameters|_buffers|__dict__)\[\s*" + _Q + r"\s*\]")
_WRAPPED: Final = re.compile(
    r"(?<![\w.])(?:___from_numpy|___as_tensor|___wrap_numpy|__as_tensor|dict|torch\.as_tensor)\(([^()]*)\)"
)
_GETITEM: Final = re.compile(
    r"(?<![\w.])(?:dict|list|tuple|collections\.OrderedDict|OrderedDict)\.__getitem__\(([^(),]*), ([^(),]*)\)"
)
_GETATTR: Final = re.compile(
    r"(?<![\w.])(?:getattr|inspect\.getattr_static|object\.__getattribute__)\(([^(),]*), " + _Q
)
_SIZE: Final = re.compile(r"\.size\(\)\[(\d+)\]")
_STRIDE: Final = re.compile(r"\.stride\(\)\[(\d+)\]")
_DROPPED: Final = re.compile(r"\.(?:_orig_mod|__func__|__code__|cell_contents)\b(?!\()")
_IDENTIFIER: Final = re.compile(r"^[^\W\d]\w*$")

MOST: Final = 2_000
"""Longer expressions are named as they are: no user wrote them."""


def user_name(expression: str) -> str:
    """The expression as the user would write it; what is not known stays as it is."""
    text = expression.strip()
    if len(text) > MOST:
        return text
    text = _SCOPE.sub(_scope, text)
    text = _unscoped(text)
    text = _CONTAINER.sub(lambda m: _member(m[1] if m[1] is not None else m[2]), text)
    for _ in range(4):
        before = text
        text = _WRAPPED.sub(r"\1", text)
        text = _GETITEM.sub(r"\1[\2]", text)
        text = _GETATTR.sub(lambda m: f"({m[1]}.{m[2] if m[2] is not None else m[3]}", text)
        text = re.sub(r"(?<![\w)\]])\(([\w.\[\]']+)\)(?=[.\[]|$)", r"\1", text)
        if text == before:
            break
    text = _SIZE.sub(r".shape[\1]", text)
    text = _STRIDE.sub(r".stride(\1)", text)
    return _DROPPED.sub("", text).strip()


def _scope(match: re.Match[str]) -> str:
    name = match[2] if match[2] is not None else match[3]
    if match[1] == "L":
        return name
    if _UNNAMED.match(name):
        return "\0"
    module = _IMPORT.match(name)
    return module[1].replace("_dot_", ".") if module else name


def _unscoped(text: str) -> str:
    """``<a dictionary of globals>['name']`` is ``name``."""
    text = re.sub("\0" + r"\[\s*" + _Q + r"\s*\]", lambda m: m[1] if m[1] is not None else m[2], text)
    return text.replace("\0", "globals()")


def _member(name: str) -> str:
    if name.isdecimal():
        return f"[{name}]"
    return f".{name}" if _IDENTIFIER.match(name) else f"[{name!r}]"


def tensor_of(source: str) -> str:
    """The tensor in a source: ``x`` of ``x.shape[1]``."""
    return re.sub(r"\.(?:shape\[\d+\]|stride\(\d+\)|dim\(\)|storage_offset\(\))$", "", source)


def is_global(expression: str) -> bool:
    """It is read from the globals of a module."""
    return re.search(r"(?<!\w)G\[", expression) is not None


def is_module_state(expression: str) -> bool:
    """It is reached through an ``nn.Module``, or is its ``training``."""
    return (
        re.search(r"\._(?:modules|parameters|buffers|(?:forward|backward)(?:_pre)?_hooks)\b|\.training$", expression)
        is not None
    )
