"""Why Dynamo compiled again: the text that it gives, read.

The texts are the code of the guard that failed, or a sentence of the C++ guards; their forms
differ between versions of torch (2.9 to 2.14 are in the tests, with older forms beside them).
Nothing here raises: a text of a form that is not known is a reason with the cause ``other``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from neuron_explorer.trace.compiles import Place, Reason
from neuron_explorer.trace.guard_forms import COMPARED, VALUE, known_form, short
from neuron_explorer.trace.guard_names import is_global, is_module_state, tensor_of, user_name
from neuron_explorer.trace.outside_quotes import outside_quotes

MOST_TEXT: Final = 8_000
"""Characters of a text that are read; the rest is kept but not looked at."""

_ENTRY: Final = re.compile(r"^\s*(?:- )?\[?(!?\d+(?:/\d+)+(?:_\d+)?|None)\]?:[ \t]?")
_STACK: Final = "\nUser stack trace:"
_STACK_FRAME: Final = re.compile(r'^\s*File "([^"\n]*)", line (\d+), in ([^\n]*)$', re.MULTILINE)
_PLACE: Final = re.compile(r"# (?:[^\n]*?# )??([^\s#][^#\n]*?):(\d+) in ([^\s(]+)")
_HINT: Final = re.compile(r"\(HINT: (.*?)\)\s*$", re.DOTALL)
_CLOSURE_HINT: Final = re.compile(r'guard on "([^"\n]*)"([^\s,)]*)')
_LIBRARY: Final = ("site-packages", "dist-packages", "/lib/python3", "<frozen")


def parse_reason(text: str) -> Reason:
    """Read one reason. Never raises; ``text`` is kept whole."""
    try:
        return _parse(text)
    except (ValueError, RecursionError, OverflowError, IndexError):
        return Reason(text, "other", str(text).strip())


def closest(reasons: Sequence[Reason]) -> int:
    """Index of the reason of the entry that nearly fitted, -1 without reasons.

    Dynamo reports the first guard that failed in each cache entry, and looks at global state,
    then types, then dtypes, then sizes from the first dimension on, and at conditions on
    dynamic sizes last: the later the guard, the more was equal. Of equals the newest entry's.
    """
    best, best_key = -1, (-1, -1, -1, -1)
    for index, reason in enumerate(reasons):
        key = (*_nearness(reason), _entry_number(reason.entry), -index)
        if key > best_key:
            best, best_key = index, key
    return best


def with_actual(reason: Reason, guards: Iterable[str]) -> Reason:
    """The reason with its found value from the guards of the new compilation, where it lacks one.

    The new compilation guards on what it found, so its guard on the same source says so.
    """
    if (reason.actual and reason.actual != _OTHER_TYPE) or not reason.source:
        return reason
    tensor = tensor_of(reason.source)
    type_ = ""
    for guard in guards:
        checked = _CHECK_TENSOR.search(guard[:MOST_TEXT])
        if checked:
            if user_name(checked[1]) == tensor:
                found = _checked_property(reason, checked)
                if found:
                    return replace(reason, actual=found)
            continue
        other = parse_reason(guard)
        if other.source != reason.source or not other.expected or other.expected == reason.expected:
            continue
        if _what(other.expected) == _what(reason.expected):
            return replace(reason, actual=other.expected)
        if _what(other.expected) == "type" and _what(reason.expected) == "value":
            type_ = other.expected
    return replace(reason, actual=type_) if type_ and type_ != _type_of(reason.expected) else reason


_OTHER_TYPE: Final = "another type"


def _what(expected: str) -> str:
    """What a guard's expectation is about: a value has a length and a type as well, with guards of their own."""
    if re.fullmatch(r"[\d,]+ items?", expected) or expected.endswith("left to iterate"):
        return "length"
    if expected.startswith(("type ", "one type")):
        return "type"
    return "keys" if expected.startswith(("keys ", "with ", "without ")) else "value"


def _type_of(value: str) -> str:
    """Of a value as Python writes it: ``type float`` of ``1.0``, "" where it is not told by that."""
    try:
        return f"type {type(ast.literal_eval(value[:200])).__name__}"
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return ""


# --- the parts of a text


