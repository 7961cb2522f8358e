"""Line charts of a page, with positions in per cent; colours, dashes and marks differ by line."""

from __future__ import annotations

from collections.abc import Callable

from fairtrial.presentation.alternatives import strength
from fairtrial.presentation.charts import e_value_ticks
from fairtrial.presentation.lines import Line, LineChart
from fairtrial.presentation.words import count, decimals, fixed, percent, plural
from fairtrial.report.charts import figure, levels, nice_ticks, tick_texts
from fairtrial.report.html import Markup, element, folded, label, table, text_of

__all__ = ["line_chart", "line_key", "lines_figure"]

Span = tuple[float, float]

_STYLES = 8
_ROWS = 24
_MARKS = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "M-4,-4L4,-4L4,4L-4,4z",
    "M0,-5L5,0L0,5L-5,0z",
    "M-4.5,3.5L0,-4.5L4.5,3.5z",
)


def lines_figure(
    chart: LineChart,
    caption: str,
    name: str,
    drawn: LineChart | None = None,
    controls: Markup | None = None,
) -> Markup:
    """Return a line chart with its key, caption and data table.

    Parameters
    ----------
    chart : LineChart
        The whole chart.
    caption : str
        What the chart shows, with its numbers.
    name : str
        The name of the values in the table.
    drawn : LineChart, optional
        The part of the chart to draw; by default all of it.
    controls : Markup, optional
        The controls of the chart on an interactive page.
    """
    drawn = chart if drawn is None else drawn
    low, high = drawn.span
    written = _written(chart)
    # Points where a line was cut at the ends of the range are not measurements.
    moments = sorted({x for line in chart.lines for x in line.across if low <= x <= high})
    step = max(1, -(-len(moments) // _ROWS))
    values = [dict(zip(line.across, line.up, strict=True)) for line in chart.lines]
    rows = [
        (count(x), *("" if x not in own else written(own[x]) for own in values))
        for x in (*moments[:-1:step], *moments[-1:])
    ]
    heads = (chart.across.capitalize(), *(label(line.name) for line in chart.lines))
    data = table(f"{name}, by {chart.across} so far", heads, rows, words=set())
    folded_data = folded(f"The numbers: {plural(len(rows), 'moment')}", data, 1000)
    return figure(line_chart(drawn), line_key(drawn), caption, folded_data, controls)


def _written(chart: LineChart) -> Callable[[float], str]:
    """Return a function that formats the heights of points for the table."""
    if chart.in_e_values and chart.level is not None:
        most = chart.level.height
        return lambda value: f"{strength(value)} or more" if value >= most else strength(value)
    places = decimals((value for line in chart.lines for value in line.up), 3)
    return lambda value: fixed(value, places)


def line_chart(chart: LineChart) -> Markup:
    """Return the lines with their axes."""
    low, high = chart.height
    up = (low, high + 0.04 * (high - low))
    names = [(_from_top(tick, up), text) for tick, text in _ticks(chart)]
    rules = [_across(place, "rule") for place, _ in names]
    if chart.shown_level is not None:
        rules.append(_across(_from_top(chart.shown_level.height, up), "limit"))
    paths = element(
        "svg",
        *(_path(place, line, chart.span, up) for place, line in enumerate(chart.lines)),
        viewBox="0 0 1000 1000",
        preserveAspectRatio="none",
        width="100%",
        height="100%",
        class_="curves",
    )
    marks = [
        _mark(place, _right(x, chart.span), _from_top(y, up))
        for place, line in enumerate(chart.lines)
        if chart.marked
        for x, y in zip(line.across, line.up, strict=True)
    ]
    return element(
        "div",
        element("p", chart.up, class_="title"),
        levels(names),
        element("svg", *rules, paths, *marks, class_="plot"),
        element("div", class_="beside"),
        _axis(chart),
        element("p", chart.across, class_="across"),
        class_="timeline lines",
    )


def _ticks(chart: LineChart) -> list[tuple[float, str]]:
    if chart.in_e_values:
        return e_value_ticks(*chart.height)
    ticks = nice_ticks(*chart.height, about=4)
    texts = [percent(tick) for tick in ticks] if chart.shares else tick_texts(ticks)
    return list(zip(ticks, texts, strict=True))


def _across(place: str, class_: str) -> Markup:
    return element("line", x1="0", x2="100%", y1=place, y2=place, class_=class_)


def line_key(chart: LineChart) -> list[Markup]:
    """Return the key of the lines."""
    return [*_lines_in_key(chart), *_level_in_key(chart)]


def _level_in_key(chart: LineChart) -> list[Markup]:
    if chart.shown_level is None:
        return []
    line = element("svg", _across("50%", "limit"), class_="swatch wide", aria_hidden="true")
    name = chart.shown_level.name
    if chart.in_e_values:
        name = f"{name} at {strength(chart.shown_level.height)}"
    return [text_of([line, name])]


def _lines_in_key(chart: LineChart) -> list[Markup]:
    return [
        text_of(
            [
                element(
                    "svg",
                    _across("50%", _class(place)),
                    _mark(place, "50%", "50%") if chart.marked else None,
                    class_="swatch wide",
                    aria_hidden="true",
                ),
                label(line.name),
            ]
        )
        for place, line in enumerate(chart.lines)
    ]


def _axis(chart: LineChart) -> Markup:
    labels, ticks = [], nice_ticks(*chart.span, about=4)
    for tick, text in zip(ticks, tick_texts(ticks), strict=True):
        at = (tick - chart.span[0]) / (chart.span[1] - chart.span[0])
        anchor = "start" if at < 0.06 else "end" if at > 0.94 else "middle"
        place = _right(tick, chart.span)
        labels.append(element("text", text, x=place, y="1em", text_anchor=anchor))
    return element("svg", *labels, class_="axis")


def _path(place: int, line: Line, span: Span, up: Span) -> Markup:
    points = [
        f"{1000 * (x - span[0]) / (span[1] - span[0]):.1f},"
        f"{1000 * (up[1] - y) / (up[1] - up[0]):.1f}"
        for x, y in zip(line.across, line.up, strict=True)
    ]
    effect, steps = "non-scaling-stroke", f"M{'L'.join(points)}" if points else ""
    return element("path", d=steps, class_=_class(place), vector_effect=effect)


def _mark(place: int, x: str, y: str) -> Markup:
    shape = element("path", d=_MARKS[place % len(_MARKS)], class_=f"dot {_class(place)}")
    return element("svg", shape, x=x, y=y, class_="mark")


def _class(place: int) -> str:
    return f"line-{place % _STYLES}"


def _right(value: float, span: Span) -> str:
    return f"{100 * (value - span[0]) / (span[1] - span[0]):.2f}%"


def _from_top(value: float, up: Span) -> str:
    return f"{100 * (up[1] - value) / (up[1] - up[0]):.2f}%"
