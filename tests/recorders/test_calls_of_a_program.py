"""Call trees of recorded programs, whose calls are counted by reading them."""

from __future__ import annotations

import neuron_explorer
from neuron_explorer.analysis.call_tree import top_down
from neuron_explorer.analysis.callers import callers
from neuron_explorer.analysis.contexts import contexts
from neuron_explorer.analysis.sandwich import Target, around, find, functions

PROGRAM = """
import sys, torch, neuron_explorer

x = torch.ones(4, 4)
layer = torch.nn.Linear(4, 4, bias=False)

def fall(n):
    torch.sin(x)
    if n:
        fall(n - 1)

def train():
    loss = layer(x).sum()
    loss.backward()

def main():
    fall(5)
    for _ in range(3):
        train()
    fall(0)

with neuron_explorer.profile("t.parquet", recorder=sys.argv[1]):
    main()
"""
SIN, AGAIN, FORWARD, BACKWARD, FIRST, TRAIN, LAST = 8, 10, 13, 14, 17, 19, 20


def lines(tree, at):
    """Lines of the program's functions from the outermost one in to a node."""
    found = []
    while at > 0:
        if tree.nodes[at].name in ("main", "train", "fall"):
            found.insert(0, tree.nodes[at].line)
        at = tree.nodes[at].parent
    return found


def test_calls_are_where_the_program_makes_them(run_python, tmp_path, recorder):
    run_python(PROGRAM, recorder)
    with neuron_explorer.load(tmp_path / "t.parquet") as trace:
        c = contexts(trace, "all")
    tree = top_down(c)
    sines = [(lines(tree, at), n.launches) for at, n in enumerate(tree.nodes) if n.name == "aten::sin"]
    assert sorted(sines) == sorted(
        [*(([FIRST, *[AGAIN] * deep, SIN], 1) for deep in range(6)), ([LAST, SIN], 1)]
    )  # fmt: skip
    # The backward of a matrix product stands below the line of its forward.
    products = [(at, n) for at, n in enumerate(tree.nodes) if n.name.startswith("MmBackward")]
    assert [(lines(tree, at), n.calls) for at, n in products] == [([TRAIN, FORWARD], 3)]
    assert all(n.backward_ns == n.total_ns for _, n in products)
    assert not any("torch" in n.file for n in tree.nodes)  # frames of libraries are folded
    whole = top_down(c, frames="all")
    assert any(n.name == "Linear.forward" and not n.user for n in whole.nodes)
    assert whole.whole_ns == tree.whole_ns == callers(c).whole_ns

    rows = functions(c)
    fall = around(c, find(rows, "fall"))
    (sine,) = (n for n in fall.callees.nodes if n.name == "aten::sin")
    assert (sine.launches, fall.launches, fall.depth, len(fall.callees.nodes)) == (7, 7, 6, 2)
    assert {n.line for n in fall.callers.nodes if n.depth == 1} <= {FIRST, LAST}
    assert sum(n.launches for n in fall.callers.nodes if n.depth == 1) == 7
    line = around(c, Target(fall.target.file, line=AGAIN))
    assert line.launches == 5
    up = callers(c)
    (at,) = (at for at, n in enumerate(up.nodes) if n.name == "aten::sin")
    assert [(n.line, n.launches) for n in up.nodes if n.parent == at] == [(SIN, 7)]
