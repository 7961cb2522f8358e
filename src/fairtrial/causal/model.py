"""The causal model: a directed acyclic graph with tables or densities for some nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._bif import read_bif
from fairtrial.causal._pgmpy import read_pgmpy
from fairtrial.causal._states import positions_of
from fairtrial.causal.errors import ModelError
from fairtrial.core.frames import plain_data
from fairtrial.core.parameters import Parametrized
from fairtrial.core.sizes import check_size
from fairtrial.core.validation import (
    check_flag,
    check_instance,
    check_labels,
    check_number,
    check_numbers,
)

__all__ = ["CausalModel", "Density", "ThinRow", "ancestors_in"]

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]

_THIN = 20
_ROUNDING = 1e-12


class Density(NamedTuple):
    """A conditional distribution defined by functions, for nodes without a table.

    Parameters
    ----------
    logpdf : callable
        ``logpdf(x, parents)``: natural logarithm of the density, shape (n,), of the values
        `x`, shape (n,). `parents` maps every parent to its values, shape (n,). Values of a node
        with states are positions in its list of states; other values are real numbers.
    sample : callable, optional
        ``sample(parents, n, generator)``: `n` draws, shape (n,). Needed for simulations and
        divergences.

    Examples
    --------
    >>> def logpdf(x, parents):
    ...     return -0.5 * (x - parents["S"]) ** 2 - 0.5 * np.log(2 * np.pi)
    >>> Density(logpdf).logpdf(np.array([1.0]), {"S": np.array([1])}).round(4)
    array([-0.9189])
    """

    logpdf: Callable[[NDArray[Any], Columns], Floats]
    sample: Callable[[Columns, int, np.random.Generator], NDArray[Any]] | None = None


class ThinRow(NamedTuple):
    """A row of an estimated table that is based on few observations."""

    node: str
    parents: dict[str, str]
    observations: int


class CausalModel(Parametrized):
    """A directed acyclic graph with its known conditional distributions.

    Only the parts that the problem needs have to be given: the graph around the sensitive
    attribute, the intervened node and the outcome, and the distributions of the sensitive
    attribute's children.

    Parameters
    ----------
    edges : sequence of (str, str), or a graph
        Pairs (parent, child), or an object with such an attribute `edges`, for example a
        ``networkx.DiGraph``. The parents of a node are in the order of its edges.
    states : mapping of str to sequence of str, or to int
        Labels of the states of every discrete node, or their number. A node without states
        is real-valued.
    tables : mapping of str to array-like, optional
        Distributions, shape (states of the first parent, ..., states of the node).
    densities : mapping of str to Density, optional
        Distributions defined by functions.
    fitted : bool
        Whether some table was estimated from data; guarantees then say so.
    counts : mapping of str to array-like, optional
        Smoothed counts from which tables were estimated, in the shape of the tables. With them,
        `estimate` can account for the tables' uncertainty.

    Attributes
    ----------
    nodes : tuple of str
        All nodes, parents before children.

    Raises
    ------
    ModelError
        If the graph has a cycle, a table does not fit the graph, or a row of a table is not a
        distribution (tolerance 1e-6); the message names the node and the states of its parents.

    Examples
    --------
    >>> model = CausalModel(
    ...     [("S", "V"), ("V", "Y")],
    ...     states={"S": ["s", "t"], "V": 3, "Y": 2},
    ...     tables={"S": [0.4, 0.6]},
    ... )
    >>> model.parents("V"), model.nodes
    (('S',), ('S', 'V', 'Y'))
    """

    def __init__(
        self,
        edges: Any,
        states: Mapping[str, Sequence[str] | int],
        tables: Mapping[str, Any] | None = None,
        densities: Mapping[str, Density] | None = None,
        fitted: bool = False,
        counts: Mapping[str, Any] | None = None,
    ) -> None:
        known = {"tables": tables, "densities": densities, "counts": counts}
        given = {name: part for name, part in known.items() if part is not None}
        for name, part in {"states": states, **given}.items():
            if not isinstance(part, Mapping):
                raise ModelError(name, "must be a mapping by node", part)
        self.edges = _checked_edges(edges)
        self.states: dict[str, tuple[str, ...]] = {}
        total = 0
        for node, labels in states.items():
            total += labels if isinstance(labels, int) else 1
            check_size("states", "states", total)
            self.states[str(node)] = check_labels(f"states of {node}", labels)
        self.densities = dict(densities or {})
        for node, density in self.densities.items():
            check_instance(f"densities[{node}]", density, Density)
        self.fitted = check_flag("fitted", fitted)
        self._parents = self._parents_by_node()
        self.nodes = self._sorted_nodes()
        self.tables: dict[str, Floats] = {}
        self._require_nodes("tables", tables or {})
        self._require_nodes("densities", self.densities)
        for node, table in (tables or {}).items():
            self.tables[node] = self.check_table(node, table)
        self.counts = {
            node: self._checked_counts(node, table) for node, table in (counts or {}).items()
        }
        self.thin_rows: tuple[ThinRow, ...] = ()

    # -------------------------------------------------------------------- reading

    @classmethod
    def from_bif(cls, path: str | Path) -> Self:
        """Return the discrete network in a BIF file (also gzip-compressed, ending in .gz).

        Raises
        ------
        BIFError
            If the file is not well-formed; the message names the line.
        InvalidArgument
            If the file cannot be read.

        Examples
        --------
        >>> from fairtrial.data import hepar2
        >>> model = CausalModel.from_bif(hepar2())
        >>> len(model.nodes), len(model.edges), model.parents("PBC")
        (70, 123, ('sex', 'age'))
        """
        return cls(*read_bif(path))

    @classmethod
    def from_pgmpy(cls, model: Any) -> Self:
        """Return the network of a pgmpy ``DiscreteBayesianNetwork``.

        pgmpy is not imported: any object with `nodes()` and `get_cpds(node)` works.

        Raises
        ------
        ModelError
            If a node has no distribution, or a row is not a distribution.
        """
        return cls(*read_pgmpy(model))

    # ------------------------------------------------------------------ structure

    def parents(self, node: str) -> tuple[str, ...]:
        """Return the parents of a node, in the order of its table's axes."""
        return self._parents[node]

    def children(self, node: str) -> tuple[str, ...]:
        """Return the children of a node."""
        return tuple(child for child in self.nodes if node in self._parents[child])

    def ancestors(self, nodes: Sequence[str]) -> frozenset[str]:
        """Return `nodes` and all nodes from which a directed path leads to one of them."""
        return frozenset(ancestors_in(self._parents, nodes))

    def descendants(self, node: str) -> frozenset[str]:
        """Return `node` and all nodes to which a directed path leads from it."""
        found = {node}
        for other in self.nodes:
            if found & set(self._parents[other]):
                found.add(other)
        return frozenset(found)

    def size(self, node: str) -> int:
        """Return the number of states of a discrete node."""
        return len(self.states[node])

    def is_discrete(self, node: str) -> bool:
        """Return whether the node has states, so it is not real-valued."""
        return node in self.states

    def is_known(self, node: str) -> bool:
        """Return whether the node's distribution is given."""
        return node in self.tables or node in self.densities

    # ------------------------------------------------------------------ estimation

    def fit(
        self,
        table: Any,
        nodes: Sequence[str] | None = None,
        smoothing: float = 0.5,
    ) -> Self:
        """Return the model with distributions estimated from data by smoothed counts.

        `thin_rows` of the result lists rows that are based on fewer than 20 observations.

        Parameters
        ----------
        table : mapping of str to sequence, or data frame
            Columns by node, one row per observation.
        nodes : sequence of str, optional
            Discrete nodes to estimate; by default all nodes without a known distribution for which
            the table has the columns of the node and of its parents. Do not fit the intervened node
            from data of several arms, or the sensitive node from forced rows.
        smoothing : float
            Number added to every count; not negative.

        Raises
        ------
        ModelError
            If a column is missing, a node is not discrete, or a row has no observations and there
            is no smoothing.

        Examples
        --------
        >>> model = CausalModel([("S", "X")], {"S": ["a", "b"], "X": ["no", "yes"]})
        >>> fit = model.fit({"S": ["a", "a", "b"], "X": ["no", "yes", "yes"]})
        >>> fit.tables["X"].tolist()
        [[0.5, 0.5], [0.25, 0.75]]
        >>> fit.thin_rows[2]
        ThinRow(node='X', parents={'S': 'b'}, observations=1)
        """
        extra = check_number("smoothing", smoothing, low=0.0)
        table = plain_data(table)
        if not (isinstance(table, Mapping) or hasattr(table, "columns")):
            raise ModelError("table", "must be a mapping of columns, or a DataFrame", table)
        chosen = self._fittable(table) if nodes is None else list(nodes)
        tables, known = dict(self.tables), dict(self.counts)
        thin = list(self.thin_rows)
        for node in chosen:
            counts = self._counts(table, node)
            thin += self._thin_rows(node, counts)
            smoothed = counts + extra
            totals = smoothed.sum(axis=-1, keepdims=True)
            if (totals == 0).any():
                raise ModelError(node, "has parent states without any observation; smooth them")
            tables[node], known[node] = smoothed / totals, smoothed
        densities = {name: value for name, value in self.densities.items() if name not in chosen}
        result = type(self)(self.edges, self.states, tables, densities, True, known)
        result.thin_rows = tuple(thin)
        return result

    def redrawn(self, generator: np.random.Generator) -> Self:
        """Return the model with every estimated table redrawn around its estimate.

        Each row is drawn from the Dirichlet distribution of its smoothed counts (the Bayesian
        bootstrap of Rubin 1981). Its mean is the estimate; it varies more if the counts are small.

        Examples
        --------
        >>> model = CausalModel([("S", "X")], {"S": ["a", "b"], "X": ["no", "yes"]})
        >>> fit = model.fit({"S": ["a"] * 40 + ["b"], "X": ["no", "yes"] * 20 + ["yes"]})
        >>> drawn = [fit.redrawn(np.random.default_rng(k)).tables["X"] for k in range(500)]
        >>> np.std(drawn, axis=0)[:, 0].round(2)
        array([0.08, 0.25])
        """
        tables = dict(self.tables)
        for node, counts in self.counts.items():
            drawn = generator.standard_gamma(counts)
            totals = drawn.sum(axis=-1, keepdims=True)
            tables[node] = np.where(
                totals > 0.0, drawn / np.where(totals > 0.0, totals, 1.0), self.tables[node]
            )
        return self.clone(tables=tables)

    def _checked_counts(self, node: str, counts: Any) -> Floats:
        table = self.tables.get(node)
        array = check_numbers(f"counts of {node}", counts, low=0.0)
        if table is None or array.shape != table.shape:
            raise ModelError(f"counts of {node}", "must have its table's shape")
        return array

    def _fittable(self, table: Any) -> list[str]:
        return [
            node
            for node in self.nodes
            if not self.is_known(node)
            and all(self.is_discrete(name) and name in table for name in self._family(node))
        ]

    def _counts(self, table: Any, node: str) -> Floats:
        family = self._family(node)
        codes = [self.encode(name, _column(table, name)) for name in family]
        shape = tuple(self.size(name) for name in family)
        flat = np.ravel_multi_index(codes, shape)
        return np.bincount(flat, minlength=math.prod(shape)).reshape(shape).astype(float)

    def _thin_rows(self, node: str, counts: Floats) -> list[ThinRow]:
        totals = counts.sum(axis=-1)
        return [
            ThinRow(node, self._parent_states(node, index), int(totals[index]))
            for index in np.ndindex(totals.shape)
            if totals[index] < _THIN
        ]

    def encode(self, node: str, values: Sequence[Any]) -> NDArray[np.int64]:
        """Return the positions of states in the node's list, shape (n,).

        Raises
        ------
        ModelError
            If the node has no states, or a value is not a state; the message names the row.
        """
        if not self.is_discrete(node):
            raise ModelError(node, "must be a discrete node")
        given = values.tolist() if hasattr(values, "tolist") else values
        codes = positions_of(given, self.states[node])
        if (codes < 0).any():
            row = int(np.argmin(codes))
            known = ", ".join(map(repr, self.states[node]))
            raise ModelError(f"row {row}: {node}", f"must be one of {known}", given[row])
        return codes

    # ----------------------------------------------------------------------- checks

    def check_table(self, node: str, table: Any, name: str | None = None) -> Floats:
        """Return a table of the node's distribution as an array whose rows add up to one.

        Raises
        ------
        ModelError
            If the shape does not fit, or a row is not a distribution.
        """
        shown = name or f"table of {node}"
        family = self._family(node)
        for member in family:
            if not self.is_discrete(member):
                raise ModelError(shown, f"needs states of {member!r}, which has none")
        shape = tuple(self.size(member) for member in family)
        try:
            array = np.array(table, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ModelError(shown, "must be an array of numbers", table) from None
        if array.shape != shape:
            raise ModelError(shown, f"must have shape {shape}, for {family}; got {array.shape}")
        self._require_distributions(shown, node, array)
        totals = array.sum(axis=-1, keepdims=True)
        # Rows are only scaled if they are noticeably off, so a stored table is read back unchanged.
        array = np.where(np.abs(totals - 1.0) > _ROUNDING, array / totals, array)
        array.setflags(write=False)
        return array

    def _require_distributions(self, shown: str, node: str, array: Floats) -> None:
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(array.sum(axis=-1) - 1.0) <= 1e-6) | ~(array >= 0.0).all(axis=-1)
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            states = self._parent_states(node, index)
            where = ", ".join(f"{parent}={state}" for parent, state in states.items())
            row = f"{shown}, row {where}" if where else shown
            raise ModelError(
                row, "must be non-negative numbers that add to one", array[index].tolist()
            )

    def _parent_states(self, node: str, index: tuple[int, ...]) -> dict[str, str]:
        return {
            parent: self.states[parent][position]
            for parent, position in zip(self._parents[node], index, strict=True)
        }

    def _family(self, node: str) -> tuple[str, ...]:
        if node not in self._parents:
            raise ModelError("node", f"must be one of {', '.join(self.nodes)}", node)
        return (*self._parents[node], node)

    def _parents_by_node(self) -> dict[str, tuple[str, ...]]:
        parents: dict[str, list[str]] = {node: [] for node in self.states}
        for node in self.densities:
            parents.setdefault(node, [])
        for parent, child in self.edges:
            parents.setdefault(parent, [])
            parents.setdefault(child, []).append(parent)
        return {node: tuple(names) for node, names in parents.items()}

    def _sorted_nodes(self) -> tuple[str, ...]:
        try:
            return tuple(TopologicalSorter(self._parents).static_order())
        except CycleError as error:
            cycle = " -> ".join(error.args[1])
            raise ModelError("edges", f"must have no directed cycle; found {cycle}") from None

    def _require_nodes(self, name: str, given: Mapping[str, Any]) -> None:
        for node in given:
            if node not in self._parents:
                raise ModelError(name, f"must be of nodes among {', '.join(self.nodes)}", node)


