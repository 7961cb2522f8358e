"""Cost of a decision with guaranteed shares: simulated, live, and in other libraries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measuring import WIDTH, Timing, heading, measure, show
from fairtrial import Policy
from fairtrial.allocation import (
    UCB1,
    BernoulliEnvironment,
    FairLearn,
    FairUCB,
    Problem,
    RoundRobin,
    Thompson,
    UnconstrainedLearner,
)

MILLION = 1_000_000


def run(*, quick: bool) -> None:
    _simulated(3 if quick else 7, quick)
    _live(3 if quick else 7, quick)
    _states()
    _beside_others(quick)


# ----------------------------------------------------------------------------- simulated


def _problem(k: int, total: str, unfairness_tolerance: int = 0) -> Problem:
    """Return equal shares that sum to `total`."""
    from fractions import Fraction

    return Problem(k, Fraction(total) / k, unfairness_tolerance)


def _simulated(repetitions: int, quick: bool) -> None:
    heading("a simulated decision", "ns")
    cases: list[tuple[str, Policy, int, str]] = [
        ("k = 10, Fair-UCB, half guaranteed", FairUCB(_problem(10, "0.5")), MILLION, "50"),
        ("k = 10, due + UCB1, half", FairLearn(_problem(10, "0.5"), UCB1()), MILLION, "50"),
        ("k = 10, due + UCB1, 9/10", FairLearn(_problem(10, "0.9"), UCB1()), MILLION, "50"),
        (
            "k = 10, UCB1, no quotas",
            UnconstrainedLearner(_problem(10, "0.5"), UCB1()),
            MILLION,
            "50",
        ),
        ("k = 10, due + Thompson, half", FairLearn(_problem(10, "0.5"), Thompson()), MILLION, ""),
        ("k = 10, due + rotation, half", FairLearn(_problem(10, "0.5"), RoundRobin()), MILLION, ""),
        ("k = 1,000, due + rotation, half", _rotating(1_000), MILLION, ""),
        ("k = 100,000, due + rotation, half", _rotating(100_000), MILLION, "1000"),
    ]
    for what, policy, rounds, target in cases[: 1 if quick else None]:
        environment = _environment(policy.problem)
        work = partial(_simulate, policy, environment, rounds)
        work()
        show(what, measure(work, repetitions).per(rounds), 1e9, target)


def _rotating(k: int) -> Policy:
    return FairLearn(_problem(k, "0.5"), RoundRobin())


def _environment(problem: Any) -> BernoulliEnvironment:
    return BernoulliEnvironment(problem, np.linspace(0.7, 0.8, problem.n_actions))


def _simulate(template: Policy, environment: BernoulliEnvironment, rounds: int) -> None:
    run = template.clone().compiled_run(environment, np.random.default_rng(1), rounds)
    assert run is not None
    assert run.stopping_time == rounds


# ---------------------------------------------------------------------------------- live


def _live(repetitions: int, quick: bool) -> None:
    heading("live, in memory", "us")
    cases = [
        (10, UCB1(), 20_000, "10"),
        (10, Thompson(), 20_000, "10"),
        (1_000, RoundRobin(), 20_000, ""),
        (1_000, UCB1(), 5_000, ""),
        (100_000, RoundRobin(), 20_000, "100"),
        (100_000, UCB1(), 500, "100"),
    ]
    for k, learner, pairs, target in cases[: 1 if quick else None]:
        policy = FairLearn(_problem(k, "0.5"), learner)
        # Pull every arm first, so that an index is computed for each of them.
        _pairs(policy, k)
        name = f"k = {k:,}, {type(learner).__name__}"
        asks, both = [], []
        for _ in range(repetitions):
            asked, told = _ask_then_tell(policy, pairs)
            asks.append(asked)
            both.append(told)
        show(f"{name}: ask", _joined(asks).per(pairs), 1e6, target)
        show(f"{name}: tell", _joined(both).per(pairs), 1e6)


def _pairs(policy: Policy, number: int) -> None:
    for _ in range(number):
        policy.tell(policy.ask(), 1.0)


def _ask_then_tell(policy: Policy, number: int) -> tuple[Timing, Timing]:
    pulls: list[Any] = []
    asked = measure(lambda: pulls.extend(policy.ask() for _ in range(number)), 1)
    told = measure(lambda: [policy.tell(pull, 1.0) for pull in pulls], 1)
    return asked, told


def _joined(timings: list[Timing]) -> Timing:
    return Timing([one.wall[0] for one in timings], [one.cpu[0] for one in timings])


# --------------------------------------------------------------------------------- state


def _states() -> None:
    print(f"\n{'state after 1,000 decisions, bytes':<{WIDTH}}{'bytes':>14}{'per arm':>14}")
    for k in (10, 1_000, 100_000):
        policy = FairLearn(_problem(k, "0.5"), RoundRobin())
        _pairs(policy, 1_000)
        size = sum(array.nbytes for array in policy.get_state().values())
        print(f"{f'k = {k:,}':<{WIDTH}}{size:14,}{size / k:14,.1f}")


# ------------------------------------------------------------------------- other libraries

ARMS = 10
Player = Callable[[np.ndarray[Any, Any]], list[int]]
"""Plays a table of rewards, one row per round and one column per arm; returns the arms pulled."""


def _beside_others(quick: bool) -> None:
    rounds = 1_000 if quick else 5_000
    means = np.linspace(0.7, 0.8, ARMS)
    rewards = (np.random.default_rng(7).random((rounds, ARMS)) < means).astype(float)
    columns = ("us", "reward", "most behind", "least share")
    print(
        f"\n{f'k = {ARMS}, the same {rounds:,} rewards, half guaranteed':<{WIDTH}}"
        + "".join(f"{name:>14}" for name in columns)
    )
    for name, play in _players().items():
        play(rewards[:50])
        arms: list[int] = []
        timing = measure(lambda play=play, arms=arms: arms.extend(play(rewards)), 1)
        _show_player(name, timing.cpu[0] / rounds, arms, rewards)


def _players() -> dict[str, Player]:
    problem = _problem(ARMS, "0.5")
    return {
        "fairtrial, due + UCB1": partial(_play_ours, FairLearn(problem, UCB1())),
        "fairtrial, due + Thompson": partial(_play_ours, FairLearn(problem, Thompson())),
        "fairtrial, UCB1, no quotas": partial(_play_ours, UnconstrainedLearner(problem, UCB1())),
        "fairtrial, Thompson, no quotas": partial(
            _play_ours, UnconstrainedLearner(problem, Thompson())
        ),
        "MABWiser, UCB1": partial(_play_mabwiser, "UCB1"),
        "MABWiser, Thompson": partial(_play_mabwiser, "ThompsonSampling"),
        "river, UCB": partial(_play_river, "UCB"),
        "river, Thompson": partial(_play_river, "ThompsonSampling"),
    }


def _play_ours(template: Policy, rewards: np.ndarray[Any, Any]) -> list[int]:
    policy = template.clone()
    arms = []
    for row in rewards.tolist():
        pull = policy.ask()
        policy.tell(pull, row[pull.action])
        arms.append(pull.action)
    return arms


def _play_mabwiser(name: str, rewards: np.ndarray[Any, Any]) -> list[int]:
    from mabwiser.mab import MAB, LearningPolicy

    rule = LearningPolicy.UCB1(alpha=1) if name == "UCB1" else LearningPolicy.ThompsonSampling()
    player = MAB(list(range(ARMS)), rule, seed=1)
    # It must be fitted before it predicts, so use every arm's first reward.
    arms = list(range(ARMS))
    player.fit(arms, [rewards[arm, arm] for arm in arms])
    for row in rewards[ARMS:].tolist():
        arm = player.predict()
        player.partial_fit([arm], [row[arm]])
        arms.append(arm)
    return arms


def _play_river(name: str, rewards: np.ndarray[Any, Any]) -> list[int]:
    from river import bandit, proba

    player = (
        bandit.UCB(delta=1, seed=1)
        if name == "UCB"
        else bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=1)
    )
    labels, arms = list(range(ARMS)), []
    for row in rewards.tolist():
        arm = player.pull(labels)
        player.update(arm, row[arm])
        arms.append(arm)
    return arms


def _show_player(name: str, seconds: float, arms: list[int], rewards: np.ndarray[Any, Any]) -> None:
    pulled = np.eye(ARMS, dtype=int)[arms].cumsum(axis=0)
    owed = np.arange(1, len(arms) + 1) // (2 * ARMS)
    behind = int((owed[:, None] - pulled).max())
    won = rewards[np.arange(len(arms)), arms].sum()
    least = pulled[-1].min() / len(arms)
    print(f"{name:<{WIDTH}}{1e6 * seconds:14,.2f}{won:14,.0f}{behind:14,}{least:14.3f}", flush=True)
