"""What torch says about a compilation, as a trace may show it: paths and source lines by the recording's rules.

Guards and reasons end in comments like ``# y = x * n  # home/me/project/model.py:3 in f``, and
graph breaks quote stacks. Such texts follow the settings ``paths`` and ``source`` as columns do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any, Final

from .paths import PathRules

__all__ = ["Texts", "without_source"]

_MARK: Final = "  # "
_PLACE: Final = re.compile(r"(?P<path>[^:\n]+(?::\\[^:\n]+)?):(?P<rest>\d+ in .*)", re.DOTALL)
_STACK: Final = re.compile(
    r'File "(?P<path>[^"\n]+)", line (?P<line>\d+)(?P<where>, in [^\n]*)?(?P<code>\n[ \t]+(?!File ")[^\n]+)?'
)
_MOST_FILES: Final = 20_000


def without_source(text: str) -> str:
    """``text`` without the source lines that it quotes; where they stand in their files stays."""
    if _MARK in text:
        text = "\n".join(_without_code(line) for line in text.split("\n"))
    return _STACK.sub(lambda f: f'File "{f["path"]}", line {f["line"]}{f["where"] or ""}', text)


def _without_code(line: str) -> str:
    first, *_, place = line.split(_MARK)
    return f"{first}{_MARK}{place}" if _MARK in line and _PLACE.match(place) else line


class Texts:
    """Rewrites texts. ``files``: names of the files that the compilations are known to concern."""

    def __init__(self, rules: PathRules, files: Iterable[str], *, with_source: bool) -> None:
        self._rules = rules
        self._with_source = with_source
        self._by_name: dict[str, list[str]] = {}
        for file in list(dict.fromkeys(files))[:_MOST_FILES]:
            self._by_name.setdefault(os.path.basename(file), []).append(file)
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        if self._rules.absolute and self._with_source:
            return text
        known = self._known.get(text)
        if known is None:
            known = self._rewritten(text)
            if len(self._known) < _MOST_FILES:
                self._known[text] = known
        return known

    def inside(self, value: Any) -> Any:
        """The same for every text in plain JSON."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {k: self.inside(v) for k, v in value.items()}
        return [self.inside(v) for v in value] if isinstance(value, (list, tuple)) else value

    def _rewritten(self, text: str) -> str:
        if _MARK in text:
            text = "\n".join(self._comment(line) for line in text.split("\n"))
        if 'File "' in text:
            text = _STACK.sub(self._frame, text)
        return self._rules.without_directories(text)

    def _comment(self, line: str) -> str:
        """``guard  # code  # path:line in function``; the code, which may have comments too, is not always there."""
        guard, *code, place = line.split(_MARK) if _MARK in line else (line, "")
        found = _PLACE.match(place)
        if found is None:
            return line
        kept = code if self._with_source else ()
        return _MARK.join([guard, *kept, f"{self._shown(found['path'])}:{found['rest']}"])

    def _frame(self, found: re.Match[str]) -> str:
        code = found["code"] or "" if self._with_source else ""
        return f'File "{self._shown(found["path"])}", line {found["line"]}{found["where"] or ""}{code}'

    def _shown(self, path: str) -> str:
        """A path in a text, which torch may have cut at its front, as the trace shows that file."""
        if self._rules.absolute:
            return path
        if os.path.isabs(path) or path.startswith("<"):
            return self._rules.info(path).shown
        base = os.path.basename(path)
        ends = [f for f in self._by_name.get(base, ()) if f.endswith(path)]
        return self._rules.info(ends[0]).shown if len(ends) == 1 else base
