"""What torch says, as a trace shows it; what a redacted trace keeps of it; which sources come along."""

from __future__ import annotations

import json

import pytest

from neuron_explorer.trace.compile_redact import redacted_detail
from neuron_explorer.trace.compile_spool import CompileWriter, path_in
from neuron_explorer.trace.compile_text import Texts, without_source
from neuron_explorer.trace.compiles import Compilation, GraphNode, Place, Reason, Recompile
from neuron_explorer.trace.paths import PathRules
from neuron_explorer.trace.redact import redact
from neuron_explorer.trace.store import load

SITE = "/home/me/venv/lib/python3.11/site-packages"


def texts(with_source=True, files=("/home/me/project/sub/model.py",), **settings):
    rules = PathRules({"cwd": "/home/me/project", "settings": settings})
    return Texts(rules, files, with_source=with_source)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("L['n'] == 2", "L['n'] == 2"),
        ("L['n'] == 2      # y = x * n  # me/project/sub/model.py:3 in f",
         "L['n'] == 2      # y = x * n  # sub/model.py:3 in f"),
        ("G == None  # _dynamo/output_graph.py:1122 in init", "G == None  # output_graph.py:1122 in init"),
        (f"x  # a = 1  # why  # {SITE}/transformers/model.py:7 in f (note)",
         "x  # a = 1  # why  # transformers/model.py:7 in f (note)"),
        ('from user code:\n  File "/home/me/project/sub/model.py", line 3, in f\n    y = x * n',
         'from user code:\n  File "sub/model.py", line 3, in f\n    y = x * n'),
        (f"skipped {SITE}/lib/x.py because of /home/me/project/a.py and /home/me/other/b.py",
         "skipped lib/x.py because of a.py and ~/other/b.py"),
        ("L['path'] == '/home/me/project/data.bin'", "L['path'] == 'data.bin'"),
        ("a / b == 2 and c/home/me/d", "a / b == 2 and c/home/me/d"),
    ],
)  # fmt: skip
def test_paths_in_texts_are_shown_as_in_columns(given, shown):
    assert texts()(given) == shown


def test_absolute_paths_stay():
    text = "x  # y = 1  # /home/me/project/sub/model.py:3 in f"
    assert texts(paths="absolute")(text) == text


def test_without_source_no_line_of_it_is_quoted():
    shown = texts(with_source=False)
    assert shown("x == 1  # y = secret  # a  # me/project/sub/model.py:3 in f") == "x == 1  # sub/model.py:3 in f"
    assert shown('  File "/home/me/project/sub/model.py", line 3, in f\n    y = secret\nend') == (
        '  File "sub/model.py", line 3, in f\nend'
    )
    assert without_source("x == 1  # y = secret  # sub/model.py:3 in f") == "x == 1  # sub/model.py:3 in f"


def test_texts_are_rewritten_quickly_whatever_they_hold():
    for text in ("  # " * 1000, "/a" * 2000, 'File "' * 600, "# " * 2000 + ":1 in x", "/" * 4000, "~/" * 2000):
        texts()(text)
        without_source(text)
        redacted_detail(json.dumps({"reason": text}), arguments=False, source=True, shorten=Shorten())


class Shorten:
    def __call__(self, file):
        return file.rpartition("/")[2]

    def inside(self, text):
        return text.replace("sub/model.py", "model.py")


RECOMPILE = {
    "cause": "size", "guard": "secret", "source": "secret", "expected": "4", "actual": "5", "dimension": 0,
    "caller_file": "sub/train.py", "caller_line": 3, "caller_function": "main", "nth": 2, "limit": 8,
    "reasons": [{"entry": "0/0", "cause": "python_value", "guard": "secret", "expected": "secret", "actual": "secret",
                 "text": "secret", "file": "sub/model.py", "line": 4}],
}  # fmt: skip


