"""The rules that choose one pull at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.policy import Choice
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.validation import check_integer
from fairtrial.errors import InvalidArgument
from fairtrial.linear._kernels.estimates import LEAST_FREEDOM
from fairtrial.linear._kernels.runs import (
    ask_tracker,
    correct_in_tracker,
    live_in_tracker,
    lose_in_tracker,
    run_tracker,
    start_tracker,
    tell_tracker,
)
from fairtrial.linear._kernels.track import (
    CONTROLS,
    FINISHED,
    HOPELESS,
    NOISE,
    READY,
    STARTED,
    TOLD,
    Test,
    open_track,
    track_sizes,
)
from fairtrial.linear.environments import ArmEnvironment
from fairtrial.linear.policies.base import LinearPolicy, tie_key
from fairtrial.linear.policies.levels import (
    ConstantLevel,
    Level,
    MixtureLevel,
    RidgeLevel,
    StaticChecksLevel,
    level_named,
)
from fairtrial.linear.problem import Problem

__all__ = ["FrankWolfeSampling", "FullyAdaptiveXY", "LinGame", "LinGapE"]

Floats = NDArray[np.float64]

_AT_LOOKS_ONLY = (StaticChecksLevel, ConstantLevel)
"""Levels that do not hold at every moment, or at all."""

_MOST_CONDITION = 1e6
"""Of the features, from which on the square of a ridge in their units is lost to rounding."""


class Tracking(LinearPolicy):
    """A rule that chooses one pull at a time, with a stopping level by name."""

    rule: ClassVar[int]
    samplers: ClassVar[str] = "adaptive"
    state_fields: ClassVar[tuple[str, ...]] = ("_floats", "_integers", "_amended", "_unasked")

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Level = "mixture",
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, delta, max_pulls, seed)
        self.stopping = stopping
        self.initial_pulls = (
            None if initial_pulls is None else check_integer("initial_pulls", initial_pulls, low=0)
        )
        self._level = level_named(stopping, self.samplers, type(self).__name__)
        if isinstance(self._level, MixtureLevel) and self._initial < 1:
            raise InvalidArgument(
                "initial_pulls", "must be at least 1 with the mixture level", initial_pulls
            )
        self._unasked = 0
        self._setup()

    def _setup(self) -> None:
        self._packed = self._pack(self._test())
        floats, integers = track_sizes(*self._shape)
        self._floats = np.zeros(floats)
        self._integers = np.zeros(integers, dtype=np.int64)
        track = self._track
        track.prior[...] = self._prior()
        track.shares[self.problem.start_arms] = self._initial
        start_tracker(*self._books())

    @property
    def _tie_key(self) -> int:
        return -1

    @property
    def _initial(self) -> int:
        return 10 if self.initial_pulls is None else self.initial_pulls

    def _prior(self) -> Floats:
        """Return the prior precision of the mixture, or the ridge, in reduced coordinates."""
        reduced, level = self.problem.reduced, self._level
        if isinstance(level, RidgeLevel):
            # The least norm of a theta that gives the same rewards, as a quadratic form.
            features = self.problem.features / self.problem.scale[:, np.newaxis]
            back = np.linalg.lstsq(reduced.arms, features, rcond=None)[0]
            size = np.abs(back).max(initial=0.0)
            if not 1e-100 < size < 1e100 or np.linalg.cond(back) > _MOST_CONDITION:
                raise InvalidArgument(
                    "stopping",
                    "must not be a RidgeLevel where features differ so much in size, or depend on "
                    "each other so nearly: scale them, or take the mixture level",
                    level,
                )
            return np.asarray(level.ridge * np.linalg.inv(back @ back.T))
        rows = reduced.arms[self.problem.basis_arms]
        spread = level.spread if isinstance(level, MixtureLevel) else 1.0
        return np.asarray(spread * max(1, self._initial) * rows.T @ rows)

    def _test(self) -> Floats:
        level, problem = self._level, self.problem
        _, candidates, _ = self._shape
        ridge = level if isinstance(level, RidgeLevel) else RidgeLevel(1.0)
        with np.errstate(over="ignore"):
            longest = float(np.square(problem.features / problem.scale[:, None]).sum(axis=1).max())
        test = Test(
            kind=level.kind,
            delta=self.delta,
            errors=float(max(1, problem.top * (candidates - problem.top))),
            candidates=float(candidates),
            spread=level.spread if isinstance(level, MixtureLevel) else 1.0,
            prior_log_det=float(np.linalg.slogdet(self._prior())[1]),
            constant=level.value if isinstance(level, ConstantLevel) else 0.0,
            radius=math.sqrt(ridge.ridge) * ridge.norm_bound,
            reach=longest / ridge.ridge,
            initial=float(self._initial),
            tolerance=self._tolerance,
            top=problem.top,
            estimated=problem.estimates_noise,
            misspecification=self._misspecification,
            tie_key=self._tie_key,
        )
        return np.array(test, dtype=np.float64)

    def _books(self, *more: Any) -> Any:
        """Return everything that the kernels need, packed, and `more` after it."""
        return (self._packed, self._floats, self._integers, *self._shape, *more)

    @property
    def _track(self) -> Any:
        return open_track(self._floats, self._integers, *self._shape)

    # ------------------------------------------------------------------- contract

    def choose(self) -> Choice:
        """Return the arm that the rule wants next, given what is told and what is in flight."""
        return int(ask_tracker(*self._books(self.rule)))

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward and test whether it is enough."""
        self._unasked += pull.number == UNSOLICITED
        solicited = pull.number in self._outstanding
        reward = self._reduced(pull.action, outcome)
        tell_tracker(*self._books(self.rule, pull.action, reward, solicited))

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Free the pull's place: the rule will choose the arm again if it still wants it."""
        lose_in_tracker(*self._books(pull.action))

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward; the evidence is that of the corrected data."""
        change = (self._reduced(pull.action, old), self._reduced(pull.action, new))
        correct_in_tracker(*self._books(self.rule, pull.action, *change))
        self._amended += 1

    def _simulate(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        self._advance(environment, generator, horizon)
        return np.asarray(self._track.counts)

    def _advance(
        self, environment: ArmEnvironment, generator: np.random.Generator, most: int
    ) -> None:
        """Go on, one pull after the other, to the stop or until there are `most` results."""
        world = (*environment.source, self._factors, generator, most)
        run_tracker(*self._books(self.rule, *world))
        self.told = self.asked = int(self._control[TOLD])

    # --------------------------------------------------------------------- report

    @property
    def _control(self) -> NDArray[np.int64]:
        return self._integers[-CONTROLS:]

    @property
    def _found_best(self) -> bool:
        return bool(self._control[FINISHED])

    @property
    def _hopeless(self) -> bool:
        return bool(self._control[HOPELESS])

    @property
    def _answer(self) -> Sequence[int] | None:
        chosen = np.flatnonzero(self._integers[: self._shape[1]])
        return self._best_first(chosen) if chosen.size else None

    @property
    def _data(self) -> tuple[Floats, Floats]:
        track = self._track
        return track.counts, track.sums

    @property
    def _records(self) -> tuple[Floats, Floats]:
        track = self._track
        return track.record, track.early

    def _confidence_set(self) -> Sequence[int] | None:
        """Return the candidates that no leader beats, for levels that hold at every moment."""
        if self.problem.tolerance > 0.0 or isinstance(self._level, _AT_LOOKS_ONLY):
            return None
        return self._live() if self._control[STARTED] else list(range(self._shape[1]))

    def _evidence(self) -> tuple[float | None, float | None]:
        evidence, level = (float(value) for value in self._track.evidence[:2])
        if not self._control[READY] or level <= 0.0:
            return None, None
        # A single survivor has no rival left: its evidence is what was needed.
        return (evidence if math.isfinite(evidence) else level), level

    def _live(self) -> Sequence[int]:
        if self._found_best:
            return list(self._answer or ())
        live = np.zeros(self._shape[1], dtype=np.int64)
        live_in_tracker(*self._books(live))
        return np.flatnonzero(live).tolist()

    def _noise(self) -> float:
        few = self.told - self._shape[2] < LEAST_FREEDOM
        if self.problem.estimates_noise and few:
            return math.inf
        return float(self._track.evidence[NOISE])

    @property
    def guarantee(self) -> Guarantee:
        """The level's guarantee, weakened where the data no longer fit its assumptions."""
        promise = self._as_it_stands(self._level.guarantee(self.delta))
        if self._unasked and "adaptive" not in self._level.samplers:
            promise = promise.weakened(
                f"the {self._unasked} results that nobody asked for were fixed before any reward"
            )
        return self._without(promise, len(self._lost))


