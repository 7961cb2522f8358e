"""The state of a policy: quotas and statistics in arrays that the kernels work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

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
from fairtrial.allocation._kernels.waiting import rebuild
from fairtrial.allocation.learners import Learner
from fairtrial.allocation.policies.initial_values import Credits, Rewards, in_parts, parts_of_a_pull
from fairtrial.allocation.problem import Problem

__all__ = ["AllocationState", "Options", "earlier_rounds"]

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


class AllocationState:
    """Quotas, statistics and settings of a policy: the arrays that the kernels work on.

    Parameters
    ----------
    problem : Problem
        Arms and shares.
    options : Options
        What the rule asks of the kernels.
    learner : Learner
        Who picks in the free rounds.
    key : ndarray of int, shape (2,)
        Of the policy's random numbers.

    Attributes
    ----------
    control, nodes, cells, window, settings : ndarray
        Single integers; a row for every quantity of arms and groups; the same of statistics; the
        rounds of a sliding window; single floats. All are described in `_kernels.model`.
    arrays : tuple of ndarray
        All of them, as the kernels take them.
    first : int
        Number of the first pull of this epoch: those before were issued in earlier ones.
    """

    saved = ("changing", "counts", "statistics", "recent", "first")

    def __init__(self, problem: Problem, options: Options, learner: Learner, key: Integers) -> None:
        self.problem = problem
        self.options = options
        self.low = problem.reward_range[0]
        self.width = problem.reward_range[1] - problem.reward_range[0]
        self.places = {arm: place for place, arm in enumerate(problem.arms)}
        self.first = 0
        self.nodes = _new_nodes(problem, options, self.places)
        self.control = _new_control(problem, options, learner, key, self.nodes)
        self.settings = _new_settings(problem, options, learner)
        self.cells = _new_cells(problem, options, self.control, self.settings)
        self.window = np.full((2, learner.window), -1.0)
        self.arrays = (self.control, self.nodes, self.cells, self.window, self.settings)
        self.rebuild()

    def rebuild(self) -> None:
        """Rebuild the heaps from the counts."""
        rebuild(self.control, self.nodes)

    # ---------------------------------------------------------------- what is saved

    @property
    def changing(self) -> Integers:
        """The single integers that change."""
        return self.control[: model.CHANGING]

    @changing.setter
    def changing(self, value: Integers) -> None:
        self.control[: model.CHANGING] = value

    @property
    def counts(self) -> Integers:
        """What is counted of arms and groups."""
        return self.nodes[: model.SAVED]

    @counts.setter
    def counts(self, value: Integers) -> None:
        self.nodes[: model.SAVED] = value

    @property
    def statistics(self) -> Floats:
        """Statistics of the rewards."""
        return self.cells

    @statistics.setter
    def statistics(self, value: Floats) -> None:
        self.cells[:] = value

    @property
    def recent(self) -> Floats:
        """The rounds of a sliding window."""
        return self.window

    @recent.setter
    def recent(self, value: Floats) -> None:
        self.window[:] = value

    # ---------------------------------------------------------------- what is known

    @property
    def parts(self) -> int:
        """The parts of a pull in which credits are counted: the denominator of them all."""
        return int(self.control[model.UNIT])

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return int(self.control[model.ROUND])

    @property
    def pulls(self) -> Integers:
        """Pulls that count, by arm."""
        return self.nodes[model.COUNT, : len(self.problem.arms)]

    def credits(self, nodes: slice) -> tuple[Fraction, ...]:
        """Return what arms and, after them, groups are owed now."""
        unit, rounds = self.parts, self.rounds
        planes = (model.QUOTA, model.INITIAL, model.ASLEEP, model.COUNT)
        rows = zip(*(self.nodes[plane, nodes].tolist() for plane in planes), strict=True)
        return tuple(
            Fraction(initial + quota * (rounds - asleep) - unit * count, unit)
            for quota, initial, asleep, count in rows
        )

    def rewards(self) -> Floats:
        """Return number and sum of the rewards, shape (contexts, 2, k)."""
        shape = (self.options.contexts, len(self.problem.arms))
        numbers = self.cells[model.TOLD].reshape(shape)
        sums = self.low * numbers + self.width * self.cells[model.SUM].reshape(shape)
        return np.stack([numbers, sums], axis=1)

    def totals(self) -> tuple[Floats, Floats]:
        """Return rewards received and their sums by arm, over all contexts."""
        shape = (self.options.contexts, len(self.problem.arms))
        counts: Floats = self.cells[model.TOLD].reshape(shape).sum(axis=0)
        sums = self.cells[model.SUM].reshape(shape).sum(axis=0)
        return counts, self.low * counts + self.width * sums


def _new_nodes(problem: Problem, given: Options, places: Mapping[str, int]) -> Integers:
    """Return quotas and initial credits by node, nothing pulled yet."""
    arms, unit = len(problem.arms), parts_of_a_pull(problem, given.credits)
    nodes = np.zeros((model.PLANES, arms + len(problem.groups or {})), dtype=np.int64)
    nodes[model.GROUP] = model.NOWHERE
    nodes[model.QUOTA, :arms] = [int(share * unit) for share in problem.shares]
    if given.opening:
        nodes[model.OPENING, :arms] = given.opening
    start = 0
    for node, (share, members) in enumerate((problem.groups or {}).values(), start=arms):
        inside = sorted(places[arm] for arm in members)
        nodes[model.QUOTA, node] = int(share * unit)
        nodes[model.GROUP, inside] = node
        nodes[model.MEMBER, start : start + len(inside)] = inside
        nodes[model.BEGIN, node], nodes[model.END, node] = start, start + len(inside)
        start += len(inside)
    quotas = nodes[model.QUOTA].tolist()
    nodes[model.INITIAL] = in_parts(problem, given.credits, unit, quotas)
    # A surplus beyond the carry is forgotten at the start as it is later.
    nodes[model.BASE] = np.minimum(-nodes[model.INITIAL], _carry(given, unit) * unit)
    nodes[model.QUEUE] = np.maximum(0, nodes[model.INITIAL])
    return nodes


def _new_control(
    problem: Problem, given: Options, learner: Learner, key: Integers, nodes: Integers
) -> Integers:
    """Return what the kernels are told in single integers, at the start."""
    unit = parts_of_a_pull(problem, given.credits)
    # A tolerance beyond every round that can be counted never binds, as any such one.
    unfairness_tolerance = min(problem.unfairness_tolerance, _INT64 // (2 * unit))
    surplus = max(0, -int(nodes[model.INITIAL].min())) // unit + 1
    code, queued = learner.code, given.code == model.QUEUED
    values = {
        model.WORST: int(nodes[model.INITIAL].max()),
        model.UNIT: unit,
        model.PERIOD: problem.denominator,
        model.TOLERANCE: unfairness_tolerance,
        model.ARMS: len(problem.arms),
        model.NODES: nodes.shape[1],
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


def _new_settings(problem: Problem, given: Options, learner: Learner) -> Floats:
    """Return what the kernels are told in single floats."""
    settings = np.zeros(SETTINGS)
    settings[FIRST_SETTING] = learner.settings[0]
    settings[ETA] = given.eta
    if given.price > 0:
        settings[PRICE] = 1.0 / (given.price * parts_of_a_pull(problem, given.credits))
    return settings


def _new_cells(problem: Problem, given: Options, control: Integers, settings: Floats) -> Floats:
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
