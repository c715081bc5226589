"""True clocks lie within the bounds that collectives give, whatever the clocks and whoever is late."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up_ranks import MS, TrueClock, all_reduces, facts_of

from neuron_explorer.analysis.ranks.clocks import align, overlay_refusal
from neuron_explorer.analysis.ranks.corridor import corridor
from neuron_explorer.analysis.ranks.facts import BY_SUBMIT, OPERATION_CODES, Group
from neuron_explorer.analysis.ranks.matching import match
from neuron_explorer.analysis.ranks.merge import merge_ranks

FAST = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
HOUR = 3_600_000 * MS


def true_line(clock: TrueClock, reference: TrueClock, at: np.ndarray) -> np.ndarray:
    """What the reference's clock reads when this one reads ``at``."""
    return (at / clock.rate + clock.start - reference.start) * reference.rate


def check(aligned, clocks: dict[int, TrueClock], durations: dict[int, int]) -> None:
    reference = clocks[aligned.reference]
    for rank, found in aligned.of.items():
        at = np.linspace(0, durations[rank], 50)
        error = np.abs(found.to_reference(at) - true_line(clocks[rank], reference, at))
        # Times are whole ns: a rounding of each clock is no error of the alignment.
        assert (error <= found.error_at(at) + 4).all(), (rank, error.max(), found.error_ns)
        assert found.error_ns >= found.error_at(at).max() - 1


