"""What rewards can contradict: the stated noise and linear means; and what is not ruled out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fairtrial.confidence.noise_kernels import record_result, replace_result
from fairtrial.confidence.noise_test import NoiseTest
from fairtrial.core import Policy
from fairtrial.core.recommendation import PREDICTABLE
from fairtrial.errors import InvalidArgument
from fairtrial.linear import (
    BlockBetting,
    FrankWolfeSampling,
    GAllocation,
    LinGapE,
    ODLinBAI,
    Problem,
    Rage,
    XYAdaptive,
    XYAllocation,
)
from fairtrial.linear.policies.checks import log_evidence
from tests import effort
from tests.messages import raises

RULES = [BlockBetting, LinGapE, GAllocation, Rage, XYAdaptive]


def finish(policy: Policy, means: np.ndarray, noise: float, seed: int) -> Policy:
    rng = np.random.default_rng(seed)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, means[pull.action] + noise * rng.normal())
    return policy


def observed(policy: Policy, means: np.ndarray, noise: float) -> Policy:
    """Tell twenty unsolicited results of every arm in turn, which count like others."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        for action, mean in enumerate(means):
            policy.tell(policy.problem.pull(arm=str(action)), float(mean + noise * rng.normal()))
    return policy


@pytest.mark.parametrize(
    ("rule", "says_so"),
    [
        (LinGapE, True),
        (Rage, True),
        (XYAdaptive, True),
        (GAllocation, False),
        (BlockBetting, False),
        (lambda problem: BlockBetting(problem, randomize=False), True),
    ],
)
def test_a_rule_whose_pulls_follow_from_the_results_says_so(rule, says_so: bool) -> None:
    policy = rule(Problem([[1.0, 0.0], [0.0, 1.0]], noise_std=1.0))
    assert (PREDICTABLE in policy.guarantee.assumptions) == says_so


# ------------------------------------------------------------------------ against slow sums


