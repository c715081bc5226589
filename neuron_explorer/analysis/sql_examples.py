"""Queries worth keeping: what someone who moves a program to Trainium asks a trace first.

Each is one SELECT over the views ``events``, ``frames`` and ``sources`` (see docs/schema.md),
to be changed by its reader. Times in the results carry their unit in the column's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Example:
    """A query: a short name, what it answers, and its text."""

    key: str
    group: str
    name: str
    answers: str
    sql: str


_WORK: Final = "kind IN ('op', 'autograd', 'launch', 'copy', 'sync', 'collective', 'fallback')"

EXAMPLES: Final[tuple[Example, ...]] = (
    Example(
        "lines", "Time", "Lines by self time",
        "Source lines whose operators take longest, without what they call.",
        """SELECT file, line, any_value(function) AS function,
       round(sum("self") FILTER (kind <> 'range') / 1e6, 3) AS self_ms,
       round(sum(duration) FILTER (outermost_on_line) / 1e6, 3) AS total_ms,
       count(*) FILTER (kind <> 'range') AS events
FROM events
WHERE kind IN ('op', 'autograd', 'launch', 'copy', 'sync', 'collective', 'fallback', 'data_wait', 'range')
  AND duration >= 0  -- add AND period = 'steady' for steady steps only
GROUP BY file, line
HAVING events > 0
ORDER BY self_ms DESC
LIMIT 100""",
    ),
    Example(
        "operators", "Time", "Operators by self time",
        "Which operators take longest, how often they run and how long one takes.",
        f"""SELECT name, round(sum("self") / 1e6, 3) AS self_ms, count(*) AS events,
       round(median(duration) / 1e3, 1) AS median_us, mode(phase) AS phase
FROM events
WHERE {_WORK} AND "self" >= 0
GROUP BY name
ORDER BY self_ms DESC
LIMIT 100""",
    ),
    Example(
        "modules", "Time", "Operators of each module",
        "Events and self time by nn.Module; layers of a list are one row.",
        f"""SELECT regexp_replace(module, '\\.[0-9]+(\\.|$)', '.*\\1', 'g') AS modules,
       count(*) AS events, count(DISTINCT name) AS operators,
       round(sum("self") / 1e6, 3) AS self_ms
FROM events
WHERE {_WORK} AND "self" >= 0 AND module IS NOT NULL
GROUP BY modules
ORDER BY self_ms DESC
LIMIT 100""",
    ),
    Example(
        "steps", "Time", "Steps and what fills them",
        "Each step's length, events, waits for data and the host's waits for the device.",
        """SELECT s.step, s.period, round(any_value(s.duration) / 1e6, 3) AS step_ms,
       count(e.id) FILTER (e.kind = 'op') AS operators,
       round(coalesce(sum(e.duration) FILTER (e.kind = 'data_wait'), 0) / 1e6, 3) AS data_wait_ms,
       round(coalesce(sum(e.duration) FILTER (e.kind = 'sync'), 0) / 1e6, 3) AS sync_ms
FROM (SELECT step, period, duration FROM events WHERE kind = 'step') AS s
LEFT JOIN events AS e ON e.step = s.step AND e.kind <> 'step'
GROUP BY s.step, s.period
ORDER BY s.step""",
    ),
    Example(
        "longest", "Time", "The longest events",
        "Single events by duration, with a link to each on the timeline.",
        """SELECT id, kind, name, round(duration / 1e6, 3) AS ms, step, file, line, module
FROM events
WHERE kind NOT IN ('step', 'range')
ORDER BY duration DESC
LIMIT 100""",
    ),
    Example(
        "gaps", "Time", "Gaps on a thread",
        "Time between two outermost events: Python, waiting, or work that is not recorded.",
        """SELECT id, name AS next, file, line, step, round(gap / 1e6, 3) AS gap_ms
