"""The least number of rows for the best fair arm, compared with a conic solver."""

import math

import cvxpy as cp
import numpy as np
import pytest

from fairtrial import simulate
from fairtrial.causal import BlockBetting, CausalModel, NetworkEnvironment, Problem, chain
from fairtrial.causal import complexity as complexity_of
from fairtrial.causal._functionals import Functionals
from fairtrial.causal._information import Items, Outcomes, nearest
from fairtrial.causal._mixtures import mixtures_of
from fairtrial.causal.errors import ModelError
from fairtrial.causal.family import FAMILY
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.causal.betting_instances import HARD_NULLS, TINY, region, small, three, tiny
from tests.messages import raises

KNOWN = {
    "tiny": (tiny, "k1", 4.722),
    "none is fair": (lambda: tiny(0.05), None, 19.3),
    "eight arms": (small, "k2", 44.26),
    "three values": (three, "k1", 80.58),
    "with a parent": (region, None, 298.2),
}
"""Computed with multiplicative steps, which overestimate by up to 10 %."""


def coins(means):
    """Return outcomes of 0 and 1."""
    return Outcomes(np.array([0.0, 1.0]), np.stack([1.0 - means, means], axis=1))


def least_divergence(rows, limits, outcomes, falls):
    """Return the information against a claim by a cone programme over all distributions."""
    values, chances = outcomes
    moved = cp.Variable(chances.shape, nonneg=True)
    comes = np.nonzero(chances)
    weights = (falls[:, np.newaxis] * chances)[comes]
    cost = cp.sum(cp.multiply(weights, np.log(chances[comes]) - cp.log(moved[comes])))
    conditions = [rows @ (moved @ values) <= limits, cp.sum(moved, axis=1) == 1.0]
    return cp.Problem(cp.Minimize(cost), conditions).solve(solver=cp.CLARABEL)


def random_outcomes(kind, cells, rng):
    if kind == "coins":
        return coins(rng.uniform(0.05, 0.95, cells))
    values = np.sort(rng.choice(np.linspace(0.0, 1.0, 21), size=5, replace=False))
    chances = rng.dirichlet(np.full(5, 0.7), size=cells)
    if kind == "some never come":
        chances = np.where(rng.random(chances.shape) < 0.5, 0.0, chances)
        chances[np.arange(cells), rng.integers(5, size=cells)] += 0.1
        chances[0] = [0.0, 0.0, 1.0, 0.0, 0.0]
        chances /= chances.sum(axis=1, keepdims=True)
    return Outcomes(values, chances)


