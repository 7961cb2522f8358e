"""Designs compared with a conic solver, closed forms, exact certificates and exact rounding."""

from __future__ import annotations

import itertools
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.errors import InvalidArgument
from fairtrial.linear import (
    Design,
    DesignNotConverged,
    Problem,
    g_optimal_design,
    oracle_design,
    round_design,
    xy_optimal_design,
)
from fairtrial.linear._kernels.designs import MinMaxSolver, PairSearch, g_design
from tests import effort
from tests.messages import raises


def soare(dimension: int, angle: float) -> np.ndarray:
    last = np.zeros(dimension)
    last[:2] = np.cos(angle), np.sin(angle)
    return np.vstack([np.eye(dimension), last])


def largest_form(problem: Problem, weights: np.ndarray, rows: np.ndarray) -> float:
    """Return the largest variance of the rows, with the pseudo-inverse, in the given features."""
    scaled = problem.features / problem.scale[:, np.newaxis]
    inverse = np.linalg.pinv((scaled * weights[:, np.newaxis]).T @ scaled, rcond=1e-14)
    return float(np.einsum("ij,jk,ik->i", rows, inverse, rows).max())


def all_pairs(rows: np.ndarray) -> np.ndarray:
    return np.array([x - y for x, y in itertools.combinations(rows, 2)])


def conic_optimum(arms: np.ndarray, rows: np.ndarray) -> float:
    """Return the least possible largest form, by a semidefinite programme."""
    weights, bound = cp.Variable(len(arms), nonneg=True), cp.Variable()
    total = sum(weights[k] * np.outer(x, x) for k, x in enumerate(arms))
    blocks = [
        cp.bmat([[total, row[:, None]], [row[None, :], cp.reshape(bound, (1, 1), order="C")]]) >> 0
        for row in rows
    ]
    problem = cp.Problem(cp.Minimize(bound), [cp.sum(weights) == 1, *blocks])
    problem.solve(solver="CLARABEL")
    return float(bound.value)


# ------------------------------------------------------------------------ reference values


@pytest.mark.parametrize(("dimension", "angle"), [(2, 0.01), (5, 0.01), (5, 0.1), (10, 1.0)])
def test_the_g_optimum_is_the_dimension(dimension: int, angle: float) -> None:
    design = g_optimal_design(Problem(soare(dimension, angle), noise_std=1.0))
    assert design.value == pytest.approx(dimension, rel=1e-6)
    assert design.lower == pytest.approx(dimension, rel=1e-14)


@pytest.mark.parametrize("angle", [0.01, 0.1])
def test_the_xy_optimum_of_five_axes_and_an_arm_in_between_is_ten(angle: float) -> None:
    design = xy_optimal_design(Problem(soare(5, angle), noise_std=1.0))
    assert design.value == pytest.approx(10.0, rel=1e-6)
    assert design.lower <= 10.0 * (1 + 1e-12)
    assert design.lower == pytest.approx(10.0, rel=1e-6)


def test_the_oracle_pulls_the_arm_that_tells_the_close_ones_apart() -> None:
    design = oracle_design(Problem(soare(5, 0.01), noise_std=1.0), [2, 0, 0, 0, 0])
    assert design.value == pytest.approx(10100.83625, rel=1e-6)
    wanted = [0.00497498, 0.9949504, 2.4874e-5, 2.4874e-5, 2.4874e-5, 0.0]
    assert design.weights == pytest.approx(wanted, abs=1e-5)
    assert round_design(design, 41652) == pytest.approx([208, 41438, 2, 2, 2, 0], abs=1)


@pytest.mark.parametrize("width", [0.1, 1.0])
def test_two_arms_on_a_line_at_the_same_distance_share_the_pulls(width: float) -> None:
    problem = Problem([[1.0, width / 2], [1.0, -width / 2]], noise_std=1.0)
    assert g_optimal_design(problem).value == pytest.approx(2.0, abs=1e-9)
    design = xy_optimal_design(problem, tol=1e-9)
    assert design.value == pytest.approx(4.0, abs=1e-7)
    assert design.weights == pytest.approx([0.5, 0.5], abs=1e-4)


