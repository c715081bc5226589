"""Under a recording the compiler does what it does without one, whatever the way it is used.

Compilations, recompilations, breaks, calls of compiled graphs, cache entries and results are
compared for functions that are first called inside the recording and later outside it, and the
other way round.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neuron_explorer.trace.recorders import torch_private

PROGRAM = Path(__file__).with_name("observed_matrix.py")


@pytest.fixture(scope="module")
def observed(warm_compiler, tmp_path_factory):
    """What the program says of itself, per recorder and backend; each is run once."""
    known = {}

    def run(recorder, backend):
        if (recorder, backend) not in known:
            cwd = tmp_path_factory.mktemp("matrix")
            done = warm_compiler.run(PROGRAM, recorder, backend, cwd=cwd, convert=False)
            known[recorder, backend] = json.loads(done.stdout.splitlines()[-1])
        return known[recorder, backend]

    return run


def _skip_where_the_twin_disturbs(recorder):
    if recorder == "twin" and not torch_private.compiler_ignores_mode():
        pytest.skip("with this torch a dispatch mode makes torch.compile compile again; it warns")


def _differences(alone, recorded):
    """Case and field → both values, for what is not the same."""
    assert alone.keys() == recorded.keys()
    return {
        f"{case}: {field}": (facts[field], recorded[case][field])
        for case, facts in alone.items()
        for field in facts
        if facts[field] != recorded[case][field]
    }


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "neuron"])
def test_the_compiler_does_the_same(observed, recorder, backend):
    _skip_where_the_twin_disturbs(recorder)
    alone = observed("off", backend)
    if "missing" in alone:
        pytest.skip(f"no emulated device here: {alone['missing']}")
    assert len(alone) == 8
    for case, facts in alone.items():  # it is worth comparing
        assert facts["nothing_new"], case
        assert facts["calls"]["graphs"] >= 2 and facts["calls"]["compiled"] > facts["calls"]["graphs"], case
        assert all(facts["entries"]), case
        assert bool(facts["counters"].get("graph_break")) is ("breaks" in case), case
    assert _differences(alone, observed(recorder, backend)) == {}
