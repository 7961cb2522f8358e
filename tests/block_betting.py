"""Helpers for tests of every family's block betting: all outcomes of a block, and many runs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np


def factors(policy: Any, block: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return all outcomes of a block of coins, and each one's factors for the ledgers."""
    state = policy.get_state()
    before = policy._blocks.state.book.ledgers.copy()
    outcomes = np.array(list(itertools.product([0.0, 1.0], repeat=len(block))))
    found = np.empty((len(outcomes), before.size))
    for row, results in enumerate(outcomes):
        policy.set_state(state)
        for pull, result in zip(block, results, strict=True):
            policy.tell(pull, float(result))
        found[row] = np.exp(policy._blocks.state.book.ledgers - before)
    policy.set_state(state)
    return outcomes, found


def share_ruling_out(answer: Any, rule: Any, environment: Any, runs: int, horizon: int) -> float:
    """Return the share of a rule's runs that ever rule out a right answer."""
    assert answer in environment.truth.acceptable

    def is_ruled_out(seed: int) -> bool:
        policy = rule(environment.problem, delta=0.1, seed=seed)
        policy.compiled_run(environment, np.random.default_rng([9, seed]), horizon, 1)
        return answer not in (policy.recommend().candidates or ())

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(is_ruled_out, range(runs))) / runs


def play_with_losses(
    policy: Any, environment: Any, is_lost: Callable[[Any, Any, int], bool], seed: int, most: int
) -> None:
    """Play until the stop, or for `most` pulls; some of them fail.

    `is_lost`: whether a pull fails, from the pull, its outcome, and how often its action was chosen
    before. A loss may depend on the outcome.
    """
    generator = np.random.default_rng([11, seed])
    chosen: Counter[int] = Counter()
    for _ in range(most):
        if policy.stopped:
            break
        pull = policy.ask()
        outcome = environment.sample(pull, generator)
        if is_lost(pull, outcome, chosen[pull.action]):
            policy.fail(pull)
        else:
            policy.tell(pull, outcome)
        chosen[pull.action] += 1


SLOW, SOONER, MOST_TRIED = 4.0, 2.0, 8
"""With losses: when a target is slow, and when another one is sooner; how many are tried."""


def is_sooner(
    times: dict[Any, float], whole: dict[Any, float], others: dict[Any, float], other: Any
) -> bool:
    """Return whether another target rules out sooner what losses make slow for this one.

    `times`, `others`: how long both need for each answer; `whole`: as `times`, without losses.
    """
    harmed = [t for k, t in times.items() if k != other and others[k] > SOONER * t]
    soonest = min(harmed, default=math.inf)
    return any(
        SLOW * whole[k] <= t and SOONER * others[k] <= t and others[k] <= soonest
        for k, t in times.items()
        if whole[k] < math.inf and others[k] < math.inf
    )


def told_whole(policy: Any, units: int) -> dict[Any, float]:
    """Return what a finished experiment of two arms told: everything that the policy asks for."""
    told = {}
    while pulls := policy.ask(units):
        for pull in pulls:
            told[pull] = 0.25 + 0.5 * pull.action
            policy.tell(pull, told[pull])
    return told


def tell_of_all_but_the_third(policy: Any, units: int) -> None:
    """Let every pull of the third arm fail; tell for all others which arm they belong to."""
    while pulls := policy.ask(units):
        for pull in pulls:
            if pull.arm == "2":
                policy.fail(pull)
            else:
                policy.tell(pull, float(pull.action))
