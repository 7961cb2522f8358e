"""Reference tables of Monte Carlo means, with few runs and corresponding tolerances."""

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.allocation import (
    UCB1,
    BernoulliEnvironment,
    FairLearn,
    FairUCB,
    HorizonFairUCB,
    LearningWithFairness,
    Problem,
    UnconstrainedLearner,
)
from papers.fair_mab.instances import headlines
from tests import effort

pytestmark = pytest.mark.statistical

PROBLEM = Problem(3, [0.2, 0.3, 0.25])
ENVIRONMENT = BernoulliEnvironment(PROBLEM, [0.7, 0.5, 0.4])
MILLION = 10**6


# Mean of the r-regret and its 95 % half-width, mean of the running maximum of the violation,
# largest floored violation, share of runs in floored violation: 1,000 runs of 200 rounds.
INSTANCE_2 = [
    (FairUCB(PROBLEM), 0.140, 0.036, 0.50, 0, 0),
    (FairLearn(PROBLEM, UCB1()), 0.144, 0.039, 0.50, 0, 0),
    (FairLearn(PROBLEM, UCB1(), "lazy"), 0.075, 0.024, 0.897, 0, 0),
    (FairLearn(PROBLEM, UCB1(), carry=1), 0.761, 0.054, 0.50, 0, 0),
    (HorizonFairUCB(PROBLEM, 200), 0.114, 0.035, 25.0, 25, 1),
    (UnconstrainedLearner(PROBLEM, UCB1()), -8.73, 0.22, 24.6, 48, 1),
    (LearningWithFairness(PROBLEM, 1), 6.10, 0.02, 0.50, 0, 0),
    (LearningWithFairness(PROBLEM, 3), 3.76, 0.06, 0.50, 0, 0),
    (LearningWithFairness(PROBLEM, 10), 1.83, 0.06, 0.68, 3, 0.17),
    (LearningWithFairness(PROBLEM, 30), 0.19, 0.08, 3.2, 12, 0.8),
    (LearningWithFairness(PROBLEM, 100), -3.39, 0.14, 12.6, 29, 0.995),
]


@pytest.mark.parametrize("row", INSTANCE_2, ids=lambda row: repr(row[0]))
def test_instance_2_has_the_published_regret_and_violation(row):
    """Means within 4 combined standard errors."""
    policy, regret, half_width, violation, worst, share = row
    runs = effort.runs(100, whole=1000)
    found = ft.simulate(policy, ENVIRONMENT, runs, seed=1, horizon=200, progress=False).metrics
    own = found["r_regret"].std() / np.sqrt(runs)
    assert abs(found["r_regret"].mean() - regret) < 4 * np.hypot(own, half_width / 1.96)
    spread = max(found["violation"].std(), 0.05)
    assert (
        abs(found["violation"].mean() - violation)
        < 4 * np.sqrt(1 / runs + 1 / 1000) * spread + 0.05
    )
    broken = (found["floored_violation"] > 0).mean()
    assert abs(broken - share) <= 4 * np.sqrt(share * (1 - share) * (1 / runs + 1 / 1000)) + 0.005
    if worst in (0, 25):
        assert found["floored_violation"].max() == worst


# ------------------------------------------------------------- a tolerance, a long run

# The gaps of the nine suboptimal arms, for two readings of the index.
GAPS = {"A": [0.01 * i for i in range(2, 11)], "B": [0.01 * i for i in range(1, 10)]}

# Tolerance, mean regret and its 95 % half-width (50 runs), mean of the largest violation.
INSTANCE_1 = [
    ("A", 0, 27_004.8, 7.1, 0.45),
    ("A", 20_000, 16_398.8, 36.1, 20_000.4),
    ("A", 40_000, 6_548.1, 57.0, 40_000.3),
    ("A", 45_000, 4_593.0, 67.9, 45_000.2),
    ("A", 47_000, 4_094.8, 70.8, 47_000.1),
    ("A", 48_000, 4_019.1, 75.6, 47_636),
    ("A", 50_000, 4_016.9, 76.0, 47_659),
    ("B", 0, 22_925.9, 35.6, None),
    ("B", 20_000, 14_359.3, 49.9, None),
    ("B", 40_000, 6_496.2, 80.5, None),
    ("B", 47_000, 4_729.9, 89.9, None),
    ("B", 50_000, 4_706.1, 93.8, None),
]
R_REGRET = {0: 4.8, 20_000: 198.8, 40_000: 1_148.1, 45_000: 1_893.0, 47_000: 2_474.8} | {
    48_000: 2_939.1,
    50_000: 4_016.9,
}


def instance_1(index, unfairness_tolerance=0):
    problem = Problem(10, 0.05, unfairness_tolerance)
    return problem, BernoulliEnvironment(problem, [0.8, *(0.8 - gap for gap in GAPS[index])])


def tolerated(half_width, runs, reference_runs=50):
    """Return 4 combined standard errors; a run's spread follows from the published half-width."""
    return 4 * half_width / 1.96 * np.sqrt(1 + reference_runs / runs)


