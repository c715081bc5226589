"""Records the traces of this directory anew: ``python sample_traces/make_samples.py [NAME ...]``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / "neuron_explorer" / "demo"
LIMIT = 2_000_000  # bytes a trace may have


@dataclass(frozen=True)
class Sample:
    """One trace: the program that makes it, and what it needs beyond torch."""

    script: Path
    arguments: tuple[str, ...] = ()
    needs: str = "torch"
    options: tuple[str, ...] = ()  # of `record`


SAMPLES = {
    "gpt_training": Sample(DEMO / "train.py", ("--steps", "12", "--batch", "32")),
    "llama_generate": Sample(HERE / "programs" / "llama_generate.py", needs="transformers"),
    "compiled_training": Sample(HERE / "programs" / "compiled_training.py"),
    "vision_training": Sample(HERE / "programs" / "vision_training.py"),
    "memory_training": Sample(HERE / "programs" / "memory_training.py", options=("--memory",)),
    "optimizer_before": Sample(HERE / "programs" / "fused_optimizer.py"),
    "optimizer_after": Sample(HERE / "programs" / "fused_optimizer.py", ("--fused",)),
}


def make(name: str, sample: Sample, directory: Path) -> Path | None:
    """Record one sample into ``directory``; None, with a message, where something is missing."""
    if find_spec(sample.needs) is None:
        print(f"{name}: skipped, {sample.needs} is not installed")
        return None
    output = directory / f"{name}.parquet"
    command = [sys.executable, "-m", "neuron_explorer", "record", "--force", *sample.options, "-o", str(output)]
    with tempfile.TemporaryDirectory() as copy:
        # A copy, because code inside this package does not count as the user's; in its
        # directory, so that the file names in the trace are short.
        for file in sample.script.parent.glob("*.py"):
            shutil.copy(file, copy)
        subprocess.run(
            [*command, sample.script.name, *sample.arguments],
            check=True,
            cwd=copy,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    size = output.stat().st_size
    if size > LIMIT:
        raise SystemExit(f"{name}: {size:,} bytes are too many for a sample; make the program shorter")
    print(f"{name}: {size:,} bytes")
    return output


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="Which ones (all of them)")
    parser.add_argument("--directory", type=Path, default=HERE)
    options = parser.parse_args()
    unknown = set(options.names) - set(SAMPLES)
    if unknown:
        parser.error(f"no such sample: {', '.join(sorted(unknown))}; there are {', '.join(SAMPLES)}")
    for name, sample in SAMPLES.items():
        if not options.names or name in options.names:
            make(name, sample, options.directory.resolve())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