def test_without_arguments_classes_counts_and_places_stay():
    found = redacted_detail(json.dumps(RECOMPILE), arguments=True, source=False, shorten=None)
    assert json.loads(found) == {
        "cause": "size", "expected": "4", "actual": "5", "dimension": 0, "caller_file": "sub/train.py",
        "caller_line": 3, "caller_function": "main", "nth": 2, "limit": 8,
        "reasons": [{"entry": "0/0", "cause": "python_value", "file": "sub/model.py", "line": 4}],
    }  # fmt: skip
    compiled = {
        "guards": ["secret"], "failure": {"type": "E", "reason": "secret"}, "graph": [{"op": "mm", "x": "secret"}],
        "inputs": {"secret": 1}, "facts": {"a": "secret"}, "restart_reasons": ["secret"], "nth": 1,
    }  # fmt: skip
    found = redacted_detail(json.dumps(compiled), arguments=True, source=False, shorten=None)
    assert json.loads(found) == {"failure": {"type": "E"}, "graph": [{"op": "mm"}], "nth": 1}


def test_without_paths_files_lose_their_directories():
    detail = {**RECOMPILE, "guard": "x  # y = 1  # sub/model.py:4 in f", "explanation": "see /opt/secret/place.txt"}
    found = json.loads(redacted_detail(json.dumps(detail), arguments=False, source=True, shorten=Shorten()))
    assert (found["caller_file"], found["reasons"][0]["file"]) == ("train.py", "model.py")
    assert found["guard"] == "x  # model.py:4 in f"
    assert found["explanation"] == "see place.txt"


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "[" * 5000, '{"guards": {"a": 1}, "graph": 4, "reasons": [3]}'])
def test_details_that_are_none(text):
    redacted_detail(text, arguments=True, source=True, shorten=Shorten())


@pytest.fixture
def program(recording, tmp_path):
    """A file whose function only the compiler saw, and one that does not hold what is said of it."""
    (tmp_path / "model.py").write_text("import torch\n\n\ndef layer(x):\n    y = x + 1\n    return y * 2\n\n\nz = 3\n")
    (tmp_path / "other.py").write_text("def f():\n    pass\n")
    one = recording(cwd=str(tmp_path), start_unix_ns=(1 << 62), user_code={"include": None, "exclude": []})
    one.process().thread(os_thread=7).op("aten::relu", 10, 20)
    graph = (GraphNode("aten.add", Place(str(tmp_path / "model.py"), 5, "layer")),
             GraphNode("aten.mul", Place(str(tmp_path / "model.py"), 6, "layer")))  # fmt: skip
    reason = Reason("0/0: secretvalue", "python_value", "L['s'] == 'secretvalue'", "s", "'secretvalue'", "'b'")
    writer = CompileWriter(path_in(one.spool, 100))
    place = Place(str(tmp_path / "other.py"), 1, "not_in_this_file")
    writer.compilation(Compilation(1, "0/0", 0, 1_000_100, 1_000_900, 7, place, graph=graph))
    writer.recompile(Recompile(1, (reason,)))
    writer.close()
    return one


def test_sources_of_files_that_only_a_compiler_saw(program):
    with program.trace() as trace:
        assert trace.sources() == ("model.py",)
        assert "def layer" in trace.source("model.py")
        assert trace.metadata["sources"]["refused"] == {"other.py": "differs from what ran"}


def test_only_the_lines_that_ran(recording, program):
    program.session["settings"]["source"] = "lines"
    from neuron_explorer.trace import spool

    spool.write_session(program.spool, program.session)
    with program.trace() as trace:
        assert trace.source("model.py") == "\n\n\n\n    y = x + 1\n    return y * 2\n"


def test_no_sources(program):
    program.session["settings"]["source"] = "none"
    from neuron_explorer.trace import spool

    spool.write_session(program.spool, program.session)
    with program.trace() as trace:
        assert trace.sources() == ()


def test_a_redacted_copy_has_no_values(program, tmp_path):
    import pyarrow.parquet as pq

    program.convert()
    out = redact(program.output, tmp_path / "out.parquet")
    with load(out) as trace:
        row = trace.read(["name", "detail"], kinds=["recompile"]).to_pylist()[0]
        assert json.loads(row["detail"])["cause"] == "python_value"
        assert trace.metadata["discloses"]["compilations"] is False
    file = pq.ParquetFile(out)
    for group in range(file.num_row_groups):
        for column in file.read_row_group(group).columns:
            for chunk in column.chunks:
                assert "secret" not in str(getattr(chunk, "dictionary", chunk).to_pylist())
