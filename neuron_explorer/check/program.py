"""A program given as a command line, recorded in a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.sniff import printable

LONGEST_S: Final = 24 * 3600
GRACE_S: Final = 10
"""How long a program may take to end once it is told to."""
_TAIL: Final = 1 << 16
_VARIABLE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_WITH_VALUE: Final = ("-X", "-W")


class RunError(NeuronExplorerError):
    """A program or a checkout that failed: which, how, and what it said last."""

    exit_code = 4


@dataclass(frozen=True)
class Program:
    """``A=1 python -u train.py --epochs 3`` in its parts. ``words``: the script or ``-m module``, and its arguments."""

    variables: Mapping[str, str]
    interpreter: str
    interpreter_options: tuple[str, ...]
    words: tuple[str, ...]

    def __str__(self) -> str:
        return printable(shlex.join(self.words))


def program_of(command: str) -> Program:
    """Read a command line. Raises ``RunError`` for one that is no script, module or Python program."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise RunError(f"the command {printable(command)} cannot be read: {error}.") from None
    variables = {}
    while words and (found := _VARIABLE.fullmatch(words[0])):
        variables[found[1]] = found[2]
        words.pop(0)
    if not words:
        raise RunError("the command to run is empty: --run 'python train.py'.")
    interpreter, options = sys.executable, []
    # `python train.py` is recorded by the interpreter that it names; anything else is a script.
    if re.fullmatch(r"python[\d.]*t?(\.exe)?", Path(words[0]).name):
        name = words.pop(0)
        interpreter = interpreter if name in ("python", "python3") else name
        while words and words[0].startswith("-") and not words[0].startswith("-m"):
            options.append(words.pop(0))
            if options[-1] in _WITH_VALUE and words:
                options.append(words.pop(0))
    if not words or "-c" in options:
        raise RunError("the command must name a script or a module: --run 'python train.py'.")
    return Program(variables, interpreter, tuple(options), tuple(words))


def record(
    program: Program, folder: Path, import_path: Sequence[str], output: Path, options: Sequence[str] = ()
) -> None:
    """Record one run in ``folder``; ``options`` are those of ``neuron-explorer record``. Raises ``RunError``."""
    command = [
        program.interpreter, *program.interpreter_options, "-m", "neuron_explorer", "record", *options, "-o",
        str(output), *program.words,
    ]  # fmt: skip
    with tempfile.TemporaryFile() as said:
        try:
            code = _run(command, folder, {**_environment(import_path), **program.variables}, said)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunError(f"{program} could not be run: {error}.") from None
        said.seek(max(0, said.seek(0, os.SEEK_END) - _TAIL))
        last = last_line(said.read().decode("utf-8", "replace"))
    if code or not output.exists():
        raise RunError(f"{program} failed in {printable(folder)} (exit code {code}): {last}.")


def last_line(text: str) -> str:
    """What a program said last, for an error."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    # This package says at the end where it wrote the trace; the program's own words say what went wrong.
    lines = [line for line in lines if not line.startswith("neuron-explorer: ")] or lines
    return printable(lines[-1])[:300].rstrip(".") if lines else "it said nothing"


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str], said: IO[bytes]) -> int:
    """Its exit code. Whatever ends the wait ends the program and all that it started."""
    process = subprocess.Popen(
        command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
        start_new_session=True,
    )  # fmt: skip
    try:
        return process.wait(LONGEST_S)
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in ("SIGTERM", "SIGKILL"):
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, getattr(signal, number))
        else:
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)


def _environment(import_path: Sequence[str]) -> dict[str, str]:
    """The import path comes first, and this package stays the one that asks. No bytecode is left in a checkout."""
    own = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(dict.fromkeys([*import_path, own]))
    return {"PYTHONDONTWRITEBYTECODE": "1", **os.environ, "PYTHONPATH": path}


@contextlib.contextmanager
def cleaned_up_when_terminated() -> Iterator[None]:
    """SIGTERM ends the block as an exception does, so that a CI system that cancels a job leaves nothing behind."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
