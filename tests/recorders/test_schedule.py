"""Which steps a schedule records."""

from __future__ import annotations

import pytest

import neuron_explorer


def phases(schedule, steps):
    letters = {"wait": "-", "warmup": "u", "active": "A"}
    return "".join(letters[schedule.phase(i)] for i in range(steps))


def test_cycle():
    assert phases(neuron_explorer.schedule(wait=2, warmup=1, active=3), 14) == "--uAAA--uAAA--"


def test_repeat_ends():
    s = neuron_explorer.schedule(wait=1, active=1, repeat=2)
    assert phases(s, 6) == "-A-A--"
    assert [i for i in range(6) if s.opens_window(i)] == [1, 3]


def test_warmup_opens_no_window():
    s = neuron_explorer.schedule(warmup=2, active=2)
    assert [s.phase(i) for i in range(5)] == ["warmup", "warmup", "active", "active", "warmup"]
    assert [i for i in range(8) if s.opens_window(i)] == [2, 6]


@pytest.mark.parametrize(
    "bad", [{"active": 0}, {"active": -1}, {"active": 1, "wait": -1}, {"active": 1.5}, {"active": True}]
)
def test_bad_numbers(bad):
    with pytest.raises(ValueError, match="schedule"):
        neuron_explorer.schedule(**bad)
