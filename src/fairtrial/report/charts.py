"""Charts of a page, with positions in per cent: they fit any width, and text keeps its size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from fairtrial.presentation.alternatives import strength
from fairtrial.presentation.charts import (
    Bar,
    EvidenceChart,
    Interval,
    IntervalChart,
    ShareChart,
    e_value_ticks,
)
from fairtrial.presentation.limits import Standing
from fairtrial.presentation.sources import LeadPeriod
from fairtrial.presentation.words import fixed, number, percent, plural, shorten
from fairtrial.report.html import LABEL_LENGTH, Markup, element, label, text_of

__all__ = [
    "bar_chart",
    "bar_key",
    "counts_chart",
    "counts_key",
    "evidence_chart",
    "evidence_key",
    "figure",
    "interval_chart",
    "interval_key",
    "levels",
    "nice_ticks",
    "tick_texts",
    "whole_ticks",
]

Span = tuple[float, float]

_LETTER = 0.0085
"""Width of a letter as a share of the width of a wide chart."""
_NARROW = 3.0
"""How many times wider a letter is on a phone, as a share."""

_CIRCLE = "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z"
_CROSS = "M-5,-3L-3,-5L0,-2L3,-5L5,-3L2,0L5,3L3,5L0,2L-3,5L-5,3L-2,0z"
_SQUARE = "M-4,-4h8v8h-8z"
_DIAMOND = "M0,-5L5,0L0,5L-5,0z"
_MARKS = {
    Standing.FREE: (_DIAMOND, "good"),
    Standing.KEPT: (_CIRCLE, "good"),
    Standing.DECIDED: (_SQUARE, "good"),
    Standing.LIKELY_KEPT: (_CIRCLE, "good open"),
    Standing.LIKELY_BROKEN: (_CROSS, "bad open"),
    Standing.BROKEN: (_CROSS, "bad"),
}


def figure(
    chart: Markup,
    key: Sequence[Markup],
    caption: str,
    data: Markup,
    controls: Markup | None = None,
) -> Markup:
    """Return a figure: chart with alternative text, key, caption and data table.

    On an interactive page, its controls come first.
    """
    return element(
        "figure",
        controls,
        element("div", chart, role="img", aria_label=caption),
        element("ul", *(element("li", item) for item in key), class_="key") if key else None,
        element("figcaption", caption),
        data,
    )


# ------------------------------------------------------------------------ intervals


def interval_chart(chart: IntervalChart) -> Markup:
    """Return a chart of means with intervals and limits: a panel per group, a row per arm."""
    drawn = []
    for (title, intervals), span in zip(chart.panels, chart.axes, strict=True):
        ticks = nice_ticks(*span)
        rows = [
            _row(arm, _track(_interval(one, span), ticks, span), arm in chart.best)
            for arm, one in zip(chart.arms, intervals, strict=True)
        ]
        drawn.append(_panel(title, rows, _axis([number(tick) for tick in ticks], ticks, span)))
    return element("div", *drawn, class_="panels")


def interval_key(chart: IntervalChart) -> list[Markup]:
    """Return the key of an interval chart."""
    items = [_key_item(_mark("50%", state), meaning) for state, meaning in chart.marks]
    if chart.interval:
        bar = element("line", x1="0", x2="100%", y1="50%", y2="50%", class_="interval")
        items.append(_key_item(bar, chart.interval))
    if chart.limit:
        items.append(_key_item(_upright("50%", "limit"), chart.limit))
    return items


def _interval(one: Interval | None, span: Span) -> Markup:
    if one is None:
        return Markup("")
    parts = [] if one.ends is None else [_whisker(one.ends, span)]
    parts += [_upright(_place(limit, span), "limit") for limit in one.limits]
    if one.mean is None:
        parts.append(element("text", "no result", x="100%", y="50%", dy=".35em", class_="end"))
    else:
        parts.append(_mark(_place(one.mean, span), one.standing))
    return text_of(parts)


def _whisker(ends: Span, span: Span) -> Markup:
    at = {"x1": _place(ends[0], span), "x2": _place(ends[1], span)}
    parts = [element("line", y1="50%", y2="50%", class_="interval", **at)]
    if ends[0] == span[0]:
        parts.append(_shape("0%", "M-6,0L1,-4L1,4z", "good"))
    if ends[1] == span[1]:
        parts.append(_shape("100%", "M6,0L-1,-4L-1,4z", "good"))
    return text_of(parts)


# ----------------------------------------------------------------------------- bars


def bar_chart(chart: ShareChart) -> Markup:
    """Return a chart of shares as bars, with ticks at the optimal shares."""
    span = (0.0, 1.04 * chart.most)
    ticks = nice_ticks(*span)
    drawn = []
    for title, bars in chart.panels:
        rows = [
            _row(
                arm,
                _track(_bar(bar, span), ticks, span),
                value="" if bar is None else percent(bar.share),
            )
            for arm, bar in zip(chart.arms, bars, strict=True)
        ]
        axis = _axis([percent(tick) for tick in ticks], ticks, span)
        drawn.append(_panel(title or "all results", rows, axis, class_="panel valued"))
    return element("div", *drawn, class_="panels")


def counts_chart(counts: Sequence[tuple[str, int]]) -> Markup:
    """Return a chart of numbers as bars, one per name."""
    span = (0.0, 1.04 * max(number_of for _, number_of in counts))
    ticks = [tick for tick in nice_ticks(*span) if tick.is_integer()]
    rows = [
        _row(
            name,
            _track(_bar(Bar(number_of, float(number_of), None), span), ticks, span),
            value=number(float(number_of)),
        )
        for name, number_of in counts
    ]
    axis = _axis([number(tick) for tick in ticks], ticks, span)
    return element("div", _panel("results", rows, axis, class_="panel valued"), class_="panels")


def counts_key(meaning: str) -> list[Markup]:
    """Return the key of a chart of numbers."""
    return [_key_item(_whole_bar(), meaning)]


def bar_key(chart: ShareChart) -> list[Markup]:
    """Return the key of a chart of shares."""
    items = [_key_item(_whole_bar(), f"share of {plural(chart.total, 'result')}")]
    if chart.has_optimal:
        items.append(_key_item(_upright("50%", "limit"), "optimal share"))
    return items


def _whole_bar() -> Markup:
    return element("rect", x="0", y="20%", width="100%", height="60%", class_="bar")


def _bar(bar: Bar | None, span: Span) -> Markup:
    if bar is None:
        return Markup("")
    width = _place(bar.share, span)
    drawn = element("rect", x="0", y="18%", width=width, height="64%", class_="bar")
    tick = None if bar.optimal is None else _upright(_place(bar.optimal, span), "limit")
    return text_of([drawn, tick])


# ------------------------------------------------------------------------- evidence


def evidence_chart(chart: EvidenceChart) -> Markup:
    """Return a chart of evidence and threshold by results, with a strip of the leaders."""
    (low, high), across = chart.height, (float(chart.span[0]), float(chart.span[1]))
    up = (low, high + 0.08 * (high - low or 1.0))
    plot = element(
        "svg",
        *(_level(tick, up) for tick, _ in _levels_of(chart, up)),
        *(_upright(_place(period.start, across), "change") for period in chart.lead_periods[1:]),
        element(
            "svg",
            _path(chart.told, chart.threshold, across, up, "threshold"),
            _path(chart.told, chart.evidence, across, up, "evidence"),
            viewBox="0 0 1000 1000",
            preserveAspectRatio="none",
            width="100%",
            height="100%",
            class_="curves",
        ),
        class_="plot",
    )
    ticks = whole_ticks(across)
    return element(
        "div",
        levels([(_from_top(tick, up), name) for tick, name in _levels_of(chart, up)]),
        plot,
        element("div", "leader", class_="beside"),
        _strip(chart.lead_periods, across),
        element("div", "results", class_="beside"),
        _axis([number(tick) for tick in ticks], ticks, across),
        class_="timeline",
    )


def evidence_key(chart: EvidenceChart) -> list[Markup]:
    """Return the key of a chart of evidence."""
    flat = {"x1": "0", "x2": "100%", "y1": "50%", "y2": "50%"}
    what = "evidence for the leader", "threshold that stops the policy"
    if chart.in_e_values:
        level = next(value for value in reversed(chart.threshold) if value is not None)
        ruled_out = f"ruled out at {strength(level)}"
        what = "strength of evidence against the last rival", ruled_out
    items = [
        _key_item(element("line", class_="evidence", **flat), what[0]),
        _key_item(element("line", class_="threshold", **flat), what[1]),
    ]
    if len(chart.lead_periods) > 1:
        items.append(_key_item(_upright("50%", "change"), "change of the leader"))
    return items


def _level(tick: float, up: Span) -> Markup:
    at = _from_top(tick, up)
    return element("line", x1="0", x2="100%", y1=at, y2=at, class_="rule")


def levels(named: Iterable[tuple[str, str]]) -> Markup:
    """Return the names of levels beside a plot, each at its height in per cent."""
    texts = [element("text", name, x="100%", y=height, dy=".35em") for height, name in named]
    return element("svg", *texts, class_="levels")


def _levels_of(chart: EvidenceChart, up: Span) -> list[tuple[float, str]]:
    if chart.in_e_values:
        return e_value_ticks(*up)
    ticks = nice_ticks(*up, about=4)
    return list(zip(ticks, tick_texts(ticks), strict=True))


def _from_top(value: float, up: Span) -> str:
    return _place(up[0] + up[1] - value, up)


def _path(
    told: Sequence[int], values: Sequence[float | None], across: Span, up: Span, class_: str
) -> Markup:
    steps, pen = [], "M"
    for x, y in zip(told, values, strict=True):
        if y is None:
            pen = "M"
            continue
        right = 1000 * (x - across[0]) / (across[1] - across[0])
        down = 1000 * (up[1] - y) / (up[1] - up[0])
        steps.append(f"{pen}{right:.1f},{down:.1f}")
        pen = "L"
    return element("path", d="".join(steps), class_=class_, vector_effect="non-scaling-stroke")


def _strip(lead_periods: Sequence[LeadPeriod], across: Span) -> Markup:
    return element("svg", *(_period(one, across) for one in lead_periods), class_="strip")


def _period(period: LeadPeriod, across: Span) -> Markup:
    share, name = (period.end - period.start) / (across[1] - across[0]), period.leader
    needed = _LETTER * (len(shorten(name, LABEL_LENGTH)) + 1.5)
    class_ = None if share >= _NARROW * needed else "wide-only"
    return element(
        "svg",
        element("title", period.leader),
        element("rect", x="0", y="0", width="100%", height="100%"),
        element("text", shorten(name, LABEL_LENGTH), x=".3em", y="50%", dy=".35em", class_=class_)
        if share >= needed
        else None,
        x=_place(period.start, across),
        width=_place(across[0] + period.end - period.start, across),
        height="100%",
        class_="period",
    )


# --------------------------------------------------------------------------- pieces


def nice_ticks(low: float, high: float, about: int = 3) -> list[float]:
    """Return about `about` round numbers in [low, high].

    Examples
    --------
    >>> nice_ticks(0, 1322)
    [0.0, 500.0, 1000.0]
    """
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def whole_ticks(span: Span) -> list[float]:
    """Return round integers in a span.

    Examples
    --------
    >>> whole_ticks((3.0, 5.0))
    [3.0, 4.0, 5.0]
    """
    return [tick for tick in nice_ticks(*span, about=4) if tick.is_integer()]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Return the texts of ticks, with as many decimals as needed to tell them apart.

    Examples
    --------
    >>> tick_texts([0.0, 0.5]), tick_texts([0.30001, 0.30002]), tick_texts([1500.25, 1500.5])
    (['0', '0.5'], ['0.30001', '0.30002'], ['1,500.25', '1,500.50'])
    """
    texts = [number(tick) for tick in ticks]
    if len(set(texts)) == len(texts):
        return texts
    step = min(abs(later - earlier) for earlier, later in pairwise(ticks))
    # The decimals of the step: 0.25 has two, 0.2 one.
    places = next((n for n in range(16) if abs(step * 10**n - round(step * 10**n)) < 1e-6), 16)
    return [fixed(tick, places) for tick in ticks]


