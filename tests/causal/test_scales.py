"""Extreme numbers: outcomes of any size, tables of zeros and ones, equal arms."""

import numpy as np
import pytest

from fairtrial.causal import BlockBetting, NetworkEnvironment, Problem, chain, estimate
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests.causal.betting_instances import tiny as proven_question
from tests.messages import raises

ARMS = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.7, 0.3]]}


def scaled(scale, shift=0.0, known_range=True, arms=ARMS, bound=0.2):
    """Return the same problem and log with outcomes times `scale` plus `shift`."""
    problem, environment = chain(0.4, arms, [0.1, 0.9], 0.2)
    log = environment.table([0] * 1000 + [3] * 1000, np.random.default_rng(1))
    ends = sorted((shift, shift + scale))
    question = problem.clone(
        outcome=("Y", {"0": shift, "1": shift + scale}),
        outcome_range=ends if known_range else None,
        fairness_bound=bound * abs(scale),
    )
    return question, {**log, "Y": [shift + scale * float(y) for y in log["Y"]]}


@pytest.mark.parametrize("estimator", ["sn", "mis", "cell"])
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-80, 1e80, 1e160, 1e300])
def test_the_unit_of_outcomes_changes_no_verdict(scale, estimator):
    usual = estimate(*scaled(1.0), estimator, fixed_allocation=True)
    assert usual.verdicts == ("fair", "unfair")
    found = estimate(*scaled(scale), estimator, fixed_allocation=True)
    assert (found.verdicts, found.best, found.guarantee.proven) == (usual.verdicts, "a", True)
    assert found.means / scale == pytest.approx(usual.means)
    assert found.gaps_normal / scale == pytest.approx(usual.gaps_normal)


@pytest.mark.parametrize("scale", [1e-90, 1e-20, 1e20, 1e90])
def test_nor_does_it_without_a_range(scale):
    usual = estimate(*scaled(1.0, known_range=False))
    found = estimate(*scaled(scale, known_range=False))
    assert found.verdicts == usual.verdicts == ("fair", "unfair")
    assert found.gaps_normal / scale == pytest.approx(usual.gaps_normal)


@pytest.mark.parametrize("scale", [1e-160, -1e-101, 1e101, 1e160])
def test_sizes_whose_squares_cannot_be_told_are_refused_without_a_range(scale):
    problem, log = scaled(scale, known_range=False)
    with raises(InvalidOutcome, "row 0: Y", given=scale):
        estimate(problem, log)
    with raises(InvalidOutcome, "outcome: Y", given=scale):
        problem.check_outcome({"S": "s", "V": 0, "Y": scale})


@pytest.mark.parametrize("shift", [1e6, 1e9, 1e13])
def test_outcomes_far_from_zero_are_never_more_certain_than_their_rounding(shift):
    usual = estimate(*scaled(1.0))
    found = estimate(*scaled(1.0, shift, known_range=False))
    assert (np.diff(found.gaps_normal) >= 0.9 * np.diff(usual.gaps_normal)).all()
    assert not found.guarantee.proven


def test_a_range_without_a_finite_width_is_refused():
    problem, _ = scaled(1.0)
    with raises(InvalidArgument, "outcome_range"):
        problem.clone(outcome_range=(-1e308, 1e308))


@pytest.mark.parametrize("estimator", ["sn", "mis", "cell"])
@pytest.mark.parametrize(
    ("arms", "verdicts"),
    [
        ({"a": [[1, 0], [1, 0]], "b": [[0, 1], [0, 1]]}, ("fair", "fair")),
        ({"a": [[1, 0], [0, 1]], "b": [[0, 1], [1, 0]]}, ("unfair", "unfair")),
        ({"a": [[0.3, 0.7]] * 2, "b": [[0.3, 0.7]] * 2}, ("fair", "fair")),
        ({"a": [[1e-300, 1], [1, 1e-300]], "b": [[0.5, 0.5]] * 2}, ("unfair", "fair")),
        ({"a": [[1e-320, 1], [1, 0]], "b": [[0, 1], [1, 1e-310]]}, ("unfair", "unfair")),
    ],
)
def test_zeros_ones_and_equal_arms_give_numbers_and_right_verdicts(arms, verdicts, estimator):
    found = estimate(*scaled(1.0, arms=arms), estimator, fixed_allocation=True)
    assert found.verdicts == verdicts
    assert np.isfinite(found.means).all()
    assert np.isfinite(found.gaps).all()
    assert found.tie == (np.array_equal(arms["a"], arms["b"]))


def test_a_bound_of_zero_is_refused_and_the_smallest_one_keeps_nothing():
    with raises(InvalidArgument, "fairness_bound"):
        scaled(1.0, bound=0.0)
    assert estimate(*scaled(1.0, bound=5e-324)).best is None
    assert isinstance(scaled(1.0, bound=5e-324)[0], Problem)


@pytest.mark.parametrize("power", [-160, -12, 12, 160])
def test_the_unit_of_outcomes_changes_no_decision_of_the_proven_rule(power):
    def actions(problem):
        policy, generator = BlockBetting(problem, delta=0.1, seed=1), np.random.default_rng(2)
        environment, found = NetworkEnvironment(problem), []
        while not policy.stopped:
            pull = policy.ask()
            policy.tell(pull, environment.sample(pull, generator))
            found.append(pull.action)
        (best,) = policy.recommend().candidates
        return found, best, policy.progress().value_limits

    problem, unit = proven_question()[0], 10.0**power
    scaled = problem.clone(
        outcome=("Y", {"0": 0.0, "1": unit}),
        outcome_range=(0.0, unit),
        fairness_bound=problem.fairness_bound * unit,
    )
    (asked, best, limits), (same, answer, gaps) = actions(problem), actions(scaled)
    assert (same, answer) == (asked, best)
    for one, other in zip(limits, gaps, strict=True):
        assert other.value == pytest.approx(one.value * unit, rel=1e-9)


@pytest.mark.parametrize("rare", [1e-300, 1e-30, 1e-6])
@pytest.mark.parametrize("knowledge", ["cells", "ratios"])
def test_states_that_hardly_ever_come_do_no_harm_to_the_proven_rule(rare, knowledge):
    arms = {
        "a": [[1 - rare, rare], [0.5, 0.5]],
        "b": [[0.2, 0.8], [0.1, 0.9]],
        "c": [[rare, 1 - rare]] * 2,
    }
    problem, environment = chain(0.4, arms, [0.1, 0.9], 0.3)
    policy = BlockBetting(problem, delta=0.1, knowledge=knowledge, seed=0)
    generator = np.random.default_rng(0)
    while not policy.stopped and policy.asked < 2_000:
        pull = policy.ask()
        policy.tell(pull, environment.sample(pull, generator))
    assert policy.recommend().arm == environment.truth.best
    assert not np.isnan(policy._wealth).any()
