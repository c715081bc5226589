"""Every name of torch's compiler that is not public and that the compiler recorder touches.

A name that is gone makes its part "not observed"; it never breaks the program. Nothing here
imports ``torch._dynamo``: all of it is asked once the program has.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "DYNAMO",
    "Site",
    "argument_positions",
    "backend_of",
    "current_compile_id",
    "guard_texts",
    "guards_of_versions",
    "loaded",
    "metrics_of",
    "missing",
    "neuron_counters",
    "reasons_in",
    "recompile_limit",
    "restart_reason",
    "sites",
    "skip_reason",
    "structured_log",
]

DYNAMO: Final = "torch._dynamo"


@dataclass(frozen=True)
class Site:
    """A place where the compiler calls a function of its own by name, so that it can be replaced."""

    role: str
    owner: Any
    name: str


# role, module, attribute path, what is lost without it
_SITES: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("frame", "torch._dynamo.convert_frame", "_compile", "compilations of frames"),
    ("reasons", "torch._dynamo.convert_frame", "get_and_maybe_log_recompilation_reasons", "why a frame recompiles"),
    ("limit", "torch._dynamo.convert_frame", "exceeds_recompile_limit", "the recompile limit"),
    ("event", "torch._dynamo.utils", "ChromiumEventLogger._log_timed_event", "phases and backward compilations"),
    ("instant", "torch._dynamo.utils", "ChromiumEventLogger.log_instant_event", "hits and misses of torch's caches"),
    ("backend", "torch._dynamo.output_graph", "OutputGraph.call_user_compiler", "graphs"),
    ("break", "torch._dynamo.symbolic_convert", "InstructionTranslatorBase.log_graph_break", "graph breaks"),
)
# Where an older torch has it instead.
_FORMER: Final[dict[str, tuple[str, str]]] = {"break": ("torch._dynamo.symbolic_convert", "log_graph_break")}

_READ: Final[tuple[tuple[str, str, str], ...]] = (
    ("torch._dynamo.utils", "_compilation_metrics", "number of guards and operators, reasons of restarts"),
    ("torch._dynamo.config", "recompile_limit", "the limit of recompilations"),
    ("torch._guards", "CompileContext.current_compile_id", "ids of backward compilations"),
)

_ROLE_PARTS: Final = {
    "frame": "compile", "reasons": "recompile_reasons", "limit": "recompile_limit", "event": "compile_phases",
    "instant": "compile_caches", "backend": "graphs", "break": "graph_breaks",
}  # fmt: skip


def loaded() -> bool:
    """Whether the program has imported the compiler, completely."""
    module = sys.modules.get(DYNAMO)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _owner(module: str, path: str) -> tuple[Any, str] | None:
    owner: Any = sys.modules.get(module)
    *parents, name = path.split(".")
    for part in parents:
        owner = getattr(owner, part, None)
    if owner is None or getattr(owner, name, None) is None:
        return None
    return owner, name


def sites() -> Iterator[Site]:
    """The places that this torch has."""
    for role, module, path, _ in _SITES:
        found = _owner(module, path)
        if found is None and role in _FORMER:
            found = _owner(*_FORMER[role])
        if found is not None:
            yield Site(role, *found)


def missing() -> dict[str, str]:
    """part of the capability flags → what this torch does not tell. Empty before the compiler is imported."""
    if not loaded():
        return {}
    have = {site.role for site in sites()}
    lost = {_ROLE_PARTS[role]: f"this version of torch has no {path}: {loss} are not seen"
            for role, _, path, loss in _SITES if role not in have}  # fmt: skip
    for module, path, loss in _READ:
        if _owner(module, path) is None:
            lost[path] = f"this version of torch has no {path}: {loss} are not known"
    return lost


def argument_positions(function: Callable[..., Any]) -> dict[str, int]:
    """name of a parameter → its position."""
    return {name: i for i, name in enumerate(inspect.signature(function).parameters)}


def current_compile_id() -> str:
    """The id of the compilation this thread is in, "" outside any."""
    guards = sys.modules.get("torch._guards")
    context = getattr(guards, "CompileContext", None)
    found = context.current_compile_id() if context is not None else None
    return "" if found is None else str(found)


def frame_compile_number(compile_id: Any) -> int:
    """How often this frame was compiled before, -1 where torch does not tell."""
    number = getattr(compile_id, "frame_compile_id", None)
    return number if isinstance(number, int) else -1


def recompile_limit(kind: str = "recompile_limit") -> int:
    """How many versions of one function Dynamo keeps (here and now), -1 unknown."""
    value = getattr(sys.modules.get("torch._dynamo.config"), kind, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def backend_of(compiler: Any) -> tuple[str, str]:
    """Name of the backend, and what ``torch.compile(dynamic=…)`` said, "" each where it is not told."""
    for _ in range(8):
        inner = getattr(compiler, "_torchdynamo_orig_backend", None)
        if inner is None or inner is compiler:
            break
        compiler = inner
    fields: dict[str, Any] = {}
    for kind in reversed(type(compiler).__mro__):  # nothing of the program's is asked
        fields.update(vars(kind))
    fields.update(vars(compiler) if hasattr(compiler, "__dict__") else {})
    name, dynamic = fields.get("compiler_name"), fields.get("dynamic", "")
    if not isinstance(name, str):
        name = getattr(compiler, "__name__", None)
    if not isinstance(name, str):
        name = type(compiler).__name__
    if name == "inner_compiler" and getattr(compiler, "__module__", "") == "torch._dynamo.utils":
        name = "inductor"  # what torch's own test switch for compiled autograd calls inductor through
    return name, str(dynamic) if dynamic is None or isinstance(dynamic, (bool, str)) else ""


def metrics_of(compile_id: str, forward: bool) -> Any:
    """What torch counted for the compilation that has just ended, or None.

    Torch keeps the last 64 and this asks for one that was added a moment ago, so its list is
    neither enlarged nor replaced.
    """
    kept = getattr(sys.modules.get("torch._dynamo.utils"), "_compilation_metrics", ())
    for number, entry in enumerate(reversed(kept)):
        if number == 8:
            break
        if str(getattr(entry, "compile_id", "")) == compile_id and getattr(entry, "is_forward", True) is forward:
            return entry
    return None


def guard_texts(result: Any) -> list[str] | None:
    """The guards of a compiled frame as texts that torch has made anyway, None where it has none."""
    manager = getattr(getattr(result, "guarded_code", None), "guard_manager", None)
    parts = getattr(manager, "code_parts", None)
    return [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else None


def guards_of_versions(entries: Any, most: int = 16) -> dict[str, list[str]]:
    """compile id → guards, of the versions of a function that torch keeps (a list, or the first of a chain)."""
    chain = []
    if isinstance(entries, (list, tuple)):
        chain = list(entries[:most])
    while not isinstance(entries, (list, tuple)) and entries is not None and len(chain) < most:
        chain.append(entries)
        entries = getattr(entries, "next", None)
    found = {}
    for entry in chain:
        parts = getattr(getattr(entry, "guard_manager", None), "code_parts", None)
        if isinstance(parts, list):
            found[str(getattr(entry, "compile_id", ""))] = [part for part in parts if isinstance(part, str)]
    return found


def reasons_in(error: BaseException) -> list[str]:
    """The reasons that ``config.error_on_recompile`` puts into its exception's text, one a version."""
    parts = re.split(r"^\s*- ", str(error), flags=re.MULTILINE)[1:]
    return [part.strip() for part in parts]


