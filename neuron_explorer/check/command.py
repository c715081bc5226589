"""What ``neuron-explorer check`` does, from files to output and exit code."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from neuron_explorer.check.against import both_sides, record_in_turn
from neuron_explorer.check.attributed import attributed_share
from neuron_explorer.check.baseline import NoBaselineError, baseline_of, baseline_text
from neuron_explorer.check.config import load_config
from neuron_explorer.check.counts import Counts
from neuron_explorer.check.files import counts_of_files, joined, read_baseline, write_text
from neuron_explorer.check.program import cleaned_up_when_terminated, program_of, record
from neuron_explorer.check.render import (
    github_annotations,
    render_json,
    render_junit,
    render_markdown,
    render_text,
    tool_line,
)
from neuron_explorer.check.result import FAILED, NOT_COMPARED, OK, Result, check
from neuron_explorer.check.self_test import self_test
from neuron_explorer.errors import OutputError

_RENDER = {"text": render_text, "json": render_json, "junit": render_junit, "markdown": render_markdown}


def run_check(
    traces: Sequence[Path], baseline: Path | None, config: Path | None, *, form: str = "text",
    junit: Path | None = None, markdown: Path | None = None, proposed: Path | None = None,
) -> int:  # fmt: skip
    """Print the result; returns the exit code.

    ``proposed``: where the baseline of this run goes. By default it goes beside the first report that is written, where
    the result is not ok and there was a baseline.
    """
    settings = load_config(config)
    if baseline is None and not settings.budgets:
        raise NoBaselineError(
            "nothing to compare with: give --baseline FILE, or budgets like max_recompiles = 0 in pyproject.toml under "
            "[tool.neuron-explorer]."
        )
    known = read_baseline(baseline) if baseline is not None else None
    counts = counts_of_files(traces)
    accept = shlex.join(["neuron-explorer", "baseline", *map(str, traces), "-o", str(baseline)]) if baseline else ""
    result = check(joined(counts), known, settings, attributed=attributed_share(traces), accept=accept)
    place = proposed or beside(junit or markdown, baseline, result)
    result, failed = _propose(result, place, counts)
    print(_RENDER[form](result), end="")
    _write(result, junit, markdown)
    _annotate(result, form)
    if failed is not None and proposed is not None:
        raise failed
    return result.exit_code


def beside(report: Path | None, baseline: Path | None, result: Result) -> Path | None:
    """Where the baseline that a result asks for goes unless it is said: ``report.xml`` → ``report.proposed.baseline``.

    None without a report, where the counts are those of the baseline (a budget is no reason for another one), where
    nothing of the run was seen, and where it would be the baseline that was checked.
    """
    found = result.differences
    if report is None or baseline is None or found is None or result.exit_code == OK:
        return None
    if not any(counted.counts for counted in result.counts.groups.values()):
        return None
    if not (found.of("regression") or found.of("suspicious") or found.of("improvement") or found.unseen or found.lost
            or found.foreign):  # fmt: skip
        return None
    place = report.parent / f"{report.stem or 'report'}.proposed.baseline"
    return None if place.resolve() == baseline.resolve() else place


def _propose(result: Result, place: Path | None, recordings: Sequence[Counts]) -> tuple[Result, OutputError | None]:
    """Write the baseline of what was recorded; the result says where it is, or why it is not there."""
    if place is None:
        return result, None
    try:
        write_text(place, baseline_text(baseline_of(recordings)))
    except OutputError as error:
        return replace(result, notes=(*result.notes, f"no proposed baseline: {error}")), error
    return replace(result, proposed=str(place)), None


def run_against(
    command: str, revision: str, config: Path | None, *, runs: int, form: str = "text", junit: Path | None = None,
    markdown: Path | None = None, proposed: Path | None = None, options: Sequence[str] = (),
) -> int:  # fmt: skip
    """Record a program and another revision of it in turn, and compare counts and times; returns the exit code."""
    from neuron_explorer.comparing.comparison import comparison
    from neuron_explorer.comparing.sides import runs_of

    settings = load_config(config)
    program = program_of(command)
    with (
        cleaned_up_when_terminated(),
        tempfile.TemporaryDirectory(prefix="neuron-explorer-") as folder,
        both_sides(revision, Path.cwd()) as (there, here),
    ):
        made = record_in_turn(program, there, here, Path(folder), runs, tell=_tell, options=options)
        before, after = counts_of_files(made.before), counts_of_files(made.after)
        compared = comparison(runs_of(made.before), runs_of(made.after), interleaved=True)
        attributed = attributed_share(made.after)
    times = [("step", compared.step)] if compared.step else []
    times += [(f"{row.line_after[0]}:{row.line_after[1]} {row.key[2]}", row.compared) for row in compared.lines
              if row.compared is not None and row.line_after is not None]  # fmt: skip
    result = check(
        joined(after), baseline_of(before), settings, attributed=attributed, times=times,
        notes=(f"compared with {revision}, {runs} runs a side, in turn",),
    )  # fmt: skip
    result, failed = _propose(result, proposed, after)
    print(_RENDER[form](result), end="")
    _write(result, junit, markdown)
    _annotate(result, form)
    if failed is not None:
        raise failed
    return result.exit_code


def run_baseline(command: str, runs: int, *, options: Sequence[str] = ()) -> list[Counts]:
    """Record a program several times, for its baseline. Raises ``RunError``."""
    program = program_of(command)
    with cleaned_up_when_terminated(), tempfile.TemporaryDirectory(prefix="neuron-explorer-") as folder:
        files = [Path(folder) / f"run-{i:03}.parquet" for i in range(1, runs + 1)]
        for i, file in enumerate(files, 1):
            _tell(f"{i} of {runs}")
            record(program, Path.cwd(), [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p], file,
                   options)  # fmt: skip
        return counts_of_files(files)


def _annotate(result: Result, form: str) -> None:
    if form == "text" and os.environ.get("GITHUB_ACTIONS") == "true":
        for line in github_annotations(result, _in_workspace()):
            print(line)


def _in_workspace() -> str:
    """The working directory relative to the repository that GitHub checked out; "" where it is that, or elsewhere."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    if not workspace:
        return ""
    try:
        return Path.cwd().resolve().relative_to(Path(workspace).resolve()).as_posix().removeprefix(".")
    except (OSError, ValueError):
        return ""


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\rrecording {text} ", end="", file=sys.stderr, flush=True)


def _write(result: Result, junit: Path | None, markdown: Path | None) -> None:
    if junit is not None:
        write_text(junit, render_junit(result))
    if markdown is not None:
        write_text(markdown, render_markdown(result))
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if markdown is None and summary and os.environ.get("GITHUB_ACTIONS") == "true":
        try:
            with open(summary, "a", encoding="utf-8") as file:
                file.write(render_markdown(result))
        except OSError:
            print("note: the step summary could not be written")


def run_self_test(traces: Sequence[Path]) -> int:
    """Print what the gate sees of each kind of regression; 0 where it sees them all."""
    found = self_test(joined(counts_of_files(traces)))
    print(f"{tool_line()}: self-test")
    for each in found:
        word = "not there" if each.seen is None else "seen" if each.seen else "MISSED"
        print(f"{word:<10}{each.name}" + (f" ({each.said})" if not each.seen else ""))
    if any(each.seen is False for each in found):
        return FAILED
    return OK if sum(each.seen is True for each in found) > 1 else NOT_COMPARED
