"""What pictures are made of: results and progress, whatever offers them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.parameters import Parametrized
from fairtrial.core.problem import Problem
from fairtrial.core.recommendation import Estimate, Progress, Recommendation
from fairtrial.core.validation import check_array
from fairtrial.errors import InvalidArgument

__all__ = [
    "EventLike",
    "Floats",
    "Grid",
    "HasProgress",
    "LeadPeriod",
    "SimulationLike",
    "Source",
    "StudyLike",
    "Traced",
    "answered",
    "arm_of",
    "check_offers",
    "is_endless",
    "lead_periods",
    "minimizes",
    "moments_of",
    "named",
    "optimal_shares",
    "progress_of",
    "pulled",
    "pulls_of",
    "replay_actor",
    "replay_note",
    "reported_actions",
    "said_of_replay",
    "trace_of",
]

Floats = NDArray[np.float64]
Item = TypeVar("Item")

_MANY_ACTIONS = 200
_FEWEST_MOMENTS = 40
_MEASURE = "measure"
_MOST_ESTIMATES = 40_000
"""Estimates at all moments of a trace together, above which there are fewer moments."""


class SimulationLike(Protocol):
    """Replications of one policy: what `fairtrial.simulate` returns."""

    @property
    def problem(self) -> Problem:
        """What was asked, and what is known."""

    @property
    def stopping_time(self) -> NDArray[Any]:
        """Pulls of every run."""

    @property
    def status(self) -> Sequence[Any] | NDArray[Any]:
        """How every run ended."""

    @property
    def pulls(self) -> NDArray[Any]:
        """Pulls by run and action."""

    @property
    def lower_bound(self) -> float | None:
        """The pulls that no rule needs fewer of on average."""


class HasProgress(Protocol):
    """A policy or a study: it knows how far it has come."""

    def progress(self) -> Progress:
        """Return how far it has come."""


class Traced(Protocol):
    """A study: it can tell how far it had come at earlier moments."""

    def trace(self, points: int = 200) -> Sequence[Progress]:
        """Return how far it had come at earlier moments, and now."""


class EventLike(Protocol):
    """One entry of a study's log."""

    @property
    def seq(self) -> int:
        """Its number, from 1."""

    @property
    def kind(self) -> str:
        """What happened, in one word."""

    @property
    def at(self) -> datetime:
        """When it was written."""

    @property
    def action(self) -> int | None:
        """The action of its pull, if it is about one."""

    @property
    def pull_id(self) -> str | None:
        """The identity of its pull, if it is about one."""

    @property
    def actor(self) -> str | None:
        """Who did it, if that was said."""

    @property
    def body(self) -> Mapping[str, Any]:
        """What else was written."""

    @property
    def outcome(self) -> float | Mapping[str, Any] | None:
        """The result, if it tells one."""

    @property
    def hash(self) -> str:
        """Of the event and all before it."""


class VerificationLike(Protocol):
    """Whether a log replays to the decisions that it records."""

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""

    @property
    def events(self) -> int:
        """How many events were checked."""

    @property
    def first_difference(self) -> str | None:
        """The first that differs, in words."""

    @property
    def skipped(self) -> int:
        """How many events before were not checked."""


class StudyLike(HasProgress, Traced, Protocol):
    """A durable experiment: what `fairtrial.Study` is."""

    @property
    def name(self) -> str:
        """The study's name."""

    @property
    def problem(self) -> Problem:
        """What was asked, and what is known."""

    @property
    def policy(self) -> Parametrized:
        """The rule."""

    @property
    def seed(self) -> int:
        """What its random numbers are drawn from."""

    @property
    def head_hash(self) -> str:
        """The hash of the last event."""

    @property
    def n_events(self) -> int:
        """Number of events in the log."""

    def health(self, *, blinded: bool = False) -> Mapping[str, Any]:
        """Return what may be wrong."""

    def weighted_means(self) -> Sequence[float | None]:
        """Return the mean of every action, weighted by inverse propensities."""

    def verify(self) -> VerificationLike:
        """Audit the log."""

    def events(self, after: int = 0) -> Iterable[EventLike]:
        """Yield the events of the log after that one."""


Source = Progress | HasProgress | SimulationLike


