"""The state of the rules that choose one pull at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.penalties import stylised_threshold
from fairtrial.confidence.thresholds import (
    GaussianMixture,
    Threshold,
    threshold_named,
)
from fairtrial.core.data_unit import unit_after
from fairtrial.core.draws import Source
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import PREDICTABLE, Guarantee
from fairtrial.core.seeds import seed_key
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations._kernels.indices import (
    BALANCED,
    EXACT,
    ITERATED_LOGARITHM,
    MIXTURE,
    STATIC,
    STYLISED,
    STYLISED_WITHOUT_HALF,
    UNIFORM,
)
from fairtrial.subpopulations._kernels.runs import (
    ask_tracker,
    correct_in_tracker,
    run_tracker,
    tell_tracker,
    tracker_evidence,
)
from fairtrial.subpopulations._kernels.tracker_state import (
    CONSTANTS,
    STATE,
    UNKNOWN,
    Constants,
    Rules,
    State,
)
from fairtrial.subpopulations.policies.in_order import NOTHING_HELD, hold, release
from fairtrial.subpopulations.policies.levels import proven_level
from fairtrial.subpopulations.policies.units import model_of, unit_of
from fairtrial.subpopulations.problem import Problem

__all__ = ["Sampling", "Tracker"]

Floats = NDArray[np.float64]

_INFORMATIVE_ONLY = frozenset({BALANCED, EXACT, STATIC})
"""Rules that leave out cells that no answer depends on."""

_TESTS = {
    "stylised": STYLISED,
    "stylised-without-half": STYLISED_WITHOUT_HALF,
    "certified": MIXTURE,
    "kaufmann-koolen": ITERATED_LOGARITHM,
}


@dataclass(frozen=True)
class Sampling:
    """How pulls are chosen.

    Parameters
    ----------
    rule : int
        One of the kernels' rules, such as `BALANCED`.
    seed : int
        Seed of the random numbers, for rules that use any.
    initial_pulls : int, optional
        Initial pulls of every cell; 5, or 10 if the noise is estimated.
    exploration : float, optional
        The least pulled cell is pulled while it has fewer pulls than this times sqrt(t / (K L)).
    shares : ndarray of shape (K, L), optional
        Shares to track, if they do not change.
    """

    rule: int
    seed: int
    initial_pulls: int | None
    exploration: float | None = None
    shares: Floats | None = None

    def initial_pulls_of(self, problem: Problem) -> int:
        """Return the number of initial pulls of every cell."""
        if self.initial_pulls is not None:
            return self.initial_pulls
        return 10 if problem.estimates_noise else 5

    def guard_of(self, problem: Problem) -> float:
        """Return how far the least pulled cell may fall behind."""
        if self.exploration is not None:
            return self.exploration
        both = problem.tolerance > 0.0 and problem.floor_tolerance > 0.0
        return 1.25 if self.rule == BALANCED else 0.5 if both else 0.0

    def shares_of(self, problem: Problem) -> Floats:
        """Return the shares that are tracked at first."""
        if self.shares is not None:
            return self.shares
        return np.full(problem.shape, 1.0 / problem.n_actions)


class Results:
    """Statistics of the results of all cells, in the form that the kernels keep.

    Parameters
    ----------
    shares : ndarray of shape (K, L)
        The shares that are tracked at first.
    tested : int
        Number of cells whose spread is tested: all, or 0.
    """

    fields: ClassVar[tuple[str, ...]] = ("floats", "integers")

    def __init__(self, shares: Floats, tested: int) -> None:
        arms, groups = shares.shape
        self.floats, self.integers = STATE.allocate(arms=arms, groups=groups, tested=tested)
        state = self.state
        state.shares[...] = shares
        state.pitfalls[...] = np.inf
        state.best[...] = state.weakest[...] = UNKNOWN

    @property
    def state(self) -> State:
        """The named views of the buffers."""
        return STATE.view(self.floats, self.integers)

    @property
    def has_values(self) -> bool:
        """Whether any result differs from 0."""
        state = self.state
        return bool(state.sums.any() or state.squares.any())

    def multiply(self, factor: float) -> None:
        """Multiply all results by a power of two."""
        state = self.state
        for kept, power in ((state.sums, 1), (state.means, 1), (state.squares, 2)):
            for _ in range(power):
                kept *= factor
        # A cell whose squares are lost in the new unit shows no spread.
        variances = _inverses(state.precisions)
        variances *= factor
        variances *= factor
        state.precisions[...] = _inverses(variances)

    def copy_from(self, other: Results) -> None:
        """Copy other results, without their records of spread."""
        own, given = self.state, other.state
        for name in State._fields:
            if name != "noise":
                getattr(own, name)[...] = getattr(given, name)


def _inverses(values: Floats) -> Floats:
    """Return 1 / values, with 0 for 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0.0)


