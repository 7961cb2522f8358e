"""Read matplotlib's own objects."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def drawn(figure: Figure) -> bytes:
    """Return a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=40)
    return buffer.getvalue()


def having(ax: Axes, gid: str) -> list[Any]:
    """Return the objects in an axes with a given name."""
    return [artist for artist in ax.get_children() if artist.get_gid() == gid]


def legend_of(figure: Figure) -> list[str]:
    """Return the names in the legend."""
    return [text.get_text() for text in figure.legends[0].get_texts()]