def test_of_parallel_arms_the_longest_is_pulled() -> None:
    problem = Problem([[1.0, 0.0], [0.9, 0.0]], noise_std=1.0)
    assert g_optimal_design(problem).weights.tolist() == [1.0, 0.0]
    assert g_optimal_design(problem).value == pytest.approx(1.0)
    design = xy_optimal_design(problem)
    assert design.value == pytest.approx(0.01, rel=1e-6)
    assert design.weights == pytest.approx([1.0, 0.0], abs=1e-5)


# --------------------------------------------------------------------- against other solvers


@pytest.mark.parametrize("seed", range(4))
def test_designs_agree_with_a_semidefinite_programme(seed: int) -> None:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(7, 3))
    problem = Problem(features, noise_std=generator.uniform(0.5, 2.0, 7))
    scaled = features / problem.scale[:, np.newaxis]
    theta = generator.normal(size=3)
    values = features @ theta
    best = int(values.argmax())
    others = np.delete(np.arange(7), best)
    gaps = values[best] - values[others]
    cases = [
        (xy_optimal_design(problem), all_pairs(features)),
        (oracle_design(problem, theta), (features[best] - features[others]) / gaps[:, np.newaxis]),
        (g_optimal_design(problem, tol=1e-6), scaled),
    ]
    for design, rows in cases:
        optimum = conic_optimum(scaled, rows)
        assert design.value == pytest.approx(optimum, rel=3e-6)
        assert design.lower <= optimum * (1 + 1e-6)
        assert largest_form(problem, design.weights, rows) == pytest.approx(design.value, rel=1e-8)


def test_candidates_of_their_own_are_what_is_measured() -> None:
    generator = np.random.default_rng(7)
    features, candidates = generator.normal(size=(6, 3)), generator.normal(size=(5, 3))
    problem = Problem(features, candidates, noise_std=1.0)
    for chosen in (None, [0, 2, 4]):
        rows = all_pairs(candidates if chosen is None else candidates[chosen])
        design = xy_optimal_design(problem, chosen)
        assert design.value == pytest.approx(conic_optimum(features, rows), rel=3e-6)


def test_of_several_best_every_one_is_told_from_every_other() -> None:
    generator = np.random.default_rng(8)
    features, theta = generator.normal(size=(6, 3)), generator.normal(size=3)
    problem = Problem(features, noise_std=1.0, top=2, tolerance=0.1, direction="minimize")
    order = np.argsort(features @ theta)
    rows = [
        (features[i] - features[j]) / (theta @ (features[j] - features[i]) + 0.1)
        for i in order[:2]
        for j in order[2:]
    ]
    design = oracle_design(problem, theta)
    assert design.value == pytest.approx(conic_optimum(features, np.array(rows)), rel=3e-6)


# ------------------------------------------------------------------------------- certificates


@settings(max_examples=effort.runs(20, whole=60))
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 40), st.sampled_from([1.0, 1e-3]))
def test_every_design_returned_is_certified(
    seed: int, dimension: int, arms: int, flatness: float
) -> None:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(arms, dimension))
    features[:, 0] *= flatness
    problem = Problem(features, noise_std=1.0)
    theta = generator.normal(size=dimension)
    values = features @ theta
    best = int(values.argmax())
    others = np.delete(np.arange(arms), best)
    contrasts = (features[best] - features[others]) / (values[best] - values[others])[:, None]
    arbitrary = generator.dirichlet(np.ones(arms))
    for design, rows, tol in [
        (g_optimal_design(problem), features, 1e-4),
        (xy_optimal_design(problem), all_pairs(features), 1e-6),
        (oracle_design(problem, theta), contrasts, 1e-6),
    ]:
        assert design.gap <= tol * (1 + 1e-6)
        assert design.weights.sum() == pytest.approx(1.0)
        assert (design.weights >= 0.0).all()
        assert largest_form(problem, design.weights, rows) == pytest.approx(design.value, rel=1e-5)
        assert largest_form(problem, arbitrary, rows) >= design.lower * (1 - 1e-9)


