"""Under a recording the compiler does what it does without one, whatever the way it is used.

Compilations, recompilations, breaks, calls of compiled graphs, cache entries and results are
compared for functions that are first called inside the recording and later outside it, and the
other way round.
"""

from __future__ import annotations

import json
import shutil
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
        assert facts["calls"]["graphs"] >= 2 and facts["calls"]["compiled"] >= 4, case
        assert all(facts["entries"]), case
        assert bool(facts["counters"].get("graph_break")) is ("breaks" in case), case
    assert _differences(alone, observed(recorder, backend)) == {}


@pytest.fixture(scope="module")
def with_inductor(warm_compiler, tmp_path_factory):
    """Training with sizes that vary, and inference with a break, through inductor; with its caches empty or full."""
    known = {}

    def run(recorder, filled):
        if (recorder, filled) not in known:
            cwd = tmp_path_factory.mktemp("inductor")
            if filled:
                run("off", False)
                shutil.copytree(known["folder"] / "inductor", cwd / "inductor")
            elif recorder == "off":
                known["folder"] = cwd
            done = warm_compiler.run(PROGRAM, recorder, "inductor", "1,6", cwd=cwd, convert=False)
            known[recorder, filled] = json.loads(done.stdout.splitlines()[-1])
        return known[recorder, filled]

    return run


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.parametrize("filled", [False, True], ids=["empty_cache", "full_cache"])
def test_inductor_does_the_same(with_inductor, recorder, filled):
    _skip_where_the_twin_disturbs(recorder)
    if recorder == "twin" and not filled:
        pytest.skip("compiling everything once more would be slow; with a full cache it is compared")
    alone = with_inductor("off", filled)
    for case, facts in alone.items():
        assert facts["counters"]["inductor"]["fxgraph_cache_hit" if filled else "fxgraph_cache_miss"] > 0, case
    assert _differences(alone, with_inductor(recorder, filled)) == {}
