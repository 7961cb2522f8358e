"""The section on the log: its ends, and how to replay it."""

from __future__ import annotations

import shlex
from datetime import UTC
from itertools import islice

from fairtrial.core.parameters import Parametrized
from fairtrial.presentation.sources import EventLike, StudyLike
from fairtrial.presentation.words import count, number, plural
from fairtrial.report.findings import Findings
from fairtrial.report.html import Markup, bdi, element, label, section, table

__all__ = ["log"]

_EVENTS_AT_EACH_END = 8
_HASH_SHOWN = 12


def log(found: Findings) -> Markup:
    """Return the section."""
    study = found.study
    first, last, total = _both_ends(study)
    rows = [_event_row(found, event) for event in first]
    if total > len(first) + len(last):
        left_out = total - len(first) - len(last)
        rows.append(("…", f"{count(left_out)} left out", "", "", "", ""))
    rows += [_event_row(found, event) for event in last]
    heads = ("Event", "Kind", "Action", "Value", "Time (UTC)", "Hash")
    origin = [
        ("policy", bdi(_signature(study.policy))),
        ("problem", f"{study.problem.family}, {plural(study.problem.n_actions, 'action')}"),
        ("problem, SHA-256", study.problem.digest),
        ("seed", str(study.seed)),
        ("last event, SHA-256", study.head_hash),
    ]
    return section(
        "Log",
        table(f"First and last of {plural(total, 'event')}", heads, rows),
        element("h3", "Where the decisions come from"),
        table("The study is this, and its log", ("What", "Value"), origin),
        element("p", "Every decision follows from these. To replay and check all of them:"),
        element(
            "pre",
            f"fairtrial study verify {shlex.quote(study.name)} --storage STORAGE\n"
            f"ft.Study.open(STORAGE, {study.name!r}).verify()",
        ),
    )


def _signature(policy: Parametrized) -> str:
    """Return the policy with all its parameters, also those left at their defaults."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in policy.get_params().items())
    return f"{type(policy).__name__}({arguments})"


def _both_ends(study: StudyLike) -> tuple[list[EventLike], list[EventLike], int]:
    """Return the first and the last events of a log that may be too long to be gone through."""
    total = study.n_events
    first = list(islice(study.events(), _EVENTS_AT_EACH_END))
    # A study in use may be longer by now.
    place = max(total - _EVENTS_AT_EACH_END, len(first))
    return first, list(islice(study.events(place), max(total - place, 0))), total


def _event_row(found: Findings, event: EventLike) -> tuple[object, ...]:
    labels = {} if event.action is None else found.study.problem.labels(event.action)
    outcome = event.outcome
    return (
        count(event.seq),
        event.kind,
        label(" / ".join(map(str, labels.values()))),
        number(outcome) if isinstance(outcome, float) else label(outcome or ""),
        event.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        event.hash[:_HASH_SHOWN],
    )
