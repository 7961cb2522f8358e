"""Block betting on linear arms with a planned end: aimed stakes, and bets on the leaders."""

import math

import numpy as np
import pytest

from fairtrial.errors import InvalidArgument, NothingToAsk, NotSupported
from fairtrial.linear import BernoulliEnvironment, BlockBetting, GaussianEnvironment, Problem
from tests import effort
from tests.linear import test_limits
from tests.linear.limited_instances import HARD
from tests.linear.test_blocks import INSTANCES, SOARE, Twins
from tests.messages import raises

END = {"max_pulls": 150, "planned_end": True}
PLAIN = Problem(SOARE, noise_std=1.0)
BOUNDED = Problem(SOARE, reward_range=(-3, 3))


def reward(problem: Problem, theta: object, rng: np.random.Generator, arm: int) -> float:
    """Return a normal reward, cut to the range if there is one."""
    value = rng.normal((problem.features @ np.asarray(theta))[arm], 0.7)
    return float(np.clip(value, *(problem.reward_range or (-math.inf, math.inf))))


# ------------------------------------------------------------------- compared with the twins


AIMED = [
    "soare", "rank deficient", "candidates of their own", "close enough", "two of the best",
    "not quite linear", "clicks", "clicks, wide range, tolerance",
]  # fmt: skip


@pytest.mark.parametrize(("name", "losses"), effort.pairs(AIMED, [True, False]))
def test_every_block_aims_at_the_end_as_the_slow_twin(name: str, losses: bool) -> None:
    problem, kind, theta = INSTANCES[name]
    reward_of, rng = kind(problem, theta), np.random.default_rng(3)
    twins = Twins(problem, delta=1e-3, **END)
    while not twins.policy.stopped:
        pull = twins.ask()
        if losses and rng.random() < 0.1:
            twins.lose(pull)
        else:
            twins.tell(pull, reward_of(rng, pull.action))
    assert twins.paid >= 4
    assert twins.policy._blocks.state.bets.aim.any()


@pytest.mark.parametrize(("name", "losses"), effort.pairs(test_limits.TWINS, [True, False]))
def test_with_limits_every_ledger_is_that_of_the_slow_version(name: str, losses: bool) -> None:
    problem, theta = test_limits.TWINS[name]
    twins = test_limits.Twins(problem, **END)
    rng = np.random.default_rng(3)
    while not twins.policy.stopped:
        pull = twins.policy.ask()
        twins.follow()
        if losses and rng.random() < 0.05:
            twins.lose(pull)
        else:
            twins.tell(pull, reward(problem, theta, rng, pull.action))
    assert twins.paid >= 3


# ------------------------------------------------------------------- if the noise is normal

NORMAL = {**END, "noise": "normal"}


WITH_END_BETS = [
    "soare", "rank deficient", "one noise an arm", "candidates of their own", "close enough",
    "two of the best", "not quite linear",
]  # fmt: skip


@pytest.mark.parametrize(("name", "losses"), effort.pairs(WITH_END_BETS, [True, False]))
def test_end_bets_pay_what_the_slow_twin_pays(name: str, losses: bool) -> None:
    problem, kind, theta = INSTANCES[name]
    reward_of, rng = kind(problem, theta), np.random.default_rng(3)
    twins = Twins(problem, delta=1e-3, **NORMAL)
    while not twins.policy.stopped:
        pull = twins.ask()
        if losses and rng.random() < 0.1:
            twins.lose(pull)
        else:
            twins.tell(pull, reward_of(rng, pull.action))
    assert twins.paid >= 4
    assert twins.policy._blocks.state.bets.need.any()
    assert not twins.policy._blocks.state.bets.aim.any()


@pytest.mark.parametrize(
    "name", [name for name, (problem, _) in test_limits.TWINS.items() if not problem.reward_range]
)
def test_end_bets_with_limits_pay_what_the_slow_version_pays(name: str) -> None:
    problem, theta = test_limits.TWINS[name]
    twins = test_limits.Twins(problem, **NORMAL)
    rng = np.random.default_rng(3)
    while not twins.policy.stopped:
        pull = twins.policy.ask()
        twins.follow()
        twins.tell(pull, reward(problem, theta, rng, pull.action))
    assert twins.paid >= 3


def test_end_bets_never_pay_more_than_is_needed() -> None:
    policy, rng = BlockBetting(PLAIN, 0.05, **NORMAL, seed=0), np.random.default_rng(1)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, reward(PLAIN, [4.0, 0.0, 0.0], rng, pull.action))
    (wealth,) = policy._standing.wealth
    assert policy.recommend().decided
    assert wealth.max() == pytest.approx(-math.log(0.05), abs=1e-5)


