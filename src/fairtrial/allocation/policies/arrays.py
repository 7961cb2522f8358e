"""The arrays that the kernels work on, filled from a problem and what a rule asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairtrial.allocation._kernels import model
from fairtrial.allocation._kernels.learning import refresh
from fairtrial.allocation._kernels.model import (
    DUE,
    ETA,
    FIRST_SETTING,
    LARGEST,
    MEAN,
    PRICE,
    SETTINGS,
    STATISTICS,
    SUM,
    TOLD,
    WINS,
)
from fairtrial.allocation.learners import Learner
from fairtrial.allocation.policies.starts import Credits, Rewards, in_parts, parts_of_a_pull
from fairtrial.allocation.problem import Problem

__all__ = ["Floats", "Integers", "Options", "new_book", "new_control", "new_settings", "new_stats"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Options:
    """What a rule asks of the kernels."""

    scheduler: str = "none"
    carry: int | None = None
    mask: bool = False
    contexts: int = 1
    price: float = 0.0
    eta: float = 0.0
    opening: Sequence[int] = ()
    credits: Credits | None = None
    rewards: Rewards | None = None

    @property
    def code(self) -> int:
        """The scheduler's number."""
        codes = {
            "none": model.NONE,
            "due": model.DUE,
            "largest": model.LARGEST,
            "lazy": model.LAZY,
            "queue": model.QUEUED,
            "opening": model.OPENING_FIRST,
        }
        return codes[self.scheduler]


def new_book(problem: Problem, given: Options, places: Mapping[str, int]) -> Integers:
    """Return quotas and initial credits by node, nothing pulled yet."""
    arms, unit = len(problem.arms), parts_of_a_pull(problem, given.credits)
    book = np.zeros((model.PLANES, arms + len(problem.groups or {})), dtype=np.int64)
    book[model.GROUP] = model.NOWHERE
    book[model.QUOTA, :arms] = [int(share * unit) for share in problem.shares]
    if given.opening:
        book[model.OPENING, :arms] = given.opening
    start = 0
    for node, (share, members) in enumerate((problem.groups or {}).values(), start=arms):
        inside = sorted(places[arm] for arm in members)
        book[model.QUOTA, node] = int(share * unit)
        book[model.GROUP, inside] = node
        book[model.MEMBER, start : start + len(inside)] = inside
        book[model.BEGIN, node], book[model.END, node] = start, start + len(inside)
        start += len(inside)
    quotas = book[model.QUOTA].tolist()
    book[model.INITIAL] = in_parts(problem, given.credits, unit, quotas)
    # A surplus beyond the carry is forgotten at the start as it is later.
    book[model.BASE] = np.minimum(-book[model.INITIAL], _carry(given, unit) * unit)
    book[model.QUEUE] = np.maximum(0, book[model.INITIAL])
    return book


def new_control(
    problem: Problem, given: Options, learner: Learner, key: Integers, book: Integers
) -> Integers:
    """Return what the kernels are told in single integers, at the start."""
    unit = parts_of_a_pull(problem, given.credits)
    # A tolerance beyond every round that can be counted never binds, as any such one.
    unfairness_tolerance = min(problem.unfairness_tolerance, _INT64 // (2 * unit))
    surplus = max(0, -int(book[model.INITIAL].min())) // unit + 1
    code, queued = learner.code, given.code == model.QUEUED
    values = {
        model.WORST: int(book[model.INITIAL].max()),
        model.UNIT: unit,
        model.PERIOD: problem.denominator,
        model.TOLERANCE: unfairness_tolerance,
        model.ARMS: len(problem.arms),
        model.NODES: book.shape[1],
        model.CARRY: -1 if given.carry is None else _carry(given, unit),
        model.SCHEDULER: given.code,
        model.LEARNER: code,
        model.PLAYS: problem.plays,
        model.LIMIT: _INT64 // unit - unfairness_tolerance - surplus - 2,
        model.EXHAUSTED: problem.is_exhausted,
        model.CONTEXTS: given.contexts,
        model.WINDOW: learner.window,
        model.MASKS: given.mask,
        model.QUEUES: given.price > 0 or queued,
        model.EARLIER: earlier_rounds(given),
        model.IDLE_IF_NONE_READY: _is_idle_if_none_ready(problem, given),
        model.INDEXED: code in (model.UCB1, model.GREEDY, model.SLIDING) and not queued,
        model.PLAIN: code in (model.UCB1, model.KLUCB),
        model.KEY0: int(key[0]),
        model.KEY1: int(key[1]),
    }
    control = np.zeros(model.CONTROLS, dtype=np.int64)
    for place, value in values.items():
        control[place] = value
    return control


def _carry(given: Options, unit: int) -> int:
    """Return the carry; one beyond every round that can be counted never binds, as any such one."""
    most = _INT64 // (2 * unit)
    return most if given.carry is None else min(given.carry, most)


def earlier_rounds(given: Options) -> int:
    """Return how many rounds the learner has seen before the first."""
    return int(sum(number for number, _ in given.rewards or ()))


def _is_idle_if_none_ready(problem: Problem, given: Options) -> bool:
    """Whether a round is free, and free for all arms, when no arm is released."""
    shared_out = problem.is_exhausted or problem.plays > 1
    return given.code in (DUE, LARGEST) and not shared_out


def new_settings(problem: Problem, given: Options, learner: Learner) -> Floats:
    """Return what the kernels are told in single floats."""
    settings = np.zeros(SETTINGS)
    settings[FIRST_SETTING] = learner.settings[0]
    settings[ETA] = given.eta
    if given.price > 0:
        settings[PRICE] = 1.0 / (given.price * parts_of_a_pull(problem, given.credits))
    return settings


def new_stats(problem: Problem, given: Options, control: Integers, settings: Floats) -> Floats:
    """Return the statistics of every cell, from the rewards of before."""
    cells = given.contexts * len(problem.arms)
    stats = np.zeros((STATISTICS, cells))
    stats[MEAN] = np.inf
    if given.rewards is not None:
        low, high = problem.reward_range
        numbers, totals = np.array(given.rewards).T
        stats[TOLD] = numbers
        stats[SUM] = np.clip((totals - low * numbers) / (high - low), 0.0, numbers)
        stats[WINS] = stats[SUM]
        for cell in range(cells):
            refresh(control, stats, settings, cell)
    return stats
