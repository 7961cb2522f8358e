"""The state of the rules that choose one pull at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.documentation import documented_by
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.validation import check_array, check_flag
from fairtrial.errors import InvalidArgument
from fairtrial.linear._kernels.estimates import LEAST_FREEDOM
from fairtrial.linear._kernels.runs import (
    ask_tracker,
    correct_in_tracker,
    live_in_tracker,
    lose_in_tracker,
    run_static_blocks,
    run_tracker,
    start_tracker,
    tell_tracker,
)
from fairtrial.linear._kernels.track import (
    CONSTANTS,
    CONTROLS,
    FINISHED,
    GREEDY,
    HOPELESS,
    NOISE,
    READY,
    SHARES,
    STARTED,
    SUPPORT,
    TOLD,
    TRACK,
    Constants,
    Test,
    Track,
)
from fairtrial.linear._units import Units
from fairtrial.linear.environments import ArmEnvironment, GaussianEnvironment
from fairtrial.linear.policies.designs import plug_in_shares
from fairtrial.linear.policies.levels import (
    ConstantLevel,
    Level,
    MixtureLevel,
    RidgeLevel,
    StaticChecksLevel,
)
from fairtrial.linear.policies.race import Race
from fairtrial.linear.problem import Problem

__all__ = ["RedesigningTracker", "StaticTracker", "Tracker"]

Floats = NDArray[np.float64]

_AT_LOOKS_ONLY = (StaticChecksLevel, ConstantLevel)
"""Levels that do not hold at every moment, or not at all."""

_MOST_CONDITION = 1e6
"""With a larger condition number of the features, the square of a ridge is lost to rounding."""

_ON_THE_BASIS = 0.02
"""Share of the pulls that a redesigned plan keeps for a basis."""

_GROWTH = 1.25
"""Shares are designed again when the data have grown by this factor."""


class Tracker(Race):
    """A rule that chooses one pull at a time, and the test that stops it.

    Parameters
    ----------
    units : Units
        The problem in the numbers of the kernels.
    level : Level
        The level that squared gaps must exceed.
    delta : float
        Accepted probability of a wrong answer.
    rule : int
        How pulls are chosen: a constant of the kernels' module `track`.
    initial_pulls : int, optional
        Initial pulls of every arm of the basis; 10 by default.
    ties : int
        The key of the numbers that break ties; -1 for the first arm.
    """

    fields: ClassVar[tuple[str, ...]] = ("floats", "integers", "unasked")

    def __init__(
        self,
        units: Units,
        level: Level,
        delta: float,
        rule: int,
        initial_pulls: int | None,
        ties: int = -1,
    ) -> None:
        initial_pulls = 10 if initial_pulls is None else initial_pulls
        if isinstance(level, MixtureLevel) and initial_pulls < 1:
            raise InvalidArgument(
                "initial_pulls", "must be at least 1 with the mixture level", initial_pulls
            )
        self._units = units
        self._level = level
        self._delta = delta
        self._rule = rule
        self.initial_pulls = initial_pulls
        prior = _prior_of(units.problem, level, initial_pulls)
        test = _test_of(units, level, delta, prior, initial_pulls, ties)
        self._packed, _ = CONSTANTS.pack(Constants(units.model, test))
        arms, candidates, rank = units.shape
        self.floats, self.integers = TRACK.allocate(arms=arms, candidates=candidates, rank=rank)
        self.unasked = 0
        self.track.prior[...] = prior
        self.track.shares[units.problem.geometry.start_arms] = initial_pulls
        start_tracker(*self._arrays())

    def _arrays(self, *more: Any) -> Any:
        """Return everything that the kernels need, packed, and `more` after it."""
        return (self._packed, self.floats, self.integers, *more)

    @property
    def track(self) -> Track:
        """The named views of the state."""
        return TRACK.view(self.floats, self.integers)

    @property
    def _control(self) -> NDArray[np.int64]:
        # The last of the integers: faster than opening the whole state.
        return self.integers[-CONTROLS:]

    @property
    def _told(self) -> int:
        return int(self._control[TOLD])

    def _track_shares(self, shares: Floats) -> None:
        track = self.track
        support = np.flatnonzero(shares)
        track.shares[...] = shares
        track.support[: support.size] = support
        track.control[SUPPORT] = support.size

    # ---------------------------------------------------------------- events

    def choose(self) -> int:
        """Return the arm that the rule wants next, given the results and the pulls in flight."""
        return int(ask_tracker(*self._arrays(self._rule)))

    def learn(self, pull: Pull, reward: float, in_flight: bool, was_lost: bool) -> None:
        """Take one reward, and test whether the evidence is sufficient."""
        self.unasked += pull.number == UNSOLICITED
        tell_tracker(*self._arrays(self._rule, pull.action, reward, in_flight))

    def lose(self, pull: Pull) -> None:
        """Free the pull's place: the rule chooses the arm again if it still wants it."""
        lose_in_tracker(*self._arrays(pull.action))

    def amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward; the evidence is then computed from the corrected data."""
        correct_in_tracker(*self._arrays(self._rule, pull.action, old, new))

    def run(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> None:
        """Continue, pull after pull, until the stop or until there are that many results."""
        source = (environment.source, self._units.factors, generator, horizon)
        run_tracker(*self._arrays(self._rule, *source))

    # --------------------------------------------------------------- current state

    @property
    def found_best(self) -> bool:
        """Whether the best of the distinct candidates is found."""
        return bool(self._control[FINISHED])

    @property
    def hopeless(self) -> bool:
        """Whether misspecified means can hide the best."""
        return bool(self._control[HOPELESS])

    @property
    def counts(self) -> Floats:
        """Results by arm."""
        return np.asarray(self.track.counts)

    @property
    def sums(self) -> Floats:
        """Sums of rewards by arm."""
        return np.asarray(self.track.sums)

    @property
    def records(self) -> tuple[Floats, Floats]:
        """The records of rewards by arm: now, and when theta could first be estimated."""
        track = self.track
        return track.record, track.early

    @property
    def leaders(self) -> Sequence[int]:
        """The answer, or the candidates with the best data."""
        return np.flatnonzero(self.track.chosen).tolist()

    @property
    def live(self) -> Sequence[int]:
        """The candidates that no leader beats yet; all before the first comparison."""
        live = np.ones(self._units.shape[1], dtype=np.int64)
        if not self._control[STARTED]:
            return np.flatnonzero(live).tolist()
        live_in_tracker(*self._arrays(live))
        return np.flatnonzero(live).tolist()

    @property
    def confidence_set(self) -> Sequence[int] | None:
        """The candidates that no leader beats, for levels that hold at every moment."""
        if self._units.tolerance > 0.0 or isinstance(self._level, _AT_LOOKS_ONLY):
            return None
        return self.live

    @property
    def evidence(self) -> tuple[float | None, float | None]:
        """Evidence for the leader, and the value that it must exceed."""
        evidence, level = (float(value) for value in self.track.evidence[:2])
        if not self._control[READY] or level <= 0.0:
            return None, None
        # A single survivor has no rival left: its evidence is the required level.
        return (evidence if math.isfinite(evidence) else level), level

    @property
    def noise_variance(self) -> float:
        """Variance of a reward relative to the stated one; infinite while it is unknown."""
        few = self._told - self._units.shape[2] < LEAST_FREEDOM
        if self._units.problem.estimates_noise and few:
            return math.inf
        return float(self.track.evidence[NOISE])

    @property
    def survivors(self) -> Sequence[int] | None:
        """The remaining candidates, if the rule eliminates."""
        if self._rule != GREEDY:
            return None
        return np.flatnonzero(self.track.ruled_out == 0).tolist()

    @property
    def promise(self) -> Guarantee:
        """The level's guarantee."""
        return self._level.guarantee(self._delta)

    def weakened(self, promise: Guarantee, lost: int) -> Guarantee:
        """Return a guarantee, weakened by unsolicited results, and by lost pulls."""
        if self.unasked and "adaptive" not in self._level.samplers:
            promise = promise.weakened(
                f"the {self.unasked} unsolicited results were chosen before any reward was known"
            )
        return promise.weakened_by(
            lost, "pull", "got lost, for reasons assumed to be unrelated to rewards"
        )