def test_the_guarantee_names_normal_noise() -> None:
    stated = BlockBetting(PLAIN, **NORMAL).guarantee
    assert stated.proven
    assert "proven for normal noise" in stated.name
    assert any("is normal" in assumption for assumption in stated.assumptions)
    assert "normal" not in BlockBetting(PLAIN, **END).guarantee.name


def test_normal_noise_is_refused_where_bets_cannot_use_it() -> None:
    with raises(InvalidArgument, "noise", given="normal"):
        BlockBetting(PLAIN, max_pulls=150, noise="normal")
    with raises(NotSupported):
        BlockBetting(BOUNDED, **NORMAL)
    with raises(InvalidArgument, "problem", given="estimated"):
        BlockBetting(PLAIN.clone(noise_std="estimated"), **NORMAL)


# ------------------------------------------------------------------------------ the end


@pytest.mark.parametrize(
    "problem",
    [PLAIN, BOUNDED, PLAIN.clone(top=2), PLAIN.clone(tolerance=0.1), PLAIN.clone(floors=-1.0)],
)
def test_no_more_pulls_are_issued_than_were_planned(problem: Problem) -> None:
    policy, rng = BlockBetting(problem, 1e-6, **END, seed=0), np.random.default_rng(1)
    while policy.asked < 110:
        pull = policy.ask()
        policy.tell(pull, reward(problem, np.zeros(len(SOARE[0])), rng, pull.action))
    last = policy.ask(1_000)
    assert policy.asked == 150
    for pull in last:
        assert not policy.stopped
        # The words count the results that are still open.
        with pytest.raises(NothingToAsk):
            policy.ask()
        if pull.number % 9 == 0:
            policy.fail(pull)
        else:
            policy.tell(pull, 0.0)
    assert policy.stopped
    assert policy.recommend().status == "undecided"
    assert policy.progress().chance_to_decide is None


def test_leaders_are_bet_on() -> None:
    policy, rng = BlockBetting(PLAIN, 1e-6, **END, seed=0), np.random.default_rng(1)
    for _ in range(100):
        pull = policy.ask()
        policy.tell(pull, reward(PLAIN, [1.0, 0.0, 0.0], rng, pull.action))
    leader = policy.recommend().leader
    (wealth,) = policy._standing.wealth
    assert wealth[policy.problem.answers.index(leader)] < 0.0
    assert 0.0 <= policy.progress().chance_to_decide <= 1.0


def test_without_a_planned_end_no_bet_is_on_the_leader() -> None:
    policy, rng = BlockBetting(PLAIN, 1e-6, max_pulls=150, seed=0), np.random.default_rng(1)
    for _ in range(100):
        pull = policy.ask()
        policy.tell(pull, reward(PLAIN, [1.0, 0.0, 0.0], rng, pull.action))
    assert not policy._blocks.state.bets.aim.any()
    assert policy.progress().chance_to_decide is None


@pytest.mark.parametrize("steps", [1, 13])
@pytest.mark.parametrize("normal", [False, True], ids=["in a range", "normal noise"])
def test_a_restored_policy_reaches_the_same_end(steps: int, normal: bool) -> None:
    problem, noise = (PLAIN, "normal") if normal else (BOUNDED, "sub-Gaussian")
    end = {"max_pulls": 80, "planned_end": True, "noise": noise}
    policies = [BlockBetting(problem, 0.01, **end, seed=0)] * 2
    rng = np.random.default_rng(2)
    policies[1] = policies[0].clone(seed=0)
    while not policies[0].stopped:
        if policies[0].asked % steps == 0:
            restored = policies[1].clone(seed=0)
            restored.set_state(policies[1].get_state())
            policies[1] = restored
        pulls = [policy.ask() for policy in policies]
        assert pulls[0] == pulls[1]
        value = reward(BOUNDED, [0.5, 0.0, 0.0], rng, pulls[0].action)
        for policy, pull in zip(policies, pulls, strict=True):
            policy.tell(pull, value)
    states = [policy.get_state() for policy in policies]
    for name in states[0]:
        assert np.array_equal(states[0][name], states[1][name]), name