def slow_log_evidence(problem: Problem, told: list[tuple[int, float]], early: int) -> float:
    """The two e-values by their definition: one prediction after the other."""
    rows = problem.features / problem.scale[:, None]
    inflations = np.array([1.1, 1.25, 1.6, 2.5, 6.0, 40.0])

    def against(tested: list[int], errors: list[float], variances: list[float]) -> float:
        if len(tested) == len(told):
            wide = [
                one(tested, errors, [h if h > 0 else 16.0**power for h in variances])
                for power in range(21)
            ]
            return float(np.logaddexp.reduce(wide)) - math.log(21)
        return one(tested, errors, variances)

    def one(tested: list[int], errors: list[float], variances: list[float]) -> float:
        x, y = rows[[told[t][0] for t in tested]], np.array([told[t][1] for t in tested])
        residual = float(((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2).sum())
        e, h = np.array(errors), np.array(variances)
        logs = [
            0.5 * residual - 0.5 * float((e**2 / (v * h) + np.log(v * h)).sum()) for v in inflations
        ]
        return float(np.logaddexp.reduce(logs)) - math.log(6)

    fit: list[tuple[int, float, float]] = []
    own: list[tuple[int, float, float]] = []
    for t, (arm, reward) in enumerate(told):
        x = rows[[k for k, _ in told[:t]]]
        y = np.array([r for _, r in told[:t]])
        if t >= early:
            inverse = np.linalg.inv(x.T @ x)
            fit.append((t, reward - rows[arm] @ inverse @ x.T @ y,
                        1 + rows[arm] @ inverse @ rows[arm]))  # fmt: skip
        before = [r for k, r in told[:t] if k == arm]
        if before:
            own.append((t, reward - float(np.mean(before)), 1 + 1 / len(before)))
    found = []
    for steps in (fit, own):
        # The first rewards are left out, or predicted to be 0 with a large variance.
        rest = [(t, told[t][1], 0.0) for t in range(len(told)) if t not in {s[0] for s in steps}]
        found += [against(*map(list, zip(*chosen, strict=True)))  # type: ignore[arg-type]
                  for chosen in (steps, [*steps, *rest])]  # fmt: skip
    return float(np.logaddexp.reduce(found)) - math.log(4)


def test_the_evidence_is_that_of_one_prediction_after_the_other() -> None:
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(6, 3)), noise_std=[1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    record, early = NoiseTest.empty_record(6), NoiseTest.empty_record(6)
    told: list[tuple[int, float]] = []
    for t in range(40):
        arm = t if t < 4 else int(rng.integers(6))
        told.append((arm, float(1e5 + rng.normal() + 3.0 * (arm == 5))))
        record_result(record, *told[-1])
        if t == 3:
            early = record.copy()
    slow = slow_log_evidence(problem, told, early=4)
    assert log_evidence(problem, record, early) == pytest.approx(slow, rel=1e-6)
    assert slow > 7.0


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["normal", "coins"])
def test_what_is_true_is_contradicted_as_rarely_as_promised(kind: str) -> None:
    """The e-value reaches 20 at any of the looks with probability at most .05."""
    rng = np.random.default_rng(1)
    features = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 4.0]])
    problem = Problem(features, noise_std=1.0)
    runs, reached = effort.runs(100, whole=250), 0
    for _ in range(runs):
        record, early = NoiseTest.empty_record(4), NoiseTest.empty_record(4)
        means = features @ rng.normal(size=2) * 10
        noise = rng.normal(size=40) if kind == "normal" else rng.choice([-1.0, 1.0], 40)
        worst = -math.inf
        for t in range(40):
            # The arm with the mean farthest from the mean of all: it depends on the rewards.
            far = np.abs(record[:, 1] - record[:, 1].mean()) / np.sqrt(record[:, 0] + 1)
            arm = t if t < 2 else int(rng.integers(4)) if t % 2 else int(far.argmax())
            record_result(record, arm, float(means[arm] + noise[t]))
            if t == 1:
                early = record.copy()
            elif t % 13 == 12:
                worst = max(worst, log_evidence(problem, record, early))
        reached += worst >= math.log(20)
    assert reached / runs <= effort.tolerated(0.05, runs)


# -------------------------------------------------------------------------- what the label says


@pytest.mark.parametrize("cls", RULES)
def test_a_noise_that_is_stated_too_small_takes_the_proof_away(cls: type[Policy]) -> None:
    problem = Problem([[1, 0], [1, 1], [1, 2], [1, 3]], noise_std=1.0)
    policy = observed(cls(problem), np.zeros(4), 3.0)
    found = policy.recommend().guarantee
    assert found is not None
    assert not found.proven
    text = "; ".join(found.assumptions)
    assert "noise_std is right (contradicted: the rewards of single arms spread" in text
    assert "spread" in policy.progress().details["warnings"][-1]
    assert "spread" in policy.warnings()[0]
    honest = observed(cls(problem), np.zeros(4), 1.0)
    assert honest.guarantee.proven or cls is GAllocation
    assert "contradicted" not in "; ".join(honest.guarantee.assumptions)
    assert "warnings" not in honest.progress().details
    assert honest.warnings() == ()


@pytest.mark.parametrize("cls", [BlockBetting, LinGapE, Rage])
def test_means_that_are_not_linear_do_not_get_a_proven_answer(cls: type[Policy]) -> None:
    """Fifty arms in 25 features unrelated to their means: any 25 arms are fitted exactly."""
    rng = np.random.default_rng(7)
    proven = 0
    for seed in range(4):
        features, means = rng.normal(size=(50, 25)), 5.0 * rng.normal(size=50)
        policy = finish(cls(Problem(features, noise_std=1.0), max_pulls=3000), means, 1.0, seed)
        found = policy.recommend()
        assert found.guarantee is not None
        proven += found.guarantee.proven
    assert proven == 0


