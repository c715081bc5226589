"""Finds the program and makes its ``__main__``, as the interpreter does at its start.

Python's ``runpy`` does nearly this, but puts the former ``__main__`` back and leaves
frames of its own in tracebacks; ``multiprocessing`` and ``pickle`` need ``__main__`` to be
the user's module until the process ends.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import os
import pkgutil
import sys
import types
from dataclasses import dataclass
from typing import Any

from neuron_explorer.errors import NeuronExplorerError


class ProgramError(NeuronExplorerError):
    """The program to run does not exist. The exit code is the one Python uses."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Program:
    """Code that is ready to run in its ``__main__``."""

    code: types.CodeType
    main: types.ModuleType


_former_mains: list[types.ModuleType] = []  # a module that dies takes its globals along


def replace_main() -> types.ModuleType:
    """Put an empty ``__main__`` in the place of the command line's own."""
    _former_mains.append(sys.modules["__main__"])
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    return main


def load_script(main: types.ModuleType, target: str, arguments: tuple[str, ...]) -> Program:
    """``python TARGET ARGUMENTS…``: a file, or a directory or zip file with ``__main__.py``.

    Changes ``sys.argv`` and ``sys.path``. Raises :class:`ProgramError` when there is no such
    program, and what compiling it raises.
    """
    sys.argv = [target, *arguments]
    if not os.path.exists(target):
        raise ProgramError(f"can't open file '{os.path.abspath(target)}': no such file", 2)
    path = _absolute(target)
    if _is_container(path):
        sys.path.insert(0, path)
        _drop_own_path_entry(1)
        return _load_container(main, path)
    _drop_own_path_entry(0)
    if not _safe_path():
        sys.path.insert(0, os.path.dirname(os.path.realpath(target)))
    with io.open_code(path) as file:
        code = pkgutil.read_code(file)  # type: ignore[attr-defined]
    loader: Any
    if code is not None:
        loader = importlib.machinery.SourcelessFileLoader("__main__", path)
    else:
        loader = importlib.machinery.SourceFileLoader("__main__", path)
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    _describe(main, file=path, loader=loader, package=None, spec=None)
    return Program(code, main)


def load_module(main: types.ModuleType, name: str, arguments: tuple[str, ...]) -> Program:
    """``python -m NAME ARGUMENTS…``. As :func:`load_script`."""
    sys.argv = ["-m", *arguments]
    _drop_own_path_entry(0)
    if not _safe_path():
        sys.path.insert(0, os.getcwd())
    spec = _find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name += ".__main__"
        spec = _find_spec(name)
        if spec is None:
            package = name.rpartition(".")[0]
            raise ProgramError(f"No module named {name}; '{package}' is a package and cannot be directly executed", 1)
    if spec is None or spec.loader is None:
        raise ProgramError(f"No module named {name}", 1)
    get_code = getattr(spec.loader, "get_code", None)
    code = get_code(name) if get_code is not None else None
    if code is None:
        raise ProgramError(f"No code object available for {name}", 1)
    sys.argv[0] = spec.origin or name
    _describe(main, file=spec.origin, loader=spec.loader, package=spec.parent, spec=spec)
    return Program(code, main)


def _find_spec(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        # A missing parent package, not a missing import inside one.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ProgramError(str(error), 1) from None
        raise


def _absolute(target: str) -> str:
    """What the interpreter makes of a script's path: ``..`` and links stay in it."""
    return os.path.join(os.getcwd(), target)


def _is_container(path: str) -> bool:
    if os.path.isdir(path):
        return True
    import zipfile

    return zipfile.is_zipfile(path)


def _load_container(main: types.ModuleType, path: str) -> Program:
    spec = importlib.machinery.PathFinder.find_spec("__main__", [path])
    code = spec.loader.get_code("__main__") if spec is not None and spec.loader is not None else None  # type: ignore[attr-defined]
    if spec is None or code is None:
        raise ProgramError(f"can't find '__main__' module in '{path}'", 1)
    _describe(main, file=spec.origin, loader=spec.loader, package="", spec=spec)
    return Program(code, main)


def _describe(main: types.ModuleType, *, file: str | None, loader: Any, package: str | None, spec: Any) -> None:
    main.__dict__.update(
        __file__=file,
        __builtins__=builtins,
        __cached__=spec.cached if spec is not None else None,
        __loader__=loader,
        __package__=package,
        __spec__=spec,
    )
    if sys.version_info < (3, 14):
        main.__annotations__ = {}


def _drop_own_path_entry(index: int) -> None:
    """Remove what the interpreter put on ``sys.path`` for *this* command."""
    if not _safe_path() and len(sys.path) > index:
        del sys.path[index]


def _safe_path() -> bool:
    return bool(getattr(sys.flags, "safe_path", False) or sys.flags.isolated)