@pytest.mark.parametrize("unit", [1e-130, 1e130])
@pytest.mark.parametrize("bounded", [False, True])
def test_decisions_are_the_same_in_every_unit(unit: float, bounded: bool) -> None:
    def run(scale: float) -> tuple[list[int], str | None]:
        noise = {"reward_range": (-3 * scale, 3 * scale)} if bounded else {"noise_std": scale}
        policy = BlockBetting(Problem(SOARE, **noise), 0.1, max_pulls=80, planned_end=True, seed=0)
        rng, actions = np.random.default_rng(2), []
        while not policy.stopped:
            pull = policy.ask()
            actions.append(pull.action)
            policy.tell(pull, scale * reward(BOUNDED, [1.0, 0.0, 0.0], rng, pull.action))
        return actions, policy.recommend().arm

    assert run(unit) == run(1.0)


def test_arms_that_are_equal_in_every_result_decide_nothing() -> None:
    policy = BlockBetting(Problem(np.eye(3), reward_range=(0, 1), floors=-0.0), **END, seed=0)
    while not policy.stopped:
        policy.tell(policy.ask(), 1.0)
    assert policy.recommend().status == "undecided"
    assert np.isfinite(policy._blocks.state.book.ledgers).all()


# ------------------------------------------------------------------------------- refused


def test_an_end_needs_the_number_of_pulls() -> None:
    with raises(InvalidArgument) as error:
        BlockBetting(PLAIN, planned_end=True)
    assert error.value.name == "planned_end"


def test_an_end_needs_the_initial_pulls_and_one_block() -> None:
    least = 4 * 3 + 5
    with raises(InvalidArgument, "max_pulls"):
        BlockBetting(PLAIN, max_pulls=least - 1, planned_end=True)
    BlockBetting(PLAIN, max_pulls=least, planned_end=True)


# ------------------------------------------------------------ the promise, by simulation

RUNS = effort.runs(2, whole=2_000)
DELTA = 0.1


def share_ruling_out(
    problem: Problem, environment: object, right: object, noise: str = "sub-Gaussian"
) -> float:
    """Return the share of runs in which the right answer was ever ruled out."""
    end = {"max_pulls": 200, "planned_end": True, "noise": noise}
    found = 0
    for seed in range(RUNS):
        policy = BlockBetting(problem, DELTA, **end, seed=0)
        policy.compiled_run(environment, np.random.default_rng([6, seed]), None)
        left = policy.recommend().candidates
        found += left is not None and right not in left
    return found / RUNS


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["answer on a limit", "better arm just beyond its margin"])
def test_with_limits_the_right_answer_is_seldom_ruled_out(name: str) -> None:
    arguments, theta, right = HARD[name]
    problem = Problem(**arguments, noise_std=0.5)
    environment = GaussianEnvironment(problem, theta)
    share = share_ruling_out(problem, environment, right)
    assert share <= DELTA + 3 * math.sqrt(DELTA / RUNS)


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["normal", "fair coins"])
def test_one_of_two_equal_best_arms_is_seldom_ruled_out(noise: str) -> None:
    kind = {"noise_std": 0.5} if noise == "normal" else {"reward_range": (0, 1)}
    make = GaussianEnvironment if noise == "normal" else BernoulliEnvironment
    problem = Problem([[1, 0.0], [1, 1.0], [1, 0.5], [0, 1.0]], **kind)
    environment = make(problem, [0.5, 0.0])
    share = share_ruling_out(problem, environment, problem.arms[0])
    assert share <= DELTA + 3 * math.sqrt(DELTA / RUNS)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name", ["answer on a limit", "better arm short by little", "better arm just beyond its margin"]
)
def test_with_limits_and_normal_noise_the_right_answer_is_seldom_ruled_out(name: str) -> None:
    arguments, theta, right = HARD[name]
    problem = Problem(**arguments, noise_std=0.5)
    share = share_ruling_out(problem, GaussianEnvironment(problem, theta), right, "normal")
    assert share <= DELTA + 3 * math.sqrt(DELTA / RUNS)


@pytest.mark.statistical
@pytest.mark.parametrize("gap", [0.0, 1e-6], ids=["equal", "better by a millionth"])
@pytest.mark.parametrize("tolerance", [0.0, 0.2])
def test_with_normal_noise_a_best_arm_is_seldom_ruled_out(gap: float, tolerance: float) -> None:
    rows = [[1, 0.0], [1, 1.0], [1, 0.5], [0, 1.0]]
    problem = Problem(rows, noise_std=0.5, tolerance=tolerance)
    environment = GaussianEnvironment(problem, [0.5, -gap])
    share = share_ruling_out(problem, environment, problem.arms[0], "normal")
    assert share <= DELTA + 3 * math.sqrt(DELTA / RUNS)
