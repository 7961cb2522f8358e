"""A causal model as arrays: cells, the arms' weights in them, and the cells' probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._classes import Classes
from fairtrial.causal._factors import Factor, shares_of, spread, sum_product, table_factor
from fairtrial.causal._separation import predictors
from fairtrial.causal.errors import ModelError
from fairtrial.causal.model import CausalModel, Density
from fairtrial.causal.problem import Problem
from fairtrial.errors import InvalidOutcome

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MOST_WEIGHTS = 4_000_000


class Rows(NamedTuple):
    """Rows as the estimators see them; the outcome is scaled to [0, 1], larger is better.

    `cells` holds the positions of cells, shape (n,), if the cells are tabulated; otherwise it holds
    the values of the cell's nodes, shape (n, nodes).
    """

    arm: Integers
    forced: NDArray[np.bool_]
    value: Integers
    cells: NDArray[Any]
    outcome: Floats


class CellModel:
    """A problem's causal model by cells: a cell is a combination of states of the relevant nodes.

    For arm k, value u and cell z, the weight is the product

    g[k, u, z] = P_k(V given its parents) * product over carriers X of P(X given its parents)

    with the sensitive attribute at u. The probability of z under arm k in the group that is
    observed with value u is g[k, u, z] h[u, z], where h is common to all arms. If that group had
    value a instead, it would be g[k, a, z] h[u, z]. If the attribute is a root, h is the same for
    all u.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.model = problem.model
        self.nodes = problem.cell_nodes
        self.combinations = list(
            product(*(range(self.model.size(node)) for node in problem.attributes))
        )
        self.n_values = len(self.combinations)
        self.n_groups = 1 if problem.is_root else self.n_values

    # ----------------------------------------------------------------------- shapes

    @cached_property
    def is_discrete(self) -> bool:
        """Whether all cells can be listed."""
        problem, model = self.problem, self.model
        others = [node for node in problem.carriers if node != problem.intervened]
        return (
            all(model.is_discrete(node) for node in self.nodes)
            and all(node in model.tables for node in others)
            and not any(isinstance(arm, Density) for arm in problem.arms.values())
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of states of every node of the cell."""
        return tuple(self.model.size(node) for node in self.nodes)

    @cached_property
    def is_tabulated(self) -> bool:
        """Whether the cells are few enough to keep all weights in a table."""
        if not self.is_discrete:
            return False
        return math.prod(self.shape) * self.n_values * self.problem.n_arms <= _MOST_WEIGHTS

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    @cached_property
    def shares(self) -> Floats | None:
        """Probability of every value of the sensitive attribute, if the model contains it."""
        return shares_of(self.model, self.problem.attributes)

    def group(self, value: Integers) -> Integers:
        """Return the group whose effects rows with these values inform about, shape (n,)."""
        return np.zeros_like(value) if self.n_groups == 1 else value

    def codes_of(self, nodes: Sequence[str]) -> Integers:
        """Return a number for the combination of some nodes' states in every cell, (cells,)."""
        places = np.unravel_index(np.arange(self.n_cells), self.shape)
        codes = np.zeros(self.n_cells, dtype=np.int64)
        for node in nodes:
            axis = self.nodes.index(node)
            codes = codes * self.shape[axis] + places[axis]
        return codes

    @cached_property
    def classes(self) -> Classes:
        """Classes of cells that have the same mean outcome according to the graph."""
        nodes = predictors(self.problem)
        return Classes(math.prod(map(self.model.size, nodes)), self.codes_of(nodes))

    @cached_property
    def outside_codes(self) -> Integers:
        """Number of the combination of the outside nodes' states in every cell, shape (cells,)."""
        return self.codes_of(self.problem.outside_nodes)

    @cached_property
    def joint_codes(self) -> Integers:
        """Number of the combination of outside nodes and class in every cell, shape (cells,)."""
        both = self.outside_codes * self.classes.number + self.classes.of_cell
        return np.asarray(np.unique(both, return_inverse=True)[1], dtype=np.int64)

    # ---------------------------------------------------------------------- weights

    def factors(self) -> list[Factor]:
        """Return the tables of all carriers except the intervened node, which the arms define."""
        return [
            table_factor(self.model, node)
            for node in self.problem.carriers
            if node != self.problem.intervened
        ]

    @cached_property
    def arm_tables(self) -> Floats:
        """The arms' tables, shape (K, states of the first parent, ..., own states)."""
        return np.array(list(self.problem.arms.values()))

    @cached_property
    def g(self) -> Floats:
        """The weights, shape (K, values, cells)."""
        names = ("", *self.problem.attributes, *self.nodes)
        intervened = self.problem.intervened
        family = ("", *self.model.parents(intervened), intervened)
        result = spread(Factor(family, self.arm_tables), names)
        for factor in self.factors():
            result = result * spread(factor, names)
        sizes = [self.model.size(node) for node in self.problem.attributes]
        full = np.broadcast_to(result, (self.problem.n_arms, *sizes, *self.shape))
        return full.reshape(self.problem.n_arms, self.n_values, self.n_cells)

    @cached_property
    def is_possible(self) -> NDArray[np.bool_]:
        """Which cells are possible, shape (K, values, cells)."""
        return self.g > 0.0

    @cached_property
    def log_g(self) -> Floats:
        """Logarithms of the weights, shape (cells, K, values)."""
        with np.errstate(divide="ignore"):
            return np.ascontiguousarray(np.log(self.g).transpose(2, 0, 1))

    @cached_property
    def h(self) -> Floats | None:
        """The part h of the cells' probabilities, shape (values, cells), if it is known."""
        problem, model = self.problem, self.model
        own = {problem.intervened, *problem.carriers}
        roots = set(problem.attributes) if problem.is_root else set()
        needed = model.ancestors([*self.nodes, *problem.attributes]) - own - roots
        if any(node not in model.tables for node in needed):
            return None
        factors = [table_factor(model, node) for node in sorted(needed)]
        try:
            result = sum_product(factors, (*problem.attributes, *self.nodes))
        except ModelError:
            return None
        sizes = [model.size(node) for node in problem.attributes]
        joint = np.broadcast_to(result, (*sizes, *self.shape)).reshape(self.n_values, -1)
        if problem.is_root:
            return joint
        if self.shares is None:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(joint > 0.0, joint / self.shares[:, None], 0.0)

    def log_weights(self, cells: NDArray[Any]) -> Floats:
        """Return the logarithms of the weights of given rows, shape (n, K, values)."""
        if self.is_tabulated:
            result: Floats = self.log_g[cells]
            return result
        columns = {node: cells[:, place] for place, node in enumerate(self.nodes)}
        result = np.empty((len(cells), self.problem.n_arms, self.n_values))
        for place, combination in enumerate(self.combinations):
            fixed = dict(zip(self.problem.attributes, combination, strict=True))
            known = {**columns, **{n: np.full(len(cells), c) for n, c in fixed.items()}}
            result[:, :, place] = self._log_arms(known)
            for node in self.problem.carriers:
                if node != self.problem.intervened:
                    table = self.model.tables.get(node)
                    source = self.model.densities[node] if table is None else table
                    result[:, :, place] += log_values(self.model, node, source, known)[:, None]
        return result

    def _log_arms(self, columns: Mapping[str, NDArray[Any]]) -> Floats:
        node = self.problem.intervened
        arms = self.problem.arms.values()
        return np.stack([log_values(self.model, node, arm, columns) for arm in arms], axis=1)

    # --------------------------------------------------------------------- encoding

    @cached_property
    def _state_positions(self) -> dict[str, dict[str, int]]:
        return {
            node: {state: place for place, state in enumerate(states)}
            for node, states in self.model.states.items()
        }

    def encode(self, row: Mapping[str, Any]) -> tuple[int, Any, float]:
        """Return value, cell and scaled outcome of a validated row."""
        problem, positions = self.problem, self._state_positions
        value = 0
        for node in problem.attributes:
            value = value * self.model.size(node) + positions[node][row[node]]
        codes = []
        for node in self.nodes:
            if node == problem.outcome_node:
                codes.append(problem.outcome_positions[row[node]])
            elif node in positions:
                codes.append(positions[node][row[node]])
            else:
                codes.append(row[node])
        cell: Any = codes
        if self.is_tabulated:
            cell = 0
            for code, size in zip(codes, self.shape, strict=True):
                cell = cell * size + code
        return value, cell, float(problem.scaled(row[problem.outcome_node]))

    def gather(self, columns: Mapping[str, NDArray[Any]]) -> tuple[Integers, NDArray[Any]]:
        """Return the values and the cells, shape (n,) or (n, nodes), for columns of positions."""
        attributes = self.problem.attributes
        value = np.zeros(len(columns[attributes[0]]), dtype=np.int64)
        for node in attributes:
            value = value * self.model.size(node) + columns[node]
        if not self.is_tabulated:
            cells = np.empty((len(value), len(self.nodes)))
            for place, node in enumerate(self.nodes):
                cells[:, place] = columns[node]
            return value, cells
        cell = np.zeros(len(value), dtype=np.int64)
        for node, size in zip(self.nodes, self.shape, strict=True):
            cell = cell * size + columns[node]
        return value, cell

    def require_possible(self, rows: Rows) -> None:
        """Raise if a row is impossible under its own arm.

        Raises
        ------
        InvalidOutcome
            If a row is impossible; the message names the first one.
        """
        if self.is_tabulated:
            possible = self.is_possible[rows.arm, rows.value, rows.cells]
        else:
            logs = self.log_weights(rows.cells)
            possible = logs[np.arange(len(rows.arm)), rows.arm, rows.value] > -np.inf
        if not possible.all():
            row = int(np.argmin(possible))
            arm = self.problem.arm_labels[rows.arm[row]]
            raise InvalidOutcome(
                f"row {row}",
                f"has probability zero under its own arm {arm!r}: model and record disagree",
            )


def cell_model_of(problem: Problem) -> CellModel:
    """Return the problem's model by cells; it is made at the first call."""
    if CellModel not in problem.cache:
        problem.cache[CellModel] = CellModel(problem)
    found: CellModel = problem.cache[CellModel]
    return found


def log_values(
    model: CausalModel, node: str, source: Any, columns: Mapping[str, NDArray[Any]]
) -> Floats:
    """Return log P(node given its parents) for every row, from a table or a density."""
    parents = model.parents(node)
    if isinstance(source, Density):
        given = {parent: _typed(model, parent, columns[parent]) for parent in parents}
        values = np.asarray(source.logpdf(_typed(model, node, columns[node]), given), float)
        return np.broadcast_to(values, columns[node].shape)
    with np.errstate(divide="ignore"):
        logs = np.log(source)
    index = tuple(np.asarray(columns[name], dtype=np.int64) for name in (*parents, node))
    result: Floats = logs[index]
    return result


def _typed(model: CausalModel, node: str, values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.int64) if model.is_discrete(node) else values
