"""Top-two Thompson sampling: pull an arm on which two draws from the posteriors disagree."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from fairtrial.core import run_policy
from fairtrial.delayed import InformationRacing, Problem, SimulatedEnvironment
from fairtrial.delayed.policies.top_two import top_two

MEANS, VARIANCES = np.array([0.5, 0.0, 0.3, -1.0]), np.array([0.2, 1.0, 0.5, 2.0])


def slowly(top, rng):
    """Return the same two sets of arms by repeated draws."""

    def best():
        return set(np.argsort(-rng.normal(MEANS, np.sqrt(VARIANCES)))[:top].tolist())

    first = best()
    while (second := best()) == first:
        pass
    return tuple(sorted(first - second)), tuple(sorted(second - first))


@pytest.mark.statistical
@pytest.mark.parametrize("top", [1, 2, 3])
def test_the_arms_are_those_on_which_two_draws_disagree(top):
    runs, rng = 4000, np.random.default_rng(top)
    found = Counter(
        tuple(tuple(side.tolist()) for side in top_two(MEANS, VARIANCES, top, rng))
        for _ in range(runs)
    )
    expected = Counter(slowly(top, rng) for _ in range(runs))
    for sides in found.keys() | expected.keys():
        share = (found[sides] + expected[sides]) / (2 * runs)
        # Five standard errors of the difference of two shares, and one run in a thousand.
        error = 5 * math.sqrt(2 * share * (1 - share) / runs) + 0.001
        assert abs(found[sides] - expected[sides]) / runs < error, sides


def test_where_no_draws_disagree_the_closest_two_are_exchanged():
    means, variances = np.array([0.0, 900.0, 1000.0, 100.0]), np.array([1.0, 1.0, 0.0, 4.0])
    inside, outside = top_two(means, variances, 2, np.random.default_rng(0))
    assert (inside.tolist(), outside.tolist()) == ([1], [3])
    inside, outside = top_two(np.array([1.0, 2.0]), np.zeros(2), 1, np.random.default_rng(0))
    assert (inside.tolist(), outside.tolist()) == ([1], [0])


PROBLEM = Problem(5, top=2, noise_std=1.0, feedback="unbiased", reading_std=0.5)


def race(seed=0, **more):
    return InformationRacing(PROBLEM, sampling="top_two", seed=seed, **more)


def test_a_race_ends_with_the_best_arms_and_keeps_its_guarantee():
    environment = SimulatedEnvironment(PROBLEM, [0.0, 3.0, 1.0, 5.0, 2.0], delay=4.0, loss=0.1)
    for seed in range(5):
        run = run_policy(race(seed), environment, np.random.default_rng(seed), None, 7)
        assert environment.truth.accepts(run.answer)
        assert (run.pulls > 0).all()
    assert race().guarantee.proven


def test_no_arm_has_more_pulls_in_flight_than_it_may():
    policy = race(per_arm=2)
    assert len(policy.ask(99)) == 10
    for pull in policy.outstanding():
        policy.tell(pull, 0.1 * pull.action)
    assert max(Counter(pull.action for pull in policy.ask(99)).values()) == 2


def test_its_coins_come_from_its_seed_and_are_not_lost_with_the_process(tmp_path):
    def go_on(policy, rounds):
        arms = []
        for _ in range(rounds):
            pull = policy.ask()
            arms.append(pull.action)
            policy.tell(pull, 0.2 * pull.action)
        return arms

    policy = race(seed=4)
    first = go_on(policy, 12)
    np.savez(tmp_path / "state.npz", **policy.get_state())
    twin = race(seed=4)
    twin.set_state(dict(np.load(tmp_path / "state.npz")))
    rest = go_on(policy, 20)
    assert go_on(twin, 20) == rest
    assert go_on(race(seed=4), 32) == first + rest
    assert go_on(race(seed=5), 32) != first + rest
