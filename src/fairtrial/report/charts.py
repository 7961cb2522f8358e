"""Charts of a page: drawn in per cent, so that they fit any width and text keeps its size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fairtrial.core.recommendation import Estimate, Progress
from fairtrial.presentation.evidence import series
from fairtrial.presentation.limits import (
    Standing,
    finite,
    limits_of,
    name_of_limit,
    standing,
    visible_range,
)
from fairtrial.presentation.sources import Floats, reigns
from fairtrial.presentation.words import number, percent
from fairtrial.report.html import Markup, element, label, text_of

__all__ = ["bar_chart", "evidence_chart", "figure", "interval_chart"]

Panel = tuple[str, Sequence[Estimate | None]]
Span = tuple[float, float]

_CIRCLE = "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z"
_CROSS = "M-5,-3L-3,-5L0,-2L3,-5L5,-3L2,0L5,3L3,5L0,2L-3,5L-5,3L-2,0z"
_DIAMOND = "M0,-5L5,0L0,5L-5,0z"
_MARKS = {
    Standing.FREE: (_DIAMOND, "good", "mean, no {limit}"),
    Standing.KEPT: (_CIRCLE, "good", "{limit} met by the whole interval"),
    Standing.LIKELY_KEPT: (_CIRCLE, "good open", "{limit} met so far, not settled"),
    Standing.LIKELY_BROKEN: (_CROSS, "bad open", "{limit} missed so far, not settled"),
    Standing.BROKEN: (_CROSS, "bad", "{limit} missed by the whole interval"),
}


def figure(chart: Markup, key: Sequence[Markup], caption: str, data: Markup) -> Markup:
    """Return a figure: picture with a text in its place, key, caption, and its data table."""
    return element(
        "figure",
        element("div", chart, role="img", aria_label=caption),
        element("ul", *(element("li", item) for item in key), class_="key"),
        element("figcaption", caption),
        data,
    )


# ------------------------------------------------------------------------ intervals


def interval_chart(arms: Sequence[str], panels: Sequence[Panel], best: frozenset[str]) -> Markup:
    """Return means with intervals and limits: a panel for each group, a row for each arm."""
    span = visible_range([estimate for _, row in panels for estimate in row])
    ticks = nice_ticks(*span)
    drawn = []
    for title, estimates in panels:
        rows = [
            _row(arm, _track(_interval(estimate, span), ticks, span), arm in best)
            for arm, estimate in zip(arms, estimates, strict=True)
        ]
        drawn.append(_panel(title, rows, _axis([number(tick) for tick in ticks], ticks, span)))
    return element("div", *drawn, class_="panels")


def interval_key(panels: Sequence[Panel], intervals: str) -> list[Markup]:
    """Return what the marks of an interval chart mean: of those that occur in it."""
    shown = [estimate for _, row in panels for estimate in row if estimate is not None]
    limit = name_of_limit(shown)
    states = {standing(estimate) for estimate in shown}
    items = [
        _key_item(_mark("50%", state), meaning.format(limit=limit))
        for state, (_, _, meaning) in _MARKS.items()
        if state in states
    ]
    bar = element("line", x1="0", x2="100%", y1="50%", y2="50%", class_="interval")
    items.append(_key_item(bar, f"{intervals} interval"))
    if any(limits_of(estimate) for estimate in shown):
        items.append(_key_item(_upright("50%", "limit"), limit))
    return items


def _interval(estimate: Estimate | None, span: Span) -> Markup:
    if estimate is None:
        return Markup("")
    parts = []
    if estimate.lower is not None or estimate.upper is not None:
        parts.append(_whisker(finite(estimate.lower), finite(estimate.upper), span))
    mean = finite(estimate.mean)
    parts += [_upright(_place(limit, span), "limit") for limit in limits_of(estimate)]
    if mean is None:
        parts.append(element("text", "no result", x="100%", y="50%", dy=".35em", class_="end"))
    else:
        parts.append(_mark(_place(mean, span), standing(estimate)))
    return text_of(parts)


def _whisker(lower: float | None, upper: float | None, span: Span) -> Markup:
    left = span[0] if lower is None else max(lower, span[0])
    right = span[1] if upper is None else min(upper, span[1])
    ends = {"x1": _place(left, span), "x2": _place(right, span)}
    parts = [element("line", y1="50%", y2="50%", class_="interval", **ends)]
    if left == span[0]:
        parts.append(_shape("0%", "M-6,0L1,-4L1,4z", "good"))
    if right == span[1]:
        parts.append(_shape("100%", "M6,0L-1,-4L-1,4z", "good"))
    return text_of(parts)


# ----------------------------------------------------------------------------- bars


def bar_chart(
    arms: Sequence[str],
    panels: Sequence[tuple[str, Sequence[int | None]]],
    shares: Floats,
    best: Floats | None,
) -> Markup:
    """Return shares as bars, with ticks where the optimal ones are."""
    most = max(float(shares.max()), 0.0 if best is None else float(best.max())) or 1.0
    span = (0.0, 1.04 * most)
    ticks = nice_ticks(*span)
    drawn = []
    for title, actions in panels:
        rows = [
            _row(
                arm,
                _track(_bar(action, shares, best, span), ticks, span),
                value="" if action is None else percent(float(shares[action])),
            )
            for arm, action in zip(arms, actions, strict=True)
        ]
        axis = _axis([percent(tick) for tick in ticks], ticks, span)
        drawn.append(_panel(title, rows, axis, class_="panel valued"))
    return element("div", *drawn, class_="panels")


def bar_key(total: str, with_optimal: bool) -> list[Markup]:
    """Return what bars and ticks mean."""
    bar = element("rect", x="0", y="20%", width="100%", height="60%", class_="bar")
    items = [_key_item(bar, f"share of {total}")]
    if with_optimal:
        items.append(_key_item(_upright("50%", "limit"), "optimal share"))
    return items


def _bar(action: int | None, shares: Floats, best: Floats | None, span: Span) -> Markup:
    if action is None:
        return Markup("")
    width = _place(float(shares[action]), span)
    bar = element("rect", x="0", y="18%", width=width, height="64%", class_="bar")
    tick = None if best is None else _upright(_place(float(best[action]), span), "limit")
    return text_of([bar, tick])


# ------------------------------------------------------------------------- evidence


def evidence_chart(trace: Sequence[Progress]) -> Markup:
    """Return evidence and threshold over the results, with a strip of who led."""
    told, gained, needed = series(trace)
    known = np.concatenate([gained[np.isfinite(gained)], needed[np.isfinite(needed)], [0.0]])
    low, high = float(known.min()), float(known.max())
    across, up = (0.0, max(float(told[-1]), 1.0)), (low, high + 0.08 * (high - low or 1.0))
    plot = element(
        "svg",
        *(_level(tick, up) for tick in nice_ticks(*up, about=4)),
        *(_upright(_place(reign.start, across), "change") for reign in reigns(trace)[1:]),
        element(
            "svg",
            _path(told, needed, across, up, "threshold"),
            _path(told, gained, across, up, "evidence"),
            viewBox="0 0 1000 1000",
            preserveAspectRatio="none",
            width="100%",
            height="100%",
        ),
        class_="plot",
    )
    ticks = [tick for tick in nice_ticks(*across, about=4) if tick.is_integer()]
    return element(
        "div",
        element("div", *_levels(up), class_="levels"),
        plot,
        element("div", "leader", class_="beside"),
        _strip(trace, across),
        element("div", "results", class_="beside"),
        _axis([number(tick) for tick in ticks], ticks, across),
        class_="timeline",
    )


def evidence_key(with_changes: bool) -> list[Markup]:
    """Return what the lines mean."""
    flat = {"x1": "0", "x2": "100%", "y1": "50%", "y2": "50%"}
    items = [
        _key_item(element("line", class_="evidence", **flat), "evidence for the leader"),
        _key_item(element("line", class_="threshold", **flat), "threshold that stops the policy"),
    ]
    if with_changes:
        items.append(_key_item(_upright("50%", "change"), "change of the leader"))
    return items


def _level(tick: float, up: Span) -> Markup:
    at = _from_top(tick, up)
    return element("line", x1="0", x2="100%", y1=at, y2=at, class_="rule")


def _levels(up: Span) -> list[Markup]:
    return [
        element("span", number(tick), style=f"top:{_from_top(tick, up)}")
        for tick in nice_ticks(*up, about=4)
    ]


def _from_top(value: float, up: Span) -> str:
    return _place(up[0] + up[1] - value, up)


def _path(told: Floats, values: Floats, across: Span, up: Span, class_: str) -> Markup:
    steps, pen = [], "M"
    for x, y in zip(told, values, strict=True):
        if not math.isfinite(y):
            pen = "M"
            continue
        right = 1000 * (x - across[0]) / (across[1] - across[0])
        down = 1000 * (up[1] - y) / (up[1] - up[0])
        steps.append(f"{pen}{right:.1f},{down:.1f}")
        pen = "L"
    return element("path", d="".join(steps), class_=class_, vector_effect="non-scaling-stroke")


def _strip(trace: Sequence[Progress], across: Span) -> Markup:
    parts = [
        element(
            "span",
            label(reign.leader),
            style=f"width:{_place(reign.end - reign.start, across)}",
        )
        for reign in reigns(trace)
    ]
    return element("div", *parts, class_="strip")


# --------------------------------------------------------------------------- pieces


def nice_ticks(low: float, high: float, about: int = 3) -> list[float]:
    """Return round numbers in [low, high], `about` that many.

    Examples
    --------
    >>> nice_ticks(0, 1322)
    [0.0, 500.0, 1000.0]
    """
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


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
    path, class_, _ = _MARKS[state]
    return _shape(x, path, class_)


def _shape(x: str, path: str, class_: str) -> Markup:
    # The inner picture carries the place in per cent, the path its size in pixels.
    return element("svg", element("path", d=path, class_=class_), x=x, y="50%", class_="mark")


def _upright(x: str, class_: str) -> Markup:
    return element("line", x1=x, x2=x, y1="0", y2="100%", class_=class_)


def _place(value: float, span: Span) -> str:
    return f"{100 * (value - span[0]) / (span[1] - span[0]):.2f}%"
