"""The section on operating characteristics: error rates, numbers of pulls, who bears the cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fairtrial.core.wording import plural
from fairtrial.presentation.lines import LineChart, effect_chart, stopping_chart
from fairtrial.presentation.words import NOTHING, count, decimals, fixed, number, percent
from fairtrial.report import charts
from fairtrial.report.html import Markup, element, folded, label, section, table
from fairtrial.report.lines import line_chart, line_key
from fairtrial.simulation import Characteristics, OperatingCharacteristics, Proportion, Statistics

__all__ = ["characteristics"]

_MOST_ACTIONS = 24
_MOST_LINES = 8

Curve = Sequence[tuple[float, Characteristics]]


def characteristics(found: OperatingCharacteristics, curve: Curve) -> Markup:
    """Return the section on operating characteristics."""
    return section(
        "Operating characteristics",
        element("h3", "How often it is right, and wrong"),
        _decisions(found),
        element("p", _about_decisions(found)),
        _answers(found),
        element("h3", "How long it takes"),
        _stopping(found),
        _pulls(found),
        *_over_effects(curve),
        element("h3", "Against the best possible, and the usual design"),
        _comparison(found),
        element("p", _ABOUT_COMPARISON),
        element("h3", "Where the pulls go"),
        _allocation(found),
        element("h3", "What the answer's estimated mean is worth"),
        _estimates(found),
        element("p", _ABOUT_ESTIMATES),
    )


_ABOUT_COMPARISON = (
    "The lower bound is the least mean number of pulls of any rule that decides in every run; it "
    "cannot be compared with runs that were cut off. It is for normal rewards: for rewards in a "
    "range it is a yardstick and no bound. The usual design has a size that is fixed in advance: "
    "equal numbers in all cells, one analysis at the end by normal tests with the true variances, "
    "and the same error probability, divided among the tests (Bonferroni). Its size is right for "
    "that scenario only: a study that is planned for one scenario and meets another has the wrong "
    "size. The policy's column is the number of pulls after which that share of the runs had named "
    "a right answer: the most pulls that it must be allowed for the same power."
)

_ABOUT_ESTIMATES = (
    "A study stops when an arm looks good, so the plain mean of the arm that it names is too large "
    "on average: the bias is the mean error, over the runs that named an arm; the root mean square "
    "error is the typical error in one run. The intervals are those of a study's own page."
)


# ------------------------------------------------------------------------ decisions


def _decisions(found: OperatingCharacteristics) -> Markup:
    rows = [
        (
            *_place(row),
            label(row.right_answer),
            _share(row.right),
            _share(row.wrong),
            _share(row.undecided),
        )
        for row in found
    ]
    heads = ("Scenario", "Most pulls", "Right answer", "Right (power)", "Wrong (type I error)")
    title = f"Share of the runs, with {percent(found.level)} intervals"
    return table(title, (*heads, "Undecided"), rows, words={0, 2})


def _about_decisions(found: OperatingCharacteristics) -> str:
    delta = found.policy.delta
    said = (
        "A run is wrong if it named an answer that is not right. Intervals are exact (Clopper and "
        "Pearson) and cover the error of the simulation."
    )
    parts = [said]
    truths = [row.scenario.environment.truth for row in found]
    # If several arms are to be named, arms that are not tied can be wrong too.
    single = [t for t in truths if not isinstance(t.best, tuple) or len(t.best) == 1]
    tied = max((len(truth.interchangeable) for truth in single if truth.tied), default=0)
    if delta is not None:
        parts.append(f"The policy is designed to be wrong with a probability of at most {delta:g}.")
    if delta is not None and tied:
        allowed = number(delta * tied / (tied - 1), 3)
        parts.append(
            "If arms are equal, every run that names one is wrong, which the guarantee allows "
            f"slightly more often: of {tied} equal arms each is excluded with a probability of at "
            f"most {delta:g}, so that one of them is named with a probability of at most {allowed}."
        )
    return " ".join(parts)


def _answers(found: OperatingCharacteristics) -> Markup:
    names = list(found[0].answers)
    rows = [
        (
            *_place(row),
            *(percent(row.answers[name].rate) for name in names),
            percent(row.undecided.rate),
        )
        for row in found
    ]
    heads = ("Scenario", "Most pulls", *map(label, names), "Undecided")
    data = table("Probability of each answer", heads, rows, words={0})
    return folded(f"The probability of each of {plural(len(names), 'answer')}", data, 1000)


# ----------------------------------------------------------------------------- pulls


def _stopping(found: OperatingCharacteristics) -> Markup:
    rows = _last_rows(found)[:_MOST_LINES]
    times = {row.scenario.name: row.pulls_of_runs[row.simulation.decided] for row in rows}
    # Pulls that are made again in place of lost ones come on top of the most pulls.
    most = max(rows[0].max_pulls, *(int(own.max(initial=0)) for own in times.values()))
    chart = stopping_chart(times, found.replications, most)
    shares = [f"{row.scenario.name} {percent(1 - row.undecided.rate)}" for row in rows]
    caption = (
        f"Share of the runs that have decided by a number of pulls. By {count(most)}: "
        f"{', '.join(shares)}."
    )
    marks = [place for place in range(len(chart.lines[0].across)) if place % 10 == 0]
    table_rows = [
        (count(chart.lines[0].across[place]), *(percent(line.up[place]) for line in chart.lines))
        for place in marks
    ]
    heads = ("Pulls", *(label(line.name) for line in chart.lines))
    return _figure(chart, caption, table("Share that has decided", heads, table_rows, words=set()))


def _pulls(found: OperatingCharacteristics) -> Markup:
    rows = [(*_place(row), *_spread(row.pulls)) for row in found]
    heads = ("Scenario", "Most pulls", "Mean", "Standard error", "Median", "5 %", "95 %")
    parts = [table("Pulls until the end of a run", heads, rows, words={0})]
    for title, own in (
        ("Days until the end of a run", [row.days for row in found]),
        ("Time until the end of a run", [row.elapsed for row in found]),
    ):
        if any(own):
            timed = [
                (*_place(row), *_spread(one)) for row, one in zip(found, own, strict=True) if one
            ]
            parts.append(table(title, heads, timed, words={0}))
    return element("div", *parts)


def _spread(found: Statistics) -> tuple[str, ...]:
    low, high = min(found.quantiles), max(found.quantiles)
    values = (found.mean, found.standard_error, found.median)
    return tuple(number(v) for v in (*values, found.quantiles[low], found.quantiles[high]))


def _over_effects(curve: Curve) -> list[Markup]:
    """Return how pulls and answers change with the size of the effect."""
    if len(curve) < 2:
        return []
    effects = [effect for effect, _ in curve]
    pulls = {"mean": [row.pulls.mean for _, row in curve]}
    for probability in curve[0][1].pulls.quantiles:
        name = f"{percent(probability)} quantile"
        pulls[name] = [row.pulls.quantiles[probability] for _, row in curve]
    names = dict.fromkeys(name for _, row in curve for name in row.answers)
    answers = {
        name: [row.answers[name].rate if name in row.answers else 0.0 for _, row in curve]
        for name in names
    }
    largest = sorted(answers, key=lambda name: -max(answers[name]))[: _MOST_LINES - 1]
    shown = {name: answers[name] for name in answers if name in largest}
    shown["undecided"] = [row.undecided.rate for _, row in curve]
    said = "An effect of 1 is as assumed, one of 0 no difference at all."
    return [
        element("h3", "What the size of the effect changes"),
        _figure(
            effect_chart(effects, pulls, "pulls until the end of a run", shares=False),
            f"Pulls until the end, against the size of the effect. {said}",
            _effect_table("Pulls", effects, pulls, number),
        ),
        _figure(
            effect_chart(effects, shown, "probability of each answer", shares=True),
            f"The probability of each answer, against the size of the effect. {said} "
            f"Each point is from {_runs(curve)} runs.",
            _effect_table("Probability", effects, shown, percent),
        ),
    ]


def _runs(curve: Curve) -> str:
    numbers = sorted({row.wrong.runs for _, row in curve})
    return " or ".join(map(count, numbers))


def _effect_table(
    title: str,
    effects: Sequence[float],
    values: Mapping[str, Sequence[float]],
    shown: Callable[[float], str],
) -> Markup:
    rows = [
        (number(effect), *(shown(own[place]) for own in values.values()))
        for place, effect in enumerate(effects)
    ]
    return table(title, ("Effect", *map(label, values)), rows, words=set())


# ------------------------------------------------------------------------ comparison


def _comparison(found: OperatingCharacteristics) -> Markup:
    rows = _last_rows(found)
    powers = sorted({power for row in rows for power in row.fixed_sample})
    heads: list[str] = ["Scenario", "Mean pulls", "Lower bound"]
    for power in powers:
        heads += [f"Policy, {percent(power)}", f"Usual design, {percent(power)}"]
    cells = []
    for row in rows:
        own = [label(row.scenario.name), number(row.pulls.mean), number(row.lower_bound)]
        for power in powers:
            own += [_whole(row.pulls_for(power)), _whole(row.fixed_sample.get(power))]
        cells.append(own)
    return table("Pulls on average, and for a power of 80 or 90 %", heads, cells, words={0})


def _whole(value: int | None) -> str:
    return NOTHING if value is None else count(value)


# ------------------------------------------------------------------------ allocation


def _allocation(found: OperatingCharacteristics) -> Markup:
    rows = _last_rows(found)
    actions = _most_pulled(rows)
    worse = [NOTHING if row.worse_share is None else percent(row.worse_share) for row in rows]
    cells = [
        ("on arms that are worse or not acceptable", *worse),
        *((label(name), *(number(row.by_action[name]) for row in rows)) for name in actions),
    ]
    more = len(rows[0].by_action) - len(actions)
    title = "Mean pulls by arm and group" + (f", the {len(actions)} with the most" if more else "")
    return table(title, ("Pulls", *(label(row.scenario.name) for row in rows)), cells, words={0})


def _most_pulled(rows: Sequence[Characteristics]) -> list[str]:
    """Return the actions with the most pulls in any scenario, in their original order."""
    most = {name: max(row.by_action[name] for row in rows) for name in rows[0].by_action}
    shown = set(sorted(most, key=lambda name: -most[name])[:_MOST_ACTIONS])
    return [name for name in most if name in shown]


def _estimates(found: OperatingCharacteristics) -> Markup:
    errors = [(row.bias, row.rmse, row.effect_bias, row.effect_rmse) for row in found]
    places = decimals((value for row in errors for value in row), 3)
    compared = any(effect_bias is not None for *_, effect_bias, _ in errors)
    rows = [
        (
            *_place(row),
            count(row.estimated),
            fixed(row.bias, places),
            fixed(row.rmse, places),
            *((fixed(row.effect_bias, places), fixed(row.effect_rmse, places)) if compared else ()),
            _share(row.coverage),
        )
        for row in found
    ]
    first = ("Scenario", "Most pulls", "Runs that named an arm", "Bias")
    error, held = "Root mean square error", "Interval holds the true mean"
    of_effect = ("Bias of its difference from the control", f"{error} of that") if compared else ()
    heads = (*first, error, *of_effect, held)
    return table("Estimated mean of the arm that is named", heads, rows, words={0})


# ---------------------------------------------------------------------------- pieces


def _place(row: Characteristics) -> tuple[Markup, str]:
    return label(row.scenario.name), count(row.max_pulls)


def _share(found: Proportion | None) -> str:
    if found is None:
        return NOTHING
    return f"{percent(found.rate)} ({percent(found.lower)} to {percent(found.upper)})"


def _last_rows(found: OperatingCharacteristics) -> list[Characteristics]:
    """Return the row with the most pulls for each scenario."""
    most = max(row.max_pulls for row in found)
    return [row for row in found if row.max_pulls == most]


def _figure(chart: LineChart, caption: str, data: Markup) -> Markup:
    numbers = folded("The numbers", data, 1000)
    return charts.figure(line_chart(chart), line_key(chart), caption, numbers)
