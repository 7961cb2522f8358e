"""Information of pulls on an item with several measures, compared with slow solutions."""

import math

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

from fairtrial.subpopulations._kernels.measures.items import (
    fill_programmes,
    item_gradient,
    item_value,
    new_programmes,
    new_work,
)
from fairtrial.subpopulations._kernels.measures.model import (
    BOUNDED,
    NO_CONTROL,
    OVERALL,
    Model,
    derive,
    new_view,
)
from tests import effort
from tests.subpopulations.slow_measures import Row, inner


def model_with(q, g, limits, bounds, arms):
    """Limits: (measure, group or None, sign); bounds in the form "at least", shape (K, R)."""
    groups, measures = len(q), len(g)
    return Model(
        weights=np.array(q, dtype=float),
        objective=np.array(g, dtype=float),
        bounds=np.array(bounds, dtype=float).reshape(arms, len(limits)),
        signs=np.array([sign for *_, sign in limits], dtype=float),
        measure_of=np.array([m for m, *_ in limits], dtype=float),
        group_of=np.array(
            [OVERALL if place is None else place for _, place, _ in limits], dtype=float
        ),
        relative=np.zeros(len(limits)),
        low=np.zeros(measures),
        high=np.ones(measures),
        covariances=np.zeros((arms, groups, measures, measures)),
        scales=np.zeros((arms, groups, measures)),
        costs=np.ones((arms, groups)),
        active=np.ones((arms, groups)),
        directions=np.zeros((arms, groups, 0, measures)),
        noise=BOUNDED,
        tolerance=0.0,
        control=NO_CONTROL,
        predicts=np.empty(0),
        slopes=np.empty(0),
        known_means=np.empty((0, groups)),
    )


def view_of(model, means, covariances):
    seen = new_view(model)
    seen.means[...] = seen.lowest[...] = seen.highest[...] = means
    seen.covariances[...] = covariances
    derive(model, seen, seen)
    return seen


def solved(model, means, covariances, pulls, item, leader):
    seen = view_of(model, means, covariances)
    arms, groups = pulls.shape
    work = new_work(model)
    programmes = new_programmes(model)
    fill_programmes(model, seen, leader, seen.saved, programmes)
    value = item_value(programmes, item, leader, pulls, work)
    gradient = np.empty((arms, groups))
    item_gradient(programmes, item, leader, pulls, work, gradient)
    return value, work.multipliers[item].copy(), gradient


def rows_of(model, k):
    rows = []
    for r, sign in enumerate(model.signs):
        alpha = np.zeros(model.weights.size)
        if model.group_of[r] == OVERALL:
            alpha += model.weights
        else:
            alpha[int(model.group_of[r])] = 1.0
        h = np.zeros(model.objective.size)
        h[int(model.measure_of[r])] = sign
        rows.append(Row(alpha, h, model.bounds[k, r]))
    return rows


# ------------------------------------------------------------------------ reference values


def test_a_pair_with_a_ceiling_has_the_reference_values():
    model = model_with([1.0], [1.0, 0.0], [(1, 0, -1)], [[-0.3], [-0.3]], 2)
    covariances = np.array([[[[0.2475, 0.02], [0.02, 0.1476]]], [[[0.24, 0.03], [0.03, 0.2436]]]])
    pulls = np.array([[40.0], [30.0]])
    for rival, value, x in (
        ((0.60, 0.42), 1.77339901478, (0.0, 14.77832512)),
        ((0.45, 0.32), 0.795735645017, (7.285304612, 3.360259189)),
    ):
        means = np.array([[[0.55, 0.18]], [rival]])
        found, multipliers, _ = solved(model, means, covariances, pulls, 1, 0)
        assert found == pytest.approx(value, rel=1e-9)
        assert multipliers == pytest.approx(x, rel=1e-9)


