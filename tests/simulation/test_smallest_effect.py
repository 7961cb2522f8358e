"""The smallest effect that a number of pulls finds, compared with simulations of other seeds."""

import math

import pytest

from fairtrial import delayed, linear, subpopulations
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.simulation import at_effect, simulate, smallest_effects
from tests.core.toys import GaussianEnvironment, LeadRace, ToyProblem
from tests.effort import runs
from tests.messages import raises

PROBLEM = subpopulations.Problem(["a", "b"], 1, floors=None, noise_std=1.0)
ASSUMED = subpopulations.GaussianEnvironment(PROBLEM, [[0.0], [1.0]])
POLICY = subpopulations.BlockBetting(PROBLEM, delta=0.1)


@pytest.mark.statistical
def test_the_power_is_reached_at_the_effect_and_not_below():
    number, others = runs(40, whole=400), runs(60, whole=2_000)
    eighty, ninety = smallest_effects(POLICY, ASSUMED, 50, replications=number, progress=False)
    assert eighty.effect < ninety.effect
    for found in (eighty, ninety):
        powers = [
            simulate(POLICY, at_effect(ASSUMED, effect).environment, others, seed=9, horizon=50)
            for effect in (found.lower, found.effect / 1.025, found.effect, found.upper)
        ]
        surely_few, just_few, enough, surely = (one.correct.mean() for one in powers)
        # Both numbers are estimates.
        error = 4.0 * math.sqrt(found.power * (1.0 - found.power) * (1 / number + 1 / others))
        assert just_few - error < found.power < enough + error
        assert surely_few < found.power + error / 2
        assert surely > found.power - error / 2
        assert found.lower < found.effect <= found.upper
        assert found.found.rate >= found.power


def test_more_pulls_find_smaller_effects():
    few, many = (
        smallest_effects(POLICY, ASSUMED, pulls, [0.8], 20, progress=False)[0]
        for pulls in (40, 160)
    )
    # Four times the pulls find about half the effect.
    assert 0.3 < many.effect / few.effect < 0.75


def test_the_same_seed_gives_the_same_effect():
    first, again = (
        smallest_effects(POLICY, ASSUMED, 60, [0.5], 8, seed=4, workers=n, progress=False)
        for n in (1, 2)
    )
    assert first == again


def test_no_effect_is_named_that_rewards_cannot_have():
    problem = subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    assumed = subpopulations.BernoulliEnvironment(problem, [[0.5], [0.75]])
    policy = subpopulations.BlockBetting(problem)
    (found,) = smallest_effects(policy, assumed, 25, [0.99], 8, progress=False)
    assert (found.effect, found.found, found.upper) == (None, None, None)
    assert found.largest == pytest.approx(2.0, rel=2e-3)
    assert found.lower is not None


def test_an_effect_that_is_always_found_has_no_smaller_one():
    huge = subpopulations.GaussianEnvironment(PROBLEM, [[0.0], [1e6]])
    (found,) = smallest_effects(POLICY, huge, 200, [0.5], 4, progress=False)
    assert found.effect <= 1 / 64
    assert found.lower is None


def test_a_policy_with_a_planned_end_aims_at_the_given_number_of_pulls():
    far = POLICY.clone(max_pulls=2000, planned_end=True)
    near = far.clone(max_pulls=60)
    one, other = (
        smallest_effects(policy, ASSUMED, 60, [0.5], 10, progress=False) for policy in (far, near)
    )
    assert one == other


def test_linear_arms_and_late_results_have_smallest_effects():
    arms = linear.Problem([[1, 0], [1, 1]], arms=["a", "b"], noise_std=1.0)
    assumed = linear.GaussianEnvironment(arms, [0.0, 1.0])
    (found,) = smallest_effects(linear.BlockBetting(arms), assumed, 100, [0.8], 20, progress=False)
    assert 0.3 < found.effect < 3.0
    race = delayed.Problem(["a", "b"], noise_std=1.0)
    late = delayed.SimulatedEnvironment(race, [0.0, 1.0], delay=3.0)
    policy = delayed.InformationRacing(race)
    (found,) = smallest_effects(policy, late, 100, [0.8], 20, progress=False)
    assert 0.3 < found.effect < 3.0


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"pulls": 0}, "pulls"),
        ({"powers": [1.0]}, "powers"),
        ({"powers": [0.0]}, "powers"),
        ({"replications": 1}, "replications"),
        ({"control": "z"}, "control"),
        (
            {"environment": subpopulations.GaussianEnvironment(PROBLEM, [[1.0], [1.0]])},
            "environment",
        ),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(changes, name, monkeypatch):
    def no_run(*arguments, **options):
        raise AssertionError

    monkeypatch.setattr("fairtrial.simulation.smallest_effect.simulate", no_run)
    given = {"policy": POLICY, "environment": ASSUMED, "pulls": 10, **changes}
    with raises(InvalidArgument, name):
        smallest_effects(**given)


def test_an_environment_without_scenarios_is_refused():
    problem = ToyProblem(["a", "b"])
    with raises(NotSupported):
        smallest_effects(LeadRace(problem), GaussianEnvironment(problem, [0.0, 1.0]), 10)
