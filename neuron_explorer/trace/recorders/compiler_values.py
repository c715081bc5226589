"""What a guard found instead of what it expected, where its text does not say.

Looked up in the locals of the function that is compiled again, without calling anything of the
program's: no property, no ``__getattr__``, no ``__eq__``, no ``__repr__``. Only texts come out, so
nothing is kept alive.
"""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from neuron_explorer.trace.compiles import Reason

__all__ = ["Unknown", "found_value", "value_of", "with_found_value"]

_MAX_TEXT: Final = 120
_PLAIN: Final = (bool, int, float, complex, type(None), type(Ellipsis))
_OTHER: Final = {"True": "False", "False": "True"}
_COUNTED: Final = re.compile(r"\d+ (item|dimension)s?")
_LOCAL: Final = re.compile(r"L\[\s*['\"](.*?)['\"]\s*\]")
_COMMENT: Final = re.compile(r"\s{2,}#.*", re.DOTALL)


class Unknown(Exception):
    """Cannot be looked up without running the program's code."""


def with_found_value(reason: Reason, local: Mapping[str, Any], outside: Mapping[str, Any]) -> Reason:
    """``reason`` with ``actual`` filled in where it is missing and can be looked up."""
    if reason.actual:
        return reason
    try:
        actual = found_value(reason, local, outside)
    except Exception:
        return reason
    counted = _COUNTED.fullmatch(reason.expected)
    if counted and actual.isdecimal():
        actual = f"{actual} {counted[1]}" + ("" if actual == "1" else "s")
    if not actual or actual == reason.expected:
        return reason
    expected = reason.expected or (_OTHER.get(actual, "") if reason.cause == "grad_mode" else "")
    return replace(reason, actual=actual, expected=expected)


def found_value(reason: Reason, local: Mapping[str, Any], outside: Mapping[str, Any]) -> str:
    """The value now: from the side of the comparison that is no constant, else the source. "" unknown."""
    scope = _Scope(local, outside)
    if reason.cause == "grad_mode":
        return _global_state(reason.text)
    tree = _parse(_bare(reason.guard))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        tree = tree.operand
    candidates: list[ast.expr] = []
    if isinstance(tree, ast.Compare):
        candidates = [side for side in (tree.left, *tree.comparators) if not isinstance(side, ast.Constant)]
    elif isinstance(tree, ast.Call):
        candidates = [tree]
    source = _parse(_bare(reason.source))
    if source is not None:
        candidates.append(source)
    for candidate in candidates:
        try:
            return _text(scope.look_up(candidate), reason.cause, reason.dimension)
        except Unknown:
            continue
    return ""


def value_of(expression: str, local: Mapping[str, Any], outside: Mapping[str, Any]) -> Any:
    """The value of an expression as guards have it (``L['self'].scale``, ``x.shape[1]``).

    Raises:
        Unknown: it cannot be looked up without running code of the program's.
    """
    tree = _parse(_bare(expression))
    if tree is None:
        raise Unknown
    return _Scope(local, outside).look_up(tree)


def _bare(text: str) -> str:
    return _LOCAL.sub(r"\1", _COMMENT.sub("", text.split("\n", 1)[0])).strip()