@FAST
@given(seed=st.integers(0, 2**32 - 1), ranks=st.integers(2, 5), number=st.integers(1, 60))
def test_true_offset_and_drift_are_within_the_bounds(seed, ranks, number):
    rng = np.random.default_rng(seed)
    clocks = [
        TrueClock(float(rng.integers(-10 * HOUR, 10 * HOUR)), 1 + float(rng.uniform(-1e-4, 1e-4))) for _ in range(ranks)
    ]
    first = 11 * HOUR
    begun = first + np.cumsum(rng.integers(MS // 10, 40 * MS, number)).astype(float)
    arrivals = begun[:, None] + rng.exponential(rng.choice([1e3, 1e6, 1e7]), (number, ranks))
    took = rng.exponential(1e5, (number, ranks))
    rows = all_reduces(arrivals, took, clocks)
    facts = [facts_of(r, ranks, rows[r]) for r in range(ranks)]
    run = merge_ranks(facts)
    aligned = align(run, match(run))
    assert not aligned.refused and set(aligned.of) == set(range(ranks))
    check(aligned, dict(enumerate(clocks)), {r: facts[r].duration_ns for r in range(ranks)})


@FAST
@given(seed=st.integers(0, 2**32 - 1))
def test_ranks_that_share_no_group_are_joined_through_others(seed):
    """A 2 × 3 mesh without collectives of the whole world."""
    rng = np.random.default_rng(seed)
    clocks = [TrueClock(float(rng.integers(0, MS)), 1 + float(rng.uniform(-1e-4, 1e-4))) for _ in range(6)]
    meshes = [(0, 1, 2), (3, 4, 5), (0, 3), (1, 4), (2, 5)]
    rows: dict[int, list] = {r: [] for r in range(6)}
    names: dict[int, list[Group]] = {r: [] for r in range(6)}
    for n, members in enumerate(meshes):
        arrivals = (2 * MS + np.arange(20) * 5 * MS)[:, None] + rng.exponential(1e5, (20, len(members)))
        table = all_reduces(arrivals, rng.exponential(1e4, (20, len(members))), [clocks[m] for m in members])
        for m, mine in zip(members, table, strict=True):
            rows[m] += [row | {"group": len(names[m])} for row in mine]
            names[m].append(Group(f"mesh {n}", "", "gloo", members, len(members)))
    facts = [facts_of(r, 6, rows[r], tuple(names[r])) for r in range(6)]
    run = merge_ranks(facts)
    aligned = align(run, match(run))
    assert set(aligned.of) == set(range(6))
    assert aligned.of[4].hops == 2 and aligned.of[4].error_ns > min(aligned.of[1].error_ns, aligned.of[3].error_ns)
    check(aligned, dict(enumerate(clocks)), {r: facts[r].duration_ns for r in range(6)})


def test_stages_that_only_send_to_each_other_are_aligned():
    clocks = [TrueClock(), TrueClock(3 * MS, 1 + 5e-5)]
    begin = 10 * MS + np.arange(30) * 4 * MS
    send, recv = OPERATION_CODES["send"], OPERATION_CODES["recv"]
    rows: list[list[dict]] = [[], []]
    for source, target, shift in ((0, 1, 0), (1, 0, 2 * MS)):
        for n, t in enumerate(begin + shift):
            own, other = clocks[source].reads([t, t + 9000]), clocks[target].reads([t - 1000, t + 10_000])
            for rank, operation, peer, times in ((source, send, target, own), (target, recv, source, other)):
                rows[rank].append({"operation": operation, "peer": peer, "sequence": n, "begin": int(times[0]),
                                   "end": int(times[1])})  # fmt: skip
    facts = [facts_of(r, 2, rows[r]) for r in range(2)]
    run = merge_ranks(facts)
    aligned = align(run, match(run))
    check(aligned, dict(enumerate(clocks)), {r: facts[r].duration_ns for r in range(2)})
    assert aligned.of[1].error_ns < 10 * MS
    one_way = merge_ranks([
        facts_of(r, 2, [row for row in rows[r] if row["operation"] == (send, recv)[r]]) for r in range(2)
    ])  # fmt: skip
    assert "one side" in align(one_way, match(one_way)).refused[1]


def test_late_starts_are_not_taken_for_skew():
    """Two ranks on machines whose clocks are 11.56 s apart, with a true skew of 1.6 ms."""
    clocks = [TrueClock(), TrueClock(0.0, unix=1_760_000_000_000_000_000 + 11_560 * MS)]
    arrivals = (np.arange(1, 50) * 20 * MS)[:, None] + np.array([0, 1.6 * MS])
    rows = all_reduces(arrivals, np.full((49, 2), 2e4), clocks)
    run = merge_ranks([facts_of(r, 2, rows[r], start_unix_ns=clocks[r].unix) for r in range(2)])
    found = align(run, match(run)).of[1]
    assert abs(found.unix_ns - 11_560 * MS) <= found.error_ns + 2 and found.error_ns < 2 * MS


def test_without_an_anchor_there_is_no_overlay():
    run = merge_ranks([facts_of(0, 2, []), facts_of(1, 2, [])])
    aligned = align(run, match(run))
    assert aligned.reference == 0 and set(aligned.of) == {0}
    assert "no collective" in aligned.refused[1]
    assert "skew that is not there" in overlay_refusal(aligned, (0, 1)) and overlay_refusal(aligned, (0,)) == ""


def test_a_call_that_only_returned_bounds_nothing():
    rows = all_reduces(np.array([[0.0, 5 * MS]]), np.full((1, 2), 1e4), [TrueClock(), TrueClock()])
    for mine in rows:
        mine[0]["end_from"] = BY_SUBMIT
    run = merge_ranks([facts_of(r, 2, rows[r]) for r in range(2)])
    assert set(align(run, match(run)).of) == {0}


def test_collectives_that_cannot_be_the_same_are_refused():
    """As of two recordings whose collectives were numbered anew."""
    times = [np.array([0, 10, 20, 90]), np.array([0, 40, 50, 60])]
    rows = [
        [{"sequence": n, "operation": 0, "begin": int(t * MS), "end": int((t + 2) * MS)} for n, t in enumerate(mine)]
        for mine in times
    ]
    run = merge_ranks([facts_of(r, 2, rows[r]) for r in range(2)])
    assert "contradict" in align(run, match(run)).refused[1]


@FAST
@given(seed=st.integers(0, 2**32 - 1), number=st.sampled_from([1, 2, 40, 3000]))
def test_every_line_that_fits_lies_in_the_corridor(seed, number):
    rng = np.random.default_rng(seed)
    offset, slope = rng.uniform(-1e6, 1e6), rng.uniform(-1e-3, 1e-3)
    x = np.sort(rng.uniform(0, 1e9, number))
    under = offset + slope * x + rng.exponential(1e4, number)
    over = offset + slope * x - rng.exponential(1e4, number)
    found = corridor((x, under), (x, over), 1e-3)
    least, most = found.bounds(x)
    assert (least - 1e-3 <= offset + slope * x).all() and (offset + slope * x <= most + 1e-3).all()
    assert (most <= under + 1e-3).all() and (least >= over - 1e-3).all()
    # Each corner is a line that fits itself: the bounds cannot be tightened.
    for u, v in found.corners:
        line = u + (v - u) * (x - found.low) / (found.high - found.low)
        assert (line <= under + 1e-2).all() and (line >= over - 1e-2).all()


def test_a_line_needs_bounds_on_both_sides():
    with pytest.raises(ValueError, match="one side"):
        corridor((np.zeros(0), np.zeros(0)), (np.zeros(1), np.zeros(1)), 1e-3)
    assert corridor((np.zeros(1), np.zeros(1)), (np.zeros(1), np.ones(1)), 1e-3) is None
