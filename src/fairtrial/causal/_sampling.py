"""Forward sampling from a network whose intervened node follows an arm."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._row_source import RowSource
from fairtrial.causal.errors import ModelError
from fairtrial.causal.model import CausalModel, Density

if TYPE_CHECKING:
    from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Columns = dict[str, NDArray[Any]]


class Sampler:
    """Draws rows of some nodes, parents first.

    A row uses one uniform number for every node with a table, in the order of the nodes, even for
    forced sensitive nodes. So drawing many rows at once gives the same rows as drawing them one
    after another.
    """

    def __init__(self, problem: Problem, network: CausalModel, nodes: Collection[str]) -> None:
        self.problem = problem
        self.network = network
        self.nodes = [node for node in network.nodes if node in nodes]
        self.combinations = np.array(cell_model_of(problem).combinations, dtype=np.int64)
        for node in self.nodes:
            if node != problem.intervened:
                self._require_known(node)
        self._tables = {
            node: _cumulated(network.tables[node])
            for node in self.nodes
            if node in network.tables and node != problem.intervened
        }
        arms = list(problem.arms.values())
        self.has_densities = any(isinstance(arm, Density) for arm in arms) or any(
            node in network.densities for node in self.nodes
        )
        self._arm_table: Floats | None = None
        if not any(isinstance(arm, Density) for arm in arms):
            self._arm_table = _cumulated(np.array(arms))
        self._drawn = [
            node
            for node in self.nodes
            if node in self._tables or (node == problem.intervened and self._arm_table is not None)
        ]

    def _require_known(self, node: str) -> None:
        if node in self.network.tables:
            return
        density = self.network.densities.get(node)
        if density is None or density.sample is None:
            raise ModelError(f"distribution of {node}", "is needed to draw rows of the model")

    def draw(self, arms: Integers, forced: Integers, generator: np.random.Generator) -> Columns:
        """Return the columns of one row for each arm; positions of states, or real numbers.

        Parameters
        ----------
        arms : ndarray of int, shape (n,)
            The arm that the intervened node follows.
        forced : ndarray of int, shape (n,)
            Position of the value to which the sensitive attribute is forced, or -1.
        generator : numpy.random.Generator
            The randomness.
        """
        uniforms = generator.random((len(arms), len(self._drawn)))
        place = {node: column for column, node in enumerate(self._drawn)}
        columns: Columns = {}
        for node in self.nodes:
            if node == self.problem.intervened and self._arm_table is None:
                columns[node] = self._from_arms(arms, columns, generator)
            elif node in place:
                columns[node] = self._from_table(node, arms, columns, uniforms[:, place[node]])
            else:
                columns[node] = self._from_density(
                    self.network.densities[node], node, columns, len(arms), generator
                )
            if node in self.problem.attributes:
                attribute = self.problem.attributes.index(node)
                wanted = self.combinations[forced, attribute]
                columns[node] = np.where(forced >= 0, wanted, columns[node])
        return columns

    def _from_table(
        self, node: str, arms: Integers, columns: Columns, uniforms: Floats
    ) -> Integers:
        parents = self.network.parents(node)
        index: tuple[Any, ...] = tuple(columns[parent] for parent in parents)
        if node == self.problem.intervened:
            assert self._arm_table is not None
            limits = self._arm_table[(arms, *index)]
        else:
            limits = self._tables[node][index]
        codes: Integers = (uniforms[:, None] >= limits).sum(axis=1)
        return codes

    def source(self) -> RowSource | None:
        """Return the source from which compiled code draws the same rows; None if it cannot.

        Compiled code needs tables of all nodes, cells that can be listed, and numbers for the
        outcome's states.
        """
        problem, cell_model = self.problem, cell_model_of(self.problem)
        numbers, arm_table = problem.outcome_numbers, self._arm_table
        if arm_table is None or self.has_densities or numbers is None:
            return None
        if not cell_model.is_tabulated:
            return None
        place = {node: column for column, node in enumerate(self.nodes)}
        tables = [
            arm_table if node == problem.intervened else self._tables[node] for node in self.nodes
        ]
        parents = [[place[p] for p in self.network.parents(node)] for node in self.nodes]
        sizes = [table.size for table in tables]
        # The last axis holds the borders of one table, the axes before it the parents' states.
        steps = [_strides(table.shape)[:-1] for table in tables]
        arms = {problem.intervened: steps[place[problem.intervened]][0]}
        attributes = {node: column for column, node in enumerate(problem.attributes)}
        values = [self.network.size(node) for node in problem.attributes]
        return RowSource(
            borders=np.concatenate([table.ravel() for table in tables]),
            start=np.cumsum([0, *sizes[:-1]]),
            width=np.array([table.shape[-1] for table in tables]),
            arm_step=self._for_nodes(arms),
            parents=_padded(parents, -1),
            steps=_padded(
                [own[len(own) - len(known) :] for own, known in zip(steps, parents, strict=True)], 0
            ),
            attribute=self._for_nodes(attributes, -1),
            combinations=self.combinations,
            value_step=self._for_nodes(
                dict(zip(problem.attributes, _strides(values), strict=True))
            ),
            cell_step=self._for_nodes(
                dict(zip(cell_model.nodes, _strides(cell_model.shape), strict=True))
            ),
            outcome=place[problem.outcome_node],
            numbers=np.asarray(problem.scaled(numbers), dtype=np.float64),
        )

    def _for_nodes(self, given: Mapping[str, int], other: int = 0) -> Integers:
        return np.array([given.get(node, other) for node in self.nodes], dtype=np.int64)

    def _from_density(
        self, density: Density, node: str, columns: Columns, n: int, generator: np.random.Generator
    ) -> NDArray[Any]:
        if density.sample is None:
            raise ModelError(f"distribution of {node}", "needs a sampler to draw rows of the model")
        given = {parent: columns[parent] for parent in self.network.parents(node)}
        return np.broadcast_to(np.asarray(density.sample(given, n, generator)), (n,))

    def _from_arms(
        self, arms: Integers, columns: Columns, generator: np.random.Generator
    ) -> NDArray[Any]:
        node = self.problem.intervened
        result = np.empty(len(arms))
        for arm, source in enumerate(self.problem.arms.values()):
            chosen = arms == arm
            n = int(chosen.sum())
            given = {parent: columns[parent][chosen] for parent in self.network.parents(node)}
            if n and isinstance(source, Density):
                result[chosen] = self._from_density(source, node, given, n, generator)
            elif n:
                limits = _cumulated(source)[tuple(given.values())]
                result[chosen] = (generator.random(n)[:, None] >= limits).sum(axis=1)
        return result.astype(np.int64) if self.network.is_discrete(node) else result


def _cumulated(table: Floats) -> Floats:
    """Return the borders between the states; 1 where no probability is left beyond."""
    borders = np.cumsum(table, axis=-1)[..., :-1]
    left = np.cumsum(table[..., :0:-1], axis=-1)[..., ::-1]
    return np.where(left > 0.0, borders, 1.0)


def _strides(shape: Sequence[int]) -> list[int]:
    """Return the distance of neighbours along every axis in a flat array."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _padded(rows: Sequence[Sequence[int]], other: int) -> Integers:
    """Return rows of unequal length as one array, padded at the end."""
    result = np.full((len(rows), max(map(len, rows))), other, dtype=np.int64)
    for row, values in zip(result, rows, strict=True):
        row[: len(values)] = values
    return result