def _checked_edges(edges: Any) -> tuple[tuple[str, str], ...]:
    is_directed = getattr(edges, "is_directed", None)
    if callable(is_directed) and not is_directed():
        raise ModelError("edges", "must be directed", edges)
    given = getattr(edges, "edges", edges)
    given = given() if callable(given) else given
    try:
        pairs = tuple((str(parent), str(child)) for parent, child in given)
    except (TypeError, ValueError):
        raise ModelError("edges", "must be pairs (parent, child)", edges) from None
    repeated = sorted({pair for pair in pairs if pairs.count(pair) > 1})
    if repeated:
        raise ModelError("edges", "must be distinct", repeated[0])
    return pairs


def _column(table: Any, name: str) -> Sequence[Any]:
    try:
        column: Sequence[Any] = table[name]
    except (KeyError, TypeError, IndexError):
        raise ModelError("table", f"must have the column {name!r}") from None
    return column


def ancestors_in(parents: Mapping[str, Iterable[str]], nodes: Iterable[str]) -> set[str]:
    """Return `nodes` and all nodes from which a directed path leads to one of them.

    Examples
    --------
    >>> sorted(ancestors_in({"a": (), "b": ("a",), "c": ("b",), "d": ("a",)}, ["c"]))
    ['a', 'b', 'c']
    """
    found: set[str] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += parents[node]
    return found
