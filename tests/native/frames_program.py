"""Compares the probe's walk with Python's own frames; run with the probe's folder as argument."""

from __future__ import annotations

import sys
import threading

sys.path.insert(0, sys.argv[1])
import frames_probe

checked = 0


def check(first: object) -> None:
    """The walk from here outwards is what sys._getframe says, and the first local is right."""
    global checked
    walked = frames_probe.walk()
    frame, expected = sys._getframe(), []
    while frame is not None:
        expected.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    assert walked[0][0] is expected[0][0]
    assert [(code, line) for code, line, _ in walked[1:]] == expected[1:], (walked, expected)
    assert walked[0][2] is first
    checked += 1


class Thing:
    def method(self, depth: int) -> None:
        check(self) if depth == 0 else self.method(depth - 1)

    def __getattr__(self, name: str) -> object:
        check(self)
        return name


def generator(n: int):
    for i in range(n):
        check(
            i
        )
        yield i


def checked_first(first: object) -> int:
    check(first)
    return 0


class Made:
    def __init__(self) -> None:
        check(self)


def cell(value: int):
    return lambda: check(value)


for _ in range(30):  # often enough that the interpreter specialises the call
    Made()
    cell(1)
thing = Thing()
check(thing)
for depth in (0, 1, 50, 400):
    # A frame object that something else holds, as a debugger would.
    held = sys._getframe()
    thing.method(depth)
list(generator(3))
[check(i) for i in "ab"]
sorted([3, 1], key=checked_first)
(lambda x: check(x))(thing)
thing.missing  # noqa: B018
exec(compile("\n\ncheck(None)", "somewhere.py", "exec"))
try:
    raise ValueError
except ValueError:
    check(thing)
worker = threading.Thread(target=check, args=(thing,))
worker.start()
worker.join()
print("checked", checked)
