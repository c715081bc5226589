"""Which operators a program registered through ``torch.library``, and where their kernels are written.

Only texts and numbers are kept, never a function.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
from typing import Any

from neuron_explorer.trace.recorders import torch_private
from neuron_explorer.trace.registrations import MOST_OPERATORS, definition_line, is_custom

__all__ = ["CustomOperators"]

_HOPS = 32
_HOLDERS = ("func", "fn", "function", "kernel", "__func__")


class CustomOperators:
    """The registrations of one process; sees those of ``Library.impl`` while it is started."""

    def __init__(self) -> None:
        self._implemented: dict[tuple[str, str], dict[str, Any]] = {}
        self._library: Any = None
        self._original: Any = None

    def start(self) -> None:
        """Begin to note the functions that are given to ``torch.library.Library.impl``."""
        library = torch_private.library_class()
        if library is None:
            return
        original = library.impl

        @functools.wraps(original)
        def impl(this: Any, op_name: Any, fn: Any, dispatch_key: str = "", *arguments: Any, **named: Any) -> Any:
            result = original(this, op_name, fn, dispatch_key, *arguments, **named)
            with contextlib.suppress(Exception):  # whatever was registered, it is registered
                self._note(this, op_name, fn, dispatch_key)
            return result

        self._library, self._original, library.impl = library, original, impl

    def stop(self) -> None:
        """Put ``Library.impl`` back, unless somebody replaced it after this."""
        library, self._library = self._library, None
        if library is not None and getattr(library.impl, "__wrapped__", None) is self._original:
            library.impl = self._original

    def document(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Operator → device type ("" for any) → its kernel's ``function``, ``file``, ``line`` and ``first``.

        The kernel is empty where it is no Python function, or was registered before the start.
        """
        found: dict[str, dict[str, dict[str, Any]]] = {}
        keys = torch_private.device_types_of_dispatch_keys()
        names = [name for name in torch_private.operator_names() if is_custom(name)]
        for name in names[:MOST_OPERATORS]:
            with contextlib.suppress(Exception):
                kernels: dict[str, dict[str, Any]] = {}
                for key, device in keys.items():
                    if torch_private.has_kernel(name, key):
                        kernels[device] = self._implemented.get((name, key)) or kernels.get(device, {})
                for device, function in torch_private.custom_op_functions(name).items():
                    kernels[device] = place_of(function)
                if kernels:
                    found[name] = kernels
        return found

    def _note(self, library: Any, op_name: Any, fn: Any, key: str) -> None:
        name = str(getattr(op_name, "name", lambda: op_name)()).split("::")[-1]
        name = f"{library.ns}::{name}".removesuffix(".default")
        if is_custom(name) and len(self._implemented) < MOST_OPERATORS:
            place = place_of(fn)
            if place:
                self._implemented[name, key or library.dispatch_key or "CompositeImplicitAutograd"] = place


def place_of(function: Any) -> dict[str, Any]:
    """Where a function is written: inside decorators, partials and callable objects; empty for none in Python."""
    seen: list[Any] = []
    while function is not None and len(seen) < _HOPS:
        seen.append(function)
        inner = [getattr(function, "__wrapped__", None), torch_private.function_inside(function)]
        if getattr(function, "__code__", None) is None:
            inner += [vars_of(function).get(name) for name in _HOLDERS]
        following = next((f for f in inner if callable(f) and not any(f is known for known in seen)), None)
        if following is None:
            break
        function = following
    code = getattr(function, "__code__", None)
    if code is None:
        call = type(function).__call__ if callable(function) else None
        code = getattr(call, "__code__", None)
    if code is None:
        return {}
    name = getattr(code, "co_qualname", None) or getattr(function, "__qualname__", code.co_name)
    first = code.co_firstlineno
    line = definition_line(linecache.getlines(code.co_filename), first, code.co_name)
    return {"function": str(name), "file": code.co_filename, "line": line, "first": first}


def vars_of(holder: Any) -> dict[str, Any]:
    """The attributes of an object, without running any of its code."""
    if isinstance(holder, functools.partial):
        return {"func": holder.func}
    try:
        found = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}
