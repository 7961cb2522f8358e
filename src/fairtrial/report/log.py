"""The section on the log: its first and last events, and how to replay it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from itertools import islice
from typing import NamedTuple

from fairtrial.core.parameters import Parametrized
from fairtrial.core.problem import Problem
from fairtrial.presentation.sources import EventLike, StudyLike
from fairtrial.presentation.words import count, number, plural
from fairtrial.report.findings import Findings
from fairtrial.report.html import Markup, bdi, element, label, section, table
from fairtrial.report.interventions import interventions

__all__ = ["event_table", "log", "origin"]

_MOST_VALUES = 20
_EVENTS_AT_EACH_END = 8
_HASH_SHOWN = 12
_TIME = "%Y-%m-%d %H:%M:%S"

KINDS = {
    "ask": "pull asked for",
    "wait": "no pull to give yet",
    "reissue": "pull handed out again",
    "extend": "more time for a pull",
    "report": "reading",
    "tell": "result",
    "late_tell": "late result",
    "unsolicited": "result nobody asked for",
    "amend": "result corrected",
    "expire": "pull expired",
    "cancel": "pull cancelled",
    "fail": "pull given up",
    "time": "time is over",
    "stop": "study stopped by hand",
    "close": "arm or group closed by hand",
    "kit": "kit handed out",
    "supply": "kits added",
    "mask": "unmasking list made",
    "unmask": "unmasking list opened",
}
"""The kinds of events, in words."""

_OF_UNITS = {
    "ask": "unit assigned",
    "tell": "outcome",
    "fail": "no outcome",
    "unsolicited": "outcome of a unit that the answer does not use",
}
"""Events that the analysis of a finished experiment writes itself, in words."""


def log(found: Findings) -> Markup:
    """Return the section on the log: both ends of it, and the origin of the decisions."""
    first, last, total = _both_ends(found.study)
    left_out = total - len(first) - len(last)
    title = f"First and last of {plural(total, 'event')}"
    of_units = found.progress.assigned is not None
    events = event_table(found.study.problem, title, first, last, left_out, of_units)
    return section("Log", interventions(found.study), events, *origin(found.study))


def event_table(
    problem: Problem,
    title: str,
    events: Sequence[EventLike],
    later: Sequence[EventLike] = (),
    left_out: int = 0,
    of_units: bool = False,
) -> Markup:
    """Return events as a table: a row each, and one for those left out before `later`.

    With `of_units` the events are those of the analysis of a finished experiment: it writes most of
    them itself, long after they happened, so it shows no times for these.
    """
    every = [*events, *later]
    columns = [column for column in _COLUMNS if column.always or any(map(column.value, every))]

    def row(event: EventLike) -> list[object]:
        cells = {one: one.cell(problem, event) for one in columns}
        if of_units and event.kind in _OF_UNITS:
            cells |= {_WHAT: _OF_UNITS[event.kind], _WHEN: ""}
        return list(cells.values())

    rows: list[Sequence[object]] = [row(event) for event in events]
    if left_out > 0:
        blank = [""] * (len(columns) - 2)
        rows.append(["…", f"{count(left_out)} left out", *blank])
    rows += [row(event) for event in later]
    return table(title, [one.name for one in columns], rows)


def origin(study: StudyLike) -> list[Markup]:
    """Return what the decisions follow from, and how to verify this."""
    rows = [
        ("policy", bdi(_signature(study.policy))),
        ("problem", f"{study.problem.family}, {plural(study.problem.n_actions, 'action')}"),
        ("problem, SHA-256", study.problem.digest),
        ("seed", str(study.seed)),
        ("last event, SHA-256", study.head_hash),
    ]
    return [
        element("h3", "Where the decisions come from"),
        table("The study consists of these and its log", ("What", "Value"), rows),
        element("p", "Every decision follows from these. To replay and check all of them:"),
        element(
            "pre",
            f"fairtrial study verify {shlex.quote(study.name)} --storage STORAGE\n"
            f"ft.Study.open(STORAGE, {study.name!r}).verify()",
        ),
    ]


def _signature(policy: Parametrized) -> str:
    """Return the policy with all its parameters, including those with default values."""
    given = policy.get_params().items()
    arguments = ", ".join(f"{name}={_in_short(value)}" for name, value in given)
    return f"{type(policy).__name__}({arguments})"


def _in_short(value: object) -> str:
    """Return a value as code; of a long list, such as a million assignments, only its beginning."""
    if not isinstance(value, list | tuple) or len(value) <= _MOST_VALUES:
        return repr(value)
    first = ", ".join(map(repr, value[:_MOST_VALUES]))
    return f"[{first}, ... ({count(len(value))} values)]"


def _both_ends(study: StudyLike) -> tuple[list[EventLike], list[EventLike], int]:
    """Return the first and last events of a log that may be too long to read completely."""
    total = study.n_events
    first = list(islice(study.events(), _EVENTS_AT_EACH_END))
    # A study in use may have grown meanwhile.
    place = max(total - _EVENTS_AT_EACH_END, len(first))
    return first, list(islice(study.events(place), max(total - place, 0))), total


class _Column(NamedTuple):
    """A column of the table of events; shown always, or only if some event has a value."""

    name: str
    value: Callable[[EventLike], object]
    cell: Callable[[Problem, EventLike], object]
    always: bool = True


def _happened(event: EventLike) -> str:
    if event.kind == "amend" and _takes_back(event):
        return "result withdrawn"
    return KINDS.get(event.kind, event.kind)


def _takes_back(event: EventLike) -> bool:
    """Return whether all that a correction changes are values that it takes back."""
    old, new = event.body.get("old"), event.body.get("outcome")
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return False
    changed = [value for name, value in new.items() if value != old.get(name)]
    return bool(changed) and all(value is None for value in changed)


def _action(problem: Problem, event: EventLike) -> Markup:
    labels = {} if event.action is None else problem.labels(event.action)
    return label(" / ".join(map(str, labels.values())))


def _outcome(_: Problem, event: EventLike) -> object:
    outcome = event.outcome
    if isinstance(outcome, Mapping):
        return label(", ".join(f"{name}: {value}" for name, value in outcome.items()))
    return number(outcome) if isinstance(outcome, float) else ""


def _reason(event: EventLike) -> object:
    reason = event.body.get("reason")
    if event.kind != "close":
        return reason
    name = "arm" if "arm" in event.body else "group"
    return f"{name} {event.body[name]}: {reason}"


_WHAT = _Column("What happened", _happened, lambda _, e: _happened(e))
_WHEN = _Column("Time (UTC)", lambda e: e.at, lambda _, e: e.at.astimezone(UTC).strftime(_TIME))

_COLUMNS = (
    _Column("Event", lambda e: e.seq, lambda _, e: count(e.seq)),
    _WHAT,
    _Column("Action", lambda e: e.action, _action),
    _Column("Value", lambda e: e.outcome, _outcome),
    _Column("Who", lambda e: e.actor, lambda _, e: label(e.actor or ""), always=False),
    _Column("Reason", _reason, lambda _, e: label(_reason(e) or ""), always=False),
    _WHEN,
    _Column("Hash", lambda e: e.hash, lambda _, e: e.hash[:_HASH_SHOWN]),
)
