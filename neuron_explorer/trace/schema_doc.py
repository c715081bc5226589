"""docs/schema.md, from the schema."""

from __future__ import annotations

from . import schema
from .collective_facts import OPERATIONS
from .compile_detail import DETAILS
from .compiles import CAUSES, PHASES

_TYPES = {
    "text": "text",
    "int64": "int64",
    "int32": "int32",
    "int16": "int16",
    "bool": "bool",
}


def schema_document() -> str:
    """The page on the trace format, in Markdown."""
    columns = [f"| `{c.name}` | {_TYPES[c.type]} | {c.unit or '–'} | {_cell(c.meaning)} |" for c in schema.COLUMNS]
    return "\n".join(
        [
            "# The trace",
            "",
            "<!-- Generated: python -m neuron_explorer.trace.schema > docs/schema.md -->",
            "",
            f"Schema version {schema.SCHEMA_VERSION}. A trace is one Parquet file with one table, a row per event.",
            "pandas, DuckDB, Polars, Spark and Athena open it as it is.",
            "",
            "- Times are nanoseconds since the start of the trace; the metadata holds the Unix time of that start.",
            "- Integer columns are never null: -1 means none, or not observed. Text columns are null instead.",
            "- Event ids and frame ids are separate spaces.",
            "- `frame` and `source` rows come first (their `start` is -1), then all events by `start`: a query about",
            "  events says `WHERE start >= 0`. `neuron_explorer.load(path).sql(...)` does so by itself.",
            "- Text is dictionary-encoded, the file is compressed with zstd.",
            "",
            "## Columns",
            "",
            "| column | type | unit | meaning |",
            "|---|---|---|---|",
            *columns,
            "",
            f"`Trace.events` holds {', '.join(f'`{c}`' for c in schema.CORE_COLUMNS)}.",
            "",
            "## Kinds",
            "",
            *_table("kind", schema.KINDS),
            "",
            "## Attributions",
            "",
            "For `frame` rows, `stack` marks a frame of the user's own code and `library_frame` one of another",
            "package than torch.",
            "",
            *_table("attribution", schema.ATTRIBUTIONS),
            "",
            "## Phases and periods",
            "",
            f"Phases: {', '.join(f'`{p}`' for p in schema.PHASES)}. `recompute` is forward that activation",
            "checkpointing runs again inside backward. Backward, recomputation and optimizer win over forward.",
            "",
            f"Periods: {', '.join(f'`{p}`' for p in schema.PERIODS)}. The first step and a schedule's warm-up are",
            "`warmup`, a step that overlaps a compilation is `compile`, the rest is `steady`.",
            "",
            *_compilations(),
            *_collectives(),
            "## Metadata",
            "",
            f"The file's key-value metadata holds a JSON object under the key `{schema.METADATA_KEY.decode()}`:",
            "",
            "| entry | meaning |",
            "|---|---|",
            *(f"| `{name}` | {_cell(meaning)} |" for name, meaning in _METADATA.items()),
            "",
        ]
    )