def compiled(result: Any) -> bool:
    """Whether compiled code came out of a frame."""
    return getattr(result, "guarded_code", None) is not None


def skip_reason(result: Any) -> str:
    """Why Dynamo made no code of a frame, "" where it does not say."""
    reason = getattr(result, "skip_reason", None)
    return reason if isinstance(reason, str) else ""


def traced_stack() -> Any:
    """The stack of the line that is being traced, outermost first; None where this torch does not tell."""
    guards = sys.modules.get("torch._guards")
    extract = getattr(getattr(guards, "TracingContext", None), "extract_stack", None)
    return extract() if callable(extract) else None


def restart_reason(error: BaseException | None) -> str | None:
    """Why an attempt starts again; None when ``error`` does not mean that."""
    if error is None or not any(base.__name__ == "RestartAnalysis" for base in type(error).__mro__):
        return None
    reason = getattr(error, "restart_reason", None)
    return reason if isinstance(reason, str) and reason else type(error).__name__


def structured_log() -> Any:
    """The logger behind TORCH_TRACE."""
    import logging

    return logging.getLogger("torch.__trace")


def neuron_counters() -> Mapping[str, int]:
    """``artifact_hit`` and ``artifact_miss``: graphs that the neuron backend found in its cache, or compiled."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    if isinstance(counters, dict) and "neuron" in counters:  # the emulated device's
        return {str(k): v for k, v in list(counters["neuron"].items()) if isinstance(v, int)}
    from neuron_explorer.neuron import backend

    if backend.loaded() is None or backend.emulated():
        return {}
    known = backend.cache_statistics()
    found = known.value if known.found else {}
    return {f"artifact_{end}": found[name] for end, name in (("hit", "cache_hits"), ("miss", "cache_misses"))
            if isinstance(found.get(name), int)}  # fmt: skip
