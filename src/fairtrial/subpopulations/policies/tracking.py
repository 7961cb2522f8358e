"""The rules that choose one draw at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.thresholds import (
    GaussianMixture,
    Threshold,
    stylised_threshold,
    threshold_named,
)
from fairtrial.core.policy import Choice
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.seeds import seed_key
from fairtrial.core.validation import check_choice, check_integer, check_number
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations._kernels.indices import (
    BEST,
    COUNTS,
    ITERATED_LOGARITHM,
    MIXTURE,
    PENDING,
    PLANES,
    PRECISIONS,
    SHARES,
    STYLISED,
    STYLISED_WITHOUT_HALF,
    SUMS,
    UNIFORM,
    UNKNOWN,
)
from fairtrial.subpopulations._kernels.model import pack_model
from fairtrial.subpopulations._kernels.runs import (
    ask_tracker,
    correct_in_tracker,
    run_tracker,
    tell_tracker,
    tracker_evidence,
)
from fairtrial.subpopulations.environments import CellEnvironment
from fairtrial.subpopulations.policies.base import PREDICTABLE, FloorPolicy, model_of
from fairtrial.subpopulations.policies.in_order import NOTHING_HELD, hold, release
from fairtrial.subpopulations.policies.levels import proven_level
from fairtrial.subpopulations.problem import Problem

__all__ = ["Tracking"]

Floats = NDArray[np.float64]

_TESTS = {
    "stylised": STYLISED,
    "stylised-without-half": STYLISED_WITHOUT_HALF,
    "certified": MIXTURE,
    "kaufmann-koolen": ITERATED_LOGARITHM,
}


class Tracking(FloorPolicy):
    """A sampling rule that chooses one draw at a time, with a stopping threshold by name."""

    version = 2
    rule: int
    informative_only: ClassVar[bool] = True
    guard: ClassVar[float] = 0.0
    """What `exploration` is by default."""

    state_fields = (
        "_planes", "_scan", "_pitfalls", "_certain", "_given", "_amended",
        "_order_planes", "_order_scan", "_order_pitfalls", "_held", "_noise",
    )  # fmt: skip

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Threshold = "certified",
        initial_pulls: int | None = None,
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
        self.initial_pulls = (
            None if initial_pulls is None else check_integer("initial_pulls", initial_pulls, low=0)
        )
        self.exploration = (
            None if exploration is None else check_number("exploration", exploration, low=0.0)
        )
        if self._waits_for_order and not isinstance(self._threshold, GaussianMixture):
            raise InvalidArgument(
                "stopping", "must be 'certified' with informative delays", stopping
            )
        self._prepare_kernels()
        self._open_books()

    @property
    def _waits_for_order(self) -> bool:
        return self.delays == "informative"

    def _prepare_kernels(self) -> None:
        """Put what stays the same into the form that the kernels take."""
        problem = self.problem
        model = model_of(problem, self.informative_only)
        self._model, self._needed = pack_model(model), model.active > 0.0
        self._kind = _TESTS[self._threshold.name]
        self._level, self._constants = proven_level(
            problem, self._threshold, self.delta, self._waits_for_order
        )
        self._kappas = getattr(self._threshold, "kappas", np.ones(1))
        initial = 10 if problem.estimates_noise else 5
        self._start = float(initial if self.initial_pulls is None else self.initial_pulls)
        both = problem.tolerance > 0.0 and problem.floor_tolerance > 0.0
        default_guard = max(self.guard, 0.5 if both else 0.0)
        self._guard = default_guard if self.exploration is None else self.exploration
        self._key0, self._key1 = seed_key(self.seed)
        self._shares = np.full(problem.shape, 1.0 / problem.n_actions)

    def _open_books(self) -> None:
        """Start what every result changes."""
        arms, groups = self.problem.shape
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
        wanted = (self.rule, self._column(group), *self._sampling, self.asked)
        return int(ask_tracker(*self._state(*wanted)))

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward and test whether it is enough."""
        solicited = pull.number in self._outstanding
        told = (pull.action, self._inward * outcome, solicited)
        noted = self._noise[len(self._noise) :] if self._waits_for_order else self._noise
        enough = tell_tracker(*self._state(*told, *self._test, pull.number, noted))
        if self._waits_for_order:
            self._learn_in_order(pull, self._inward * outcome)
        elif enough:
            self._conclude()

    def _conclude(self) -> None:
        if not self._certain:
            self._certain, self._given = True, self._leader

    def _learn_in_order(self, pull: Pull, reward: float) -> None:
        """Test what is complete in the order of issue; data that nobody asked for has no place."""
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
        for number, action, value in usable.tolist():
            told = (int(action), value, False, *self._test, int(number), self._noise)
            if tell_tracker(*self._evidence_state(*told)):
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
        """What the kernels need to test whether there is enough evidence."""
        return (
            self.problem.estimates_noise,
            self._kind,
            self._start,
            self.delta,
            self._level,
            self._kappas,
            self._constants,
        )

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Free the cell's place: the rule will draw it again if it still wants it."""
        self._planes[PENDING].flat[pull.action] -= 1.0

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward; the evidence is that of the corrected data."""
        change = (self._inward * old, self._inward * new, self.problem.estimates_noise, pull.number)
        noted = self._noise[len(self._noise) :] if self._waits_for_order else self._noise
        correct_in_tracker(*self._state(pull.action, *change, noted))
        if self._waits_for_order and pull.number != UNSOLICITED:
            waiting = self._held[:, 0] == pull.number
            if waiting.any():
                self._held = np.where(
                    waiting[:, None] & [False, False, True], change[1], self._held
                )
            else:
                correct_in_tracker(*self._evidence_state(pull.action, *change, self._noise))
                self._amended += 1
        elif not self._waits_for_order:
            self._amended += 1

    def _simulate(
        self, environment: CellEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        if not self._certain:
            rule = (self.rule, *self._sampling[1:])
            world = (*environment.source, self._inward, generator, horizon, self._noise)
            draws, self._certain = run_tracker(*self._state(*self._test, *rule, *world))
            self.told = self.asked = draws
            if self._waits_for_order:
                # Every result came at once, and so in order.
                self._order_planes[...] = self._planes
                self._order_scan[...], self._order_pitfalls[...] = self._scan, self._pitfalls
            self._given = self._leader
        return np.asarray(self._planes[COUNTS])

    # --------------------------------------------------------------------- report

    @property
    def _leader(self) -> int:
        scan = self._order_scan if self._waits_for_order else self._scan
        best = int(scan[BEST])
        return len(self.problem.arms) if best < 0 else best

    @property
    def _has_all_means(self) -> bool:
        return bool((self._books[COUNTS][self._needed] > 0).all())

    @property
    def _finished(self) -> bool:
        return bool(self._certain)

    @property
    def _answer(self) -> int | None:
        if self._certain:
            return int(self._given)
        return self._leader if self._has_all_means else None

    @property
    def _data(self) -> tuple[Floats, Floats]:
        return self._books[COUNTS], self._books[SUMS]

    def _scale(self) -> Floats:
        if not self.problem.estimates_noise:
            return self.problem.scale
        counts, precisions = self._books[COUNTS], self._books[PRECISIONS]
        known = np.divide(counts, precisions, out=np.ones_like(counts), where=counts > 1)
        return np.asarray(np.sqrt(known))

    def _evidence(self) -> tuple[float | None, float | None]:
        tests = (self._kind, self._level, self._kappas, self._constants)
        found = float(tracker_evidence(*self._evidence_state(*tests)))
        needed = self._level
        if not self._threshold.proven:
            draws = max(1.0, self._planes[COUNTS].sum())
            needed = float(stylised_threshold(draws, self.delta))
        return found if math.isfinite(found) else None, needed

    def _what_is_right(self) -> str:
        problem = self.problem
        return (
            f"an answer within {problem.tolerance:g} of the best is right, with means up to "
            f"{problem.floor_tolerance:g} beyond their limits"
        )

    def _spreads(self) -> list[Floats]:
        # How much of a cell is complete is no stopping time: each is tested by itself.
        records = self._noise[0]
        return list(records[:, np.newaxis]) if self._waits_for_order else [records]

    @property
    def guarantee(self) -> Guarantee:
        """The threshold's guarantee, weakened where the data no longer fit its assumptions."""
        promise = self._threshold.guarantee(self.delta)
        if self.problem.tolerance or self.problem.floor_tolerance:
            promise = replace(promise, statement=f"{promise.statement}; {self._what_is_right()}")
        if self.problem.estimates_noise:
            promise = promise.weakened("the estimated noise is the true one")
        if self._waits_for_order:
            order = "rewards of different cells are independent; they may be told when they like"
            promise = replace(promise, assumptions=(*promise.assumptions[:-1], order))
        else:
            event = "got lost for reasons unrelated to rewards"
            promise = promise.weakened_by(len(self._lost), "pull", event)
        if self.rule != UNIFORM:
            promise = promise.assuming(PREDICTABLE)
        event = "came for reasons unrelated to the values"
        promise = promise.weakened_by(self._amended, "correction", event)
        return self._as_results_allow(promise)
