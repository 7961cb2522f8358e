"""The section on what people did besides asking and telling: corrections, closures, accesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC

from fairtrial.presentation.sources import EventLike, StudyLike
from fairtrial.presentation.words import count, outcome_in_words
from fairtrial.report.html import Markup, bdi, element, label, table, text_of

__all__ = ["interventions"]

_MOST_ROWS = 200
_TIME = "%Y-%m-%d %H:%M"


def interventions(study: StudyLike) -> Markup | None:
    """Return who corrected, closed, stopped or unmasked what, when and why; None if nobody did."""
    found = study.rare_events(*_WHAT)
    if not found:
        return None
    hidden = len(found) - _MOST_ROWS
    rows = [
        (
            event.at.astimezone(UTC).strftime(_TIME),
            label(event.actor or "not recorded"),
            bdi(_WHAT[event.kind](event)),
            label(str(event.body.get("reason", ""))),
        )
        for event in found[-_MOST_ROWS:]
    ]
    before = f"{count(hidden)} earlier ones are in the log." if hidden > 0 else ""
    return text_of(
        [
            element("h3", "Corrections, closures and accesses to the codes"),
            element("p", before) if before else Markup(""),
            table(
                "What people did besides asking and telling",
                ("Time (UTC)", "Who", "What", "Why"),
                rows,
                words={1, 2, 3},
            ),
        ]
    )


def _correction(event: EventLike) -> str:
    old, new = outcome_in_words(event.body.get("old")), outcome_in_words(event.outcome)
    return f"{_pull(event)}: corrected from {old} to {new}"


def _pull(event: EventLike) -> str:
    return f"pull {count(event.number)}" if event.number is not None else "a result"


def _closing(event: EventLike) -> str:
    name = "arm" if "arm" in event.body else "group"
    return f"{name} {event.body[name]} closed"


def _unmasking(event: EventLike) -> str:
    return "all codes opened" if event.number is None else f"code of {_pull(event)} opened"


_WHAT: Mapping[str, Callable[[EventLike], str]] = {
    "amend": _correction,
    "close": _closing,
    "stop": lambda _: "study stopped",
    "mask": lambda _: "unmasking list made",
    "unmask": _unmasking,
}
