"""The section on health: whether the log replays, and which pulls had problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fairtrial.presentation.charts import most_pulled
from fairtrial.presentation.closed import marked, marked_labels
from fairtrial.presentation.missing_values import (
    MISSING,
    counting_of_missing,
    missing_values,
    summary_of_missing,
)
from fairtrial.presentation.sources import VerificationLike
from fairtrial.presentation.words import count, ended, number, percent, plural
from fairtrial.report import charts
from fairtrial.report.findings import Findings
from fairtrial.report.html import (
    Markup,
    bdi,
    element,
    folded,
    label,
    section,
    table,
    text_of,
)

__all__ = ["NAMES_OF_UNITS", "health"]

_MOST_CELLS = 40
_NAMES = {
    "open": "Pulls without a result yet",
    "overdue": "Of those, overdue",
    "expired": "Pulls whose time ran out",
    "reissued": "Pulls given out again",
    "cancelled": "Pulls cancelled",
    "lost": "Pulls given up, also if a result came later",
    "late": "Results that came late",
    "amended": "Results corrected",
    "duplicates": "Results told twice",
    "unsolicited": "Unsolicited results",
    "expiry": "A pull whose time runs out is",
}
NAMES_OF_UNITS = {
    "lost": "Units without an outcome, among those that the answer uses",
    "unsolicited": "Results that the answer does not use",
    "late": "Outcomes that were told later",
    "amended": "Results corrected",
}
"""The same of a finished experiment, whose units were not pulls."""

_NO_PROBLEM = "No check of the results against the assumptions found a problem."
_NO_PROBLEM_BLINDED = "Nothing to report. Checks of the results by arm are not part of this view."
_NOTHING = "No pull is open, and none was lost, late, corrected or told twice."
_NOTHING_WITHOUT_PULLS = "No result is missing, and none was late, corrected or told twice."
_NAMES_WITHOUT_PULLS = _NAMES | {
    "open": "Without a result yet",
    "expired": "Their time ran out",
    "reissued": "Given out again",
    "cancelled": "Cancelled",
    "lost": "Without a result for good, unless it came later",
    "unsolicited": "Results that nobody asked for",
    "expiry": "What happens when the time runs out",
}
"""The same for people who recruit; pulls are patients to some, samples to others."""
_EXPIRIES = {"drop": "given up", "reissue": "given out again"}


class _Returned(NamedTuple):
    """The words of the table of results by action."""

    many: str
    title: str
    open: str
    share: str
    fewer: str


_OF_PULLS = _Returned(
    "Pulls",
    "Pulls that brought a result",
    "Open",
    "Share that brought a result",
    "Shares leave out open pulls. If pulls of some arms bring fewer results than those of others",
)
_OF_PARTICIPANTS = _Returned(
    "Participants",
    "Participants with a result",
    "No result yet",
    "Share with a result",
    "Shares leave out participants without a result yet. If participants of some arms have fewer "
    "results than those of others",
)


def health(found: Findings, *, blinded: bool = False) -> Markup:
    """Return the section on health; if blinded, without anything about arms."""
    values = dict(found.study.health(blinded=blinded))
    warnings = values.pop("warnings", ())
    kits = values.pop("kits_left", {})
    of_units = found.progress.assigned is not None
    if of_units:
        # No unit of a finished experiment was ever waited for.
        values = {name: values.get(name, 0) for name in NAMES_OF_UNITS}
    expiry = values.get("expiry")
    if expiry in _EXPIRIES:
        values["expiry"] = _EXPIRIES[str(expiry)]
    found_so_far = [(name, value) for name, value in _flat(values) if value != count(0)]
    happened = any(name != "expiry" for name, _ in found_so_far)
    has_pulls = not (blinded or found.study.has_participants)
    names = _NAMES if has_pulls else _NAMES_WITHOUT_PULLS
    nothing = _NOTHING if has_pulls else _NOTHING_WITHOUT_PULLS
    if of_units:
        names, nothing = NAMES_OF_UNITS, "Every unit has an outcome, and none was corrected."
    rows = [(names.get(name, name), bdi(value)) for name, value in found_so_far]
    state = (
        table("State of the study", ("What", "Value"), rows) if happened else element("p", nothing)
    )
    doubts = [element("p", element("strong", _sentence(one)), class_="warning") for one in warnings]
    return section(
        "Health",
        *(doubts or [element("p", _NO_PROBLEM_BLINDED if blinded else _NO_PROBLEM)]),
        _audit(found.verification, blinded),
        state,
        _kits(kits),
        _delays(found, has_pulls),
        # The section on units shows which of them have outcomes.
        None if blinded or of_units else _returned(found),
        None if blinded else _missing(found),
    )


def _sentence(text: str) -> str:
    return ended(text[:1].upper() + text[1:])


def _audit(check: VerificationLike, blinded: bool) -> Markup:
    if not check.ok:
        # The difference may reveal a result.
        where = "those who may see the full view find where" if blinded else check.first_difference
        said = f"The log does not replay to the recorded decisions: {where}."
        return element("p", element("strong", said), class_="warning")
    if not check.skipped:
        said = f"The log replays to the same decisions: {plural(check.events, 'event')} checked."
        return element("p", said)
    return element(
        "p",
        f"The last {plural(check.events, 'event')} follow each other unaltered; the "
        f"{count(check.skipped)} before them were not checked now.",
    )


def _kits(left: Mapping[str, int]) -> Markup | None:
    """Return how many kits of each arm are left; None if the study has no kits of its own."""
    if not left:
        return None
    rows = [(label(arm), count(number_left)) for arm, number_left in left.items()]
    return table("Kits that were not handed out", ("Arm", "Kits left"), rows, words={0})


def _delays(found: Findings, has_pulls: bool) -> Markup | None:
    """Return how long results took; None in a finished experiment, whose log does not know."""
    delays = found.arrivals.delays
    if not delays or found.progress.assigned is not None:
        return None
    total = sum(number_of for _, number_of in delays)
    rows = [(name, count(number_of), percent(number_of / total, 1)) for name, number_of in delays]
    if found.study.has_participants:
        what = "Time from a participant's assignment to the result"
    else:
        what = "Time from a pull to its result" if has_pulls else "Time until the result"
    caption = (
        f"{what}, of {plural(total, 'result')}. The middle one took {found.arrivals.usual_delay}."
    )
    data = table("Results by the time they took", ("Time", "Results", "Share"), rows, words={0})
    return text_of(
        [
            element("h3", "How long results take"),
            charts.figure(
                charts.counts_chart(delays),
                charts.counts_key("number of results"),
                caption,
                folded(f"The numbers: {plural(len(rows), 'row')}", data, len(rows)),
            ),
        ]
    )


def _returned(found: Findings) -> Markup | None:
    """Return for each action how many pulls have results."""
    asked, told, given_up = found.arrivals.asked, found.arrivals.told, found.arrivals.given_up
    labels = found.study.problem.action_labels
    shown, note = most_pulled(labels, [asked[action] for action in range(len(labels))])
    rows = [
        (
            *map(label, marked_labels(found.progress, labels[action])),
            count(asked[action]),
            count(told[action]),
            count(asked[action] - told[action] - given_up[action]),
            count(given_up[action]),
            _share_returned(told[action], told[action] + given_up[action]),
        )
        for action in shown
        if asked[action]
    ]
    if not rows:
        return None
    names = [str(key).capitalize() for key in labels[0]]
    words = _OF_PARTICIPANTS if found.study.has_participants else _OF_PULLS
    heads = (*names, words.many, "With result", words.open, "Given up", words.share)
    said = (
        f"{words.fewer}, find out why. If results are missing because of their values, "
        f"the answer may be wrong. {note}"
    )
    return text_of(
        [
            element("h3", words.title),
            element("p", said.strip()),
            folded(
                f"The numbers: {plural(len(rows), 'row')}",
                table(f"{words.many} and results", heads, rows, words=set(range(len(names)))),
                len(rows),
            ),
        ]
    )


def _share_returned(told: int, ended: int) -> str:
    """Return the share of the pulls that are no longer open that brought a result."""
    return percent(told / ended, 1) if ended else ""


def _missing(found: Findings) -> Markup | None:
    """Return for each measure how many values will never be known."""
    summary = summary_of_missing(found.progress)
    if not summary:
        return None
    lacking = missing_values(found.progress)
    if not lacking:
        return text_of([element("h3", MISSING), element("p", summary)])
    rows = [
        (
            label(marked(found.progress, one.arm)),
            label(marked(found.progress, one.group, "group")),
            label(one.measure),
            count(one.known),
            count(one.missing),
            percent(one.share, 1),
        )
        for one in lacking[:_MOST_CELLS]
    ]
    hidden = len(lacking) - len(rows)
    said = f"{summary} {counting_of_missing(found.progress)}"
    said += f" {count(hidden)} more rows, with smaller shares, are not shown." if hidden else ""
    heads = ("Arm", "Group", "Measure", "Known", "Missing", "Share missing")
    return text_of(
        [
            element("h3", MISSING),
            element("p", said.strip()),
            table("Values that will never be known", heads, rows, words={0, 1, 2}),
        ]
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, Mapping):
            rows += _flat(value, f"{name}: ")
        elif isinstance(value, float):
            rows.append((name, number(value)))
        elif isinstance(value, bool | None):
            rows.append((name, {True: "yes", False: "no", None: number(None)}[value]))
        elif isinstance(value, int):
            rows.append((name, count(value)))
        else:
            rows.append((name, str(value)))
    return rows
