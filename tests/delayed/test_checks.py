"""Labels that follow the data: results that contradict a race's own assumptions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from fairtrial.confidence.noise_test import FALSE_ALARM
from fairtrial.core.recommendation import PREDICTABLE
from fairtrial.core.run import run_policy
from fairtrial.delayed import (
    BlockBetting,
    InformationRacing,
    OutcomeDelay,
    PairedRacing,
    Problem,
    Racing,
    SimulatedEnvironment,
    UniformDelay,
)
from fairtrial.delayed.policies.assumption_tests import (
    ERROR_COLUMNS,
    log_evidence_against_errors,
    log_evidence_of_delays,
    log_evidence_of_losses,
    record_reading,
    spread_of_results,
)
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests import effort
from tests.delayed.adversaries import Table, lets_bad_outcomes_of_the_good_arm_in_first
from tests.messages import raises

ARMS = ["bad", "good"]
RACES = [InformationRacing, lambda problem: Racing(problem, variant="full")]


@pytest.mark.parametrize(
    ("rule", "says_so"),
    [
        (InformationRacing, True),
        (lambda problem: InformationRacing(problem, sampling="top_two"), False),
        (lambda problem: Racing(problem, variant="full"), True),
        (PairedRacing, True),
        (BlockBetting, False),
    ],
)
def test_a_rule_whose_pulls_follow_from_the_results_says_so(rule, says_so):
    guarantee = rule(Problem(ARMS, noise_std=1.0)).guarantee
    assert (PREDICTABLE in guarantee.assumptions) == says_so


# ----------------------------------------------------------------------------- losses


def race_that_loses_good_results(race, seed):
    """Lose half of the better arm's results, the good ones."""
    rng = np.random.default_rng(seed)
    while not race.stopped and race.asked < 2000:
        pull = race.ask()
        value = rng.normal(0.5 * (pull.arm == "good"))
        if pull.arm == "good" and value > 0.0:
            race.fail(pull, "lost")
        else:
            race.tell(pull, value)
    return race.recommend()


@pytest.mark.parametrize("make", RACES)
def test_an_answer_from_selected_losses_is_not_called_proven(make):
    answers = [race_that_loses_good_results(make(Problem(ARMS, noise_std=1.0)), s) for s in (1, 2)]
    assert all(answer.arm == ("bad",) for answer in answers)
    assert not any(answer.guarantee.proven for answer in answers)


def test_losses_declared_independent_keep_the_proof_unless_arms_differ_in_them():
    problem = Problem(ARMS, noise_std=1.0, failure="independent")
    even = InformationRacing(problem, sampling="uniform")
    for number in range(60):
        pull = even.ask()
        if number % 5 == 0:
            even.fail(pull, "lost")
        else:
            even.tell(pull, 0.0)
    assert even.guarantee.proven
    answer = race_that_loses_good_results(InformationRacing(problem), 1)
    assert answer.arm == ("bad",)
    assert not answer.guarantee.proven
    assert "lose far more" in answer.guarantee.assumptions[-1]


def test_a_lost_pull_on_a_decided_arm_takes_no_proof_away():
    race = InformationRacing(Problem(3, top=1, noise_std=1.0))
    while race.recommend().candidates == ("0", "1", "2"):
        pull = race.ask()
        race.tell(pull, {"0": 0.0, "1": 0.1, "2": -40.0}[pull.arm])
    race.tell(race.problem.pull(arm="2"), -40.0)
    pulls = race.ask(4)
    before = race.guarantee.proven
    late = InformationRacing(Problem(3, top=1, noise_std=1.0))
    late.set_state(race.get_state())
    assert late.guarantee == race.guarantee
    race.fail(pulls[0], "lost")
    assert before
    assert not race.guarantee.proven


# ----------------------------------------------------------------------------- delays


