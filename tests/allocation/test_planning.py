import numpy as np
import pytest
from scipy.optimize import linprog

from fairtrial.allocation import (
    BernoulliEnvironment,
    DriftingEnvironment,
    Problem,
    complexity,
    fair_value,
)
from fairtrial.errors import InvalidArgument, NotSupported
from tests.messages import raises

INSTANCE_1 = [0.8, *(0.8 - 0.01 * i for i in range(2, 11))]


def complexity_of(problem, means, horizon):
    return complexity(BernoulliEnvironment(problem, means), horizon)


def instance_1(unfairness_tolerance):
    return Problem(10, 0.05, unfairness_tolerance)


# Columns: theorem 2, theorem 4 (appendix), theorem 4 (main text), UCB1, constant.
TABLE = [
    (
        (Problem(3, [0.2, 0.3, 0.25]), [0.7, 0.5, 0.4], 200),
        (328.366091837, 355.366091837, 382.366091837, 355.366091837, 2.144934067),
    ),
    (
        (instance_1(0), INSTANCE_1, 10**6),
        (7475.759012361, 34475.759012361, 16475.759012361, 21322.061551733, 2.316528792),
    ),
    (
        (instance_1(30_000), INSTANCE_1, 10**6),
        (12207.224268370, 23007.224268370, 23007.224268370, 21322.061551733, 2.316528792),
    ),
    (
        (Problem(3, 0.3), [0.8, 0.3, 0.2], 20_000),
        (4.718854947, 6604.718854947, 4.718854947, 295.221156488, 4.718854947),
    ),
]


@pytest.mark.parametrize(("arguments", "expected"), TABLE)
def test_the_published_bounds_have_their_reference_values(arguments, expected):
    found = complexity_of(*arguments)
    values = (
        found.theorem2,
        found.theorem4,
        found.theorem4_main_text,
        found.ucb1,
        found.constant,
    )
    assert values == pytest.approx(expected, rel=1e-6)


def test_theorem_8_sums_what_ucb1_needs_beyond_the_quotas():
    found = complexity_of(Problem(3, [0.2, 0.3, 0.25]), [0.7, 0.5, 0.4], 200)
    log = 8 * np.log(200)
    expected = 2.144934067 + 0.2 * (log / 0.04 - 60) + 0.3 * (log / 0.09 - 50)
    assert found.theorem8 == pytest.approx(expected, rel=1e-8)


def test_the_tolerance_that_makes_the_bound_logarithmic():
    assert complexity_of(instance_1(0), INSTANCE_1, 10**6).sufficient_tolerance == pytest.approx(
        38_948, abs=1
    )


def test_equal_means_cost_nothing():
    found = complexity_of(Problem(3, 0.2), [0.5, 0.5, 0.5], 100)
    assert found.theorem4 == found.theorem2 == found.ucb1 == 0


def test_the_bounds_are_for_single_plays():
    with raises(NotSupported):
        complexity_of(Problem(3, 0.2, plays=2), [0.5, 0.5, 0.5], 100)


def test_what_has_no_such_bounds_is_refused():
    drifting = DriftingEnvironment(Problem(2, 0.2), [[0.5, 0.4], [0.4, 0.5]], [10])
    for given in ("x", drifting):
        with raises(InvalidArgument, "environment", given=given):
            complexity(given, 100)
    with raises(InvalidArgument, "problem"):
        fair_value(None, [0.5])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("plays", [1, 2])
def test_the_best_fair_schedule_solves_its_linear_program(seed, plays):
    rng = np.random.default_rng(seed)
    means, shares = rng.random(5), rng.integers(0, 20, 5) / 100
    groups = {"g": (0.5, ["0", "1", "2"])} if plays == 1 and shares[:3].sum() <= 0.5 else None
    if groups and 0.5 + shares[3:].sum() >= 1:
        groups = None
    problem = Problem(5, shares.tolist(), plays=plays, groups=groups)
    rows, limits = [-row for row in np.eye(5)], (-shares).tolist()
    if groups:
        rows.append(np.array([-1.0, -1, -1, 0, 0]))
        limits.append(-0.5)
    best = linprog(
        -means, A_ub=np.array(rows), b_ub=limits, A_eq=np.ones((1, 5)), b_eq=[plays],
        bounds=(0, 1),
    )  # fmt: skip
    assert fair_value(problem, means) == pytest.approx(-best.fun, rel=1e-9)