class LinGapE(Tracking):
    """Reduce the variance of the gap that matters most: the best of the one-at-a-time rules.

    Takes results in any order, pulls in flight, `tolerance`, and several answers.

    Parameters
    ----------
    problem : Problem
        The problem.
    delta : float
        Probability of a wrong answer that is accepted.
    stopping : str or Level
        ``"mixture"`` (proven, default), or a level object: `RidgeLevel` (proven) or
        `ConstantLevel`.
    initial_pulls : int, optional
        Initial pulls of every arm of a basis; 10 by default.
    max_pulls : int, optional
        Stop undecided after this many results.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Notes
    -----
    Source: Xu, Honda, Sugiyama (2018), "A fully adaptive algorithm for pure exploration in
    linear bandits", with the greedy choice of the arm.

    Examples
    --------
    >>> policy = LinGapE(Problem([[1, 0], [0, 1]], noise_std=0.1), delta=0.1, initial_pulls=5)
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     policy.tell(pull, 0.5 if pull.arm == "0" else 0.1)
    >>> policy.recommend().arm
    '0'
    """

    rule = 0


class LinGame(LinGapE):
    """Let a learner of arms play against the closest alternative, and track what it plays.

    Parameters are those of `LinGapE`.

    Notes
    -----
    Source: Degenne, Menard, Shang, Valko (2020), "Gamification of pure exploration for linear
    bandits", with AdaHedge and without the bonus for optimism: its proof of optimal sampling
    is not claimed. The stop is proven for any sampling.

    Examples
    --------
    >>> LinGame(Problem([[1, 0], [0, 1]], noise_std=1.0)).guarantee.label
    'proven'
    """

    rule = 3