@pytest.mark.parametrize(
    ("index", "unfairness_tolerance", "regret", "half_width", "violation"), INSTANCE_1
)
def test_instance_1_pays_for_its_tolerance_as_published(
    index, unfairness_tolerance, regret, half_width, violation
):
    """Fair-UCB for a million rounds; within 4 combined standard errors."""
    runs = effort.runs(3, whole=6)
    problem, environment = instance_1(index, unfairness_tolerance)
    policy = FairUCB(problem)
    found = ft.simulate(policy, environment, runs, seed=2, horizon=MILLION, progress=False).metrics
    assert abs(found["regret"].mean() - regret) < tolerated(half_width, runs)
    assert (found["floored_violation"] <= unfairness_tolerance).all()
    if index == "A":
        error = tolerated(half_width, runs)
        assert abs(found["r_regret"].mean() - R_REGRET[unfairness_tolerance]) < error
    if violation is not None and unfairness_tolerance <= 45_000:
        # Quotas bind and determine the violation to within a pull.
        np.testing.assert_allclose(found["violation"], violation, atol=0.55)
    elif violation is not None:
        # Quotas hardly bind, so the violation is that of UCB1: 50,000 minus about 2,300 pulls. Its
        # spread is not published, so it is estimated from these runs.
        spread = max(found["violation"].std(ddof=1), 50)
        assert abs(found["violation"].mean() - violation) < 4 * spread * np.sqrt(1 / runs + 1 / 50)


# ------------------------------------------------------------------ r-regret over time

TIMES = (10**3, 10**4, 10**5, 3 * 10**5, 10**6)

# Mean r-regret and half-width (50 runs) at each time; the largest floored violation at the end.
OVER_TIME = {
    None: ([21.8, 136, 271, 182, 4.9], [0.6, 5, 17, 26, 6.7], 0),
    1000: ([26.4, 132, 368, 405, 402], [0.2, 5, 18, 22, 22], 57),
    100: ([26.6, 140, 464, 624, 721], [0.1, 4, 22, 31, 40], 0),
    10: ([26.8, 192, 1_475, 3_802, 10_814], [0.1, 3, 19, 43, 95], 0),
}


@pytest.mark.parametrize("eta", OVER_TIME, ids=str)
def test_r_regret_over_time_is_the_published_hump_or_climb(eta):
    """Within 4 combined standard errors, and the rounding of the table."""
    runs = effort.runs(3, whole=6)
    problem, environment = instance_1("A")
    policy = FairUCB(problem) if eta is None else LearningWithFairness(problem, eta)
    means, half_widths, violation = OVER_TIME[eta]
    for time, mean, half_width in zip(TIMES, means, half_widths, strict=True):
        found = ft.simulate(policy, environment, runs, seed=5, horizon=time, progress=False).metrics
        rounding = 0.5 if mean > 100 else 0.05
        own = max(half_width, 0.3)
        assert abs(found["r_regret"].mean() - mean) < tolerated(own, runs) + rounding, time
    worst = found["floored_violation"].max()
    assert worst == 0 if violation == 0 else 20 < worst < 150


# Mean over runs of the largest r_i t - N_i at t = 200, 2,000 and 20,000.
LATE = {10: (-1.8, -1.5, -1.3), 100: (11, 20.5, 23.7), 1000: (24.5, 198, 278)}


@pytest.mark.parametrize("eta", LATE)
def test_queues_leave_an_arm_behind_by_about_eta_times_its_gap_for_good(eta):
    """Within 4 standard errors of two such means, because no spread is published."""
    runs = effort.runs(40, whole=100)
    policy = LearningWithFairness(PROBLEM, eta)
    for time, published in zip((200, 2_000, 20_000), LATE[eta], strict=True):
        result = ft.simulate(policy, ENVIRONMENT, runs, seed=9, horizon=time, progress=False)
        owed = time * np.array([float(share) for share in PROBLEM.shares])
        behind = (owed - result.pulls).max(axis=1)
        error = 4 * behind.std(ddof=1) * np.sqrt(2 / runs)
        assert abs(behind.mean() - published) < error + 0.5, time


def test_the_default_learner_gains_more_than_ucb1_where_clicks_are_rare():
    """At least three times as much on some of the headline tests, beyond 4 standard errors."""
    gains = {}
    tests = headlines()[:: effort.runs(25, whole=10)]
    for learner in (None, UCB1()):
        served = []
        for number, test in enumerate(tests):
            policy = FairLearn(test.problem, learner, seed=number)
            visitors = np.random.default_rng(number)
            run = policy.compiled_run(test.environment(), visitors, test.impressions)
            served.append(run.pulls @ np.array(test.rates) - test.impressions * np.mean(test.rates))
        gains[learner is None] = np.array(served)
    more = gains[True] - 3 * gains[False]
    assert more.sum() > 4 * more.std() * np.sqrt(len(tests))
    assert repr(FairLearn(PROBLEM)._learner) == "Thompson()"
