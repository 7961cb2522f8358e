"""The part of a causal graph that a question involves."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from fairtrial.core.keywords import named_arguments
from fairtrial.plots import _style as style
from fairtrial.plots._causal import QuestionLike
from fairtrial.plots._fonts import legible
from fairtrial.presentation import layers
from fairtrial.presentation.sources import Floats, check_offers
from fairtrial.presentation.words import shorten

__all__ = ["causal_graph"]

_ROLES: dict[str, tuple[str, str, str, Any]] = {
    "sensitive": ("sensitive attribute", "#fbe9df", style.VERMILLION, "-"),
    "intervened": ("where the arms act", "#dcecf7", style.BLUE, "-"),
    "outcome": ("outcome", "#e2f3ec", style.GREEN, "-"),
    "read": ("read in every row", "white", style.INK, "-"),
    "unread": ("not read", "white", style.MUTED, (0, (3, 2))),
}
_BOX_HEIGHT, _LAYER_GAP, _ROW_GAP = 0.32, 0.75, 0.62


@legible
@named_arguments
def causal_graph(problem: QuestionLike, *, ax: Axes | None = None) -> Figure:
    """Draw the part of the causal graph that the question involves, causes on the left.

    It shows the nodes that every row contains, and those between them and the outcome. Arrows from
    the sensitive attribute mark the distributions that must be known.

    Parameters
    ----------
    problem : Problem
        The causal problem.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If `problem` is not from the causal family.

    Examples
    --------
    >>> import fairtrial as ft
    >>> problem, environment = ft.causal.chain(0.4, {"a": [[1, 0], [0, 1]]}, [0.1, 0.9], 0.2)
    >>> [text.get_text() for text in causal_graph(problem).axes[0].texts]
    ['S', 'V', 'Y']
    """
    check_offers("problem", problem, "must be a causal.Problem", "model", "attributes")
    nodes = _shown_nodes(problem)
    parents = {
        node: [parent for parent in problem.model.parents(node) if parent in nodes]
        for node in nodes
    }
    widths = {node: 0.26 + 0.082 * len(shorten(node, style.LABEL_LENGTH)) for node in nodes}
    drawing = layers.arrange(parents, widths, _LAYER_GAP, _ROW_GAP)
    if ax is None:
        ax = style.new_figure(drawing.width + 0.5, drawing.height + 0.7).subplots()
    _empty_frame(ax, drawing)
    for (parent, child), route in drawing.routes.items():
        _draw_arrow(ax, route, parent in problem.attributes, (parent, child))
    roles = {node: _role(problem, node) for node in nodes}
    for node in nodes:
        _draw_node(ax, node, drawing.places[node], widths[node], roles[node])
    _explain_roles(ax, set(roles.values()))
    return style.root(ax)


def _shown_nodes(problem: QuestionLike) -> list[str]:
    """Return the nodes in the rows and all between them and the outcome, parents first."""
    model, read = problem.model, set(problem.columns) | {problem.outcome_node}
    leading = model.ancestors([problem.outcome_node])
    between = {node for node in leading if model.ancestors([node]) & read}
    return [node for node in model.nodes if node in read | between]


def _role(problem: QuestionLike, node: str) -> str:
    if node in problem.attributes:
        return "sensitive"
    named = {problem.intervened: "intervened", problem.outcome_node: "outcome"}
    return named.get(node, "read" if node in problem.columns else "unread")


def _empty_frame(ax: Axes, drawing: layers.Drawing) -> None:
    ax.set_xlim(-0.1, drawing.width + 0.1)
    ax.set_ylim(-0.15, drawing.height + 0.15)
    ax.set_aspect("equal")
    ax.set_axis_off()


def _draw_node(ax: Axes, node: str, place: tuple[float, float], width: float, role: str) -> None:
    _, face, edge, dashes = _ROLES[role]
    x, y = place
    box = FancyBboxPatch(
        (x - width / 2, y - _BOX_HEIGHT / 2),
        width,
        _BOX_HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.07",
        facecolor=face,
        edgecolor=edge,
        linestyle=dashes,
        linewidth=1.2,
        zorder=3,
        gid=role,
    )
    ax.add_patch(box)
    bold = role in ("sensitive", "intervened", "outcome")
    look = {"ha": "center", "va": "center", "zorder": 4}
    weight = "bold" if bold else "normal"
    name = shorten(node, style.LABEL_LENGTH)
    style.write(ax, x, y, name, fontweight=weight, **look)


def _draw_arrow(
    ax: Axes, route: NDArray[np.float64], from_sensitive: bool, edge: tuple[str, str]
) -> None:
    colour = style.VERMILLION if from_sensitive else style.MUTED
    points = layers.bezier(route)
    codes = [Path.MOVETO, *[Path.CURVE4] * (len(points) - 1)]
    ax.add_patch(
        PathPatch(Path(points, codes), facecolor="none", edgecolor=colour, linewidth=1.0, zorder=1)
    )
    tail = points[-1] - 0.12 * _unit(points[-1] - points[-2])
    head = FancyArrowPatch(
        tail, points[-1], arrowstyle="-|>", mutation_scale=11, shrinkA=0, shrinkB=0, linewidth=0
    )
    head.set_color(colour)
    head.set_gid(f"{edge[0]} -> {edge[1]}")
    head.set_zorder(2)
    ax.add_patch(head)


def _unit(vector: Floats) -> Floats:
    return vector / max(float(np.hypot(*vector)), 1e-12)


def _explain_roles(ax: Axes, roles: set[str]) -> None:
    marks = [
        Patch(facecolor=face, edgecolor=edge, linestyle=dashes, label=label)
        for role, (label, face, edge, dashes) in _ROLES.items()
        if role in roles
    ]
    style.key(style.root(ax), marks)
