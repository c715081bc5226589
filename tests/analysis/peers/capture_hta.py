"""What HTA says of the public traces, written as JSON beside this file.

Run it with an interpreter that has HolisticTraceAnalysis (PyPI), not with this project's:

    python tests/analysis/peers/capture_hta.py ../shared/traces
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from shutil import copy
from time import perf_counter

TRACES = (
    "hta_sampled_rank-0.json.gz", "hta_sampled_rank-1.json.gz", "hta_ns_resolution_rank-0.pt.trace.json.gz",
    "hta_mtia_rank_0.json.gz", "kineto_resnet50_nw0.pt.trace.json.gz", "kineto_resnet50_nw4.pt.trace.json.gz",
    "tracelens_h100_qwen0.5b.json.gz",
)  # fmt: skip


def answers(path: Path) -> dict[str, object]:
    """Times in µs, as HTA gives them; what it cannot answer is its error."""
    from hta.trace_analysis import TraceAnalysis

    with tempfile.TemporaryDirectory() as folder:
        begun = perf_counter()
        analysis = TraceAnalysis(
            trace_files={0: str(copy(path, folder))}, trace_dir=folder, include_last_profiler_step=True
        )
        found: dict[str, object] = {"load_s": round(perf_counter() - begun, 2)}
        for name, ask in {
            "temporal": lambda: analysis.get_temporal_breakdown(visualize=False),
            "overlap": lambda: analysis.get_comm_comp_overlap(visualize=False),
            "idle": lambda: analysis.get_idle_time_breakdown(ranks=[0], visualize=False)[0],
        }.items():
            begun = perf_counter()
            try:
                found[name] = json.loads(ask().to_json(orient="records"))
            except Exception as error:  # whatever stops it is the answer
                found[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
            found[f"{name}_s"] = round(perf_counter() - begun, 2)
        return found


def main() -> None:
    folder = Path(sys.argv[1])
    document = {"peer": "HolisticTraceAnalysis", "version": version("HolisticTraceAnalysis"), "traces": {}}
    for name in TRACES:
        document["traces"][name] = answers(folder / name)
        print(name, file=sys.stderr)
    target = Path(__file__).with_name("hta.json")
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
