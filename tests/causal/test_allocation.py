import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.causal import (
    BudgetInfeasible,
    CausalModel,
    NoInformation,
    Problem,
    allocate,
    chain,
    divergences,
)
from fairtrial.causal.allocation import whole_rows
from fairtrial.errors import InvalidArgument
from tests.causal.slow import tiny
from tests.messages import raises, warns


def information(problem, shares, live, pooled=0.0):
    """Return the smallest information of the live arms, by the definition."""
    known = divergences(problem)
    values = []
    for k in live:
        values.append(sum(shares[j, 0] / known.outcome[k, j] for j in range(problem.n_arms)))
        for (_, observed), matrix in known.gap.items():
            column = 1 + problem.values.index(observed)
            natural = pooled * problem.model.tables["S"][column - 1]
            rows = shares[:, column] + natural * shares[:, 0]
            values.append(sum(rows[j] / matrix[k, j] for j in range(problem.n_arms)))
    return min(values)


@pytest.mark.parametrize(
    ("budget", "value"), [(None, 0.17721719), (0.1, 0.15852435), (1e-6, 0.14400769)]
)
def test_the_textbook_chain_has_the_reference_values(budget, value):
    problem, _ = tiny(costs=[0, 1, 1], mean_budget=budget)
    found = allocate(problem)
    assert found.value == pytest.approx(value, abs=1e-6)
    assert information(problem, found.shares, range(3)) == pytest.approx(value, abs=1e-6)
    assert found.shares.sum() == pytest.approx(1.0)
    assert (found.shares >= 0).all()
    assert found.cost <= (math.inf if budget is None else budget) + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_value_equals_that_of_a_convex_solver(seed):
    import cvxpy as cp

    generator = np.random.default_rng(seed)
    arms = generator.dirichlet(np.ones(3), size=(4, 2))
    costs = generator.random((4, 3))
    budget = float(costs.min() + 0.1)
    problem, _ = chain(0.3, arms, [0, 0.5, 1], 0.2, costs=costs, mean_budget=budget)
    known = divergences(problem)
    live = [0, 2, 3]
    shares, value = cp.Variable((4, 3), nonneg=True), cp.Variable()
    limits = [cp.sum(shares) == 1, cp.sum(cp.multiply(costs, shares)) <= budget]
    for k in live:
        limits.append((1 / known.outcome[k]) @ shares[:, 0] >= value)
        for (_, observed), matrix in known.gap.items():
            limits.append((1 / matrix[k]) @ shares[:, 1 + problem.values.index(observed)] >= value)
    cp.Problem(cp.Maximize(value), limits).solve(solver=cp.CLARABEL)
    found = allocate(problem, [problem.arm_labels[k] for k in live])
    assert found.value == pytest.approx(float(value.value), abs=1e-6)
    assert information(problem, found.shares, live) == pytest.approx(found.value, abs=1e-9)
    assert found.cost <= budget + 1e-9


def test_rows_that_cannot_be_forced_are_not_drawn():
    costs = [[0, math.inf, math.inf]] * 3
    problem, _ = tiny(costs=costs)
    found = allocate(problem, pool_natural=True)
    assert found.forced.sum() == 0
    expected = information(problem, found.shares, range(3), pooled=1.0)
    assert found.value == pytest.approx(expected)
    assert found.value > 0


def test_an_arm_without_overlap_is_warned_of_and_left_out():
    arms = {"k0": [[0.5, 0.5, 0]] * 2, "k1": [[0.2, 0.3, 0.5]] * 2}
    costs = [[0, 0, 0], [math.inf] * 3]
    problem, _ = chain(0.4, arms, [0.1, 0.1, 0.9], 0.2, costs=costs)
    with warns(NoInformation):
        found = allocate(problem)
    assert found.value == 0
    assert found.uninformed == ("k1",)
    assert found.shares[1].sum() == 0


def test_a_budget_below_the_cheapest_row_is_refused():
    with raises(BudgetInfeasible, "mean_budget", given=0.5, minimum=1.0) as caught:
        tiny(costs=[1, 2, 3], mean_budget=0.5)
    assert caught.value.minimum == 1


def test_unknown_and_no_live_arms_are_refused():
    with raises(InvalidArgument, "live", given="nobody"):
        allocate(tiny()[0], ["nobody"])
    with raises(InvalidArgument, "live", given=[]):
        allocate(tiny()[0], [])


def test_without_carriers_only_natural_rows_are_drawn():
    model = CausalModel([("V", "Y")], {"S": ["a", "b"], "V": 2, "Y": 2}, {"S": [0.5, 0.5]})
    problem = Problem(model, "S", "V", "Y", {"a": [0.5, 0.5], "b": [0.9, 0.1]}, 0.1)
    found = allocate(problem)
    assert found.natural.sum() == pytest.approx(1.0)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda shares: sum(shares) > 0.1),
    st.integers(1, 500),
    st.floats(0, 1),
    st.integers(0, 1000),
)
def test_whole_rows_add_up_and_keep_the_budget_that_the_shares_keep(shares, number, slack, seed):
    shares = np.array(shares) / sum(shares)
    costs = np.random.default_rng(seed).random(len(shares))
    allowance = number * (float(shares @ costs) + slack)
    counts = whole_rows(shares, costs, number, allowance)
    assert counts.sum() == number
    assert (counts >= 0).all()
    assert (counts[shares == 0] == 0).all()
    assert (np.abs(counts - shares * number) < len(shares) + 1).all()
    assert counts @ costs <= allowance + 1e-6


def test_rounding_keeps_the_money_for_the_rows_that_are_left():
    # One expensive row for 3 would leave less than the 1 that the other row needs.
    counts = whole_rows(np.array([0.3, 0.35, 0.35]), np.array([1.0, 3.0, 3.0]), 2, allowance=3.5)
    assert counts.tolist() == [2, 0, 0]
    richer = whole_rows(np.array([0.3, 0.35, 0.35]), np.array([1.0, 3.0, 3.0]), 2, allowance=4.0)
    assert richer.tolist() == [1, 1, 0]
