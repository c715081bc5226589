"""Call trees: known answers on paper, and properties against sums made path by path."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import OTHER, MemoryTrace, event, memory_trace, metadata, rows_of

from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.bottlenecks import by_line
from neuron_explorer.analysis.call_tree import call_tree, top_down
from neuron_explorer.analysis.callers import bottom_up, callers
from neuron_explorer.analysis.contexts import contexts
from neuron_explorer.analysis.questions import ask
from neuron_explorer.analysis.sandwich import Target, around, find, functions, sandwich
from neuron_explorer.analysis.selection import select
from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.store import load

# train.py:9 main -> torch (a library) -> model.py:3 f, which calls itself once; train.py:10 main -> step
FRAMES = [
    (1, -1, "train.py", 9, "main"),
    (2, 1, "torch/module.py", 7, "_call", False),
    (3, 2, "model.py", 3, "f"),
    (4, 3, "model.py", 4, "f"),
    (5, 3, "model.py", 3, "f"),
    (6, -1, "train.py", 10, "main"),
    (7, 6, "torch/optim.py", 5, "step", False),
]
LINE = {3: ("model.py", 3), 4: ("model.py", 4), 5: ("model.py", 3), 7: ("train.py", 10)}


def op(name, start, self_ns, stack, **more):
    file, line = LINE[stack]
    return event(name, start, self_ns, stack=stack, file=file, line=line, attribution="stack", **more)


def training():
    return memory_trace(
        [
            op("mm", 0, 100, 3, phase="forward"),
            op("mm", 200, 10, 5, phase="forward"),
            op("add", 300, 20, 4, phase="forward"),
            op("MmBackward0", 400, 50, 3, kind="autograd", phase="backward", lane=OTHER),
            op("add_", 500, 7, 7, phase="optimizer"),
            op("add_", 510, 8, 7, phase="optimizer"),
            event("AccumulateGrad", 600, 5, kind="autograd", attribution="parameter_gradient"),
            event("next", 700, 30, kind="data_wait", file="data.py", line=2, attribution="stack"),
        ],
        frames=FRAMES,
    )


def shown(tree):
    """Every node as its path of names, with self and total."""
    paths, found = [], {}
    for node in tree.nodes:
        name = f"{node.file}:{node.line}" if node.kind == "frame" else node.name or node.kind
        paths.append((*(paths[node.parent] if node.parent >= 0 else ()), name))
        found["/".join(paths[-1][1:])] = (node.self_ns, node.total_ns)
    return found


def test_top_down_on_paper():
    tree = call_tree(training())
    assert shown(tree) == {
        "": (0, 230),
        "train.py:9": (0, 180),
        "train.py:9/model.py:3": (150, 180),
        "train.py:9/model.py:3/mm": (100, 100),
        "train.py:9/model.py:3/MmBackward0": (50, 50),
        "train.py:9/model.py:3/model.py:4": (20, 20),
        "train.py:9/model.py:3/model.py:4/add": (20, 20),
        "train.py:9/model.py:3/model.py:3": (10, 10),
        "train.py:9/model.py:3/model.py:3/mm": (10, 10),
        "data.py:2": (30, 30),
        "data.py:2/next": (30, 30),
        "train.py:10": (15, 15),
        "train.py:10/add_": (15, 15),
        "parameter_gradient": (5, 5),
        "parameter_gradient/AccumulateGrad": (5, 5),
    }
    assert [n.kind for n in tree.nodes if n.name == "parameter_gradient"] == ["reason"]
    (f,) = (n for n in tree.nodes if (n.line, n.depth) == (3, 2))
    assert (f.backward_ns, f.calls, f.launches) == (50, 4, 3)
    assert any("backward operators stand below" in note for note in tree.notes)


def test_frames_of_libraries_on_request():
    tree = shown(call_tree(training(), frames="all"))
    assert tree["train.py:9/torch/module.py:7/model.py:3"] == (150, 180)
    assert tree["train.py:10/torch/optim.py:5/add_"] == (15, 15)
    assert tree["data.py:2"] == (30, 30)  # without a stack, its line alone


def test_functions_put_their_lines_together():
    tree = call_tree(training(), level="function")
    (main,) = (n for n in tree.nodes if n.name == "main")
    assert (main.total_ns, main.line) == (195, 9)  # of its lines, the one with most time
    f = [(n.depth, n.self_ns, n.total_ns) for n in tree.nodes if n.name == "f"]
    assert f == [(2, 150, 180), (3, 30, 30)]


def test_bottom_up_on_paper():
    tree = shown(bottom_up(training()))
    assert tree["mm"] == (0, 110)
    assert tree["mm/model.py:3"] == (0, 110)
    assert tree["mm/model.py:3/train.py:9"] == (100, 100)
    assert tree["mm/model.py:3/model.py:3/train.py:9"] == (10, 10)
    assert tree["AccumulateGrad/parameter_gradient"] == (5, 5)
    lines = shown(bottom_up(training(), roots="line"))
    assert lines["model.py:3"] == (0, 160)
    assert lines["model.py:4/model.py:3/train.py:9"] == (20, 20)


def test_recursion_counts_once_in_a_sandwich():
    s = sandwich(training(), Target("model.py", "f"))
    assert (s.self_ns, s.total_ns, s.backward_ns, s.depth) == (180, 180, 50, 2)
    assert shown(s.callers) == {"": (0, 180), "train.py:9": (180, 180)}
    assert shown(s.callees) == {"": (180, 180), "mm": (110, 110), "MmBackward0": (50, 50), "add": (20, 20)}
    line = sandwich(training(), Target("model.py", line=3))
    assert (line.self_ns, line.total_ns, line.depth) == (160, 180, 2)
    assert shown(line.callees)["model.py:4/add"] == (20, 20)
    assert sandwich(training(), Target("model.py", "g")) is None
    assert sandwich(training(), Target("torch/module.py", "_call")) is None
    assert sandwich(training(), Target("torch/module.py", "_call"), frames="all").total_ns == 180


def test_functions_by_total_time():
    rows = functions(contexts(training()))
    assert [(r.function, r.self_ns, r.total_ns) for r in rows] == [("main", 15, 195), ("f", 180, 180), ("", 30, 30)]
    assert find(rows, "f") == find(rows, "model.py:f") == Target("model.py", "f")
    assert find(rows, "model.py:3") == Target("model.py", line=3)
    assert find(rows, "other.py:f") is find(rows, "nothing") is find(rows, "") is None


def test_smaller_nodes_together_still_add_up():
    c = contexts(training())
    for limit in range(8):
        for tree in (top_down(c, limit=limit), callers(c, limit=limit)):
            assert parts_add_up(tree)
            assert len(tree.nodes) <= 2 * limit + 2
    (more,) = (n for n in top_down(c, limit=1).nodes if n.kind == "more" and n.depth == 1)
    assert (more.hidden, more.total_ns) == (3, 50)


def test_a_selection_is_followed():
    trace = training()
    assert call_tree(trace, selection=select(trace, "all")).whole_ns == 230
    with pytest.raises(ValueError, match="frames"):
        call_tree(trace, frames="some")
    with pytest.raises(ValueError, match="level"):
        call_tree(trace, level="file")
    with pytest.raises(ValueError, match="roots"):
        bottom_up(trace, roots="module")


def test_nothing_ran():
    for tree in (call_tree(memory_trace([])), bottom_up(memory_trace([])), bottom_up(memory_trace([]), roots="line")):
        assert (len(tree.nodes), tree.whole_ns) == (1, 0)
    assert functions(contexts(memory_trace([]))) == ()


def test_a_trace_that_does_not_tell_user_frames_is_shown_whole():
    frames = [(*frame[:5], False) for frame in FRAMES]
    tree = call_tree(memory_trace([op("mm", 0, 100, 3)], frames=frames))
    assert shown(tree)["train.py:9/torch/module.py:7/model.py:3/mm"] == (100, 100)
    assert tree.frames == "all"
    assert any("so all are shown" in note for note in tree.notes)


def test_frames_that_call_each_other_in_a_circle_or_are_not_there():
    frames = [(1, 2, "a.py", 1, "a"), (2, 1, "a.py", 2, "b"), (3, 2, "a.py", 3, "c"), (4, 99, "a.py", 4, "d"),
              (5, 5, "a.py", 5, "e"), (4, 1, "z.py", 1, "again")]  # fmt: skip
    events = [event("x", 10 * s, 1, stack=s, file="a.py", line=s, attribution="stack") for s in (1, 3, 4, 5, 77)]
    tree = call_tree(memory_trace(events, frames=frames))
    assert parts_add_up(tree)
    assert tree.whole_ns == 5
    assert shown(tree)["a.py:77/x"] == (1, 1)  # no such frame: its line


def test_times_beyond_64_bits_are_refused():
    events = [event(name, at, 1 << 62, stack=3, file="model.py", line=3) for at, name in enumerate(("a", "b", "c"))]
    with pytest.raises(BadTraceError):
        contexts(memory_trace(events, frames=FRAMES))


def test_recursion_of_thousands_of_frames():
    depth = 3000
    frames = [(i, i - 1 if i > 1 else -1, "a.py", 1, "f") for i in range(1, depth + 1)]
    at = {"file": "a.py", "line": 1, "attribution": "stack"}
    trace = memory_trace([event("x", i, 1, stack=i, **at) for i in range(1, depth + 1)], frames=frames)
    c = contexts(trace)
    assert max(n.depth for n in call_tree(trace, limit=10**6).nodes) == depth + 1
    for tree in (call_tree(trace), bottom_up(trace)):
        assert parts_add_up(tree)
        assert tree.whole_ns == depth
        assert len(tree.nodes) <= 4002
    s = around(c, Target("a.py", "f"))
    assert (s.total_ns, s.self_ns, s.depth, len(s.callers.nodes)) == (depth, depth, depth, 1)
    (row,) = functions(c)
    assert row.total_ns == depth


SAMPLES = sorted((Path(__file__).parents[2] / "sample_traces").glob("*.parquet"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_lines_of_a_recording_are_those_of_the_table(path):
    with load(path) as trace:
        tree = call_tree(trace, limit=10**6)
        table = by_line(trace)
        assert parts_add_up(tree) and parts_add_up(bottom_up(trace))
        assert tree.whole_ns == table.self_ns
        for name in ("launches", "calls", "without_end"):
            assert getattr(tree.nodes[0], name) == sum(getattr(row, name) for row in table.rows)
        lines: dict[tuple[str, int], int] = {}
        for node in tree.nodes:
            if node.kind == "frame":
                lines[node.file, node.line] = lines.get((node.file, node.line), 0) + node.self_ns
        assert {(r.file, r.line): r.self_ns for r in table.rows if r.file}.items() <= lines.items()
        assert sum(lines.values()) == sum(r.self_ns for r in table.rows if r.file)


def parts_add_up(tree):
    """Of each node with children, their totals and what belongs to none of them are its total."""
    below: dict[int, list] = {}
    for node in tree.nodes[1:]:
        below.setdefault(node.parent, []).append(node)
    for at, node in enumerate(tree.nodes):
        parts = below.get(at, [])
        own = node.self_ns if tree.order == "up" or not parts else 0
        for name in ("total_ns", "backward_ns", "calls", "launches"):
            whole, sum_of = getattr(node, name), sum(getattr(part, name) for part in parts)
            if name == "total_ns":
                assert sum_of + (own if node.kind != "more" else whole) == whole or at == 0 == whole
            elif tree.order == "down" and parts:
                assert sum_of == whole
        assert 0 <= node.self_ns <= node.total_ns
    return True


@st.composite
def programs(draw):
    """Frames with their callers before them, and events that name any of them, or none."""
    count = draw(st.integers(0, 8))
    own_code = draw(st.sets(st.sampled_from("fgh")))
    frames = []
    for number in range(1, count + 1):
        parent = draw(st.integers(0, number - 1)) or -1
        function, line = draw(st.sampled_from("fgh")), draw(st.integers(1, 2))
        frames.append((number, parent, f"{function}.py", line, function, function in own_code))
    events = []
    for at in range(draw(st.integers(0, 12))):
        stack = draw(st.integers(0, count)) or -1
        has_line = stack > 0 or draw(st.booleans())
        where = {"file": "own.py", "line": 1, "function": "own"} if has_line else {"attribution": "no_python_frame"}
        phase = draw(st.sampled_from(["forward", "backward"]))
        self_ns = draw(st.integers(-1, 50))
        events.append(event(draw(st.sampled_from(["mm", "add"])), 100 * at, self_ns, stack=stack, phase=phase, **where))
    return frames, events


def brute_force(frames, events, only_user, level):
    """Each event's path from the outside to its operator, with its self time."""
    known = {f[0]: f for f in frames}
    only_user = only_user and any(f[5] for f in frames)
    found = []
    for e in events:
        c = e.columns
        path, at = [], c["stack"]
        while at in known:
            path.insert(0, known[at])
            at = known[at][1]
        path = [f for f in path if f[5] or not only_user]
        labels = [(f[2], f[4], *((f[3],) if level == "line" else ())) for f in path]
        if not labels:
            own = ("own.py", "own", *((1,) if level == "line" else ()))
            labels = [own if "file" in c else ("", c["attribution"])]
        found.append((tuple(labels), e.name, max(e.duration, 0)))
    return found


