"""What every form of a result begins with: the tool, and the result in one sentence."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from neuron_explorer.analysis import quantity as q
from neuron_explorer.check.result import NOT_COMPARED, OK, Result


def tool_line() -> str:
    """Name and version of the tool: an exit code of 1 may also be another program's."""
    try:
        return f"neuron-explorer {version('neuron-explorer')} check"
    except PackageNotFoundError:
        return "neuron-explorer check"


def headline(result: Result) -> str:
    """The result in one sentence."""
    code = result.exit_code
    if code == OK:
        extra = f"; {q.plural(len(result.improvements), 'improvement')}" if result.improvements else ""
        return f"ok: {q.plural(result.compared, 'key')} compared{extra}"
    if code == NOT_COMPARED and result.differences is not None and result.differences.foreign:
        return "not compared: the baseline is of another program: no file and hardly an operator is in both"
    if code == NOT_COMPARED:
        unseen = q.plural(len(result.unseen), "group")
        what = f"{unseen} not observed" if result.compared else "nothing was compared"
        return f"not compared: {what}"
    parts = []
    if result.differences is not None and result.differences.lost:
        parts.append(result.differences.lost)
    if result.blocking:
        parts.append(q.plural(len(result.blocking), "regression"))
    if result.exceeded:
        parts.append(q.plural(len(result.exceeded), "budget") + " exceeded")
    if result.config.time == "block" and any(c.verdict == "regression" for _, c in result.times):
        parts.append("slower")
    if not parts:
        parts.append(q.plural(len(result.improvements), "improvement") + " not in the baseline")
    return "failed: " + ", ".join(parts)
