"""The section on fairness: each limit with the distance from it, or how shares were kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fairtrial.core.recommendation import Estimate
from fairtrial.presentation.alternatives import strength
from fairtrial.presentation.bounds import (
    bounded_values,
    explanation_of_bounds,
    meaning_of_bounds,
    title_of_bounds,
)
from fairtrial.presentation.charts import IntervalChart, interval_chart
from fairtrial.presentation.closed import marked, marked_labels
from fairtrial.presentation.counted import (
    MEAN_OF_ALL,
    counted_note,
    gives_mean_of_all,
    intervals_note,
    name_of_mean,
    some_do_not_count,
)
from fairtrial.presentation.cuts import cut_of_arms
from fairtrial.presentation.effects import OVERALL, limited
from fairtrial.presentation.guardrails import (
    EVIDENCE,
    TITLE,
    TITLE_BESIDE,
    Guardrail,
    by_reference,
    guardrails,
    places_of_measures,
)
from fairtrial.presentation.limits import Standing, Standings, as_estimate, limits_of
from fairtrial.presentation.panels import panels_of
from fairtrial.presentation.shares import (
    BEHIND,
    carried_note,
    largest_shortfall,
    pulls_in,
    shares_of,
    shown_shares,
)
from fairtrial.presentation.sources import arm_of
from fairtrial.presentation.words import (
    NOTHING,
    count,
    decimals,
    fixed,
    label_of,
    number,
    percent,
    plural,
    shorten,
)
from fairtrial.report import charts
from fairtrial.report.findings import Findings, places_of
from fairtrial.report.html import (
    LABEL_LENGTH,
    Markup,
    element,
    folded,
    label,
    section,
    table,
    text_of,
)
from fairtrial.report.over_time import (
    behind_over_time,
    bounds_over_time,
    distances_over_time,
    measures_over_time,
)

__all__ = ["fairness"]

_MOST_LIMITS = 40
_NO_LIMITS = "This study sets no limit for any group, so nothing has to be kept here."


def fairness(found: Findings) -> Markup:
    """Return the section on fairness."""
    if shares_of(found.progress):
        kept = element("p", _shares_kept(found))
        return section("Fairness", kept, _shares_table(found), behind_over_time(found))
    parts = (
        _against_control(found),
        _further(found),
        _limits_of_measures(found),
        measures_over_time(found),
        _bounds(found),
        bounds_over_time(found),
    )
    others = text_of([part for part in parts if part])
    if not found.limited:
        return section("Fairness", others or element("p", _NO_LIMITS))
    cut = found.cut_of_limited
    rows = cut.keep(found.limited)
    chart = _chart(found)
    which = f"{found.limit.capitalize()}s" if cut.note else f"Every {found.limit}"
    title = f"{which} with {'their' if cut.note else 'its'} distance"
    data = _limits_table(found, title, rows, found.limit)
    return section(
        "Fairness",
        charts.figure(
            charts.interval_chart(chart),
            charts.interval_key(chart),
            _fairness_caption(found),
            folded(f"The numbers: {plural(len(rows), found.limit)}", data, len(rows)),
        ),
        distances_over_time(found),
        others,
    )


def _chart(found: Findings) -> IntervalChart:
    """Return the chart of the means that have limits: of actions or of answers."""
    if found.limits_answers:
        shown = found.cut_of_limited.keep(found.progress.arms)
        arms = [arm_of(arm.labels) for arm in shown]
        return interval_chart(found.progress, arms, [("mean", list(shown))])
    panels = panels_of(found.shown)
    return interval_chart(found.progress, panels.arms, panels.groups)


def _limits_table(found: Findings, title: str, estimates: Sequence[Estimate], limit: str) -> Markup:
    """Return a table of estimates with their limits and their distances from them."""
    of_measure: dict[object, list[Estimate]] = {}
    for one in estimates:
        of_measure.setdefault(one.labels.get("measure"), []).append(one)
    # Measures have different units.
    places = {measure: places_of(own) for measure, own in of_measure.items()}
    labels = [str(key).capitalize() for key in estimates[0].labels]
    # Answers that cannot be pulled have no results.
    pulled, waiting = any(one.pulls for one in estimates), some_do_not_count(estimates)
    of_all = gives_mean_of_all(estimates)
    heads = (
        *labels,
        *["Results"] * pulled,
        *[MEAN_OF_ALL.capitalize()] * of_all,
        *["Counted"] * waiting,
        name_of_mean(estimates).capitalize(),
        "Lower",
        "Upper",
        limit.capitalize(),
        "Distance of mean",
        "Distance of interval",
        "Standing",
    )
    rows = [
        _limit_row(found, one, places[one.labels.get("measure")], pulled, of_all, waiting)
        for one in estimates
    ]
    return table(title, heads, rows, words={*range(len(labels)), len(heads) - 1})


def _further(found: Findings) -> Markup | None:
    """Return the limits on further predictions of the arms, and whether they are met."""
    limited = found.progress.limited
    shown = cut_of_arms(found.progress, found.minimize).keep(limited)[:_MOST_LIMITS]
    if not shown:
        return None
    hidden = len(limited) - len(shown)
    note = f" {count(hidden)} more are not shown." if hidden else ""
    tally = _tally(_standings(found, limited))
    return text_of(
        [
            element("h3", "Limits on other predictions"),
            element("p", f"{plural(len(limited), 'limit')}: {tally}.{note}"),
            _limits_table(found, "Further limits", shown, "bound"),
        ]
    )


def _limits_of_measures(found: Findings) -> Markup | None:
    """Return each limit of a measure, including overall ones, and whether arms meet it."""
    limits = guardrails(found.progress, found.minimize)
    if not limits:
        return None
    kinds = by_reference(limits)
    return text_of([_limits_of_a_kind(found, title, of, own) for title, of, own in kinds])


_CAPTIONS = {
    TITLE: "Every limit of a measure",
    TITLE_BESIDE: "Every limit of a measure against the control",
}


def _limits_of_a_kind(found: Findings, title: str, of: str, limits: Sequence[Guardrail]) -> Markup:
    """Return limits of measures on one kind of quantity, with a title."""
    places = places_of_measures(limits)
    has_evidence = any(one.log_wealth is not None for one in limits)
    rows = [
        (
            label(marked(found.progress, one.arm)),
            label(one.measure),
            label(marked(found.progress, one.where, "group")),
            fixed(one.estimate, places[one.measure]),
            one.limit(partial(fixed, places=places[one.measure])),
            *([NOTHING if one.log_wealth is None else strength(one.log_wealth)] * has_evidence),
            element("span", one.standing.value),
        )
        for one in limits[:_MOST_LIMITS]
    ]
    evidence = ["Evidence that it is kept"] if has_evidence else []
    heads = ("Arm", "Measure", "Where", of.capitalize(), "Limit", *evidence, "Standing")
    hidden = len(limits) - len(rows)
    note = f" {count(hidden)} more are not shown." if hidden else ""
    tally = _tally([one.standing for one in limits])
    return text_of(
        [
            element("h3", title),
            element("p", f"{plural(len(limits), 'limit')}: {tally}.{note}"),
            element("p", EVIDENCE) if has_evidence else Markup(""),
            table(_CAPTIONS[title], heads, rows, words={0, 1, 2, 4, len(heads) - 1}),
        ]
    )


def _against_control(found: Findings) -> Markup | None:
    """Return the limits on differences from the control, and whether arms meet them."""
    effects = limited(found.progress)
    if not effects:
        return None
    shown = effects[:_MOST_LIMITS]
    held = [as_estimate(effect) for effect in shown]
    places, standings = places_of(held), Standings.by(found.progress)
    rows = [
        (
            label(marked(found.progress, effect.arm)),
            label(
                OVERALL if effect.group is None else marked(found.progress, effect.group, "group")
            ),
            *(fixed(value, places) for value in (effect.difference, effect.lower, effect.upper)),
            " to ".join(fixed(limit, places) for limit in limits_of(estimate)),
            element("span", standings.of_effect(effect).value),
        )
        for effect, estimate in zip(shown, held, strict=True)
    ]
    heads = ("Arm", "Where", "Difference", "Lower", "Upper", "Limit", "Standing")
    states = [standings.of_effect(effect) for effect in effects]
    hidden = len(effects) - len(shown)
    note = f" {count(hidden)} more are not shown." if hidden else ""
    reference = shorten(str(effects[0].reference), LABEL_LENGTH)
    return text_of(
        [
            element("h3", "Limits against ", label(str(effects[0].reference))),
            element("p", f"{plural(len(effects), 'limit')}: {_tally(states)}.{note}"),
            table(f"Differences from {reference}", heads, rows, words={0, 1, len(heads) - 1}),
        ]
    )


def _bounds(found: Findings) -> Markup | None:
    """Return the values that must stay below a bound, and whether they do."""
    values = bounded_values(found.progress, found.minimize)
    if not values:
        return None
    places = decimals([*(one.value for one in values), values[0].bound], 3)
    explained = explanation_of_bounds(values)
    rows = [
        (
            label(marked(found.progress, one.arm)),
            label(one.of),
            fixed(one.value, places),
            *([NOTHING if one.log_wealth is None else strength(one.log_wealth)] * bool(explained)),
            element("span", one.standing.value),
        )
        for one in values[:_MOST_LIMITS]
    ]
    evidence = ["Evidence that it is kept"] if explained else []
    heads = ("Arm", "Of", values[0].kind.capitalize(), *evidence, "Standing")
    hidden = len(values) - len(rows)
    note = f" {count(hidden)} more are not shown." if hidden else ""
    states = [one.standing for one in values]
    return text_of(
        [
            element("h3", title_of_bounds(values)),
            element("p", f"{plural(len(values), 'limit')}: {_tally(states)}.{note}"),
            element("p", f"{meaning_of_bounds(values)} {explained}".strip()),
            table(f"{values[0].kind.capitalize()}s", heads, rows, words={0, 1, len(heads) - 1}),
        ]
    )


def _shares_kept(found: Findings) -> str:
    promised = "Every arm is guaranteed its share of the pulls; the table lists them."
    return f"{promised} {largest_shortfall(found.progress)}".strip()


def _shares_table(found: Findings) -> Markup:
    """Return a table of shares of the pulls next to what is owed."""
    shares = shares_of(found.progress)
    shown, note = shown_shares(shares)
    rows = [
        (
            label(one.arm),
            count(one.pulls),
            *(percent(value, places=1) for value in (one.share, one.quota, one.owed)),
            number(one.behind),
        )
        for one in shown
    ]
    heads = ("Arm", "Pulls", "Share", "Guaranteed", "Owed by now", "Pulls behind")
    total = plural(pulls_in(shares), "pull")
    said = [
        BEHIND,
        carried_note(shares),
        note,
    ]
    return text_of(
        [
            element("h3", "Shares of the pulls"),
            table(f"Shares of {total}, against what is owed", heads, rows, words={0}),
            element("p", " ".join(filter(None, said))),
        ]
    )


def _limit_row(
    found: Findings, action: Estimate, places: int, pulled: bool, of_all: bool, waiting: bool
) -> tuple[object, ...]:
    estimated = (action.mean, action.lower, action.upper)
    distances = (found.distance_of(action), found.sure_distance_of(action))
    return (
        *map(label, marked_labels(found.progress, action.labels)),
        *[count(action.pulls)] * pulled,
        *[fixed(action.mean_of_all, places)] * of_all,
        *[count(action.pulls if action.counted is None else action.counted)] * waiting,
        *(fixed(value, places) for value in estimated),
        " to ".join(fixed(limit, places) for limit in sorted(limits_of(action))),
        *(fixed(value, places) for value in distances),
        element("span", Standings.by(found.progress).of(action).value),
    )


def _fairness_caption(found: Findings) -> str:
    everything = _tally(_standings(found, found.limited))
    own = [action for action in found.limited if str(action.labels.get("arm")) in found.best]
    caption = f"{plural(len(found.limited), found.limit)}: {everything}."
    if own:
        best = shorten(label_of(tuple(sorted(found.best))), LABEL_LENGTH)
        caption += f" Of {best}: {_tally(_standings(found, own))}."
    if found.progress.recommendation.decided and own:
        caption += (
            f" Each interval is valid on its own, and wider than the decision needs: "
            f"the guarantee covers the {found.limit}s of the answer together."
        )
    below = "A distance below 0 means that the limit is missed."
    notes = (
        found.cut_of_limited.note,
        counted_note(found.progress),
        intervals_note(found.progress),
    )
    return " ".join(filter(None, (caption, below, *notes)))


def _standings(found: Findings, actions: Sequence[Estimate]) -> list[Standing]:
    return list(map(Standings.by(found.progress).of, actions))


def _tally(states: Sequence[Standing]) -> str:
    parts = [
        (states.count(state), state.value)
        for state in (
            Standing.KEPT,
            Standing.DECIDED,
            Standing.LIKELY_KEPT,
            Standing.LIKELY_BROKEN,
            Standing.BROKEN,
            Standing.UNKNOWN,
        )
    ]
    return ", ".join(f"{number_of} {what}" for number_of, what in parts if number_of)