class Tracker:
    """A sampling rule that chooses one pull at a time, and the threshold that stops it.

    Rewards are maximised. They are given as they are, and kept in the tracker's `unit`.

    Parameters
    ----------
    problem : Problem
        The problem.
    delta : float
        Accepted probability of a wrong answer.
    stopping : str or Threshold
        The threshold, or its name.
    sampling : Sampling
        How pulls are chosen.
    """

    fields = (
        *(f"results.{name}" for name in Results.fields),
        *(f"in_order.{name}" for name in Results.fields),
        "certain",
        "given",
        "held",
        "unit",
    )
    """Attributes that must be saved."""

    def __init__(
        self,
        problem: Problem,
        delta: float,
        stopping: str | Threshold,
        sampling: Sampling,
    ) -> None:
        if problem.refers_to_control:
            accepted = "must have no margin and no superiority: only BlockBetting takes them"
            raise InvalidArgument("problem", accepted)
        self._problem, self._delta = problem, delta
        self._rule, self._key = sampling.rule, seed_key(sampling.seed)
        self._threshold = threshold_named(stopping) if isinstance(stopping, str) else stopping
        if not isinstance(self._threshold, Threshold):
            raise InvalidArgument("stopping", "must be a threshold or its name", stopping)
        self.waits_for_order = problem.delay_depends_on_outcome
        if self.waits_for_order and not isinstance(self._threshold, GaussianMixture):
            raise InvalidArgument(
                "stopping", "must be 'certified' with delay_depends_on_outcome=True", stopping
            )
        self._informative_only = sampling.rule in _INFORMATIVE_ONLY
        model = model_of(problem, self._informative_only)
        self._needed = model.active > 0.0
        self._level, prices = proven_level(problem, self._threshold, delta, self.waits_for_order)
        self._rules = rules = Rules(
            sampling=sampling.rule,
            initial_pulls=float(sampling.initial_pulls_of(problem)),
            guard=sampling.guard_of(problem),
            shares=sampling.shares_of(problem),
            test=_TESTS[self._threshold.name],
            delta=delta,
            level=self._level,
            kappas=getattr(self._threshold, "kappas", np.ones(1)),
            prices=prices,
            estimates_noise=problem.estimates_noise,
        )
        self.unit = unit_of(problem)
        # If delays depend on outcomes, the evidence uses only results that are in order.
        is_stated = problem.reward_range is None and not problem.estimates_noise
        tested = problem.n_actions if is_stated else 0
        if self.waits_for_order:
            self.results = Results(rules.shares, 0)
            self.in_order = Results(rules.shares, tested)
        else:
            self.results = Results(rules.shares, tested)
            self.in_order = Results(np.zeros((0, 0)), 0)
        self.held = NOTHING_HELD
        # One arm without floors is the answer before any pull.
        self.certain = len(problem.arms) == 1 and not problem.constrained.any()
        self.given = 0

    # ------------------------------------------------------------------ the unit

    @property
    def unit(self) -> float:
        """The unit of all that is kept: a power of two, so that nothing is rounded.

        If the noise is stated, it never changes. If it is estimated, only rewards show their size.
        """
        return self._unit

    @unit.setter
    def unit(self, unit: float) -> None:
        self._unit = float(unit)
        model = model_of(self._problem, self._informative_only, self._unit)
        self._constants, _ = CONSTANTS.pack(Constants(model, self._rules))

    def _kept(self, reward: float) -> float:
        """Return a reward in the unit of all that is kept, which may change."""
        if self._problem.estimates_noise:
            is_first = not any(results.has_values for results in (self.results, self.in_order))
            unit = unit_after(self.unit, reward, is_first=is_first and not self.held[:, 2].any())
            if unit != self.unit:
                self._change_unit(unit)
        return reward / self.unit

    def _change_unit(self, unit: float) -> None:
        factor = self.unit / unit
        for results in (self.results, self.in_order):
            results.multiply(factor)
        self.held = self.held * [1.0, 1.0, factor]
        self.unit = unit

    # ---------------------------------------------------------------- events

    def choose(self, column: int, number: int) -> int:
        """Return the cell that the rule wants next, in the group of that index if one arrived."""
        return int(ask_tracker(*self._arrays(self.results), self._key, column, number))

    def learn(
        self, pull: Pull, reward: float, in_flight: bool, missing: Callable[[], list[int]]
    ) -> None:
        """Take one reward, and test whether the evidence is sufficient.

        `missing` returns the other pulls of the same cell that have no result.
        """
        reward = self._kept(reward)
        told = (pull.action, reward, in_flight, pull.number)
        enough = tell_tracker(*self._arrays(self.results), *told)
        if self.waits_for_order:
            if pull.number != UNSOLICITED:
                self._learn_in_order(pull, reward, missing())
        elif enough:
            self._conclude()

    def _learn_in_order(self, pull: Pull, reward: float, missing: list[int]) -> None:
        """Test the results that are complete in the order of issue; skip unsolicited data."""
        held = hold(self.held, pull.number, pull.action, reward)
        usable, self.held = release(held, pull.action, missing)
        for number, action, value in usable.tolist():
            told = (int(action), value, False, int(number))
            if tell_tracker(*self._arrays(self.in_order), *told):
                self._conclude()

    def _arrays(self, results: Results) -> tuple[Any, ...]:
        """Return the arguments that all kernels take."""
        return self._constants, results.floats, results.integers

    def _conclude(self) -> None:
        if not self.certain:
            self.certain, self.given = True, self._leader

    def lose(self, pull: Pull) -> None:
        """Free the cell's place: the rule pulls it again if it still wants it."""
        self.results.state.pending.flat[pull.action] -= 1.0

    def amend(self, pull: Pull, old: float, new: float) -> bool:
        """Correct a reward; return whether the evidence used the old value."""
        new = self._kept(new)
        old /= self.unit
        change = (pull.action, old, new, pull.number)
        correct_in_tracker(*self._arrays(self.results), *change)
        if not self.waits_for_order:
            return True
        if pull.number == UNSOLICITED:
            return False
        waiting = self.held[:, 0] == pull.number
        if waiting.any():
            self.held = np.where(waiting[:, None] & [False, False, True], new, self.held)
            return False
        correct_in_tracker(*self._arrays(self.in_order), *change)
        return True

    def run(
        self, source: Source, sign: float, generator: np.random.Generator, horizon: int
    ) -> None:
        """Continue until the stop or until there are that many results."""
        if self.certain:
            return
        simulated = (source, sign / self.unit, generator, horizon)
        self.certain = run_tracker(*self._arrays(self._tested), self._key, *simulated)
        if self.waits_for_order:
            # Every result came at once, and so in order.
            self.results.copy_from(self.in_order)
        self.given = self._leader

    # --------------------------------------------------------------- current state

    @property
    def _tested(self) -> Results:
        """The results that the evidence uses."""
        return self.in_order if self.waits_for_order else self.results

    @property
    def _leader(self) -> int:
        best = int(self._tested.state.best[0])
        return len(self._problem.arms) if best < 0 else best

    @property
    def finished(self) -> bool:
        """Whether there is enough evidence."""
        return bool(self.certain)

    @property
    def answer(self) -> int | None:
        """The answer, or the leader; None before every cell that matters has a result."""
        if self.certain:
            return int(self.given)
        has_all_means = (self._tested.state.counts[self._needed] > 0).all()
        return self._leader if has_all_means else None

    @property
    def data(self) -> tuple[Floats, Floats]:
        """Counts and sums of all results by cell, shape (K, L)."""
        state = self.results.state
        return state.counts, state.sums * self.unit

    @property
    def tested(self) -> tuple[Floats, Floats]:
        """Counts and sums of the results that the evidence uses, by cell, shape (K, L)."""
        state = self._tested.state
        return state.counts, state.sums * self.unit

    @property
    def scale(self) -> Floats:
        """The scale of the noise by cell: the problem's, or an estimate; infinite without one."""
        if not self._problem.estimates_noise:
            return self._problem.scale
        state = self._tested.state
        unknown = np.full_like(state.counts, math.inf)
        known = np.divide(state.counts, state.precisions, out=unknown, where=state.precisions > 0.0)
        return np.asarray(np.sqrt(known) * self.unit)

    @property
    def evidence(self) -> tuple[float | None, float]:
        """Evidence for the leader, and the threshold that it must exceed."""
        found = float(tracker_evidence(*self._arrays(self._tested)))
        needed = self._level
        if not self._threshold.proven:
            pulls = max(1.0, self.results.state.counts.sum())
            needed = float(stylised_threshold(pulls, self._delta))
        return found if math.isfinite(found) else None, needed

    @property
    def spreads(self) -> list[Floats]:
        """The records of how results spread; each is tested separately."""
        records = self._tested.state.noise
        if not len(records):
            return []
        # The number of complete results of a cell is no stopping time.
        return list(records[:, np.newaxis]) if self.waits_for_order else [records]

    def guarantee(self, lost: int, amended: int) -> Guarantee:
        """Return the threshold's guarantee, weakened by that many losses and corrections."""
        problem = self._problem
        promise: Guarantee = self._threshold.guarantee(self._delta)
        if problem.tolerance or problem.floor_tolerance:
            right = (
                f"an answer within {problem.tolerance:g} of the best is right, with means up to "
                f"{problem.floor_tolerance:g} beyond their limits"
            )
            promise = replace(promise, statement=f"{promise.statement}; {right}")
        if problem.estimates_noise:
            promise = promise.weakened("the estimated noise is the true one")
        if self.waits_for_order:
            order = "rewards of different cells are independent; they may be told at any time"
            promise = replace(promise, assumptions=(*promise.assumptions[:-1], order))
        else:
            event = "got lost, for reasons assumed to be unrelated to rewards"
            promise = promise.weakened_by(lost, "pull", event)
        if self._rule != UNIFORM:
            promise = promise.assuming(PREDICTABLE)
        event = "came, for reasons assumed to be unrelated to the values"
        return promise.weakened_by(amended, "correction", event)
