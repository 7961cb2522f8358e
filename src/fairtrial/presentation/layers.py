"""A layered drawing of a directed acyclic graph, with causes on the left.

Sugiyama, Tagawa and Toda 1981, "Methods for visual understanding of hierarchical system
structures": nodes are placed in layers, long edges are cut into steps, and barycentres reduce the
number of crossings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["Drawing", "arrange", "bezier"]

Floats = NDArray[np.float64]
Place = tuple[float, float]
Item = str | tuple[str, str, int]
"""A node, or a step of an edge: (parent, child, layer)."""

_SWEEPS = 12
_CLEARANCE = 0.04
_ARROW_ROOM = 0.35
"""Height that an arrow needs in a layer that it passes, as a fraction of a node's height."""


@dataclass(frozen=True)
class Drawing:
    """Positions of nodes and edges, in inches from the lower left corner.

    Parameters
    ----------
    places : mapping of str to (float, float)
        The centre of each node.
    routes : mapping of (str, str) to ndarray of shape (n, 2)
        The points through which the arrow of each edge passes.
    width, height : float
        The size of the drawing.
    """

    places: Mapping[str, Place]
    routes: Mapping[tuple[str, str], Floats]
    width: float
    height: float


def arrange(
    parents: Mapping[str, Sequence[str]],
    widths: Mapping[str, float],
    layer_gap: float,
    row_gap: float,
) -> Drawing:
    """Return a drawing of a graph; `parents` must list parents before their children.

    Examples
    --------
    >>> drawing = arrange({"a": [], "b": ["a"]}, {"a": 1.0, "b": 1.0}, 1.0, 0.5)
    >>> drawing.places, drawing.width
    ({'a': (0.5, 0.25), 'b': (2.5, 0.25)}, 3.0)
    """
    depth = _depths(parents)
    ranks, links = _with_steps(parents, depth)
    _lessen_crossings(ranks, links)
    xs = _columns(ranks, widths, layer_gap)
    ys, height = _rows(ranks, links, row_gap)
    places = {node: (xs[depth[node]], ys[node]) for node in parents}
    routes = {
        (parent, node): _route(parent, node, depth, xs, ys, widths)
        for node, above in parents.items()
        for parent in above
    }
    last = max(widths[node] for node in parents if depth[node] == len(xs) - 1)
    return Drawing(places, routes, xs[-1] + last / 2, height)


