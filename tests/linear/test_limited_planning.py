"""Planning if candidates have limits: T*, prices, fixed experiments, harm."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from fairtrial.linear import (
    BernoulliEnvironment,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
    complexity,
)
from fairtrial.linear.fixed_design import fixed_design
from fairtrial.linear.scenarios import harms
from tests import effort
from tests.linear.limited_instances import CROSSED, DOSES, RISING, cold

Row = tuple[np.ndarray, float]


def rows_of(problem: Problem, k: int, spare: float = 0.0) -> list[Row]:
    """Return limits of a candidate as rows that are at most zero, for rewards to be maximised."""
    found = []
    for one in problem.requirements:
        if one.least[k] > -math.inf:
            row = one.features[k] - (one.features[one.control] if one.control >= 0 else 0.0)
            found.append((-one.factor * row, float(one.least[k]) + spare))
    return found


def by_conic_solver(problem: Problem, theta: np.ndarray) -> float:
    """Return T* from the dual: one multiplier for each row, as second-order cones."""
    theta = problem.sign * theta
    values, kept = problem.candidate_features @ theta, problem.feasible(problem.sign * theta)
    best = int(np.argmax(np.where(kept, values, -np.inf))) if kept.any() else None
    items: list[list[Row]] = []
    for k in range(len(problem.answers)):
        if k == best:
            own = rows_of(problem, k, -problem.floor_tolerance)
            # Each limit of the answer is an item: the claim that it is broken.
            items += [[(-row, -constant)] for row, constant in own]
            continue
        rows = rows_of(problem, k, problem.floor_tolerance)
        if best is not None:
            better = problem.candidate_features[best] - problem.candidate_features[k]
            rows.append((better, problem.tolerance))
        items.append(rows)
    scaled = problem.features / problem.scale[:, np.newaxis]
    # The solver's tolerances are absolute, so the smallest distance is its unit.
    distances = [abs(row @ theta + constant) for rows in items for row, constant in rows]
    unit = min(distance for distance in distances if distance > 0.0)
    shares, value = cp.Variable(len(scaled), nonneg=True), cp.Variable()
    conditions = [cp.sum(shares) == 1]
    for rows in items:
        x = cp.Variable(len(rows), nonneg=True)
        short = np.array([row @ theta + constant for row, constant in rows]) / unit
        matrix = np.array([row for row, _ in rows])
        # v'L^-1 v is the least sum of u_k^2 / share_k with X'u = v.
        u = cp.Variable(len(scaled))
        conditions.append(scaled.T @ u == matrix.T @ x)
        spread = cp.sum([cp.quad_over_lin(u[k], shares[k]) for k in range(len(scaled))])
        conditions.append(value <= 2 * (short @ x) - spread)
    task = cp.Problem(cp.Maximize(value), conditions)
    task.solve(solver=cp.CLARABEL)
    return 2.0 / (float(value.value) * unit**2)


QUESTIONS: dict[str, tuple[dict[str, Any], list[float]]] = {
    "floors of plain arms": ({"features": np.eye(4), "floors": 0.3}, [0.2, 0.9, 0.5, 0.1]),
    "no arm": (DOSES | cold(floors=0.7), RISING),
    "cold, too": (DOSES | cold(floors=0.35), RISING),
    "margin in the cold": (DOSES | cold(margin=0.07) | {"control": "none"}, CROSSED),
    "superior to a control": (DOSES | {"control": "none", "superiority": 0.12}, CROSSED),
    "small is good": (
        DOSES | cold(ceilings=0.2, floors=0.6) | {"direction": "minimize", "floors": 0.55},
        RISING,
    ),
    "with tolerances": (
        DOSES | cold(floors=0.35) | {"tolerance": 0.05, "floor_tolerance": 0.02},
        RISING,
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_complexity_is_that_of_a_conic_programme(name: str) -> None:
    asked, theta = QUESTIONS[name]
    std = np.linspace(0.8, 1.2, len(asked["features"]))
    problem = Problem(**asked, noise_std=std)
    found = complexity(GaussianEnvironment(problem, theta))
    assert found.lower == pytest.approx(found.upper, rel=2e-6)
    assert found.value == pytest.approx(by_conic_solver(problem, np.array(theta)), rel=1e-4)
    assert found.allocation is not None
    assert found.allocation.sum() == pytest.approx(1.0)


def test_random_questions_have_the_complexity_of_a_conic_programme() -> None:
    rng, compared = np.random.default_rng(3), 0
    for _ in range(effort.runs(4, whole=60)):
        rows, other = rng.standard_normal((2, 7, 3))
        theta = rng.standard_normal(3)
        floors = float(np.quantile(other @ theta, rng.choice([0.3, 0.7])))
        limits = {"other": {"features": other, "floors": floors - 0.01}}
        problem = Problem(rows, noise_std=1.0, limits=limits, ceilings=5.0)
        found = complexity(GaussianEnvironment(problem, theta), tol=1e-5)
        assert found.upper >= found.lower > 0.0
        assert found.value == pytest.approx(by_conic_solver(problem, theta), rel=1e-3)
        compared += 1
    assert compared > 3


def test_an_answer_on_a_limit_or_a_tie_takes_infinitely_many_pulls() -> None:
    problem = Problem(np.eye(3), noise_std=1.0, floors=[0.5, None, 0.1])
    on_limit = complexity(GaussianEnvironment(problem, [0.5, 0.2, 0.1]))
    assert math.isinf(on_limit.value)
    assert "exactly on a limit, floors" in on_limit.reason
    tied = complexity(GaussianEnvironment(problem, [0.2, 0.6, 0.6]))
    assert tied.reason == "'1' and '2' tie for best"
    assert tied.allocation is None


def test_limits_that_do_not_bind_change_no_complexity() -> None:
    plain = Problem(np.eye(3), noise_std=1.0)
    theta = [0.5, 0.3, 0.1]
    known = complexity(GaussianEnvironment(plain, theta))
    loose = complexity(GaussianEnvironment(plain.clone(floors=-100.0), theta))
    assert loose.value == pytest.approx(known.value, rel=1e-5)
    assert loose.answer == known.answer == "0"


# -------------------------------------------------------------------- other plans and truths


def test_the_truth_says_which_candidates_keep_their_limits() -> None:
    problem = Problem(**DOSES, **cold(floors=0.35), noise_std=1.0)
    truth = GaussianEnvironment(problem, RISING).truth
    assert (truth.best, truth.acceptable, truth.tied) == ("full", ("full",), False)
    assert truth.details["feasible"].tolist() == [False, True, True]
    none = GaussianEnvironment(problem, [0.0, 0.1, 0.5, 0.0]).truth
    assert (none.best, none.acceptable) == (None, (None,))
    near = problem.clone(floor_tolerance=0.2)
    assert GaussianEnvironment(near, [0.1, 0.2, 0.1, 0.0]).truth.acceptable == (
        "half",
        "full",
        None,
    )


def test_replayed_limits_are_on_what_was_measured_where_that_is_known() -> None:
    """Warm doses are candidates, cold ones are arms: no fit is needed to know their means."""
    problem = Problem(**DOSES, **cold(floors=0.3), noise_std=1.0)
    labels = [f"{dose}{heat}" for dose in ("none", "half", "full") for heat in (" cold", "")]
    problem = problem.clone(arms=labels)
    means = {"none cold": 0.9, "none": 0.2, "half cold": 0.1, "half": 0.8}
    means |= {"full cold": 0.7, "full": 0.6}
    table = {"arm": list(means), "reward": list(means.values())}
    truth = ReplayEnvironment(problem, table, noise_std=0.1).truth
    assert truth.details["feasible"].tolist() == [True, False, True]
    assert truth.best == "full"


def test_the_price_of_evidence_is_that_of_the_hardest_comparison() -> None:
    problem = Problem(np.eye(3), noise_std=1.0, floors=0.0)
    environment = GaussianEnvironment(problem, [0.9, 0.3, -0.1])
    price = environment.evidence_price(np.full(3, 1 / 3))
    # The third is distinguished from its floor, or from the best; they are .6 and 1 away.
    assert price.spread == pytest.approx(2 * 6.0 / 0.6**2, rel=1e-6)


def test_the_usual_experiment_tests_every_limit() -> None:
    problem = Problem(np.eye(3), noise_std=1.0, floors=[0.0, None, 0.0])
    found = fixed_design(GaussianEnvironment(problem, [0.9, 0.3, -0.5]))
    assert found is not None
    # The second is worse by .6, the third short of its floor by .5 or worse by 1.4; own floor .9.
    signals = np.array([0.6 / math.sqrt(6), 1.4 / math.sqrt(6), 0.9 / math.sqrt(3)])
    assert sorted(found.signals) == pytest.approx(sorted(signals))
    assert found.tests == 3
    none = fixed_design(GaussianEnvironment(problem.clone(floors=1.0), [0.9, 0.3, -0.5]))
    assert none is not None
    assert sorted(none.signals) == pytest.approx(sorted(np.array([0.1, 0.7, 1.5]) / math.sqrt(3)))


@pytest.mark.parametrize("minimize", [False, True])
def test_harm_is_an_answer_just_beyond_its_closest_limit(minimize: bool) -> None:
    sign, direction = (-1.0, "minimize") if minimize else (1.0, "maximize")
    limits = {"cold": {"features": DOSES["candidates"], "floors": sign * 0.1}}
    problem = Problem(**DOSES, noise_std=0.1, direction=direction, limits=limits)
    environment = GaussianEnvironment(problem, sign * np.array(RISING))
    (scenario,) = harms(environment)
    moved = scenario.environment
    assert isinstance(moved, GaussianEnvironment)
    assert environment.truth.best == "full"
    assert not problem.feasible(moved.theta)[2]
    short = problem.requirements[0].distance(sign * moved.limited_means[0])[2]
    assert short == pytest.approx(-0.05)
    assert list(harms(GaussianEnvironment(problem.clone(limits=None), RISING))) == []


def test_coins_have_a_truth_with_limits() -> None:
    problem = Problem(**DOSES, **cold(floors=0.35), reward_range=(0, 1))
    assert BernoulliEnvironment(problem, RISING).truth.best == "full"
