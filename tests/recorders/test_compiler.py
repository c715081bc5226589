"""What is recorded of compilations; the programs are in compiled_scenarios.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neuron_explorer.trace.compile_phases import is_envelope, phase_of
from neuron_explorer.trace.compiles import PHASES

PROGRAM = Path(__file__).with_name("compiled_scenarios.py")
FILE = str(PROGRAM)


class Found:
    """What one scenario recorded, by attribute."""

    def __init__(self, facts):
        self.facts = facts
        own = [process for process in facts["processes"] if process["pid"] != facts.get("child")]
        for name in ("compilations", "phases", "recompiles", "breaks", "limits", "notes"):
            setattr(self, name, [record for process in own for record in process[name]])

    def __getitem__(self, name):
        return self.facts[name]

    def of(self, **wanted):
        return [c for c in self.compilations if all(c[k] == v for k, v in wanted.items())]


@pytest.fixture(scope="module")
def scenarios(warm_compiler, tmp_path_factory):
    cwd = tmp_path_factory.mktemp("scenarios")
    done = warm_compiler.run(PROGRAM, cwd=cwd)
    found = {name: Found(facts) for name, facts in json.loads(done.stdout.splitlines()[-1]).items()}
    for name, one in found.items():
        assert one["errors"] == {} or name == "own_fault", (name, one["errors"])
        assert one["missing"] == {} or name == "absent", (name, one["missing"])
    return found


def place(line, function):
    return {"file": FILE, "line": line, "function": function}


# Compilations and their parts ----------------------------------------------------------------


def test_forward_and_backward_are_compilations(scenarios):
    found = scenarios["training"]
    forward, backward = found.compilations
    assert (forward["trigger"], backward["trigger"]) == ("forward", "backward")
    assert forward["compile_id"] == backward["compile_id"]
    assert forward["backend"] == backward["backend"] == "aot_eager"
    assert forward["outcome"] == backward["outcome"] == "ok"
    assert forward["place"] == backward["place"]
    assert forward["place"]["file"] == FILE
    assert forward["place"]["function"].endswith("forward")
    assert forward["callers"][0]["line"] == found["caller"]
    assert backward["callers"][0]["line"] == found["caller"]
    assert forward["start"] < forward["end"] <= backward["start"] < backward["end"]
    assert forward["nth"] == 1
    assert forward["limit"] > 1


def test_phases_lie_inside_their_compilation_and_nest(scenarios):
    for name in ("training", "two_threads", "reasons"):
        found = scenarios[name]
        by_key = {c["key"]: c for c in found.compilations}
        for phase in found.phases:
            compilation = by_key[phase["key"]]
            assert compilation["start"] <= phase["start"] <= phase["end"] <= compilation["end"]
            assert compilation["thread"] == phase["thread"]
        for a in found.phases:
            for b in found.phases:
                if a is not b and a["thread"] == b["thread"] and a["start"] <= b["start"]:
                    assert b["start"] >= a["end"] or b["end"] <= a["end"]


def test_phases_have_names(scenarios):
    names = {phase["name"] for phase in scenarios["training"].phases}
    assert {"bytecode_tracing", "aot", "backend", "build_guards"} <= names
    assert names <= set(PHASES)


def test_graph_has_lines_modules_and_shapes(scenarios):
    found = scenarios["training"]
    graph = found.compilations[0]["graph"]
    assert [node["op"].rpartition(".")[2] for node in graph] == ["linear", "relu"] * 2
    assert {node["place"]["line"] for node in graph} == {found["block"]}
    assert {node["place"]["file"] for node in graph} == {FILE}
    linear = [node for node in graph if "linear" in node["op"]]
    assert json.loads(linear[0]["shapes"])[0] == [2, 4]
    assert json.loads(linear[0]["dtypes"])[0] == "float32"
    assert [node["module"] for node in linear] == ["blocks.0.linear", "blocks.1.linear"] or {
        node["module"] for node in linear
    } == {"blocks"}  # a loop over a ModuleList has no index in some versions of torch
    assert found.compilations[0]["graph_ops"] == 4
    assert json.loads(found.compilations[0]["inputs"])["x"] == {"shape": [2, 4], "dtype": "float32"}


def test_guards(scenarios):
    forward = scenarios["reasons"].compilations[0]
    assert forward["guard_count"] > 0
    assert any(guard.endswith("== 2") for guard in forward["guards"])


# Recompilations ------------------------------------------------------------------------------


def test_reasons_of_recompilations(scenarios):
    found = scenarios["reasons"]
    recompiles = {r["key"]: r["reasons"][0] for r in found.recompiles}
    seen = []
    for compilation in found.compilations[1:]:
        reason = recompiles[compilation["key"]]
        seen.append((reason["cause"], reason["expected"], reason["actual"]))
    assert seen[0] == ("size", "3", "5")
    assert seen[1] == ("dtype", "float32", "float64")
    assert seen[2] == ("python_value", "2", "4")  # of the first version, which differs in nothing else
    assert seen[3] == ("grad_mode", "True", "False")
    assert seen[4][0] == "requires_grad"
    assert [c["nth"] for c in found.compilations] == [1, 2, 3, 4, 5, 6]
    assert {c["callers"][0]["line"] for c in found.compilations} == {found["caller"]}


def test_every_cache_entry_has_its_reason(scenarios):
    found = scenarios["reasons"]
    assert [len(r["reasons"]) for r in found.recompiles] == [1, 2, 3, 4, 5]
    assert {reason["entry"] for reason in found.recompiles[2]["reasons"]} == {"0/0", "0/1", "0/2"}
    value = [r for r in found.recompiles[2]["reasons"] if r["cause"] == "python_value"]
    assert all((r["source"], r["expected"], r["actual"]) == ("n", "2", "4") for r in value)


def test_found_value_is_looked_up_without_asking_the_object(scenarios):
    reason = scenarios["attribute"].recompiles[0]["reasons"][0]
    assert reason["expected"] == "1"
    assert reason["actual"] == "7.5"


def test_limit_is_no_compilation(scenarios):
    found = scenarios["limit"]
    assert len(found.compilations) == 2
    (limit,) = found.limits
    assert limit["kind"] == "recompile_limit"
    assert limit["limit"] == 2
    assert limit["place"]["function"] == "scaled"
    assert [reason["expected"] for reason in limit["reasons"]] == ["1", "0"]
    assert {c["limit"] for c in found.compilations} == {2}


def test_accumulated_limit(scenarios):
    (limit,) = scenarios["accumulated_limit"].limits
    assert limit["kind"] == "accumulated_recompile_limit"
    assert limit["limit"] == 2
    assert len(scenarios["accumulated_limit"].compilations) == 2


# Breaks, restarts, failures ------------------------------------------------------------------


def test_graph_break_and_restart(scenarios):
    found = scenarios["breaks"]
    first, second = found.breaks
    assert first["place"] == place(found["line"], "broken")
    assert "graph_break" in first["type"]
    assert first["explanation"]
    assert first["hints"]
    restarted = found.of(outcome="restarted")
    assert [c["key"] for c in restarted] == [first["key"], second["key"]]
    ids = {c["compile_id"] for c in restarted}
    attempts = [c for c in found.compilations if c["compile_id"] in ids]
    assert [(c["attempt"], c["outcome"]) for c in attempts] == [(0, "restarted"), (1, "ok")] * 2
    assert all(c["restart_reasons"] for c in restarted)
    resumed = [c for c in found.compilations if "resume" in c["place"]["function"]]
    assert len(resumed) == 2
    assert resumed[0]["callers"][0]["function"] == "broken"


def test_recompilation_that_is_an_error(scenarios):
    found = scenarios["error_on_recompile"]
    assert found["raised"] == ["RecompileError", False]
    assert [c["outcome"] for c in found.compilations] == ["ok", "failed"]
    (recompile,) = found.recompiles
    reason = recompile["reasons"][0]
    assert (reason["cause"], reason["expected"], reason["actual"]) == ("python_value", "1", "2")


def test_function_that_cannot_be_broken_runs_eagerly(scenarios):
    found = scenarios["unbreakable"]
    assert found["result"] == [4.0, 4.0]
    assert found.compilations[-1]["outcome"] in ("failed", "skipped")
    assert found.breaks[0]["place"]["function"] == "in_a_loop"


def test_failures(scenarios):
    found = scenarios["failures"]
    assert found["raised"] == [["Unsupported", False], ["BackendCompilerFailed", False]]
    unsupported, backend = found.compilations
    assert unsupported["outcome"] == backend["outcome"] == "failed"
    assert unsupported["failure"]["type"] == "Unsupported"
    assert unsupported["failure"]["file"] == FILE
    assert "of the backend" in backend["failure"]["reason"]
    assert backend["graph_ops"] == 2


# Threads, processes --------------------------------------------------------------------------


def test_two_threads_at_once(scenarios):
    found = scenarios["two_threads"]
    (backward,) = found.of(trigger="backward")
    (second,) = [c for c in found.of(trigger="forward") if c["place"]["function"].endswith("second")]
    assert backward["thread"] != second["thread"]
    assert backward["start"] < second["end"]
    assert second["start"] < backward["end"]
    assert backward["place"]["function"].endswith("first")
    assert second["tracing_ops"] == -1  # whose they were is not known


def test_compiled_autograd(scenarios):
    found = scenarios["compiled_autograd"]
    assert {c["trigger"] for c in found.compilations} == {"compiled_autograd"}
    capture, compiled = found.compilations[0], found.compilations[-1]
    assert capture["compile_id"].startswith("!")
    assert compiled["compile_id"].startswith(capture["compile_id"] + "/")
    assert compiled["outcome"] == "ok"


def test_forked_child_has_records_of_its_own(scenarios):
    found = scenarios["forked"]
    assert found["status"] == 0
    assert [c["place"]["function"] for c in found.compilations] == ["scaled"]
    (child,) = [p for p in found["processes"] if p["pid"] == found["child"]]
    assert {c["place"]["function"] for c in child["compilations"]} == {"in_a_loop"}


# Observer effect -----------------------------------------------------------------------------


def test_everything_is_put_back(scenarios):
    found = scenarios["removal"]
    assert found["replaced"] == ["backend", "break", "event", "frame", "instant", "limit", "reasons"]
    assert found["kept"] == []
    assert found["processes"] == []  # nothing compiled, nothing written


def test_what_the_program_replaced_meanwhile_stays(scenarios):
    found = scenarios["wrapped_in_between"]
    assert found["stays"]
    assert found["calls"] == 2
    assert found["result"] == [3.0, 3.0]
    assert len(found.compilations) == 1


def test_pause(scenarios):
    found = scenarios["paused"]
    assert [c["nth"] for c in found.compilations] == [1, 3]
    assert [len(r["reasons"]) for r in found.recompiles] == [2]


def test_fault_of_the_recorder_is_counted(scenarios):
    found = scenarios["own_fault"]
    assert found["result"] == [2.0, 2.0]
    assert any("LookupError" in text for text in found["errors"])
    assert any("LookupError" in text for text in found.notes)


def test_it_is_told_when_a_thread_compiles(scenarios):
    flags = scenarios["flagged"]["flags"]
    assert flags["well"] == flags["failure"] == [True, False]
    assert flags["fault"][0] is True
    assert flags["fault"][-1] is False
    assert flags["backward"] == [True, False, True, False]
    assert flags["capture"][-2:] == [True, False]
    last = scenarios["flagged"].compilations
    assert [(c["trigger"], c["outcome"]) for c in last] == [("compiled_autograd", "failed"), ("forward", "ok")]


def test_lists_of_torch_are_left_alone(scenarios):
    assert scenarios["untouched"]["same"]


def test_nothing_is_kept_alive(scenarios):
    assert scenarios["nothing_kept_alive"]["alive"] == [False, False]


def test_absent_names_are_said(scenarios):
    found = scenarios["absent"]
    assert set(found["missing"]) == {"recompile_limit", "compile_caches"}
    assert [c["outcome"] for c in found.compilations] == ["ok", "ok"]
    assert found.recompiles[0]["reasons"][0]["cause"] == "python_value"
    assert len(found.notes) == 2


# On request ----------------------------------------------------------------------------------


def test_warnings(scenarios):
    found = scenarios["warned"]
    ((own, here, line, message),) = found["said"]
    assert own
    assert here
    assert line == found["line"]
    assert "scaled" in message
    assert "the value of n changed (expected 1, found 2)" in message
    assert "version 2 of at most 3" in message
    assert found["result"] == [4.0, 4.0]
    assert found["stderr"].count("neuron-explorer: torch.compile") == 2
    assert "gives up" in found["stderr"]


def test_full(scenarios):
    found = scenarios["full"]
    assert found["listening"]
    assert found["left"] == []
    facts = found.compilations[0]["facts"]
    assert facts["dynamo_output_graph_characters"] > 100


# Names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("bytecode_tracing", "bytecode_tracing"),
        ("GraphLowering.run", "lowering"),
        ("CachingAutotuner.benchmark_all_configs", "autotuning"),
        ("_recursive_post_grad_passes", "graph_passes"),
        ("async_compile.wait", "kernel_compile"),
        ("pgo.get_local_code_state", "cache"),
        ("PythonWrapperCodegen.generate", "code_generation"),
        ("something new", "other"),
    ],
)
def test_names_of_phases(label, name):
    assert phase_of(label) == name
    assert not is_envelope(label)


def test_names_of_wholes():
    assert all(map(is_envelope, ("dynamo", "entire_frame_compile", "compile_attempt_3", "compiled_autograd")))
