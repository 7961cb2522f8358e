"""T*, compared with reference values, a conic programme, closed forms and its own symmetries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from fairtrial.data import actg175
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    Complexity,
    GaussianEnvironment,
    GaussianPredictedEnvironment,
    PredictedEnvironment,
    Problem,
    ReplayEnvironment,
    complexity,
)
from tests import effort
from tests.messages import raises
from tests.subpopulations.exact_pitfalls import exact_weakest

E1 = [[0.2, 0.6, 0.8], [0.4, 0.4, 0.3], [-0.2, 1.0, 1.5]]
E1_SHARES = [
    [0.26194, 0.07935, 0.13226],
    [0.05290, 0.07935, 0.13226],
    [0.26194, 0.0, 0.0],
]
E2 = [[-0.2, 0.4, 1.2], [0.2, 0.6, 0.6], [0.3, 0.3, 0.6], [-0.6, 0.8, 0.4]]
NO_ARM = [[-0.4, 0.6, 0.7], [0.8, -0.3, -0.5]]


def e1(**changes: Any) -> Problem:
    return Problem(
        **{"arms": 3, "groups": 3, "group_weights": [0.2, 0.3, 0.5], "noise_std": 1.0} | changes
    )


def e2(**changes: Any) -> Problem:
    return Problem(**{"arms": 4, "groups": 3, "noise_std": 1.0} | changes)


def no_arm(**changes: Any) -> Problem:
    return Problem(**{"arms": 2, "groups": 3, "noise_std": 1.0} | changes)


def complexity_of(problem: Problem, means: Any, std: Any = None, **options: Any) -> Complexity:
    """Return the complexity for normal rewards with these means."""
    return complexity(GaussianEnvironment(problem, means, std), **options)


def cost_per_nat(
    problem: Problem, means: Any, shares: np.ndarray, std: np.ndarray | None = None
) -> float:
    """Return the cost of shares of the pulls for each nat of evidence, in exact arithmetic."""
    signed = problem.sign * np.asarray(means, dtype=np.float64)
    answer = complexity_of(problem, means, tol=1e-2, std=std).answer
    best = -1 if answer is None else problem.arms.index(answer)
    weakest = exact_weakest(
        best,
        signed,
        shares / (problem.scale if std is None else std) ** 2,
        problem.shares,
        problem.limits(problem.floor_tolerance),
        problem.limits(-problem.floor_tolerance),
        problem.tolerance,
    )
    assert weakest is not None
    return 2.0 * float((shares * problem.costs).sum()) / float(weakest)


# ------------------------------------------------------------------------ reference values


@pytest.mark.parametrize(
    ("problem", "means", "arrivals", "answer", "wanted"),
    [
        (e1(), E1, None, "0", 190.883590),
        (e2(), E2, None, "1", 16700 / 9),
        (no_arm(), NO_ARM, None, None, 20.5),
        (e1(), E1, [0.2, 0.3, 0.5], "0", 506.8175),
        (e1(), E1, [1, 1, 1], "0", 305.3836),
        (e2(), E2, [1, 1, 1], "1", 1859.0870),
    ],
    ids=["E1", "E2", "no arm", "E1 as it comes", "E1 in equal parts", "E2 in equal parts"],
)
def test_reference_values(
    problem: Problem, means: Any, arrivals: Any, answer: str | None, wanted: float
) -> None:
    found = complexity_of(problem, means, arrivals=arrivals)
    assert found.answer == answer
    assert found.value == pytest.approx(wanted, rel=1e-6)
    # The references are rounded to their last digit.
    assert found.lower <= wanted * (1.0 + 2e-7)
    assert found.upper >= wanted * (1.0 - 2e-7)
    assert found.upper <= found.lower * (1.0 + 1e-6)
    assert found.reason == ""


def test_flooring_one_group_only_leaves_the_reference_values() -> None:
    one = [0.0, None, None]
    assert complexity_of(e1(floors=one), E1).value == pytest.approx(190.883590, rel=1e-6)
    assert complexity_of(e2(floors=one), E2).value == pytest.approx(16700 / 9, rel=1e-6)


def test_the_unique_shares_of_the_reference() -> None:
    np.testing.assert_allclose(complexity_of(e1(), E1).allocation, E1_SHARES, atol=1.5e-4)
    wanted = np.zeros((2, 3))
    wanted[0, 0], wanted[1, 2] = 25 / 41, 16 / 41
    np.testing.assert_allclose(complexity_of(no_arm(), NO_ARM).allocation, wanted, rtol=1e-12)


def test_the_closed_form_of_e2_for_any_tolerance() -> None:
    for tol in (1e-1, 1e-3, 1e-9):
        found = complexity_of(e2(), E2, tol=tol)
        assert found.lower <= 16700 / 9 * (1 + 1e-12)
        assert found.upper >= 16700 / 9 * (1 - 1e-12)
        assert found.upper / found.lower - 1.0 <= tol
    assert found.value == pytest.approx(16700 / 9, rel=1e-9)


def test_the_instance_that_breaks_the_stylised_rule() -> None:
    problem = Problem(2, 10, floors=[0.0] * 9 + [None], noise_std=1.0)
    means = [[1.0] * 10, [0.01] * 9 + [60.0]]
    found = complexity_of(problem, means)
    assert found.answer == "1"
    # Nine floors at .01, each 2 / .01^2; everything else is cheap.
    assert found.value == pytest.approx(180_000.0, rel=1e-5)


def trial(outcome: str, floor: float, reward_range: tuple[float, float]) -> ReplayEnvironment:
    problem = Problem(
        ["zdv", "zdv_ddi", "zdv_ddc", "ddi"],
        {"naive": 0.414, "upto52w": 0.192, "over52w": 0.394},
        floors=floor,
        reward_range=reward_range,
    )
    return ReplayEnvironment(problem, actg175(outcome), group="stratum")  # type: ignore[arg-type]


def test_the_clinical_trial() -> None:
    environment = trial("cd4", 0.0, (-1, 1))
    found = complexity(environment)
    assert found.answer == "zdv_ddi"
    assert found.value == pytest.approx(208.0, rel=1e-3)


@pytest.mark.parametrize("floor", [0.70, 0.75])
def test_the_harder_questions_to_the_clinical_trial(floor: float) -> None:
    pytest.importorskip("cvxpy")
    environment = trial("event_free", floor, (0, 1))
    found = complexity(environment)
    assert found.answer == "zdv_ddi"
    known = environment.problem.clone(noise_std=environment.cell_stds, reward_range=None)
    assert found.value == pytest.approx(conic_value(known, environment.cell_means, 1), rel=1e-4)
    # More than the trial had, for any acceptable error.
    assert found.lower_bound(0.05) > 2139


def test_the_clinical_trial_without_an_acceptable_arm() -> None:
    environment = trial("event_free", 0.78, (0, 1))
    found = complexity(environment)
    assert found.answer is None
    assert found.lower > 0.0


# ------------------------------------------------------------------- other ways to compute it


def conic_value(
    problem: Problem, means: np.ndarray, best: int, arrivals: np.ndarray | None = None
) -> float:
    """Return T* in its second-order-cone form, in which the multipliers are variables."""
    import cvxpy as cp

    (arms, groups), q = problem.shape, problem.shares
    rival, own = (problem.limits(sign * problem.floor_tolerance) for sign in (-1, 1))
    mu = problem.sign * means
    pulls, least = cp.Variable((arms, groups), nonneg=True), cp.Variable()
    precisions = cp.multiply(pulls, 1.0 / problem.scale**2)
    constraints = [cp.sum(cp.multiply(pulls, problem.costs)) == 1]
    if arrivals is not None:
        constraints = [cp.sum(pulls[:, g]) == arrivals[g] for g in range(groups)]
    for k in range(arms):
        if best < 0:
            gain = (np.clip(mu[k], *rival[:, k]) - mu[k]) ** 2
            constraints.append(least <= precisions[k] @ gain)
        elif k != best:
            s, push = cp.Variable(nonneg=True), cp.Constant(np.zeros(groups))
            value = 2 * s * (q @ mu[best] - q @ mu[k] + problem.tolerance)
            for sign, ends in zip((1, -1), rival[:, k], strict=True):
                nu, limited = cp.Variable(groups, nonneg=True), np.isfinite(ends)
                constraints += [nu[g] == 0 for g in range(groups) if not limited[g]]
                value += 2 * sign * (nu @ np.where(limited, ends - mu[k], 0.0))
                push = push + sign * nu
            for g in range(groups):
                value -= cp.quad_over_lin(s * q[g], precisions[best, g])
                value -= cp.quad_over_lin(s * q[g] + push[g], precisions[k, g])
            constraints.append(least <= value)
    if best >= 0:
        constraints += [
            least <= precisions[best, g] * (mu[best, g] - end[g]) ** 2
            for end in own[:, best]
            for g in range(groups)
            if np.isfinite(end[g])
        ]
    solved = cp.Problem(cp.Maximize(least), constraints)
    solved.solve(solver="CLARABEL")
    return 2.0 / float(solved.value)


def conic_value_of_rows(
    problem: Problem, means: np.ndarray, best: int, arrivals: np.ndarray | None = None
) -> float:
    """Return T* if limits may refer to a control: every limit is a row over all cells."""
    import cvxpy as cp

    mu, spare = problem.sign * means, problem.floor_tolerance
    pulls, least = cp.Variable(problem.shape, nonneg=True), cp.Variable()
    precisions = cp.multiply(pulls, 1.0 / problem.scale**2)
    constraints = [cp.sum(cp.multiply(pulls, problem.costs)) == 1]
    if arrivals is not None:
        constraints = [cp.sum(pulls[:, g]) == share for g, share in enumerate(arrivals)]
    for k in range(len(problem.arms)):
        if k == best:
            continue
        rows = limit_rows(problem, k, -spare)
        if best >= 0:
            better = np.zeros(problem.shape)
            better[best], better[k] = problem.shares, -problem.shares
            rows = [*rows, (better, problem.tolerance)]
        multipliers = cp.Variable(len(rows), nonneg=True)
        excess = np.array([(row * mu).sum() + bound for row, bound in rows])
        value = 2 * (multipliers @ excess)
        for cell in np.ndindex(*problem.shape):
            weights = np.array([row[cell] for row, _ in rows])
            if weights.any():
                value -= cp.quad_over_lin(weights @ multipliers, precisions[cell])
        constraints.append(least <= value)
    for row, bound in limit_rows(problem, best, spare) if best >= 0 else []:
        x = cp.Variable(nonneg=True)
        value = -2 * x * ((row * mu).sum() + bound)
        for cell in zip(*np.nonzero(row), strict=True):
            value -= cp.quad_over_lin(row[cell] * x, precisions[cell])
        constraints.append(least <= value)
    solved = cp.Problem(cp.Maximize(least), constraints)
    solved.solve(solver="CLARABEL")
    return 2.0 / float(solved.value)


def limit_rows(problem: Problem, k: int, spare: float) -> list[tuple[np.ndarray, float]]:
    """Return weights of all cells and a constant for each limit of an arm: at most 0 if kept."""
    found = []
    cells = np.eye(problem.n_actions).reshape(-1, *problem.shape)
    own = cells[k * problem.shape[1] : (k + 1) * problem.shape[1]]
    for sign, ends in zip((-1.0, 1.0), problem.limits(spare)[:, k], strict=True):
        limited = zip(own, ends, strict=True)
        found += [(sign * cell, -sign * end) for cell, end in limited if np.isfinite(end)]
    control = np.roll(own, problem.arms.index(problem.control) - k, axis=1)
    apart = [*(control - own), np.tensordot(problem.shares, control - own, 1)]
    wanted = [*problem.differences(spare)[0, k], problem.differences(spare)[1, k, 0]]
    pairs = zip(apart, wanted, strict=True)
    return found + [(row, least) for row, least in pairs if np.isfinite(least)]


@pytest.mark.parametrize("arriving", [False, True])
@pytest.mark.parametrize("tolerance", [0.0, 0.06])
def test_value_with_a_control_is_that_of_the_conic_form(tolerance: float, arriving: bool) -> None:
    pytest.importorskip("cvxpy")
    generator = np.random.default_rng(7)
    answers, found_finite = set(), 0
    for _ in range(effort.runs(7, whole=40)):
        problem, means = random_case(generator, tolerance=tolerance, floor_tolerance=tolerance / 2)
        problem = problem.clone(
            control=str(generator.choice(problem.arms)),
            margin=generator.choice([0.0, 0.3, np.inf], problem.shape),
            superiority=generator.choice([None, 0.1]),
            costs=None if arriving else np.exp(generator.normal(0.0, 0.5, problem.shape)),
        )
        arrivals = generator.dirichlet(np.full(problem.shape[1], 3.0)) if arriving else None
        found = complexity_of(problem, means, tol=1e-7, arrivals=arrivals)
        best = -1 if found.answer is None else problem.arms.index(found.answer)
        if found.value == 0.0:
            assert len(problem.arms) == 1
            continue
        wanted = conic_value_of_rows(problem, means, best, arrivals)
        assert found.value == pytest.approx(wanted, rel=1e-4)
        answers.add(found.answer)
        found_finite += 1
    assert found_finite > 4
    assert len(answers) > 2


def test_an_arm_exactly_on_its_margin_takes_for_ever() -> None:
    problem = Problem(2, 2, noise_std=1.0, control="0", margin=0.1)
    found = complexity_of(problem, [[0.3, 0.5], [0.9, 0.4]])
    assert found.value == np.inf
    assert "exactly as far from the control '0' as it may be, in group '1'" in found.reason
    overall = Problem(2, 2, noise_std=1.0, control="0", superiority=0.1)
    assert "overall" in complexity_of(overall, [[0.3, 0.5], [0.4, 0.6]]).reason


def random_case(generator: np.random.Generator, **options: Any) -> tuple[Problem, np.ndarray]:
    """Return a problem, and means without a near tie or a mean near its floor."""
    while True:
        arms, groups = int(generator.integers(1, 5)), int(generator.integers(1, 5))
        floors = np.where(generator.random((arms, groups)) < 0.3, -math.inf, 0.0)
        ceilings = np.where(generator.random((arms, groups)) < 0.7, math.inf, 1.0)
        problem = Problem(
            arms,
            groups,
            generator.dirichlet(np.ones(groups)),
            floors=floors,
            ceilings=ceilings,
            noise_std=np.exp(generator.normal(0.0, 0.5, (arms, groups))),
            **options,
        )
        means = generator.normal(generator.choice([0.0, 0.4]), 0.45, (arms, groups))
        gaps = np.abs(np.subtract.outer(*[problem.quality(means)] * 2))[np.triu_indices(arms, 1)]
        near = np.abs(means - problem.limits()).min()
        if (arms > 1 or problem.constrained.any()) and min(gaps.min(initial=1.0), near) > 0.03:
            return problem, means


@pytest.mark.parametrize(
    ("tolerance", "dear", "arriving"),
    [
        (0.0, False, False),
        (0.0, False, True),
        (0.05, False, False),
        (0.05, False, True),
        (0.05, True, False),
    ],
)
def test_value_is_that_of_the_conic_form(tolerance: float, dear: bool, arriving: bool) -> None:
    pytest.importorskip("cvxpy")
    generator = np.random.default_rng(4)
    answers = set()
    for _ in range(effort.runs(5, whole=8)):
        problem, means = random_case(
            generator, tolerance=tolerance, floor_tolerance=2.0 * tolerance
        )
        costs = np.exp(generator.normal(0.0, 0.7, problem.shape)) if dear else None
        problem = problem.clone(costs=costs)
        arrivals = generator.dirichlet(np.full(problem.shape[1], 3.0)) if arriving else None
        found = complexity_of(problem, means, tol=1e-7, arrivals=arrivals)
        best = -1 if found.answer is None else problem.arms.index(found.answer)
        assert found.value == pytest.approx(conic_value(problem, means, best, arrivals), rel=2e-5)
        answers.add(found.answer)
    assert None in answers
    assert len(answers) > 2


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=effort.runs(10, whole=25))
def test_the_shares_cost_what_the_upper_bound_says(seed: int) -> None:
    generator = np.random.default_rng(seed)
    problem, means = random_case(generator, tolerance=float(generator.choice([0.0, 0.1])))
    problem = problem.clone(costs=np.exp(generator.normal(0.0, 0.5, problem.shape)))
    found = complexity_of(problem, means, tol=1e-4)
    assert found.allocation is not None
    assert found.allocation.sum() == pytest.approx(1.0)
    assert (found.allocation >= 0.0).all()
    cost = cost_per_nat(problem, means, found.allocation)
    assert cost == pytest.approx(found.upper, rel=1e-9)
    assert found.lower <= found.value <= found.upper <= found.lower * (1 + 1e-4)
    # No shares are better than the lower bound; most are far worse.
    for _ in range(5):
        others = generator.dirichlet(np.ones(problem.n_actions)).reshape(problem.shape)
        mixed = 0.9 * found.allocation + 0.1 * others
        assert cost_per_nat(problem, means, mixed) >= found.lower * (1 - 1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
@settings(max_examples=effort.runs(10, whole=25))
def test_one_group_without_floors_is_ordinary_best_arm_identification(seed: int, arms: int) -> None:
    means = np.random.default_rng(seed).normal(0.0, 1.0, arms)
    gaps = np.sort(means.max() - means)[1:]
    if gaps[0] < 0.01:
        return

    # Garivier and Kaufmann (2016), Theorem 5: x is the nearest rival's share over the best
    # arm's, the other ratios make all the evidence equal, and their squares sum to one.
    def ratios(x: float) -> np.ndarray:
        return 1.0 / ((gaps / gaps[0]) ** 2 * (1.0 + x) / x - 1.0)

    x = brentq(lambda x: (ratios(x) ** 2).sum() - 1.0, 1e-9, 1.0, xtol=1e-15)
    evidence = 0.5 * gaps[0] ** 2 * x / (1.0 + x)
    wanted = (1.0 + ratios(x).sum()) / evidence
    problem = Problem(arms, 1, floors=None, noise_std=1.0)
    assert complexity_of(problem, means[:, np.newaxis]).value == pytest.approx(wanted, rel=1e-6)


def test_one_arm_needs_each_floor_told_apart() -> None:
    problem = Problem(1, 3, floors=[0.0, 0.1, None], noise_std=[1.0, 2.0, 1.0])
    wanted = 2.0 * (1.0 / 0.3**2 + 2.0**2 / 0.4**2)
    assert complexity_of(problem, [[0.3, 0.5, 0.2]]).value == pytest.approx(wanted, rel=1e-6)
    below = complexity_of(problem, [[0.3, -0.3, 0.2]])
    assert below.answer is None
    assert below.value == pytest.approx(2.0 * 2.0**2 / 0.4**2)


def test_ten_by_ten() -> None:
    pytest.importorskip("cvxpy")
    generator = np.random.default_rng(0)
    means = generator.normal(0.4, 0.4, (10, 10))
    means[0] = np.abs(means[0]) + 0.1
    problem = Problem(10, 10, generator.dirichlet(np.full(10, 3.0)), noise_std=1.0)
    found = complexity_of(problem, means, tol=1e-4)
    assert found.upper <= found.lower * (1 + 1e-4)
    wanted = conic_value(problem, means, problem.arms.index(str(found.answer)))
    assert found.lower * (1 - 1e-5) <= wanted <= found.upper * (1 + 1e-5)


# ------------------------------------------------------------------------------ symmetries


@pytest.mark.parametrize("unit", [1e-6, 3.0, 1e6])
def test_the_unit_of_the_rewards_does_not_matter(unit: float) -> None:
    means = np.array(E1)
    found = complexity_of(
        e1(noise_std=unit, floors=0.1 * unit, tolerance=0.05 * unit), unit * means
    )
    wanted = complexity_of(e1(noise_std=1.0, floors=0.1, tolerance=0.05), means)
    assert found.value == pytest.approx(wanted.value, rel=2e-6)


def test_minimising_is_maximising_with_the_signs_turned() -> None:
    options = {"floor_tolerance": 0.05, "tolerance": 0.1}
    mirrored = e1(floors=-0.1, direction="minimize", **options)
    found = complexity_of(mirrored, -np.array(E1))
    wanted = complexity_of(e1(floors=0.1, **options), E1)
    assert found.value == pytest.approx(wanted.value, rel=1e-12)
    np.testing.assert_allclose(found.allocation, wanted.allocation)


def test_the_order_of_arms_and_groups_does_not_matter() -> None:
    arms, groups = [2, 0, 1], [1, 2, 0]
    shuffled = np.array(E1)[np.ix_(arms, groups)]
    problem = e1(group_weights=np.array([0.2, 0.3, 0.5])[groups])
    found = complexity_of(problem, shuffled)
    assert found.answer == "1"
    assert found.value == pytest.approx(190.883590, rel=1e-6)


def test_a_cost_counts_like_a_variance() -> None:
    generator = np.random.default_rng(5)
    costs = np.exp(generator.normal(0.0, 0.7, (3, 3)))
    dear = complexity_of(e1(costs=costs), E1, tol=1e-8)
    noisy = complexity_of(e1(noise_std=np.sqrt(costs)), E1, tol=1e-8)
    assert dear.value == pytest.approx(noisy.value, rel=1e-7)
    # The same shares of the cost, fewer of the pulls where they are expensive.
    of_cost = dear.allocation * costs
    np.testing.assert_allclose(of_cost / of_cost.sum(), noisy.allocation, atol=1e-3)
    assert complexity_of(e1(costs=7.0), E1).value == pytest.approx(7 * 190.883590, rel=1e-6)
    passive = complexity_of(e1(costs=7.0), E1, arrivals=[0.2, 0.3, 0.5])
    assert passive.value == pytest.approx(7 * 506.8175, rel=1e-6)


def test_known_standard_deviations_replace_those_of_the_problem() -> None:
    std = np.random.default_rng(6).uniform(0.2, 0.6, (3, 3))
    wanted = complexity_of(e1(noise_std=std), E1)
    for problem in (e1(noise_std="estimated"), e1(noise_std=5.0)):
        assert complexity_of(problem, E1, std=std).value == pytest.approx(wanted.value, rel=1e-12)
    assert complexity_of(e1(noise_std=5.0), E1, std=1.0).value == pytest.approx(
        190.883590, rel=1e-6
    )


def test_rewards_in_a_range_count_as_normal_ones_of_their_spread() -> None:
    means = np.array([[0.2, 0.6], [0.4, 0.8]])
    environment = BernoulliEnvironment(Problem(2, 2, floors=0.1, reward_range=(0, 1)), means)
    normal = Problem(2, 2, floors=0.1, noise_std=np.sqrt(means * (1.0 - means)))
    found, wanted = complexity(environment), complexity_of(normal, means)
    assert found.value == pytest.approx(wanted.value, rel=1e-12)
    assert "no bound" in found.assumes
    assert "no bound" not in wanted.assumes


def test_rewards_without_any_spread_cost_next_to_nothing() -> None:
    problem = Problem(2, 1, floors=None, reward_range=(0, 1))
    certain = complexity(BernoulliEnvironment(problem, [[1.0], [0.0]]))
    assert 0.0 < certain.value < 1e-6


@pytest.mark.parametrize(("shape", "reached"), effort.first(1, [((50, 8), 1e-3), ((200, 8), 1e-2)]))
def test_hundreds_of_cells_are_certified_to_three_digits_by_default(
    shape: tuple[int, int], reached: float
) -> None:
    means = np.random.default_rng(0).normal(0.5, 0.3, shape)
    means[0] = np.abs(means[0]) + 0.6
    found = complexity_of(Problem(*shape, noise_std=1.0), means)
    assert found.lower <= found.value <= found.upper <= found.lower * (1.0 + reached)


def test_arrivals_can_only_make_it_dearer_and_the_best_ones_do_not() -> None:
    found = complexity_of(e1(), E1, tol=1e-8)
    assert found.allocation is not None
    best = found.allocation.sum(axis=0)
    same = complexity_of(e1(), E1, arrivals=best)
    assert same.value == pytest.approx(found.value, rel=2e-6)
    other = complexity_of(e1(), E1, arrivals=best[::-1])
    assert other.lower > found.upper
    assert other.allocation is not None
    np.testing.assert_allclose(other.allocation.sum(axis=0), best[::-1], rtol=1e-9)


def test_slack_makes_it_cheaper() -> None:
    values = [
        complexity_of(e1(tolerance=tolerance, floor_tolerance=floor_tolerance), E1).value
        for tolerance, floor_tolerance in ((0.0, 0.0), (0.1, 0.0), (0.1, 0.1))
    ]
    assert values == sorted(values, reverse=True)
    assert values[0] > 1.2 * values[2]


def test_a_group_without_weight_and_floor_gets_no_pulls() -> None:
    problem = e1(group_weights=[0.4, 0.0, 0.6], floors=[0.0, None, 0.0])
    found = complexity_of(problem, E1)
    assert found.allocation is not None
    assert found.allocation[:, 1].max() < 1e-6
    without = complexity_of(
        Problem(3, 2, [0.4, 0.6], floors=0.0, noise_std=1.0), np.array(E1)[:, [0, 2]]
    )
    assert found.value == pytest.approx(without.value, rel=2e-6)
    # With a floor it matters, at least for the answer's arm.
    assert complexity_of(problem.clone(floors=0.0), E1).lower > found.upper


def test_a_cell_without_spread_costs_next_to_nothing() -> None:
    problem = Problem(2, 2, floors=0.5, reward_range=(0, 1))
    environment = BernoulliEnvironment(problem, [[1.0, 0.8], [0.9, 0.6]])
    found = complexity(environment)
    normal = problem.clone(reward_range=None, noise_std=np.maximum(environment.cell_stds, 1e-5))
    small = complexity_of(normal, environment.cell_means)
    assert found.value == pytest.approx(small.value, rel=1e-4)


def test_widely_different_gaps_are_still_solved_to_the_tolerance() -> None:
    for gap in (1e-2, 1e-4, 1e-6):
        means = np.array(E1)
        means[1] = means[0] - gap
        found = complexity_of(e1(), means)
        assert found.upper <= found.lower * (1 + 1e-6)
        # The two arms alone: all six cells, of shares q / 2, need (2 / gap)^2.
        assert found.value == pytest.approx(8.0 / gap**2, rel=10 * gap)


# ---------------------------------------------------------------- nothing to tell, or too much


def test_one_arm_without_floors_is_known_at_once() -> None:
    found = complexity_of(Problem(["only"], 2, floors=None, noise_std=1.0), [[0.1, 0.2]])
    assert (found.value, found.lower, found.upper, found.answer) == (0.0, 0.0, 0.0, "only")
    assert found.lower_bound(0.05) == 0.0
    np.testing.assert_array_equal(found.allocation, [[0.5, 0.5]])


@pytest.mark.parametrize(
    ("problem", "means", "answer", "reason"),
    [
        (e1(), [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5], E1[1]], "0", "'0' and '1' tie for best"),
        (e1(), [[0.1, 0.2, 0.3], E1[1], [0.1, 0.2, 0.3]], "1", ""),
        # .1 + .2 is not .3 in floating point, but it is not a different mean.
        (e1(floors=None), [[0.1 + 0.2] * 3, [0.3] * 3, E1[2]], "2", ""),
        (e1(floors=-9), [[0.1 + 0.2] * 3, [0.3] * 3, [0.0] * 3], "0", "tie for best"),
        (e1(floors=0.3), [[0.1 + 0.2, 1, 1], [0.4] * 3, [0.0] * 3], "0", "exactly on its floor"),
        (e1(floors=0.7), [[0.8 - 0.1, 1, 1], [0.8] * 3, [0.0] * 3], "0", "in group '0'"),
        (
            e1(floors=-0.3, direction="minimize"),
            [[-0.3, -1, -1], [-0.4] * 3, [0.0] * 3],
            "0",
            "exactly on its ceiling in group '0'",
        ),
    ],
)
def test_a_tie_or_a_mean_on_its_floor_cannot_be_told(
    problem: Problem, means: Any, answer: str, reason: str
) -> None:
    found = complexity_of(problem, means)
    assert found.answer == answer
    if not reason:
        assert math.isfinite(found.value)
        return
    assert reason in found.reason
    assert found.value == found.lower == found.upper == math.inf
    assert found.allocation is None
    assert found.lower_bound(0.1) == math.inf


def test_slack_makes_ties_and_means_on_floors_tell() -> None:
    tie = [[0.5] * 3, [0.5] * 3, E1[1]]
    on_floor = [[0.0, 1.0, 1.0], [0.2] * 3, [-0.5] * 3]
    problem = e1(tolerance=0.1, floor_tolerance=0.1)
    assert complexity_of(problem, tie).answer == "0"
    for means in (tie, on_floor):
        assert complexity_of(e1(), means).value == math.inf
        assert math.isfinite(complexity_of(problem, means).value)
    assert math.isfinite(complexity_of(e1(tolerance=0.1), tie).value)
    assert complexity_of(e1(tolerance=0.1), on_floor).value == math.inf
    assert complexity_of(e1(floor_tolerance=0.1), tie).value == math.inf


def test_a_group_that_never_comes_cannot_be_told() -> None:
    found = complexity_of(e1(), E1, arrivals=[1, 0, 1])
    assert found.reason == "the answer depends on a group that never arrives: '1'"
    assert found.value == math.inf
    none = complexity_of(no_arm(), NO_ARM, arrivals=[0, 1, 1])
    assert none.answer is None
    assert none.value == math.inf
    idle = e1(group_weights=[0.4, 0.0, 0.6], floors=[0.0, None, 0.0])
    assert math.isfinite(complexity_of(idle, E1, arrivals=[1, 0, 1]).value)


# ----------------------------------------------------------------------------- lower bounds


def test_the_lower_bound_is_certified() -> None:
    found = complexity_of(e1(), E1, tol=1e-3)
    assert found.lower_bound(0.1) == found.lower * Complexity.kl(0.1)
    assert complexity_of(e1(), E1).lower_bound(0.1) == pytest.approx(335.531, abs=1e-3)
    assert complexity_of(e2(), E2).lower_bound(0.1) == pytest.approx(3261.658, abs=1e-2)


def test_kl_is_that_of_two_coins() -> None:
    for delta in (1e-12, 0.01, 0.3, 0.499):
        wanted = delta * math.log(delta / (1 - delta)) + (1 - delta) * math.log((1 - delta) / delta)
        assert Complexity.kl(delta) == pytest.approx(wanted, rel=1e-12)
    assert Complexity.kl(0.5) == Complexity.kl(0.9) == 0.0
    tie = complexity_of(e1(), [[0.5] * 3, [0.5] * 3, E1[1]])
    assert tie.lower_bound(0.499) == math.inf


@pytest.mark.parametrize("delta", [0.0, 0.5, 0.95, 1.0, -0.1, math.nan, "a"])
def test_a_delta_outside_zero_and_one_half_is_refused(delta: Any) -> None:
    with raises(InvalidArgument, "delta", given=delta):
        complexity_of(no_arm(), NO_ARM).lower_bound(delta)


# -------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"environment": "E1"}, "environment"),
        ({"tol": 0.0}, "tol"),
        ({"tol": 1e-12}, "tol"),
        ({"tol": 2.0}, "tol"),
        ({"tol": "fine"}, "tol"),
        ({"arrivals": [0.5, 0.5]}, "arrivals"),
        ({"arrivals": [0.5, 0.6, -0.1]}, "arrivals"),
        ({"arrivals": [0, 0, 0]}, "arrivals"),
        ({"arrivals": [1, 1, math.inf]}, "arrivals[2]"),
        (
            {
                "environment": GaussianEnvironment(e1(costs=[1, 2, 3]), E1),
                "arrivals": [1, 1, 1],
            },
            "arrivals",
        ),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], name: str) -> None:
    with raises(InvalidArgument, name):
        complexity(**{"environment": GaussianEnvironment(e1(), E1)} | arguments)


def test_the_shares_cannot_be_written_to() -> None:
    weights = complexity_of(no_arm(), NO_ARM).allocation
    assert weights is not None
    with pytest.raises(ValueError, match="read-only"):
        weights[0, 0] = 1.0


# -------------------------------------------------------------------------- predictions


def predicted(plain: Problem, **stated: Any) -> Problem:
    return plain.clone(prediction={"residual_std": 0.6, **stated})


@pytest.mark.parametrize("limits", [{"floors": None}, {"control": "0", "margin": 0.3}])
def test_differences_have_the_variance_that_predictions_leave(limits: dict[str, Any]) -> None:
    plain = Problem(3, 2, noise_std=1.0, **limits)
    means = [[0.0, 0.1], [0.1, 0.2], [0.5, 0.4]]
    found = complexity(GaussianPredictedEnvironment(predicted(plain), means))
    usual = complexity(GaussianEnvironment(plain, means, arrivals=[1, 1]))
    assert found.value == pytest.approx(
        0.36 * complexity(GaussianEnvironment(plain, means)).value, rel=1e-5
    )
    assert usual.value >= found.value
    assert found.lower <= found.value <= found.upper


@pytest.mark.parametrize("known", [False, True])
def test_a_floor_needs_the_mean_prediction_which_all_pulls_of_the_group_estimate(
    known: bool,
) -> None:
    """The leader's floor .2 is nearer than its rival; shares are found by a scalar search."""
    stated = {"known_mean": {"0": 0.0}} if known else {}
    plain = Problem(2, 1, noise_std=1.0, floors=[[0.2], [-5.0]])
    found = complexity(GaussianPredictedEnvironment(predicted(plain, **stated), [[0.4], [0.1]]))
    left, explained = 0.36, 0.0 if known else 0.64

    def weakest(share: float) -> float:
        pair = 0.3**2 / (left / share + left / (1.0 - share))
        return -min(pair, 0.2**2 / (left / share + explained))

    best = minimize_scalar(weakest, bounds=(1e-6, 1 - 1e-6), options={"xatol": 1e-10})
    assert found.value == pytest.approx(2.0 / -best.fun, rel=1e-4)
    assert np.asarray(found.allocation)[0, 0] == pytest.approx(best.x, abs=1e-3)


