"""Sums over states and integrals over at most two real-valued nodes of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of, log_values
from fairtrial.causal._sampling import Sampler
from fairtrial.causal.errors import ModelError

if TYPE_CHECKING:
    from fairtrial.causal.model import CausalModel
    from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]

_MOST_DIMENSIONS = 2
_MOST_ASSIGNMENTS = 2_000
_PILOT = 1_000
_MOST_SUBDIVISIONS = {1: 2_000, 2: 400}
_SCAN = {0: 1, 1: 401, 2: 81}
_FARTHEST = 14.0
_RELATIVE = 1e-9
_MASS = 1e-5
_WRONG = 1e-2


class Integral(NamedTuple):
    """Values, shape (m,), and estimates of their errors."""

    value: Floats
    error: Floats


class Grid:
    """All assignments of some nodes: states are listed, real values are integrated.

    Parameters
    ----------
    problem : Problem
        The problem.
    network : CausalModel
        The distributions.
    nodes : collection of str
        Nodes with all their ancestors.
    """

    def __init__(self, problem: Problem, network: CausalModel, nodes: Collection[str]) -> None:
        self.problem = problem
        self.network = network
        free = [n for n in network.nodes if n in nodes and n not in problem.attributes]
        self.free = free
        self.real = [node for node in free if not network.is_discrete(node)]
        self._listed = [node for node in free if network.is_discrete(node)]

    @property
    def is_small(self) -> bool:
        """Whether all distributions are known and there are few enough assignments to visit all."""
        known = [n for n in self.free if n != self.problem.intervened]
        sizes = math.prod(self.network.size(node) for node in self._listed)
        return (
            all(self.network.is_known(node) for node in (*known, *self.problem.attributes))
            and len(self.real) <= _MOST_DIMENSIONS
            and sizes <= _MOST_ASSIGNMENTS
        )

    def columns(self, points: Floats) -> Columns:
        """Return every assignment at every point, point by point; shape (points * states,)."""
        states = list(product(*(range(self.network.size(node)) for node in self._listed)))
        table = np.array(states, dtype=np.int64).reshape(len(states), len(self._listed))
        columns: Columns = {
            node: np.tile(table[:, place], len(points)) for place, node in enumerate(self._listed)
        }
        for place, node in enumerate(self.real):
            columns[node] = np.repeat(points[:, place], len(states))
        return columns

    def logs(self, columns: Columns) -> tuple[Floats, Floats]:
        """Return log probabilities of assignments.

        The first, shape (K, values, n), is that of all nodes except the sensitive ones, which are
        set to a value; the second, shape (values, n), is that of the sensitive nodes.
        """
        problem, network = self.problem, self.network
        size = len(next(iter(columns.values())))
        combinations = cell_model_of(problem).combinations
        base = np.zeros((problem.n_arms, len(combinations), size))
        own = np.zeros((len(combinations), size))
        for place, combination in enumerate(combinations):
            fixed = zip(problem.attributes, combination, strict=True)
            known = {**columns, **{node: np.full(size, state) for node, state in fixed}}
            for node in self.free:
                for arms, source in self._sources(node):
                    base[arms, place] += log_values(network, node, source, known)
            for node in problem.attributes:
                own[place] += log_values(network, node, _source(network, node), known)
        return base, own

    def _sources(self, node: str) -> list[tuple[int | slice, Any]]:
        """Return pairs of arms (one index, or all) and a node's distribution under them."""
        if node == self.problem.intervened:
            return list(enumerate(self.problem.arms.values()))
        return [(slice(None), _source(self.network, node))]

    def integrate(self, function: Callable[[Floats], Floats]) -> Integral:
        """Return integrals over the real-valued nodes of a function of points, shape (n, m)."""
        dimensions = len(self.real)
        if dimensions == 0:
            value = function(np.zeros((1, 0)))[0]
            return Integral(value, np.zeros_like(value))
        centre, scale = self._place()

        def scaled(points: Floats) -> Floats:
            with np.errstate(all="ignore"):
                return np.asarray(function(centre + scale * points) * scale.prod())

        found = scipy.integrate.cubature(
            scaled,
            np.full(dimensions, -np.inf),
            np.full(dimensions, np.inf),
            rtol=_RELATIVE,
            atol=_RELATIVE,
            max_subdivisions=_MOST_SUBDIVISIONS[dimensions],
        )
        return Integral(np.asarray(found.estimate), np.asarray(found.error))

    def scan(self) -> Floats:
        """Return near and very far points, shape (n, dimensions), to find the largest term."""
        dimensions = len(self.real)
        half = np.sinh(np.linspace(0.0, _FARTHEST, _SCAN[dimensions] // 2 + 1))
        line = np.concatenate([-half[:0:-1], half])
        centre, scale = self._place()
        points = np.array(list(product(*[line] * dimensions))).reshape(-1, dimensions)
        return np.asarray(centre + scale * points)

    def _place(self) -> tuple[Floats, Floats]:
        """Return location and scale of the real-valued nodes, from a sample if possible."""
        dimensions = len(self.real)
        try:
            sampler = Sampler(self.problem, self.network, self.network.ancestors(self.free))
            arms = np.repeat(np.arange(self.problem.n_arms), _PILOT)
            drawn = sampler.draw(arms, np.full(len(arms), -1), np.random.default_rng(0))
        except ModelError:
            return np.zeros(dimensions), np.ones(dimensions)
        quartiles = np.array([np.quantile(drawn[node], [0.25, 0.5, 0.75]) for node in self.real])
        width = (quartiles[:, 2] - quartiles[:, 0]) / 1.35 if dimensions else np.ones(0)
        centre = quartiles[:, 1] if dimensions else np.zeros(0)
        return centre, np.where(width > 0.0, width, 1.0)

    def has_mass(self, mass: Floats) -> bool:
        """Return whether probabilities add to one closely enough to trust the integrals.

        Raises
        ------
        ModelError
            If they are so far off that the densities must be wrong, or were not located.
        """
        off = float(np.abs(mass - 1.0).max())
        if not off < _WRONG:
            raise ModelError(
                "densities",
                f"must integrate to one; got {float(mass.flat[np.argmax(np.abs(mass - 1.0))]):g} "
                f"over {', '.join(self.real)}: check logpdf, and give `sample`, which tells where "
                "to look",
            )
        return off < _MASS


def _source(network: CausalModel, node: str) -> Any:
    table = network.tables.get(node)
    return network.densities[node] if table is None else table


def integrated_effects(
    problem: Problem, network: CausalModel, nodes: Collection[str]
) -> tuple[Floats, Floats, Floats] | None:
    """Return effects, their errors, (K, values, observed), and shares; None if too many terms."""
    grid = Grid(problem, network, nodes)
    if not grid.is_small:
        return None
    shape = (problem.n_arms, len(problem.values), len(problem.values))

    def terms(points: Floats) -> Floats:
        columns = grid.columns(points)
        base, own = grid.logs(columns)
        p = np.exp(base[:, :, None] + own).reshape(*shape, len(points), -1)
        numbers = problem.numbers_of(columns[problem.outcome_node]).reshape(len(points), -1)
        first = np.einsum("kaons,ns->nkao", p, np.where(np.isfinite(numbers), numbers, 0.0))
        mass = p.sum(axis=-1).transpose(3, 0, 1, 2)
        return np.concatenate([first.reshape(len(points), -1), mass.reshape(len(points), -1)], 1)

    found = grid.integrate(terms)
    first, mass = np.split(found.value, 2)
    errors = np.split(found.error, 2)
    mass = mass.reshape(shape)
    if not grid.has_mass(mass.sum(axis=2)):
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        effects = first.reshape(shape) / mass
        error = (errors[0].reshape(shape) + np.abs(effects) * errors[1].reshape(shape)) / mass
    if problem.is_root:
        # Every group has the same effects; the largest group gives the most accurate ones.
        best = int(np.argmax(mass[0, 0]))
        effects, error = effects[:, :, best : best + 1], error[:, :, best : best + 1]
    return effects, error, mass[0, 0] / mass[0, 0].sum()


def integrated_divergences(problem: Problem, cap: float) -> Integral | None:
    """Return M, shape (K, K), and every pair's D in one array, shape (1 + pairs, K, K).

    Terms are integrated in units of the largest term; if that exceeds the cap, the result is
    infinite.
    """
    cell_model = cell_model_of(problem)
    grid = Grid(problem, problem.model, problem.model.ancestors(cell_model.nodes))
    if not grid.is_small or cell_model.shares is None:
        return None
    shares = cell_model.shares
    places = [(problem.values.index(a), problem.values.index(b)) for a, b in problem.value_pairs]
    shape = (1 + len(places), problem.n_arms, problem.n_arms)

    def log_terms(points: Floats) -> list[Floats]:
        return _log_divergence_terms(grid, shares, places, points)

    scanned = log_terms(grid.scan())
    top = np.array([part.max(axis=(2, 3), initial=-np.inf) for part in scanned])
    infinite = ~(top <= cap)
    shift = np.where(infinite | np.isneginf(top), 0.0, top)

    def terms(points: Floats) -> Floats:
        parts = [
            np.exp(np.minimum(part - up[:, :, None, None], 700.0)).sum(axis=3)
            for part, up in zip(log_terms(points), shift, strict=True)
        ]
        table = np.where(infinite[..., None], 0.0, np.array(parts))
        return np.asarray(np.moveaxis(table, -1, 0).reshape(len(points), -1))

    found = grid.integrate(terms)
    value, error = found.value.reshape(shape), found.error.reshape(shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(infinite, np.inf, shift + np.log(value))
    # An arm's own ratio is one everywhere, so its M is one if its mass is one.
    if not grid.has_mass(np.exp(np.diagonal(logs[0]) - 1.0)):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(infinite, 0.0, error / value)
    return Integral(logs, relative)


def _log_divergence_terms(
    grid: Grid, shares: Floats, places: list[tuple[int, int]], points: Floats
) -> list[Floats]:
    """Return log terms of M and of each pair's D, shape (K, K, points, assignments) each.

    `shares`, shape (values,), are the values' probabilities, `places` the pairs' positions.
    """
    problem, cell_model = grid.problem, cell_model_of(grid.problem)
    columns = grid.columns(points)
    with np.errstate(all="ignore"):
        base, own = grid.logs(columns)
        cells = cell_model.gather({**columns, **_nothing(problem, columns)})[1]
        g = cell_model.log_weights(cells).transpose(1, 2, 0)
        ratio = _exp(g[:, None] - g[None])
        result = [_stacked(base + own, ratio, len(points))]
        for a, b in places:
            rise = _exp(g[:, None, a] - g[None, :, b])
            size = np.abs(rise - _exp(g[:, None, b] - g[None, :, b]))
            evidence = 0.0 if problem.is_root else own[b] - np.log(shares[b])
            pair = base[:, [a, b]] + evidence
            result.append(_stacked(pair, np.stack([size, size], axis=2), len(points)))
    return result


def _nothing(problem: Problem, columns: Columns) -> Columns:
    size = len(next(iter(columns.values())))
    return {node: np.zeros(size, dtype=np.int64) for node in problem.attributes}


def _exp(difference: Floats) -> Floats:
    """Return ratios from differences of logs, with 0/0 = 0."""
    return np.where(np.isnan(difference), 0.0, np.exp(difference))


def _stacked(log_probability: Floats, exponents: Floats, points: int) -> Floats:
    """Return log terms of shape (K, K, points, values * assignments).

    `log_probability` has shape (K, values, n), `exponents` (K, K, values, n).
    """
    logs = log_probability[:, None]
    terms = np.where(np.isneginf(logs), -np.inf, logs + exponents)
    arms, _, values, _ = terms.shape
    split = terms.reshape(arms, arms, values, points, -1).transpose(0, 1, 3, 2, 4)
    return split.reshape(arms, arms, points, -1)