def _parse(text: str) -> ast.expr | None:
    if not text or len(text) > 2000:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Scope:
    def __init__(self, local: Mapping[str, Any], outside: Mapping[str, Any]) -> None:
        self._local = local
        self._outside = outside

    def look_up(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            return _attribute(self.look_up(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            index = node.slice
            if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub) and _is_int(index.operand):
                return _item(self, node.value, -index.operand.value)  # type: ignore[attr-defined]
            if isinstance(index, ast.Constant):
                return _item(self, node.value, index.value)
        if isinstance(node, ast.Call) and not node.keywords:
            return self._call(node)
        raise Unknown

    def _name(self, name: str) -> Any:
        for scope in (self._local, self._outside):
            if type(scope) is dict and name in scope:
                return scope[name]
        raise Unknown

    def _call(self, node: ast.Call) -> Any:
        function, arguments = node.func, node.args
        if isinstance(function, ast.Name) and len(arguments) == 1 and function.id in ("len", "type"):
            value = self.look_up(arguments[0])
            if function.id == "type":
                return type(value)
            if type(value) in (list, tuple, dict, set, frozenset, str, bytes):
                return len(value)
        if isinstance(function, ast.Name) and function.id.startswith("___") and arguments:
            return self.look_up(arguments[0])
        if isinstance(function, ast.Attribute) and function.attr in ("size", "stride"):
            values = _numbers(self.look_up(function.value), function.attr)
            if not arguments:
                return values
            if len(arguments) == 1 and _is_int(arguments[0]):
                return values[arguments[0].value]  # type: ignore[attr-defined]
        raise Unknown


def _is_int(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _attribute(owner: Any, name: str) -> Any:
    if _is_tensor(owner):
        if name == "shape":
            return _numbers(owner, "size")
        if name in ("dtype", "device", "requires_grad", "ndim"):
            return _tensor_fact(owner, name)
        raise Unknown
    if isinstance(owner, types.CellType) and name == "cell_contents":
        return owner.cell_contents
    if type(owner) is types.FunctionType and name in ("__closure__", "__defaults__", "__code__", "__kwdefaults__"):
        return getattr(owner, name)
    fields = _fields(owner)
    if name in fields:
        return fields[name]
    for group in ("_parameters", "_buffers", "_modules"):  # of an nn.Module
        members = fields.get(group)
        if type(members) is dict and name in members:
            return members[name]
    for kind in (owner if isinstance(owner, type) else type(owner)).__mro__:
        value = vars(kind).get(name, Unknown)
        if value is not Unknown:
            if type(value) in _PLAIN or type(value) is str:
                return value
            break
    raise Unknown


def _fields(owner: Any) -> dict[str, Any]:
    """The object's own attributes, without asking the object."""
    for kind in type(owner).__mro__:
        slot = vars(kind).get("__dict__")
        if slot is None:
            continue
        if type(slot) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
            raise Unknown
        found = slot.__get__(owner)
        return found if type(found) is dict else {}
    if isinstance(owner, types.ModuleType):
        return vars(owner)
    return {}


def _item(scope: _Scope, owner_node: ast.expr, key: Any) -> Any:
    # What torch writes as `G['name']` is a global.
    if isinstance(owner_node, ast.Name) and owner_node.id == "G" and isinstance(key, str):
        return scope._name(key)
    owner = scope.look_up(owner_node)
    try:
        if type(owner) in (list, tuple) and type(key) is int:
            return owner[key]
        if type(owner) is dict and type(key) in (str, int):
            return owner[key]
        if _fields(owner).get("_modules") is not None:  # ModuleList, Sequential, ModuleDict
            return owner._modules[str(key)]
    except LookupError:
        pass
    raise Unknown


def _is_tensor(value: Any) -> bool:
    """Whether this is a tensor of torch's own: a subclass may run the program's code when asked."""
    torch = sys.modules["torch"]
    return type(value) is torch.Tensor or type(value) is torch.nn.Parameter


def _tensor_fact(tensor: Any, name: str) -> Any:
    with sys.modules["torch"]._C.DisableTorchFunction():  # a mode of the program's would be called
        return getattr(tensor, name)


def _numbers(tensor: Any, name: str) -> tuple[int, ...]:
    if not _is_tensor(tensor):
        raise Unknown
    with sys.modules["torch"]._C.DisableTorchFunction():
        values = tensor.size() if name == "size" else tensor.stride()
    return tuple(int(value) for value in values)


_BY_CAUSE: Final = {"dtype": "dtype", "device": "device", "requires_grad": "requires_grad"}


def _text(value: Any, cause: str, dimension: int) -> str:
    if _is_tensor(value):
        if cause in _BY_CAUSE:
            return str(_tensor_fact(value, _BY_CAUSE[cause]))
        if cause in ("size", "stride"):
            numbers = _numbers(value, cause)
            return str(numbers[dimension]) if 0 <= dimension < len(numbers) else str(list(numbers))
        shape = ", ".join(map(str, _numbers(value, "size")))
        return f"a tensor [{shape}] of {str(_tensor_fact(value, 'dtype')).removeprefix('torch.')}"
    return _plain(value)[:_MAX_TEXT]


def _plain(value: Any, depth: int = 2) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value) if kind is not int or value.bit_length() < 400 else "a large integer"
    if kind is str:
        return repr(value if len(value) <= 80 else value[:79] + "…")
    if kind in (list, tuple) and depth and len(value) <= 8:
        inside = ", ".join(_plain(item, depth - 1) for item in value)
        if kind is list:
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    torch = sys.modules["torch"]
    if kind in (torch.dtype, torch.device, torch.Size, torch.layout):
        return str(value)
    if isinstance(value, type):
        return _type_name(value)
    return f"an object of type {_type_name(kind)}"


def _type_name(kind: type) -> str:
    return type.__dict__["__qualname__"].__get__(kind)  # a metaclass of the program's is not asked


def _global_state(text: str) -> str:
    torch = sys.modules["torch"]
    if "grad_mode" in text:
        return str(torch.is_grad_enabled())
    cast = re.search(r"autocast\((\w+)\)", text)
    if cast:
        return str(torch.is_autocast_enabled(cast[1]))
    if "num_threads" in text:
        return str(torch.get_num_threads())
    if "deterministic" in text:
        return str(torch.are_deterministic_algorithms_enabled())
    if "default_dtype" in text:
        return str(torch.get_default_dtype())
    return ""