FROM (
  SELECT *, start - max(start + greatest(duration, 0)) OVER (
    PARTITION BY lane ORDER BY start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gap
  FROM events WHERE kind NOT IN ('step', 'range', 'gc', 'counter', 'memory')
)
WHERE gap > 0
ORDER BY gap DESC
LIMIT 100""",
    ),
    Example(
        "fallbacks", "Porting", "Fallbacks by operator",
        "Operators without a kernel on the device that ran on the CPU, and where.",
        """SELECT name, file, line, count(*) AS calls,
       round(sum(duration) FILTER (duration >= 0) / 1e6, 3) AS ms, any_value(shapes) AS shapes
FROM events
WHERE kind = 'fallback'
GROUP BY name, file, line
ORDER BY calls DESC""",
    ),
    Example(
        "copies", "Porting", "Copies by line",
        "Copies between host and device: direction, how many, how many bytes.",
        """SELECT file, line, detail->>'direction' AS direction, count(*) AS copies,
       sum(TRY_CAST(detail->>'bytes' AS BIGINT)) AS bytes,
       round(sum(duration) FILTER (duration >= 0) / 1e6, 3) AS ms
FROM events
WHERE kind = 'copy'
GROUP BY file, line, direction
ORDER BY bytes DESC NULLS LAST""",
    ),
    Example(
        "syncs", "Porting", "Where the host waits",
        "Lines that read a value back and so wait for the device (.item(), print, if on a tensor).",
        """SELECT file, line, name, count(*) AS waits, count(DISTINCT step) AS steps,
       round(sum(duration) FILTER (duration >= 0) / 1e6, 3) AS ms
FROM events
WHERE kind = 'sync' OR name IN ('aten::_local_scalar_dense', 'aten::equal')
GROUP BY file, line, name
ORDER BY waits DESC""",
    ),
    Example(
        "shapes", "Porting", "Operators of many shapes",
        "Each new shape may be a new compilation on the device.",
        """SELECT name, file, line, count(DISTINCT shapes) AS shapes, count(*) AS calls,
       min(shapes) AS one_of_them
FROM events
WHERE kind = 'op' AND shapes IS NOT NULL
GROUP BY name, file, line
HAVING count(DISTINCT shapes) > 1
ORDER BY shapes DESC, calls DESC
LIMIT 100""",
    ),
    Example(
        "dtypes", "Porting", "Wide types",
        "Operators on float64 or int64 tensors: slow or missing on the device.",
        """SELECT name, dtypes, file, line, count(*) AS calls
FROM events
WHERE kind IN ('op', 'fallback') AND (dtypes LIKE '%float64%' OR dtypes LIKE '%int64%' OR dtypes LIKE '%complex%')
GROUP BY name, dtypes, file, line
ORDER BY calls DESC
LIMIT 100""",
    ),
    Example(
        "small", "Porting", "Operators too short to launch",
        "Operators of under 10 µs by line: where launches would cost more than the work.",
        """SELECT file, line, count(*) AS short_operators, count(DISTINCT name) AS names,
       round(count(*) / greatest(count(DISTINCT step), 1), 1) AS each_step,
       round(sum(duration) / 1e6, 3) AS ms
FROM events
WHERE kind = 'op' AND duration BETWEEN 0 AND 10000 AND outermost_on_line
GROUP BY file, line
ORDER BY short_operators DESC
LIMIT 100""",
    ),
    Example(
        "recompiles", "Compile", "Recompiles by place",
        "Code that was compiled again, how often, and the cause.",
        """SELECT file, line, function, detail->>'cause' AS cause, count(*) AS recompiles,
       any_value(detail->>'guard') AS one_guard
FROM events
WHERE kind = 'recompile'
GROUP BY file, line, function, cause
ORDER BY recompiles DESC""",
    ),
    Example(
        "compiles", "Compile", "Compilations",
        "Every compilation by length.",
        """SELECT id, compile_id, name, round(duration / 1e6, 1) AS ms, step, file, line, function
FROM events
WHERE kind = 'compile' AND coalesce(detail->>'phase', 'false') <> 'true'
ORDER BY duration DESC
LIMIT 100""",
    ),
    Example(
        "breaks", "Compile", "Graph breaks",
        "Lines at which a graph ends, with torch's reason.",
        """SELECT file, line, function, detail->>'reason' AS reason, count(*) AS rows,
       sum(coalesce(TRY_CAST(detail->>'count' AS BIGINT), 1)) AS times
FROM events
WHERE kind = 'graph_break'
GROUP BY file, line, function, reason
ORDER BY times DESC""",
    ),
    Example(
        "collectives", "More", "Collectives",
        "Collective communication by operator and line.",
        """SELECT name, file, line, count(*) AS calls,
       round(sum(duration) FILTER (duration >= 0) / 1e6, 3) AS ms, any_value(shapes) AS shapes
FROM events
WHERE kind = 'collective'
GROUP BY name, file, line
ORDER BY ms DESC""",
    ),
    Example(
        "callers", "More", "Who calls the costliest operator",
        "Walks the Python stacks of one operator outwards; put another name in.",
        """WITH RECURSIVE wanted AS (
  SELECT stack, sum("self") AS ns FROM events
  WHERE name = (SELECT name FROM events WHERE kind = 'op' GROUP BY name ORDER BY sum("self") DESC LIMIT 1)
  GROUP BY stack
), walk AS (
  SELECT f.file, f.line, f.function, f.parent, w.ns, 0 AS depth FROM wanted AS w JOIN frames AS f ON f.id = w.stack
  UNION ALL
  SELECT f.file, f.line, f.function, f.parent, w.ns, depth + 1
  FROM walk AS w JOIN frames AS f ON f.id = w.parent WHERE depth < 40
)
SELECT depth, file, line, function, round(sum(ns) / 1e6, 3) AS self_ms
FROM walk
GROUP BY depth, file, line, function
ORDER BY depth, self_ms DESC
LIMIT 200""",
    ),
    Example(
        "unattributed", "More", "Time without a line",
        "How much self time has no source line, and the reason for each part.",
        f"""SELECT coalesce(attribution, 'no reason') AS why, count(*) AS events,
       round(sum("self") / 1e6, 3) AS self_ms, any_value(name) AS for_example
FROM events
WHERE {_WORK} AND "self" >= 0 AND file IS NULL
GROUP BY why
ORDER BY self_ms DESC""",
    ),
)  # fmt: skip
