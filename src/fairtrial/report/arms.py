"""The section on the arms: how good each one is, and where the pulls went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fairtrial.core.noted import ABOUT_SEGMENTS, segments_noted
from fairtrial.core.recommendation import Effect, Estimate
from fairtrial.presentation.charts import (
    Bar,
    IntervalChart,
    ShareChart,
    interval_chart,
    share_chart,
)
from fairtrial.presentation.closed import marked, marked_labels
from fairtrial.presentation.counted import (
    MEAN_OF_ALL,
    counted_note,
    gives_mean_of_all,
    intervals_note,
    name_of_mean,
    some_do_not_count,
)
from fairtrial.presentation.cuts import Cut, cut_of_arms
from fairtrial.presentation.effects import differences
from fairtrial.presentation.guardrails import places_of_measures
from fairtrial.presentation.limits import finite, has_interval, kind_of_intervals
from fairtrial.presentation.measures import (
    MeasuredArm,
    measured_arms,
    missing_a_limit,
    name_of_objective,
    said_of_missed_limits,
)
from fairtrial.presentation.predictions import (
    PREDICTIONS,
    about_predictions,
    heading_of_groups,
    predictions_by_group,
)
from fairtrial.presentation.shares import (
    earlier_note,
    shares_of,
)
from fairtrial.presentation.sources import arm_of, problem_of, pulled
from fairtrial.presentation.words import (
    NOTHING,
    count,
    decimals,
    ended,
    fixed,
    listed,
    number,
    percent,
    plural,
)
from fairtrial.report import charts
from fairtrial.report.findings import Findings, places_of
from fairtrial.report.html import Markup, bdi, element, folded, label, section, table, text_of

__all__ = ["arms"]

_LIMITS = "Limits against the control are on the difference from its mean."
_WEIGHTED = (
    "A study stops when an arm looks good, so the mean of that arm is too large on average. "
    "Weighting each result by the inverse of the probability of its arm is often asked for, and "
    "hardly helps. Rely on the intervals."
)


def arms(found: Findings) -> Markup:
    """Return the section on the arms."""
    if not found.progress.actions:
        return section("Arms", element("p", "The policy reports no estimates by action."))
    # If shares are guaranteed, the section on fairness shows them next to what is owed.
    where = None if shares_of(found.progress) else _allocation(found)
    return section(
        "Arms",
        _qualities(found),
        _measures(found),
        _differences(found),
        _by_segment(found.study.notes),
        _predictions(found),
        _weighted(found),
        where,
    )


def _overall(found: Findings) -> tuple[tuple[Estimate, ...], Cut]:
    """Return one estimate per arm (its overall mean, or its mean without groups), and the cut."""
    progress = found.progress
    if progress.arms and progress.quantity == "mean":
        return progress.arms, cut_of_arms(progress, found.minimize)
    return () if any(found.grid.groups) else progress.actions, found.cut


def _qualities(found: Findings) -> Markup | None:
    every, cut = _overall(found)
    overall = cut.rank(every)
    if not overall:
        return None
    arms = [arm_of(arm.labels) for arm in overall]
    title = "overall mean" if any(found.grid.groups) else name_of_mean(overall)
    objective = name_of_objective(problem_of(found.study))
    title += f" of {objective}" if objective else ""
    chart = _with_missed_limits(
        found, interval_chart(found.progress, arms, [(title, list(overall))])
    )
    heading = f"How good each arm is: {objective}" if objective else "How good each arm is"
    return text_of(
        [
            element("h3", heading),
            charts.figure(
                charts.interval_chart(chart),
                charts.interval_key(chart),
                _qualities_caption(found, every, cut.note),
                folded(
                    f"The numbers: {plural(len(arms), 'arm')}",
                    _qualities_table(found, arms, overall),
                    len(arms),
                ),
            ),
        ]
    )


def _with_missed_limits(found: Findings, chart: IntervalChart) -> IntervalChart:
    """Return the chart with a remark at every arm that misses a limit."""
    missed = missing_a_limit(found.progress)
    names = {arm: f"{arm}: {missed[arm]}" if arm in missed else arm for arm in chart.arms}
    return replace(
        chart,
        arms=tuple(names[arm] for arm in chart.arms),
        best=tuple(names.get(arm, arm) for arm in chart.best),
    )


def _measures(found: Findings) -> Markup | None:
    """Return every measure by arm, overall and by group, if pulls have several measures."""
    rows = measured_arms(found.progress, found.minimize)
    if not rows:
        return None
    waiting = some_do_not_count([one.estimate for one in rows])
    of_all = gives_mean_of_all([one.estimate for one in rows])
    limited = any(one.limits for one in rows)
    heads = (
        *("Arm", "Group", "Measure", "Results"),
        *[MEAN_OF_ALL.capitalize()] * of_all,
        *["Counted"] * waiting,
        *("Mean", "Lower", "Upper"),
        *["Limit", "Standing"] * limited,
    )
    data = table(
        "Every measure by arm",
        heads,
        [_measure_row(found, one, rows, of_all, waiting, limited) for one in rows],
        words={0, 1, 2, *([len(heads) - 2, len(heads) - 1] if limited else [])},
    )
    return text_of(
        [
            element("h3", "Every measure by arm"),
            element("p", _about_measures(found, rows)),
            folded(f"The numbers: {plural(len(rows), 'row')}", data, len(rows)),
        ]
    )


def _about_measures(found: Findings, rows: Sequence[MeasuredArm]) -> str:
    """Return how to read the table of measures."""
    against_control = any(limit.control is not None for one in rows for limit in one.limits)
    parts = (
        _LIMITS if against_control else "",
        said_of_missed_limits(found.progress),
        found.cut.note,
        intervals_note(found.progress),
    )
    return " ".join(filter(None, parts))


def _measure_row(
    found: Findings,
    one: MeasuredArm,
    rows: Sequence[MeasuredArm],
    of_all: bool,
    waiting: bool,
    limited: bool,
) -> tuple[object, ...]:
    own, measure = one.estimate, one.measure
    # Measures have different units.
    places = places_of([row.estimate for row in rows if row.measure == measure])
    limits = places_of_measures(one.limits).get(measure, places)
    return (
        label(marked(found.progress, one.arm)),
        label(marked(found.progress, one.where, "group")),
        label(measure),
        count(own.pulls),
        *([fixed(own.mean_of_all, places)] * of_all),
        *([count(own.pulls if own.counted is None else own.counted)] * waiting),
        *(fixed(value, places) for value in (own.mean, own.lower, own.upper)),
        *([one.limit(partial(fixed, places=limits)) or NOTHING] * limited),
        *([element("span", one.standing or NOTHING)] * limited),
    )


def _qualities_caption(found: Findings, every: Sequence[Estimate], note: str) -> str:
    known = [arm for arm in every if finite(arm.mean) is not None]
    ranked = sorted(known, key=lambda arm: (arm.mean or 0.0) * (1 if found.minimize else -1))
    numbers = [f"{found.name(arm)} {_with_interval(arm)}" for arm in ranked]
    order = "from the smallest" if found.minimize else "from the largest"
    what = "Means" if name_of_mean(every) == "mean" else "Predictions"
    parts = [
        f"{what}{_with_intervals(found, every)}, {order}:",
        f"{listed(numbers, 5) or 'no result yet'}.",
        said_of_missed_limits(found.progress),
        note,
        earlier_note(found.progress),
        counted_note(found.progress),
        intervals_note(found.progress),
    ]
    return " ".join(filter(None, parts))


def _with_intervals(found: Findings, estimates: Sequence[Estimate]) -> str:
    kind = kind_of_intervals(found.progress, estimates)
    return f" with {kind} intervals" if kind else ""


def _qualities_table(found: Findings, arms: Sequence[str], overall: Sequence[Estimate]) -> Markup:
    places = places_of(overall)
    # Answers that cannot be pulled have no results; some policies give no intervals.
    pulled_at_all = any(arm.pulls for arm in overall)
    bounded = any(map(has_interval, overall))
    waiting = some_do_not_count(overall)
    of_all = gives_mean_of_all(overall)
    own = any(arm.own_mean is not None for arm in overall)
    missed = missing_a_limit(found.progress)
    rows = [
        (
            label(marked(found.progress, name)),
            *([count(arm.pulls)] * pulled_at_all),
            *([fixed(arm.mean_of_all, places)] * of_all),
            *([count(arm.pulls if arm.counted is None else arm.counted)] * waiting),
            *([fixed(arm.own_mean, places)] * own),
            fixed(arm.mean, places),
            *[fixed(value, places) for value in (arm.lower, arm.upper)] * bounded,
            *([element("span", missed.get(name, NOTHING))] * bool(missed)),
        )
        for arm, name in zip(overall, arms, strict=True)
    ]
    results = [
        *["Results"] * pulled_at_all,
        *[MEAN_OF_ALL.capitalize()] * of_all,
        *["Counted"] * waiting,
    ]
    measured = ["Own mean"] * own
    mean = name_of_mean(overall).capitalize()
    bounds = ["Lower", "Upper"] * bounded
    heads = ("Arm", *results, *measured, mean, *bounds, *["Limits"] * bool(missed))
    words = {0, len(heads) - 1} if missed else {0}
    return table("Estimates by arm", heads, rows, words=words)


def _differences(found: Findings) -> Markup | None:
    """Return the differences between arms and the control, or the leader."""
    shown = differences(found.progress, found.minimize)
    if shown is None:
        return None
    return text_of(
        [
            element("h3", "Difference from ", label(shown.reference)),
            _differences_table(found, "Overall", shown.overall),
            element("p", shown.note),
            _by_group(found, shown.by_group),
        ]
    )


def _predictions(found: Findings) -> Markup | None:
    """Return what predictions explain, if the problem has them."""
    rows = predictions_by_group(found.progress)
    if not rows:
        return None
    heads = (heading_of_groups(found.progress).capitalize(), "Slope", "Variance explained")
    shown = [(label(group), *values) for group, *values in rows]
    return text_of(
        [
            element("h3", PREDICTIONS),
            element("p", about_predictions(found.progress)),
            table("What predictions explain, by group", heads, shown, words={0}),
        ]
    )


def _by_group(found: Findings, effects: Sequence[Effect]) -> Markup | None:
    if not effects:
        return None
    rows = len(effects)
    return folded(
        f"By group: {plural(rows, 'row')}", _differences_table(found, "By group", effects), rows
    )


def _by_segment(notes: Mapping[str, str]) -> Markup | None:
    """Return the differences in the segments of a finished experiment."""
    segments = segments_noted(notes)
    if not segments:
        return None
    rows = [(bdi(name), bdi(said)) for name, said in segments.items()]
    return text_of(
        [
            element("h3", "Differences by segment"),
            table("By segment", ("Segment", "Difference, its interval, and units"), rows),
            element("p", ended(notes[ABOUT_SEGMENTS])),
        ]
    )


def _differences_table(found: Findings, title: str, effects: Sequence[Effect]) -> Markup:
    values = [(effect.difference, effect.lower, effect.upper) for effect in effects]
    places = decimals([value for row in values for value in row if value is not None], 3)
    grouped = any(effect.group is not None for effect in effects)
    rows = [
        (
            label(marked(found.progress, effect.arm)),
            *([label(marked(found.progress, effect.group or "", "group"))] if grouped else []),
            *(fixed(value, places) for value in row),
        )
        for effect, row in zip(effects, values, strict=True)
    ]
    names = ("Arm", "Group") if grouped else ("Arm",)
    heads = (*names, "Difference", "Lower", "Upper")
    return table(title, heads, rows, words=set(range(len(names))))


def _weighted(found: Findings) -> Markup | None:
    """Return plain means next to means weighted by inverse propensities, if there are any."""
    study = found.study
    means = {
        tuple(labels.items()): mean
        for labels, mean in zip(study.problem.action_labels, study.weighted_means(), strict=True)
    }
    rows = [
        (action, mean)
        for action in found.shown.actions
        if (mean := means.get(tuple(action.labels.items()))) is not None
    ]
    if not rows:
        return None
    places = decimals([value for action, mean in rows for value in (action.mean or 0.0, mean)], 3)
    labels = list(rows[0][0].labels)
    data = table(
        "Estimates from all results alike, and weighted by the inverse of their propensity",
        (*(str(key).capitalize() for key in labels), "Results", "Estimate", "Weighted"),
        [
            (
                *map(label, marked_labels(found.progress, action.labels)),
                count(action.pulls),
                fixed(action.mean, places),
                fixed(mean, places),
            )
            for action, mean in rows
        ],
        words=set(range(len(labels))),
    )
    explanation = element("p", _WEIGHTED)
    content = text_of([explanation, data])
    return folded(f"Weighted means: {plural(len(rows), 'row')}", content, len(rows))


def _with_interval(estimate: Estimate) -> str:
    ends = "" if estimate.lower is None and estimate.upper is None else f" ({_interval(estimate)})"
    return f"{number(estimate.mean, 3)}{ends}"


def _interval(estimate: Estimate) -> str:
    return f"{number(estimate.lower, 3)} to {number(estimate.upper, 3)}"


def _allocation(found: Findings) -> Markup:
    actions = pulled(found.progress.actions)
    labels, pulls = [action.labels for action in actions], [action.pulls for action in actions]
    chart = share_chart(labels, pulls, found.optimal, _places(found), found.cut.note)
    # Pulls whose results are late are not in the chart.
    counts_pulls = found.progress.quantity == "share"
    title = "Where the pulls went" if counts_pulls else "Where the results come from"
    return text_of(
        [
            element("h3", title),
            charts.figure(
                charts.bar_chart(chart),
                charts.bar_key(chart),
                f"{_allocation_caption(found, chart.total)} {chart.note}".strip(),
                folded(
                    f"The numbers: {plural(len(chart.arms), 'arm')}",
                    _allocation_table(found, chart),
                    len(chart.arms),
                ),
            ),
        ]
    )


def _places(found: Findings) -> list[int]:
    """Return the indices of the shown actions among all actions."""
    places = {
        tuple(action.labels.values()): place
        for place, action in enumerate(pulled(found.progress.actions))
    }
    return [places[tuple(action.labels.values())] for action in pulled(found.shown.actions)]


def _allocation_caption(found: Findings, total: int) -> str:
    if not total:
        return "No results yet."
    actions = pulled(found.progress.actions)
    most = max(actions, key=lambda action: action.pulls)
    caption = (
        f"Of {plural(total, 'result')}, most came from {found.name(most)}: "
        f"{count(most.pulls)} ({percent(most.pulls / total)})."
    )
    if found.optimal is None:
        return caption
    shares = np.array([action.pulls for action in actions]) / total
    misplaced = 0.5 * float(np.abs(shares - found.optimal).sum())
    return f"{caption} {percent(misplaced)} of all went elsewhere than in the optimal allocation."


def _allocation_table(found: Findings, chart: ShareChart) -> Markup:
    def cell(bar: Bar | None) -> str:
        if bar is None:
            return ""
        text = f"{count(bar.pulls)} ({percent(bar.share)})"
        return text if bar.optimal is None else f"{text} / {percent(bar.optimal)}"

    rows = [
        (label(marked(found.progress, arm)), *(cell(bars[row]) for _, bars in chart.panels))
        for row, arm in enumerate(chart.arms)
    ]
    optimal = ", and after the slash the optimal share" if chart.has_optimal else ""
    panels = [marked(found.progress, name, "group") if name else "all" for name, _ in chart.panels]
    heads = ("Arm", *map(label, panels))
    return table(f"Results and share{optimal}", heads, rows, words={0})
