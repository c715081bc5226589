"""A reason whose text has a form that no torch has had so far: it is shown whole."""

import torch
from torch._dynamo import guards

TEXT = "the ⟨moon⟩ of L['x'] is in phase 7, not in phase 3 {{}} %s \x1b[31m"


def forward(x):  # alert: recompile cause=other count=1 caller=call evidence="the ⟨moon⟩ of .* phase 3 .*called at" guard="the ⟨moon⟩ of .* phase 3" advice="not known here"
    return x + 1


def main():
    compiled = torch.compile(forward, backend="eager", dynamic=False)
    known = guards.get_guard_fail_reason
    guards.get_guard_fail_reason = lambda *_, **__: f"0/0: {TEXT}"
    try:
        for size in (3, 4):
            compiled(torch.ones(size))  # mark: call
    finally:
        guards.get_guard_fail_reason = known
