"""The rules that choose one draw at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.thresholds import (
    GaussianMixture,
    KaufmannKoolen,
    Threshold,
    kaufmann_koolen_constant,
    stylised_threshold,
    threshold_named,
)
from fairtrial.core.environment import Environment
from fairtrial.core.policy import Choice
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.run import Run
from fairtrial.core.seeds import seed_key
from fairtrial.core.validation import check_array, check_choice, check_integer, check_number
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations.environments import CellEnvironment
from fairtrial.subpopulations.policies.base import FloorPolicy, model_of
from fairtrial.subpopulations.policies.in_order import NOTHING_HELD, hold, release
from fairtrial.subpopulations.problem import Problem

__all__ = [
    "BalancedTracking",
    "ExactTracking",
    "PlainTrackAndStop",
    "RoundRobin",
    "TrackAndStop",
    "UniformSampling",
]

Floats = NDArray[np.float64]

KINDS = {"stylised": 0, "stylised-without-half": 1, "certified": 2, "kaufmann-koolen": 3}


class _Tracking(FloorPolicy):
    """A sampling rule that chooses one draw at a time, with a stopping threshold by name."""

    rule: int
    informative_only: ClassVar[bool] = True
    state_fields = (
        "_planes", "_scan", "_pitfalls", "_certain", "_given", "_amended",
        "_order_planes", "_order_scan", "_order_pitfalls", "_held",
    )  # fmt: skip

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Threshold = "certified",
        start: int | None = None,
        exploration: float | None = None,
        max_pulls: int | None = None,
        delays: str = "ignorable",
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, delta, max_pulls, seed)
        self.stopping = stopping
        self.delays = check_choice("delays", delays, ["ignorable", "informative"])
        self._threshold = threshold_named(stopping) if isinstance(stopping, str) else stopping
        if not isinstance(self._threshold, Threshold):
            raise InvalidArgument("stopping", "must be a threshold or its name", stopping)
        self.start = None if start is None else check_integer("start", start, low=0)
        self.exploration = (
            None if exploration is None else check_number("exploration", exploration, low=0.0)
        )
        if self._waits_for_order and not isinstance(self._threshold, GaussianMixture):
            raise InvalidArgument(
                "stopping", "must be 'certified' with informative delays", stopping
            )
        self._setup()

    @property
    def _waits_for_order(self) -> bool:
        return self.delays == "informative"

    def _setup(self) -> None:
        from fairtrial.subpopulations._kernels.model import PLANES, SHARES, pack_model
        from fairtrial.subpopulations._kernels.sampling import UNKNOWN

        arms, groups = self.problem.shape
        model = model_of(self.problem, self.informative_only)
        self._model, self._needed = pack_model(model), model.active > 0.0
        self._kind = KINDS[self._threshold.name]
        self._level, self._constants = _proven_level(
            self.problem, self._threshold, self.delta, self._waits_for_order
        )
        self._kappas = getattr(self._threshold, "kappas", np.ones(1))
        initial = 10 if self.problem.estimates_noise else 5
        self._start = float(initial if self.start is None else self.start)
        both = self.problem.slack > 0.0 and self.problem.floor_slack > 0.0
        default_guard = 0.5 if both else 0.0
        self._guard = default_guard if self.exploration is None else self.exploration
        self._key0, self._key1 = seed_key(self.seed)
        self._shares = np.full((arms, groups), 1.0 / (arms * groups))
        self._planes = np.zeros((PLANES, arms, groups))
        self._planes[SHARES] = self._shares
        self._scan = np.full(2, UNKNOWN, dtype=np.int64)
        self._pitfalls = np.full(arms + groups, np.inf)
        # With informative delays a second set of books has the results that are in order.
        whole = slice(None if self._waits_for_order else 0)
        self._order_planes = self._planes[whole].copy()
        self._order_scan = self._scan[whole].copy()
        self._order_pitfalls = self._pitfalls[whole].copy()
        self._held = NOTHING_HELD
        # One arm without floors is the answer before any draw.
        self._certain = arms == 1 and not self.problem.constrained.any()
        self._given = 0

    # ------------------------------------------------------------------- contract

    def choose(self, group: str | None = None) -> Choice:
        """Return the cell that the rule wants next (in the group that arrived, if one did)."""
        from fairtrial.subpopulations._kernels.runs import ask_tracker

        column = -1 if group is None else self._column(group)
        return int(ask_tracker(*self._state(self.rule, column, *self._sampling, self.asked)))

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward and test whether it is enough."""
        from fairtrial.subpopulations._kernels.runs import tell_tracker

        solicited = pull.number in self._outstanding
        told = (pull.action, self._sign * outcome, solicited)
        enough = tell_tracker(*self._state(*told, *self._test))
        if self._waits_for_order:
            self._learn_in_order(pull, self._sign * outcome)
        elif enough:
            self._conclude()

    def _conclude(self) -> None:
        if not self._certain:
            self._certain, self._given = True, self._leader

    def _learn_in_order(self, pull: Pull, reward: float) -> None:
        """Test what is complete in the order of issue; data that nobody asked for has no place."""
        from fairtrial.subpopulations._kernels.runs import tell_tracker

        if pull.number == UNSOLICITED:
            return
        held = hold(self._held, pull.number, pull.action, reward)
        missing = (
            number
            for waiting in (self._outstanding, self._lost)
            for number, (action, _) in waiting.items()
            if action == pull.action and number != pull.number
        )
        usable, self._held = release(held, pull.action, missing)
        for _, action, value in usable.tolist():
            if tell_tracker(*self._evidence_state(int(action), value, False, *self._test)):
                self._conclude()

    def _state(self, *more: Any) -> Any:
        """Return what the kernels know and change, and `more` after it."""
        return (self._model, self._planes, self._scan, self._pitfalls, *more)

    def _evidence_state(self, *more: Any) -> Any:
        """Return what the evidence rests on, and `more` after it."""
        if not self._waits_for_order:
            return self._state(*more)
        return (self._model, self._order_planes, self._order_scan, self._order_pitfalls, *more)

    @property
    def _books(self) -> Floats:
        """The planes that the evidence rests on."""
        return self._order_planes if self._waits_for_order else self._planes

    @property
    def _sampling(self) -> Any:
        """What the kernels need to choose."""
        return self._start, self._guard, self._shares, self._key0, self._key1

    @property
    def _test(self) -> Any:
        """What the kernels need to test whether the evidence suffices."""
        return (
            self.problem.estimates_noise,
            self._kind,
            self._start,
            self.delta,
            self._level,
            self._kappas,
            self._constants,
        )

    def lose(self, pull: Pull, reason: str) -> None:
        """Free the cell's place: the rule will draw it again if it still wants it."""
        from fairtrial.subpopulations._kernels.model import PENDING

        self._planes[PENDING].flat[pull.action] -= 1.0

    def revise(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward; the evidence is that of the corrected data."""
        from fairtrial.subpopulations._kernels.runs import correct_in_tracker

        change = (self._sign * old, self._sign * new, self.problem.estimates_noise)
        correct_in_tracker(*self._state(pull.action, *change))
        if self._waits_for_order and pull.number != UNSOLICITED:
            waiting = self._held[:, 0] == pull.number
            if waiting.any():
                self._held = np.where(
                    waiting[:, None] & [False, False, True], change[1], self._held
                )
            else:
                correct_in_tracker(*self._evidence_state(pull.action, *change))
        self._amended += 1

    def compiled_run(
        self,
        environment: Environment,
        generator: np.random.Generator,
        horizon: int | None,
        parallel: int = 1,
    ) -> Run | None:
        """Return a whole run from compiled code."""
        from fairtrial.subpopulations._kernels.model import COUNTS
        from fairtrial.subpopulations._kernels.runs import run_tracker

        if parallel != 1 or not self._can_compile(environment):
            return None
        assert isinstance(environment, CellEnvironment)
        if not self._certain:
            rule = (self.rule, *self._sampling[1:])
            world = (*environment.source, self._sign, generator, self._most(horizon))
            draws, self._certain = run_tracker(*self._state(*self._test, *rule, *world))
            self.told = self.asked = draws
            if self._waits_for_order:
                # Every result came at once, and so in order.
                self._order_planes[...] = self._planes
                self._order_scan[...], self._order_pitfalls[...] = self._scan, self._pitfalls
            self._given = self._leader
        return self._run(environment, self._planes[COUNTS], self.told)

    # --------------------------------------------------------------------- report

    @property
    def _leader(self) -> int:
        from fairtrial.subpopulations._kernels.sampling import BEST

        scan = self._order_scan if self._waits_for_order else self._scan
        best = int(scan[BEST])
        return len(self.problem.arms) if best < 0 else best

    @property
    def _has_all_means(self) -> bool:
        from fairtrial.subpopulations._kernels.model import COUNTS

        return bool((self._books[COUNTS][self._needed] > 0).all())

    @property
    def _decided(self) -> bool:
        return bool(self._certain)

    @property
    def _answer(self) -> int | None:
        if self._certain:
            return int(self._given)
        return self._leader if self._has_all_means else None

    @property
    def _data(self) -> tuple[Floats, Floats]:
        from fairtrial.subpopulations._kernels.model import COUNTS, SUMS

        return self._books[COUNTS], self._books[SUMS]

    def _scale(self) -> Floats:
        from fairtrial.subpopulations._kernels.model import COUNTS, PRECISIONS

        if not self.problem.estimates_noise:
            return self.problem.scale
        counts, precisions = self._books[COUNTS], self._books[PRECISIONS]
        known = np.divide(counts, precisions, out=np.ones_like(counts), where=counts > 1)
        return np.asarray(np.sqrt(known))

    def _evidence(self) -> tuple[float | None, float | None]:
        from fairtrial.subpopulations._kernels.model import COUNTS
        from fairtrial.subpopulations._kernels.runs import tracker_evidence

        tests = (self._kind, self._level, self._kappas, self._constants)
        found = float(tracker_evidence(*self._evidence_state(*tests)))
        needed = self._level
        if not self._threshold.proven:
            draws = max(1.0, self._planes[COUNTS].sum())
            needed = float(stylised_threshold(draws, self.delta))
        return found if math.isfinite(found) else None, needed

    @property
    def guarantee(self) -> Guarantee:
        """The threshold's guarantee, weakened where the data no longer fit its assumptions."""
        promise = self._threshold.guarantee(self.delta)
        if self.problem.estimates_noise:
            promise = promise.weakened("the estimated noise is the true one")
        if self._waits_for_order:
            order = "rewards of different cells are independent; they may be told when they like"
            promise = replace(promise, assumptions=(*promise.assumptions[:-1], order))
        elif self._lost:
            promise = promise.weakened(
                f"{len(self._lost)} lost pulls were lost for reasons unrelated to their rewards"
            )
        if self._amended:
            promise = promise.weakened(
                f"the {self._amended} corrections were made for reasons unrelated to the values"
            )
        return promise


class BalancedTracking(_Tracking):
    """Information-balanced sampling: draw what the weakest evidence rests on.

    Best of the rules that choose one draw at a time; takes data in any order, in
    batches, from passive arrivals (``ask(group=...)``), with costs and with slack.

    Parameters
    ----------
    problem : Problem
        The problem.
    delta : float
        Probability of a wrong answer that is accepted.
    stopping : str or Threshold
        ``"certified"`` (proven, default), ``"kaufmann-koolen"`` (proven),
        ``"stylised"`` (the paper's, a heuristic), or a threshold object.
    start : int, optional
        Initial draws of every cell; 5, or 10 if the noise is estimated.
    exploration : float, optional
        Draw the least drawn cell while it has fewer than `exploration` times
        sqrt(t / (K L)) draws; 0.5 with slack of both kinds, else none.
    max_pulls : int, optional
        Stop undecided after so many results.
    delays : {"ignorable", "informative"}
        Whether a result's value may have a say in when it is told, or whether at all. If it
        may, the tests use of each cell what is complete in the order of issue, at a higher
        price for pairs; a lost pull then ends the use of its cell. Certified stop only.
    seed : None, int or numpy.random.Generator
        Not used: the rule tosses no coins.

    Notes
    -----
    Source: You, Qin, Wang, Yang (2023), "Information-directed selection for top-two
    algorithms", for the pitfalls of Wu, Zheng and Zhu.

    Examples
    --------
    >>> policy = BalancedTracking(Problem(3, 2, noise_std=1.0), delta=0.1)
    >>> [pull.action for pull in policy.ask(3)]
    [0, 1, 2]
    """

    rule = 0


class TrackAndStop(_Tracking):
    """The paper's T-a-SCS: projected gradient steps on floored weights, cumulative tracking.

    Parameters are those of `BalancedTracking`.

    Notes
    -----
    Source: Wu, Zheng, Zhu, Algorithm 1, with step size 1 on the floored weights. Kept for
    replication; `BalancedTracking` needs fewer draws.

    Examples
    --------
    >>> TrackAndStop(Problem(2, 1, noise_std=1.0), stopping="stylised").guarantee.label
    'heuristic'
    """

    rule = 1
    informative_only = False


class ExactTracking(_Tracking):
    """Tracking of the optimal shares at the estimated means, or of shares given once.

    Parameters are those of `BalancedTracking`, and:

    Parameters
    ----------
    shares : array-like of shape (K, L), optional
        Track these shares instead, as an oracle would; they must be positive somewhere
        and sum to one.

    Examples
    --------
    >>> ExactTracking(Problem(2, 1, noise_std=1.0), shares=[[0.5], [0.5]]).delta
    0.05
    """

    rule = 2

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Threshold = "certified",
        start: int | None = None,
        exploration: float | None = None,
        max_pulls: int | None = None,
        delays: str = "ignorable",
        shares: ArrayLike | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, delta, stopping, start, exploration, max_pulls, delays, seed)
        self.shares = shares
        if shares is not None:
            given = check_array("shares", shares, problem.shape)
            if (given < 0).any() or abs(given.sum() - 1.0) > 1e-6:
                raise InvalidArgument("shares", "must be non-negative and sum to 1", shares)
            self._shares = np.array(given)
            self.rule = 6


