"""The section on fairness: every floor with the distance from it, or how shares were kept."""

from __future__ import annotations

from collections.abc import Sequence

from fairtrial.core.recommendation import Estimate
from fairtrial.presentation.charts import interval_chart
from fairtrial.presentation.effects import OVERALL, limited
from fairtrial.presentation.limits import Standing, as_estimate, limits_of, standing
from fairtrial.presentation.panels import panels_of
from fairtrial.presentation.shares import shares_of
from fairtrial.presentation.words import count, fixed, label_of, number, plural, shorten
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

__all__ = ["fairness"]

_MOST_LIMITS = 40


def fairness(found: Findings) -> Markup:
    """Return the section."""
    if shares_of(found.progress):
        return section("Fairness", element("p", _shares_kept(found)))
    against = _against_control(found)
    of_measures = _limits_of_measures(found)
    if not found.limited:
        none = element("p", f"No group has a {found.limit}.")
        return section("Fairness", against or of_measures or none)
    panels = panels_of(found.shown)
    chart = interval_chart(found.progress, panels.arms, panels.groups)
    places = places_of(found.limited)
    rows = [_limit_row(found, action, places) for action in found.cut.keep(found.limited)]
    heads = (
        *(str(key).capitalize() for key in found.limited[0].labels),
        "Results",
        "Mean",
        "Lower",
        "Upper",
        found.limit.capitalize(),
        "Distance of mean",
        "Distance of interval",
        "Standing",
    )
    words = {*range(len(found.limited[0].labels)), len(heads) - 1}
    which = f"{found.limit.capitalize()}s" if found.cut.note else f"Every {found.limit}"
    data = table(
        f"{which} with {'their' if found.cut.note else 'its'} distance", heads, rows, words=words
    )
    return section(
        "Fairness",
        charts.figure(
            charts.interval_chart(chart),
            charts.interval_key(chart),
            _fairness_caption(found),
            folded(f"The numbers: {plural(len(rows), found.limit)}", data, len(rows)),
        ),
        against,
        of_measures,
    )


def _limits_of_measures(found: Findings) -> Markup | None:
    """Return every limit of a measure, those overall among them, and how arms stand to it."""
    limits = found.progress.details.get("limits", [])
    if not limits:
        return None
    rows = [
        (
            shorten(str(limit["arm"]), LABEL_LENGTH),
            shorten(str(limit["measure"]), LABEL_LENGTH),
            "overall" if limit["group"] is None else shorten(str(limit["group"]), LABEL_LENGTH),
            limit["kind"],
            number(limit["bound"]),
            number(limit["estimate"]),
            limit["standing"],
        )
        for limit in limits[:_MOST_LIMITS]
    ]
    heads = ("Arm", "Measure", "Group", "Limit", "Bound", "Estimate", "Standing")
    name = "Every limit of a measure" if len(limits) <= _MOST_LIMITS else "Limits of measures"
    return table(name, heads, rows, words={0, 1, 2, 3, 6})


def _against_control(found: Findings) -> Markup | None:
    """Return the limits of differences from the control, and how arms stand to them."""
    effects = limited(found.progress)
    if not effects:
        return None
    shown = effects[:_MOST_LIMITS]
    held = [as_estimate(effect) for effect in shown]
    places = places_of(held)
    rows = [
        (
            label(str(effect.arm)),
            label(OVERALL if effect.group is None else effect.group),
            *(fixed(value, places) for value in (effect.difference, effect.lower, effect.upper)),
            " to ".join(fixed(limit, places) for limit in limits_of(estimate)),
            element("span", standing(estimate, found.named).value),
        )
        for effect, estimate in zip(shown, held, strict=True)
    ]
    heads = ("Arm", "Where", "Difference", "Lower", "Upper", "Limit", "Standing")
    states = [standing(as_estimate(effect), found.named) for effect in effects]
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


def _shares_kept(found: Findings) -> str:
    most = found.progress.details.get("violation")
    promised = "What is guaranteed are the shares above."
    if most is None:
        return promised
    return f"{promised} No arm was ever more than {number(max(most, 0.0))} pulls behind its own."


def _limit_row(found: Findings, action: Estimate, places: int) -> tuple[object, ...]:
    estimated = (action.mean, action.lower, action.upper)
    distances = (found.distance_of(action), found.sure_distance_of(action))
    return (
        *(label(name) for name in action.labels.values()),
        count(action.pulls),
        *(fixed(value, places) for value in estimated),
        " to ".join(fixed(limit, places) for limit in sorted(limits_of(action))),
        *(fixed(value, places) for value in distances),
        element("span", standing(action, found.named).value),
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
            f" Each interval stands by itself, and is wider than what the decision rests on: "
            f"its guarantee covers the {found.limit}s of the answer together."
        )
    return f"{caption} A distance below 0 means that the limit is missed. {found.cut.note}".strip()


def _standings(found: Findings, actions: Sequence[Estimate]) -> list[Standing]:
    return [standing(action, found.named) for action in actions]


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
