"""When pulls are cancelled, as learned from complete pulls."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.core import run_policy
from fairtrial.delayed import InformationRacing, Problem, SimulatedEnvironment
from fairtrial.delayed.policies.truncation import Followed, best_truncation, worth_at_readings
from fairtrial.errors import InvalidArgument
from tests.messages import raises

UNBIASED = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=2.0)


def steps(curve, error=0.0, std=1.0):
    """Return a pull with readings at 1, 2, ... of these precisions."""
    return [Followed(i, float(i), w, error, std) for i, w in enumerate(curve, start=1)]


def test_the_cut_is_where_precision_per_time_is_best():
    # With set-up 3: .5/4, .8/5, .88/6, .9/7; the outcome 1/8.
    found = best_truncation(
        [steps([0.5, 0.8, 0.88, 0.9], (-1.0) ** i) for i in range(12)], setup=3.0
    )
    assert found == 2
    assert (
        best_truncation([steps([0.1, 0.2], (-1.0) ** i) for i in range(12)], setup=0.0) == math.inf
    )


def test_ages_at_which_errors_are_not_as_stated_do_not_count():
    curve, signs = [0.9, 0.95], [(-1.0) ** i for i in range(12)]
    assert best_truncation([steps(curve, sign) for sign in signs], 0.0) == 1
    assert best_truncation([steps(curve, sign) for sign in signs[:9]], 0.0) == math.inf
    # A bias of half a deviation, and errors three times as large as stated.
    assert best_truncation([steps(curve, 0.5 + 0.1 * sign) for sign in signs], 0.0) == math.inf
    assert best_truncation([steps(curve, 3.0 * sign) for sign in signs], 0.0) == math.inf
    assert best_truncation([steps(curve, sign, std=0.0) for sign in signs], 0.0) == math.inf


def test_what_a_pull_would_have_been_worth_at_each_of_its_readings():
    pieces = Problem(2, noise_std=2.0, feedback="incremental", duration=4.0)
    policy = InformationRacing(pieces, truncate="auto")
    pull = policy.ask()
    for elapsed, value in ((1.0, 1.0), (2.5, 2.0)):
        policy.report(pull, value, elapsed=elapsed)
    policy.tell(pull, 6.0)
    policy.report(pull, 9.0, elapsed=3.0)
    # The other pieces are missing: variances 4 (4/1 - 1) and 4 (4/2 - 1).
    assert worth_at_readings(policy._race, 0) == [
        Followed(1, 1.0, pytest.approx(1 / 4), -2.0, pytest.approx(math.sqrt(12))),
        Followed(2, 2.5, pytest.approx(2 / 4), 0.0, pytest.approx(2.0)),
    ]
    policy = InformationRacing(UNBIASED, truncate="auto")
    pull = policy.ask()
    policy.report(pull, 1.0, stage=1, std=1.0)
    policy.report(pull, 3.0, stage=2)
    policy.tell(pull, 2.0)
    # Deviations 1 and 2: precisions 1 and 1/4, whose mean is 1.4.
    assert worth_at_readings(policy._race, 0) == [
        Followed(1, 1.0, pytest.approx(0.5), -1.0, 1.0),
        Followed(2, 2.0, pytest.approx(1 / 1.8), pytest.approx(-0.6), pytest.approx(0.8**0.5)),
    ]


@pytest.mark.parametrize(("errors", "fits"), [(1.9, True), (2.1, False)])
def test_a_mean_error_counts_up_to_two_standard_errors(errors, fits):
    # Errors shift + b and shift - b, six of each: the standard error of their mean is b/sqrt(11).
    shift, spread = errors * 0.1 / math.sqrt(11), 0.1
    pulls = [steps([0.95], shift + spread * (-1.0) ** i) for i in range(12)]
    assert (best_truncation(pulls, 0.0) == 1) == fits


@pytest.mark.parametrize(("square", "fits"), [(1.8, True), (1.83, False)])
def test_errors_may_be_larger_than_stated_by_two_standard_errors(square, fits):
    # The mean square of twelve normal ratios has the standard error sqrt(2/12): 1 + 2 * .408.
    pulls = [steps([0.95], math.sqrt(square) * (-1.0) ** i) for i in range(12)]
    assert (best_truncation(pulls, 0.0) == 1) == fits


def followed(policy, number, bias=0.0, deviation=2.0, readings=30):
    """Follow pulls to their end, with readings at 1, 2, ..."""
    rng = np.random.default_rng(4)
    for _ in range(number):
        pull = policy.ask()
        outcome = rng.normal()
        for stage in range(1, readings + 1):
            value = outcome + bias + deviation * rng.normal()
            policy.report(pull, value, stage=stage, elapsed=float(stage))
        policy.tell(pull, outcome)


def test_pulls_are_called_back_at_the_age_that_theory_gives():
    # w(P)/(s + P) with w = P/(P + 4) is largest at P = 2 sqrt(s): at 8 for s = 16.
    policy = InformationRacing(UNBIASED, delta=1e-12, truncate="auto", setup_time=16.0)
    followed(policy, 9)
    assert policy.progress().details["truncate"] is None
    followed(policy, 1)
    assert policy.progress().details["truncate"] == 8
    pull = policy.ask()
    for stage in range(1, 8):
        policy.report(pull, 0.0, stage=stage)
    assert policy.to_cancel() == []
    policy.report(pull, 0.0, stage=8)
    assert policy.to_cancel() == [pull]
    policy.fail(pull, "truncated")
    assert not policy.stopped


@pytest.mark.parametrize("wrong", [{"bias": 3.0}, {"deviation": 6.0}])
def test_nothing_is_called_back_where_readings_are_not_as_stated(wrong):
    policy = InformationRacing(UNBIASED, delta=1e-12, truncate="auto", setup_time=16.0)
    followed(policy, 20, **wrong)
    assert policy.progress().details["truncate"] is None


def test_equal_pieces_are_never_called_back():
    problem = Problem(2, noise_std=1.0, feedback="incremental", duration=12.0)
    policy = InformationRacing(problem, delta=1e-12, truncate="auto", setup_time=1.0)
    environment = SimulatedEnvironment(problem, [0.0, 0.0])
    run_policy(policy, environment, np.random.default_rng(0), horizon=40)
    assert policy.told == 40
    assert policy.progress().details["truncate"] is None


def test_a_saved_race_keeps_what_it_has_learned(tmp_path):
    def race():
        return InformationRacing(UNBIASED, delta=1e-12, truncate="auto", setup_time=16.0)

    policy, twin = race(), race()
    followed(policy, 7)
    np.savez(tmp_path / "state.npz", **policy.get_state())
    twin.set_state(dict(np.load(tmp_path / "state.npz")))
    for one in (policy, twin):
        followed(one, 5)
    assert policy.progress().details["truncate"] == 8
    assert twin.progress() == policy.progress()


def test_it_saves_time_where_starting_is_cheap_and_ending_late():
    problem = Problem(4, noise_std=1.0, feedback="refining", reading_std=0.5, errors="nested")
    environment = SimulatedEnvironment(problem, [0.0, 0.3, 0.6, 1.4], delay=40.0)
    times = {}
    for truncate in (None, "auto"):
        policy = InformationRacing(problem, truncate=truncate)
        found = ft.simulate(policy, environment, 12, parallel=2, progress=False)
        assert found.error_rate == 0.0
        times[truncate] = found.elapsed.mean()
    assert times["auto"] < 0.8 * times[None]


def test_what_cannot_be_called_back_is_refused():
    for bad in (0, 1.5, "often"):
        with raises(InvalidArgument, "truncate", given=bad):
            InformationRacing(UNBIASED, truncate=bad)
    with raises(InvalidArgument, "setup_time"):
        InformationRacing(UNBIASED, truncate="auto", setup_time=-1.0)
    first = Problem(2, noise_std=1.0, feedback="refining", errors="first", target_std=0.5)
    for feedback in ({"feedback": "biased", "reading_std": 1.0}, {}):
        with raises(InvalidArgument, "truncate"):
            InformationRacing(Problem(2, noise_std=1.0, **feedback), truncate="auto")
    with raises(InvalidArgument, "truncate", given=2):
        InformationRacing(first, truncate=2)
