"""The state of the rules that choose one pull at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.noise_kernels import NUMBERED_COLUMNS
from fairtrial.confidence.thresholds import (
    GaussianMixture,
    Threshold,
    stylised_threshold,
    threshold_named,
)
from fairtrial.core.draws import Source
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.seeds import seed_key
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations._kernels.indices import (
    BALANCED,
    BEST,
    COUNTS,
    EXACT,
    ITERATED_LOGARITHM,
    MIXTURE,
    PENDING,
    PLANES,
    PRECISIONS,
    SHARES,
    STATIC,
    STYLISED,
    STYLISED_WITHOUT_HALF,
    SUMS,
    UNIFORM,
    UNKNOWN,
)
from fairtrial.subpopulations._kernels.model import MODEL
from fairtrial.subpopulations._kernels.runs import (
    ask_tracker,
    correct_in_tracker,
    run_tracker,
    tell_tracker,
    tracker_evidence,
)
from fairtrial.subpopulations.policies.in_order import NOTHING_HELD, hold, release
from fairtrial.subpopulations.policies.levels import proven_level
from fairtrial.subpopulations.policies.units import PREDICTABLE, model_of
from fairtrial.subpopulations.problem import Problem

__all__ = ["Sampling", "Tracker"]

Floats = NDArray[np.float64]

_INFORMATIVE_ONLY = frozenset({BALANCED, EXACT, STATIC})
"""Rules that leave out the cells that no answer depends on."""

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
        Of the random numbers of rules that take any.
    initial_pulls : int, optional
        First pulls of every cell; 5, or 10 if the noise is estimated.
    exploration : float, optional
        The least pulled cell is pulled while it has fewer than this times sqrt(t / (K L)) pulls.
    shares : ndarray of shape (K, L), optional
        Shares that are tracked, if they do not change.
    """

    rule: int
    seed: int
    initial_pulls: int | None
    exploration: float | None = None
    shares: Floats | None = None

    def initial_pulls_of(self, problem: Problem) -> int:
        """Return the first pulls of every cell."""
        if self.initial_pulls is not None:
            return self.initial_pulls
        return 10 if problem.estimates_noise else 5

    def guard_of(self, problem: Problem) -> float:
        """Return how far the least pulled cell may be behind."""
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
    """What the results of all cells come to, as the kernels keep it.

    Attributes
    ----------
    planes : ndarray of shape (PLANES, K, L)
        Counts, sums and more by cell.
    scan : ndarray of int
        The best answer and its weakest pitfall.
    pitfalls : ndarray
        The evidence against the best answer.
    """

    fields: ClassVar[tuple[str, ...]] = ("planes", "scan", "pitfalls")

    def __init__(self, shares: Floats) -> None:
        arms, groups = shares.shape
        self.planes = np.zeros((PLANES, arms, groups))
        self.planes[SHARES] = shares
        self.scan = np.full(2, UNKNOWN, dtype=np.int64)
        self.pitfalls = np.full(arms + groups, np.inf)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels are given."""
        return self.planes, self.scan, self.pitfalls

    def copy_from(self, other: Results) -> None:
        """Take over what other results come to."""
        for own, given in zip(self.arrays, other.arrays, strict=True):
            own[...] = given


class Tracker:
    """A sampling rule that chooses one pull at a time, and the threshold that stops it.

    Rewards are maximised, in the units of the kernels.

    Parameters
    ----------
    problem : Problem
        The problem.
    delta : float
        Probability of a wrong answer that is accepted.
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
        "noise",
    )
    """Attributes that have to be saved."""

    def __init__(
        self,
        problem: Problem,
        delta: float,
        stopping: str | Threshold,
        sampling: Sampling,
    ) -> None:
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
        model = model_of(problem, sampling.rule in _INFORMATIVE_ONLY)
        (self._model, _), self._needed = MODEL.pack(model), model.active > 0.0
        self._start = float(sampling.initial_pulls_of(problem))
        self._guard = sampling.guard_of(problem)
        self._shares = sampling.shares_of(problem)
        self._level, constants = proven_level(problem, self._threshold, delta, self.waits_for_order)
        self._tests = (
            _TESTS[self._threshold.name],
            self._level,
            getattr(self._threshold, "kappas", np.ones(1)),
            constants,
        )
        self.results = Results(self._shares)
        # Where delays depend on outcomes the evidence rests on the results that are in order.
        self.in_order = Results(self._shares if self.waits_for_order else np.zeros((0, 0)))
        self.held = NOTHING_HELD
        stated = problem.reward_range is None and not problem.estimates_noise
        self.noise = np.zeros((1, problem.n_actions, NUMBERED_COLUMNS) if stated else (0, 0, 0))
        # One arm without floors is the answer before any pull.
        self.certain = len(problem.arms) == 1 and not problem.constrained.any()
        self.given = 0

    # ---------------------------------------------------------------- what happens

    def choose(self, column: int, number: int) -> int:
        """Return the cell that the rule wants next, in the group of that index if one arrived."""
        sampling = (self._start, self._guard, self._shares, *self._key)
        wanted = (self._rule, column, *sampling, number)
        return int(ask_tracker(self._model, *self.results.arrays, *wanted))

    def learn(
        self, pull: Pull, reward: float, in_flight: bool, missing: Callable[[], list[int]]
    ) -> None:
        """Take one reward and test whether it is enough.

        `missing` returns the other pulls of the same cell that have no result.
        """
        told = (pull.action, reward, in_flight, *self._test, pull.number, self._tested_as_told)
        enough = tell_tracker(self._model, *self.results.arrays, *told)
        if self.waits_for_order:
            if pull.number != UNSOLICITED:
                self._learn_in_order(pull, reward, missing())
        elif enough:
            self._conclude()

    def _learn_in_order(self, pull: Pull, reward: float, missing: list[int]) -> None:
        """Test what is complete in the order of issue; unsolicited data has no place."""
        held = hold(self.held, pull.number, pull.action, reward)
        usable, self.held = release(held, pull.action, missing)
        for number, action, value in usable.tolist():
            told = (int(action), value, False, *self._test, int(number), self.noise)
            if tell_tracker(self._model, *self.in_order.arrays, *told):
                self._conclude()

    def _conclude(self) -> None:
        if not self.certain:
            self.certain, self.given = True, self._leader

    def lose(self, pull: Pull) -> None:
        """Free the cell's place: the rule will pull it again if it still wants it."""
        self.results.planes[PENDING].flat[pull.action] -= 1.0

    def amend(self, pull: Pull, old: float, new: float) -> bool:
        """Correct a reward; return whether evidence rested on what it was."""
        change = (pull.action, old, new, self._problem.estimates_noise, pull.number)
        correct_in_tracker(self._model, *self.results.arrays, *change, self._tested_as_told)
        if not self.waits_for_order:
            return True
        if pull.number == UNSOLICITED:
            return False
        waiting = self.held[:, 0] == pull.number
        if waiting.any():
            self.held = np.where(waiting[:, None] & [False, False, True], new, self.held)
            return False
        correct_in_tracker(self._model, *self.in_order.arrays, *change, self.noise)
        return True

    def run(
        self, source: Source, sign: float, generator: np.random.Generator, horizon: int
    ) -> None:
        """Go on to the stop or until there are that many results."""
        if self.certain:
            return
        rule = (self._rule, self._guard, self._shares, *self._key)
        simulated = (*source, sign, generator, horizon, self.noise)
        _, self.certain = run_tracker(
            self._model, *self.results.arrays, *self._test, *rule, *simulated
        )
        if self.waits_for_order:
            # Every result came at once, and so in order.
            self.in_order.copy_from(self.results)
        self.given = self._leader

    @property
    def _test(self) -> tuple[Any, ...]:
        """What the kernels need to test whether there is enough evidence."""
        kind, *rest = self._tests
        return self._problem.estimates_noise, kind, self._start, self._delta, *rest

    @property
    def _tested_as_told(self) -> Floats:
        """The record that results enter when they are told: none if they wait for their order."""
        return self.noise[len(self.noise) :] if self.waits_for_order else self.noise

    # --------------------------------------------------------------- how it stands

    @property
    def _tested(self) -> Results:
        """The results that the evidence rests on."""
        return self.in_order if self.waits_for_order else self.results

    @property
    def _leader(self) -> int:
        best = int(self._tested.scan[BEST])
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
        has_all_means = (self._tested.planes[COUNTS][self._needed] > 0).all()
        return self._leader if has_all_means else None

    @property
    def data(self) -> tuple[Floats, Floats]:
        """Counts and sums by cell, shape (K, L)."""
        return self._tested.planes[COUNTS], self._tested.planes[SUMS]

    @property
    def scale(self) -> Floats:
        """The scale of the noise by cell: the problem's, or what it is estimated to be."""
        if not self._problem.estimates_noise:
            return self._problem.scale
        counts, precisions = self._tested.planes[COUNTS], self._tested.planes[PRECISIONS]
        known = np.divide(counts, precisions, out=np.ones_like(counts), where=counts > 1)
        return np.asarray(np.sqrt(known))

    @property
    def evidence(self) -> tuple[float | None, float]:
        """Evidence for the leader, and the threshold it is held against."""
        found = float(tracker_evidence(self._model, *self._tested.arrays, *self._tests))
        needed = self._level
        if not self._threshold.proven:
            pulls = max(1.0, self.results.planes[COUNTS].sum())
            needed = float(stylised_threshold(pulls, self._delta))
        return found if math.isfinite(found) else None, needed

    @property
    def spreads(self) -> list[Floats]:
        """The records of how results spread that are tested, each by itself."""
        if not len(self.noise):
            return []
        records = self.noise[0]
        # How much of a cell is complete is no stopping time.
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
            order = "rewards of different cells are independent; they may be told when they like"
            promise = replace(promise, assumptions=(*promise.assumptions[:-1], order))
        else:
            event = "got lost for reasons unrelated to rewards"
            promise = promise.weakened_by(lost, "pull", event)
        if self._rule != UNIFORM:
            promise = promise.assuming(PREDICTABLE)
        event = "came for reasons unrelated to the values"
        return promise.weakened_by(amended, "correction", event)
