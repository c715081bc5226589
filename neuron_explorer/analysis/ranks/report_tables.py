"""The tables of the reports about ranks: columns, units and meanings."""

from __future__ import annotations

from typing import Final

from neuron_explorer.analysis.answer import Column, TableKind

RANKS: Final = TableKind(
    "ranks", "Ranks",
    (Column("rank", "id", "Rank."),
     Column("step_ns", "ns", "Median time of a step."),
     Column("own_ns", "ns", "Median own time of a step: all but communication and waiting for it."),
     Column("beyond_ns", "ns", "Own time beyond that of the middle rank (of two ranks the faster)."),
     Column("exposed_share", "share", "Part of the steps in which the rank only communicated or waited for it."),
     Column("caused_ns", "ns", "Time that the other ranks waited for this one, over the counted steps, in all."),
     Column("waits_for", "id", "Rank that it waited for longest; none where it did not wait."),
     Column("waited_ns", "ns", "Time that it waited for others to come to collectives, over the counted steps."),
     Column("times_last", "count", "Collectives to which it came last."),
     Column("collectives", "count", "Collectives that it called."),
     Column("peak_bytes", "B", "Most memory allocated at once on one device."),
     Column("compilations", "count", "Compilations; none where they were not observed."),
     Column("steps", "count", "Steps recorded."), Column("events", "count", "Events recorded."),
     Column("host", "text", "Name of its machine, where the recording discloses it."),
     Column("device", "text", "Type of its device."), Column("torch", "text", "Version of torch."),
     Column("attempt", "count", "How often the launcher had started the ranks again."),
     Column("finished", "yes", "Whether its recording was ended by the program."),
     Column("notes", "text", "What else is to be known of its trace.")),
)  # fmt: skip
STEPS: Final = TableKind(
    "steps", "Steps of all ranks",
    (Column("step", "id", "Number of the step."),
     Column("median_ns", "ns", "Time of the step, median of the ranks."),
     Column("slowest_ns", "ns", "Of the slowest rank."), Column("slowest_rank", "id", "That rank."),
     Column("own_median_ns", "ns", "Own time, median of the ranks."),
     Column("own_most_ns", "ns", "Most own time."), Column("own_most_rank", "id", "The rank that had it."),
     Column("ranks", "count", "Ranks that have the step.")),
)  # fmt: skip
MATRIX: Final = TableKind(
    "matrix", "Each step of each rank",
    (Column("step", "id", "Number of the step."), Column("rank", "id", "Rank."),
     Column("total_ns", "ns", "Time of the step."), Column("own_ns", "ns", "Without communication and waiting for it."),
     Column("exposed_ns", "ns", "Time in which the rank only communicated or waited for it."),
     Column("compilations", "count", "Compilations that began in it.")),
)  # fmt: skip
CLOCKS: Final = TableKind(
    "clocks", "Clocks",
    (Column("rank", "id", "Rank."),
     Column("reference", "id", "Rank whose clock it is held against."),
     Column("error_ns", "ns", "Bound of the error: the true offset is within so much of `offset_ns`."),
     Column("unix_ahead_ns", "ns", "By how much the rank's time of day is ahead of the reference's at the start of its "
            "trace: the skew that timelines laid over each other by their own clocks would show."),
     Column("offset_ns", "ns", "What to add to a time at the start of its trace to get that of the reference's trace."),
     Column("drift_ppm", "ratio", "By how much the reference's clock runs faster, in parts in a million."),
     Column("anchors", "count", "Collectives and messages that bound it."),
     Column("via", "id", "Rank through which it is held against the reference."),
     Column("reason", "text", "Why there is no offset.")),
)  # fmt: skip
FINDINGS: Final = TableKind(
    "findings", "What does not fit together",
    (Column("kind", "text", "mismatch, hang, missing, lost or counts; see below."),
     Column("group", "text", "Name of the process group."),
     Column("number", "id", "Number of the collective in its group; none where the traces do not tell it."),
     Column("operation", "text", "Operation, of the ranks named next."),
     Column("ranks", "text", "Ranks that differ, never came, or wait in vain."),
     Column("place", "place", "Line of their call; of ranks that never came, of their last call in the group."),
     Column("evidence", "text", "What was found, in words."),
     Column("others", "text", "The other ranks."), Column("other_place", "place", "Line of their call."),
     Column("following", "count", "Further such collectives of the group after this one.")),
)  # fmt: skip
LATE: Final = TableKind(
    "late", "Lines at which ranks come late",
    (Column("place", "place", "Line of the call of the rank that came last."),
     Column("operation", "text", "Operation."), Column("group", "text", "Name of the process group."),
     Column("waited_ns", "ns", "Time that the other ranks waited for it and did nothing else, in all."),
     Column("median_skew_ns", "ns", "Time from the first to the last arrival, median."),
     Column("largest_skew_ns", "ns", "The same, at most."),
     Column("last_rank", "id", "Rank that came last most often."),
     Column("times_last", "count", "How often it did."), Column("calls", "count", "Collectives."),
     Column("error_ns", "ns", "Bound of the error of a skew, median; a smaller skew may be none."),
     Column("mesh_dimension", "text", "Dimension of the device mesh whose group it is."),
     Column("description", "text", "What the program calls the group.")),
)  # fmt: skip
WORST: Final = TableKind(
    "worst", "Collectives with most skew",
    (Column("operation", "text", "Operation."), Column("group", "text", "Name of the process group."),
     Column("number", "id", "Number in its group; none where the traces do not tell it."),
     Column("step", "id", "Step of it."), Column("skew_ns", "ns", "Time from the first to the last arrival."),
     Column("error_ns", "ns", "Bound of the error of it."),
     Column("last_rank", "id", "Rank that came last."), Column("place", "place", "Line of its call."),
     Column("lead_ns", "ns", "Time from the last but one arrival to the last."),
     Column("first_rank", "id", "Rank that came first."),
     Column("waited_ns", "ns", "Time that the others waited and did nothing else, in all."),
     Column("bytes", "B", "Bytes that a rank gives or gets, whichever is more.")),
)  # fmt: skip
_TIMES: Final = (
    Column("exposed_ns", "ns", "Time a step in which a rank did nothing else, mean over its ranks."),
    Column("share", "share", "That time over the time of the steps."),
    Column("calls", "count", "Calls a step."), Column("bytes", "B", "Bytes a step."),
    Column("bus", "B/s", "Bus bandwidth: algorithm bandwidth times what a rank's link must carry of each byte."),
    Column("link_share", "share", "Bus bandwidth over that of NeuronLink of one chip, as AWS states it; none "
           "unless the device is a chip of a known kind and not emulated. A group may use another network."),
    Column("algorithm", "B/s", "Algorithm bandwidth: bytes over the time from the last arrival to the end."),
    Column("transfer_ns", "ns", "Time from the last arrival to the end, median."),
    Column("busy_ns", "ns", "Time a step in which any of them went on."),
    Column("size", "count", "Ranks of a group."), Column("ranks", "count", "Ranks with a trace that call it."),
)  # fmt: skip
DIMENSIONS: Final = TableKind(
    "dimensions", "Communication by mesh dimension",
    (Column("dimension", "text", "Dimension of the device mesh; else what the program calls the groups."),
     Column("operation", "text", "Operation."), *_TIMES, Column("groups", "count", "Process groups.")),
)  # fmt: skip
GROUPS: Final = TableKind(
    "groups", "Communication by process group",
    (Column("group", "text", "Name of the process group."), Column("operation", "text", "Operation."), *_TIMES,
     Column("mesh_dimension", "text", "Dimension of the device mesh."),
     Column("description", "text", "What the program calls the group."),
     Column("backend", "text", "Backend of the group.")),
)  # fmt: skip
PREFETCH: Final = TableKind(
    "prefetch", "Gathering of sharded modules",
    (Column("module", "text", "Module whose parameters or gradients they are."),
     Column("operation", "text", "Operation."),
     Column("verdict", "text", "late: the rank waits for it; early: it lies there for long; in time; none: not seen."),
     Column("waited_ns", "ns", "Time that ranks waited for it, in all."),
     Column("prefetched", "share", "Part of them that was issued while another module was at work, as far as the "
            "recording tells (FSDP2)."),
     Column("ahead_ns", "ns", "From the call to the wait for the result, median."),
     Column("took_ns", "ns", "From the call to the end, median."),
     Column("late_ns", "ns", "From the wait to the end, median."),
     Column("early_ns", "ns", "From the end to the wait, median."),
     Column("calls", "count", "Calls of all ranks."), Column("bytes", "B", "Bytes of one, mean.")),
)  # fmt: skip
STRAGGLERS: Final = TableKind(
    "stragglers", "Ranks that hold the others up",
    (Column("rank", "id", "Rank."), Column("by_ns", "ns", "Own time a step beyond that of the middle rank."),
     Column("cause", "text", "Part of the step whose excess is largest."),
     Column("why", "text", "The same in words."),
     Column("part_ns", "ns", "Excess of that part."),
     Column("place", "place", "Line whose self time exceeds that of the middle rank most; where no line tells, that of "
            "the collectives to which the rank comes last."),
     Column("place_ns", "ns", "Excess of that line a step; none where the place is of collectives."),
     Column("caused_ns", "ns", "Time that the other ranks waited for it, in all."),
     Column("own_ns", "ns", "Own time a step."), Column("middle_ns", "ns", "That of the middle rank."),
     Column("also_late", "text", "Ranks that wait for this one longest.")),
)  # fmt: skip
STRAGGLING: Final = TableKind(
    "straggling_steps", "Steps in which a rank was slower than it is else",
    (Column("step", "id", "Number of the step."), Column("rank", "id", "Rank."),
     Column("by_ns", "ns", "Own time beyond that of the middle rank of the step."),
     Column("cause", "text", "Part of the step whose excess is largest."),
     Column("why", "text", "The same in words."), Column("part_ns", "ns", "Excess of that part."),
     Column("own_ns", "ns", "Own time."), Column("middle_ns", "ns", "That of the middle rank."),
     Column("compilations", "count", "Compilations that began in the step.")),
)  # fmt: skip
DIVERGENT: Final = TableKind(
    "divergent", "Places where ranks compiled differently",
    (Column("place", "place", "Line of the compiled function."), Column("function", "text", "Its name."),
     Column("what", "text", "count: another number of compilations; operations: graphs of other operators; shapes: the "
            "same operators on other shapes."),
     Column("ranks", "text", "Ranks that differ from most."), Column("count", "count", "Compilations of the first."),
     Column("usual", "count", "Compilations of the others."),
     Column("causes", "text", "Causes of recompilations that only they had."),
     Column("extra_ns", "ns", "Compile time of the first beyond that of the others."),
     Column("others", "text", "The other ranks.")),
)  # fmt: skip
