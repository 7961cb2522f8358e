"""A trace: one run, observed on the way."""

from typing import Any

import pytest

from fairtrial import linear, subpopulations
from fairtrial.core import Environment, Policy
from fairtrial.core.accrual import SteadyAccrual
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import simulate, trace
from tests.core.toys import (
    DelayedEnvironment,
    GaussianEnvironment,
    LeadRace,
    PartialRace,
    QuotaKeeper,
    ToyProblem,
)
from tests.messages import raises

PROBLEM = ToyProblem(["a", "b", "c"])
ENVIRONMENT = GaussianEnvironment(PROBLEM, [0.0, 1.0, 1.5])


def test_a_trace_is_replication_0_of_the_simulation() -> None:
    result = simulate(LeadRace(PROBLEM), ENVIRONMENT, 1, seed=4)
    looks = trace(LeadRace(PROBLEM), ENVIRONMENT, seed=4)
    assert looks[-1].told == result.stopping_time[0]
    assert looks[-1].recommendation.arm == result.answer[0]
    assert [estimate.pulls for estimate in looks[-1].actions] == result.pulls[0].tolist()


@pytest.mark.parametrize("points", [2, 3, 7, 21])
def test_looks_are_evenly_spaced_from_the_start_to_the_end(points: int) -> None:
    policy = QuotaKeeper(PROBLEM, [1, 1, 1], 9)
    looks = trace(policy, ENVIRONMENT, horizon=420, points=points)
    step = 420 // (points - 1)
    assert [look.told for look in looks] == list(range(0, 421, step))


def test_a_short_run_is_seen_whole() -> None:
    looks = trace(QuotaKeeper(PROBLEM, [1, 1, 1], 9), ENVIRONMENT, horizon=5)
    assert [look.told for look in looks] == [0, 1, 2, 3, 4, 5]


def test_the_evidence_crosses_the_threshold_at_the_end_only() -> None:
    looks = trace(LeadRace(PROBLEM), ENVIRONMENT, points=20)
    assert len(looks) == 20
    assert [look.recommendation.status for look in looks] == ["running"] * 19 + ["decided"]
    assert looks[-1].evidence > looks[-1].threshold


@pytest.mark.parametrize("seed", range(5))
def test_the_last_look_is_at_the_stop_even_if_a_reading_brought_it(seed: int) -> None:
    environment = DelayedEnvironment(PROBLEM, [0.0, 3.0, 6.0])
    looks = trace(PartialRace(PROBLEM), environment, seed=seed, parallel=3)
    assert looks[-1].recommendation.decided
    assert looks[-1].outstanding == 0
    assert looks[0].told == 0


def test_pulls_in_flight_at_the_stop_are_open_and_not_lost() -> None:
    problem = subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    environment = subpopulations.BernoulliEnvironment(problem, [[0.1], [0.9]])
    late = SteadyAccrual(environment, 2.0, 10.0)
    policy = subpopulations.BlockBetting(problem, delta=0.05, losses="ignorable")
    last = trace(policy, late, seed=1, parallel=20, points=3)[-1]
    assert last.recommendation.decided
    assert last.outstanding > 0
    assert last.asked == last.told + last.outstanding
    assert last.losses is not None
    assert last.losses.pulls == 0


def test_the_template_is_left_alone() -> None:
    policy = LeadRace(PROBLEM)
    trace(policy, ENVIRONMENT)
    assert policy.asked == 0


def plain_arms(**changes: Any) -> tuple[Policy, Environment]:
    problem = subpopulations.Problem(2, 1, floors=None, noise_std=1.0)
    environment = subpopulations.GaussianEnvironment(problem, [[1.0], [0.0]], **changes)
    return subpopulations.BlockBetting(problem, block_draws=True), environment


def linear_arms() -> tuple[Policy, Environment]:
    problem = linear.Problem([[1, 0], [0, 1]], noise_std=1.0)
    environment = linear.GaussianEnvironment(problem, [1.0, 0.0])
    return linear.GAllocation(problem, block_draws=True), environment


@pytest.mark.parametrize("make", [plain_arms, linear_arms])
def test_a_run_that_is_drawn_in_blocks_cannot_be_seen_pull_by_pull(make: Any) -> None:
    policy, environment = make()
    with raises(InvalidArgument, "policy", given=policy) as caught:
        trace(policy, environment, seed=1)
    assert (caught.value.name, caught.value.given) == ("policy", policy)


@pytest.mark.parametrize(
    ("changes", "more"), [({"arrivals": [1.0]}, {}), ({}, {"parallel": 2}), ({}, {"horizon": 7})]
)
def test_a_run_that_is_drawn_pull_by_pull_after_all_is_seen_as_it_was(
    changes: dict[str, Any], more: dict[str, Any]
) -> None:
    policy, environment = plain_arms(**changes)
    result = simulate(policy, environment, 1, seed=1, **more)
    last = trace(policy, environment, seed=1, points=3, **more)[-1]
    assert result.metrics["block_draws"].tolist() == [0.0]
    assert last.told == result.stopping_time[0]
    assert last.recommendation.arm == result.answer[0]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"points": 1}, "points"),
        ({"horizon": 0}, "horizon"),
        ({"parallel": 0}, "parallel"),
        ({"seed": 1.5}, "seed"),
        ({"policy": LeadRace}, "policy"),
        ({"environment": "moon"}, "environment"),
        ({"policy": QuotaKeeper(PROBLEM, [0, 0, 0], 1)}, "horizon"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], name: str) -> None:
    arguments: dict[str, Any] = {"policy": LeadRace(PROBLEM), "environment": ENVIRONMENT}
    with raises(InvalidArgument, name):
        trace(**{**arguments, **changes})
