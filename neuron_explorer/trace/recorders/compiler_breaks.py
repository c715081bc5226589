"""What torch says of a graph break, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["BreakText", "read_break"]

_LABELLED = re.compile(r"^[ \t]*(Explanation|Hint|Developer debug context):[ \t]*(.*)$")
_END = re.compile(r"^\s*(?:For more details about this graph break, please visit|from user code:|User stack trace:)")


@dataclass(frozen=True)
class BreakText:
    """``type`` is torch's name of the kind of break (its first line where there is none)."""

    type: str
    reason: str
    explanation: str = ""
    hints: tuple[str, ...] = ()


def read_break(text: str, kind: str = "") -> BreakText:
    """Take a message apart; what has no form that is known becomes the reason as a whole."""
    first, parts, inside = "", [], ""
    found: dict[str, list[str]] = {"Explanation": [], "Hint": [], "Developer debug context": []}
    for line in text.splitlines():
        if _END.match(line):
            break
        match = _LABELLED.match(line)
        if match:
            inside = match[1]
            found[inside].append(match[2].strip())
        elif inside and line.strip():
            found[inside][-1] += " " + line.strip()
        elif not inside and line.strip():
            parts.append(line.strip())
    first = parts[0] if parts else ""
    context = " ".join(found["Developer debug context"]).strip()
    name = kind or first
    reason = " ".join(parts) or name
    if context and context not in reason:
        reason = f"{reason} ({context})"
    return BreakText(name[:200], reason[:2000], " ".join(found["Explanation"])[:2000], tuple(found["Hint"][:16]))