def _panel(title: str, rows: Sequence[Markup], axis: Markup, class_: str = "panel") -> Markup:
    head = element("p", label(title), class_="title")
    foot = element("div", element("span"), axis, class_="row foot")
    return element("div", head, *rows, foot, class_=class_)


def _row(arm: str, track: Markup, best: bool = False, value: str | None = None) -> Markup:
    name = element("span", label(arm), class_="name")
    shown = None if value is None else element("span", value, class_="value")
    return element("div", name, track, shown, class_="row best" if best else "row")


def _track(content: Markup, ticks: Sequence[float], span: Span) -> Markup:
    rules = [_upright(_place(tick, span), "rule") for tick in ticks]
    return element("svg", *rules, content, class_="track")


def _axis(texts: Sequence[str], ticks: Sequence[float], span: Span) -> Markup:
    labels = []
    for text, tick in zip(texts, ticks, strict=True):
        share = (tick - span[0]) / (span[1] - span[0])
        anchor = "start" if share < 0.06 else "end" if share > 0.94 else "middle"
        labels.append(element("text", text, x=_place(tick, span), y="1em", text_anchor=anchor))
    return element("svg", *labels, class_="axis")


def _key_item(content: Markup, text: str) -> Markup:
    return text_of([element("svg", content, class_="swatch", aria_hidden="true"), text])


def _mark(x: str, state: Standing) -> Markup:
    return _shape(x, *_MARKS[state])


def _shape(x: str, path: str, class_: str) -> Markup:
    # The inner picture has its position in per cent, the path its size in pixels.
    return element("svg", element("path", d=path, class_=class_), x=x, y="50%", class_="mark")


def _upright(x: str, class_: str) -> Markup:
    return element("line", x1=x, x2=x, y1="0", y2="100%", class_=class_)


def _place(value: float, span: Span) -> str:
    return f"{100 * (value - span[0]) / (span[1] - span[0]):.2f}%"
