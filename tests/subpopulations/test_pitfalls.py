"""The inner problem and the pitfalls, compared with exact arithmetic, a solver and geometry."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.subpopulations._kernels.model import NO_CONTROL
from fairtrial.subpopulations._kernels.pitfalls import (
    NONE,
    Alternative,
    all_pitfalls,
    empirical_best,
    none_value,
    pair_value,
    pitfall_gradient,
    pitfall_value,
)
from tests import effort
from tests.subpopulations.exact_pitfalls import (
    exact_best,
    exact_none,
    exact_pair,
    exact_weakest,
    limits_of,
    model_of,
)

FREE = -math.inf


class Pair(NamedTuple):
    """One inner problem: row 0 is the answer's arm, row 1 the rival's."""

    means: np.ndarray
    precisions: np.ndarray
    weights: np.ndarray
    floors: np.ndarray
    tolerance: float = 0.0
    ceilings: np.ndarray | float = math.inf

    @property
    def limits(self) -> np.ndarray:
        """Floors and ceilings of the rival, shape (2, L)."""
        return limits_of(self.floors, self.ceilings)


def solve(pair: Pair) -> tuple[float, float, np.ndarray]:
    """Return value, multiplier, and the nearest alternative means."""
    lam = np.full((1, 2, pair.weights.size), np.nan)
    limits = np.stack([pair.limits, pair.limits], axis=1)
    alternative = Alternative(pair.weights, limits, pair.tolerance, NO_CONTROL, pair.weights)
    value, multiplier = pair_value(0, 1, pair.means, pair.precisions, alternative, lam, 0)
    return value, multiplier, lam[0]


def exact_value(pair: Pair) -> float:
    return float(
        exact_pair(
            pair.means[0], pair.precisions[0], pair.means[1], pair.precisions[1],
            pair.weights, pair.limits, pair.tolerance,
        )
    )  # fmt: skip


def random_pair(generator: np.random.Generator, ceilings: float = 0.5) -> Pair:
    """Return a case with clipped and absent limits, zero weights, and sometimes tolerance.

    `ceilings` is the share of cases in which some cells have one.
    """
    groups = int(generator.integers(1, 8))
    weights = generator.dirichlet(np.ones(groups))
    weights[generator.random(groups) < 0.15] = 0.0
    if weights.sum() == 0.0:
        weights[0] = 1.0
    floors = generator.normal(0.2, 1.0, groups)
    floors[generator.random(groups) < 0.3] = FREE
    tops = np.full(groups, math.inf)
    if generator.random() < ceilings:
        width = generator.exponential(1.0, groups)
        tops = np.where(np.isfinite(floors), floors, generator.normal(0.2, 1.0, groups)) + width
        tops[generator.random(groups) < 0.3] = math.inf
    return Pair(
        means=generator.normal(0.0, 1.0, (2, groups)),
        precisions=np.exp(generator.uniform(math.log(1e-3), math.log(1e3), (2, groups))),
        weights=weights / weights.sum(),
        floors=floors,
        tolerance=float(generator.choice([0.0, 0.3])),
        ceilings=tops,
    )


def zero_precisions(pair: Pair, generator: np.random.Generator) -> Pair:
    dropped = generator.random(pair.precisions.shape) < 0.4
    return pair._replace(precisions=np.where(dropped, 0.0, pair.precisions))


# ------------------------------------------------------------------- against other solvers


def test_value_agrees_with_exact_arithmetic() -> None:
    generator = np.random.default_rng(1)
    for case in range(600):
        pair = random_pair(generator)
        if case % 3 == 0:
            pair = zero_precisions(pair, generator)
        assert solve(pair)[0] == pytest.approx(exact_value(pair), rel=1e-12, abs=1e-300)


def test_value_is_exact_for_huge_counts_unequal_precisions_and_near_ties() -> None:
    generator = np.random.default_rng(2)
    worst = 0.0
    for _ in range(500):
        groups = int(generator.integers(1, 11))
        weights = generator.dirichlet(np.ones(groups))
        means = generator.normal(0.5, 1.0, (2, groups))
        floors = generator.normal(0.0, 1.0, groups)
        tops = floors + generator.exponential(1.0, groups)
        tops[generator.random(groups) < 0.5] = math.inf
        means[0] += (np.clip(means[1], floors, tops) - means[0]) @ weights + 1e-6
        scale = 10.0 ** generator.uniform(0, 12)
        precisions = scale * 10.0 ** generator.uniform(-9, 0, (2, groups))
        pair = Pair(means, precisions, weights, floors, ceilings=tops)
        wanted = exact_value(pair)
        worst = max(worst, abs(solve(pair)[0] / wanted - 1.0))
    assert worst < 1e-9


def test_value_agrees_with_a_conic_solver() -> None:
    cp = pytest.importorskip("cvxpy")
    generator = np.random.default_rng(3)
    for case in range(25):
        pair = random_pair(generator)
        if case % 3 == 0:
            pair = zero_precisions(pair, generator)
        alternative = cp.Variable(pair.means.shape)
        constraints = [pair.weights @ (alternative[1] - alternative[0]) >= pair.tolerance]
        for sign, ends in zip((1.0, -1.0), pair.limits, strict=True):
            limited = np.flatnonzero(np.isfinite(ends))
            if limited.size:
                constraints.append(sign * (alternative[1][limited] - ends[limited]) >= 0.0)
        distance = cp.sum(cp.multiply(pair.precisions, cp.square(pair.means - alternative)))
        problem = cp.Problem(cp.Minimize(distance), constraints)
        problem.solve(solver="CLARABEL")
        assert solve(pair)[0] == pytest.approx(problem.value, rel=1e-5, abs=1e-5)


def test_without_limits_it_is_the_squared_gap_over_the_variance() -> None:
    generator = np.random.default_rng(4)
    for _ in range(50):
        pair = random_pair(generator)
        pair = pair._replace(floors=np.full(pair.weights.size, FREE), ceilings=math.inf)
        gap = max(0.0, pair.tolerance + pair.weights @ (pair.means[0] - pair.means[1]))
        variance = (pair.weights**2 / pair.precisions).sum()
        assert solve(pair)[0] == pytest.approx(gap**2 / variance, rel=1e-12)


def test_one_group_has_the_textbook_value() -> None:
    pair = Pair(np.array([[1.0], [0.4]]), np.array([[3.0], [6.0]]), np.ones(1), np.full(1, FREE))
    assert solve(pair)[0] == pytest.approx(3.0 * 6.0 / 9.0 * 0.36)


# -------------------------------------------------------------------- the nearest means


def test_the_nearest_means_are_in_the_alternative_and_at_that_distance() -> None:
    generator = np.random.default_rng(5)
    for case in range(300):
        pair = random_pair(generator)
        if case % 2:
            pair = zero_precisions(pair, generator)
        value, _, lam = solve(pair)
        assert pair.weights @ (lam[1] - lam[0]) >= pair.tolerance - 1e-11
        assert ((lam[1] >= pair.limits[0]) & (lam[1] <= pair.limits[1])).all()
        distance = (pair.precisions * (pair.means - lam) ** 2).sum()
        assert distance == pytest.approx(value, rel=1e-12, abs=1e-300)


def test_the_multiplier_moves_every_cell_by_its_weight_over_its_precision() -> None:
    generator = np.random.default_rng(6)
    active = 0
    for _ in range(100):
        pair = random_pair(generator)
        _, multiplier, lam = solve(pair)
        move = multiplier * pair.weights / pair.precisions
        np.testing.assert_allclose(lam[0], pair.means[0] - move[0], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(
            lam[1], np.clip(pair.means[1] + move[1], *pair.limits), rtol=1e-12, atol=1e-13
        )
        active += multiplier > 0.0
    assert active > 30


def test_a_cell_without_precision_closes_the_gap_for_nothing() -> None:
    pair = Pair(
        means=np.array([[2.0, 2.0], [0.0, -1.0]]),
        precisions=np.array([[1.0, 0.0], [1.0, 4.0]]),
        weights=np.array([0.5, 0.5]),
        floors=np.array([FREE, 0.0]),
    )
    value, multiplier, lam = solve(pair)
    assert value == 4.0
    assert multiplier == 0.0
    assert pair.weights @ lam[1] == pytest.approx(pair.weights @ lam[0])


def test_the_answers_own_floors_play_no_part_in_a_pair() -> None:
    pair = Pair(
        means=np.array([[1.0], [0.0]]),
        precisions=np.ones((2, 1)),
        weights=np.ones(1),
        floors=np.full(1, FREE),
    )
    _, _, lam = solve(pair)
    assert lam[0, 0] == pytest.approx(0.5)
    with_floor = limits_of([[0.9], [FREE]])
    found = np.zeros((1, 2, 1))
    alternative = Alternative(pair.weights, with_floor, 0.0, NO_CONTROL, pair.weights)
    value, _ = pair_value(0, 1, pair.means, pair.precisions, alternative, found, 0)
    assert value == pytest.approx(0.5)


def test_an_infeasible_rival_must_also_be_lifted_to_its_floors() -> None:
    pair = Pair(
        means=np.array([[0.5], [-1.0]]),
        precisions=np.ones((2, 1)),
        weights=np.ones(1),
        floors=np.zeros(1),
    )
    # The rival up to its floor, and the answer down to it: they cannot meet below.
    assert solve(pair)[0] == pytest.approx(1.0 + 0.25)
    rich = pair._replace(means=np.array([[0.5, 0.5], [-1.0, 9.0]]), precisions=np.ones((2, 2)))
    rich = rich._replace(weights=np.array([0.5, 0.5]), floors=np.zeros(2))
    assert solve(rich)[0] == pytest.approx(1.0)


def test_a_rival_at_its_ceiling_leaves_the_rest_of_the_gap_to_the_answers_arm() -> None:
    pair = Pair(
        means=np.array([[1.0], [0.0]]),
        precisions=np.ones((2, 1)),
        weights=np.ones(1),
        floors=np.full(1, FREE),
        ceilings=np.full(1, 0.2),
    )
    value, multiplier, lam = solve(pair)
    assert lam == pytest.approx(np.array([[0.2], [0.2]]))
    assert value == pytest.approx(0.8**2 + 0.2**2)
    assert multiplier == pytest.approx(0.8)


def test_a_cell_without_precision_closes_the_gap_only_up_to_its_ceiling() -> None:
    pair = Pair(
        means=np.array([[2.0, 2.0], [0.0, 0.0]]),
        precisions=np.array([[1.0, 1.0], [1.0, 0.0]]),
        weights=np.array([0.5, 0.5]),
        floors=np.full(2, FREE),
        ceilings=np.array([math.inf, 1.0]),
    )
    value, multiplier, lam = solve(pair)
    # Half of the second column's gap is free; the three cells left share the rest equally.
    assert lam[1, 1] == 1.0
    assert value == pytest.approx(3.0)
    assert multiplier == pytest.approx(2.0)
    high = pair._replace(ceilings=np.array([math.inf, 5.0]))
    value, multiplier, lam = solve(high)
    assert (value, multiplier) == (0.0, 0.0)
    assert lam[1] == pytest.approx([0.0, 4.0])


# ---------------------------------------------------------------------- geometry of F


@st.composite
def instances(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
    """Return means, two arrays of precisions, weights, limits, and slacks."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    means = generator.normal(0.2, 0.7, shape)
    weights = generator.dirichlet(np.ones(shape[1]))
    floors = np.where(generator.random(shape) < 0.3, FREE, generator.normal(-0.2, 0.6, shape))
    ceilings = np.full(shape, math.inf)
    if draw(st.booleans()):
        width = 0.5 + generator.exponential(1.0, shape)
        ceilings = np.where(np.isfinite(floors), floors, -0.2) + width
        ceilings[generator.random(shape) < 0.3] = math.inf
    first, second = np.exp(generator.normal(0.0, 2.0, (2, *shape)))
    if draw(st.booleans()):
        first = np.where(generator.random(shape) < 0.3, 0.0, first)
    tolerance, floor_tolerance = draw(st.sampled_from([(0.0, 0.0), (0.1, 0.0), (0.1, 0.2)]))
    limits = limits_of(floors, ceilings)
    return means, first, second, weights, limits, np.array([tolerance, floor_tolerance])


