"""One style for all figures: colours that colour-blind readers can distinguish, and little ink."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure, SubFigure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter

from fairtrial.presentation.words import shorten

# Okabe and Ito's palette, on white.
BLUE = "#0072B2"
PALE_BLUE = "#4F97C4"
SKY = "#56B4E9"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PINK = "#CC79A7"
ORANGE = "#E69F00"
DARK_VERMILLION = "#a33f00"
"""The same hue, dark enough for text."""
INK = "#1a1a1a"
MUTED = "#595959"
RULE = "#dcdcdc"
BAND = "#f2f2f2"

LINES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "linestyle": "-"},
    {"color": VERMILLION, "linestyle": (0, (5, 2))},
    {"color": GREEN, "linestyle": (0, (2, 1.2))},
    {"color": PINK, "linestyle": (0, (6, 2, 1, 2))},
    {"color": INK, "linestyle": ":"},
    {"color": ORANGE, "linestyle": (0, (3, 1, 1, 1, 1, 1))},
    {"color": SKY, "linestyle": "-"},
    {"color": MUTED, "linestyle": (0, (1, 1))},
)
"""Styles of lines that can be distinguished without colours, too."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
"""Marks for points on those lines, in the same order; the rest are for points without a line."""

SMALL = 8.0
NORMAL = 9.0
LARGE = 11.0

UPRIGHT: dict[str, Any] = {"linestyle": "none", "marker": "|", "markersize": 11, "color": INK}
"""An upright tick in a key."""

LABEL_LENGTH = 24
PANELS_ACROSS = 5


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure with its own canvas; the size is in inches."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def root(figure: Any) -> Figure:
    """Return the whole figure that contains a sub-figure."""
    whole: Figure = figure.get_figure(root=True)
    return whole


def canvas(figure: Figure | SubFigure | None, width: float, height: float) -> Figure | SubFigure:
    """Return the given figure, or a new one."""
    return new_figure(width, height) if figure is None else figure


def tidy(ax: Axes, grid: str = "x") -> None:
    """Keep only useful parts of the frame: the bottom line, and faint rules along `grid`."""
    ax.set_facecolor("white")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(MUTED)
    ax.tick_params(colors=INK, labelsize=SMALL, length=3, width=0.6)
    ax.grid(visible=False)
    ax.grid(visible=True, axis=grid, color=RULE, linewidth=0.6)  # type: ignore[arg-type]
    ax.set_axisbelow(True)


def axes(ax: Axes | None, width: float, height: float, grid: str = "x") -> Axes:
    """Return the given axes, or those of a new figure; tidied."""
    shown = new_figure(width, height).subplots() if ax is None else ax
    tidy(shown, grid)
    return shown


def in_percent(axis: Axis) -> None:
    """Write the numbers at an axis of shares in per cent, including small ones."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g} %"))


def write(ax: Axes, x: float, y: float, text: str, **options: Any) -> Text:
    """Write plain text, in which a dollar sign is just a dollar sign."""
    style = {"fontsize": SMALL, "color": INK, **options}
    return ax.text(x, y, text, parse_math=False, **style)


def title(ax: Axes, text: str) -> None:
    """Write the title of an axes, on its left."""
    ax.set_title(text, loc="left", fontsize=NORMAL, color=INK, parse_math=False)


def message(ax: Axes, text: str) -> None:
    """Write in an empty axes why it is empty."""
    options = {"transform": ax.transAxes, "ha": "center", "va": "center", "color": MUTED}
    write(ax, 0.5, 0.5, text, gid="message", **options)


def name_rows(axes: Sequence[Axes], names: Sequence[str], emphasised: Iterable[str] = ()) -> None:
    """Put names beside rows 0, 1, ... from top to bottom; some of them bold, on a band."""
    bold = frozenset(emphasised)
    short = [shorten(name, LABEL_LENGTH) for name in names]
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    for ax in axes:
        ax.tick_params(axis="y", length=0)
        for row, name in enumerate(names):
            if name in bold:
                ax.axhspan(row - 0.5, row + 0.5, color=BAND, zorder=0, linewidth=0)
        spec = ax.get_subplotspec()
        if spec is not None and spec.is_first_col():
            ax.set_yticks(range(len(names)), labels=short, parse_math=False)
            for name, tick in zip(names, ax.get_yticklabels(), strict=True):
                tick.set_fontweight("bold" if name in bold else "normal")


def small_multiples(
    figure: Figure | SubFigure, titles: Sequence[str], *, share_scale: bool = True
) -> list[Axes]:
    """Return one axes per title, in reading order; without `share_scale` each has its own scale."""
    columns = min(PANELS_ACROSS, len(titles))
    rows = -(-len(titles) // columns)
    grid = figure.subplots(rows, columns, sharex=share_scale, sharey=True, squeeze=False)
    axes: list[Axes] = list(grid.flat)
    for ax in axes[len(titles) :]:
        ax.remove()
    used = axes[: len(titles)]
    for index, (ax, name) in enumerate(zip(used, titles, strict=True)):
        tidy(ax)
        title(ax, shorten(name, LABEL_LENGTH))
        # The last panel of a column shows the scale, even above a gap in the last row.
        ax.tick_params(labelbottom=not share_scale or index + columns >= len(titles))
    return used


def bottom_left(axes: Sequence[Axes]) -> Axes:
    """Return the first of the last row of small multiples."""
    return axes[(len(axes) - 1) // PANELS_ACROSS * PANELS_ACROSS]


def small_multiples_size(n_panels: int, n_rows: int) -> tuple[float, float]:
    """Return width and height in inches that make rows and panels readable."""
    across = min(PANELS_ACROSS, n_panels)
    down = -(-n_panels // across)
    return 2.2 + 1.75 * max(across, 2), 1.1 + down * (0.5 + 0.22 * n_rows)


def key(figure: Figure | SubFigure, handles: Sequence[Any], note: str = "") -> None:
    """Explain the marks below a figure, in as many columns as fit, with a note above them."""
    longest = max((len(handle.get_label()) for handle in handles), default=0)
    width = figure.bbox.width / root(figure).dpi
    columns = max(1, int(width / (0.6 + 0.058 * longest)))
    legend = figure.legend(
        handles=list(handles),
        title=textwrap.fill(note, max(20, int(15 * width))) or None,
        title_fontsize=SMALL,
        alignment="left",
        loc="outside lower left",
        ncols=max(1, min(columns, len(handles))),
        frameon=False,
        fontsize=SMALL,
        handletextpad=0.5,
        columnspacing=1.4,
    )
    legend.get_title().set_gid("note")
    legend.get_title().set_parse_math(False)
    for text in (legend.get_title(), *legend.get_texts()):
        text.set_color(INK)
