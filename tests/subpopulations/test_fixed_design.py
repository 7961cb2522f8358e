"""The usual experiment of fixed size: its closed form, compared with simulated experiments."""

import numpy as np
import pytest
from scipy import stats

from fairtrial.subpopulations import BernoulliEnvironment, GaussianEnvironment, Problem
from fairtrial.subpopulations.fixed_design import fixed_design
from tests.effort import runs

POWER = 0.8


def answers_of(environment, size, delta, number, seed=1):
    """Simulate the experiment, test by test as documented; -1 is "no arm", -2 none yet."""
    problem, stds = environment.problem, environment.cell_stds
    arms, groups = problem.shape
    each = np.full(groups, size / problem.n_actions)
    if environment.arrivals is not None:
        each = size * np.array(environment.arrivals) / np.sum(environment.arrivals) / arms
    generator = np.random.default_rng(seed)
    errors = stds / np.sqrt(each)
    means = environment.cell_means + errors * generator.standard_normal((number, arms, groups))
    signed, shares = problem.sign * means, problem.shares
    floors, ceilings = problem.limits()
    limits = np.isfinite(floors).sum(axis=1) + np.isfinite(ceilings).sum(axis=1)
    least = problem.differences()
    limits = limits + np.isfinite(least).sum(axis=(0, 2))
    z = stats.norm.isf(delta / (arms - 1 + limits.max()))
    within = ((signed - floors > z * errors) & (ceilings - signed > z * errors)).all(axis=2)
    beyond = ((floors - signed > z * errors) | (signed - ceilings > z * errors)).any(axis=2)
    quality, variance = signed @ shares, errors**2 @ shares**2
    if problem.refers_to_control:
        control = problem.arms.index(problem.control)
        apart = signed - signed[:, [control]] - least[0]
        reach = z * np.sqrt(errors**2 + errors[control] ** 2)
        overall = quality - quality[:, [control]] - least[1, :, 0]
        far = z * np.sqrt(variance + variance[control])
        within &= (apart > reach).all(axis=2) & (overall > far)
        beyond |= (apart < -reach).any(axis=2) | (overall < -far)
    answers = np.full(number, -2)
    answers[beyond.all(axis=1)] = -1
    for arm in range(arms):
        gaps = quality[:, [arm]] - quality
        beaten = gaps > z * np.sqrt(variance + variance[arm])
        others = np.delete(beaten | beyond, arm, axis=1).all(axis=1)
        answers[within[:, arm] & others] = arm
    return answers


def judged(environment, delta=0.1, number=None):
    design = fixed_design(environment)
    size = design.size(delta, POWER)
    best = environment.truth.best
    right = -1 if best is None else environment.problem.arms.index(best)
    number = number or runs(4_000, whole=40_000)
    answers = answers_of(environment, size, delta, number)
    return size, (answers == right).mean(), ((answers != right) & (answers != -2)).mean(), number