def wider(limits: np.ndarray, tolerance: float) -> np.ndarray:
    return limits + np.array([-tolerance, tolerance])[:, None, None]


def weakest(
    means: np.ndarray,
    precisions: np.ndarray,
    weights: np.ndarray,
    limits: np.ndarray,
    slacks: np.ndarray,
) -> tuple[int, int, float, np.ndarray]:
    """Return answer, weakest pitfall, its value and its gradient."""
    tolerance, floor_tolerance = map(float, slacks)
    model = model_of(weights, limits[0], 1.0, tolerance, floor_tolerance, limits[1])
    arms, groups = means.shape
    lam, values = np.empty((1, 2, groups)), np.empty(arms + groups)
    gradient = np.zeros((arms, groups))
    best = empirical_best(means, weights, limits)
    index = all_pitfalls(best, means, precisions, model, lam, values)
    value = pitfall_gradient(index, best, means, precisions, model, lam, gradient)
    assert value == values[index]
    return best, index, value, gradient


def has_pitfall(means: np.ndarray, weights: np.ndarray, limits: np.ndarray) -> bool:
    return len(means) > 1 or bool(np.isfinite(limits).any())


@given(instances())
@settings(max_examples=effort.runs(60, whole=150))
def test_the_weakest_pitfall_is_that_of_exact_arithmetic(case: tuple[np.ndarray, ...]) -> None:
    means, precisions, _, weights, limits, slacks = case
    if not has_pitfall(means, weights, limits):
        return
    best, _, value, _ = weakest(means, precisions, weights, limits, slacks)
    assert best == exact_best(means, weights, limits)
    wanted = exact_weakest(
        best, means, precisions, weights,
        wider(limits, slacks[1]), wider(limits, -slacks[1]), float(slacks[0]),
    )  # fmt: skip
    assert wanted is not None
    assert value == pytest.approx(float(wanted), rel=1e-11, abs=1e-14)


