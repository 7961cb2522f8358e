import math

import numpy as np
import pytest

from fairtrial.causal import (
    ConstraintSuccessiveRejection,
    NetworkEnvironment,
    allocate,
    chain,
    row_budgets,
)
from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._intervals import bernstein_reach
from fairtrial.causal._ledger import open_ledger
from fairtrial.causal._weighted import Weighted
from fairtrial.errors import InvalidArgument, NotSupported
from tests.causal.slow import diamond, tiny
from tests.messages import raises, warns


@pytest.mark.statistical
@pytest.mark.parametrize("build", [lambda: tiny(0.09)[1], lambda: NetworkEnvironment(diamond(1))])
def test_the_certifying_budget_makes_the_interval_as_wide_as_the_margin(build):
    environment = build()
    problem = environment.problem
    plan = row_budgets(environment)
    together = 0.05 / (2 * problem.n_arms)
    gaps = np.abs(environment.truth.gaps[problem.pairs[0]])
    for k, budget in enumerate(plan.certifying_budget):
        counts = np.maximum(np.round(plan.allocation.ravel() * budget), 0).astype(int)
        actions = np.repeat(np.arange(problem.n_actions), counts)
        reach = []
        for seed in range(20):
            ledger = open_ledger(cell_model_of(problem))
            ledger.add(environment.batch(actions, np.random.default_rng(seed)))
            weighted = Weighted(problem, ledger.records(), "mis")
            reach.append(bernstein_reach(weighted, together)[1][k, 0])
        # The sample's variance differs from the true one; the median of 20 is within 4 %.
        margin = abs(gaps[k] - problem.fairness_bound)
        assert np.median(reach) == pytest.approx(margin, rel=0.04)


def test_information_is_the_programmes_value():
    problem, environment = tiny(costs=[0, 1, 1], mean_budget=0.1)
    plan = row_budgets(environment)
    assert plan.information == allocate(problem, pool_natural=True).value
    assert plan.allocation.sum() == pytest.approx(1.0)
    ConstraintSuccessiveRejection(problem, plan.least_budget)


def test_an_arm_on_the_bound_can_never_be_certified():
    environment = tiny()[1]
    bound = float(abs(environment.truth.gaps[("s", "s'")][0]))
    assert row_budgets(tiny(fairness_bound=bound)[1]).certifying_budget[0] is None


def test_an_arm_without_overlap_can_never_be_certified():
    arms = {"k0": [[0.5, 0.5, 0], [0.4, 0.6, 0]], "k1": [[0.2, 0.3, 0.5], [0.3, 0.3, 0.4]]}
    costs = [[0, 0, 0], [math.inf] * 3]
    _, environment = chain(0.4, arms, [0.1, 0.1, 0.9], 0.2, costs=costs)
    with warns(UserWarning):
        found = row_budgets(environment).certifying_budget
    assert found[0] is not None
    assert found[1] is None


def test_too_many_pairs_leave_the_budget_open():
    arms = {"a": np.full((5, 2), 0.5), "b": np.tile([0.2, 0.8], (5, 1))}
    _, environment = chain([0.2] * 5, arms, [0.1, 0.9], 0.2)
    with raises(NotSupported):
        row_budgets(environment)


def test_without_a_range_nothing_can_be_planned():
    bare = tiny()[0].clone(outcome_range=None)
    with raises(InvalidArgument, "environment"):
        row_budgets(NetworkEnvironment(bare))
