"""One piece of advice for each cause, with the user's names in it.

What may be advised depends on the backend: ``neuron`` compiles for fixed shapes only, so that
``mark_dynamic`` and ``dynamic=True`` would not help there but fail.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from neuron_explorer.trace.guard_names import tensor_of


@dataclass(frozen=True)
class Case:
    """What the advice is about. ``values``: sizes or values seen, oldest first."""

    cause: str
    source: str = ""
    expected: str = ""
    actual: str = ""
    dimension: int = -1
    guard: str = ""
    function: str = ""
    place: str = ""  # the user's line: `model.py:12`
    caller: str = ""  # the user's call: `train.py:40`
    caller_code: str = ""
    dynamic_allowed: bool = True
    dynamic_tried: bool = False
    values: tuple[str, ...] = ()
    dynamic_off: bool = False  # dynamic=False was asked for
    late_once: bool = False
    count: int = 1
    after_break: int = -1  # the line of the graph break that this code follows
    of_backward: bool = False  # a graph that compiled autograd made of a backward


def advice(case: Case) -> str:
    """The advice for a recompilation."""
    text = _BY_CAUSE.get(case.cause, _other)(case)
    return text[:1].upper() + text[1:]


def _at(case: Case) -> str:
    where = case.caller or case.place
    return f" at {where}" if where else ""


def _name(case: Case, otherwise: str = "the value") -> str:
    return _quoted(case.source) if case.source else otherwise


def _quoted(name: str) -> str:
    """As code; words (``the first argument``) stay words."""
    return name if " " in name else f"`{name}`"


def _size(case: Case) -> str:
    tensor = tensor_of(case.source) or "the input"
    shown = tensor if tensor == "the input" else _quoted(tensor)
    if case.of_backward:
        return (
            "The graph of a backward has the sizes of its forward: keep those fixed, or mark their dimensions dynamic "
            "where the forward is called, as the alert for the forward says."
        )
    if case.after_break >= 0:
        return (
            f"This code follows the graph break in line {case.after_break}: without the break it would be compiled "
            f"with its function. The size comes from what is passed to the function{_at(case)}, whose alert says what "
            "to do."
        )
    if re.search(r"\.\w*(?:weight|bias)$", tensor):
        return (
            f"The parameter {shown} has another size than before: compile after the model has its final shape, "
            "or compile each model of its own (one torch.compile call for each)."
        )
    one = "1" in (case.expected, case.actual) and (case.count == 1 or not case.dynamic_tried)
    if one and case.dimension >= 0 and len(case.values) <= 2 and case.dynamic_allowed:
        return (
            f"A size of 1 always has a compilation of its own (prefill and decode, say): one of each is right. If "
            f"{shown}{_dim(case)} need not be 1, pad it before the call{_at(case)}."
        )
    if case.late_once:
        return (
            f"One batch is smaller than the others: give the DataLoader drop_last=True, or pad the last batch "
            f"to the full size before the call{_at(case)}."
        )
    if _mentions_cache(tensor):
        return (
            f"{shown} grows with every call{_at(case)}: use a cache of fixed size, allocated once "
            '(in transformers, cache_implementation="static").'
        )
    grows = _counts_up(case.values)
    if grows and not (case.dynamic_allowed and case.dimension >= 0 and not case.dynamic_tried):
        more = "" if case.dynamic_allowed or case.dynamic_off else ", and give torch.compile dynamic=False"
        more += "" if case.dynamic_allowed else ": this backend compiles every size"
        return f"{shown} grows with every call{_at(case)}: pad it to its full length, or to a few sizes{more}."
    buckets = f"Pad {shown}{_dim(case)} to a fixed size, or to a few bucket sizes, before the call{_at(case)}"
    if not case.dynamic_allowed:
        return (
            f"{buckets}{'' if case.dynamic_off else ', and give torch.compile dynamic=False'}: this backend compiles "
            "for fixed shapes, so a dynamic dimension would fail, not help."
        )
    if case.dynamic_tried:
        return (
            f"The size is dynamic already, but the graph holds only where {case.expected or 'a condition holds'}: "
            f"{buckets[0].lower()}{buckets[1:]} so that it always does."
        )
    if case.dimension >= 0:
        mark = f"call torch._dynamo.mark_dynamic({tensor}, {case.dimension})"
        if " " in tensor:
            mark = f"mark dimension {case.dimension} of {tensor} (torch._dynamo.mark_dynamic)"
        if case.dynamic_off:
            return (
                f"Leave out dynamic=False, or {mark} before the first call{_at(case)}: one compilation then "
                f"serves all sizes. Else pad {shown} to a few sizes."
            )
        really = f"{shown} grows with every call:" if grows else "If the size really varies,"
        return (
            f"{really} {mark} before the first call{_at(case)}, so that one compilation serves all sizes; "
            "else pad to a fixed size."
        )
    return buckets + "."


def _dim(case: Case) -> str:
    return f" in dimension {case.dimension}" if case.dimension >= 0 else ""


def _mentions_cache(tensor: str) -> bool:
    return re.search(r"cache|past|(?:^|[._])(?:keys?|values?|k|v)(?:$|[._\[])", tensor, re.IGNORECASE) is not None


def _counts_up(values: tuple[str, ...]) -> bool:
    """At least three sizes, each larger than the one before."""
    if len(values) < 3 or not all(v.isdecimal() and len(v) < 10 for v in values):
        return False
    numbers = [int(v) for v in values]
    return all(a < b for a, b in pairwise(numbers))


def _stride(case: Case) -> str:
    tensor = tensor_of(case.source) or "the tensor"
    return (
        f"`{tensor}` comes with two memory layouts (a transposed or sliced tensor, say): "
        f"call .contiguous() on it before the call{_at(case)}, so that there is one."
    )


def _dtype(case: Case) -> str:
    several = case.values if len(case.values) > 2 else (case.expected, case.actual) if case.actual else ()
    kinds = f" ({', '.join(several[:5])})" if several else ""
    return (
        f"{_name(case, 'A tensor')} comes with several dtypes{kinds}: convert it once, where it is made, "
        f"and pass the same dtype to every call{_at(case)}."
    )


def _device(case: Case) -> str:
    return (
        f"{_name(case, 'A tensor')} comes from two devices: move it with .to(device) where it is made, "
        f"before the call{_at(case)}."
    )


def _requires_grad(case: Case) -> str:
    if "_parameters[" in case.guard:
        return (
            f"{_name(case)} was frozen or set free after the first call: decide what is trained before the first call"
            f"{_at(case)}. Each change is a compilation of its own."
        )
    return (
        f"{_name(case, 'A tensor')} sometimes requires gradients and sometimes not: decide it before the first call, "
        f"or .detach() it for the calls{_at(case)} that need none. Training and evaluation each keep one compilation."
    )


def _object(case: Case) -> str:
    if case.source == "backend":
        return (
            "torch.compile was given a new backend object: make the backend once and pass the same object, "
            "or call torch.compile once and keep what it returns."
        )
    if "deleted" in case.actual:
        return f"{_name(case)} is made anew for each call{_at(case)}: make it once, keep it, and pass the same object."
    if "same tensor" in case.actual or "same object" in case.expected:
        return (
            f"{_name(case)} is sometimes the same tensor as another argument: pass a copy (.clone()) where they "
            f"coincide{_at(case)}, so that every call has the same aliasing."
        )
    if "function" in case.expected or "lambda" in case.guard or "__code__" in case.guard:
        return (
            f"{_name(case)} is another function at each call{_at(case)}: define it once, outside the loop, "
            "and pass values as arguments."
        )
    if "type" in case.expected or case.actual == "nn.Parameter":
        return (
            f"{_name(case)} has another type than before: pass one type to every call{_at(case)}, "
            "or compile a function for each type."
        )
    return (
        f"{_name(case)} is another object than the one that was compiled for: make it once, outside the loop, "
        f"and pass the same object at each call{_at(case)}."
    )


def _python_value(case: Case) -> str:
    name = _name(case)
    kind = _kind_of(case.expected)
    if kind == "number" and re.search(r"\['(?:lr|weight_decay|momentum)'\]$", case.source):
        return (
            f"{name} is baked into the graph of the optimizer's step: make the optimizer with a tensor (for the "
            "learning rate lr=torch.tensor(1e-3), with capturable=True where the optimizer asks for it), which a "
            "scheduler then changes in place."
        )
    if kind == "length" and case.source in ("kwargs", "the keyword arguments"):
        return (
            f"Other keyword arguments are passed than before: pass the same ones at each call{_at(case)}, with None "
            "for what is not given. Two ways to call it (prefill and decode, say) keep one compilation each."
        )
    if kind == "length":
        return (
            f"The length of {name} is baked into the graph: keep it fixed, or pass one stacked tensor instead of a "
            f"collection whose length changes{_at(case)}."
        )
    if kind in ("keys", "presence"):
        return (
            f"{name} has other keys or attributes than before: pass the same ones at each call{_at(case)} "
            "(with None for what is not given)."
        )
    if kind == "none":
        return (
            f"{name} is sometimes None and sometimes not: pass a tensor always (a mask of ones, say), "
            f"or keep the two ways as two calls{_at(case)}. Two compilations are then all there will be."
        )
    if kind == "type":
        return (
            f"{name} comes with several types: pass one type at each call{_at(case)}, a tensor if it is a number "
            "that changes."
        )
    if kind in ("switch", "text"):
        return (
            f"{name} chooses between ways through the code, and each is compiled once: keep the set of values small, "
            f"or make the choice outside the compiled function{_at(case)}."
        )
    if kind == "condition":
        return (
            f"The graph holds only where {case.expected}: keep {name} on one side of it, or make the choice outside "
            f"the compiled function{_at(case)}."
        )
    number = name if " " in case.source else f"The number {name}"
    return (
        f"{number} is baked into the graph: pass a tensor instead of a Python number "
        f"(torch.tensor({_plain(case)})){_at(case)}, or hoist the constant out of the loop if it need not change."
    )


def _plain(case: Case) -> str:
    return case.source if case.source and len(case.source) < 40 and " " not in case.source else "value"


def _kind_of(expected: str) -> str:
    if re.fullmatch(r"[\d,]+ items?", expected) or expected.endswith("left to iterate"):
        return "length"
    if expected.startswith(("keys ", "with ", "without ", "an unchanged dict")):
        return "keys"
    if expected in ("present", "absent"):
        return "presence"
    if expected in ("None", "not None", "a tensor", "torch.Tensor"):
        return "none"
    if expected.startswith("type "):
        return "type"
    if expected in ("True", "False", "a bool") or expected.startswith("torch."):
        return "switch"
    if expected[:1] in "'\"":
        return "text"
    if re.search(r"[<>=!]=|<|>", expected):
        return "condition"
    return "number"


def _global_value(case: Case) -> str:
    return (
        f"The global {_name(case, 'value')} is baked into the graph: pass it to "
        f"`{case.function or 'the function'}` as an argument (as a tensor, if it is a number that changes), "
        "or set it before the first call and leave it."
    )


def _module_state(case: Case) -> str:
    name = _name(case, "An attribute")
    if case.source.endswith("training"):
        return (
            "Training and evaluation are two graphs: one compilation of each is right. If it happens more often, "
            "switch less often, or compile a model of its own for evaluation."
        )
    if _kind_of(case.expected) == "length":
        return (
            f"{name} changes its length: build all of it before the first call, "
            "so that the compiled model never changes its structure."
        )
    if case.expected.startswith(("one object", "type ", "one type")):
        return f"{name} was replaced: build the model before the first call, and load weights into it in place."
    return (
        f"{name} is baked into the graph as a Python value: keep it in a buffer "
        f"(self.register_buffer) and update it in place, or change it outside the compiled forward."
    )


def _grad_mode(case: Case) -> str:
    what = case.source or "global state of torch"
    if "grad mode" in what or "inference" in f"{what} {case.expected} {case.actual}":
        return (
            "Calls with and without gradients need a compilation each: one of each is right. Use either "
            "torch.no_grad() or torch.inference_mode(), not both, and set it outside the loop."
        )
    if "autocast" in what:
        return (
            "The function is called inside and outside torch.autocast: enter it around every call, or inside the "
            "compiled function, so that there is one way."
        )
    return f"Set {what} once, before the first call: every change of it needs a new compilation."


def _no_reason(case: Case) -> str:
    return (
        "Dynamo gave no reason. Often a new backend object or a new function was passed to torch.compile: "
        "call it once and keep what it returns. TORCH_LOGS=recompiles_verbose may say more."
    )


def _other(case: Case) -> str:
    if "marked" in case.expected:
        return (
            "Mark dimensions (mark_dynamic, mark_static) before the first call, on every tensor that is passed, "
            "so that all calls have the same marks."
        )
    if "layout" in case.expected:
        return f"{_name(case)} comes with two layouts: convert it once, before the call{_at(case)}."
    return (
        f"This reason is not known here; the guard's text is shown whole. Look at what changed in "
        f"{_name(case, 'the arguments')} between the calls{_at(case)}."
    )


_BY_CAUSE = {
    "size": _size,
    "stride": _stride,
    "dtype": _dtype,
    "device": _device,
    "requires_grad": _requires_grad,
    "object_identity": _object,
    "python_value": _python_value,
    "global_value": _global_value,
    "module_state": _module_state,
    "grad_mode": _grad_mode,
    "no_reason": _no_reason,
    "other": _other,
}


def limit_advice(case: Case, limit: int) -> str:
    """The advice where Dynamo gave up on a function."""
    if case.cause:
        return advice(case)
    return (
        "Find what makes the function recompile (its other alerts say so). Raising "
        f"torch._dynamo.config.recompile_limit{f' (now {limit})' if limit > 0 else ''} only helps where the number of "
        "variants is small and known."
    )


_BREAKS: Final = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (
            r"the profiler is not compiled",
            "Call the profiler outside the compiled function: the graph breaks at each of its calls{at}.",
        ),
        (
            r"torch\.compiler\.disable",
            "What is called{at} is kept out of compiled code by torch.compiler.disable: call it before or after the "
            "compiled function, or take torch.compiler.disable away where it is not needed any more.",
        ),
        (
            r"\bprint\b|\blogging\b|logger|warnings\.warn",
            "Remove the print or log{at} from the compiled function, or keep it out with "
            "`if not torch.compiler.is_compiling():`.",
        ),
        (
            r"\.item\(\)|scalar_dense|tensor\.item|tolist",
            "The value of a tensor is read into Python{at}, which also makes the host wait for the device: keep it a "
            "tensor, and read it after the compiled function.",
        ),
        (
            r"data.dependent|\bjump",
            "A branch depends on the value of a tensor{at}: compute both ways and choose with torch.where, "
            "use torch.cond, or take the decision outside the compiled function.",
        ),
        (r"numpy.*conver|conver.*numpy", "Stay with torch operators{at}: NumPy takes the data out of the graph."),
        (
            r"dynamic shape|nonzero|dynamic_output",
            "The shape of a result depends on data{at}: use a form with a fixed shape "
            "(torch.where, a mask, a fixed number of results).",
        ),
        (
            r"\bskip|builtin|c extension|unsupported method call|unsupported function",
            "Dynamo cannot look into this call{at}: take it out of the compiled function, or make it a custom "
            "operator (torch.library.custom_op).",
        ),
        (r"context manager|generic context", "Enter this context manager outside the compiled function{at}."),
        (r"exception|\braise\b|\btry\b", "Take the raise or try block{at} out of the compiled function."),
    )
)


def break_advice(reason: str, kind: str, code: str, place: str, hints: list[str]) -> str:
    """The advice for a graph break: by what torch says of it, else by the line's code, else torch's own hint."""
    at = f" at {place}" if place else ""
    # Torch mentions print and warn as examples, in parentheses, where another function is meant.
    said = re.sub(r"\(e\.g\..*?\)", "", f"{kind} {reason}".lower(), flags=re.DOTALL)
    for text in (said, code.lower()):
        for pattern, words in _BREAKS:
            if pattern.search(text):
                return words.replace("{at}", at)
    for hint in hints:
        if hint and "graph break" not in hint.lower() and "issue" not in hint.lower():
            return hint
    return f"Take the line{at} out of the compiled function, or rewrite it with torch operators."