def test_means_in_a_range_that_are_not_linear_are_found_out() -> None:
    problem = Problem([[1, 0], [1, 1], [1, 2], [1, 3]], reward_range=(0, 1))
    policy = observed(BlockBetting(problem), np.array([0.0, 1.0, 1.0, 0.0]), 0.0)
    assert "linear in the features (contradicted" in policy.guarantee.assumptions[-1]


def test_a_misspecification_that_is_stated_is_not_held_against_the_fit() -> None:
    features = [[1, 0], [1, 1], [1, 2], [1, 3]]
    means = np.array([0.0, 1.5, 1.5, 0.0])
    for gamma, proven in ((0.0, False), (1.0, True)):
        problem = Problem(features, noise_std=1.0, misspecification=gamma)
        policy = observed(BlockBetting(problem), means, 1.0)
        assert policy.guarantee.proven is proven


@pytest.mark.parametrize("cls", [BlockBetting, LinGapE, FrankWolfeSampling, XYAdaptive, Rage])
def test_more_arms_are_pulled_than_any_function_fits(cls: type[Policy]) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(12, 4))
    problem = Problem(features, noise_std=0.01)
    assert len(problem.geometry.start_arms) == 7
    policy = finish(cls(problem), features @ [1.0, 2.0, -1.0, 0.5], 0.01, 0)
    assert (np.array([row.pulls for row in policy.progress().actions]) > 0).sum() >= 7
    assert policy.recommend().guarantee.proven  # type: ignore[union-attr]


def test_a_design_without_a_start_that_cannot_be_tested_is_not_proven() -> None:
    problem = Problem([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], noise_std=0.1)
    policy = finish(GAllocation(problem, initial_pulls=0), np.array([5.0, 0.0, 2.5]), 0.1, 0)
    assert "too few different arms" in policy.guarantee.assumptions[-1]
    assert finish(GAllocation(problem), np.array([5.0, 0.0, 2.5]), 0.1, 0).guarantee.proven


@pytest.mark.parametrize("cls", [BlockBetting, LinGapE, Rage])
def test_the_check_survives_a_saved_state_and_begins_again_after_a_correction(
    cls: type[Policy],
) -> None:
    problem = Problem([[1, 0], [1, 1], [1, 2], [1, 3]], noise_std=1.0)
    policy, rng = cls(problem), np.random.default_rng(0)
    pulls = policy.ask(30)
    rewards = 5.0 * rng.normal(size=len(pulls))
    for pull, reward in zip(pulls, rewards, strict=True):
        policy.tell(pull, float(reward))
    other = cls(problem)
    other.set_state(policy.get_state())
    assert other.guarantee == policy.guarantee
    assert not policy.guarantee.proven
    policy.amend(pulls[0], float(rewards[0]), 0.0)
    # There are no bets on the first pulls.
    assert ("correction" in policy.guarantee.assumptions[-1]) == (cls is not BlockBetting)


def test_a_corrected_record_is_that_of_the_corrected_rewards() -> None:
    first, second = NoiseTest.empty_record(1), NoiseTest.empty_record(1)
    for before, after in ((1.0, 4.0), (2.0, 2.0), (-1.0, -1.0)):
        record_result(first, 0, before)
        record_result(second, 0, after)
    replace_result(first, 0, 1.0, 4.0)
    assert first == pytest.approx(second)


# ------------------------------------------------------------------ equal features, not values


@pytest.mark.parametrize("cls", [BlockBetting, LinGapE, GAllocation, Rage])
def test_misspecified_arms_with_equal_features_are_not_one_answer(cls: type[Policy]) -> None:
    rows = [[1, 0], [0, 1], [1, 0]]
    problem = Problem(rows, arms=["a", "b", "c"], noise_std=1.0, misspecification=0.5)
    found = finish(cls(problem, max_pulls=2000), np.array([4.5, 0.0, 5.5]), 1.0, 0).recommend()
    assert found.status == "undecided"
    assert found.arm is None
    assert set(found.evidence["not_ruled_out"]) == {"a", "c"}
    assert "equal features" in found.reason
    # The twins do not lead: nothing is hidden.
    other = finish(cls(problem, max_pulls=2000), np.array([0.5, 9.0, -0.5]), 1.0, 0).recommend()
    assert other.arm == "b"
    near = problem.clone(tolerance=1.0)
    assert finish(cls(near, max_pulls=2000), np.array([4.5, 0.0, 5.5]), 1.0, 0).recommend().decided