def test_delays_by_outcome_with_the_switch_off_do_not_end_in_a_proven_wrong_answer():
    problem = Problem(2, noise_std=1.0)
    # The better arm's bad outcomes arrive first, its good ones after the decision.
    environment = SimulatedEnvironment(
        problem, [0.0, 0.3], delay=OutcomeDelay([50, 1], [50, 20000])
    )
    wrong = proven = 0
    for seed in range(6):
        race = InformationRacing(problem, sampling="uniform")
        run_policy(race, environment, np.random.default_rng([seed, 5]), 300, parallel=100)
        answer = race.recommend()
        wrong += answer.arm == ("0",)
        proven += answer.arm == ("0",) and answer.guarantee.proven
    assert wrong >= 3
    assert proven == 0


def test_delays_by_outcome_are_found_while_the_race_runs():
    problem = Problem(2, noise_std=1.0)
    environment = SimulatedEnvironment(problem, [0.0, 0.0], delay=OutcomeDelay(1, 60))
    race = InformationRacing(problem, delta=1e-9, max_pulls=150)
    run_policy(race, environment, np.random.default_rng(4), 400, parallel=10)
    assert any("late ones differ" in text for text in race.guarantee.assumptions)
    assert not race.guarantee.proven
    careful = Problem(2, noise_std=1.0, delay_depends_on_outcome=True)
    environment = SimulatedEnvironment(careful, [0.0, 0.0], delay=OutcomeDelay(1, 60))
    race = InformationRacing(careful, delta=1e-9, max_pulls=100)
    run_policy(race, environment, np.random.default_rng(4), 400, parallel=10)
    assert race.guarantee.proven


def test_chance_delays_leave_the_label_alone():
    problem = Problem(3, noise_std=1.0)
    environment = SimulatedEnvironment(problem, [0.0, 1.0, 2.0], delay=UniformDelay(1, 60))
    labels = []
    for seed in range(5):
        race = InformationRacing(problem, delta=0.01)
        run_policy(race, environment, np.random.default_rng(seed), 400, parallel=4)
        assert race.recommend().decided
        labels.append(race.guarantee.label)
    assert labels == ["proven"] * 5


def test_whoever_picks_what_comes_first_seldom_gets_a_wrong_answer_called_proven():
    problem = Problem(ARMS, noise_std=1.0)
    wrong = proven = 0
    for seed in range(25):
        race = InformationRacing(problem)
        table = Table(race, np.random.default_rng([seed, 23]), 0.3)
        while not race.stopped and race.asked < 60:
            lets_bad_outcomes_of_the_good_arm_in_first(table)
        answer = race.recommend()
        wrong += answer.arm == ("bad",)
        proven += answer.arm == ("bad",) and answer.guarantee.proven
    assert wrong >= 5
    # In 400 longer runs, 10 were wrong and proven; 5 of 25 would be eight times this rate.
    assert proven <= 4


def test_the_label_is_restored_with_the_state():
    problem = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.1)
    race = InformationRacing(problem, delta=1e-6)
    for number, pull in enumerate(race.ask(12)):
        race.report(pull, 3.0 + number)
        if number % 3:
            race.tell(pull, 0.5 * number)
            again = InformationRacing(problem, delta=1e-6)
            again.set_state(race.get_state())
            assert again.guarantee == race.guarantee
            assert again.recommend() == race.recommend()
    assert not race.guarantee.proven


# ------------------------------------------------------------------------------ noise


@pytest.mark.statistical
def test_a_noise_stated_at_a_third_seldom_gives_a_wrong_answer_that_is_called_proven():
    wrong = proven = 0
    for seed in range(100):
        race = InformationRacing(Problem(2, noise_std=1.0), max_pulls=60)
        rng = np.random.default_rng(seed)
        while not race.stopped:
            race.tell(race.ask(), 3.0 * rng.normal())
        answer = race.recommend()
        wrong += answer.decided
        proven += answer.decided and answer.guarantee.proven
    assert wrong > 50
    # About 4 of 100 were measured; three standard errors above twice that.
    assert proven <= 16


def test_a_race_that_could_not_test_its_noise_is_not_called_proven():
    race = InformationRacing(Problem(2, noise_std=1.0))
    while not race.stopped:
        pull = race.ask()
        race.tell(pull, 50.0 * pull.action)
    assert race.told < 6
    assert "too few results repeat an arm" in race.guarantee.assumptions[-1]
    for value in (50.0, 50.3, 49.2, 51.0, 50.1, 49.5):
        race.tell(race.problem.pull(arm="1"), value)
    assert race.guarantee.proven


