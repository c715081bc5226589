"""Graphs as torch prints them, read back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from neuron_explorer.trace.importers.torch_trace.graphs import guards_of, read_printed_graph

GRAPH = """class GraphModule(torch.nn.Module):
    def forward(self, s0: "Sym(s0)", L_x_: "f32[2, s0][s0, 1]cpu", L_w_: "bf16[4, 2][2, 1]cuda:0"):
        l_x_ = L_x_
        l_w_ = L_w_

        # File: /home/u/a model.py:4 in forward, code: a = x * 2, (y: z in q)
        a: "f32[2, s0][s0, 1]cpu" = l_x_ * 2.0;  l_x_ = None
        b: "f32[2, 4][4, 1]cpu" = torch._C._nn.linear(a, l_w_, bias = None)

         # File: /home/u/model.py:5 in inner, code: return torch.cat([b, "x, y", b], dim=1)
        c: "f32[2, 8][8, 1]cpu" = torch.cat([b, b], dim = 1);  b = None
        d = c.split(4, dim = -1)
        e: "f32[2, 4][8, 1]cpu" = d[0];  d = None

        # No stacktrace found for following nodes
        f = torch.ops.aten.add_.Tensor(e, -e);  f = None
        g: "b8[2, 4][4, 1]cpu" = e >= s0
        h = -e
        i = self.layer(h, mode = 'a, b (c')
        return (g,)
"""

WANT: list[tuple[str, int, Any, Any]] = [
    ("mul", 4, [[2, "s0"], None], ["float32", None]),
    ("torch._C._nn.linear", 4, [[2, "s0"], [4, 2], None], ["float32", "bfloat16", None]),
    ("torch.cat", 5, [[[2, 4], [2, 4]], None], [["float32", "float32"], None]),
    ("split", 5, [[2, 8], None, None], ["float32", None, None]),
    ("getitem", 5, None, None),
    ("aten.add_.Tensor", -1, [[2, 4], None], ["float32", None]),
    ("ge", -1, [[2, 4], None], ["float32", None]),
    ("neg", -1, [[2, 4]], ["float32"]),
    ("layer", -1, None, None),
]


def test_every_call_with_its_line_and_arguments():
    graph = read_printed_graph(GRAPH)
    found = [
        (n.op, n.place.line if n.place else -1, *(json.loads(t) if t else None for t in (n.shapes, n.dtypes)))
        for n in graph.nodes
    ]
    assert found == WANT
    assert graph.operators == len(WANT) and not graph.truncated
    assert graph.inputs == {
        "L_x_": {"shape": [2, "s0"], "dtype": "float32"}, "L_w_": {"shape": [4, 2], "dtype": "bfloat16"},
    }  # fmt: skip
    assert {n.place.file for n in graph.nodes if n.place} == {"/home/u/a model.py", "/home/u/model.py"}


def test_a_signature_over_several_lines():
    graph = read_printed_graph(
        "class f(torch.nn.Module):\n    def forward(\n        self,\n        "
        'primals_1: "f32[4][1]cpu",  # PlainAOTInput(idx=0)\n    ):\n'
        '        t: "f32[4][1]cpu" = torch.ops.aten.neg.default(primals_1);  primals_1 = None\n'
        "        return (\n            t,\n        )\n"
    )
    assert [(n.op, n.shapes) for n in graph.nodes] == [("aten.neg.default", "[[4]]")]


def test_more_than_is_kept_is_counted():
    graph = read_printed_graph(GRAPH, 3)
    assert len(graph.nodes) == 3 and graph.operators == len(WANT) and graph.truncated


@pytest.mark.parametrize(
    ("line", "guard"),
    [
        ("| +- EQUALS_MATCH: L['k'] == 2.0              # y = x * k  # a.py:5 in f",
         "L['k'] == 2.0  # y = x * k  # a.py:5 in f"),
        ("| | +- LENGTH_CHECK: len(L['args']) == 7   ", "len(L['args']) == 7"),
        ("| +- GuardManager: source=L['k'], accessed_by=X", None),
        ("| | | +- NO_TENSOR_ALIASING", None),
        ("Guard latency = 65.16 us", None),
    ],
)  # fmt: skip
def test_guards(line, guard):
    assert guards_of("TREE_GUARD_MANAGER:\n+- RootGuardManager\n" + line) == (
        ((guard,), 1) if guard is not None else ((), 0)
    )
