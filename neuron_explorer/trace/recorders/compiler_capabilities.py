"""What a recording can tell of compilations, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from neuron_explorer.trace.recorders.compiler import Compilations

__all__ = ["compiler_capabilities"]

_LIMITS: Final = {
    "compile": "frames that Dynamo passes over before it compiles them are not seen; compilations in other "
    "processes of a compile pool show as the time that is waited for them",
    "recompile_reasons": "the first guard that failed in each cache entry; only while Dynamo compares",
    "graph_breaks": "a break with fullgraph=True is the failure of its compilation",
    "guards": "",
    "compile_phases": "parts that torch itself times",
}


def compiler_capabilities(compiler: Compilations | None) -> dict[str, dict[str, Any]]:
    """The flags for the recorder of compilations; None: it is not on."""
    if compiler is None:
        return {name: {"observed": False, "reason": "recorded with compile=\"off\""} for name in _LIMITS}
    result: dict[str, dict[str, Any]] = {}
    for name, limit in _LIMITS.items():
        lost = compiler.missing.get(name)
        result[name] = {"observed": lost is None, "reason": limit if lost is None else lost}
    others = [text for name, text in compiler.missing.items() if name not in _LIMITS]
    if compiler.errors:
        others.append(f"the recorder of compilations failed {compiler.errors} times; the program went on")
    if others:
        reasons = [result["compile"]["reason"], *others]
        result["compile"]["reason"] = "; ".join(reason for reason in reasons if reason)
    return result