@pytest.mark.parametrize(
    "more",
    [
        {"feedback": "unbiased"},
        {"feedback": "refining", "errors": "nested"},
        {"feedback": "refining", "errors": "first", "target_std": 0.2},
    ],
)
def test_one_outcome_that_contradicts_its_reading_takes_the_proof_away(more):
    race = InformationRacing(Problem(2, noise_std=1.0, reading_std=0.1, **more))
    pull = race.ask()
    race.report(pull, 5.0)
    assert race.guarantee.proven
    assert race.warnings() == ()
    race.tell(pull, 0.0)
    assert "readings are as accurate as stated" in race.guarantee.assumptions[-1]
    assert not race.guarantee.proven
    (warning,) = race.warnings()
    assert "readings are as accurate as stated" in warning


def test_readings_of_one_pull_that_contradict_each_other_do_so_before_its_outcome():
    race = InformationRacing(Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.1))
    pull = race.ask()
    race.report(pull, 5.0)
    race.report(pull, 0.0)
    assert not race.guarantee.proven


def test_a_race_decided_by_readings_alone_is_not_called_proven():
    race = InformationRacing(Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.1))
    first, second = race.ask(2)
    race.report(first, 100.0 * first.action)
    race.report(second, 100.0 * second.action)
    assert race.recommend().decided
    assert "no reading could be compared" in " ".join(race.guarantee.assumptions)
    assert not race.guarantee.proven


def test_pieces_that_spread_more_than_stated_take_the_proof_away():
    race = InformationRacing(Problem(2, noise_std=1.0, feedback="incremental", duration=4))
    pull = race.ask()
    for value in (3.0, -3.0, 3.0):
        race.report(pull, value)
    assert "pieces spread" in race.guarantee.assumptions[-1]


@pytest.mark.statistical
def test_true_assumptions_are_hardly_ever_contradicted():
    runs, alarms = effort.runs(200, whole=600), np.zeros(4)
    rng = np.random.default_rng(8)
    for _ in range(runs):
        number, size = 3, 40
        arms = rng.integers(number, size=size)
        values = 5.0 * arms + rng.normal(size=size)
        lateness = np.sin(np.cumsum(rng.normal(size=size)))
        errors = np.zeros((size, ERROR_COLUMNS))
        for row in errors:
            for reading in values[: rng.integers(4)]:
                record_reading(row, reading, 0.25, nested=False)
        outcomes = np.where(rng.random(size) < 0.5, values, math.nan)
        for row, outcome in zip(errors, values, strict=True):
            row[:] = 0.0
            for _ in range(rng.integers(4)):
                record_reading(row, outcome + 0.5 * rng.normal(), 0.25, nested=False)
        told = rng.binomial(20, 0.7, size=number).astype(float)
        found = [
            max(spread_of_results(arms[:n], values[:n], number).log_evidence for n in (5, 15, 40)),
            max(
                log_evidence_of_delays(arms[:n], values[:n], lateness[:n], number)
                for n in (5, 15, 40)
            ),
            log_evidence_against_errors(errors, outcomes, arms, biased=False),
            log_evidence_of_losses(told, 20 - told),
        ]
        alarms += np.array(found) >= -math.log(10 * FALSE_ALARM)
    # E-values reach 100 with probability .01 at most; four standard errors above it.
    assert (alarms <= 0.01 * runs + 4 * math.sqrt(0.01 * runs)).all()


def test_the_evidence_of_delays_is_that_of_a_regression_with_normal_priors():
    rng = np.random.default_rng(3)
    late = rng.uniform(-1, 1, 12)
    values = 4.0 + 1.5 * late + rng.normal(size=12)
    found = log_evidence_of_delays(np.zeros(12, dtype=int), values, late, 1)
    design = np.stack([np.ones(12), late], axis=1)
    covariance = np.eye(12) + design @ design.T

    def evidence(mean):
        rest = values - mean
        mixed = -0.5 * rest @ np.linalg.solve(covariance, rest)
        return mixed - 0.5 * np.linalg.slogdet(covariance)[1] + 0.5 * rest @ rest

    least = minimize_scalar(evidence, bounds=(0.0, 8.0), method="bounded").fun
    assert found == pytest.approx(least, abs=1e-6)