def check_offers(name: str, value: object, accepted: str, *attributes: str) -> None:
    """Require an object that has what is needed of it, whatever its class."""
    if isinstance(value, type) or not all(hasattr(value, wanted) for wanted in attributes):
        raise InvalidArgument(name, accepted, value)


def progress_of(source: object) -> Progress:
    """Return the progress that `source` is or has."""
    if isinstance(source, Progress):
        return source
    method = getattr(source, "progress", None)
    progress = method() if callable(method) else None
    if not isinstance(progress, Progress):
        raise InvalidArgument("source", "must be a policy, a study or a Progress", source)
    return progress


def trace_of(source: object) -> list[Progress]:
    """Return the moments of an experiment, in order; at least one."""
    method = getattr(source, "trace", None)
    actions = getattr(getattr(source, "problem", None), "n_actions", 1)
    # Whatever has few actions may give as many moments as it likes.
    points = () if actions <= _MANY_ACTIONS else (moments_of(actions),)
    trace = method(*points) if callable(method) else source
    if not isinstance(trace, Iterable):
        raise InvalidArgument("source", "must be a study or a sequence of Progress", source)
    moments = list(trace)
    if not moments or not all(isinstance(moment, Progress) for moment in moments):
        raise InvalidArgument("source", "must be a study or a sequence of Progress", source)
    return moments