@settings(max_examples=15, deadline=None)
@given(programs(), st.sampled_from(["user", "all"]), st.sampled_from(["line", "function"]), st.randoms())
def test_sums_are_those_made_path_by_path(program, kept, level, random):
    frames, events = program
    rows = rows_of(events, [], None, frames)
    trace = MemoryTrace(rows, metadata())
    paths = brute_force(frames, events, kept == "user", level)
    whole = sum(ns for _, _, ns in paths)
    c = contexts(trace)
    down, up = top_down(c, frames=kept, level=level), callers(c, frames=kept, level=level)
    assert parts_add_up(down) and parts_add_up(up)
    assert down.whole_ns == up.whole_ns == whole
    assert sum(n.self_ns for n in down.nodes if n.kind in ("frame", "reason")) == whole
    wanted: dict[tuple, int] = {}
    inverted: dict[tuple, int] = {}
    for labels, name, ns in paths:
        for end in range(1, len(labels) + 1):
            wanted[labels[:end]] = wanted.get(labels[:end], 0) + ns
            inverted[(name, *labels[::-1][:end])] = inverted.get((name, *labels[::-1][:end]), 0) + ns
        wanted[(*labels, name)] = wanted.get((*labels, name), 0) + ns
        inverted[(name,)] = inverted.get((name,), 0) + ns
    assert labelled(down, level) == wanted
    assert labelled(up, level) == inverted
    for tree, limited in ((down, top_down), (up, callers)):
        few = limited(c, frames=kept, level=level, limit=3)
        assert parts_add_up(few)
        largest = sorted((n.total_ns for n in tree.nodes[1:]), reverse=True)[:3]
        assert sorted((n.total_ns for n in few.nodes[1:] if n.kind != "more"), reverse=True) == largest
        assert labelled(few, level, "more").items() <= labelled(tree, level).items()
    for row in functions(c, frames=kept, level=level):
        label = (row.file, row.function, *((row.line,) if level == "line" else ()))
        assert row.total_ns == sum(ns for labels, _, ns in paths if label in labels)
        assert row.self_ns == sum(ns for labels, _, ns in paths if labels[-1] == label)
        s = around(c, Target(row.file, row.function), frames=kept)
        inside = [(labels, ns) for labels, _, ns in paths if any(x[:2] == label[:2] for x in labels)]
        assert s.total_ns == s.callers.whole_ns == s.callees.whole_ns == sum(ns for _, ns in inside)
        assert s.self_ns == sum(ns for labels, ns in inside if labels[-1][:2] == label[:2])
        assert parts_add_up(s.callees) and parts_add_up(s.callers)
    random.shuffle(rows)
    again = contexts(MemoryTrace(rows, metadata()))
    assert top_down(again, frames=kept, level=level) == down
    assert callers(again, frames=kept, level=level) == up


