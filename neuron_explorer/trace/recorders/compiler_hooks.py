"""Replacements of the compiler's own functions: each calls the original, and tells what went in and came out.

They are called by name and lie around whole compilations, outside what is traced. Each is hidden
from the compiler, passes everything on unchanged, and lets no fault of this package out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from neuron_explorer.trace.recorders import torch_compiler_private
from neuron_explorer.trace.recorders.compiler_watch import Watch
from neuron_explorer.trace.recorders.torch_private import hide_from_dynamo

__all__ = ["Try", "replacement"]

Try = Callable[..., Any]
"""Calls a function with arguments; a fault is counted and the result is None."""


def replacement(role: str, original: Callable[..., Any], watch: Watch, attempt: Try) -> Callable[..., Any]:
    """What stands in for ``original`` at the sites of this role."""
    observed = _MAKERS[role](original, watch, attempt)
    hide_from_dynamo(observed)
    return observed


def _around_frame(original: Callable[..., Any], watch: Watch, attempt: Try) -> Callable[..., Any]:
    positions = torch_compiler_private.argument_positions(original)

    @functools.wraps(original)
    def compile_frame(*args: Any, **kwargs: Any) -> Any:
        if not watch.listening():
            return original(*args, **kwargs)
        opened = attempt(watch.frame_begins, positions, args, kwargs)
        if "skip" in kwargs:
            kwargs["skip"] += 1  # frames to leave out of the stacks that torch logs: this one, too
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            attempt(watch.frame_fails, opened, error)
            attempt(watch.release, opened)
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next  # no trace of this function in it
            raise
        attempt(watch.frame_ends, opened, result)
        attempt(watch.release, opened)
        return result

    return compile_frame


def _around_reasons(original: Callable[..., Any], watch: Watch, attempt: Try) -> Callable[..., Any]:
    @functools.wraps(original)
    def recompilation_reasons(*args: Any, **kwargs: Any) -> Any:
        versions = kwargs.get("cache_entries", args[0] if args else None)
        try:
            texts = original(*args, **kwargs)
        except Exception as error:  # torch was told that a recompilation is an error
            attempt(watch.on_reasons, torch_compiler_private.reasons_in(error), versions)
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next
            raise
        if not kwargs.get("skip_logging"):
            attempt(watch.on_reasons, texts, versions)
        return texts

    return recompilation_reasons


def _around_limit(original: Callable[..., Any], watch: Watch, attempt: Try) -> Callable[..., Any]:
    @functools.wraps(original)
    def exceeds_limit(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        attempt(watch.on_limit, result)
        return result

    return exceeds_limit


def _around_event(original: Callable[..., Any], watch: Watch, attempt: Try) -> Callable[..., Any]:
    @functools.wraps(original)
    def timed_event(*args: Any, **kwargs: Any) -> Any:
        attempt(watch.on_event, args, kwargs)
        return original(*args, **kwargs)

    return timed_event


def _around_instant(original: Callable[..., Any], watch: Watch, attempt: Try) -> Callable[..., Any]:
    @functools.wraps(original)
    def instant_event(*args: Any, **kwargs: Any) -> Any:
        attempt(watch.on_instant, kwargs.get("event_name", args[1] if len(args) > 1 else ""))
        return original(*args, **kwargs)

    return instant_event


def _around_backend(original: Callable[..., Any], watch: Watch, attempt: Try) -> Callable[..., Any]:
    @functools.wraps(original)
    def call_backend(*args: Any, **kwargs: Any) -> Any:
        attempt(watch.on_graph, kwargs.get("gm", args[1] if len(args) > 1 else None))
        return original(*args, **kwargs)

    return call_backend


def _around_break(original: Callable[..., Any], watch: Watch, attempt: Try) -> Callable[..., Any]:
    positions = torch_compiler_private.argument_positions(original)

    @functools.wraps(original)
    def log_graph_break(*args: Any, **kwargs: Any) -> Any:
        attempt(watch.on_break, positions, args, kwargs)
        return original(*args, **kwargs)

    return log_graph_break


_MAKERS: dict[str, Callable[[Callable[..., Any], Watch, Try], Callable[..., Any]]] = {
    "frame": _around_frame,
    "reasons": _around_reasons,
    "limit": _around_limit,
    "event": _around_event,
    "instant": _around_instant,
    "backend": _around_backend,
    "break": _around_break,
}