def _depths(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return each node's layer: after its parents; roots are just before their first child."""
    depth: dict[str, int] = {}
    for node, above in parents.items():
        depth[node] = max((depth[parent] + 1 for parent in above), default=0)
    for node, above in parents.items():
        children = [child for child, names in parents.items() if node in names]
        if not above and children:
            depth[node] = min(depth[child] for child in children) - 1
    return depth


def _with_steps(
    parents: Mapping[str, Sequence[str]], depth: Mapping[str, int]
) -> tuple[list[list[Item]], list[tuple[Item, Item]]]:
    """Return the items of each layer and the links between neighbouring layers."""
    ranks: list[list[Item]] = [[] for _ in range(max(depth.values()) + 1)]
    links: list[tuple[Item, Item]] = []
    for node in parents:
        ranks[depth[node]].append(node)
    for node, above in parents.items():
        for parent in above:
            chain: list[Item] = [parent]
            for layer in range(depth[parent] + 1, depth[node]):
                step = (parent, node, layer)
                ranks[layer].append(step)
                chain.append(step)
            chain.append(node)
            links += pairwise(chain)
    return ranks, links


def _lessen_crossings(ranks: list[list[Item]], links: Sequence[tuple[Item, Item]]) -> None:
    """Sort layers by the mean positions of neighbours, back and forth; keep the best order."""
    best, fewest = [list(rank) for rank in ranks], _crossings(ranks, links)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        order = range(1, len(ranks)) if forward else range(len(ranks) - 2, -1, -1)
        for layer in order:
            beside = ranks[layer - 1 if forward else layer + 1]
            _sort_by_neighbours(ranks[layer], beside, links)
        crossings = _crossings(ranks, links)
        if crossings < fewest:
            best, fewest = [list(rank) for rank in ranks], crossings
    ranks[:] = best


def _sort_by_neighbours(
    rank: list[Item], beside: Sequence[Item], links: Sequence[tuple[Item, Item]]
) -> None:
    position = {item: place / max(len(beside) - 1, 1) for place, item in enumerate(beside)}
    own = {item: place / max(len(rank) - 1, 1) for place, item in enumerate(rank)}
    keys = {item: _barycentre(item, position, links, own[item]) for item in rank}
    rank.sort(key=lambda item: keys[item])


def _barycentre(
    item: Item,
    position: Mapping[Item, float],
    links: Sequence[tuple[Item, Item]],
    otherwise: float,
) -> float:
    near = [position[a] for a, b in links if b == item and a in position]
    near += [position[b] for a, b in links if a == item and b in position]
    return sum(near) / len(near) if near else otherwise


def _crossings(ranks: Sequence[Sequence[Item]], links: Sequence[tuple[Item, Item]]) -> int:
    position = {item: place for rank in ranks for place, item in enumerate(rank)}
    layer = {item: number for number, rank in enumerate(ranks) for item in rank}
    count = 0
    for index, (a, b) in enumerate(links):
        for c, d in links[index + 1 :]:
            if layer[a] == layer[c]:
                count += (position[a] - position[c]) * (position[b] - position[d]) < 0
    return count


def _columns(
    ranks: Sequence[Sequence[Item]], widths: Mapping[str, float], gap: float
) -> list[float]:
    """Return the horizontal centre of each layer."""
    xs, left = [], 0.0
    for rank in ranks:
        widest = max((widths[item] for item in rank if isinstance(item, str)), default=0.0)
        xs.append(left + widest / 2)
        left += widest + gap
    return xs


def _rows(
    ranks: Sequence[Sequence[Item]], links: Sequence[tuple[Item, Item]], gap: float
) -> tuple[dict[Item, float], float]:
    """Return the height of each item: near its neighbours, in the layer's order, with gaps."""
    offsets = [_offsets(rank, gap) for rank in ranks]
    ys = {
        item: offset[-1] / 2 - below
        for rank, offset in zip(ranks, offsets, strict=True)
        for item, below in zip(rank, offset, strict=True)
    }
    for _ in range(_SWEEPS):
        for rank, offset in zip(ranks, offsets, strict=True):
            wanted = [_barycentre(item, ys, links, ys[item]) for item in rank]
            ys.update(zip(rank, _kept_apart(wanted, offset), strict=True))
    low, high = min(ys.values()), max(ys.values())
    return {item: y - low + gap / 2 for item, y in ys.items()}, high - low + gap


def _offsets(rank: Sequence[Item], gap: float) -> list[float]:
    """Return the least distance of each item below the first; arrows need less room."""
    half = [gap / 2 if isinstance(item, str) else _ARROW_ROOM * gap / 2 for item in rank]
    return list(accumulate((above + below for above, below in pairwise(half)), initial=0.0))


def _kept_apart(wanted: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """Return the least-squares heights that decrease at least as fast as the offsets require."""
    groups: list[tuple[float, int]] = []
    for y, offset in zip(wanted, offsets, strict=True):
        total, size = y + offset, 1
        while groups and groups[-1][0] / groups[-1][1] < total / size:
            above = groups.pop()
            total, size = total + above[0], size + above[1]
        groups.append((total, size))
    levels = [total / size for total, size in groups for _ in range(size)]
    return [level - offset for level, offset in zip(levels, offsets, strict=True)]


def _route(
    parent: str,
    child: str,
    depth: Mapping[str, int],
    xs: Sequence[float],
    ys: Mapping[Item, float],
    widths: Mapping[str, float],
) -> Floats:
    steps = range(depth[parent] + 1, depth[child])
    start = (xs[depth[parent]] + widths[parent] / 2 + _CLEARANCE, ys[parent])
    end = (xs[depth[child]] - widths[child] / 2 - _CLEARANCE, ys[child])
    return np.array([start, *((xs[layer], ys[(parent, child, layer)]) for layer in steps), end])


def bezier(route: Floats) -> Floats:
    """Return a smooth curve through a route: Bezier points with horizontal tangents.

    Examples
    --------
    >>> bezier(np.array([[0.0, 0.0], [2.0, 1.0]])).tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [2.0, 1.0]]
    """
    points = [route[0]]
    for start, end in pairwise(route):
        middle = (start[0] + end[0]) / 2
        points += [np.array([middle, start[1]]), np.array([middle, end[1]]), end]
    return np.array(points)