CASES = {
    "two arms": ({"floors": None}, [[0.5, 0.5], [1.0, 1.0]]),
    "three arms, one rival close": ({"floors": None}, [[0.2, 0.2], [0.8, 0.8], [1.0, 1.0]]),
    "own floor decides": ({"floors": 0.7}, [[0.1, 0.1], [2.0, 0.9]]),
    "a rival below its floor": ({"floors": 0.0}, [[3.0, -0.5], [0.8, 0.8]]),
    "not worse than the control in any group": (
        {"control": "0", "margin": 0.2},
        [[0.5, 0.5], [2.0, 2.2], [5.5, -0.1]],
    ),
    "better than the control": (
        {"control": "0", "superiority": 0.1},
        [[0.2, 0.2], [0.8, 0.9]],
    ),
    "no arm": ({"floors": 0.0}, [[3.0, -0.5], [-0.7, 0.8]]),
    "ceilings, smaller is better": (
        {"floors": 2.0, "ceilings": -1.0, "direction": "minimize"},
        [[0.8, 0.9], [0.2, 0.3]],
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_the_size_has_the_power_and_hardly_more(name):
    more, means = CASES[name]
    problem = Problem(len(means), {"x": 0.3, "y": 0.7}, noise_std=1.0, **more)
    environment = GaussianEnvironment(problem, means, std=[0.5, 1.5])
    size, right, wrong, number = judged(environment)
    error = 4.0 * np.sqrt(0.25 / number)
    assert right > POWER - error
    # The sum of the failures counts some of them twice, and the size is rounded to whole cells.
    assert right < POWER + 0.06 + error
    assert wrong < 0.1 + error
    assert size % problem.n_actions == 0


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_groups_that_arrive_by_themselves_are_divided_among_the_arms(name):
    more, means = CASES[name]
    problem = Problem(len(means), {"x": 0.3, "y": 0.7}, noise_std=1.0, **more)
    plain = GaussianEnvironment(problem, means, std=[0.5, 1.5])
    _, right, wrong, number = judged(plain.clone(arrivals=[9, 1]))
    error = 4.0 * np.sqrt(0.25 / number)
    assert POWER - error < right < POWER + 0.05 + error
    assert wrong < 0.1 + error
    even = fixed_design(plain.clone(arrivals=[1, 1])).size(0.1, POWER)
    assert even == fixed_design(plain).size(0.1, POWER)


def test_a_weighty_group_that_never_arrives_leaves_no_size_that_is_enough():
    problem = Problem(2, 2, floors=None, noise_std=1.0)
    never = GaussianEnvironment(problem, [[0, 0], [1, 1]], arrivals=[1, 0])
    assert fixed_design(never).size(0.1, POWER) is None


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("floors", "means"),
    [
        (None, np.zeros((2, 2))),
        (None, np.zeros((4, 2))),
        (0.0, [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]),
    ],
    ids=["two equal", "four equal", "on their floors"],
)
def test_errors_are_controlled_at_the_hardest_means(floors, means):
    problem = Problem(len(means), 2, noise_std=1.0, floors=floors)
    environment = GaussianEnvironment(problem, means)
    number = runs(4_000, whole=40_000)
    answers = answers_of(environment, 200, 0.1, number)
    arms = len(means)
    # Each of K equal arms is excluded with probability delta: see plan-an-experiment.md.
    allowed = 0.1 * arms / (arms - 1)
    assert (answers != -2).mean() < allowed + 4.0 * np.sqrt(allowed / number)


def test_there_is_no_such_experiment_where_arms_are_equal():
    problem = Problem(2, 1, floors=None, noise_std=1.0)
    assert fixed_design(GaussianEnvironment(problem, [[1.0], [1.0]])) is None


def test_a_single_arm_is_held_against_its_limits_alone():
    problem = Problem(1, 1, floors=0.0, noise_std=1.0)
    design = fixed_design(GaussianEnvironment(problem, [[0.5]]))
    textbook = ((stats.norm.ppf(0.95) + stats.norm.ppf(0.8)) / 0.5) ** 2
    assert design.size(0.05, 0.8) == np.ceil(textbook)


def test_what_is_exactly_on_its_limit_needs_no_number():
    problem = Problem(1, 1, floors=0.5, noise_std=1.0)
    assert fixed_design(GaussianEnvironment(problem, [[0.5]])).size(0.05, 0.8) is None


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_a_limit_that_no_mean_can_miss_costs_nothing(direction):
    free = Problem(2, 2, floors=None, reward_range=(0, 1), direction=direction)
    worst, best = (0.0, 1.0) if direction == "maximize" else (1.0, 0.0)
    held = free.clone(floors=worst, ceilings=best)
    means = [[0.30, 0.30], [0.38, 0.38]]
    sizes = [
        fixed_design(BernoulliEnvironment(problem, means)).size(0.05, POWER)
        for problem in (free, held)
    ]
    assert sizes[0] == sizes[1]
    textbook = (stats.norm.ppf(0.95) + stats.norm.ppf(POWER)) ** 2 * (0.21 + 0.2356) / 0.08**2
    assert sizes[0] == 4 * np.ceil(2 * textbook / 4)


def test_a_limit_of_a_measure_that_no_mean_can_miss_costs_nothing():
    more = {"measures": {"sold": (0, 1), "lost": (0, 1)}, "objective": "sold"}
    means = {"sold": [[0.30], [0.38]], "lost": [[0.5], [0.5]]}
    sizes = [
        fixed_design(BernoulliEnvironment(Problem(2, 1, ceilings=ceilings, **more), means)).size(
            0.05, POWER
        )
        for ceilings in (None, {"lost": 1.0}, {"lost": {"0": 1.0, "1": None}})
    ]
    assert len(set(sizes)) == 1
