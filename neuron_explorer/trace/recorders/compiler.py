"""Compilations, while the program runs.

Functions that torch's compiler calls by name are replaced while a recording is on: what goes in
and comes out of them tells everything but the phases, and those come from the events that torch
makes in any case. The replacements lie around whole compilations, outside what is traced, so no
guard, frame or cache key can see them. Nothing is touched before the program itself imports the
compiler.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuron_explorer.trace.compile_spool import CompileWriter, path_in
from neuron_explorer.trace.recorders import torch_compiler_private
from neuron_explorer.trace.recorders.compiler_hooks import replacement
from neuron_explorer.trace.recorders.compiler_places import Places
from neuron_explorer.trace.recorders.compiler_structured import StructuredLog
from neuron_explorer.trace.recorders.compiler_watch import Watch

if TYPE_CHECKING:
    from neuron_explorer.trace.recorders.backend import Backend
    from neuron_explorer.trace.settings import Settings

__all__ = ["Compilations", "compiler_in_child", "compiler_of"]


class Compilations:
    """Records what torch.compile compiles between :meth:`start` and :meth:`stop`.

    Args:
        spool: where this process, and those it forks, keep their records.
        session: what ``session.json`` says (whose code is the user's).
        full: also listen to the log behind ``TORCH_TRACE``; compiling takes longer.
        warn: show a Python warning for every recompilation.
        tracing_ops: a function: how many operators compilers have traced so far.
        compiling: a function that is told whether the calling thread compiles.
        follow_forks: record forked children too.
    """

    def __init__(
        self,
        spool: Path,
        session: Mapping[str, Any],
        *,
        full: bool = False,
        warn: bool = False,
        tracing_ops: Callable[[], int] | None = None,
        compiling: Callable[[bool], None] | None = None,
        follow_forks: bool = True,
    ) -> None:
        self._spool = spool
        self._pid = os.getpid()
        self._follow_forks = follow_forks
        self._writers: dict[int, CompileWriter] = {}
        self._watch = Watch(
            Places(session),
            self._writer,
            self._listening,
            warn=warn,
            tracing_ops=tracing_ops or (lambda: -1),
            compiling=compiling,
        )
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._structured = StructuredLog(self._watch.on_structured) if full else None
        self._forget_import: Callable[[], None] | None = None
        self._active = False
        self._stopped = False
        self._errors: dict[str, int] = {}
        self._missing: dict[str, str] = {}

    # Life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; where the compiler is not imported yet, once it is."""
        from neuron_explorer.record.on_import import when_imported

        self._active = True
        self._forget_import = when_imported(torch_compiler_private.DYNAMO, self._install)

    def pause(self) -> None:
        """Record no compilation that begins from now on; what has begun is recorded to its end."""
        self._active = False

    def resume(self) -> None:
        """Record again."""
        self._active = not self._stopped

    def stop(self) -> None:
        """End: put the compiler's own functions back, except where somebody replaced ours since."""
        self._active, self._stopped = False, True
        if self._forget_import is not None:
            self._forget_import()
            self._forget_import = None
        for owner, name, original, observed in reversed(self._replaced):
            if vars(owner).get(name) is observed:
                setattr(owner, name, original)
        self._replaced.clear()
        if self._structured is not None:
            self._structured.stop()
        own = self._writers.get(os.getpid())
        for text, count in self._errors.items():
            self._writer().note(f"the compiler recorder failed {count} times: {text}")
        for text in self._missing.values():
            if own is not None:
                own.note(text)
        for writer in self._writers.values():
            writer.close()

    @property
    def missing(self) -> dict[str, str]:
        """What this torch does not tell: part → reason."""
        return dict(self._missing)

    @property
    def errors(self) -> int:
        """How often this recorder failed (the program did not notice)."""
        return sum(self._errors.values())

    def _install(self) -> None:
        if self._stopped or self._replaced:
            return
        try:
            self._missing = torch_compiler_private.missing()
            roles = set()
            for site in torch_compiler_private.sites():
                original = vars(site.owner)[site.name]
                observed = replacement(site.role, original, self._watch, self._try)
                setattr(site.owner, site.name, observed)
                self._replaced.append((site.owner, site.name, original, observed))
                roles.add(site.role)
            self._watch.has_limit = "limit" in roles
            if self._structured is not None:
                self._structured.start()
        except Exception as error:
            self._failed(error)

    def _writer(self) -> CompileWriter:
        pid = os.getpid()
        writer = self._writers.get(pid)
        if writer is None:
            writer = self._writers.setdefault(pid, CompileWriter(path_in(self._spool, pid)))
        return writer

    def _failed(self, error: BaseException) -> None:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}" if at is not None else "?"
        text = f"{type(error).__name__} at {where}"
        if text in self._errors or len(self._errors) < 20:
            self._errors[text] = self._errors.get(text, 0) + 1

    def _try(self, function: Callable[..., Any], *args: Any) -> Any:
        """A fault of the recorder is counted; the program never sees it."""
        try:
            return function(*args)
        except Exception as error:
            self._failed(error)
            return None

    def _listening(self) -> bool:
        return self._active and (self._follow_forks or os.getpid() == self._pid)


def compiler_of(
    settings: Settings, session: Mapping[str, Any], spool: Path, backend: Backend
) -> Compilations | None:
    """The recorder that the settings ask for, beside the recorder of operators; None for none."""
    if settings.compile == "off":
        return None
    return _beside(backend, spool, session, settings.compile == "full", settings.warn_on_recompile)


def compiler_in_child(session: Mapping[str, Any], spool: Path, backend: Backend) -> list[Compilations]:
    """The same for a spawned process that joins the recording that ``session`` describes: one, or none."""
    settings = session.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    mode = settings.get("compile", "off")
    if mode == "off":
        return []
    return [_beside(backend, spool, session, mode == "full", settings.get("warn_on_recompile") is True)]


def _beside(backend: Backend, spool: Path, session: Mapping[str, Any], full: bool, warn: bool) -> Compilations:
    return Compilations(
        spool,
        session,
        full=full,
        warn=warn,
        tracing_ops=lambda: int(backend.stats().get("tracing_ops", -1)),
        compiling=getattr(backend, "compiling", None),
        follow_forks=backend.name == "native",  # the other does not record them either
    )