_METADATA = {
    "schema_version": "Raised when a column changes its meaning; a reader refuses a newer one.",
    "start_unix_ns": "Unix time of time 0, in ns.",
    "duration_ns": "From time 0 to the last thing seen.",
    "versions": "Of Python, torch and neuron_explorer.",
    "device": "`type`, `name`, and `emulated`: whether the device was emulated on the CPU.",
    "rank, world_size": "Of this process in a distributed job.",
    "distributed": "Of a process among several: `host`, `local_rank`, `run_id` (the same for the ranks of one launch), "
    "`attempt`, and `process_groups`: `name`, `description`, `backend`, `ranks`, `mesh_dimension` (of the device mesh "
    "that it serves, or null), those destroyed before the end included.",
    "script": "The script, without its arguments.",
    "recorder, recorder_reason": "`native`, `twin` (Python), `import` (from a log) or `synthetic`; "
    "why it is not the native one.",
    "capabilities": "What could be observed: per name `observed` and the `reason`.",
    "counts": "Events in all and `by_kind`; operators that only a compiler traced (`tracing_ops`, not events); "
    "losses: `dropped`, `torn_records`, `torn_table_entries`, `unended` (no end seen, duration -1), `quarantined` "
    "(impossible times, set to -1), `late_ends`, `signatures_capped`, `stacks_truncated`, "
    "`compiles_dropped` (records of compilations).",
    "lanes": "The lane table: `lane`, `kind` (thread, compile, device, collective, steps, counter), `name`, `rank`, "
    "`process`, `process_name`, `process_start`, `thread`, `os_thread`, `device`, `stream`.",
    "steps": "`rule` (prof.step, optimizer, module_call, none), `rule_text`, `count`, `steady`, `note`.",
    "attribution": "Time in operators, the part of it with a line, and both per attribution.",
    "custom_operators": "Operators of the trace that the program registered through `torch.library`, each with the "
    "device types that it has a kernel for (`\"\"`: one that runs on any).",
    "import": "Imported traces: `format`, `files`, `bytes`, what was `read`, what was `skipped` and why, `notes`.",
    "recovered, finished": "Built by `recover`; the program ended the recording itself.",
    "settings": "What was asked of the recording.",
    "overhead": "`recording_ns_per_event` and `stop_ns`, null where not measured.",
    "sources": "How many source files are embedded, and why others are not.",
    "discloses": "What the file gives away: `source`, `paths`, `arguments`, `compilations` (guards and reasons, which "
    "may quote values), `host`, `script_arguments`.",
}


def _compilations() -> list[str]:
    entries = [
        f"| {kind} | `{entry}` | {_cell(meaning)} |"
        for kind, named in DETAILS.items()
        for entry, meaning in named.items()
    ]
    return [
        "## Compilations",
        "",
        "Compilations lie on a lane of kind `compile` for each thread that compiles, nested by time: recompile,",
        "compile, its phases. The self time of a compile row is what no phase covers, that of a recompile row is 0.",
        "`detail` holds, by kind (files as in the column `file`):",
        "",
        "| kind | entry | meaning |",
        "|---|---|---|",
        *entries,
        "",
        "### Causes",
        "",
        *_table("cause", CAUSES),
        "",
        "### Phases of a compilation",
        "",
        *_table("name", PHASES),
        "",
    ]


def _collectives() -> list[str]:
    return [
        "## Collectives",
        "",
        "The outermost operator of `torch.distributed` is the collective. `detail` of what the host submitted:",
        "",
        "| entry | meaning |",
        "|---|---|",
        *(f"| `{entry}` | {_cell(meaning)} |" for entry, meaning in _SUBMITTED.items()),
        "",
        "`detail` of a flight holds `group` and `sequence`. A backend that does not report completion (all but gloo)",
        "has no flights: then a collective ends where the wait for it ends, else with its submission. Waits inside",
        "C++ (DDP's reducer) and collectives inside a backend's own composites are not seen.",
        "",
    ]


_SUBMITTED = {
    "operation": f"One word for all variants: {', '.join(OPERATIONS)}.",
    "group": "Name of the process group, as in the metadata's `distributed`.",
    "group_size": "Ranks in the group; -1 when unknown.",
    "sequence": "Number of the collective in its group on this rank, from 0: the same on every rank where all call the "
    "same. Counted on from the backend's own number when the recording began; where the backend has none, from the "
    "recording's first collective. Sends and receives are numbered by group, peer and direction. -1 when unknown.",
    "bytes": "Of the payload that this rank contributes or receives, whichever is larger (the size from which a bus "
    "bandwidth is computed); -1 when unknown.",
    "dtype": "Of the first tensor.",
    "asynchronous": "Whether the call asked for a handle. False: it waits for the collective itself.",
    "peer": "Rank in the group that is sent to or received from; -1 for any.",
    "for_module": "FSDP2: the module whose parameters or gradients it moves (\"\" for the root). Else the row's column "
    "`module` is what is known.",
    "prefetch": "FSDP2's all-gathers: `early` when it was issued while another module was at work, else `late`.",
}


def _table(head: str, entries: dict[str, str]) -> list[str]:
    return [f"| {head} | meaning |", "|---|---|", *(f"| `{k}` | {_cell(v)} |" for k, v in entries.items())]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
