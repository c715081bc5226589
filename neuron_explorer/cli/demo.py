"""``neuron-explorer demo``: record a small training run, summarise and serve it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from neuron_explorer.cli.record import Recorder
from neuron_explorer.errors import NeuronExplorerError


class Device(str, Enum):
    """What the demo's program trains on."""

    neuron = "neuron"
    cpu = "cpu"


def demo(
    directory: Annotated[Path, typer.Option("--dir", help="Where the program and its trace are put.")] = Path(
        "neuron-explorer-demo"
    ),
    steps: Annotated[int, typer.Option("--steps", min=1, help="Training steps.")] = 40,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Serve the explorer at the end.")] = True,
    device: Annotated[
        Device, typer.Option("--device", help="Train on the emulated `neuron` device, or on the CPU.")
    ] = Device.neuron,
    recorder: Annotated[Recorder, typer.Option("--recorder", help="Which recorder to use.")] = Recorder.auto,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")] = 8050,
) -> None:
    """Record the training of a small GPT, print its summary and serve the explorer.

    It trains on an emulated `neuron` device, which runs on the CPU.
    """
    import subprocess
    import sys
    from importlib.util import find_spec

    from neuron_explorer.demo.program import lay_out
    from neuron_explorer.neuron.emulator import EmulatorError

    if find_spec("torch") is None:
        raise NeuronExplorerError("the demo records, and recording needs torch; install torch 2.9 or newer")
    script = lay_out(directory)
    trace = directory / "trace.parquet"
    command = [sys.executable, "-m", "neuron_explorer"]
    recorded = ["record", "--force", "--memory", "-o", str(trace)]
    if recorder is not Recorder.auto:
        recorded += ["--recorder", recorder.value]
    program = [str(script), "--steps", str(steps)]
    emulated = ["--emulate", *program, "--device", "neuron"]
    code = EmulatorError.exit_code
    if device is Device.neuron:
        code = _run(recorded + emulated, command)
        if code == EmulatorError.exit_code:
            print("\nno emulated device here (the reason is above): recording on the CPU\n", flush=True)
    if code == EmulatorError.exit_code:
        code = _run(recorded + program, command)
    if code != 0:
        raise typer.Exit(code)
    print("\n$ nxplorer summary", trace, flush=True)
    if (code := subprocess.run([*command, "summary", str(trace)], check=False).returncode) != 0:
        raise typer.Exit(code)
    if not serve:
        print(f"\nnxplorer serve {trace}   shows it in a browser")
        return
    print("\n$ nxplorer serve", trace, flush=True)
    from neuron_explorer.ui.serve import serve as run_server

    run_server([trace], host="127.0.0.1", port=port, open_browser=False)


def _run(arguments: list[str], command: list[str]) -> int:
    import subprocess

    print("$ nxplorer", *arguments, flush=True)
    return subprocess.run([*command, *arguments], check=False).returncode
