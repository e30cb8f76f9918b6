"""How long work takes: fits to jobs that were seen, and what jobs ask for by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_workflow.resources import (
    DEFAULTS,
    LIGHT,
    Model,
    Observation,
    Pace,
    Work,
    memory_mb,
    minutes,
)

KIND = "compute_spectrum"


def observed(pace: Pace, flops, *, spread: float = 0.0, gpu: bool = False) -> list[Observation]:
    """Return jobs of that pace, whose times scatter."""
    chance = np.random.default_rng(0)
    return [
        Observation(KIND, Work(f, 1e9), pace.seconds(f) * chance.lognormal(0, spread), gpu=gpu)
        for f in flops
    ]


def test_a_fit_finds_the_pace_of_another_machine():
    slow = Pace(10.0, 5e9)
    fitted = Model().fit(observed(slow, np.geomspace(1e9, 1e13, 40), spread=0.1)).pace(KIND)
    assert fitted.startup == pytest.approx(slow.startup, rel=0.15)
    assert fitted.rate == pytest.approx(slow.rate, rel=0.15)
    assert Model().pace(KIND) == DEFAULTS[KIND]


def test_jobs_that_did_a_part_of_their_work_do_not_count():
    flops = np.geomspace(1e11, 1e13, 30)
    whole = observed(Pace(4.0, 2e10), flops)
    partial = [Observation(KIND, Work(f, 1e9), 4.0) for f in flops[-8:]]
    assert Model().fit([*whole, *partial]) == Model().fit(whole)


def test_one_observation_moves_the_defaults_a_little():
    usual = DEFAULTS[KIND]
    (one,) = observed(Pace(usual.startup * 4, usual.rate / 4), [1e12])
    before, after = Model(), Model().fit([one])
    ratio = after.seconds(KIND, one.work) / before.seconds(KIND, one.work)
    assert 1.1 < ratio < 2.5  # of 4
    kept = set(DEFAULTS) - {KIND}
    assert all(after.pace(kind) == before.pace(kind) for kind in kept)


@given(st.lists(st.tuples(st.floats(0, 1e15), st.floats(1e-2, 1e6)), max_size=10))
def test_a_fit_is_of_positive_times(pairs):
    fitted = Model().fit([Observation(KIND, Work(f, 0.0), s) for f, s in pairs]).pace(KIND)
    assert fitted.startup >= 0
    assert fitted.rate > 0


def test_a_gpu_is_assumed_until_a_job_on_one_was_seen():
    work = Work(1e15, 1e9)
    assert Model().pace("train_network", gpu=True).assumed
    assert (
        Model().pace("compute_infinite_spectrum", gpu=True) == DEFAULTS["compute_infinite_spectrum"]
    )
    seen = Model().fit(observed(Pace(8.0, 1e12), np.geomspace(1e12, 1e15, 20), gpu=True))
    assert not seen.pace(KIND, gpu=True).assumed
    assert seen.seconds(KIND, work, gpu=True) == pytest.approx(1000, rel=0.2)
    assert seen.seconds(KIND, work) == Model().seconds(KIND, work)


def test_threads_share_the_work_of_a_core_but_not_that_of_a_gpu():
    work = Work(1e13, 1e9)
    assert Model().seconds(KIND, work, threads=4) < Model().seconds(KIND, work) / 3
    gpu = {"gpu": True}
    assert Model().seconds(KIND, work, threads=4, **gpu) == Model().seconds(KIND, work, **gpu)


@given(st.floats(0, 1e18), st.floats(0, 1e12), st.integers(1, 5))
def test_requests_leave_room_and_grow_with_attempts(flops, size, attempt):
    work = Work(flops, size)
    asked = minutes(Model(), KIND, work, attempt)
    assert 60 * asked >= 3 * Model().seconds(KIND, work)
    assert asked >= 10
    assert minutes(Model(), KIND, work, attempt + 1) == 2 * asked
    assert 1e6 * memory_mb(work, attempt) >= 1.25 * size
    assert memory_mb(work, attempt + 1) >= memory_mb(work, attempt)


def test_unknown_kinds_are_light():
    assert 0 < Model().seconds("bundle_run", LIGHT) < 60
