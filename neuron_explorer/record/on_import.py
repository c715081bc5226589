"""Calls a function once a module has been imported, by whoever imports it.

``record`` must not import torch before the program does: a program that sets
``OMP_NUM_THREADS`` and then imports torch would behave differently.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_imported(name: str, call: Callable[[], None]) -> Callable[[], None]:
    """Call ``call()`` right after the module ``name`` was executed.

    At once where it is imported already; never where it never is. The function that is
    returned takes the wish back.
    """
    if name in sys.modules:
        call()
        return lambda: None
    watcher = _Watcher(name, call)
    sys.meta_path.insert(0, watcher)

    def forget() -> None:
        if watcher in sys.meta_path:
            sys.meta_path.remove(watcher)

    return forget


class _Watcher:
    """A finder that finds nothing by itself; it only marks one module's loader."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self._name = name
        self._call = call
        self._asked = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name or self._asked:
            return None
        self._asked = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asked = False
        loader = spec.loader if spec is not None else None
        if loader is None:
            return None
        execute = loader.exec_module

        def execute_then_call(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # gone already where somebody else waits for it too
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._call()

        # On the instance: the module keeps its real loader, unlike with a wrapper.
        loader.exec_module = execute_then_call  # type: ignore[method-assign]
        return spec
