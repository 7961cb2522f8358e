"""What charts and reports need of simulations, studies and progress, as protocols and helpers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.parameters import Parametrized
from fairtrial.core.problem import Problem
from fairtrial.core.recommendation import Estimate, Progress, Recommendation
from fairtrial.core.validation import check_array
from fairtrial.errors import InvalidArgument

__all__ = [
    "MEASURE",
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
    "noun_of_pulls",
    "optimal_shares",
    "problem_of",
    "progress_of",
    "pulled",
    "pulls_of",
    "regular_moments",
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
MEASURE = "measure"
_MOST_ESTIMATES = 40_000
"""Largest number of estimates in all moments of a trace together; more mean fewer moments."""


class SimulationLike(Protocol):
    """Runs of one policy: the result of `fairtrial.simulate`."""

    @property
    def problem(self) -> Problem:
        """The problem."""

    @property
    def stopping_time(self) -> NDArray[Any]:
        """Number of pulls of each run."""

    @property
    def status(self) -> Sequence[Any] | NDArray[Any]:
        """How each run ended."""

    @property
    def pulls(self) -> NDArray[Any]:
        """Numbers of pulls, by run and action."""

    @property
    def lower_bound(self) -> float | None:
        """A lower bound on the mean number of pulls of any policy."""


class HasProgress(Protocol):
    """A policy or a study: an object with a progress."""

    def progress(self) -> Progress:
        """Return the progress."""


class Traced(Protocol):
    """A study: an object with its progress at earlier times."""

    def trace(self, points: int = 200) -> Sequence[Progress]:
        """Return the progress at earlier times, and now."""


class EventLike(Protocol):
    """An event of a study's log."""

    @property
    def seq(self) -> int:
        """Its position in the log, from 1."""

    @property
    def kind(self) -> str:
        """The kind of event, in one word."""

    @property
    def at(self) -> datetime:
        """When it was written."""

    @property
    def action(self) -> int | None:
        """The action of its pull, if it concerns one."""

    @property
    def number(self) -> int | None:
        """The number of its pull, if it concerns one."""

    @property
    def pull_id(self) -> str | None:
        """The id of its pull, if it concerns one."""

    @property
    def actor(self) -> str | None:
        """Who caused it, if recorded."""

    @property
    def body(self) -> Mapping[str, Any]:
        """Everything else that was recorded."""

    @property
    def outcome(self) -> float | Mapping[str, Any] | None:
        """The outcome, if it has one."""

    @property
    def hash(self) -> str:
        """The hash of this event and all earlier ones."""


class VerificationLike(Protocol):
    """The result of checking whether a log replays to its recorded decisions."""

    @property
    def ok(self) -> bool:
        """Whether there are no differences."""

    @property
    def events(self) -> int:
        """The number of events checked."""

    @property
    def first_difference(self) -> str | None:
        """The first difference, in words."""

    @property
    def skipped(self) -> int:
        """The number of earlier events that were not checked."""


class StudyLike(HasProgress, Traced, Protocol):
    """A durable experiment, such as a `fairtrial.Study`."""

    @property
    def name(self) -> str:
        """The study's name."""

    @property
    def problem(self) -> Problem:
        """The problem."""

    @property
    def notes(self) -> Mapping[str, str]:
        """What was noted when the study was created, by topic."""

    @property
    def policy(self) -> Parametrized:
        """The policy."""

    @property
    def has_participants(self) -> bool:
        """Whether its pulls are for participants who have numbers."""

    @property
    def seed(self) -> int:
        """The seed of its random numbers."""

    @property
    def head_hash(self) -> str:
        """The hash of the last event."""

    @property
    def n_events(self) -> int:
        """Number of events in the log."""

    def health(self, *, blinded: bool = False) -> Mapping[str, Any]:
        """Return signs of problems."""

    def weighted_means(self) -> Sequence[float | None]:
        """Return the mean of every action, weighted by inverse propensities."""

    def verify(self) -> VerificationLike:
        """Audit the log."""

    def events(self, after: int = 0) -> Iterable[EventLike]:
        """Yield the events of the log after number `after`."""

    def rare_events(self, *kinds: str) -> Sequence[EventLike]:
        """Return all events of some rare kinds, any but ``ask``, ``report`` and ``tell``."""


