"""Which source text is embedded, and when it is refused."""

from __future__ import annotations

import os
import time

import pytest

from neuron_explorer.trace.sources import MAX_BYTES
from neuron_explorer.trace.store import load

TEXT = "import torch\n\n\ndef f(x):\n    return x + 1\n\n\nclass A:\n    def g(self, x):\n        return f(x)\n"


@pytest.fixture
def project(tmp_path):
    directory = tmp_path / "project"
    directory.mkdir()
    file = directory / "model.py"
    file.write_text(TEXT)
    os.utime(file, (1_600_000_000, 1_600_000_000))
    return directory


def record(recording, project, frames=(("model.py", "A.g", 9, 10), ("model.py", "f", 4, 5)), text=None, **session):
    settings = {"stacks": True, "source": "all", **session.pop("settings", {})}
    one = recording(cwd=str(project), settings=settings, **session)
    process = one.process()
    node = 0
    for file, function, first, line in frames:
        name = file if file.startswith("<") else str(project / file)
        node = process.writer.frame(node, process.writer.code(name, function, first), line)
    if text is not None:
        process.writer.source(text[0], text[1])
    process.thread().op("a", 1, 2, stack=node)
    one.convert()
    return load(one.output)


def test_text_of_what_ran(recording, project):
    with record(recording, project) as trace:
        assert trace.source("model.py") == TEXT
        assert trace.metadata["sources"] == {"embedded": 1, "refused": {}}
        assert trace.metadata["discloses"]["source"] == "all"


def test_only_the_lines_that_frames_name(recording, project):
    with record(recording, project, settings={"source": "lines"}) as trace:
        assert trace.source("model.py").split("\n")[4] == "    return x + 1"
        assert [i for i, line in enumerate(trace.source("model.py").split("\n"), 1) if line] == [5, 10]


def test_none(recording, project):
    with record(recording, project, settings={"source": "none"}) as trace:
        assert trace.sources() == ()
        assert trace.metadata["discloses"]["source"] == "none"


def refused(trace):
    assert trace.sources() == ()
    (reason,) = trace.metadata["sources"]["refused"].values()
    return reason


def test_not_what_ran(recording, project):
    assert refused(record(recording, project, (("model.py", "f", 7, 8),))) == "differs from what ran"
    (project / "model.py").write_text("def f(:\n")
    os.utime(project / "model.py", (1_600_000_000, 1_600_000_000))
    assert refused(record(recording, project)) == "does not compile"


def test_changed_since(recording, project):
    os.utime(project / "model.py")
    started = time.time_ns() - 10**9
    assert refused(record(recording, project, start_unix_ns=started)) == "changed after the recording began"


def test_gone_large_or_no_file(recording, project):
    assert refused(record(recording, project, (("gone.py", "f", 1, 1),))) == "not found"
    (project / "model.py").write_text("x = 1\n" * (MAX_BYTES // 6 + 10))
    assert refused(record(recording, project)) == "larger than 1 MB"
    os.mkfifo(project / "pipe.py")
    assert refused(record(recording, project, (("pipe.py", "f", 1, 1),))) == "not a regular file"
    (project / "dir.py").mkdir()
    assert refused(record(recording, project, (("dir.py", "f", 1, 1),))) == "not a regular file"


def test_text_from_memory(recording, project):
    cell = "<ipython-input-1-abc>"
    with record(recording, project, ((cell, "<module>", 1, 1),), text=(cell, "y = 2\n")) as trace:
        assert trace.source(cell) == "y = 2\n"
    assert refused(record(recording, project, ((cell, "<module>", 1, 1),))) == "exists only in memory"


def test_code_made_by_dynamo_is_not_looked_for(recording, project):
    frames = (("model.py", "f", 4, 5), ("model.py", "torch_dynamo_resume_in_f_at_5", 5, 5))
    with record(recording, project, frames) as trace:
        assert trace.source("model.py") == TEXT


def test_encodings(recording, project):
    (project / "model.py").write_bytes("# -*- coding: latin-1 -*-\ndef f(x): return '\xe9'\n".encode("latin-1"))
    os.utime(project / "model.py", (1_600_000_000, 1_600_000_000))
    with record(recording, project, (("model.py", "f", 2, 2),)) as trace:
        assert "\xe9" in trace.source("model.py")