def _parse(text: str) -> Reason:
    read = text[:MOST_TEXT]
    entry = ""
    prefix = _ENTRY.match(read)
    if prefix:
        entry = "" if prefix[1] == "None" else prefix[1]
        read = read[prefix.end() :]
    read, _, stack = read.partition(_STACK)
    guard = read.strip()
    expression, comment = _split_comment(guard)
    hint = _HINT.search(comment)
    frames = [(m[1], int(m[2]), m[3].strip()) for m in _STACK_FRAME.finditer(stack)]
    place = _place(frames, comment)
    known = known_form(expression)
    if known is None:
        return Reason(text, "other", guard, entry=entry, place=place)
    cause, source, expected, actual, dimension = known
    if cause == VALUE:
        cause = _value_cause(source, hint[1] if hint else "", frames, place)
    closure = _CLOSURE_HINT.search(hint[1]) if hint else None
    if closure:
        source = closure[1] + closure[2]
    return Reason(
        text,
        cause,
        guard,
        user_name(source),
        short(expected),
        short(actual),
        dimension,
        entry,
        place,
    )


def _split_comment(guard: str) -> tuple[str, str]:
    """The expression, and the line of code behind it (a ``#`` inside quotes is none)."""
    for index, _ in outside_quotes(guard):
        if guard[index] == "#" and index and guard[index - 1] == " ":
            return guard[:index].strip(), guard[index:]
    hint = guard.rfind("(HINT: ")
    if hint > 0 and guard.endswith(")"):
        return guard[:hint].strip(), guard[hint:]
    return guard, ""


def _place(frames: list[tuple[str, int, str]], comment: str) -> Place | None:
    """The user's line: the innermost outside libraries, else the innermost."""
    for file, line, function in reversed(frames):
        if not any(part in file for part in _LIBRARY):
            return Place(file, line, function)
    if frames:
        return Place(*frames[-1])
    last = None
    for last in _PLACE.finditer(comment):
        if last.end() < len(comment) and comment[last.end() :].lstrip().startswith(("(", "and ")):
            break
    if last is None:
        return None
    return Place(last[1].split("# ")[-1].strip(), int(last[2]), last[3])


def _value_cause(source: str, hint: str, frames: list[tuple[str, int, str]], place: Place | None) -> str:
    if is_global(source):
        return "global_value"
    if is_module_state(source) or "nn.Module" in hint:
        return "module_state"
    functions = {function for _, _, function in frames} | ({place.function} if place else set())
    if re.match(r"(?:L\[['\"]self['\"]\]|self)[.\[]", source) and functions & {"forward", "_call_impl", "__call__"}:
        return "module_state"
    return "python_value"


# --- what a new compilation found

_CHECK_TENSOR: Final = re.compile(
    r"check_tensor\((.+?), (\w+), DispatchKeySet\(([^)]*)\), torch\.(\w+), device=(\w+), "
    r"requires_grad=(\w+), size=\[([^\]]*)\], stride=\[([^\]]*)\]\)"
)


def _checked_property(reason: Reason, checked: re.Match[str]) -> str:
    if reason.cause == "dtype":
        return checked[4]
    if reason.cause == "requires_grad":
        return "requires gradient" if checked[6] == "True" else "no gradient"
    values = [v.strip() for v in checked[7 if reason.cause == "size" else 8].split(",")]
    if reason.cause in ("size", "stride") and 0 <= reason.dimension < len(values):
        value = values[reason.dimension]
        return "" if value == "None" else value
    return ""


# --- which entry is closest

_RANKS: Final = {
    "no_reason": 0,
    "grad_mode": 1,
    "other": 2,
    "object_identity": 3,
    "device": 4,
    "dtype": 5,
    "requires_grad": 6,
    "module_state": 7,
    "global_value": 7,
    "python_value": 8,
    "size": 9,
    "stride": 12,
}


def _nearness(reason: Reason) -> tuple[int, int]:
    rank = _RANKS.get(reason.cause, 2)
    if reason.cause == "grad_mode":
        return rank, -reason.source.count(",")  # the fewer settings differ, the nearer
    if reason.cause == "size":
        if reason.dimension < 0 and not COMPARED.search(reason.expected):
            return 7, 0
        if COMPARED.search(reason.expected):
            return 11, 0
        return rank, reason.dimension
    return rank, max(reason.dimension, 0)


def _entry_number(entry: str) -> int:
    number = re.search(r"/(\d+)(?:_\d+)?$", entry)
    return int(number[1]) if number else -1