@pytest.mark.parametrize("kind", ["coins", "graded", "some never come"])
def test_divergences_are_those_of_a_conic_solver(kind):
    rng = np.random.default_rng(0)
    for _ in range(effort.runs(6, whole=60)):
        cells, conditions = 6, 3
        outcomes, falls = random_outcomes(kind, cells, rng), rng.dirichlet(np.ones(cells))
        low, high = outcomes.values[[0, -1]]
        inside = low + (high - low) * rng.uniform(0.1, 0.9, cells)
        rows = rng.normal(size=(4, conditions, cells))
        limits = rows @ inside + rng.uniform(0.0, 0.2, (4, conditions))
        multipliers = np.zeros((4, conditions))
        found, parts = nearest(Items(rows, limits), outcomes, falls, multipliers)
        wanted = [least_divergence(rows[i], limits[i], outcomes, falls) for i in range(4)]
        np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=1e-5)
        np.testing.assert_allclose(parts @ falls, wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", effort.first(4, list(KNOWN)))
def test_complexity_is_that_of_the_reference_but_for_its_slack(name):
    make, answer, measured = KNOWN[name]
    problem, environment = make()
    found = complexity_of(environment)
    assert environment.truth.best == found.answer
    assert answer is None or found.answer is not None
    assert 0.9 * measured <= found.lower <= found.value <= found.upper <= measured
    assert found.upper / found.lower - 1 <= 2e-3
    assert found.allocation.shape == (problem.n_arms, len(problem.modes))
    assert found.allocation.sum() == pytest.approx(1.0)
    assert found.assumes.endswith("one end of their range or the other")


def items_by_hand(environment):
    """Yield rows and limits of every claim, from the definitions of means and gaps."""
    problem = environment.problem
    known = Functionals(problem, "cells")
    labels = [problem.arm_labels[own[0]] for own in known.twins]
    answer = environment.truth.best
    for k, label in enumerate(labels):
        if label == answer:
            for gap in known.gaps[k]:
                yield -gap[np.newaxis], np.array([-problem.bound])
            continue
        rows, ends = [*known.gaps[k]], [problem.bound] * len(known.gaps[k])
        if answer is not None:
            rows.append(known.means[labels.index(answer)] - known.means[k])
            ends.append(0.0)
        yield np.array(rows), np.array(ends)


@pytest.mark.parametrize("name", ["tiny", "none is fair", "three values"])
def test_no_shares_leave_more_than_the_bound_says(name):
    problem, environment = KNOWN[name][0]()
    found, known = complexity_of(environment), Functionals(problem, "cells")
    means = environment.cell_moments()[0][0]
    assert known.n_places == len(np.unique(means)) or known.n_places == len(means)
    by_place = np.zeros(known.n_places)
    by_place[known.place_of[0]] = means
    claims = list(items_by_hand(environment))

    def information(shares):
        falls = shares.ravel() @ known.actions
        return min(least_divergence(*claim, coins(by_place), falls) for claim in claims)

    assert 1.0 / information(found.allocation) == pytest.approx(found.upper, rel=1e-4)
    rng = np.random.default_rng(1)
    for weight in (0.02, 0.3, 1.0):
        other = rng.dirichlet(np.ones(found.allocation.size)).reshape(found.allocation.shape)
        shares = (1 - weight) * found.allocation + weight * other
        assert 1.0 / information(shares) >= found.lower * (1 - 1e-4)


def test_costs_and_a_budget_limit_the_shares():
    problem, environment = chain(0.4, TINY, [0.1, 0.1, 0.9], 0.2, costs=[0, 1, 1], mean_budget=0.1)
    free = complexity_of(tiny()[1])
    found = complexity_of(environment)
    spent = float((found.allocation * problem.row_costs).sum())
    assert spent <= 0.1 + 1e-9
    assert found.lower > free.upper
    assert len(mixtures_of(problem)) < problem.n_actions**2


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("two best arms tied", "tie for best"),
        ("best arm unfair by nothing", "a gap of 'k0' is exactly on the bound"),
        ("all unfair by nothing", "is exactly on the bound"),
        ("S with a parent, one arm just fair", "is exactly on the bound"),
    ],
)
def test_no_number_of_rows_tells_equal_arms_apart(name, reason):
    found = complexity_of(HARD_NULLS[name]()[1])
    assert found.value == math.inf
    assert found.allocation is None
    assert reason in found.reason


def test_an_arm_alone_that_cannot_be_unfair_needs_no_row():
    environment = chain(0.4, {"a": [[0.5, 0.5]] * 2}, [0.1, 0.9], 0.2)[1]
    found = complexity_of(environment)
    assert (found.value, found.lower_bound(0.05)) == (0.0, 0.0)
    assert found.allocation.sum() == pytest.approx(1.0)


GRADES = [[0.2, 0.6, 0.2], [0.1, 0.3, 0.6]]


def graded(table, numbers, low=0.0, high=1.0, bound=0.2, direction="maximize"):
    model = CausalModel(
        [("S", "V"), ("V", "Y")],
        {"S": 2, "V": 2, "Y": list("abcd"[: len(numbers)])},
        {"S": [0.5, 0.5], "Y": table},
    )
    arms = {"a": [[0.9, 0.1], [0.8, 0.2]], "b": [[0.2, 0.8], [0.3, 0.7]]}
    outcome = ("Y", dict(zip("abcd", numbers, strict=False)))
    return NetworkEnvironment(
        Problem(model, "S", "V", outcome, arms, bound, (low, high), direction=direction)
    )