def test_a_design_stopped_early_is_certified_and_says_how_far_it_got() -> None:
    features = np.random.default_rng(3).normal(size=(300, 8))
    problem = Problem(features, noise_std=1.0)
    rough = xy_optimal_design(problem, tol=1e-9, max_seconds=1e-9)
    fine = xy_optimal_design(problem)
    assert rough.gap > 1e-3
    assert rough.lower <= fine.value
    assert rough.value >= fine.lower
    assert largest_form(problem, rough.weights, all_pairs(features)) == pytest.approx(rough.value)
    with raises(DesignNotConverged) as caught:
        xy_optimal_design(problem, tol=1e-9, max_seconds=1e-9, require=True)
    assert caught.value.lower < caught.value.value


def test_xy_is_within_four_times_g() -> None:
    problem = Problem(np.random.default_rng(4).normal(size=(60, 4)), noise_std=1.0)
    g, xy = g_optimal_design(problem), xy_optimal_design(problem)
    assert largest_form(problem, g.weights, all_pairs(problem.features)) <= 4 * g.value
    assert xy.lower <= 4 * g.value


# ---------------------------------------------------------------------------------- symmetries


def test_designs_do_not_change_with_the_coordinates_or_with_repeated_arms() -> None:
    generator = np.random.default_rng(5)
    features = generator.normal(size=(8, 3))
    change = generator.normal(size=(3, 3)) * [1e-4, 1.0, 1e3]
    plain = Problem(features, noise_std=1.0)
    turned = Problem(features @ change, noise_std=1.0)
    doubled = Problem(np.vstack([features, features]), noise_std=1.0)
    for function in (g_optimal_design, xy_optimal_design):
        wanted = function(plain, tol=1e-6)
        assert function(turned, tol=1e-6).value == pytest.approx(wanted.value, rel=2e-6)
        repeated = function(doubled, tol=1e-6)
        assert repeated.weights[8:].sum() == 0.0
    assert g_optimal_design(doubled).value == pytest.approx(3.0, rel=1e-4)


def test_a_needed_arm_keeps_its_share_however_small() -> None:
    problem = Problem(np.eye(2), noise_std=1.0, candidates=[[1, 0], [0, 0], [0, 1e-5]])
    design = oracle_design(problem, [1e-3, -1e5])
    assert (design.weights > 0.0).all()
    assert design.weights[1] < 1e-6
    assert round_design(design, 100).tolist() == [99, 1]


def test_where_there_is_nothing_to_tell_apart_all_arms_are_equal() -> None:
    problem = Problem(np.eye(2), candidates=[[1, 1], [1, 1]], noise_std=1.0)
    design = xy_optimal_design(problem)
    assert design.weights.tolist() == [0.5, 0.5]
    assert design.value == design.lower == design.gap == 0.0


def test_a_tie_has_no_oracle() -> None:
    problem = Problem(np.eye(2), arms=["a", "b"], noise_std=1.0)
    with raises(InvalidArgument, "theta"):
        oracle_design(problem, [1.0, 1.0])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"tol": 0.0}, "tol"),
        ({"max_seconds": 0}, "max_seconds"),
        ({"candidates": [0, 5]}, "candidates"),
        ({"candidates": [0.5]}, "candidates"),
        ({"candidates": []}, "candidates"),
        ({"problem": 3}, "problem"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict, name: str) -> None:
    problem = Problem(np.eye(2), noise_std=1.0)
    with raises(InvalidArgument, name):
        xy_optimal_design(**({"problem": problem} | arguments))