@pytest.mark.parametrize("cls", [BlockBetting, LinGapE, GAllocation, Rage])
def test_two_such_arms_alone_are_not_decided(cls: type[Policy]) -> None:
    problem = Problem([[1.0], [1.0]], noise_std=1.0, misspecification=0.1)
    policy = cls(problem)
    assert policy.stopped
    assert policy.recommend().status == "undecided"
    assert cls(Problem([[1.0], [1.0]], noise_std=1.0)).recommend().status == "decided"


# --------------------------------------------------------------------- what is not ruled out


def test_what_is_not_ruled_out_shrinks_to_the_answer() -> None:
    problem = Problem([[1, 0], [0, 1], [0.5, 0.5], [1, 0]], arms=list("abcd"), noise_std=0.5)
    policy, rng = BlockBetting(problem), np.random.default_rng(0)
    assert policy.recommend().candidates == ("a", "d", "b", "c")
    sizes = []
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, [1.0, 0.0, 0.5, 1.0][pull.action] + 0.5 * rng.normal())
        sizes.append(len(policy.recommend().candidates or ()))
    assert policy.recommend().candidates == ("a", "d")
    assert sizes == sorted(sizes, reverse=True)


def test_rules_without_a_valid_set_say_none() -> None:
    problem = Problem(np.eye(3), noise_std=1.0)
    for policy in (
        GAllocation(problem),
        ODLinBAI(problem, budget=60),
        BlockBetting(problem.clone(tolerance=0.1)),
        LinGapE(problem.clone(tolerance=0.1)),
    ):
        assert policy.recommend().candidates is None
    for policy in (LinGapE(problem), Rage(problem), XYAllocation(problem, stopping="mixture")):
        assert policy.recommend().candidates == ("0", "1", "2")


@pytest.mark.statistical
@pytest.mark.parametrize(("cls", "top"), [(BlockBetting, 1), (BlockBetting, 2), (LinGapE, 2)])
def test_a_best_arm_is_ruled_out_as_rarely_as_promised(cls: type[Policy], top: int) -> None:
    """Of arms that tie, the first `top` are ever missing with probability at most .1."""
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.4], [-0.5, 0.5]])
    problem = Problem(features, noise_std=1.0, top=top)
    right, runs, missed = set("01"[:top]), effort.runs(8, whole=60), 0
    for seed in range(runs):
        policy, rng = cls(problem, delta=0.1, max_pulls=150), np.random.default_rng(seed)
        ever = False
        for told in itertools.count(1):
            if policy.stopped:
                break
            pull = policy.ask()
            policy.tell(pull, float((features @ [1.0, 1.0])[pull.action] + rng.normal()))
            if told % 10 == 0:
                ever |= not right <= set(policy.recommend().candidates or ())
        missed += ever
    assert missed / runs <= effort.tolerated(0.1, runs)


# -------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("cls", [*RULES, FrankWolfeSampling, XYAllocation])
def test_delta_none_is_refused(cls: type[Policy]) -> None:
    with raises(InvalidArgument, "delta"):
        cls(Problem(np.eye(2), noise_std=1.0), delta=None)


def test_a_clone_may_state_the_noise_where_the_range_was_known_and_the_other_way_round() -> None:
    problem = Problem(np.eye(2), reward_range=(0, 1))
    other = problem.clone(noise_std=0.3)
    assert (other.noise_std, other.reward_range) == (0.3, None)
    assert other.clone(reward_range=(0, 2)).noise_std is None
    with raises(InvalidArgument, "noise_std, reward_range"):
        problem.clone(noise_std=0.3, reward_range=(0, 1))
