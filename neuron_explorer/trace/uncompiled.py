"""Keeps torch.compile out of the profiler's own code, when the profiler is called from a compiled function."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def uncompiled(function: F) -> F:
    """``function``, in which nothing is compiled, whatever calls it.

    Dynamo breaks the graph at the call and would go on to compile each function that runs inside:
    hundreds of the profiler's, which would be slow, would be in the recording, and with NumPy code
    traced as torch code would fail. ``torch.compiler.disable`` is the same, but has to import Dynamo,
    which most programs never need.
    """

    @functools.wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        set_eval_frame = getattr(dynamo, "set_eval_frame", None)
        if set_eval_frame is None:
            return function(*args, **kwargs)
        before = set_eval_frame(None)  # of this thread; what it compiles with is given back as it was
        try:
            return function(*args, **kwargs)
        finally:
            set_eval_frame(before)

    outside._torchdynamo_disable = True  # type: ignore[attr-defined]  # a break at the call, nothing inlined
    outside._torchdynamo_disable_msg = "the profiler is not compiled"  # type: ignore[attr-defined]
    return outside  # type: ignore[return-value]
