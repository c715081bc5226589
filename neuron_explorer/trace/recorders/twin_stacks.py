"""The Python stack and the module path of an event, interned."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

from neuron_explorer.trace.recorders.modules import namer

__all__ = ["StackInterner", "Tables", "Walk"]

MAX_FRAMES = 1000


class Tables(Protocol):
    """Where new codes, frames and modules are written; each returns an id from 1."""

    def code(self, filename: str, qualname: str, firstlineno: int) -> int: ...

    def frame(self, parent: int, code: int, line: int) -> int: ...

    def module(self, parent: int, path: str, class_name: str, instance: int) -> int: ...


class Walk(NamedTuple):
    """What one walk found: frame ids (0: none) and the innermost module's id (0: none)."""

    stack: int
    engine_stack: int
    module: int
    cut: bool


class StackInterner:
    """Gives ids to stacks and modules.

    Locals are read of one kind of frame only: `Module._wrapped_call_impl`, which holds its
    module and arguments for as long as it runs, so that reading them lengthens no life. A
    user's frame is never asked for its locals: on Python before 3.13 that would keep dead
    tensors alive.
    """

    def __init__(self, tables: Tables, *, module_code: CodeType | None, engine_code: CodeType | None) -> None:
        self._tables = tables
        self._module_code = module_code
        self._engine_code = engine_code
        self._codes: dict[CodeType, int] = {}
        self._frames: dict[tuple[int, CodeType, int], int] = {}
        self._instances: dict[int, tuple[weakref.ref[Any] | Callable[[], Any], int]] = {}
        self._modules: dict[tuple[int, int], int | None] = {}
        self._instance_count = 0

    def walk(self, frame: FrameType | None) -> Walk:
        """Intern the stack that ends in ``frame``."""
        frames: list[FrameType] = []
        while frame is not None and len(frames) < MAX_FRAMES:
            frames.append(frame)
            frame = frame.f_back
        stack = engine_stack = module = 0
        calling: Any = None
        for f in reversed(frames):
            code = f.f_code
            stack = self._frame(stack, code, f)
            if code is self._module_code:
                called = f.f_locals.get(code.co_varnames[0])
                inner = None if called is None else self._module(module, calling, called)
                if inner is not None:
                    module, calling = inner, called
            elif code is self._engine_code:
                engine_stack = stack
        return Walk(stack, engine_stack, module, frame is not None)

    def _frame(self, parent: int, code: CodeType, frame: FrameType) -> int:
        key = (parent, code, frame.f_lasti)
        found = self._frames.get(key)
        if found is None:
            code_id = self._codes.get(code)
            if code_id is None:
                qualname = getattr(code, "co_qualname", code.co_name)
                code_id = self._tables.code(code.co_filename, qualname, code.co_firstlineno)
                self._codes[code] = code_id
            found = self._tables.frame(parent, code_id, frame.f_lineno or code.co_firstlineno)
            self._frames[key] = found
        return found

    def _module(self, parent: int, calling: Any, called: Any) -> int | None:
        """The id of ``called`` below ``parent``; None for a graph that a compiler made."""
        key = (parent, self._instance(called))
        if key not in self._modules:
            named = namer(calling, called)
            self._modules[key] = None if named is None else self._tables.module(parent, *named, key[1])
        return self._modules[key]

    def _instance(self, module: Any) -> int:
        known = self._instances.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        self._instance_count += 1
        self._instances[id(module)] = (weakref.ref(module), self._instance_count)
        return self._instance_count