def test_predicted_measures_have_such_a_bound_and_rows_say_that_theirs_ignores_it() -> None:
    plain = Problem(
        2,
        1,
        measures={"cured": (0, 1), "harmed": (0, 1)},
        objective="cured",
        ceilings={"harmed": 0.9},
    )
    means = {"cured": [[0.4], [0.6]], "harmed": [[0.2], [0.2]]}
    problem = plain.clone(prediction={"cured": (0, 1)})
    usual = complexity(BernoulliEnvironment(plain, means)).value
    nothing, half = (
        complexity(PredictedEnvironment(problem, means, share)).value for share in (0.0, 0.5)
    )
    assert nothing == pytest.approx(usual, rel=1e-5)
    # Units' chances vary by .125 around .5; those of either arm move by .8 of that. With the slope
    # 1, a variance of .24 - (2 * .8 - 1) * .125 is left.
    assert half / usual == pytest.approx(0.165 / 0.24, rel=1e-5)
    rows = {
        "arm": ["0", "0", "1", "1"],
        "group": ["0"] * 4,
        "cured": [0, 1, 1, 1],
        "harmed": [0, 1, 0, 0],
        "score": [0.2, 0.4, 0.6, 0.9],
    }
    replayed = ReplayEnvironment(problem, rows, prediction="score")
    assert "ignores predictions" in complexity(replayed).assumes
    assert "ignores" not in complexity(PredictedEnvironment(problem, means, 0.5)).assumes
