"""How limits and shares were kept during a study: line charts by results."""

from __future__ import annotations

from fairtrial.presentation.alternatives import strength
from fairtrial.presentation.lines import (
    LineChart,
    behind_chart,
    bound_chart,
    distance_chart,
    limit_evidence_chart,
    measure_charts,
)
from fairtrial.presentation.words import number, shorten
from fairtrial.report.findings import Findings
from fairtrial.report.html import LABEL_LENGTH, Markup, element, text_of
from fairtrial.report.lines import lines_figure

__all__ = [
    "behind_over_time",
    "bounds_over_time",
    "distances_over_time",
    "measures_over_time",
]


def distances_over_time(found: Findings) -> Markup | None:
    """Return how the distances from limits have changed for the arm that leads or is the answer."""
    arm = _arm_of(found)
    chart = None if arm is None else distance_chart(found.trace, arm)
    if chart is None:
        return None
    caption = (
        f"How far the means of {shorten(arm, LABEL_LENGTH)} are from their {found.limit}s, over "
        f"the results; below 0 a {found.limit} is missed. {_nearest(chart)}"
    )
    return text_of(
        [
            element("h3", f"Distance from each {found.limit}, over time"),
            _lines_figure(found, chart, caption, "Distance from the limit"),
        ]
    )


def measures_over_time(found: Findings) -> Markup | None:
    """Return the same for limits of measures, and how the evidence for each one has grown."""
    arm = _arm_of(found)
    if arm is None:
        return None
    figures = [
        _measure_figure(found, chart, arm, measure, place)
        for place, (measure, chart) in enumerate(measure_charts(found.trace, arm).items())
    ]
    evidence = limit_evidence_chart(found.trace, arm)
    if not figures and evidence is None:
        return None
    return text_of(
        [
            *[element("h3", "Distance from each limit, over time")] * bool(figures),
            *figures,
            None if evidence is None else _evidence_figure(found, evidence, arm),
        ]
    )


def _measure_figure(
    found: Findings, chart: LineChart, arm: str, measure: str, place: int
) -> Markup:
    name, of = shorten(measure, LABEL_LENGTH), shorten(arm, LABEL_LENGTH)
    caption = (
        f"Measure {name}: how far the means of {of} are from their limits, over "
        f"the results; below 0 a limit is missed. {_nearest(chart)}"
    )
    what = f"Distance of {name} from its limits"
    return _lines_figure(found, chart, caption, what, f"distance-of-measure-{place}")


def _evidence_figure(found: Findings, chart: LineChart, arm: str) -> Markup:
    assert chart.level is not None, "evidence is held against what settles it"
    least, where = min((line.up[-1], line.name) for line in chart.lines)
    enough, now = strength(chart.level.height), "All are settled now."
    if least < chart.level.height:
        now = f"The least now: {strength(least)}, for {shorten(where, LABEL_LENGTH)}."
    caption = (
        f"Strength of evidence that {shorten(arm, LABEL_LENGTH)} keeps each limit, over the "
        f"results; {enough} or more settles it. {now}"
    )
    figure = _lines_figure(found, chart, caption, "Evidence for each limit", "evidence-for-limits")
    return text_of([element("h3", "Evidence that each limit is kept, over time"), figure])


def _arm_of(found: Findings) -> str | None:
    """Return the arm that is the answer, or leads."""
    return next(iter(sorted(found.best)), None)


def _nearest(chart: LineChart) -> str:
    """Return a sentence that says which of an arm's means is nearest to its limit now."""
    least, where = min((line.up[-1], line.name) for line in chart.lines)
    side = "on the right side of" if least >= 0 else "beyond"
    named = shorten(where, LABEL_LENGTH)
    return f"Nearest to its limit now: {named} ({number(abs(least), 3)} {side} it)."


def bounds_over_time(found: Findings) -> Markup | None:
    """Return how far the values of the arm that leads, or is the answer, were within bounds."""
    arm = _arm_of(found)
    chart = None if arm is None else bound_chart(found.trace, arm)
    if chart is None or arm is None:
        return None
    least, where = min((line.up[-1], line.name) for line in chart.lines)
    caption = (
        f"How far the values of {shorten(arm, LABEL_LENGTH)} are within the bound, over the "
        f"results; below 0 the bound is exceeded. Nearest to the bound now: "
        f"{shorten(where, LABEL_LENGTH)} (distance {number(least, 3)})."
    )
    figure = _lines_figure(found, chart, caption, "Distance from the bound")
    return text_of([element("h3", "Distance from the bound, over time"), figure])


def behind_over_time(found: Findings) -> Markup | None:
    """Return by how many pulls arms have been behind what they are owed."""
    chart = behind_chart(found.trace)
    if chart is None:
        return None
    most, arm = max((line.up[-1], line.name) for line in chart.lines)
    name = shorten(arm, LABEL_LENGTH)
    now = f"Most behind now: {name}, by {number(most, 3)}."
    if most <= 0:
        now = f"None is behind now; nearest to it is {name}, {number(abs(most), 3)} ahead."
    caption = (
        "Pulls that each arm is behind what it is owed, over the results; below 0 it is ahead. "
        f"{now}"
    )
    return text_of(
        [
            element("h3", "Behind or ahead of the guaranteed share, over time"),
            _lines_figure(found, chart, caption, "Pulls behind"),
        ]
    )


def _lines_figure(
    found: Findings, chart: LineChart, caption: str, name: str, place: str = ""
) -> Markup:
    """Return a figure for the chosen range of results; `place` is its name in addresses."""
    controls = found.controls(place or name.lower().replace(" ", "-"))
    return lines_figure(chart, found.of_results(caption), name, found.zoomed(chart), controls)
