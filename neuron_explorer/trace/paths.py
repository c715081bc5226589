"""Whose code a file is, and how its path is written in a trace."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

TORCH: Final = frozenset({"torch", "functorch", "torchgen", "triton", "torch_neuronx", "torch_xla", "neuron_explorer"})
"""Packages whose frames are never what a user asks about."""

_INSTALLED: Final = re.compile(r".*[/\\](?:site|dist)-packages[/\\](.+)", re.DOTALL)
_STDLIB: Final = re.compile(r".*[/\\](?:lib|lib64|Lib)[/\\](python3\.\d+t?[/\\].+)", re.DOTALL)
_ZIPPED_STDLIB: Final = re.compile(r".*[/\\](python3\d+\.zip[/\\].+)", re.DOTALL)
_INDUCTOR: Final = re.compile(r".*[/\\]([a-z0-9]{2}[/\\]c[a-z0-9]{40,}\.py)$", re.DOTALL)
_GENERATED: Final = re.compile(r"^(<eval_with_key>[.\d]*) from .*", re.DOTALL)
_HOME: Final = re.compile(r"^(?:/home/[^/]+|/Users/[^/]+|/root|[A-Za-z]:\\Users\\[^\\]+)(?=[/\\])")
_IN_TEXT: Final = re.compile(
    r"""(?<![\w.~-])(?:[A-Za-z]:)?[/\\](?:[^\s/\\'"]+[/\\])*"""
    r"""(?:(?:site|dist)-packages[/\\]|(?:lib|lib64|Lib)[/\\](?=python3\.\d))"""
)
_HOME_IN_TEXT: Final = re.compile(
    r"(?<![\w./\\~-])(?:/home/[^/\s]+|/Users/[^/\s]+|/root|[A-Za-z]:\\Users\\[^\\\s]+)(?=[/\\])"
)
_INDUCTOR_IN_TEXT: Final = re.compile(
    r"""(?<![\w.~-])(?:[A-Za-z]:)?[/\\](?:[^\s/\\'"]+[/\\])*torchinductor_[^\s/\\'"]+(?=[/\\])"""
)
_NOT_TYPED_BY_A_USER: Final = (
    "<frozen", "<eval_with_key", "<__array_function__", "<attrs generated", "<decorator-gen",
    "<torch", "<makefun", "<unknown",
)  # fmt: skip
_DEMO: Final = re.compile(r"(?:^|[/\\])neuron_explorer[/\\]demo[/\\]")


@dataclass(frozen=True)
class FileInfo:
    """A file as a trace shows it. ``path`` is where it was read from, "" if that is nowhere."""

    shown: str
    user: bool
    torch: bool
    path: str


class PathRules:
    """Classifies file names by the settings in ``session.json``.

    User code is what lies outside torch, this package, installed packages and the standard
    library; with ``user_code`` (``include``) it is those directories and files only.
    """

    def __init__(self, session: Mapping[str, Any]) -> None:
        settings = session.get("settings")
        self._absolute = isinstance(settings, Mapping) and settings.get("paths") == "absolute"
        cwd = session.get("cwd")
        self._cwd = cwd if isinstance(cwd, str) and os.path.isabs(cwd) else ""
        project = session.get("project")
        self._project = project if isinstance(project, str) and os.path.isabs(project) else ""
        rules = session.get("user_code")
        rules = rules if isinstance(rules, Mapping) else {}
        include = rules.get("include")
        self._include = None if include is None else _texts(include)
        self._exclude = _texts(rules.get("exclude"))
        self._torch = [d for d in self._exclude if os.path.basename(d) in TORCH]
        script = session.get("script")
        self._script = os.path.join(self._cwd, script) if isinstance(script, str) and self._cwd else ""
        self._home = os.path.expanduser("~").rstrip("/\\")
        self._known: dict[str, FileInfo] = {}
        self._taken: dict[str, str] = {}

    @property
    def absolute(self) -> bool:
        """Whether paths are shown as they are."""
        return self._absolute

    def without_directories(self, text: str) -> str:
        """A sentence without the directories that lead to the project, to packages and to people's homes."""
        if self._absolute or ("/" not in text and "\\" not in text):
            return text
        text = _INDUCTOR_IN_TEXT.sub("torchinductor", _IN_TEXT.sub("", text))
        for directory, short in ((self._cwd, ""), (self._home, "~/")):
            if len(directory) > 1:
                text = re.sub(rf"(?<![\w./\\~-]){re.escape(directory)}[/\\]", short, text)
        return _HOME_IN_TEXT.sub("~", text)

    def info(self, filename: str) -> FileInfo:
        """The classification of a code object's ``co_filename``."""
        known = self._known.get(filename)
        if known is None:
            known = self._known[filename] = self._classify(filename)
        return known

    def _classify(self, filename: str) -> FileInfo:
        if not filename:
            return FileInfo("?", False, False, "")
        if filename.startswith("<"):
            typed = not filename.startswith(_NOT_TYPED_BY_A_USER)
            # torch names the line that made a graph, with its whole path.
            shown = filename if self._absolute else _GENERATED.sub(r"\1", self.without_directories(filename))
            return FileInfo(shown, typed, filename.startswith(("<eval_with_key", "<torch")), "")
        path = filename if os.path.isabs(filename) or not self._cwd else os.path.join(self._cwd, filename)
        path = os.path.normpath(path)
        installed = _INSTALLED.match(path)
        torch = self._is_torch(path, installed)
        user = False if torch else self._is_user(path, installed)
        shown = self._unique(path, filename if self._absolute else self._shorten(path, installed))
        return FileInfo(shown, user, torch, path)

    def _is_torch(self, path: str, installed: re.Match[str] | None) -> bool:
        if _DEMO.search(path):
            return False
        if installed and re.split(r"[/\\]", installed[1], maxsplit=1)[0] in TORCH:
            return True
        return _under(path, self._torch) or bool(_INDUCTOR.match(path))

    def _is_user(self, path: str, installed: re.Match[str] | None) -> bool:
        if _DEMO.search(path):
            return self._include is None or _under(path, self._include)
        if self._include is not None:
            return _under(path, self._include) or _under(_real(path), self._include)
        if self._script and os.path.normpath(self._script) == path:
            return True
        if installed or _STDLIB.match(path) or _ZIPPED_STDLIB.match(path):
            return False
        return not (_under(path, self._exclude) or _under(_real(path), self._exclude))

    def _shorten(self, path: str, installed: re.Match[str] | None) -> str:
        if installed:
            return installed[1]
        stdlib = _STDLIB.match(path) or _ZIPPED_STDLIB.match(path)
        if stdlib:
            return stdlib[1]
        for directory in self._torch:
            if _under(path, [directory]):
                return os.path.relpath(path, os.path.dirname(directory))
        generated = _INDUCTOR.match(path)
        if generated:  # its directory is named after the user
            return f"torchinductor/{generated[1]}"
        if self._cwd and _under(path, [self._cwd]):
            return os.path.relpath(path, self._cwd)
        if self._project and _under(path, [self._project]) and _under(self._cwd, [self._project]):
            # Beside the folder in which the program ran: the name must not tell where the checkout lies.
            return os.path.relpath(path, self._cwd)
        for directory in self._include or ():
            if _under(path, [directory]):
                return os.path.relpath(path, os.path.dirname(directory))
        if self._home and _under(path, [self._home]):
            return "~" + path[len(self._home) :]
        return _HOME.sub("~", path)

    def _unique(self, path: str, shown: str) -> str:
        """Two files never share a name, whatever was cut off."""
        candidate, number = shown, 1
        while self._taken.setdefault(candidate, path) != path:
            number += 1
            candidate = f"{shown} ({number})"
        return candidate


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a NUL byte, a loop of links
        return path


def _under(path: str, directories: list[str]) -> bool:
    return any(path == d or path.startswith(d.rstrip("/\\") + os.sep) for d in directories)


def _texts(value: Any) -> list[str]:
    return [os.path.normpath(v) for v in value if isinstance(v, str) and v] if isinstance(value, list) else []