def test_floors_in_groups_and_an_overall_ceiling_have_the_reference_values():
    limits = [(0, 0, 1), (0, 1, 1), (1, None, -1)]
    model = model_with([0.6, 0.4], [1.0, 0.0], limits, [[0.2, 0.2, -0.25]] * 2, 2)
    means = np.array([[[0.5, 0.2], [0.4, 0.1]], [[0.45, 0.35], [0.15, 0.3]]])
    covariances = np.array(
        [
            [[[0.25, 0.05], [0.05, 0.16]], [[0.24, -0.02], [-0.02, 0.09]]],
            [[[0.2475, 0.04], [0.04, 0.2275]], [[0.1275, 0.03], [0.03, 0.21]]],
        ]
    )
    pulls = np.array([[30.0, 20.0], [25.0, 15.0]])
    value, x, _ = solved(model, means, covariances, pulls, 1, 0)
    assert value == pytest.approx(3.29320959149, rel=1e-9)
    assert x == pytest.approx((14.12411452, 0.0, 1.838750854, 17.06421452), rel=1e-9)
    value, x, _ = solved(model, means, covariances, pulls, 1, 2)
    assert value == pytest.approx(1.61289625049, rel=1e-9)
    assert x == pytest.approx((0.0, 0.0, 7.347662501, 15.56891407), rel=1e-9)
    rows, arm = rows_of(model, 1), (means[1], covariances[1], pulls[1])
    slow = inner((means[0], covariances[0], pulls[0]), arm, model.weights, model.objective, rows)
    assert slow.value == pytest.approx(3.29320959149, rel=1e-9)


# --------------------------------------------------------------------------- random cases


def random_case(rng, scale=1.0):
    groups, measures = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    q = rng.dirichlet(np.ones(groups))
    g = rng.normal(size=measures) if rng.random() < 0.3 else np.eye(measures)[0]
    limits = []
    for m in range(measures):
        limits += [(m, i, rng.choice([-1, 1])) for i in range(groups) if rng.random() < 0.5]
        limits += [(m, None, rng.choice([-1, 1]))] if rng.random() < 0.4 else []
    means = scale * rng.normal(size=(2, groups, measures))
    roots = rng.normal(size=(2, groups, measures, measures))
    covariances = scale**2 * (roots @ np.swapaxes(roots, -1, -2) + 0.1 * np.eye(measures))
    pulls = 10.0 ** rng.uniform(-2, 3, (2, groups))
    bounds = scale * rng.normal(size=(2, len(limits)))
    return model_with(q, g, limits, bounds, 2), means, covariances, pulls


def agree(rows, measures, scale):
    """Return whether some means keep all limits: a problem without any is refused."""
    shape = (len(rows[0].alpha), measures) if rows else (1, measures)
    least = [-np.outer(row.alpha, row.h).ravel() for row in rows]
    bounds = [-row.bound / scale for row in rows]
    free = np.zeros(shape).ravel()
    found = linprog(free, least or None, bounds or None, bounds=(None, None))
    return found.status == 0


@pytest.mark.parametrize("scale", [1e-70, 1.0, 1e70])
def test_values_multipliers_and_derivatives_are_those_of_all_active_sets(scale):
    rng, compared = np.random.default_rng(0), 0
    for _ in range(effort.runs(60, whole=600)):
        model, means, covariances, pulls = random_case(rng, scale)
        if not agree(rows_of(model, 1), means.shape[2], scale):
            continue
        compared += 1
        arm = (means[1], covariances[1], pulls[1])
        for leader in (0, 2):
            target = None if leader else (means[0], covariances[0], pulls[0])
            g = model.objective
            slow = inner(target, arm, model.weights, g, rows_of(model, 1))
            value, _, gradient = solved(model, means, covariances, pulls, 1, leader)
            assert value == pytest.approx(slow.value, rel=1e-7, abs=1e-11)
            if np.isfinite(value):
                # Euler: the value is homogeneous in the pulls. Limits that nearly contradict each
                # other make the programme badly conditioned.
                assert (gradient * pulls).sum() == pytest.approx(value, rel=1e-5, abs=1e-11)
    assert compared > effort.runs(50, whole=500)