@given(instances(), st.floats(1e-6, 1e6))
@settings(max_examples=effort.runs(60, whole=150))
def test_f_is_homogeneous_monotone_and_concave(case: tuple[np.ndarray, ...], t: float) -> None:
    means, first, second, weights, limits, slacks = case
    if not has_pitfall(means, weights, limits):
        return

    def f(precisions: np.ndarray) -> float:
        return weakest(means, precisions, weights, limits, slacks)[2]

    tolerance = 1e-11 * (f(first) + f(second)) + 1e-14
    assert f(t * first) == pytest.approx(t * f(first), rel=1e-10, abs=1e-14 * t)
    assert f(first + second) >= f(first) + f(second) - tolerance
    assert f(first + second) >= max(f(first), f(second)) - tolerance


@given(instances())
@settings(max_examples=effort.runs(60, whole=150))
def test_the_gradient_sums_to_f_and_cuts_off_nothing(case: tuple[np.ndarray, ...]) -> None:
    means, first, second, weights, limits, slacks = case
    if not has_pitfall(means, weights, limits):
        return
    _, _, value, gradient = weakest(means, first, weights, limits, slacks)
    assert (gradient >= 0.0).all()
    assert (first * gradient).sum() == pytest.approx(value, rel=1e-11, abs=1e-14)
    elsewhere = weakest(means, second, weights, limits, slacks)[2]
    assert elsewhere <= (second * gradient).sum() * (1.0 + 1e-10) + 1e-13