class PlainTrackAndStop(_Tracking):
    """Ordinary Track-and-Stop on the overall means, blind to floors; groups by their weights.

    Parameters are those of `BalancedTracking`. A baseline: it may need many times the draws.

    Notes
    -----
    Source: Garivier, Kaufmann (2016), "Optimal best arm identification with fixed
    confidence", with cumulative tracking.

    Examples
    --------
    >>> PlainTrackAndStop(Problem(2, 2, noise_std=1.0), seed=1).ask().arm
    '0'
    """

    rule = 3
    informative_only = False


class UniformSampling(_Tracking):
    """Every arm equally often, at random, groups by their weights: a baseline.

    Parameters are those of `BalancedTracking`.

    Examples
    --------
    >>> UniformSampling(Problem(2, 2, noise_std=1.0), seed=1).ask().group
    '0'
    """

    rule = 4
    informative_only = False


class RoundRobin(_Tracking):
    """Every cell in turn: a baseline.

    Parameters are those of `BalancedTracking`.

    Examples
    --------
    >>> [pull.action for pull in RoundRobin(Problem(2, 2, noise_std=1.0)).ask(5)]
    [0, 1, 2, 3, 0]
    """

    rule = 5
    informative_only = False


def _proven_level(
    problem: Problem, threshold: Threshold, delta: float, in_order: bool
) -> tuple[float, Floats]:
    """Return ln(1/delta') and the threshold's constants by number of cells in a pair test.

    delta' = delta / (K - 1 + m): a wrong answer needs one of K - 1 exclusions, or one of
    the m floors and ceilings of the right arm, to fail.
    """
    arms = len(problem.arms)
    most_limits = int(np.isfinite(problem.limits()).sum(axis=(0, 2)).max())
    tests = max(1, arms - 1 + most_limits)
    level = math.log(tests / delta)
    constants = np.zeros(2 * len(problem.groups) + 1)
    if isinstance(threshold, KaufmannKoolen):
        constants[0] = kaufmann_koolen_constant(level)
        for cells in range(1, constants.size):
            constants[cells] = kaufmann_koolen_constant(level / cells)
    elif in_order and isinstance(threshold, GaussianMixture):
        constants[1:] = _price_of_order(constants.size - 1, level, len(threshold.kappas))
    return level, constants


def _price_of_order(cells: int, level: float, kappas: int) -> Floats:
    """Return what a pair test of 1 .. `cells` cells needs beyond `level`, for each prior count.

    How much of a cell is complete is no stopping time, so that each cell's e-value has to be
    bounded by its supremum. These are independent, and the log of each is at most a standard
    exponential: their sum exceeds x with probability e^-x (1 + x + ... + x^(C-1) / (C-1)!).
    """
    from scipy.special import gammainccinv

    needed = level + math.log(kappas)
    return np.asarray(gammainccinv(np.arange(1, cells + 1), math.exp(-needed)) - needed)