def labelled(tree, level, without=None):
    """Totals by path of labels; ``without``: a kind of nodes to leave out."""
    paths, found = [()], {}
    for node in tree.nodes[1:]:
        label = node.name
        if node.kind == "frame":
            label = (node.file, node.name, *((node.line,) if level == "line" else ()))
        elif node.kind == "reason":
            label = ("", node.name)
        paths.append((*paths[node.parent], label))
        if node.kind != without:
            found[paths[-1]] = node.total_ns
    return found


def test_reports_of_trees_fit_and_add_up():
    for top in (1, 2, 3, 5, 20):
        for name in ("call-tree", "bottom-up"):
            (table,) = ask(training(), name, Ask(top=top)).tables
            rows = table.records()
            assert len(rows) <= max(top, 2) and rows[0]["total_ns"] == 230
            if name == "call-tree" and top > 1:
                assert sum(r["total_ns"] for r in rows if r["parent"] == 0) == 230
    answer = ask(training(), "sandwich", Ask(target="torch/module.py:_call"))  # a library's: found all the same
    assert answer.table("callees").records()[0]["total_ns"] == 180
    (callers,) = ask(training(), "bottom-up", Ask(target="mm")).tables
    assert callers.records()[0]["total_ns"] == 110
    for name, target in (("sandwich", "g"), ("sandwich", ""), ("bottom-up", "m"), ("call-tree", "f")):
        with pytest.raises(ValueError, match=r"target|called|nothing ran"):
            ask(training(), name, Ask(target=target))
