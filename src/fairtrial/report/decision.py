"""The section on the decision: answer, guarantee, what would change it, evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fairtrial.core.noted import problems_of_table
from fairtrial.core.recommendation import Progress, Recommendation
from fairtrial.presentation.alternatives import (
    Alternative,
    candidates_sentence,
    e_value,
    evidence_level,
    explanation,
    ruling,
    rulings,
    still_missing,
    strength,
)
from fairtrial.presentation.alternatives import needed as level_of
from fairtrial.presentation.charts import evidence_chart
from fairtrial.presentation.cuts import shown_alternatives
from fairtrial.presentation.limits import finite, limits_of
from fairtrial.presentation.panels import certain_distance
from fairtrial.presentation.sources import answered, lead_periods, regular_moments
from fairtrial.presentation.words import (
    because,
    count,
    decimals,
    decisions_in_words,
    fixed,
    headline,
    number,
    plural,
    results_that_count,
    shorten,
    support,
)
from fairtrial.report import charts
from fairtrial.report.findings import Findings
from fairtrial.report.html import (
    LABEL_LENGTH,
    Markup,
    bdi,
    bullets,
    element,
    folded,
    label,
    section,
    table,
    text_of,
)
from fairtrial.report.statements import guarantee_in_words

__all__ = ["decision", "verdict", "verdict_of"]

_MOMENTS_LISTED = 24
_MOST_LEADERS = 6


def decision(found: Findings, facts: Mapping[str, object]) -> Markup:
    """Return the section on the decision."""
    rows = [(name, bdi(value)) for name, value in facts.items()]
    return section(
        "Decision",
        verdict_of(found.progress, endless=found.endless),
        _doubt_about_table(found.study.notes),
        table("Facts", ("Fact", "Value"), rows) if rows else None,
        *_missing(found),
        None if found.endless else _evidence(found),
        _against_others(found),
        element("h3", "Guarantee"),
        *guarantee_in_words(found.progress.recommendation.guarantee),
        element("h3", "What would change this answer"),
        bullets(_what_would_change_it(found)),
    )


def _doubt_about_table(notes: Mapping[str, str]) -> Markup | None:
    """Return which checks of a finished experiment's table found problems."""
    topics = ", ".join(problems_of_table(notes))
    if not topics:
        return None
    said = f"Checks of the table found problems: {topics}. Read them under Health before you use "
    return element("p", element("strong", f"{said}this result."), class_="warning")


def verdict_of(progress: Progress, *, endless: bool) -> Markup:
    """Return the answer, what is promised of it, and how many results it has."""
    recommendation = progress.recommendation
    said = (
        support(progress, endless),
        because(recommendation),
        decisions_in_words(recommendation),
        candidates_sentence(progress),
        f"Received: {results_that_count(progress)}.",
    )
    return verdict(recommendation, said, endless=endless)


def verdict(
    recommendation: Recommendation, said: Iterable[str], *, endless: bool = False
) -> Markup:
    """Return the answer in a few words, with sentences about it."""
    return element(
        "div",
        element("p", headline(recommendation, endless), class_="answer"),
        *(element("p", sentence) for sentence in said if sentence),
        class_="verdict" if recommendation.decided else "verdict open",
    )


def _missing(found: Findings) -> list[Markup]:
    """Return what a running study still needs before it can decide."""
    if found.progress.recommendation.status != "running" or found.endless:
        return []
    return [element("h3", "What is still missing"), bullets(still_missing(found.progress))]


def _what_would_change_it(found: Findings) -> list[str]:
    progress = found.progress
    correction = "A correction of a result could: the whole log is then replayed with it."
    if progress.recommendation.decided:
        points = [_said_of_more_results(progress), correction]
    elif progress.recommendation.status == "undecided":
        points = [_said_of_losses(progress) or _said_of_what_is_open(progress), correction]
    elif found.endless:
        points = ["It never stops: serving continues, and follows the results."]
    else:
        undecided = "More results: the study has not decided yet."
        points = [_said_of_losses(progress) or undecided, correction]
    if progress.recommendation.guarantee and progress.recommendation.guarantee.assumptions:
        points.append("An assumption of the guarantee that does not hold.")
    return points + _closest_calls(found)


def _said_of_losses(progress: Progress) -> str:
    """Return that more results alone decide nothing, if too many are lost for that; else ""."""
    if progress.losses is None or not progress.losses.too_many_to_decide:
        return ""
    return "Fewer lost results: while so many are lost, more results cannot decide."


def _said_of_what_is_open(progress: Progress) -> str:
    """Return what results may still decide a study that has stopped undecided."""
    if progress.assigned is not None:
        return "Perhaps more results: the policy stopped before it could decide."
    if not progress.outstanding:
        return "No more results: the study has stopped undecided, and asks for no more."
    results = plural(progress.outstanding, "result")
    verb = "is" if progress.outstanding == 1 else "are"
    return f"Perhaps the {results} that {verb} still open: the study asks for no more."


def _said_of_more_results(progress: Progress) -> str:
    """Return that the answer stands, whatever comes after it."""
    if progress.assigned is None:
        return "More results will not change this answer: the study has stopped."
    used, rest = count(progress.asked), progress.assigned - progress.asked
    if not rest:
        return "All units of the experiment were used; others would be a new experiment."
    return f"Not the units after the first {used}: the answer was found before them."