def test_graded_outcomes_have_the_bound_of_a_conic_solver():
    environment = graded(GRADES, [0.0, 0.5, 1.0])
    found, known = complexity_of(environment), Functionals(environment.problem, "cells")
    assert found.assumes == "outcomes that are one of the 3 values in the model"
    outcomes = Outcomes(np.array([0.0, 0.5, 1.0]), np.array(GRADES)[known.place_of[0].argsort()])
    falls = found.allocation.ravel() @ known.actions
    claims = items_by_hand(environment)
    least = min(least_divergence(*claim, outcomes, falls) for claim in claims)
    assert 1.0 / least == pytest.approx(found.upper, rel=1e-4)


def test_graded_outcomes_take_fewer_rows_than_coins_with_their_means():
    means = np.array(GRADES) @ [0.0, 0.5, 1.0]
    as_coins = complexity_of(graded(np.stack([1 - means, means], axis=1), [0.0, 1.0]))
    found = complexity_of(graded(GRADES, [0.0, 0.5, 1.0]))
    assert found.upper < as_coins.lower
    # States with equal numbers are one outcome, and states that never occur do not matter.
    split = [[0.1, 0.6, 0.2, 0.1], [0.05, 0.3, 0.6, 0.05]]
    assert complexity_of(graded(split, [0.0, 0.5, 1.0, 0.0])).value == pytest.approx(found.value)
    unused = [[0.2, 0.6, 0.2, 0.0], [0.1, 0.3, 0.6, 0.0]]
    other = complexity_of(graded(unused, [0.0, 0.5, 1.0, 0.7]))
    assert other.value == pytest.approx(found.value, rel=1e-3)


@pytest.mark.parametrize("scale", effort.first(2, [1e-150, 1e150, 3.0]))
def test_the_unit_of_outcomes_changes_no_bound(scale):
    found = complexity_of(graded(GRADES, [0.0, 0.5, 1.0])).value
    numbers = scale * (np.array([0.0, 0.5, 1.0]) - 0.25)
    other = graded(GRADES, numbers, -0.25 * scale, 0.75 * scale, 0.2 * scale)
    assert complexity_of(other).value == pytest.approx(found)
    turned = graded(GRADES, -numbers, -0.75 * scale, 0.25 * scale, 0.2 * scale, "minimize")
    assert complexity_of(turned).value == pytest.approx(found)


def test_block_betting_takes_more_rows_of_graded_outcomes_than_the_bound_says():
    environment = graded(GRADES, [0.0, 0.5, 1.0])
    bound = complexity_of(environment).lower_bound(0.1)
    policy = BlockBetting(environment.problem, delta=0.1)
    rows = simulate(policy, environment, 20, seed=1).stopping_time.mean()
    assert 0.0 < bound < rows < 8.0 * bound


def test_outcomes_without_a_range_have_no_bound():
    problem, environment = tiny()
    assert FAMILY.has_bound(environment)
    assert FAMILY.has_bound(graded(GRADES, [0.0, 0.5, 1.0]))
    assert not FAMILY.has_bound(NetworkEnvironment(problem.clone(outcome_range=None)))


@pytest.mark.parametrize("reward", [[0.0, 1.0], [0.0, 0.0], [1.0, 0.3]])
def test_outcomes_that_are_sure_are_no_trouble(reward):
    arms = {"a": [[0.6, 0.4], [0.5, 0.5]], "b": [[0.3, 0.7], [0.35, 0.65]]}
    found = complexity_of(chain(0.4, arms, reward, 0.3)[1])
    assert found.value == math.inf if reward[0] == reward[1] else 0 < found.lower <= found.upper


def test_what_has_no_bound_is_refused():
    problem, _ = tiny()
    with raises(InvalidArgument, "environment"):
        complexity_of(
            NetworkEnvironment(Problem(**{**problem.get_params(), "outcome_range": None}))
        )
    with raises(InvalidArgument, "environment"):
        complexity_of(problem)
    model = CausalModel(
        [("S", "V"), ("V", "Y"), ("S", "Y")],
        {"S": 2, "V": 2, "Y": ["0", "1"]},
        {"S": [0.5, 0.5], "Y": [[[0.5, 0.5], [0.2, 0.8]], [[0.6, 0.4], [0.1, 0.9]]]},
    )
    direct = Problem(model, "S", "V", "Y", {"a": [[0.5, 0.5]] * 2}, 0.2, (0.0, 1.0))
    with raises(ModelError, "problem"):
        complexity_of(NetworkEnvironment(direct))