def test_the_gradient_is_the_slope_of_the_value() -> None:
    generator = np.random.default_rng(7)
    step = 1e-5
    for _ in range(40):
        arms, groups = 3, 3
        means = generator.normal(0.2, 0.7, (arms, groups))
        precisions = generator.uniform(0.5, 2.0, (arms, groups))
        weights = generator.dirichlet(np.ones(groups))
        floors = generator.normal(-0.2, 0.5, (arms, groups))
        limits = limits_of(floors, floors + generator.uniform(0.5, 3.0, (arms, groups)))
        best = int(empirical_best(means, weights, limits))
        lam, gradient = np.empty((1, 2, groups)), np.empty((arms, groups))
        model = model_of(weights, limits[0], 1.0, 0.05, 0.0, limits[1])
        for index in range(arms + groups):
            value = pitfall_gradient(index, best, means, precisions, model, lam, gradient)
            if value == math.inf:
                continue
            for cell in np.ndindex(arms, groups):
                around = []
                for sign in (1.0, -1.0):
                    moved = precisions.copy()
                    moved[cell] += sign * step
                    around.append(pitfall_value(index, best, means, moved, model, lam))
                slope = (around[0] - around[1]) / (2.0 * step)
                assert slope == pytest.approx(gradient[cell], rel=1e-4, abs=1e-7)


