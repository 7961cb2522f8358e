"""Rules that estimate the noise: equal results show none, and units do not matter."""

import numpy as np
import pytest

from fairtrial.subpopulations import (
    BalancedTracking,
    ExactTracking,
    PlainTrackAndStop,
    Problem,
    RoundRobin,
    TrackAndStop,
    UniformSampling,
)

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


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("floors", [None, 0.02])
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


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("unit", [2.0**-20, 2.0**40])
@pytest.mark.parametrize("floors", [None, 0.25])
def test_the_units_of_rewards_change_no_pull_and_no_answer(rule, unit, floors):
    """Powers of two multiply without rounding, so all pulls must be the same."""

    def pulled(unit):
        generator = np.random.default_rng(4)
        policy = rule(unknown(floors, unit), max_pulls=250, seed=1)

        def value_of(pull, _number):
            return unit * float(generator.normal(0.2 * pull.action, 0.5 + pull.action % 3))

        cells = run(policy, value_of)
        return cells, policy.recommend().arm, policy.recommend().status

    assert pulled(unit) == pulled(1.0)


def test_noisier_cells_get_more_pulls():
    """The best shares of two arms are in proportion to their standard deviations."""
    generator = np.random.default_rng(2)
    policy = ExactTracking(Problem(2, 1, floors=None, noise_std="estimated"), max_pulls=2_000)
    cells = run(policy, lambda pull, _: float(generator.normal(0.0, 1.0 + 3.0 * pull.action)))
    # The shares are .2 and .8 for four times the noise; estimates of the noise are within a few %.
    assert np.mean(cells) == pytest.approx(0.8, abs=0.05)
