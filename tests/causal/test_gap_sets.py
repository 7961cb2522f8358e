"""Several sensitive attributes: gaps of each alone, without changing the others."""

import json

import numpy as np
import pytest

from fairtrial.causal import (
    ConstraintSuccessiveRejection,
    NetworkEnvironment,
    PlugIn,
    Problem,
    TwoStageRejection,
    UniformSampling,
    estimate,
)
from fairtrial.core.run import run_policy
from tests.causal.slow import confounded, diamond, effects, means_by_value


def by_attribute(seed, **options):
    return diamond(seed, attributes=2).clone(gap_set="attributes", **options)


def test_the_pairs_are_those_of_each_attribute():
    problem = by_attribute(0)
    assert problem.pairs == (("S=0", "S=1"), ("S=1", "S=0"), ("T=0", "T=1"), ("T=1", "T=0"))
    assert len(problem.value_pairs) == 8
    assert problem.n_statements == 3 * 3
    assert Problem.from_dict(json.loads(json.dumps(problem.to_dict()))) == problem
    alone = diamond(0).clone(gap_set="attributes")
    assert alone.pairs == (("0", "1"), ("1", "0"))


@pytest.mark.parametrize("seed", range(3))
def test_the_other_attributes_are_averaged_over_their_distribution(seed):
    problem = by_attribute(seed)
    slow = means_by_value(problem)
    gaps = NetworkEnvironment(problem).truth.gaps
    s, t = (problem.model.tables[name] for name in "ST")
    table = slow.reshape(-1, 2, 2)
    assert gaps[("S=0", "S=1")] == pytest.approx((table[:, 0] - table[:, 1]) @ t)
    assert gaps[("T=1", "T=0")] == pytest.approx((table[:, :, 1] - table[:, :, 0]) @ s)


@pytest.mark.parametrize("seed", range(2))
def test_with_causes_the_others_are_those_of_the_group_observed(seed):
    problem = confounded(seed, attributes=2, gap_set="attributes")
    slow, shares = effects(problem)
    gaps = NetworkEnvironment(problem).truth.gaps
    # Values are (S, T) in the order 00, 01, 10, 11; the gap of S=0 for those with S=1.
    group = shares[2:] / shares[2:].sum()
    expected = (slow[:, 0, 2] - slow[:, 2, 2]) * group[0] + (slow[:, 1, 3] - slow[:, 3, 3]) * group[
        1
    ]
    assert gaps[("S=0", "S=1")] == pytest.approx(expected)
    group = shares[::2] / shares[::2].sum()
    expected = (slow[:, 1, 0] - slow[:, 0, 0]) * group[0] + (slow[:, 3, 2] - slow[:, 2, 2]) * group[
        1
    ]
    assert gaps[("T=1", "T=0")] == pytest.approx(expected)


@pytest.mark.statistical
@pytest.mark.parametrize("observed", [False, True])
def test_estimates_come_to_the_truth(observed):
    problem = confounded(3, attributes=2, gap_set="attributes") if observed else by_attribute(3)
    environment = NetworkEnvironment(problem)
    generator = np.random.default_rng(12)
    actions = generator.integers(0, problem.n_actions, 40_000)
    found = estimate(problem, environment.table(actions, generator))
    truth = np.column_stack([*environment.truth.gaps.values()])
    reach = found.gaps_normal[..., 1] - found.gaps
    # The half-widths are two standard errors.
    assert (np.abs(found.gaps - truth) < 2.5 * reach).all()
    assert reach.max() < 0.03


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (ConstraintSuccessiveRejection, {}),
        (ConstraintSuccessiveRejection, {"one_sided": True}),
        (TwoStageRejection, {}),
        (PlugIn, {}),
        (UniformSampling, {}),
    ],
)
def test_policies_judge_by_the_gaps_of_attributes(cls, options):
    problem = by_attribute(4, fairness_bound=0.4)
    environment = NetworkEnvironment(problem)
    fast = cls(problem, 400, **options).compiled_run(environment, np.random.default_rng(3), None)
    slow = run_policy(cls(problem, 400, **options), environment, np.random.default_rng(3))
    assert fast.answer == slow.answer
    large = cls(problem, 20_000, **options).compiled_run(
        environment, np.random.default_rng(4), None
    )
    assert large.answer == environment.truth.best


def test_verdicts_by_attribute_are_no_proof_where_the_others_shares_are_estimated():
    problem = by_attribute(2)
    log = NetworkEnvironment(problem).table(np.arange(problem.n_actions), np.random.default_rng(0))
    assert estimate(problem, log, fixed_allocation=True).guarantee.proven
    tables = {node: table for node, table in problem.model.tables.items() if node != "T"}
    bare = problem.clone(model=problem.model.clone(tables=tables))
    assert not estimate(bare, log, fixed_allocation=True).guarantee.proven
    of_pairs = bare.clone(gap_set="pairs")
    assert estimate(of_pairs, log, fixed_allocation=True).guarantee.proven


def test_gaps_that_cancel_over_the_other_attribute_are_fair_by_attribute_only():
    # The outcome depends on whether the two attributes are equal: neither matters alone.
    from fairtrial.causal import CausalModel

    model = CausalModel(
        [("S", "V"), ("T", "V"), ("V", "Y")],
        dict.fromkeys("STVY", 2),
        {"S": [0.5, 0.5], "T": [0.5, 0.5], "Y": [[0.9, 0.1], [0.1, 0.9]]},
    )
    arm = [[[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]]
    problem = Problem(model, ["S", "T"], "V", "Y", {"equal": arm}, 0.2)
    assert NetworkEnvironment(problem).truth.best is None
    marginal = problem.clone(gap_set="attributes")
    assert NetworkEnvironment(marginal).truth.best == "equal"