Source = Progress | HasProgress | SimulationLike


def check_offers(name: str, value: object, accepted: str, *attributes: str) -> None:
    """Raise unless an object has all the attributes needed, whatever its class."""
    if isinstance(value, type) or not all(hasattr(value, wanted) for wanted in attributes):
        raise InvalidArgument(name, accepted, value)


def problem_of(source: object) -> Problem | None:
    """Return the problem of a study, a policy or a simulation; None for a mere `Progress`."""
    problem: Problem | None = getattr(source, "problem", None)
    return problem


def progress_of(source: object) -> Progress:
    """Return the progress that `source` is or has; raise if it has none."""
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
    problem = problem_of(source)
    # With few actions, use the source's own number of moments.
    actions = 1 if problem is None else problem.n_actions
    points = () if actions <= _MANY_ACTIONS else (moments_of(actions),)
    trace = method(*points) if callable(method) else source
    if not isinstance(trace, Iterable):
        raise InvalidArgument("source", "must be a study or a sequence of Progress", source)
    moments = list(trace)
    if not moments or not all(isinstance(moment, Progress) for moment in moments):
        raise InvalidArgument("source", "must be a study or a sequence of Progress", source)
    return moments


def moments_of(n_actions: int, points: int = 200) -> int:
    """Return how many moments to keep; fewer with many actions, because each takes time.

    Examples
    --------
    >>> moments_of(12), moments_of(1_000)
    (200, 40)
    """
    if n_actions <= _MANY_ACTIONS:
        return points
    return min(points, max(_MOST_ESTIMATES // n_actions, _FEWEST_MOMENTS))


def noun_of_pulls(source: object) -> str:
    """Return what `pulls_of` counts: pulls, or the results of a study so far."""
    if isinstance(getattr(source, "pulls", None), np.ndarray):
        return "pull"
    return "pull" if progress_of(source).quantity == "share" else "result"


def pulls_of(source: object) -> tuple[list[Mapping[str, Any]], NDArray[np.int64]]:
    """Return each action's labels and its number of pulls, over all runs together."""
    pulls, problem = getattr(source, "pulls", None), problem_of(source)
    if isinstance(pulls, np.ndarray) and pulls.ndim == 2 and problem is not None:
        return list(problem.action_labels), pulls.sum(axis=0, dtype=np.int64)
    progress = progress_of(source)
    # With guaranteed shares, pulls count when they are issued; results of earlier epochs do not
    # belong to this epoch's pulls.
    own = progress.arms if progress.quantity == "share" else pulled(reported_actions(progress))
    return [one.labels for one in own], np.array([one.pulls for one in own], dtype=np.int64)


def pulled(actions: Sequence[Estimate]) -> list[Estimate]:
    """Return one estimate for each action; with several measures, that of the first measure.

    Examples
    --------
    >>> both = [Estimate({"arm": "a", "measure": name}, 7) for name in ("cured", "harmed")]
    >>> [(dict(one.labels), one.pulls) for one in pulled(both)]
    [({'arm': 'a'}, 7)]
    """
    first = actions[0].labels.get(MEASURE) if actions else None
    if first is None:
        return list(actions)
    return [
        replace(one, labels={name: value for name, value in one.labels.items() if name != MEASURE})
        for one in actions
        if one.labels[MEASURE] == first
    ]


def reported_actions(progress: Progress) -> tuple[Estimate, ...]:
    """Return the estimates by action; raise if the policy reports none."""
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
    """Return whether smaller outcomes are better, so that a limit is a ceiling and not a floor."""
    problem = problem_of(source)
    return problem is not None and problem.direction == "minimize"


def is_endless(source: object) -> bool:
    """Return whether a policy, or a study's policy, never stops by itself."""
    return bool(getattr(getattr(source, "policy", source), "endless", False))


def named(recommendation: Recommendation) -> frozenset[str]:
    """Return the arms that a decision has named; empty without a decision."""
    return answered(recommendation) if recommendation.decided else frozenset()


def answered(recommendation: Recommendation) -> frozenset[str]:
    """Return the arms that are the answer or, without a decision, lead."""
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
        """Arrange actions by their labels; all labels except the arm form the group."""
        pairs = [_arm_and_group(row) for row in labels]
        arms = tuple(dict.fromkeys(arm for arm, _ in pairs))
        groups = tuple(dict.fromkeys(group for _, group in pairs))
        row, panel = _positions(arms), _positions(groups)
        return cls(arms, groups, tuple((row[arm], panel[group]) for arm, group in pairs))

    def panels(self, values: Sequence[Item]) -> list[tuple[str, list[Item | None]]]:
        """Return for each group its name and its values by arm, None for missing actions."""
        table: list[list[Item | None]] = [[None] * len(self.arms) for _ in self.groups]
        for (arm, group), value in zip(self.places, values, strict=True):
            table[group][arm] = value
        return list(zip(self.groups, table, strict=True))


def arm_of(labels: Mapping[str, Any]) -> str:
    """Return the name of the arm in an action's labels."""
    return _arm_and_group(labels)[0]


def _arm_and_group(labels: Mapping[str, Any]) -> tuple[str, str]:
    arm_key = "arm" if "arm" in labels else next(iter(labels), "arm")
    group = ", ".join(str(value) for key, value in labels.items() if key != arm_key)
    return str(labels.get(arm_key, "")), group


def _positions(names: Sequence[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class LeadPeriod:
    """A period of an experiment with the same leader: from `start` to `end` results."""

    leader: str
    start: int
    end: int


def regular_moments(trace: Sequence[Progress]) -> tuple[list[Progress], int]:
    """Return the moments of the whole without those of a close-up, and the results between them.

    Parameters
    ----------
    trace : sequence of Progress
        Moments of one experiment, in order; the last is the end.

    Returns
    -------
    list of Progress, int
        The moments with the same number of results from each to the next, and the end.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> running = Recommendation(None, "running")
    >>> trace = [Progress(running, told, told, 0) for told in (0, 4, 5, 6, 8, 11)]
    >>> moments, stride = regular_moments(trace)
    >>> [moment.told for moment in moments], stride
    ([0, 4, 8, 11], 4)
    """
    told = [moment.told for moment in trace]
    stride = max((after - one for one, after in pairwise(told[:-1])), default=1) or 1
    if not {*range(told[0], told[-2] + 1 if len(told) > 1 else 0, stride)} <= {*told}:
        return list(trace), stride
    return [moment for moment in trace[:-1] if moment.told % stride == 0] + [trace[-1]], stride


def lead_periods(trace: Sequence[Progress]) -> list[LeadPeriod]:
    """Return which arm led when; none leads before the first result."""
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
    """Return the actor that a log records for rows of a table that are sampled repeatedly.

    Examples
    --------
    >>> replay_actor("2,139 rows of actg175.csv")
    'replay of 2,139 rows of actg175.csv'
    """
    return _REPLAY + rows


def replay_note(study: StudyLike) -> str | None:
    """Return a warning for readers if the study replays rows of a table; otherwise None."""
    tells = (event for event in study.events() if event.kind == "tell")
    return said_of_replay(getattr(next(tells, None), "actor", None))


def said_of_replay(actor: str | None) -> str | None:
    """Return the warning for readers if this actor stands for replayed rows; otherwise None.

    Examples
    --------
    >>> said_of_replay(replay_actor("11 rows of rows.csv"))
    'About 11 rows of rows.csv, sampled repeatedly: this says nothing beyond them.'
    """
    if actor is None or not actor.startswith(_REPLAY):
        return None
    rows = actor.removeprefix(_REPLAY)
    return f"About {rows}, sampled repeatedly: this says nothing beyond them."
