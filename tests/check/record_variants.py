"""``python record_variants.py PLAN.json``: record variants of a program, all in this process.

The plan is {"emulate": bool, "folder": ..., "variants": [[name, directory, arguments], ...]}: each
directory holds a ``train.py`` whose ``main(profile, **arguments)`` is recorded from inside it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from pathlib import Path


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    warnings.simplefilter("ignore")
    if plan["emulate"]:
        from neuron_explorer.neuron import emulator

        emulator.enable()
    import torch

    import neuron_explorer

    torch.set_num_threads(1)
    for name, directory, arguments in plan["variants"]:
        torch._dynamo.reset()
        os.chdir(directory)
        spec = importlib.util.spec_from_file_location(f"train_{name}", "train.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with neuron_explorer.profile(Path(plan["folder"]) / f"{name}.parquet") as profile:
            module.main(profile, **arguments)


if __name__ == "__main__":
    main()