class FrankWolfeSampling(LinGapE):
    """Steps towards the steepest ascent of the evidence, averaged over near alternatives.

    Parameters are those of `LinGapE`.

    Notes
    -----
    Source: Wang, Tzeng, Proutiere (2021), "Fast pure exploration via Frank-Wolfe", with the
    average of the near gradients for its game: its proof of optimal sampling is not
    claimed. The stop is proven for any sampling.

    Examples
    --------
    >>> FrankWolfeSampling(Problem([[1, 0], [0, 1]], noise_std=1.0)).guarantee.label
    'proven'
    """

    rule = 4


class FullyAdaptiveXY(Tracking):
    """Greedy XY allocation on the candidates not ruled out, chosen again at every pull.

    Parameters are those of `LinGapE`, but:

    Parameters
    ----------
    problem : Problem
        With one answer wanted. All pairs of candidates are weighed at every pull: not for
        more than a few dozen.
    stopping : str or Level
        A `RidgeLevel`, as in the paper; ``"mixture"`` by default, which needs no bound on theta.
    ties : {"first", "random"}
        Which of the arms that help equally is pulled: the first, or a random one.
    seed : None, int or numpy.random.Generator
        For random ties.

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), section 5 and Equations 22 and 26.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], noise_std=1.0)
    >>> FullyAdaptiveXY(problem, stopping=RidgeLevel(norm_bound=2.0)).guarantee.label
    'proven'
    """

    rule = 2

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Level = "mixture",
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        ties: str = "first",
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.ties = ties
        super().__init__(problem, delta, stopping, initial_pulls, max_pulls, seed)
        refuse_several_answers(self)

    @property
    def _tie_key(self) -> int:
        return tie_key(self.ties, self.seed)

    def _details(self) -> dict[str, Any]:
        survivors = np.flatnonzero(self._track.ruled_out == 0)
        return {**super()._details(), "survivors": self._labels(survivors.tolist())}


def refuse_several_answers(policy: LinearPolicy) -> None:
    """Refuse a problem that wants more than one answer of a rule that eliminates."""
    if policy.problem.top > 1:
        name = type(policy).__name__
        raise InvalidArgument(
            "problem", f"must want one answer for {name}; LinGapE gives several", policy.problem.top
        )
