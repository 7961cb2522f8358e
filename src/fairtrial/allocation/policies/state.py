"""The state of a policy: quotas and statistics, in the arrays that kernels work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.allocation._kernels import model
from fairtrial.allocation._kernels.model import DUE, LARGEST, STATE
from fairtrial.allocation._kernels.runs import prepare
from fairtrial.allocation.learners import Learner
from fairtrial.allocation.policies.initial_values import Credits, Rewards, in_parts, parts_of_a_pull
from fairtrial.allocation.problem import Problem
from fairtrial.core.records import Words

__all__ = ["AllocationState", "Options", "earlier_rounds"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a policy for the kernels."""

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
        """The number of the scheduler."""
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
        Options of the policy for the kernels.
    learner : Learner
        Chooses the arm in free rounds.
    key : ndarray of int, shape (2,)
        Key of the policy's random numbers.

    Attributes
    ----------
    words : ndarray
        The buffer of the tables that the kernels work on.
    control, nodes, cells : Control, Node, Cell
        These tables, with a column in place of each number.
    allowed : ndarray of int
        Which arms may be pulled in this round.
    first : int
        Number of the first pull of this epoch; smaller numbers belong to earlier epochs.
    """

    saved = ("words", "first")

    control: Any
    nodes: Any
    cells: Any
    allowed: Integers
    _words: Words

    def __init__(self, problem: Problem, options: Options, learner: Learner, key: Integers) -> None:
        self.problem = problem
        self.options = options
        self.low = problem.reward_range[0]
        self.width = problem.reward_range[1] - problem.reward_range[0]
        self.places = {arm: place for place, arm in enumerate(problem.arms)}
        self.first = 0
        arms = len(problem.arms)
        self.words = STATE.allocate(
            nodes=arms + len(problem.groups or {}),
            cells=options.contexts * arms,
            rounds=learner.window,
        )
        tables = STATE.columns(self.words)
        tables.window.cell[:] = -1
        _set_nodes(tables.nodes, problem, options, self.places)
        control = _control_of(problem, options, learner, key, tables.nodes)
        for name, value in control.items():
            getattr(tables.control, name)[0] = value
        _set_cells(tables.cells, problem, options)
        prepare(self.words)

    @property
    def words(self) -> Words:
        """The buffer of the tables."""
        return self._words

    @words.setter
    def words(self, words: Words) -> None:
        self._words = words
        tables = STATE.columns(words)
        self.control, self.nodes, self.cells = tables.control, tables.nodes, tables.cells
        self.allowed = tables.allowed

    # ---------------------------------------------------------------- what is known

    @property
    def parts(self) -> int:
        """The common denominator q of all credits, which are counted in units of 1/q pulls."""
        return int(self.control.unit[0])

    @property
    def rounds(self) -> int:
        """Number of completed rounds."""
        return int(self.control.rounds[0])

    @property
    def pulls(self) -> Integers:
        """Pulls that count, by arm."""
        pulls: Integers = self.nodes.pulls[: len(self.problem.arms)]
        return pulls

    def credits(self, nodes: slice) -> tuple[Fraction, ...]:
        """Return the pulls that arms and, after them, groups are owed now."""
        unit, rounds = self.parts, self.rounds
        own = self.nodes
        columns = (own.quota, own.initial, own.asleep, own.pulls)
        rows = zip(*(column[nodes].tolist() for column in columns), strict=True)
        return tuple(
            Fraction(initial + quota * (rounds - asleep) - unit * count, unit)
            for quota, initial, asleep, count in rows
        )

    def rewards(self) -> Floats:
        """Return number and sum of the rewards, shape (contexts, 2, k)."""
        shape = (self.options.contexts, len(self.problem.arms))
        numbers = self.cells.told.reshape(shape)
        sums = self.low * numbers + self.width * self.cells.total.reshape(shape)
        return np.stack([numbers, sums], axis=1)

    def add_rewards(self, difference: Floats) -> None:
        """Add rewards from elsewhere to the statistics, in the shape that `rewards` returns."""
        numbers, sums = (difference[:, part].ravel() for part in (0, 1))
        successes = (sums - self.low * numbers) / self.width
        cells = self.cells
        cells.told[:] += numbers
        cells.total[:] = np.clip(cells.total + successes, 0.0, cells.told)
        cells.wins[:] = np.clip(cells.wins + successes, 0.0, cells.told)
        self.control.earlier_rounds[0] += int(numbers.sum())
        self.control.first_untried[0] = 0
        prepare(self.words)

    def totals(self) -> tuple[Floats, Floats]:
        """Return numbers of rewards and their sums by arm, over all contexts."""
        shape = (self.options.contexts, len(self.problem.arms))
        counts: Floats = self.cells.told.reshape(shape).sum(axis=0)
        sums = self.cells.total.reshape(shape).sum(axis=0)
        return counts, self.low * counts + self.width * sums


def _set_nodes(nodes: Any, problem: Problem, given: Options, places: Mapping[str, int]) -> None:
    """Set quotas and initial credits by node, before any pull."""
    arms, unit = len(problem.arms), parts_of_a_pull(problem, given.credits)
    nodes.group[:] = model.NOWHERE
    nodes.quota[:arms] = [int(share * unit) for share in problem.shares]
    if given.opening:
        nodes.opening[:arms] = given.opening
    start = 0
    for node, (share, members) in enumerate((problem.groups or {}).values(), start=arms):
        inside = sorted(places[arm] for arm in members)
        nodes.quota[node] = int(share * unit)
        nodes.group[inside] = node
        nodes.member[start : start + len(inside)] = inside
        nodes.first_member[node], nodes.end_of_members[node] = start, start + len(inside)
        start += len(inside)
    quotas = nodes.quota.tolist()
    nodes.initial[:] = in_parts(problem, given.credits, unit, quotas)
    # A surplus beyond the carry is forgotten at the start, as in later rounds.
    nodes.offset[:] = np.minimum(-nodes.initial, _carry(given, unit) * unit)
    nodes.queue[:] = np.maximum(0, nodes.initial)


def _control_of(
    problem: Problem, given: Options, learner: Learner, key: Integers, nodes: Any
) -> dict[str, float]:
    """Return the initial values of the kernels' control numbers."""
    unit = parts_of_a_pull(problem, given.credits)
    # A tolerance beyond the last countable round never binds, so any such value works.
    unfairness_tolerance = min(problem.unfairness_tolerance, _INT64 // (2 * unit))
    surplus = max(0, -int(nodes.initial.min())) // unit + 1
    code, queued = learner.code, given.code == model.QUEUED
    return {
        "worst": int(nodes.initial.max()),
        "unit": unit,
        "period": problem.denominator,
        "tolerance": unfairness_tolerance,
        "arms": len(problem.arms),
        "nodes": len(nodes.quota),
        "carry": -1 if given.carry is None else _carry(given, unit),
        "scheduler": given.code,
        "learner": code,
        "plays": problem.plays,
        "limit": _INT64 // unit - unfairness_tolerance - surplus - 2,
        "is_exhausted": problem.is_exhausted,
        "contexts": given.contexts,
        "window": learner.window,
        "confines": given.mask,
        "has_queues": given.price > 0 or queued,
        "earlier_rounds": earlier_rounds(given),
        "idle_if_none_ready": _is_idle_if_none_ready(problem, given),
        "is_indexed": code in (model.UCB1, model.GREEDY, model.SLIDING) and not queued,
        "is_plain": code in (model.UCB1, model.KLUCB),
        "key0": int(key[0]),
        "key1": int(key[1]),
        "setting": learner.settings[0],
        "eta": given.eta,
        "price": 1.0 / (given.price * unit) if given.price > 0 else 0.0,
    }


def _carry(given: Options, unit: int) -> int:
    """Return the carry, capped: one beyond the last countable round never binds."""
    most = _INT64 // (2 * unit)
    return most if given.carry is None else min(given.carry, most)


def earlier_rounds(given: Options) -> int:
    """Return how many rounds the learner has seen before the first round."""
    return int(sum(number for number, _ in given.rewards or ()))


def _is_idle_if_none_ready(problem: Problem, given: Options) -> bool:
    """Whether a round is free, and free for all arms, when no arm is released."""
    shared_out = problem.is_exhausted or problem.plays > 1
    return given.code in (DUE, LARGEST) and not shared_out


def _set_cells(cells: Any, problem: Problem, given: Options) -> None:
    """Set the statistics of every cell from the initial rewards."""
    if given.rewards is not None:
        low, high = problem.reward_range
        numbers, totals = np.array(given.rewards).T
        cells.told[:] = numbers
        cells.total[:] = np.clip((totals - low * numbers) / (high - low), 0.0, numbers)
        cells.wins[:] = cells.total
