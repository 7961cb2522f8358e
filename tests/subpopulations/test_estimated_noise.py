"""Rules that estimate the noise: equal results show none, and units do not matter."""

import numpy as np
import pytest

from fairtrial.simulation import simulate
from fairtrial.subpopulations import (
    BalancedTracking,
    ExactTracking,
    GaussianEnvironment,
    PlainTrackAndStop,
    Problem,
    RoundRobin,
    TrackAndStop,
    UniformSampling,
)
from tests import effort

RULES = [
    BalancedTracking,
    ExactTracking,
    PlainTrackAndStop,
    RoundRobin,
    TrackAndStop,
    UniformSampling,
]


def unknown(floors=None, unit=1.0):
    return Problem(
        ["a", "b", "c"],
        {"x": 0.4, "y": 0.6},
        floors=None if floors is None else floors * unit,
        noise_std="estimated",
    )


def run(policy, value_of):
    """Tell a value for each pull until the end; return the cells that were pulled."""
    cells = []
    while not policy.stopped:
        pull = policy.ask()
        cells.append(pull.action)
        policy.tell(pull, value_of(pull, len(cells)))
    return cells


@pytest.mark.parametrize(("rule", "floors"), effort.pairs(RULES, [None, 0.02]))
def test_the_first_results_of_a_rare_outcome_are_no_evidence_though_they_are_alike(rule, floors):
    """Ten zeros of an outcome with probability .05 are common; they prove nothing.

    When equal results counted as without noise, half of the runs gave a wrong answer. If each is
    wrong with probability .05, more than 3 of 12 are wrong with probability .002.
    """
    wrong = 0
    for seed in range(12):
        generator = np.random.default_rng(seed)
        problem = Problem(["a", "b"], 1, floors=floors, noise_std="estimated")
        policy = rule(problem, max_pulls=300, seed=seed)
        run(policy, lambda pull, _, g=generator: float(g.random() < 0.04 + 0.01 * pull.action))
        found = policy.recommend()
        wrong += found.status == "decided" and found.arm != "b"
    assert wrong <= 3


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("constant", [0.0, 0.1, -3e5, 1e139])
@pytest.mark.parametrize("initial_pulls", [1, None])
def test_without_any_spread_there_is_neither_evidence_nor_an_interval(
    rule, constant, initial_pulls
):
    policy = rule(unknown(floors=-1.0), max_pulls=100, initial_pulls=initial_pulls, seed=0)
    run(policy, lambda _pull, _number: constant)
    assert policy.recommend().status == "undecided"
    progress = policy.progress()
    assert {(cell.lower, cell.upper) for cell in progress.actions} == {(None, None)}
    assert {effect.lower for effect in progress.effects or ()} <= {None}


@pytest.mark.parametrize("rule", RULES)
def test_arms_that_differ_without_any_noise_are_told_apart(rule):
    policy = rule(unknown(), max_pulls=100, seed=0)
    run(policy, lambda pull, _number: float(pull.arm == "b"))
    assert policy.recommend().arm == "b"


def normal(generator, pull):
    return float(generator.normal(0.2 * pull.action, 0.5 + pull.action % 3))


def rare(generator, _pull):
    return float(generator.random() < 0.04)


def mostly_equal(generator, pull):
    """All results are equal at first."""
    return 0.5 if pull.number < 70 else normal(generator, pull)


def mostly_zero(generator, pull):
    return 0.0 if pull.number < 30 else normal(generator, pull)


@pytest.mark.parametrize(
    ("rule", "floors", "value_of"),
    effort.covering(RULES, [None, 0.25], [normal, rare, mostly_equal, mostly_zero]),
)
def test_the_units_of_rewards_change_no_pull_and_no_number(rule, floors, value_of):
    """Powers of two multiply without rounding, so everything must be the same."""

    def found(unit):
        generator = np.random.default_rng(4)
        policy = rule(unknown(floors, unit), max_pulls=90, seed=1, stopping="stylised")
        cells = run(policy, lambda pull, _number: unit * value_of(generator, pull))
        progress = policy.progress()
        ends = [(one.mean, one.lower, one.upper) for one in (*progress.actions, *progress.arms)]
        ends += [(one.difference, one.lower, one.upper) for one in progress.effects]
        shown = [tuple(None if end is None else end / unit for end in three) for three in ends]
        return cells, policy.recommend().arm, progress.evidence, progress.remaining, shown

    expected = found(1.0)
    for unit in effort.first(2, [2.0**-900, 2.0**400, 2.0**-60, 2.0**40]):
        assert found(unit) == expected


@pytest.mark.parametrize("order", [1, -1])
def test_rewards_of_very_different_sizes_are_all_kept(order):
    """A unit that the first rewards suggest is changed when a far larger reward comes."""
    sizes = [1e-300, 1.0][::order]
    policy = RoundRobin(Problem(2, 1, floors=None, noise_std="estimated"), max_pulls=80)
    generator = np.random.default_rng(0)
    run(policy, lambda pull, _: sizes[pull.action] * float(generator.normal(3.0, 0.1)))
    means = [one.mean for one in policy.progress().actions]
    assert means == pytest.approx([3.0 * size for size in sizes], rel=0.1)
    assert policy.recommend().arm == str(int(np.argmax(sizes)))


def test_a_policy_in_another_unit_can_be_saved_and_restored():
    def told(restores):
        generator = np.random.default_rng(1)
        policy = BalancedTracking(unknown(0.25, 1e-200), max_pulls=80)
        while not policy.stopped:
            pull = policy.ask()
            policy.tell(pull, 1e-200 * float(generator.normal(0.3 * pull.action)))
            if restores:
                state, policy = policy.get_state(), policy.clone()
                policy.set_state(state)
        return policy.progress().to_dict()

    assert told(restores=True) == told(restores=False)


def test_a_correction_in_another_unit_gives_what_the_right_reward_had_given():
    policy, right = (RoundRobin(unknown(), max_pulls=30) for _ in range(2))
    for number in range(30):
        value = 1e-200 * (1.0 + number % 7)
        wrong, pull = policy.ask(), right.ask()
        policy.tell(wrong, 2.0 * value)
        policy.amend(wrong, 2.0 * value, value)
        right.tell(pull, value)
    for own, expected in zip(policy.progress().actions, right.progress().actions, strict=True):
        ends = own.mean, own.lower, own.upper
        assert ends == pytest.approx((expected.mean, expected.lower, expected.upper), rel=1e-9)


@pytest.mark.parametrize("rule", [BalancedTracking, UniformSampling])
def test_simulated_runs_are_the_same_in_every_unit(rule):
    def simulated(unit):
        means = unit * np.array([[0.1, 0.4], [0.8, 0.6], [0.2, 0.9]])
        problem = unknown(0.25, unit)
        environment = GaussianEnvironment(problem, means, std=0.5 * unit)
        policy = rule(problem, max_pulls=120, stopping="stylised")
        found = simulate(policy, environment, replications=2, seed=3)
        return found.stopping_time.tolist(), found.error_rate, found.pulls.tolist()

    assert simulated(2.0**-900) == simulated(1.0)


def test_noisier_cells_get_more_pulls():
    """The best shares of two arms are in proportion to their standard deviations."""
    generator = np.random.default_rng(2)
    policy = ExactTracking(Problem(2, 1, floors=None, noise_std="estimated"), max_pulls=2_000)
    cells = run(policy, lambda pull, _: float(generator.normal(0.0, 1.0 + 3.0 * pull.action)))
    # The shares are .2 and .8 for four times the noise; estimates of the noise are within a few %.
    assert np.mean(cells) == pytest.approx(0.8, abs=0.05)
