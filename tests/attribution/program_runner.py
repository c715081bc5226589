"""Runs programs one after the other under ``profile()``, in a process of its own.

    python program_runner.py RECORDER FOLDER PROGRAM…

For each program it prints one JSON line before it starts and one when it is done, so that the
caller knows which one took the process down. After the recorded run it runs the program bare, and
compares results and random state bit for bit.
"""

from __future__ import annotations

import faulthandler
import json
import random
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from program_expectations import PROGRAMS, load_program
from program_loading import call_main, import_program, lay_out

SECONDS = 60


def _seeded(module: Any, step: Any) -> tuple[Any, Any]:
    import torch

    torch.manual_seed(0)
    random.seed(0)
    result = call_main(module, step)
    return result, (torch.get_rng_state(), random.getstate())


def _same(a: Any, b: Any) -> bool:
    import torch
    from torch.utils._pytree import tree_leaves

    left, right = tree_leaves(a), tree_leaves(b)
    return len(left) == len(right) and all(
        torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(left, right, strict=True)
    )


def run(name: str, recorder: str, folder: Path) -> dict[str, Any]:
    """Record one program into ``folder/NAME.parquet``; says what happened."""
    import neuron_explorer

    program = load_program(PROGRAMS / f"{name}.py")
    module = import_program(lay_out(program, folder), name)
    output = folder / f"{name}.parquet"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with neuron_explorer.profile(output, recorder=recorder) as prof:  # type: ignore[arg-type]
            recorded, recorded_state = _seeded(module, prof.step)
    bare, bare_state = _seeded(module, lambda: None)
    return {
        "trace": str(output),
        "same_results": _same(recorded, bare),
        "same_random_state": _same(recorded_state, bare_state),
        "warnings": [str(w.message) for w in caught if "neuron" in str(w.filename) + str(w.message)],
    }


def main() -> None:
    """Run the programs named on the command line."""
    recorder, folder, *names = sys.argv[1:]
    for name in names:
        print(json.dumps({"program": name, "state": "started"}), flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            report = {"state": "done", **run(name, recorder, Path(folder))}
        except Exception:
            report = {"state": "failed", "error": traceback.format_exc()}
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"program": name, **report}), flush=True)


if __name__ == "__main__":
    main()