def test_values_are_those_of_a_conic_solver():
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(effort.runs(15, whole=200)):
        model, means, covariances, pulls = random_case(rng)
        roots = np.linalg.cholesky(np.linalg.inv(covariances))
        groups, measures = means.shape[1:]
        lam = [cp.Variable((groups, measures)) for _ in range(2)]
        apart = [
            np.sqrt(pulls[k, i]) * (roots[k, i].T @ (means[k, i] - lam[k][i]))
            for k in range(2)
            for i in range(groups)
        ]
        q, g = model.weights, model.objective
        limits = [row.alpha @ lam[1] @ row.h >= row.bound for row in rows_of(model, 1)]
        problem = cp.Problem(
            cp.Minimize(sum(cp.sum_squares(part) for part in apart)),
            [q @ (lam[1] - lam[0]) @ g >= 0, *limits],
        )
        wanted = problem.solve(solver=cp.CLARABEL)
        if problem.status == cp.OPTIMAL:
            value, *_ = solved(model, means, covariances, pulls, 1, 0)
            assert value == pytest.approx(wanted, rel=1e-5, abs=1e-6)
            compared += 1
    assert compared > 5


def test_a_limit_of_the_leader_has_its_closed_form():
    rng = np.random.default_rng(2)
    for _ in range(40):
        model, means, covariances, pulls = random_case(rng)
        for r, row in enumerate(rows_of(model, 0)):
            variance = sum(
                row.alpha[i] ** 2 * row.h @ covariances[0, i] @ row.h / pulls[0, i]
                for i in range(len(row.alpha))
            )
            value, _, gradient = solved(model, means, covariances, pulls, 2 + r, 0)
            assert value == pytest.approx(row.short(means[0]) ** 2 / variance, rel=1e-12)
            assert (gradient * pulls).sum() == pytest.approx(value, rel=1e-12)


def test_rows_that_touch_a_cell_without_pulls_are_left_out():
    model = model_with([0.5, 0.5], [1.0, 0.0], [(1, 0, -1), (1, None, -1)], [[-0.3, -0.3]] * 2, 2)
    means = np.array([[[0.6, 0.1]] * 2, [[0.5, 0.5]] * 2])
    covariances = np.broadcast_to(0.25 * np.eye(2), (2, 2, 2, 2)).copy()
    pulls = np.array([[10.0, 10.0], [20.0, 0.0]])
    value, x, gradient = solved(model, means, covariances, pulls, 1, 0)
    assert x[0] == x[2] == 0.0
    assert value == pytest.approx(20.0 * 0.2**2 / 0.25)
    assert gradient[1, 0] == pytest.approx(0.2**2 / 0.25)
    assert gradient[1, 1] == 0.0
    assert solved(model, means, covariances, pulls, 2 + 1, 0)[0] > 0.0
    pulls = np.array([[10.0, 0.0], [20.0, 20.0]])
    assert solved(model, means, covariances, pulls, 2 + 1, 0)[0] == 0.0


def test_two_equal_measures_make_no_difference():
    one = model_with([1.0], [1.0], [(0, 0, 1)], [[0.4]] * 2, 2)
    two = model_with([1.0], [1.0, 0.0], [(0, 0, 1), (1, 0, 1)], [[0.4, 0.4]] * 2, 2)
    means, pulls = np.array([[[0.5]], [[0.3]]]), np.array([[20.0], [30.0]])
    wanted, *_ = solved(one, means, np.full((2, 1, 1, 1), 0.2), pulls, 1, 0)
    both = np.repeat(means, 2, axis=2)
    found, *_ = solved(two, both, np.full((2, 1, 2, 2), 0.2), pulls, 1, 0)
    assert found == pytest.approx(wanted, rel=1e-9)
    assert math.isfinite(found)
