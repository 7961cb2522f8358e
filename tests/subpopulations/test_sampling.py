"""The parts of the sampling rules, compared with independent solvers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog

from fairtrial.subpopulations._kernels.allocations import (
    fluid_step,
    gaussian_allocation,
    none_allocation,
    project_on_simplex,
    raise_to_floor,
    weakest_gradient,
)
from fairtrial.subpopulations._kernels.model import Model
from fairtrial.subpopulations._kernels.pitfalls import NONE, empirical_best
from tests import effort
from tests.subpopulations.exact_pitfalls import exact_weakest, model_of

FREE = -math.inf

seeds = st.integers(0, 2**32 - 1)


# ------------------------------------------------------------------- the paper's projections


@given(seeds, st.floats(1e-3, 1e3))
@settings(max_examples=effort.runs(40, whole=100))
def test_projection_on_the_simplex_is_that_of_a_root_finder(seed: int, spread: float) -> None:
    generator = np.random.default_rng(seed)
    given_point = generator.normal(0.0, spread, (3, 4))

    def excess(offset: float) -> float:
        return float(np.maximum(given_point - offset, 0.0).sum() - 1.0)

    low, high = given_point.min() - 1.0, given_point.max()
    wanted = np.maximum(given_point - brentq(excess, low, high, xtol=1e-14), 0.0)
    found = given_point.copy()
    project_on_simplex(found)
    np.testing.assert_allclose(found, wanted, atol=1e-12 * max(1.0, spread))
    assert found.sum() == pytest.approx(1.0, abs=1e-11 * max(1.0, spread))


def test_no_point_of_the_simplex_is_nearer_than_the_projection() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        given_point = generator.normal(0.0, 0.5, (2, 3))
        found = given_point.copy()
        project_on_simplex(found)
        others = generator.dirichlet(np.ones(6), 200).reshape(200, 2, 3)
        # Include some near the projection itself, which would beat a wrong one.
        others = np.concatenate([others, found + 1e-3 * (others - found)])
        distances = ((others - given_point) ** 2).sum(axis=(1, 2))
        assert ((found - given_point) ** 2).sum() <= distances.min() + 1e-15


def test_a_point_of_the_simplex_is_its_own_projection() -> None:
    point = np.array([[0.2, 0.0], [0.5, 0.3]])
    found = point.copy()
    project_on_simplex(found)
    np.testing.assert_allclose(found, point, atol=1e-15)


@given(seeds, st.floats(0.0, 0.999))
@settings(max_examples=effort.runs(20, whole=60))
def test_raising_to_a_floor_is_a_nearest_point_in_the_largest_norm(seed: int, part: float) -> None:
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(6, 0.3)).reshape(2, 3)
    floor = part / 6.0
    found = shares.copy()
    raise_to_floor(found, floor)
    assert (found >= floor - 1e-15).all()
    assert found.sum() == pytest.approx(1.0, abs=1e-13)
    # Least t with |x - shares| <= t, x >= floor, sum x = 1.
    ones = np.ones((6, 1))
    nearest = linprog(
        np.append(np.zeros(6), 1.0),
        A_ub=np.block([[np.eye(6), -ones], [-np.eye(6), -ones]]),
        b_ub=np.concatenate([shares.ravel(), -shares.ravel()]),
        A_eq=[[1.0] * 6 + [0.0]],
        b_eq=[1.0],
        bounds=[(floor, None)] * 6 + [(0.0, None)],
    )
    assert np.abs(found - shares).max() == pytest.approx(nearest.fun, abs=1e-8)


def test_what_is_raised_is_taken_evenly_from_those_that_can_give() -> None:
    shares = np.array([[0.0, 0.12], [0.40, 0.48]])
    raise_to_floor(shares, 0.1)
    # A tenth is missing: a thirtieth each would push 0.12 below the floor, so it gives 0.02
    # and the others 0.04 each.
    np.testing.assert_allclose(shares, [[0.1, 0.1], [0.36, 0.44]], atol=1e-15)


# --------------------------------------------------------------------- ordinary best arm


@given(seeds, st.integers(2, 7))
@settings(max_examples=effort.runs(20, whole=60))
def test_gaussian_allocation_is_that_of_garivier_and_kaufmann(seed: int, arms: int) -> None:
    quality = np.random.default_rng(seed).normal(0.0, 1.0, arms)
    best = int(np.argmax(quality))
    gaps = np.delete(quality[best] - quality, best)
    if gaps.min() < 1e-3:
        return

    # With the nearest rival at x times the best arm's share, all rivals must give the same
    # evidence: ratio / (1 + ratio) gap^2.
    def ratios(x: float) -> np.ndarray:
        return 1.0 / ((gaps / gaps.min()) ** 2 * (1.0 + x) / x - 1.0)

    x = brentq(lambda x: (ratios(x) ** 2).sum() - 1.0, 1e-9, 1.0, xtol=1e-15)
    wanted = np.insert(ratios(x), best, 1.0)
    found = np.empty(arms)
    gaussian_allocation(quality, found)
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-7, atol=1e-10)


def test_gaussian_allocation_is_optimal() -> None:
    cp = pytest.importorskip("cvxpy")
    generator = np.random.default_rng(2)
    for _ in range(10):
        quality = generator.normal(0.0, 1.0, 4)
        found = np.empty(4)
        gaussian_allocation(quality, found)
        best = int(np.argmax(quality))
        rivals = [k for k in range(4) if k != best]
        gaps = quality[best] - quality

        shares, least = cp.Variable(4, nonneg=True), cp.Variable()
        constraints = [cp.sum(shares) == 1] + [
            least / gaps[k] ** 2
            <= shares[best] - cp.quad_over_lin(shares[best], shares[best] + shares[k])
            for k in rivals
        ]
        problem = cp.Problem(cp.Maximize(least), constraints)
        problem.solve(solver="CLARABEL")
        own = min(gaps[k] ** 2 * found[best] * found[k] / (found[best] + found[k]) for k in rivals)
        assert own == pytest.approx(problem.value, rel=1e-6)


def test_gaussian_allocation_is_uniform_where_nothing_can_be_told() -> None:
    for quality in (np.array([0.3]), np.array([1.0, 1.0, 0.0])):
        found = np.empty(quality.size)
        gaussian_allocation(quality, found)
        np.testing.assert_allclose(found, 1.0 / quality.size)


# ---------------------------------------------------------------------- no feasible arm


def test_none_allocation_is_the_best_of_a_linear_programme() -> None:
    generator = np.random.default_rng(3)
    for tolerance in (0.0, 0.1):
        for _ in range(20):
            arms, groups = (int(n) for n in generator.integers(1, 5, 2))
            means = generator.normal(0.0, 0.5, (arms, groups))
            means[np.arange(arms), generator.integers(groups, size=arms)] = -0.2
            floors = np.zeros((arms, groups))
            variances = np.exp(generator.normal(0.0, 1.0, (arms, groups)))
            model = model_of(np.full(groups, 1.0 / groups), floors, variances, 0.0, tolerance, 0.6)
            assert empirical_best(means, model.weights, model.limits) == NONE
            gains = (np.clip(means, *model.rival_limits) - means) ** 2 / variances
            rows = np.zeros((arms, arms * groups + 1))
            for k in range(arms):
                rows[k, k * groups : (k + 1) * groups] = -gains[k]
            rows[:, -1] = 1.0
            best = linprog(
                np.append(np.zeros(arms * groups), -1.0),
                A_ub=rows,
                b_ub=np.zeros(arms),
                A_eq=[[1.0] * (arms * groups) + [0.0]],
                b_eq=[1.0],
            )
            shares = np.empty((arms, groups))
            none_allocation(model, means, model.variances, shares)
            assert shares.sum() == pytest.approx(1.0)
            assert (shares >= 0.0).all()
            assert (gains * shares).sum(axis=1).min() == pytest.approx(-best.fun, rel=1e-6)


def test_none_allocation_takes_the_first_of_equally_clear_groups() -> None:
    model = model_of(np.full(2, 0.5), np.zeros((2, 2)), np.ones((2, 2)))
    shares = np.empty((2, 2))
    none_allocation(model, np.array([[-0.5, -0.5], [0.3, -1.0]]), np.ones((2, 2)), shares)
    np.testing.assert_allclose(shares, [[0.8, 0.0], [0.0, 0.2]])


# ------------------------------------------------------------------------------- fluid


def random_truth(generator: np.random.Generator) -> tuple[Model, np.ndarray, int]:
    while True:
        arms, groups = (int(n) for n in generator.integers(2, 5, 2))
        floors = np.where(generator.random((arms, groups)) < 0.3, FREE, 0.0)
        variances = np.exp(generator.normal(0.0, 0.5, (arms, groups)))
        ceilings = np.where(generator.random((arms, groups)) < 0.7, math.inf, 0.9)
        weights = generator.dirichlet(np.ones(groups))
        model = model_of(weights, floors, variances, ceilings=ceilings)
        means = generator.normal(0.4, 0.4, (arms, groups))
        best = int(empirical_best(means, model.weights, model.limits))
        if best != NONE:
            return model, means, best


def exact_f(model: Model, means: np.ndarray, shares: np.ndarray, best: int) -> float:
    found = exact_weakest(
        best, means, shares / model.variances,
        model.weights, model.own_limits, model.rival_limits, model.tolerance,
    )  # fmt: skip
    assert found is not None
    return float(found)


def test_the_weakest_gradient_is_that_of_f_by_the_shares() -> None:
    generator = np.random.default_rng(4)
    for _ in range(20):
        model, means, best = random_truth(generator)
        shares = generator.dirichlet(np.ones(means.size)).reshape(means.shape)
        gradient = np.empty(means.shape)
        value = weakest_gradient(model, means, model.variances, shares, best, gradient)
        assert value == pytest.approx(exact_f(model, means, shares, best), rel=1e-11)
        assert (gradient * shares).sum() == pytest.approx(value, rel=1e-11)
        for _ in range(5):
            other = generator.dirichlet(np.ones(means.size)).reshape(means.shape)
            # The gradient of a concave function is above it everywhere.
            assert exact_f(model, means, other, best) <= (gradient * other).sum() * (1 + 1e-10)


def test_a_fluid_step_moves_the_shares_towards_their_part_of_the_evidence() -> None:
    generator = np.random.default_rng(5)
    for _ in range(20):
        model, means, best = random_truth(generator)
        before = generator.dirichlet(np.ones(means.size)).reshape(means.shape)
        shares, gradient = before.copy(), np.empty(means.shape)
        value = fluid_step(model, means, model.variances, best, shares, gradient, 0.25)
        part = before * gradient / value
        assert part.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(shares, before + 0.25 * (part - before), rtol=1e-12)


def test_fluid_steps_come_close_to_the_best_shares() -> None:
    cp = pytest.importorskip("cvxpy")
    generator = np.random.default_rng(6)
    for _ in range(effort.runs(1, whole=5)):
        arms = int(generator.integers(2, 6))
        quality = generator.normal(0.0, 1.0, arms)
        best = int(np.argmax(quality))
        means = quality[:, np.newaxis]
        model = model_of(np.ones(1), np.full((arms, 1), FREE), np.ones((arms, 1)))
        shares, gradient = np.full((arms, 1), 1.0 / arms), np.empty((arms, 1))
        for step in range(20_000):
            gain = 1.0 / (20 + step)
            fluid_step(model, means, model.variances, best, shares, gradient, gain)
        reached = weakest_gradient(model, means, model.variances, shares, best, gradient)

        free, least = cp.Variable(arms, nonneg=True), cp.Variable()
        gaps = quality[best] - quality
        problem = cp.Problem(
            cp.Maximize(least),
            [cp.sum(free) == 1]
            + [
                least / gaps[k] ** 2
                <= free[best] - cp.quad_over_lin(free[best], free[best] + free[k])
                for k in range(arms)
                if k != best
            ],
        )
        problem.solve(solver="CLARABEL")
        assert reached == pytest.approx(problem.value, rel=2e-3)


def test_at_an_exact_tie_a_fluid_step_changes_nothing() -> None:
    model = model_of(np.ones(1), np.full((2, 1), FREE), np.ones((2, 1)))
    shares, gradient = np.array([[0.3], [0.7]]), np.empty((2, 1))
    assert fluid_step(model, np.ones((2, 1)), np.ones((2, 1)), 0, shares, gradient, 0.1) == 0.0
    np.testing.assert_array_equal(shares, [[0.3], [0.7]])
