"""A search over a model's settings: the mean score of every candidate, split by split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from fairtrial.core.keywords import named_arguments
from fairtrial.plots import _style as style
from fairtrial.plots._lines import handle, name_axes
from fairtrial.presentation.learning_curves import (
    LearningCurve,
    LearningCurves,
    SearchLike,
    curves_of,
    half_widths,
    running_mean,
)
from fairtrial.presentation.sources import Floats
from fairtrial.presentation.words import plural, shorten

__all__ = ["learning_curves"]

_MOST_NAMES = len(style.LINES)
_NAME_LENGTH = 40
_BROAD = 2.4
_APART = 0.006
"""Distance between the bars of curves that end together, as a share of the picture's width."""
_ENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "best": ("best", {"marker": "o"}),
    "undecided": ("not ruled out", {"marker": "o", "markerfacecolor": "white"}),
    "set aside": ("set aside: at most the tolerance better", {"marker": "s"}),
    "rejected": ("dropped: worse", {"marker": "x"}),
    "withdrawn": ("out: a fit failed", {"marker": "v"}),
}
_PALE = {"color": "#b8b8b8", "linestyle": "-"}


@named_arguments
def learning_curves(search: SearchLike, *, figure: Figure | SubFigure | None = None) -> Figure:
    """Draw the mean score of every candidate of a search, split by split, until it was dropped.

    The upper panel shows the mean scores so far. The lower one shows how much worse than the best
    the candidates are, on the splits that they share; this decides. Its scale suits the candidates
    that lasted longest; others may run off it. The best candidate has a thick line and comes first.
    The eight best have names, the others are pale.

    Intervals are Student's at 95 %, each on its own: the band of the best, and the bar at the end
    of another named curve. The search itself requires more evidence, because it tests all
    candidates after every split.

    Parameters
    ----------
    search : fairtrial.sklearn.RacingSearchCV
        A fitted search. If candidates do not share their splits (``paired=False``, or `partial`),
        there is only one panel.
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to draw; by default a new one.

    Raises
    ------
    InvalidArgument
        If `search` is not fitted, or has another type.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from fairtrial.sklearn import RacingSearchCV
    >>> search = RacingSearchCV(
    ...     DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]}, random_state=0
    ... ).fit(*load_iris(return_X_y=True))
    >>> [text.get_text() for text in learning_curves(search).legends[0].get_texts()][:2]
    ['max_depth=3', 'max_depth=1']
    """
    shown = curves_of(search)
    rivals = [curve for curve in shown.curves[1:] if curve.behind is not None]
    canvas = style.canvas(figure, 7.2, 6.4 if rivals else 4.2)
    panels = canvas.subplots(2 if rivals else 1, 1, sharex=True, squeeze=False)[:, 0]
    _draw_means(panels[0], shown)
    if rivals:
        _draw_behind(panels[1], rivals)
    panels[-1].set_xlabel(
        "splits" if rivals else "fits of the candidate", fontsize=style.SMALL, color=style.INK
    )
    style.key(canvas, _explained(shown), _note(shown))
    return style.root(canvas)


def _look(place: int) -> dict[str, Any]:
    return style.LINES[place] if place < _MOST_NAMES else _PALE


def _draw_means(ax: Axes, shown: LearningCurves) -> None:
    style.tidy(ax, grid="y")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    best = shown.curves[0].scores
    mean, half, at = running_mean(best), half_widths(best), _numbers(best)
    ax.fill_between(
        at, mean - half, mean + half, color=_look(0)["color"], alpha=0.15, linewidth=0, gid="band"
    )
    _draw(ax, [(curve.status, curve.scores) for curve in shown.curves])
    ax.set_xlim(left=0.0)
    name_axes(ax, "", f"mean {shown.metric} so far")


def _draw_behind(ax: Axes, rivals: Sequence[LearningCurve]) -> None:
    style.tidy(ax, grid="y")
    ax.axhline(0.0, gid="best", linewidth=_BROAD, **_look(0))
    differences = [-curve.behind for curve in rivals if curve.behind is not None]
    _draw(ax, [("best", np.empty(0)), *zip((c.status for c in rivals), differences, strict=True)])
    ax.set_ylim(*_visible(differences[: max(3, len(rivals) // 2)]))
    name_axes(ax, "", "difference to the best, mean so far")


def _draw(ax: Axes, curves: Sequence[tuple[str, Floats]]) -> None:
    """Draw running means in the style of their places, the first on top, and mark their ends."""
    last = [len(values) for _, values in curves]
    for place, (status, values) in reversed(list(enumerate(curves))):
        if not values.size:
            continue
        look, mean, at = _look(place), running_mean(values), _numbers(values)
        width = 1.3 if place else _BROAD
        ax.plot(at, mean, linewidth=width, gid="curve", **look)
        if 0 < place < _MOST_NAMES:
            # Beside the bars of other curves that end here.
            step = _APART * max(last) * last[:place].count(last[place])
            half = half_widths(values)[-1]
            ends = mean[-1] - half, mean[-1] + half
            ax.vlines(at[-1] + step, *ends, color=look["color"], linewidth=1.0, gid="interval")
        mark = {"color": look["color"], "markersize": 6, **_ENDS[status][1]}
        ax.plot(at[-1], mean[-1], linestyle="none", gid=status, **mark)


def _numbers(values: Floats) -> Floats:
    return np.arange(1.0, len(values) + 1)


def _visible(differences: Sequence[Floats]) -> tuple[float, float]:
    """Return limits that contain the ends of these curves with their intervals, and 0."""
    ends = [0.0]
    for values in differences:
        mean, half = running_mean(values)[-1], np.nan_to_num(half_widths(values)[-1])
        ends += [float(mean - half), float(mean + half)]
    margin = 0.15 * (max(ends) - min(ends)) or 1.0
    return min(ends) - margin, max(ends) + margin


def _explained(shown: LearningCurves) -> list[Any]:
    lines = [
        handle(label=shorten(curve.name, _NAME_LENGTH), **_look(place))
        for place, curve in enumerate(shown.curves[:_MOST_NAMES])
    ]
    occurring = {curve.status for curve in shown.curves}
    ends = [
        handle(label=label, color=style.INK, **{**look, "linestyle": "none"})
        for status, (label, look) in _ENDS.items()
        if status in occurring
    ]
    return lines + ends


def _note(shown: LearningCurves) -> str:
    parts = ["Band and bars: 95 % intervals, each for itself."]
    if (pale := len(shown.curves) - _MOST_NAMES) > 0:
        parts.append(f"Pale: {plural(pale, 'other candidate')}.")
    if shown.without_score:
        parts.append(f"Not shown, as no fit gave a score: {shown.without_score}.")
    return " ".join(parts)