# ---------------------------------------------------------------------------------- the solvers


@given(st.integers(0, 10_000), st.integers(2, 700), st.floats(0.0, 60.0))
@settings(max_examples=effort.runs(20, whole=40))
def test_the_farthest_pair_is_found_among_all(seed: int, points: int, above: float) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(points, 3)) * generator.exponential(size=(points, 1))
    precision = np.diag([1.0, 2.0, 3.0])
    distances = ((rows[:, np.newaxis] - rows) ** 2 @ np.diag(precision)).max()
    most, pairs = PairSearch(rows).worst(precision, above, 5)
    if distances > above:
        assert most == pytest.approx(distances)
        difference = rows[pairs[0, 0]] - rows[pairs[0, 1]]
        assert difference @ precision @ difference == pytest.approx(distances)
    else:
        assert most <= above
        assert not len(pairs)


def test_solvers_on_arrays_agree_with_the_designs() -> None:
    problem = Problem(np.random.default_rng(6).normal(size=(30, 3)), noise_std=1.0)
    arms, candidates = problem.reduced.arms, problem.reduced.unit * problem.reduced.candidates
    shares, most = g_design(arms, problem.basis_arms, 1e-5, 100)
    assert most == pytest.approx(3.0, rel=1e-5)
    assert shares.sum() == pytest.approx(1.0)
    plan = MinMaxSolver(arms, problem.basis_arms, PairSearch(candidates))
    plan.run(1e-6, 100)
    assert plan.upper == pytest.approx(xy_optimal_design(problem).value, rel=2e-6)
    assert plan.lower <= plan.upper <= plan.lower * (1 + 1e-6)


# ------------------------------------------------------------------------------------ rounding


@settings(max_examples=effort.runs(30, whole=80))
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=8), st.integers(0, 200))
def test_rounding_is_efficient(parts: list[int], more: int) -> None:
    shares = [Fraction(part, sum(parts)) for part in parts]
    n = len(parts) + more
    counts = round_design(np.array(parts, dtype=float), n).tolist()
    assert sum(counts) == n
    assert min(counts) >= 1
    # Pukelsheim, Rieder (1992): efficient if and only if moving a pull improves nothing.
    least = min(Fraction(count, 1) / share for count, share in zip(counts, shares, strict=True))
    most = max((count - 1) / share for count, share in zip(counts, shares, strict=True))
    assert most <= least
    assert n / least <= Fraction(n, n - len(parts) + 1)


def test_variances_grow_as_much_as_is_said_where_one_arm_has_nearly_all_shares() -> None:
    shares = np.array([1.0 - 4e-4, 1e-4, 1e-4, 1e-4, 1e-4])
    counts = round_design(shares, 6)
    assert counts.tolist() == [2, 1, 1, 1, 1]
    assert (6 * shares / counts).max() == pytest.approx(6 / (6 - 5 + 1), rel=1e-3)


def test_rounding_leaves_out_arms_with_a_negligible_share() -> None:
    weights = np.array([0.5, 0.5, 1e-7])
    assert round_design(weights, 4).tolist() == [2, 2, 0]
    assert round_design(Design(weights, 1.0, 1.0), 4).tolist() == [2, 2, 0]
    assert round_design(Design(weights, 1.0, 1.0, essential=(2,)), 4).tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("design", "n", "name"),
    [
        ([0.5, 0.3, 0.2], 2, "n"),
        ([0.5, 0.5], 2.5, "n"),
        ([-0.5, 0.5], 2, "design"),
        ([0.0, 0.0], 2, "design"),
    ],
)
def test_rounding_refuses_what_cannot_be_rounded(design, n, name: str) -> None:
    with raises(ValueError, name):
        round_design(design, n)
    assert isinstance(Design(np.ones(1), 1.0, 1.0).gap, float)
