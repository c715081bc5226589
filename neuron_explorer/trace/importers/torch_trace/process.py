"""The records of one process become its compilations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from ...compile_phases import is_envelope
from .attempts import Attempt, OpenCompile, small_facts
from .budget import Budget
from .clock import LogClock, plausible
from .details import Details, place_of, tells
from .lines import Losses, Record
from .texts import frames_of
from .values import is_int, is_number, nanoseconds, parsed

__all__ = ["ProcessLog"]

MAX_OPEN: Final = 200
"""Compilations of a process that are followed at the same time; of more, the oldest's end is given up."""
_ATTEMPT: Final = re.compile(r"compile_attempt_(\d{1,6})")


class ProcessLog:
    """What the log says of one process. Feed it every record in order, then take ``compiles``."""

    def __init__(
        self, pid: int, losses: Losses, clock: LogClock, strings: dict[int, str], budget: Budget | None = None
    ) -> None:
        self.pid = pid
        self.ranks: Counter[int] = Counter()
        self.torch_version = ""
        self.python_version = ""
        self.read: Counter[str] = Counter()  # kind of record -> how many were used
        self.unused: Counter[str] = Counter()
        self.done: list[OpenCompile] = []
        self.dropped: Counter[str] = Counter()
        self.first, self.last = -1, -1  # times of the first and last timed event
        self._losses, self._clock, self._strings = losses, clock, strings
        self._open: dict[tuple[str, bool], OpenCompile] = {}  # (compile id, backward)
        self._recent: dict[tuple[str, bool], OpenCompile] = {}
        self._keys = 0
        self._number = 0
        self._budget = budget or Budget()
        self._details = Details(self._budget, self.dropped)
        self._handlers: dict[str, Callable[[Record], None]] = {
            "chromium_event": self._event,
            "dynamo_start": self._dynamo_start,
            "compilation_metrics": self._metrics,
            "bwd_compilation_metrics": self._backward_metrics,
            "artifact:torch_version": self._version,
        }

    def add(self, record: Record) -> None:
        """One record. Records of a form that is not known are counted, as are those that are not used."""
        if record.rank >= 0:
            self.ranks[record.rank] += 1
        handler = self._handlers.get(record.name)
        if handler is None and not tells(record.name):
            self.unused[record.name if len(self.unused) < 500 else "others"] += 1
            return
        try:
            if handler is not None:
                handler(record)
            elif (found := self._attempt_of(record)) is not None:
                self._details.take(*found, record, self._time(record))
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError):
            self._losses.add("records of a form that is not known", record.where)
            return
        self.read[record.name] += 1

    def finish(self) -> None:
        """Nothing more comes."""
        for compile_ in list(self._open.values()):
            if compile_.soft_end >= 0 or not compile_.opener:
                self._close(compile_, max(compile_.soft_end, compile_.last_seen))
                continue
            self._unended(compile_)
        self._open.clear()
        self.done.sort(key=lambda c: (c.start, c.number))

    # --- compilations

    def _compile_id(self, fields: dict[str, Any]) -> str:
        autograd, frame, number = (
            fields.get(name) for name in ("compiled_autograd_id", "frame_id", "frame_compile_id")
        )
        has_frame = is_int(frame) and is_int(number)
        text = f"{frame}/{number}" if has_frame else ""
        if is_int(autograd):
            text = f"!{autograd}/{text}" if text else f"!{autograd}"
        return text

    def _start(self, compile_id: str, trigger: str, time: int, opener: str) -> OpenCompile | None:
        key = (compile_id, trigger == "backward")
        before = self._open.pop(key, None)
        if before is not None:  # its end was lost
            if before.soft_end >= 0 or not before.opener:
                self._close(before, max(before.soft_end, before.last_seen))
            else:
                self._unended(before)
        if not self._budget.compilation():
            self.dropped["compilations"] += 1
            return None
        if len(self._open) >= MAX_OPEN:
            self._unended(self._open.pop(next(iter(self._open))))
        self._number += 1
        compile_ = OpenCompile(compile_id, trigger, time, opener, self._number, self._budget)
        self._open[key] = self._recent[key] = compile_
        if trigger == "backward":
            forward = self._recent.get((compile_id, False))
            if forward is not None:
                compile_.place = place_of(forward)
                compile_.inductor = forward.inductor
            self._details.backward_begins(compile_id, self._attempt(compile_, 0, time))
        else:
            self._details.forward_begins(compile_id)
        return compile_

    def _unended(self, compile_: OpenCompile) -> None:
        if not compile_.attempts:
            self._attempt(compile_, 0, compile_.start)
        compile_.cut_phases(-1)
        self.done.append(compile_)

    def _close(self, compile_: OpenCompile, time: int) -> None:
        if not compile_.attempts:
            self._attempt(compile_, 0, compile_.start)
        compile_.cut_phases(time)
        compile_.end = max(time, compile_.start)
        self._open.pop((compile_.compile_id, compile_.trigger == "backward"), None)
        self.done.append(compile_)

    def _of(self, record: Record) -> OpenCompile | None:
        """The compilation that a record is about: an open one, the last of that id, or a new one."""
        compile_id = self._compile_id(record.fields)
        if not compile_id:
            return None
        for table in (self._open, self._recent):
            for backward in (True, False):
                found = table.get((compile_id, backward))
                if found is not None:
                    return found
        time = self._time(record)
        return self._start(compile_id, _trigger(compile_id), time, "") if time >= 0 else None

    def _attempt_of(self, record: Record) -> tuple[OpenCompile, Attempt] | None:
        compile_ = self._of(record)
        if compile_ is None:
            return None
        number = record.fields.get("attempt")
        time = self._time(record)
        if not compile_.closed:
            compile_.last_seen = max(compile_.last_seen, time)
        backward = compile_.trigger == "backward"
        return compile_, self._attempt(compile_, number if is_int(number) and not backward else 0, time)

    def _attempt(self, compile_: OpenCompile, number: int, time: int) -> Attempt:
        attempt = compile_.attempts.get(number)
        if attempt is None:
            if len(compile_.attempts) >= 1000:
                return compile_.attempts[max(compile_.attempts)]
            self._keys += 1
            attempt = compile_.attempts[number] = Attempt(self._keys, number, start=time)
        return attempt

    def _time(self, record: Record) -> int:
        return self._clock.near(record.clock, self.last)

    # --- records

    def _event(self, record: Record) -> None:
        event = parsed(record.payload)
        if not isinstance(event, dict):
            if record.payload is not None:
                self._losses.add("timed events of a form that is not known", record.where)
            return
        name, phase, ts, args = event.get("name"), event.get("ph"), event.get("ts"), event.get("args")
        if not isinstance(name, str) or not isinstance(phase, str):
            self._losses.add("timed events of a form that is not known", record.where)
            return
        time = nanoseconds(ts)
        if time < 0:
            self._losses.add("timed events with an impossible time", record.where)
            return
        self._clock.calibrate(record.clock, time)
        self.first = time if self.first < 0 else min(self.first, time)
        self.last = max(self.last, time)
        if phase not in ("B", "E"):
            return
        compile_id = args.get("compile_id") if isinstance(args, dict) else None
        if not isinstance(compile_id, str) or not re.fullmatch(r"!?\d{1,12}(?:/\d{1,12}){0,2}", compile_id):
            compile_id = self._compile_id(record.fields)
        if not compile_id:
            self.unused["chromium_event outside any compilation"] += 1
            return
        number = record.fields.get("attempt")
        (self._begin if phase == "B" else self._end)(compile_id, name[:300], time, number, args, record)

    def _begin(self, compile_id: str, name: str, time: int, number: Any, args: Any, record: Record) -> None:
        if name in ("entire_backward_compile", "backward._backward_impl"):
            self._start(compile_id, "backward", time, name)
            return
        frame = self._open.get((compile_id, False))
        if name == "compiled_autograd" or (
            name in ("dynamo", "entire_frame_compile", "_compile.compile_inner") and not _inside(frame, name)
        ):
            if frame is not None and not frame.opener:  # only records of it were seen until now
                frame.opener, frame.start = name, min(time, frame.start)
            else:
                self._start(compile_id, _trigger(compile_id), time, name)
            return
        compile_ = self._running(compile_id, time)
        if compile_ is None:
            return
        attempt = _ATTEMPT.fullmatch(name)
        if attempt is not None:
            compile_.cut_phases(time)
            self._attempt(compile_, int(attempt[1]), time).start = time
        elif not is_envelope(name):
            at = number if is_int(number) and compile_.trigger != "backward" else 0
            self._attempt(compile_, at, time)
            compile_.begin_phase(name, time, at)
            if name.startswith("inductor_compile"):
                compile_.inductor = True

    def _end(self, compile_id: str, name: str, time: int, number: Any, args: Any, record: Record) -> None:
        for compile_ in (self._open.get((compile_id, True)), self._open.get((compile_id, False))):
            if compile_ is not None and name == compile_.opener:
                self._mark_conflicts(compile_)
                if time < compile_.start:
                    self._losses.add("timed events that end before they begin", record.where)
                self._close(compile_, time)
                return
        compile_ = self._running(compile_id, time)
        if compile_ is None:
            return
        attempt = _ATTEMPT.fullmatch(name)
        if attempt is not None:
            compile_.cut_phases(time)
            self._attempt(compile_, int(attempt[1]), time).end = time
        elif is_envelope(name):
            compile_.soft_end = time
        elif not compile_.end_phase(name, time, small_facts(args)):
            self._losses.add("timed events that end but never began", record.where)

    def _running(self, compile_id: str, time: int) -> OpenCompile | None:
        """The compilation, its backward first, that an event belongs to and was last seen in; None is counted."""
        compile_ = self._open.get((compile_id, True)) or self._open.get((compile_id, False))
        if compile_ is None:
            self.unused["chromium_event outside any compilation"] += 1
            return None
        self._mark_conflicts(compile_)
        compile_.last_seen = max(compile_.last_seen, time)
        return compile_

    def _mark_conflicts(self, compile_: OpenCompile) -> None:
        """An event of a compilation while a later one is still open: they are on two threads."""
        if len(self._open) > 1:
            for other in self._open.values():
                if other.number > compile_.number:
                    other.conflicts.add(compile_.number)

    def _dynamo_start(self, record: Record) -> None:
        found = self._attempt_of(record)
        if found is None:
            return
        compile_, _ = found
        if compile_.closed and not compile_.opener:  # a log without timed events: the same id again
            started = self._start(compile_.compile_id, compile_.trigger, self._time(record), "")
            if started is None:
                return
            compile_ = started
            self._attempt(compile_, 0, compile_.start)
        compile_.stack = self._details.stack(frames_of(record.body.get("stack"), self._strings))
        compile_.place = compile_.stack[-1] if compile_.stack else None

    def _metrics(self, record: Record) -> None:
        if not isinstance(record.body, dict):
            raise TypeError
        found = self._attempt_of(record)
        if found is None:
            return
        compile_, attempt = found
        if compile_.trigger == "backward" and not compile_.closed:
            compile_ = self._recent.get((compile_.compile_id, False), compile_)
        self._details.metrics(compile_, attempt, record.body)
        for name, field in (("torch_version", "pytorch_version"), ("python_version", "python_version")):
            value = record.body.get(field)
            if isinstance(value, str) and value and not getattr(self, name):
                setattr(self, name, value.split(" ")[0][:60])
        if not compile_.opener and not compile_.closed:
            self._close_by_metrics(compile_, record)

    def _close_by_metrics(self, compile_: OpenCompile, record: Record) -> None:
        """A log without timed events: the record says how long it took."""
        took, began = record.body.get("entire_frame_compile_time_s"), record.body.get("start_time")
        end = self._time(record)
        if is_number(took) and 0 <= took < 1e7:
            start = int(began * 1e9) if is_number(began) and plausible(int(began * 1e9)) else end - int(took * 1e9)
            compile_.start, end = start, start + int(took * 1e9)
        self.first = compile_.start if self.first < 0 else min(self.first, compile_.start)
        self.last = max(self.last, end)
        self._close(compile_, end)

    def _backward_metrics(self, record: Record) -> None:
        if not isinstance(record.body, dict):
            raise TypeError
        compile_id = self._compile_id(record.fields) or str(record.body.get("compile_id") or "")
        compile_ = self._recent.get((compile_id, True))
        if compile_ is None or not compile_.attempts:
            self.unused["bwd_compilation_metrics without a compilation"] += 1
            return
        self._details.metrics(compile_, compile_.attempts[0], record.body)

    def _version(self, record: Record) -> None:
        version = parsed(record.payload)
        if isinstance(version, dict) and isinstance(version.get("pytorch_version"), str):
            self.torch_version = version["pytorch_version"][:60]


def _inside(frame: OpenCompile | None, name: str) -> bool:
    """Whether an envelope of this name lies within the one that opened the compilation."""
    order = ("dynamo", "entire_frame_compile", "_compile.compile_inner")
    return frame is not None and frame.opener in order and order.index(frame.opener) < order.index(name)


def _trigger(compile_id: str) -> str:
    return "compiled_autograd" if compile_id.startswith("!") else "forward"