def test_steps_of_nested_errors_count_with_the_difference_of_their_variances():
    row = np.zeros(ERROR_COLUMNS)
    record_reading(row, 2.0, 4.0, nested=True)
    record_reading(row, 3.0, 1.0, nested=True)
    outcome = np.array([2.5])
    found = log_evidence_against_errors(row[None], outcome, np.zeros(1, dtype=int), biased=False)
    squares = 1.0 / 3.0 + 0.25
    inflations = np.array([1.1, 1.25, 1.6, 2.5, 6.0, 40.0])
    logs = 0.5 * (squares - squares / inflations - 2 * np.log(inflations))
    assert found == pytest.approx(np.log(np.mean(np.exp(logs))))


# ----------------------------------------------------- candidates, evidence and scales


def test_candidates_are_the_arms_that_are_not_rejected():
    race = InformationRacing(Problem(4, top=2, noise_std=1.0), delta=0.05)
    assert race.recommend().candidates == ("0", "1", "2", "3")
    rng = np.random.default_rng(1)
    sizes = []
    while not race.stopped:
        pull = race.ask()
        race.tell(pull, 2.0 * pull.action + rng.normal())
        candidates = race.recommend().candidates
        assert {"2", "3"} <= set(candidates)
        sizes.append(len(candidates))
    assert sizes == sorted(sizes, reverse=True)
    assert race.recommend().candidates == ("2", "3")


@pytest.mark.parametrize("noise_std", [1.0, "estimated"])
def test_the_evidence_stays_at_the_stop_and_is_past_the_threshold(noise_std):
    race = InformationRacing(Problem(3, noise_std=noise_std))
    rng = np.random.default_rng(2)
    while not race.stopped:
        pull = race.ask()
        race.tell(pull, 3.0 * pull.action + rng.normal())
    progress = race.progress()
    assert progress.evidence >= progress.threshold > 0
    assert progress.recommendation.evidence["evidence"] == progress.evidence


@pytest.mark.parametrize("scale", [1e-290, 1e-160, 1e160, 1e290])
@pytest.mark.parametrize(
    ("rule", "feedback"),
    [
        (InformationRacing, "full"),
        (InformationRacing, "unbiased"),
        (InformationRacing, "biased"),
        (Racing, "full"),
        (Racing, "unbiased"),
    ],
)
def test_a_race_in_another_unit_is_the_same_race(scale, rule, feedback):
    unit = 2.0 ** round(math.log2(scale))

    def answers(size):
        more = {} if feedback == "full" else {"reading_std": 0.25 * size}
        problem = Problem(3, noise_std=size, feedback=feedback, tolerance=0.1 * size, **more)
        race = rule(problem)
        rng = np.random.default_rng(6)
        asked = []
        while not race.stopped and race.asked < 120:
            pull = race.ask()
            asked.append(pull.arm)
            value = 0.8 * pull.action + rng.normal()
            reading = value + 0.25 * rng.normal()
            if feedback != "full":
                race.report(pull, reading * size)
            if not race.stopped:
                race.tell(pull, value * size)
        means = [estimate.mean / size for estimate in race.progress().arms]
        return asked, race.recommend().arm, race.guarantee.proven, means

    assert answers(unit) == answers(1.0)


def test_outcomes_whose_sums_would_lose_the_noise_are_refused():
    race = InformationRacing(Problem(2, noise_std=1e-9))
    pull = race.ask()
    with raises(InvalidOutcome, "outcome"):
        race.tell(pull, 1.0)
    assert race.told == 0
    race.tell(pull, 1e-9)
    with raises(InvalidArgument, "noise_std"):
        InformationRacing(Problem(2, noise_std=[1e-30, 1e30]))


def test_duplicates_and_ties_are_never_told_apart():
    for value in (0.0, 1.0, 1e7):
        race = InformationRacing(Problem(3, noise_std=1.0), max_pulls=200)
        while not race.stopped:
            race.tell(race.ask(), value)
        assert race.recommend().arm is None
        assert len(race.recommend().candidates) == 3
