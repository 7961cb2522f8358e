"""Stopping times compared with the reference, and error rates on misleading instances."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.delayed import (
    InformationRacing,
    OutcomeDelay,
    Problem,
    Racing,
    SimulatedEnvironment,
    UniformDelay,
)
from tests import effort

pytestmark = pytest.mark.statistical

RULES = {
    "race-full": lambda problem: Racing(problem, variant="full"),
    "race-partial": lambda problem: Racing(problem, variant="partial"),
    "proven": Racing,
    "info-box": lambda problem: InformationRacing(problem, test="box", sampling="uniform"),
    "info-pair": lambda problem: InformationRacing(problem, sampling="uniform"),
    "info-lucb": InformationRacing,
}
# Mean time and its standard error by rule, from an independent implementation.
TIMES = {
    ("bounded", 10, 1): [(1011, 20), (833, 22), (559, 16), (490, 16), (374, 13), (371, 13)],
    ("bounded", 10, 10): [
        (134, 3), (99.7, 2.1), (70.2, 2.1), (9.1, 1.5), (4.2, 0.8), (4.0, 0.8),
    ],
    ("bounded", 20, 10): [(520, 11), (475, 11), (306, 8), (193, 9), (113, 8), (112, 8)],
    ("free", 10, 10): [(859, 17), (781, 17), (474, 15), (317, 14), (170, 12), (171, 12)],
    ("free", 100, 10): [(1938, 35), (1323, 37), (943, 27), (780, 25), (647, 24), (642, 22)],
}  # fmt: skip


def instance(kind, arms):
    places = np.arange(arms, dtype=float)
    if kind == "free":
        return 2 * arms - places, 0.5, 0.25, 100.0
    return 5 - (places / arms) ** 0.6, 0.03, 0.03, 50.0


@pytest.mark.parametrize("case", list(TIMES), ids=str)
def test_stopping_times_are_those_of_an_independent_implementation(case):
    kind, arms, parallel = case
    means, std, reading_std, delay = instance(kind, arms)
    problem = Problem(
        arms, top=arms // 5, noise_std=std, feedback="unbiased", reading_std=reading_std
    )
    runs = effort.runs(8, whole=25) if arms == 100 else effort.runs(25, whole=80)
    times = {name: np.empty(runs) for name in RULES}
    for run in range(runs):
        for name, make in RULES.items():
            generator = np.random.default_rng([run, 11])
            order = generator.permutation(arms)
            environment = SimulatedEnvironment(problem, means[order], delay=delay)
            found = make(problem).compiled_run(environment, generator, None, parallel)
            assert environment.truth.accepts(found.answer)
            times[name][run] = found.elapsed
    for (name, found), (mean, error) in zip(times.items(), TIMES[case], strict=True):
        own = found.std(ddof=1) / math.sqrt(runs)
        # Four standard errors of the difference of two independent means.
        assert abs(found.mean() - mean) < 4 * math.hypot(own, error), (name, found.mean())


def most_wrong(runs, delta=0.05):
    """Return a number of wrong runs that is exceeded with probability below 1e-4 at delta."""
    return runs * delta + 4 * math.sqrt(runs * delta * (1 - delta))


HOW = {
    "full": {},
    "unbiased": {"reading_std": 0.5},
    "biased": {"reading_std": 0.5},
    "refining": {"reading_std": 0.5, "errors": "nested"},
    "incremental": {"duration": 10},
}
HARD = [
    *[(feedback, test) for feedback in HOW for test in ("pairwise", "box")],
    *[(feedback, "proven") for feedback in HOW if feedback != "refining"],
]


@pytest.mark.parametrize(("feedback", "rule"), HARD)
def test_nearly_equal_arms_are_seldom_told_apart_wrongly(feedback, rule):
    problem = Problem(2, noise_std=1.0, feedback=feedback, **HOW[feedback])
    policy = Racing(problem) if rule == "proven" else InformationRacing(problem, test=rule)
    delay = None if feedback == "incremental" else UniformDelay(1, 20)
    bias = {"bias": [3.0, -3.0]} if feedback == "biased" else {}
    environment = SimulatedEnvironment(problem, [0.0, 0.02], delay=delay, loss=0.1, **bias)
    runs = effort.runs(60, whole=200)
    assert wrong(policy, environment, runs=runs, horizon=150, parallel=4) <= most_wrong(runs)


def wrong(policy, environment, runs, horizon, parallel):
    found = 0
    for run in range(runs):
        generator = np.random.default_rng([run, 5])
        result = policy.clone().compiled_run(environment, generator, horizon, parallel)
        found += result.status == "decided" and not environment.truth.accepts(result.answer)
    return found


@pytest.mark.parametrize("test", ["pairwise", "box"])
def test_delays_that_depend_on_outcomes_mislead_only_who_does_not_say_so(test):
    def with_flag(flag):
        problem = Problem(2, noise_std=1.0, delay_depends_on_outcome=flag)
        # The better arm's bad outcomes arrive first, its good ones after a decision.
        delay = OutcomeDelay([50, 1], [50, 20000])
        environment = SimulatedEnvironment(problem, [0.0, 0.3], delay=delay)
        policy = InformationRacing(problem, test=test, sampling="uniform")
        return wrong(policy, environment, runs=60, horizon=1500, parallel=100)

    assert with_flag(True) <= most_wrong(60)
    assert with_flag(False) > 30


@pytest.mark.parametrize("cls", [InformationRacing, Racing])
def test_stopping_pulls_for_their_readings_misleads_nobody(cls):
    problem = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.3)
    found, runs = 0, effort.runs(60, whole=150)
    for run in range(runs):
        policy = cls(problem)
        rng = np.random.default_rng(run)
        while not policy.stopped and policy.asked < 60:
            pull = policy.ask()
            outcome = rng.normal(0.02 * pull.action)
            reading = outcome + 0.3 * rng.normal()
            policy.report(pull, reading, stage=1)
            # An adversary that wants the first arm to win stops its bad pulls, and the other's good
            # ones.
            unwanted = reading < 0 if pull.arm == "0" else reading > 0
            if policy.stopped:
                break
            if unwanted:
                policy.fail(pull, "user")
            else:
                policy.tell(pull, outcome)
        found += policy.recommend().arm == ("0",)
    assert found <= most_wrong(runs)


def test_full_feedback_covers_noise_that_is_not_normal():
    # Coins: outcomes 0 and 1 are sub-Gaussian with scale one half.
    problem, runs = Problem(2, reward_range=(0, 1)), effort.runs(60, whole=200)
    for policy in (InformationRacing(problem), Racing(problem)):
        found = 0
        for run in range(runs):
            rng = np.random.default_rng(run)
            own = policy.clone()
            while not own.stopped and own.asked < 120:
                pull = own.ask()
                own.tell(pull, float(rng.random() < 0.5 + 0.01 * pull.action))
            found += own.recommend().arm == ("0",)
        assert found <= most_wrong(runs)


# ------------------------------------------------ stops that select among the outcomes

# Twice the error that delta = .05 allows in 30 runs would be 3 wrong; a fooled race errs in most.
STOPPED_RUNS, STOPPED_PULLS = 30, 300


def wrong_if_stopped(race, *, hold_one_open: bool, second_reading: bool) -> int:
    """Return how often the worse arm wins when its bad pulls are stopped on sight.

    The arms are .02 sigma apart. With `hold_one_open` the first pull of each arm never ends;
    with `second_reading` a pull is stopped because of a second, nearly exact reading.
    """
    wrong = 0
    for seed in range(STOPPED_RUNS):
        policy, rng = race(), np.random.default_rng([5, seed])
        held: set[str] = set()
        for _ in range(STOPPED_PULLS):
            if policy.stopped:
                break
            pull = policy.ask()
            outcome = rng.normal(0.02 if pull.arm == "good" else 0.0)
            deviation = 2.0 if second_reading else 0.1
            more = {"std": deviation} if second_reading else {}
            seen = outcome + deviation * rng.normal()
            policy.report(pull, seen, stage=1, **more)
            if second_reading and not policy.stopped:
                policy.report(pull, outcome, stage=2, std=0.01)
                seen = outcome
            if policy.stopped:
                break
            if hold_one_open and pull.arm not in held:
                held.add(pull.arm)
            elif pull.arm == "bad" and seen < 0.0:
                policy.fail(pull, "user")
            else:
                policy.tell(pull, outcome)
        answer = policy.recommend()
        wrong += answer.decided and answer.arm == ("bad",)
    return wrong


@pytest.mark.parametrize(
    ("feedback", "failure"), [("unbiased", None), ("biased", None), ("unbiased", "independent")]
)
def test_the_proven_race_is_not_fooled_by_stops_among_the_pulls_that_it_does_not_follow(
    feedback, failure
):
    problem = Problem(
        ["good", "bad"], noise_std=1.0, feedback=feedback, reading_std=0.1, failure=failure
    )

    def race() -> Racing:
        return Racing(problem, delta=0.05, variant="proven")

    assert wrong_if_stopped(race, hold_one_open=True, second_reading=False) <= 3


def test_a_stop_because_of_a_reading_that_does_not_count_fools_nobody() -> None:
    problem = Problem(
        ["good", "bad"], noise_std=1.0, feedback="refining", errors="first", target_std=2.0
    )

    def race() -> InformationRacing:
        return InformationRacing(problem, delta=0.05)

    assert wrong_if_stopped(race, hold_one_open=False, second_reading=True) <= 3
