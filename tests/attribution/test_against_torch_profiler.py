"""The same program under torch.profiler: both saw the same operators, as often, in the same order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from trace_rows import read_rows

pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent
PROGRAMS = (
    "nested_modules", "conv_batchnorm", "custom_function", "double_backward", "checkpoint_reentrant",
    "optimizer_adamw_foreach", "vmap_and_grad", "operators", "recurrent", "backward_hooks", "in_place_and_views",
)  # fmt: skip

CHILD = """
import json, sys, warnings
from pathlib import Path
sys.path.insert(0, {here!r})
warnings.simplefilter("ignore")
import torch
from torch.profiler import ProfilerActivity
import neuron_explorer
from program_expectations import PROGRAMS, load_program
from program_loading import call_main, import_program, lay_out

for name in sys.argv[1:]:
    module = import_program(lay_out(load_program(PROGRAMS / f"{{name}}.py"), Path(".")), name)
    call_main(module, lambda: None)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as prof:
        call_main(module, lambda: None)
    # Not prof.events(), which leaves out an operator that is the only child of its own namesake.
    events = sorted(prof.profiler.kineto_results.events(), key=lambda e: (e.start_ns(), -e.duration_ns()))
    names = [e.name() for e in events]
    with neuron_explorer.profile(f"{{name}}.parquet", recorder="native"):
        call_main(module, lambda: None)
    print(json.dumps({{"program": name, "names": names}}))
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    from neuron_explorer import _native

    try:
        _native.load()
    except _native.NativeUnavailable as error:
        pytest.skip(f"no native recorder: {error}")
    folder = tmp_path_factory.mktemp("torch_profiler")
    child = subprocess.run(
        [sys.executable, "-c", CHILD.format(here=str(HERE)), *PROGRAMS],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-3000:]
    said = [json.loads(line) for line in child.stdout.splitlines() if line.startswith('{"program"')]
    return folder, {s["program"]: s["names"] for s in said}


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_operators_in_the_same_order(program: str, both: tuple[Path, dict[str, list[str]]]) -> None:
    folder, theirs = both
    rows = [r for r in read_rows(folder / f"{program}.parquet").events if r["kind"] in ("op", "autograd", "range")]
    rows = [r for r in rows if r["process"] == rows[0]["process"]]
    ours = [_plain(r["name"]) for r in rows]
    other = [_plain(n) for n in theirs[program] if not n.startswith(("ProfilerStep", "[memory]"))]
    assert len(ours) > 10
    assert ours == other


def _plain(name: str) -> str:
    """Without the overload, which torch.profiler does not give."""
    return name.partition(".")[0] if name.startswith("aten::") else name