def moments_of(n_actions: int, points: int = 200) -> int:
    """Return to how many moments to keep: with thousands of actions each takes its time.

    Examples
    --------
    >>> moments_of(12), moments_of(1_000)
    (200, 40)
    """
    if n_actions <= _MANY_ACTIONS:
        return points
    return min(points, max(_MOST_ESTIMATES // n_actions, _FEWEST_MOMENTS))


def pulls_of(source: object) -> tuple[list[Mapping[str, Any]], NDArray[np.int64]]:
    """Return the labels of every action and its pulls, over all replications together."""
    pulls, problem = getattr(source, "pulls", None), getattr(source, "problem", None)
    if isinstance(pulls, np.ndarray) and pulls.ndim == 2 and problem is not None:
        return list(problem.action_labels), pulls.sum(axis=0, dtype=np.int64)
    progress = progress_of(source)
    # Where shares of the pulls are kept, pulls count when they are issued: results of earlier
    # epochs are no pulls of this one.
    own = progress.arms if progress.quantity == "share" else pulled(reported_actions(progress))
    return [one.labels for one in own], np.array([one.pulls for one in own], dtype=np.int64)


def pulled(actions: Sequence[Estimate]) -> list[Estimate]:
    """Return one estimate for every action; where a pull measures several things, of the first.

    Examples
    --------
    >>> both = [Estimate({"arm": "a", "measure": name}, 7) for name in ("cured", "harmed")]
    >>> [(dict(one.labels), one.pulls) for one in pulled(both)]
    [({'arm': 'a'}, 7)]
    """
    first = actions[0].labels.get(_MEASURE) if actions else None
    if first is None:
        return list(actions)
    return [
        replace(one, labels={name: value for name, value in one.labels.items() if name != _MEASURE})
        for one in actions
        if one.labels[_MEASURE] == first
    ]


def reported_actions(progress: Progress) -> tuple[Estimate, ...]:
    """Return the estimates by action, of a policy that reports them."""
    if not progress.actions:
        raise InvalidArgument("source", "must report estimates by action; its progress has none")
    return progress.actions


def optimal_shares(optimal: ArrayLike | None, n_actions: int) -> Floats | None:
    """Return the optimal shares, one per action; arrays of arms by groups are flattened."""
    if optimal is None:
        return None
    shares = check_array("optimal", np.ravel(optimal), (n_actions,), axes=("actions",))
    if (shares < 0).any() or not np.isclose(shares.sum(), 1.0, atol=1e-6):
        raise InvalidArgument("optimal", "must be non-negative shares that sum to 1", optimal)
    return shares


def minimizes(source: object) -> bool:
    """Whether smaller outcomes are better, so that a limit is a ceiling and not a floor."""
    return getattr(getattr(source, "problem", None), "direction", "maximize") == "minimize"


def is_endless(source: object) -> bool:
    """Whether a study's policy, or a policy, never stops by itself."""
    return bool(getattr(getattr(source, "policy", source), "endless", False))


def named(recommendation: Recommendation) -> frozenset[str]:
    """Return the arms that a decision has named; none while there is no decision."""
    return answered(recommendation) if recommendation.decided else frozenset()


def answered(recommendation: Recommendation) -> frozenset[str]:
    """Return the arms that are the answer; while there is none, those that lead."""
    best = recommendation.arm if recommendation.decided else recommendation.leader
    if best is None:
        return frozenset()
    return frozenset(map(str, best)) if isinstance(best, tuple) else frozenset([str(best)])


@dataclass(frozen=True, slots=True)
class Grid:
    """Actions laid out for small multiples: a row for each arm, a panel for each group.

    Examples
    --------
    >>> grid = Grid.of([{"arm": "a", "group": "x"}, {"arm": "a", "group": "y"}])
    >>> grid.arms, grid.groups
    (('a',), ('x', 'y'))
    >>> grid.panels([10, 20])
    [('x', [10]), ('y', [20])]
    """

    arms: tuple[str, ...]
    groups: tuple[str, ...]
    places: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, labels: Sequence[Mapping[str, Any]]) -> Grid:
        """Lay out actions by their labels; what is not the arm makes the group."""
        pairs = [_arm_and_group(row) for row in labels]
        arms = tuple(dict.fromkeys(arm for arm, _ in pairs))
        groups = tuple(dict.fromkeys(group for _, group in pairs))
        row, panel = _positions(arms), _positions(groups)
        return cls(arms, groups, tuple((row[arm], panel[group]) for arm, group in pairs))

    def panels(self, values: Sequence[Item]) -> list[tuple[str, list[Item | None]]]:
        """Return every group's name with its values by arm, None where there is no action."""
        table: list[list[Item | None]] = [[None] * len(self.arms) for _ in self.groups]
        for (arm, group), value in zip(self.places, values, strict=True):
            table[group][arm] = value
        return list(zip(self.groups, table, strict=True))


def arm_of(labels: Mapping[str, Any]) -> str:
    """Return the arm that labels name."""
    return _arm_and_group(labels)[0]


def _arm_and_group(labels: Mapping[str, Any]) -> tuple[str, str]:
    arm_key = "arm" if "arm" in labels else next(iter(labels), "arm")
    group = ", ".join(str(value) for key, value in labels.items() if key != arm_key)
    return str(labels.get(arm_key, "")), group


def _positions(names: Sequence[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class LeadPeriod:
    """A stretch of an experiment with the same leader: from `start` to `end` results."""

    leader: str
    start: int
    end: int


def lead_periods(trace: Sequence[Progress]) -> list[LeadPeriod]:
    """Return who led when; before the first result no arm does."""
    found: list[LeadPeriod] = []
    for moment in trace:
        if moment.told == 0:
            continue
        leader = ", ".join(sorted(answered(moment.recommendation))) or "no arm"
        if found and found[-1].leader == leader:
            found[-1] = LeadPeriod(leader, found[-1].start, moment.told)
            continue
        if found:
            found[-1] = LeadPeriod(found[-1].leader, found[-1].start, moment.told)
        found.append(LeadPeriod(leader, moment.told if found else 0, moment.told))
    return found


# ------------------------------------------------------------------------- replayed rows

_REPLAY = "replay of "


def replay_actor(rows: str) -> str:
    """Return by which name a log calls the rows of a table that are sampled repeatedly.

    Examples
    --------
    >>> replay_actor("2,139 rows of actg175.csv")
    'replay of 2,139 rows of actg175.csv'
    """
    return _REPLAY + rows


def replay_note(study: StudyLike) -> str | None:
    """Return what a reader must be told first about a study of replayed rows; None of any other."""
    tells = (event for event in study.events() if event.kind == "tell")
    return said_of_replay(getattr(next(tells, None), "actor", None))


def said_of_replay(actor: str | None) -> str | None:
    """Return what has to be said first where a log names this actor; None if it is no replay.

    Examples
    --------
    >>> said_of_replay(replay_actor("11 rows of rows.csv"))
    'About 11 rows of rows.csv, sampled repeatedly: this says nothing beyond them.'
    """
    if actor is None or not actor.startswith(_REPLAY):
        return None
    rows = actor.removeprefix(_REPLAY)
    return f"About {rows}, sampled repeatedly: this says nothing beyond them."