def _closest_calls(found: Findings) -> list[str]:
    own = [
        action
        for action in found.limited
        if str(action.labels.get("arm")) in found.best and found.distance_of(action) is not None
    ]
    if not own:
        return []
    # Measures have different units, so distances are compared in widths of intervals.
    measured = "measure" in own[0].labels
    distance = certain_distance if measured else found.distance_of
    action = min(own, key=lambda one: distance(one) or 0.0)
    margin = found.distance_of(action) or 0.0
    mean = action.mean or 0.0
    nearest = min(limits_of(action), key=lambda limit: abs(mean - limit))
    side = "above" if mean >= nearest else "below"
    where = f"the mean {number(mean)} is {number(abs(margin), 3)} {side} it"
    who = found.name(action)
    return [f"Its narrowest {found.limit}, {number(nearest)}, is that of {who}: {where}."]


def _evidence(found: Findings) -> Markup:
    whole = evidence_chart(found.trace)
    chart = found.zoomed(whole)
    led = _who_led(found.trace)
    caption = f"{_standing_of_evidence(found.progress)} {led}"
    if whole.is_empty and not any(whole.threshold):
        said = f"This policy reports no strength of evidence. {led}"
        return text_of([element("h3", "Evidence"), element("p", said)])
    moments = _some(_within(found.trace, chart.span))
    places = decimals(v for one in moments for v in (one.evidence, one.threshold))

    def shown(value: float | None) -> str:
        if chart.in_e_values and value is not None:
            return strength(value)
        return fixed(value, places)

    def evidence(moment: Progress) -> str:
        gained, needed = moment.evidence, moment.threshold
        # The least of several e-values is not kept once all of them have reached what is needed.
        enough = gained is not None and needed is not None and gained >= needed
        return shown(gained) + (" or more" if chart.in_e_values and enough else "")

    rows = [
        (
            count(moment.told),
            evidence(moment),
            shown(moment.threshold),
            label(", ".join(sorted(answered(moment.recommendation))) or "no arm"),
        )
        for moment in moments
    ]
    data = table(
        "Evidence over time", ("Results", "Evidence", "Threshold", "Leader"), rows, words={3}
    )
    return text_of(
        [
            element("h3", "Evidence"),
            charts.figure(
                charts.evidence_chart(chart),
                charts.evidence_key(chart),
                found.of_results(caption),
                folded(f"The numbers: {plural(len(rows), 'moment')}", data, 1000),
                found.controls("evidence"),
            ),
        ]
    )


def _who_led(trace: Sequence[Progress]) -> str:
    """Return who led from when on, and at which moments this was looked at."""
    moments, stride = regular_moments(trace)
    begin = next((moment.told for moment in moments if moment.told), 0)
    led = [
        f"{shorten(one.leader, LABEL_LENGTH)} from {count(one.start or begin)}"
        for one in lead_periods(moments)
    ]
    sampled = f", looked at every {count(stride)} results and at the end" if stride > 1 else ""
    return f"Who led{sampled}: {_in_turn(led)}."


def _in_turn(led: Sequence[str]) -> str:
    # One moment can have several leaders, separated by commas.
    if len(led) <= _MOST_LEADERS:
        return "; ".join(led) or "nobody yet"
    # The last one leads at present.
    hidden = len(led) - _MOST_LEADERS
    first = "; ".join(led[: _MOST_LEADERS - 1])
    return f"{first}; {count(hidden)} more; {led[-1]}"


def _standing_of_evidence(progress: Progress) -> str:
    gained, needed = finite(progress.evidence), finite(progress.threshold)
    after = f"after {plural(progress.told, 'result')}"
    if gained is None and progress.recommendation.decided:
        return "The study has decided, so its evidence is not computed any more."
    if gained is None:
        return f"No evidence is reported {after}."
    places = decimals([gained, needed], 3)
    if progress.recommendation.decided and evidence_level(progress) is not None:
        return (
            f"The strength of evidence against every other answer has reached "
            f"{strength(needed or 0.0)}."
        )
    if evidence_level(progress) is not None:
        level = strength(needed or 0.0)
        return (
            f"Strength of evidence against the last rival: {strength(gained)} "
            f"({level} or more rules it out) {after}."
        )
    against = "" if needed is None else f" against a threshold of {fixed(needed, places)}"
    return f"Evidence for the leader: {fixed(gained, places)}{against} {after}."


def _against_others(found: Findings) -> Markup | None:
    """Return the evidence against each possible answer, if the policy measures it."""
    progress = found.progress
    shown, note = shown_alternatives(progress, found.minimize)
    if not shown:
        return None
    level, when = level_of(progress), rulings(found.trace)
    rows = [_against(one, level, when.get(one.answer, "")) for one in shown]
    heads: tuple[str, ...] = ("Answer", "Standing")
    if level is not None:
        most = strength(level)
        heads = "Answer", f"Evidence against it ({most} or more rules it out)", "Standing"
    data = table("Evidence against each answer", heads, rows, words={0, len(heads) - 1})
    said = " ".join(filter(None, [explanation(progress), note]))
    return text_of(
        [
            element("h3", "Why not another answer"),
            folded(f"The numbers: {plural(len(rows), 'answer')}", data, len(rows)),
            element("p", said) if said else None,
        ]
    )


def _against(one: Alternative, level: float | None, when: str) -> tuple[object, ...]:
    standing = element("span", ruling(one, when))
    if level is None:
        return label(one.answer), standing
    return label(one.answer), e_value(one, level), standing


def _within(trace: Sequence[Progress], span: tuple[int, int]) -> list[Progress]:
    """Return the moments in the range; if there are none, the last one before its end."""
    shown = [moment for moment in trace if span[0] <= moment.told <= span[1]]
    return shown or [moment for moment in trace if moment.told <= span[1]][-1:]


def _some(trace: Sequence[Progress]) -> list[Progress]:
    chosen = np.linspace(0, len(trace) - 1, min(_MOMENTS_LISTED, len(trace))).round()
    return [trace[int(index)] for index in chosen]
