"""Records programs one after the other, in one process: ``python alert_runner.py RECORDER DEVICE FOLDER FILE…``.

Prints a JSON object a line: the program and what went wrong, "" where nothing did.
"""

from __future__ import annotations

import importlib.util
import inspect
import io
import json
import sys
import traceback
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def run(file: Path, recorder: Any, output: Path) -> None:
    """Record one program, with a compiler that knows nothing."""
    import torch

    import neuron_explorer

    torch._dynamo.reset()
    torch.manual_seed(0)
    spec = importlib.util.spec_from_file_location(f"compiled_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with redirect_stdout(io.StringIO()), neuron_explorer.profile(output, recorder=recorder) as prof:
            module.main(*[prof.step] if inspect.signature(module.main).parameters else ())


def main() -> None:
    """Run the programs of the command line."""
    recorder, device, folder, *files = sys.argv[1:]
    if device == "neuron":
        from neuron_explorer.errors import NeuronExplorerError
        from neuron_explorer.neuron import emulator

        try:
            emulator.enable()
        except NeuronExplorerError as error:
            print(json.dumps({"program": "", "problem": str(error)}))
            sys.exit(77)
    import torch._dynamo  # noqa: F401

    for file in map(Path, files):
        problem = ""
        try:
            run(file, recorder, Path(folder) / f"{file.stem}.parquet")
        except Exception:
            problem = traceback.format_exc()
        print(json.dumps({"program": file.stem, "problem": problem}), flush=True)


if __name__ == "__main__":
    main()
