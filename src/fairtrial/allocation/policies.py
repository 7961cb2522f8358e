"""Policies that keep every arm's share at every moment, and what they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from operator import index
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.allocation.environments import AllocationEnvironment
from fairtrial.allocation.learners import (
    UCB1,
    FunctionLearner,
    Learner,
    PullFunction,
    Thompson,
)
from fairtrial.allocation.problem import Problem
from fairtrial.confidence.bounds import NormalMixture
from fairtrial.core.environment import Environment
from fairtrial.core.policy import Choice, Policy
from fairtrial.core.problem import Outcome
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Estimate, Guarantee, Progress, Recommendation
from fairtrial.core.run import Run, check_horizon
from fairtrial.core.validation import check_choice, check_integer, check_number
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = [
    "BareLearner",
    "FairLearn",
    "FairUCB",
    "HorizonFairUCB",
    "LearningWithFairness",
    "ThompsonWithFairness",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LEVEL = 0.05
_NAMED_GAPS = 100
_LARGEST_PERIOD = 10**6
_INT64 = 2**63 - 1
_SCHEDULERS = ("due", "largest", "lazy")
_PAGE = "docs/explanation/fair-shares.md"
_PROMISE = "after every round t, every arm i has had at least floor(r_i t) - {} pulls"


class AllocationPolicy(Policy):
    """What all policies of the family share: quotas and statistics in arrays, and the report.

    A pull counts when it is issued, so the quotas do not wait for results; a pull that fails
    is taken back, and its arm's credit rises again.
    """

    problem: Problem
    endless = True
    state_fields = ("_changing", "_counts", "_statistics", "_recent")

    _scheduler: ClassVar[str] = "none"
    _takes_awake = True

    def __init__(
        self,
        problem: Problem,
        learner: Learner | PullFunction | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        if not isinstance(problem, Problem):
            raise InvalidArgument("problem", "must be an allocation.Problem", problem)
        super().__init__(problem, seed)
        self._learner = _as_learner(learner)
        self._low = problem.reward_range[0]
        self._width = problem.reward_range[1] - problem.reward_range[0]
        self._build()

    # ------------------------------------------------------------- what a rule says

    def _options(self) -> _Options:
        return _Options()

    @property
    def _opening(self) -> Sequence[int]:
        """Pulls that every arm gets first, by arm."""
        return ()

    # -------------------------------------------------------------------- decisions

    def choose(self, awake: Sequence[str] | None = None, context: int | None = None) -> Choice:
        """Return the next arm.

        Parameters
        ----------
        awake : sequence of str, optional
            Labels of the arms that can be pulled in this round; all without it. When none is,
            the round does not count.
        context : int, optional
            The context at hand, from 0; a policy made with ``contexts=1`` ignores it.
        """
        cell_row = self._row(context)
        sleeping = False
        if awake is not None:
            number = self._mark_awake(awake)
            if number == 0:
                return None
            sleeping = number < len(self.problem.arms)
        if self._learner.code:
            arm = self._decide(*self._arrays, cell_row, sleeping)
        else:
            arm = self._decide_in_python(cell_row, sleeping)
        if arm < 0:
            raise NotSupported(
                f"round {self.asked + 1} is beyond what exact 64-bit credits can count with "
                f"the common denominator {self.problem.denominator}"
            )
        return (arm, cell_row) if cell_row else arm

    def _row(self, context: int | None) -> int:
        contexts = self._given.contexts
        if context is None:
            if contexts > 1:
                raise InvalidArgument("context", f"must be given, from 0 to {contexts - 1}", None)
            return 0
        row = check_integer("context", context, low=0)
        if contexts == 1:
            return 0
        if row >= contexts:
            raise InvalidArgument("context", f"must be an integer from 0 to {contexts - 1}", row)
        return row

    def _mark_awake(self, awake: Sequence[str]) -> int:
        if not self._takes_awake or self.problem.plays > 1 or self.problem.groups:
            raise NotSupported(
                f"{type(self).__name__} has no rule for sleeping arms with groups, with several "
                "plays a round, or after a fixed opening"
            )
        from fairtrial.allocation._kernels.model import ALLOWED

        if isinstance(awake, str) or not isinstance(awake, Sequence | np.ndarray | set | frozenset):
            raise InvalidArgument("awake", "must be a list of labels of arms", awake)
        try:
            arms = [self._places[str(label)] for label in awake]
        except KeyError as error:
            raise InvalidArgument("awake", "must be labels of arms", error.args[0]) from None
        self._book[ALLOWED] = 0
        self._book[ALLOWED, arms] = 1
        return len(set(arms))

    def _decide_in_python(self, row: int, sleeping: bool) -> int:
        from fairtrial.allocation._kernels.model import ALLOWED, BEYOND_LIMIT, CONFINED, FREE
        from fairtrial.allocation._kernels.runs import issue, ruling

        arm = ruling(self._control, self._book, sleeping)
        if arm == BEYOND_LIMIT:
            return int(arm)
        forced = arm >= 0 or arm == CONFINED
        if arm < 0:
            allowed = self._all_arms
            if arm != FREE:
                allowed = np.flatnonzero(self._book[ALLOWED, : len(self.problem.arms)])
            arm = self._ask_learner(row, allowed)
        issue(*self._arrays, row, arm, forced, sleeping)
        return int(arm)

    def _ask_learner(self, row: int, allowed: Integers) -> int:
        from fairtrial.allocation._kernels.model import SUM, TOLD

        arms = len(self.problem.arms)
        cells = slice(row * arms, (row + 1) * arms)
        counts = self._stats[TOLD, cells].copy()
        sums = self._low * counts + self._width * self._stats[SUM, cells]
        given = self._learner.choose(self._rounds + 1, counts, sums, allowed)
        try:
            arm = index(given)
        except TypeError:
            arm = -1
        if not (0 <= arm < arms and (len(allowed) == arms or arm in allowed)):
            raise InvalidArgument(
                "learner", f"must return one of the allowed arms {allowed.tolist()}", given
            )
        return arm

    # ---------------------------------------------------------------------- results

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take a reward, of a forced pull or a free one."""
        reward = (outcome - self._low) / self._width
        self._take(
            self._control,
            self._stats,
            self._ring,
            self._settings,
            self._cell(pull),
            reward,
            pull.number,
            pull.number if pull.number >= 0 else -2 - self.told,
        )

    def lose(self, pull: Pull, reason: str) -> None:
        """Take the pull back: out of its arm's count, and its round out of time."""
        from fairtrial.allocation._kernels.runs import void

        void(*self._arrays, self._cell(pull), pull.number)

    def revise(self, pull: Pull, old: Outcome, new: Outcome) -> None:
        """Replace a reward in the statistics."""
        from fairtrial.allocation._kernels.runs import correct_reward

        assert isinstance(old, float)
        assert isinstance(new, float)
        if self._learner.window:
            raise NotSupported("a learner with a sliding window cannot correct a reward")
        scaled = ((value - self._low) / self._width for value in (old, new))
        correct_reward(
            self._control, self._stats, self._settings, self._cell(pull), *scaled, pull.number
        )

    def _cell(self, pull: Pull) -> int:
        return pull.tag * len(self.problem.arms) + pull.action

    @property
    def stopped(self) -> bool:
        """Never: serving goes on."""
        return False

    # ----------------------------------------------------------------------- report

    @property
    def credits(self) -> tuple[Fraction, ...]:
        """What every arm is owed now, in pulls: ``r_i t - N_i``; exact.

        With sleeping arms t counts the rounds in which the arm was awake.
        """
        from fairtrial.allocation._kernels.model import ASLEEP, COUNT

        arms, unit = len(self.problem.arms), self.problem.denominator
        rows = zip(
            self.problem.quotas,
            self._book[ASLEEP, :arms].tolist(),
            self._book[COUNT, :arms].tolist(),
            strict=True,
        )
        rounds = self._rounds
        return tuple(
            Fraction(quota * (rounds - asleep) - unit * count, unit)
            for quota, asleep, count in rows
        )

    @property
    def _rounds(self) -> int:
        from fairtrial.allocation._kernels.model import ROUND

        return int(self._control[ROUND])

    def metrics(self) -> dict[str, float]:
        """Return how well the shares were kept so far.

        Returns
        -------
        dict
            ``violation`` and ``floored_violation``: the largest ``r_i t - N_i`` and
            ``floor(r_i t) - N_i`` of any arm after any round (from t = 0); ``rounds_in_violation``:
            rounds after which an arm was further behind than the tolerance; ``forced_share``
            of the pulls; ``longest_gap`` between two pulls of an arm, in rounds, over all and (up
            to 100 arms) by arm; the gap that is still open counts.
        """
        from fairtrial.allocation._kernels.model import FORCED, OVERDUE
        from fairtrial.allocation._kernels.quotas import worst_credit

        worst, unit = int(worst_credit(self._control, self._book)), self.problem.denominator
        gaps = self._gaps()
        found = {
            "violation": float(Fraction(worst, unit)),
            "floored_violation": float(worst // unit),
            "rounds_in_violation": float(self._control[OVERDUE]),
            "forced_share": float(self._control[FORCED]) / max(1, self.asked),
            "longest_gap": float(max(gaps)),
        }
        if len(gaps) <= _NAMED_GAPS:
            pairs = zip(self.problem.arms, gaps, strict=True)
            found.update({f"longest_gap {arm}": float(gap) for arm, gap in pairs})
        return found

    def _gaps(self) -> list[int]:
        from fairtrial.allocation._kernels.model import GAP, LAST

        arms = len(self.problem.arms)
        now = self.asked // self.problem.plays
        gaps: list[int] = np.maximum(self._book[GAP, :arms], now - self._book[LAST, :arms]).tolist()
        return gaps

    def recommend(self) -> Recommendation:
        """Return the arm that leads by its mean; serving never ends with an answer."""
        counts, sums = self._totals()
        known = counts > 0
        leader = None
        reason = "no reward has come yet"
        if known.any():
            means = np.where(known, sums / np.maximum(counts, 1.0), -np.inf)
            leader = self.problem.arms[int(np.argmax(means))]
            reason = f"{leader!r} has the best mean so far; serving goes on"
        metrics = self.metrics()
        return Recommendation(
            arm=None,
            status="running",
            leader=leader,
            guarantee=self.guarantee,
            reason=reason,
            evidence={
                "rounds": self._rounds,
                **{
                    name: metrics[name]
                    for name in ("violation", "floored_violation", "forced_share")
                },
            },
        )

    def progress(self) -> Progress:
        """Return means with anytime intervals (95 % each), and shares against quotas."""
        from fairtrial.allocation._kernels.model import COUNT

        rounds = max(1, self._rounds)
        pulls = self._book[COUNT, : len(self.problem.arms)].tolist()
        shares = [count / rounds for count in pulls]
        arms = tuple(
            Estimate(labels, pulls=count, mean=share, limit=float(quota))
            for labels, count, share, quota in zip(
                self.problem.action_labels, pulls, shares, self.problem.shares, strict=True
            )
        )
        owed = zip(self.problem.arms, self.credits, strict=True)
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            actions=self._estimates(),
            arms=arms,
            details={**self.metrics(), "credits": {arm: float(credit) for arm, credit in owed}},
        )

    def _totals(self) -> tuple[Floats, Floats]:
        """Return rewards received and their sums by arm, over all contexts."""
        from fairtrial.allocation._kernels.model import SUM, TOLD

        shape = (self._given.contexts, len(self.problem.arms))
        counts: Floats = self._stats[TOLD].reshape(shape).sum(axis=0)
        sums = self._stats[SUM].reshape(shape).sum(axis=0)
        return counts, self._low * counts + self._width * sums

    def _estimates(self) -> tuple[Estimate, ...]:
        counts, sums = self._totals()
        low, high = self.problem.reward_range
        radius = NormalMixture().radius(counts, _LEVEL, 0.5 * self._width)
        estimates = []
        for arm, labels in enumerate(self.problem.action_labels):
            if counts[arm] == 0:
                estimates.append(Estimate(labels, pulls=0))
                continue
            mean = float(sums[arm] / counts[arm])
            estimates.append(
                Estimate(
                    labels,
                    pulls=int(counts[arm]),
                    mean=mean,
                    lower=max(low, mean - float(radius[arm])),
                    upper=min(high, mean + float(radius[arm])),
                )
            )
        return tuple(estimates)

    # ------------------------------------------------------------------ simulation

    def compiled_run(
        self, environment: Environment, generator: np.random.Generator, horizon: int | None
    ) -> Run | None:
        """Return a whole run from compiled code; None for a learner that is not compiled."""
        known = isinstance(environment, AllocationEnvironment) and bool(self._learner.code)
        if not known or self.asked or self.told:
            return None
        assert isinstance(environment, AllocationEnvironment)
        if environment.is_sleeping and (not self._takes_awake or self.problem.plays > 1):
            return None
        pulls = int(check_horizon(horizon, self))
        extra = environment.run(self._arrays, self._given.contexts, generator, pulls)
        return self._finish(pulls, extra)

    def _finish(self, pulls: int, extra: Callable[[Integers], dict[str, float]]) -> Run:
        from fairtrial.allocation._kernels.model import COUNT, ISSUED

        if self._control[ISSUED] < pulls:
            raise NotSupported("the horizon is beyond what exact 64-bit credits can count")
        self.asked = self.told = pulls
        counts = self._book[COUNT, : len(self.problem.arms)].copy()
        return Run(
            answer=None,
            status="running",
            stopping_time=pulls,
            pulls=counts,
            elapsed=float(pulls),
            extra={**self.metrics(), **extra(counts)},
        )

    # ----------------------------------------------------------------------- arrays

    @cached_property
    def _places(self) -> dict[str, int]:
        return {arm: place for place, arm in enumerate(self.problem.arms)}

    @cached_property
    def _all_arms(self) -> Integers:
        return np.arange(len(self.problem.arms))

    def _build(self) -> None:
        from fairtrial.allocation._kernels import quotas, runs
        from fairtrial.allocation._kernels.model import (
            GROUP,
            MEAN,
            NOWHERE,
            PLANES,
            SETTINGS,
            STATISTICS,
        )

        problem = self.problem
        self._given = given = self._options()
        arms = len(problem.arms)
        nodes = arms + len(problem.groups or {})
        self._control = self._new_control(nodes)
        self._book = np.zeros((PLANES, nodes), dtype=np.int64)
        self._book[GROUP] = NOWHERE
        self._fill_book()
        self._stats = np.zeros((STATISTICS, given.contexts * arms))
        self._stats[MEAN] = np.inf
        self._ring = np.full((2, self._learner.window), -1.0)
        self._settings = np.zeros(SETTINGS)
        self._fill_settings()
        self._arrays = (self._control, self._book, self._stats, self._ring, self._settings)
        quotas.rebuild(self._control, self._book)
        self._decide, self._take = runs.decide, runs.take_reward

    def _new_control(self, nodes: int) -> Integers:
        from fairtrial.allocation._kernels import model

        problem, given = self.problem, self._given
        unit = problem.denominator
        # A tolerance beyond every round that can be counted never binds, as any such one.
        tolerance = min(problem.tolerance, _INT64 // (2 * unit))
        key = self._key.view(np.int64)
        code, queued = self._learner.code, given.code == model.QUEUED
        values = {
            model.UNIT: unit,
            model.TOLERANCE: tolerance,
            model.TOTAL: int(problem.total_share * unit),
            model.ARMS: len(problem.arms),
            model.NODES: nodes,
            model.CARRY: -1 if given.carry is None else given.carry,
            model.SCHEDULER: given.code,
            model.LEARNER: code,
            model.PLAYS: problem.plays,
            model.LIMIT: _INT64 // unit - tolerance - 2,
            model.EXHAUSTED: problem.is_exhausted,
            model.CONTEXTS: given.contexts,
            model.WINDOW: self._learner.window,
            model.MASKS: given.mask,
            model.QUEUES: given.price > 0 or queued,
            model.IDLE_IF_NONE_READY: self._is_idle_if_none_ready(),
            model.INDEXED: code in (model.UCB1, model.GREEDY, model.SLIDING) and not queued,
            model.PLAIN: code in (model.UCB1, model.KLUCB),
            model.KEY0: int(key[0]),
            model.KEY1: int(key[1]),
        }
        control = np.zeros(model.CONTROLS, dtype=np.int64)
        for place, value in values.items():
            control[place] = value
        return control

    def _is_idle_if_none_ready(self) -> bool:
        """Whether a round is free, and free for all arms, when no arm is released."""
        from fairtrial.allocation._kernels.model import DUE, LARGEST

        shared_out = self.problem.is_exhausted or self.problem.plays > 1
        return self._given.code in (DUE, LARGEST) and not shared_out

    def _fill_book(self) -> None:
        from fairtrial.allocation._kernels import model

        problem, book = self.problem, self._book
        arms = len(problem.arms)
        book[model.QUOTA, :arms] = problem.quotas
        if self._opening:
            book[model.OPENING, :arms] = self._opening
        start = 0
        for node, (share, members) in enumerate((problem.groups or {}).values(), start=arms):
            places = sorted(self._places[arm] for arm in members)
            book[model.QUOTA, node] = int(share * problem.denominator)
            book[model.GROUP, places] = node
            book[model.MEMBER, start : start + len(places)] = places
            book[model.BEGIN, node], book[model.END, node] = start, start + len(places)
            start += len(places)

    def _fill_settings(self) -> None:
        from fairtrial.allocation._kernels.model import ETA, FIRST_SETTING, PRICE

        self._settings[FIRST_SETTING] = self._learner.settings[0]
        self._settings[ETA] = self._given.eta
        if self._given.price > 0:
            self._settings[PRICE] = 1.0 / (self._given.price * self.problem.denominator)

    # ------------------------------------------------------------------------ state

    @property
    def _changing(self) -> Integers:
        from fairtrial.allocation._kernels.model import CHANGING

        return self._control[:CHANGING]

    @_changing.setter
    def _changing(self, value: Integers) -> None:
        from fairtrial.allocation._kernels.model import CHANGING

        self._control[:CHANGING] = value

    @property
    def _counts(self) -> Integers:
        from fairtrial.allocation._kernels.model import SAVED

        return self._book[:SAVED]

    @_counts.setter
    def _counts(self, value: Integers) -> None:
        from fairtrial.allocation._kernels.model import SAVED

        self._book[:SAVED] = value

    @property
    def _statistics(self) -> Floats:
        return self._stats

    @_statistics.setter
    def _statistics(self, value: Floats) -> None:
        self._stats[:] = value

    @property
    def _recent(self) -> Floats:
        return self._ring

    @_recent.setter
    def _recent(self, value: Floats) -> None:
        self._ring[:] = value

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state; the heaps are built anew from the counts."""
        from fairtrial.allocation._kernels.quotas import rebuild

        super().set_state(state)
        rebuild(self._control, self._book)


class _Options:
    """What a rule asks of the kernels."""

    def __init__(
        self,
        scheduler: str = "none",
        carry: int | None = None,
        mask: bool = False,
        contexts: int = 1,
        price: float = 0.0,
        eta: float = 0.0,
    ) -> None:
        from fairtrial.allocation._kernels import model

        codes = {
            "none": model.NONE,
            "due": model.DUE,
            "largest": model.LARGEST,
            "lazy": model.LAZY,
            "queue": model.QUEUED,
            "opening": model.OPENING_FIRST,
        }
        self.code = codes[scheduler]
        self.carry, self.mask, self.contexts = carry, mask, contexts
        self.price, self.eta = price, eta


class FairLearn(AllocationPolicy):
    """Any learner, interrupted just as often as the shares demand it.

    Quotas are counted in exact integers, and when a pull is issued: delays, drift, contexts
    and a hostile learner leave the promise intact.

    Parameters
    ----------
    problem : Problem
        Arms, shares and tolerance.
    learner : Learner or function, optional
        Who picks in the free rounds; `UCB1` by default. A function
        ``(t, counts, sums, allowed) -> arm`` will do.
    scheduler : {"due", "largest", "lazy"}
        Who is forced. ``"due"``: of the arms that are owed a pull, the one whose pull is due
        first; it keeps any shares that can be kept. ``"largest"``: the arm of the largest
        credit (Fair-Learn as published), for shares below 1/m with m arms that have one.
        ``"lazy"``: nobody until no round can be wasted any more, then earliest due first.
    carry : int, optional
        Pulls that an arm may be ahead of its share by free pulls; what is beyond is forgotten,
        so that every window of h rounds has ``floor(r_i h) - tolerance - carry`` pulls of it. Any
        number without it. With ``"due"`` or ``"largest"``.
    mask : bool
        With ``"lazy"``: instead of forcing one arm, confine the learner to the arms that are
        due by the tight date.
    allow_unsafe : bool
        Accept shares of 1/m and more with ``"largest"``, which then breaks its promise.
    contexts : int
        Number of contexts that the learner tells apart (``ask(context=2)``); the shares
        are kept over all of them together.
    price : float, optional
        The learner maximises its index plus Q_i / price instead, Q_i being a queue that grows
        by the arm's share each round and falls by 1 with each of its pulls. It spends quotas
        where they cost least, so that hardly any pull has to be forced when the tolerance
        is a little above `price` times the range of the indices.
    seed : None, int or numpy.random.Generator
        Source of the learner's randomness.

    Notes
    -----
    Source: Patil, Ghalme, Nair, Narahari (2019), algorithm 1 and theorem 1, for ``"largest"``;
    docs/explanation/fair-shares.md has the proof for ``"due"``.

    Examples
    --------
    >>> problem = Problem(["a", "b", "c"], ["1/5", "3/10", "1/4"])
    >>> policy = FairLearn(problem, lambda t, counts, sums, allowed: 0)
    >>> "".join(pull.arm for pull in policy.ask(12))
    'abcabcabacab'
    >>> policy.metrics()["floored_violation"]
    0.0
    """

    def __init__(
        self,
        problem: Problem,
        learner: Learner | PullFunction | None = None,
        scheduler: str = "due",
        carry: int | None = None,
        mask: bool = False,
        allow_unsafe: bool = False,
        contexts: int = 1,
        price: float | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.learner = learner
        self.scheduler = check_choice("scheduler", scheduler, _SCHEDULERS)
        self.carry = None if carry is None else check_integer("carry", carry, low=1)
        self.mask = mask
        self.allow_unsafe = allow_unsafe
        self.contexts = check_integer("contexts", contexts, low=1)
        self.price = None if price is None else check_number("price", price, low=0, open_low=True)
        if isinstance(problem, Problem):
            self._check(problem)
        super().__init__(problem, learner, seed)

    def _check(self, problem: Problem) -> None:
        if self.scheduler == "largest" and not self.allow_unsafe:
            _check_safe(problem)
        if self.scheduler != "due" and (problem.groups or problem.plays > 1):
            raise InvalidArgument(
                "scheduler", "must be 'due' with groups or several plays a round", self.scheduler
            )
        if self.carry is not None and (
            self.scheduler == "lazy" or problem.groups or problem.plays > 1
        ):
            raise InvalidArgument(
                "carry", "must be left out with 'lazy', groups or several plays a round", self.carry
            )
        if self.mask and self.scheduler != "lazy":
            raise InvalidArgument("mask", "must be False unless scheduler is 'lazy'", self.mask)
        if self.price is not None and not _as_learner(self.learner).has_index:
            raise InvalidArgument(
                "price", "must be left out for a learner without an index", self.learner
            )
        if self.scheduler == "lazy" and problem.is_exhausted:
            _check_period(problem)

    def _options(self) -> _Options:
        return _Options(self.scheduler, self.carry, self.mask, self.contexts, self.price or 0.0)

    @property
    def guarantee(self) -> Guarantee:
        """The shares, at every moment."""
        found = self._basic_guarantee()
        from fairtrial.allocation._kernels.model import SLEPT

        if self._control[SLEPT]:
            return found.weakened("arms slept: no rule is proven for that, see the credits")
        return found

    def _basic_guarantee(self) -> Guarantee:
        promise = _PROMISE.format(self.problem.tolerance)
        counted = "a pull counts when issued; one that fails may be missing until it is made up for"
        if self.problem.plays > 1:
            return Guarantee(
                "PD2",
                proven=False,
                statement=promise,
                assumptions=("free pulls do no harm: tested, not proven", counted),
                source="Anderson, Srinivasan (2004), Mixed Pfair/ERfair scheduling",
            )
        if self.scheduler == "largest":
            safe = _unsafe_arm(self.problem) is None
            return Guarantee(
                "Fair-Learn",
                proven=safe,
                statement=promise,
                assumptions=("every share is below 1/m, m arms having one", counted),
                source="Patil, Ghalme, Nair, Narahari (2019), theorem 1",
            )
        return Guarantee(
            "earliest due first" if self.scheduler == "due" else "earliest due first, lazily",
            proven=True,
            statement=promise,
            assumptions=("the shares sum to at most 1", counted),
            source=_PAGE,
        )


class FairUCB(FairLearn):
    """Fair-UCB as published: the largest credit is forced, UCB1 has the other rounds.

    Parameters
    ----------
    problem : Problem
        Every share below 1/m, with m arms that have one.
    seed : None, int or numpy.random.Generator
        Not used: nothing is drawn.

    Notes
    -----
    Source: Patil, Ghalme, Nair, Narahari (2019), section 4.

    Examples
    --------
    >>> policy = FairUCB(Problem(3, "1/5"))
    >>> [pull.arm for pull in policy.ask(3)]
    ['0', '1', '2']
    """

    def __init__(self, problem: Problem, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(problem, UCB1(), "largest", seed=seed)


class BareLearner(AllocationPolicy):
    """A learner alone, which knows of no quotas: what the others are compared with.

    Parameters
    ----------
    problem : Problem
        Its shares are measured against, not kept.
    learner : Learner or function, optional
        `UCB1` by default.
    seed : None, int or numpy.random.Generator
        Source of the learner's randomness.

    Examples
    --------
    >>> policy = BareLearner(Problem(2, "1/4"), lambda t, counts, sums, allowed: 0)
    >>> _ = policy.ask(8)
    >>> policy.metrics()["floored_violation"]
    2.0
    """

    def __init__(
        self,
        problem: Problem,
        learner: Learner | PullFunction | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.learner = learner
        _refuse_plays(problem)
        super().__init__(problem, learner, seed)


class HorizonFairUCB(AllocationPolicy):
    """T-fair-UCB: every arm's whole quota first, then UCB1; fair at the end only.

    On the way an arm may be behind by its whole quota.

    Parameters
    ----------
    problem : Problem
        Arms and shares.
    horizon : int
        Rounds after which the shares must hold (T); each arm is first pulled
        ``max(1, floor(r_i T))`` times.
    seed : None, int or numpy.random.Generator
        Not used: nothing is drawn.

    Notes
    -----
    Source: Patil, Ghalme, Nair, Narahari (2019), appendix, theorem 8.

    Examples
    --------
    >>> policy = HorizonFairUCB(Problem(2, "1/4"), horizon=8)
    >>> [pull.arm for pull in policy.ask(4)]
    ['0', '0', '1', '1']
    """

    _takes_awake = False

    def __init__(
        self, problem: Problem, horizon: int, seed: int | np.random.Generator | None = None
    ) -> None:
        self.horizon = check_integer("horizon", horizon, low=1)
        _refuse_plays(problem)
        if isinstance(problem, Problem):
            self._pulls_first = _pulls_first(problem, self.horizon)
        super().__init__(problem, UCB1(), seed)

    def _options(self) -> _Options:
        return _Options("opening")

    @property
    def _opening(self) -> Sequence[int]:
        return self._pulls_first

    @property
    def guarantee(self) -> Guarantee:
        """The shares, at the horizon."""
        return Guarantee(
            "T-fair-UCB",
            proven=True,
            statement=f"after round {self.horizon}, every arm i has had at least floor(r_i T) "
            "pulls; nothing is promised on the way",
            assumptions=("no pull fails",),
            source="Patil, Ghalme, Nair, Narahari (2019), appendix",
        )


class LearningWithFairness(AllocationPolicy):
    """LFG: the arm of the largest queue plus eta times optimistic mean.

    Every arm's queue grows by its share each round and falls by 1 when it is pulled. Shares are
    kept in the long run only: about eta times its gap an arm stays behind.

    Parameters
    ----------
    problem : Problem
        Arms and shares; arms may sleep (``ask(awake=[...])``).
    eta : float
        Weight of the rewards, more than 0.
    seed : None, int or numpy.random.Generator
        Not used: nothing is drawn.

    Notes
    -----
    Source: Li, Liu, Ji, "Combinatorial Sleeping Bandits with Fairness Constraints" (2019), with
    one arm a round.

    Examples
    --------
    >>> policy = LearningWithFairness(Problem(3, "1/5"), eta=10)
    >>> [pull.arm for pull in policy.ask(3)]
    ['0', '1', '2']
    """

    def __init__(
        self, problem: Problem, eta: float, seed: int | np.random.Generator | None = None
    ) -> None:
        self.eta = check_number("eta", eta, low=0.0, open_low=True)
        _refuse_plays(problem)
        super().__init__(problem, self._estimator(), seed)

    def _estimator(self) -> Learner:
        return UCB1()

    def _options(self) -> _Options:
        return _Options("queue", eta=self.eta)

    @property
    def guarantee(self) -> Guarantee:
        """The shares, in the long run."""
        return Guarantee(
            type(self).__name__,
            proven=False,
            statement="the share of every arm's pulls tends to its quota or more; at any moment "
            "an arm may be behind by about eta times its gap",
            assumptions=("the shares can be kept with the arms that are awake",),
            source="Li, Liu, Ji (2019), theorem 1, for the long run",
        )


class ThompsonWithFairness(LearningWithFairness):
    """TSCSF-B: as `LearningWithFairness`, with a beta draw in place of the optimistic mean.

    Parameters
    ----------
    problem : Problem
        Arms and shares; arms may sleep.
    eta : float
        Weight of the rewards, more than 0.
    seed : None, int or numpy.random.Generator
        Source of the draws.

    Notes
    -----
    Source: Huang et al., "Thompson sampling for combinatorial semi-bandits with sleeping arms
    and long-term fairness constraints" (2020), with one arm a round.

    Examples
    --------
    >>> policy = ThompsonWithFairness(Problem(3, "1/5"), eta=10, seed=1)
    >>> len(policy.ask(5))
    5
    """

    def _estimator(self) -> Learner:
        return Thompson()


def _as_learner(learner: object) -> Learner:
    if learner is None:
        return UCB1()
    if isinstance(learner, Learner):
        return learner
    if callable(learner) and not isinstance(learner, type):
        return FunctionLearner(learner)
    accepted = "must be a Learner or a function (t, counts, sums, allowed) -> arm"
    raise InvalidArgument("learner", accepted, learner)


def _unsafe_arm(problem: Problem) -> int | None:
    positive = sum(share > 0 for share in problem.shares)
    unsafe = (arm for arm, share in enumerate(problem.shares) if share * positive >= 1 and share)
    return next(unsafe, None)


def _check_safe(problem: Problem) -> None:
    arm = _unsafe_arm(problem)
    if arm is not None:
        positive = sum(share > 0 for share in problem.shares)
        raise InvalidArgument(
            "scheduler",
            f"must be 'due': 'largest' is proven for shares below 1/{positive} only, and arm "
            f"{problem.arms[arm]!r} has {problem.shares[arm]} (allow_unsafe=True for research)",
            "largest",
        )


def _check_period(problem: Problem) -> None:
    if problem.denominator > _LARGEST_PERIOD:
        raise InvalidArgument(
            "scheduler",
            "must be 'due' when the shares sum to 1 with a common denominator above "
            f"{_LARGEST_PERIOD}: 'lazy' would look that many rounds ahead",
            "lazy",
        )


def _refuse_plays(problem: object) -> None:
    if isinstance(problem, Problem) and problem.plays > 1:
        raise InvalidArgument("problem", "must have plays=1 for this policy", problem.plays)


def _pulls_first(problem: Problem, horizon: int) -> tuple[int, ...]:
    pulls = tuple(max(1, int(share * horizon)) for share in problem.shares)
    if sum(pulls) > horizon:
        raise InvalidArgument(
            "horizon", f"is too short for the quotas, which need {sum(pulls)} rounds", horizon
        )
    return pulls