@given(instances(), st.floats(1e-4, 1e4))
@settings(max_examples=effort.runs(20, whole=60))
def test_f_does_not_depend_on_the_unit_of_the_rewards(
    case: tuple[np.ndarray, ...], unit: float
) -> None:
    means, precisions, _, weights, limits, slacks = case
    if not has_pitfall(means, weights, limits):
        return
    value = weakest(means, precisions, weights, limits, slacks)[2]
    rescaled = weakest(means * unit, precisions / unit**2, weights, limits * unit, slacks * unit)[2]
    assert rescaled == pytest.approx(value, rel=1e-9, abs=1e-13)


def test_slack_never_makes_a_pitfall_weaker() -> None:
    generator = np.random.default_rng(8)
    for _ in range(50):
        pair = random_pair(generator)
        values = [solve(pair._replace(tolerance=tolerance))[0] for tolerance in (0.0, 0.1, 0.5)]
        assert values == sorted(values)


# ------------------------------------------------------------------------- which pitfalls


def test_the_best_is_the_feasible_arm_of_the_largest_quality() -> None:
    means = np.array([[1.0, 1.0], [9.0, -0.1], [2.0, 1.0]])
    floors, equal = np.zeros((3, 2)), np.array([0.5, 0.5])
    assert empirical_best(means, equal, limits_of(floors)) == 2
    assert empirical_best(means, equal, limits_of(floors + 1.5)) == NONE
    assert empirical_best(means, equal, limits_of(floors, 1.5)) == 0
    assert empirical_best(means, equal, limits_of(floors, 0.9)) == NONE


def test_a_mean_exactly_on_its_floor_is_feasible_and_ties_go_to_the_lowest_index() -> None:
    weights = np.array([0.5, 0.5])
    floors = limits_of(np.full((2, 2), 0.3), 0.5)
    assert empirical_best(np.array([[0.3, 0.5], [0.5, 0.3]]), weights, floors) == 0
    assert empirical_best(np.array([[0.3, 0.4], [0.5, 0.3]]), weights, floors) == 1


def test_every_pitfall_of_a_best_arm_has_its_place() -> None:
    means = np.array([[0.5, 0.6], [0.2, 0.1], [0.9, -0.4]])
    floors = np.array([[0.1, FREE], [0.0, 0.0], [0.0, 0.0]])
    precisions = np.full((3, 2), 2.0)
    weights = np.array([0.5, 0.5])
    values = np.empty(5)
    lam = np.empty((1, 2, 2))
    limits = limits_of(floors, [[0.55, math.inf], [math.inf] * 2, [math.inf] * 2])
    model = model_of(weights, limits[0], ceilings=limits[1])
    index = all_pitfalls(0, means, precisions, model, lam, values)
    assert values[0] == math.inf
    assert values[4] == math.inf
    # The nearer end counts: its ceiling.
    assert values[3] == pytest.approx(2.0 * 0.05**2)
    for k in (1, 2):
        wanted = exact_pair(means[0], precisions[0], means[k], precisions[k], weights, limits[:, k])
        assert values[k] == pytest.approx(float(wanted))
    assert index == np.argmin(values)


def test_of_equal_pitfalls_the_first_is_the_weakest() -> None:
    means = np.array([[1.0], [0.0], [0.0]])
    values = np.empty(4)
    model = model_of(np.ones(1), np.full((3, 1), FREE))
    found = all_pitfalls(0, means, np.ones((3, 1)), model, np.empty((1, 2, 1)), values)
    assert found == 1


def test_no_arm_is_doubted_by_every_arm_and_no_limit() -> None:
    generator = np.random.default_rng(9)
    means = generator.normal(-0.5, 1.0, (4, 3)) - 3.0 * np.eye(4, 3)[:, ::-1]
    means[3, 0] -= 3.0
    limits = limits_of(np.zeros((4, 3)), 1.0)
    precisions = generator.uniform(0.1, 3.0, (4, 3))
    weights = np.full(3, 1.0 / 3.0)
    assert empirical_best(means, weights, limits) == NONE
    values = np.empty(7)
    model = model_of(weights, limits[0], ceilings=limits[1])
    all_pitfalls(NONE, means, precisions, model, np.empty((1, 2, 3)), values)
    for k in range(4):
        assert values[k] == pytest.approx(float(exact_none(means[k], precisions[k], limits[:, k])))
        assert none_value(k, means, precisions, limits) == values[k]
    assert (values[4:] == math.inf).all()