@documented_by(Tracker)
class StaticTracker(Tracker):
    """Shares of the pulls that are fixed before any reward.

    Parameters
    ----------
    initial_pulls : int, optional
        Initial pulls of every arm of the basis; by default 10 with the mixture level,
        otherwise 1.
    design : callable
        Returns the shares of a problem's arms, shape (K,).
    shares : array-like of shape (K,), optional
        Shares that the user gives instead.
    block_draws : bool
        Whether a simulation draws the sum of an arm's rewards between two looks at once.
    """

    follows_results = False

    def __init__(
        self,
        units: Units,
        level: Level,
        delta: float,
        initial_pulls: int | None,
        design: Callable[[Problem], Floats],
        shares: ArrayLike | None = None,
        block_draws: bool = False,
    ) -> None:
        check_flag("block_draws", block_draws)
        if block_draws and not isinstance(level, StaticChecksLevel):
            raise InvalidArgument(
                "block_draws",
                "needs stopping='static-checks': other levels check after every result",
            )
        if initial_pulls is None:
            initial_pulls = 10 if isinstance(level, MixtureLevel) else 1
        super().__init__(units, level, delta, SHARES, initial_pulls)
        self._block_draws = block_draws
        self._has_drawn_blocks = False
        if not self.found_best:
            self._track_shares(design(units.problem) if shares is None else self._given(shares))

    def _given(self, shares: ArrayLike) -> Floats:
        given = check_array("shares", shares, (self._units.shape[0],), axes=("arms",))
        if (given < 0.0).any() or abs(given.sum() - 1.0) > 1e-6:
            raise InvalidArgument("shares", "must be non-negative and sum to 1", shares)
        arms = self._units.problem.reduced.arms[given > 0.0]
        if self.initial_pulls == 0 and np.linalg.matrix_rank(arms) < self._units.shape[2]:
            accepted = "must measure every direction, unless initial_pulls is 1"
            raise InvalidArgument("shares", accepted, shares)
        return given

    def run(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> None:
        """Continue until the stop or that many results, from look to look if that is allowed."""
        if not (self._block_draws and isinstance(environment, GaussianEnvironment)):
            super().run(environment, generator, horizon)
            return
        _, means, stds, _ = environment.source
        source = (means, stds, self._units.factors, generator, horizon)
        run_static_blocks(*self._arrays(*source))
        self._has_drawn_blocks = True

    @property
    def metrics(self) -> dict[str, float]:
        """Whether a simulation drew sums of rewards at once, if it was to."""
        return {"block_draws": float(self._has_drawn_blocks)} if self._block_draws else {}


@documented_by(Tracker)
class RedesigningTracker(Tracker):
    """The best shares for the estimated theta, designed again when there is 25 % more data."""

    fields = (*Tracker.fields, "redesign_at")

    def __init__(self, units: Units, level: Level, delta: float, initial_pulls: int | None) -> None:
        super().__init__(units, level, delta, SHARES, initial_pulls)
        self.redesign_at = units.problem.geometry.start_arms.size * max(1, self.initial_pulls)
        self._track_shares(self._on_the_basis())

    def _on_the_basis(self) -> Floats:
        arms, _, rank = self._units.shape
        shares = np.zeros(arms)
        shares[self._units.problem.basis_arms] = 1.0 / max(1, rank)
        return shares

    def choose(self) -> int:
        """Return the arm farthest behind its share; make a new design first if one is due."""
        self._redesign_if_due()
        return super().choose()

    def _redesign_if_due(self) -> None:
        if self._told < self.redesign_at or not self._control[READY]:
            return
        track = self.track
        shares = plug_in_shares(self._units.problem, track.inverse @ track.right)
        self._track_shares((1.0 - _ON_THE_BASIS) * shares + _ON_THE_BASIS * self._on_the_basis())
        self.redesign_at = math.ceil(_GROWTH * self._told)

    def run(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> None:
        """Continue from one design to the next, until the stop or that many results."""
        while not (self.found_best or self.hopeless) and self._told < horizon:
            self._redesign_if_due()
            until = min(horizon, max(self.redesign_at, self._told + 1))
            super().run(environment, generator, until)


def _prior_of(problem: Problem, level: Level, initial_pulls: int) -> Floats:
    """Return the prior precision of the mixture, or the ridge, in reduced coordinates."""
    reduced = problem.reduced
    if isinstance(level, RidgeLevel):
        # The least norm of a theta that gives the same rewards, as a quadratic form.
        features = problem.features / problem.scale[:, np.newaxis]
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
    rows = reduced.arms[problem.basis_arms]
    spread = level.spread if isinstance(level, MixtureLevel) else 1.0
    return np.asarray(spread * max(1, initial_pulls) * rows.T @ rows)


def _test_of(
    units: Units, level: Level, delta: float, prior: Floats, initial_pulls: int, ties: int
) -> Test:
    """Return the numbers of the stopping test."""
    problem, candidates = units.problem, units.shape[1]
    ridge = level if isinstance(level, RidgeLevel) else RidgeLevel(1.0)
    with np.errstate(over="ignore"):
        longest = float(np.square(problem.features / problem.scale[:, None]).sum(axis=1).max())
    return Test(
        kind=level.kind,
        delta=delta,
        errors=float(max(1, problem.top * (candidates - problem.top))),
        candidates=float(candidates),
        spread=level.spread if isinstance(level, MixtureLevel) else 1.0,
        prior_log_det=float(np.linalg.slogdet(prior)[1]),
        constant=level.value if isinstance(level, ConstantLevel) else 0.0,
        radius=math.sqrt(ridge.ridge) * ridge.norm_bound,
        reach=longest / ridge.ridge,
        initial=float(initial_pulls),
        tolerance=units.tolerance,
        top=problem.top,
        estimated=problem.estimates_noise,
        misspecification=units.misspecification,
        tie_key=ties,
    )
