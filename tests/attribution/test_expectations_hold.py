"""The comments of the programs are true: Python's own frames say the same lines.

No profiler takes part. Each program runs under a dispatch mode that looks at the frames of every
op it sees, which are what a traceback of an error raised there would show.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from program_expectations import Program, all_programs, load_program, name_matches
from program_loading import call_main, import_program, lay_out

torch = pytest.importorskip("torch")

PROGRAMS = [p for p in all_programs() if "nomode" not in p.options]


class Watch:
    """Collects (file name, line, op) of every dispatched op, on all threads started meanwhile."""

    def __init__(self, files: frozenset[str]) -> None:
        self.files = files
        self.seen: Counter[tuple[str, int, str]] = Counter()

    def note(self, name: str, frame: FrameType | None) -> None:
        while frame is not None:
            file = Path(frame.f_code.co_filename).name
            if file in self.files and not name.startswith("profiler::"):
                self.seen[file, frame.f_lineno, name] += 1
                return
            frame = frame.f_back

    def mode(self):
        from torch.utils._python_dispatch import TorchDispatchMode

        watch = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                watch.note(func.name().partition(".")[0], sys._getframe(1))
                return func(*args, **(kwargs or {}))

        return Mode()


@pytest.fixture
def watched_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Watch]]:
    watches: list[Watch] = []
    original = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def bootstrap(self: threading.Thread) -> None:
        with watches[0].mode():
            original(self)

    monkeypatch.setattr(threading.Thread, "_bootstrap_inner", bootstrap)
    yield watches


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_comments_agree_with_frames(
    program: Program, tmp_path: Path, watched_threads: list[Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = import_program(lay_out(program, tmp_path), program.name)
    watch = Watch(program.files)
    watched_threads.append(watch)
    torch.manual_seed(0)
    with watch.mode():
        call_main(module, lambda: None)
    problems = []
    for file, line in sorted(program.lines):
        here = [e for e in program.expectations if (e.file, e.line) == (file, line) and e.kind == "op"]
        seen = {name: n for (f, at, name), n in watch.seen.items() if (f, at) == (file, line)}
        for e in here:
            if e.only or "any" in e.names or "maybe" in e.names:
                continue
            n = sum(c for name, c in seen.items() if any(name_matches(w, name) for w in e.names))
            same = [o for o in here if o.names == e.names and not o.only]
            if n == 0:
                problems.append(f"{file}:{line} has no {e.names}; ops there: {sorted(seen)}")
            elif all(o.count is not None for o in same) and n != sum(o.count or 0 for o in same):
                problems.append(f"{file}:{line} has {n} of {e.names}, the comment says {e.count}")
    unexpected = {(f, at) for f, at, _ in watch.seen} - program.lines
    if "lenient" not in program.options:
        for place in sorted(unexpected):
            problems.append(f"{place} runs {[n for f, at, n in watch.seen if (f, at) == place]}")
    assert not problems, "\n".join(problems)


def test_a_raised_error_names_the_same_line(tmp_path: Path) -> None:
    """The frames that the dispatch mode sees are those of a traceback: raise at one op and compare."""
    import traceback

    from torch.utils._python_dispatch import TorchDispatchMode

    program = load_program(Path(__file__).parent.parent / "programs" / "multiline_expressions.py")
    module = import_program(lay_out(program, tmp_path), "raising")
    checked = 0
    for e in program.expectations:
        wanted = {e.line}

        class Raise(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None, wanted=wanted):
                frame = sys._getframe(1)
                while not frame.f_code.co_filename.endswith("multiline_expressions.py"):
                    frame = frame.f_back
                if frame.f_lineno in wanted:
                    raise LookupError
                return func(*args, **(kwargs or {}))

        with pytest.raises(LookupError) as caught, Raise():
            module.main()
        frames = [f for f in traceback.extract_tb(caught.value.__traceback__) if f.filename.endswith(program.run_as)]
        assert frames[-1].lineno == e.line
        checked += 1
    assert checked > 15


def test_the_format(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(
        "# program: lenient path=\"a b/c.py\" steps=none:0\n"
        "y = a @ b  # expect: aten::mm|aten::mul x2 module=fc backward=MmBackward0,TBackward0; any line=+1\n"
        "T = '''\n"
        "x = 1  # begin: <cell>  # expect: aten::add line=there\n"
        "z = 2  # mark: there\n"
        "'''  # end\n"
        "w = 0  # expect: torch::x* kind=autograd only=native\n"
    )
    p = load_program(path)
    assert p.options == {"lenient": "yes", "path": "a b/c.py", "steps": "none:0"}
    first, second, third, fourth = p.expectations
    assert (first.file, first.line, first.names, first.count) == ("c.py", 2, ("aten::mm", "aten::mul"), 2)
    assert first.backward == ("MmBackward0", "TBackward0") and first.fields == {"module": "fc"}
    assert (second.line, third.file, third.line) == (3, "<cell>", 2)
    assert (fourth.line, fourth.kind, fourth.only) == (7, "autograd", "native")
    path.write_text("y = 1  # expect: aten::mm colour=red\n")
    with pytest.raises(ValueError, match="colour=red"):
        load_program(path)


@pytest.mark.parametrize(
    ("wanted", "name", "matches"),
    [
        ("aten::add", "aten::add.Tensor", True),
        ("aten::add", "aten::add_", False),
        ("aten::add", "aten::addmm", False),
        ("SinBackward0", "autograd::engine::evaluate_function: SinBackward0", True),
        ("Torch-Compiled*", "Torch-Compiled Region: 0/0", True),
        ("torch::autograd::AccumulateGrad", "torch::autograd::AccumulateGrad", True),
        ("any", "anything", True),
    ],
)
def test_name_matching(wanted: str, name: str, matches: bool) -> None:
    assert name_matches(wanted, name) is matches
