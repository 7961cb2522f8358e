"""Unknown deviations: intervals and pairs by Student's t, and their error rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from fairtrial.core import run_policy
from fairtrial.delayed import (
    InformationRacing,
    LognormalDelay,
    Problem,
    Racing,
    SimulatedEnvironment,
)
from fairtrial.delayed._kernels.student import student_evidence, student_radius
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import simulate
from tests import effort
from tests.delayed.states import arms_of
from tests.messages import raises

UNKNOWN = Problem(2, noise_std="estimated")


def log_bayes_factor(number, t, prior):
    """Return the log of the mean over effects N(0, 1/prior) of the density of t over that at 0."""

    def density(effect):
        shifted = stats.nct.pdf(t, number - 1, effect * math.sqrt(number))
        return shifted * stats.norm.pdf(effect, scale=1 / math.sqrt(prior))

    total, _ = integrate.quad(density, -12, 12, points=[t / math.sqrt(number)], limit=200)
    return math.log(total / stats.t.pdf(t, number - 1))


@pytest.mark.parametrize("number", [2, 3, 10, 40])
@pytest.mark.parametrize("t", [0.0, 0.7, 2.5, 4.0])
def test_the_evidence_of_one_mean_is_the_bayes_factor_of_its_t(number, t):
    # Against an arm without variance, Welch's degrees of freedom are those of the first arm.
    found = student_evidence(t, 1.0, float(number), 0.0, 1e9, 0.5)
    assert found == pytest.approx(log_bayes_factor(number, t, 0.5), rel=1e-5, abs=1e-6)


def test_two_arms_without_variance_have_the_evidence_of_the_smaller_sample():
    assert student_evidence(1.0, 0.0, 3.0, 0.0, 8.0, 0.5) == pytest.approx(math.log(1 + 3 / 0.5))
    assert student_evidence(0.0, 0.0, 3.0, 0.0, 8.0, 0.5) == -0.5 * math.log(1 + 3 / 0.5)


def test_a_tolerance_ends_a_race_when_its_evidence_reaches_the_level():
    slack, values = 2.0, np.random.default_rng(1).normal(size=60).tolist()
    problem = Problem(2, noise_std="estimated", tolerance=slack)
    policy = InformationRacing(problem, delta=1e-4, sampling="uniform")
    for value in values:
        pull = policy.ask()
        policy.tell(pull, value)
        arms = policy._race.arms
        mean, variance, number = arms.estimate, arms.variance, arms.penalty
        if np.isfinite(variance).all():
            first, second = np.argsort(-mean)
            rest = (variance[first], number[first], variance[second], number[second], 0.1)
            found = student_evidence(mean[first] - mean[second] + slack, *rest)
            assert policy.stopped == (found > math.log(1 / 1e-4))
        if policy.stopped:
            return
    raise AssertionError("it never ended")


@settings(max_examples=effort.runs(20, whole=60))
@given(
    number=st.integers(2, 60), variance=st.floats(1e-3, 10), level=st.floats(0.5, 8),
    prior=st.floats(0.05, 2),
)  # fmt: skip
def test_an_interval_ends_where_the_evidence_reaches_its_level(number, variance, level, prior):
    radius = student_radius(variance, float(number), level, prior)
    if radius == math.inf:
        # However large the mean, its evidence stays below the level.
        assert student_evidence(1e12, variance, float(number), 0.0, 1e12, prior) < level * 1.0001
    else:
        found = student_evidence(radius, variance, float(number), 0.0, 1e12, prior)
        assert found == pytest.approx(level, rel=1e-6)


def test_the_degrees_of_freedom_are_those_of_welch():
    # From scipy: the p-value of Welch's test is that of Student's t at these degrees of freedom.
    rng = np.random.default_rng(0)
    one, other = rng.normal(0, 1, 7), rng.normal(1, 3, 12)
    welch = stats.ttest_ind(one, other, equal_var=False)
    variances = [one.var(ddof=1) / 7, other.var(ddof=1) / 12]
    gap, prior = one.mean() - other.mean(), 0.3
    grown = 1 + (welch.df + 1) / prior
    square = welch.statistic**2
    ratio = (welch.df + square) / (welch.df + square / grown)
    expected = 0.5 * ((welch.df + 1) * math.log(ratio) - math.log(grown))
    found = student_evidence(gap, variances[0], 7.0, variances[1], 12.0, prior)
    assert found == pytest.approx(expected, rel=1e-12)


@settings(max_examples=effort.runs(20, whole=40))
@given(outcomes=st.lists(st.floats(-5, 5), min_size=1, max_size=8), shift=st.sampled_from([0, 1e6]))
def test_mean_and_deviation_are_those_of_the_outcomes(outcomes, shift):
    policy = InformationRacing(UNKNOWN, delta=1e-9)
    for value in outcomes:
        policy.tell(UNKNOWN.pull(arm="0"), value + shift)
    arms, unit = policy._race.arms, policy._race.unit
    assert arms.estimate[0] * unit == pytest.approx(np.mean(outcomes) + shift, abs=1e-9)
    if len(outcomes) < 2:
        assert arms.variance[0] == math.inf
    else:
        expected = np.var(outcomes, ddof=1) / len(outcomes)
        assert arms.variance[0] * unit * unit == pytest.approx(expected, abs=1e-8)


def test_nothing_is_said_before_two_outcomes_of_both_arms():
    policy = InformationRacing(UNKNOWN, delta=0.49)
    policy.tell(UNKNOWN.pull(arm="0"), 100.0)
    for value in (0.0, 0.1, 0.2):
        policy.tell(UNKNOWN.pull(arm="1"), value)
    assert not policy.stopped
    assert policy.progress().actions[0].lower is None
    policy.tell(UNKNOWN.pull(arm="0"), 100.1)
    assert policy.recommend().arm == ("0",)


@pytest.mark.parametrize("test", ["pairwise", "box"])
@pytest.mark.parametrize("more", [{}, {"delay_depends_on_outcome": True}, {"tolerance": 1.0}])
def test_a_compiled_run_is_the_plain_loop(test, more):
    problem = Problem(4, top=2, noise_std="estimated", feedback="unbiased", reading_std=0.5, **more)
    environment = SimulatedEnvironment(
        problem, [0.0, 4.0, 0.0, 5.0], std=[1.0, 0.3, 2.0, 1.0], delay=LognormalDelay(5.0, 0.5)
    )
    slow, fast = (InformationRacing(problem, test=test) for _ in range(2))
    expected = run_policy(slow, environment, np.random.default_rng(2), 400, 4)
    found = fast.compiled_run(environment, np.random.default_rng(2), 400, 4)
    assert found.answer == expected.answer
    assert set(found.answer) == {"1", "3"}
    assert found.elapsed == expected.elapsed
    assert found.metrics["readings"] == 0
    assert np.array_equal(arms_of(slow), arms_of(fast))
    assert not fast.guarantee.proven
    assert "not proven" in fast.guarantee.assumptions[0]


def test_evidence_and_threshold_are_what_decides():
    policy, rng = InformationRacing(UNKNOWN), np.random.default_rng(0)
    while not policy.stopped:
        before = policy.progress()
        pull = policy.ask()
        policy.tell(pull, rng.normal(2.0 * pull.action))
    assert before.evidence <= before.threshold == pytest.approx(math.log(1 / 0.05))
    assert policy.recommend().arm == ("1",)


def test_what_contradicts_unknown_deviations_is_refused():
    for more in ({"noise": "subgaussian"}, {"reward_range": (0, 1)}):
        with raises(InvalidArgument):
            Problem(2, noise_std="estimated", **more)
    with raises(InvalidArgument, "problem"):
        Racing(UNKNOWN, variant="full")
    with raises(InvalidArgument, "std"):
        SimulatedEnvironment(UNKNOWN, [0.0, 1.0])
    assert np.isnan(UNKNOWN.scale).all()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("test", "std"), effort.pairs(["pairwise", "box"], [[1.0, 1.0], [0.2, 5.0]])
)
def test_it_seldom_errs_on_normal_outcomes(test, std):
    policy = InformationRacing(UNKNOWN, test=test)
    environment = SimulatedEnvironment(UNKNOWN, [0.0, 0.01], std=std)
    wrong = 0
    for seed in range(400):
        run = policy.clone().compiled_run(environment, np.random.default_rng([seed, 8]), 150, 2)
        wrong += run.answer == ("0",)
    # Four standard errors above delta = .05.
    assert wrong <= 400 * 0.05 + 4 * math.sqrt(400 * 0.05 * 0.95)


def outcomes_of(style, seed, number):
    generator = np.random.default_rng(seed)
    drawn = generator.normal(size=number)
    return {
        "normal": drawn,
        "rare": (drawn > 1.7).astype(float),
        "zero at first": np.where(np.arange(number) < 12, 0.0, drawn),
        "far from zero": drawn + 1e6,
    }[style]


VARIANTS = [
    ({}, {}),
    ({}, {"sampling": "uniform"}),
    ({}, {"sampling": "top_two"}),
    ({}, {"test": "box"}),
    ({"tolerance": 0.3, "top": 2}, {}),
    ({"direction": "minimize", "tolerance": 0.3}, {"test": "box"}),
    ({"delay_depends_on_outcome": True}, {}),
    ({"failure": "outcome", "failure_value": -0.25}, {}),
]


@pytest.mark.parametrize("style", ["normal", "rare", "zero at first", "far from zero"])
@pytest.mark.parametrize(("given", "options"), VARIANTS)
def test_the_unit_of_outcomes_changes_no_pull_and_no_number(style, given, options):
    """Powers of two multiply without rounding, so everything must be the same."""

    def found(unit):
        in_unit = {
            name: value * unit if name in ("tolerance", "failure_value") else value
            for name, value in given.items()
        }
        problem = Problem(4, noise_std="estimated", **in_unit)
        policy = InformationRacing(problem, delta=0.2, seed=3, **options)
        values, pulled, shown = outcomes_of(style, 5, 80), [], []
        order = np.random.default_rng(6)
        while not policy.stopped and len(pulled) < 80:
            pulled += [pull.action for pull in policy.ask(3)]
            pulls = policy.outstanding()
            for place in order.permutation(len(pulls))[:3]:
                pull = pulls[place]
                if "failure_value" in given and pull.number % 9 == 4:
                    policy.fail(pull, "lost")
                elif not policy.stopped:
                    policy.tell(pull, unit * (0.4 * pull.action + float(values[pull.number % 80])))
            progress = policy.progress()
            shown.append((progress.evidence, progress.recommendation.candidates))
        ends = [(one.mean, one.lower, one.upper) for one in policy.progress().actions]
        ends = [[None if end is None else end / unit for end in three] for three in ends]
        return pulled, shown, policy.recommend().arm, ends

    expected = found(1.0)
    for unit in effort.first(2, [2.0**-900, 2.0**530, 2.0**-530, 2.0**-60, 2.0**40, 2.0**900]):
        assert found(unit) == expected


def test_a_far_larger_outcome_than_all_before_is_kept_with_them():
    policy = InformationRacing(UNKNOWN, delta=0.05, sampling="uniform")
    for number in range(40):
        pull = policy.ask()
        size = 1e-200 if number < 4 else 1.0
        policy.tell(pull, size * (1.0 + pull.action + number % 3))
        if policy.stopped:
            break
    means = [one.mean for one in policy.progress().actions]
    assert means == pytest.approx([1.8, 2.8], abs=0.15)
    assert policy.recommend().leader == ("1",)


def test_a_race_in_another_unit_can_be_saved_and_corrected():
    def told(mistake):
        policy = InformationRacing(UNKNOWN, delta=1e-9)
        for number in range(20):
            pull, value = policy.ask(), 1e200 * (number % 5)
            if mistake:
                policy.tell(pull, 2.0 * value)
                state, policy = policy.get_state(), policy.clone()
                policy.set_state(state)
                policy.amend(pull, 2.0 * value, value)
            else:
                policy.tell(pull, value)
        return [(one.mean, one.lower, one.upper) for one in policy.progress().actions]

    assert told(mistake=True) == told(mistake=False)


@pytest.mark.parametrize("given", [{}, {"failure_value": -0.5}])
def test_simulated_runs_are_the_same_in_every_unit(given):
    def simulated(unit):
        own = {name: value * unit for name, value in given.items()}
        problem = Problem(3, noise_std="estimated", **own)
        environment = SimulatedEnvironment(
            problem, np.array([0.0, 0.5, 1.5]) * unit, std=unit, delay=3.0, loss=0.1
        )
        run = InformationRacing(problem, max_pulls=60)
        found = simulate(run, environment, replications=3, parallel=3, seed=4)
        return found.stopping_time.tolist(), found.error_rate, found.pulls.tolist()

    assert simulated(2.0**-900) == simulated(2.0**600) == simulated(1.0)
