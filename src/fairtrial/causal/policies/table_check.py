"""A test, valid at all times, of whether rows are distributed as the tables of the model say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal.policies.cell_check import FALSE_ALARM
from fairtrial.causal.problem import Problem

__all__ = ["TableTest", "log_evidence_against_table"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SIZES = np.array([0.05, 0.2, 0.5, 1.0, 2.0, 4.0])
_TILTS = np.concatenate([_SIZES, -_SIZES])[:, None, None]
_EVERY, _OFTEN_UNTIL = 10, 500
"""A look takes longer than all else that a row needs: every tenth of 500 rows, later fewer."""


def log_evidence_against_table(
    hits: Floats, table: Floats, missing: int = 0, sizes: Sequence[int] = ()
) -> float:
    """Return the logarithm of an e-value against "states are distributed as in the table".

    Parameters
    ----------
    hits : ndarray of shape (strata, states)
        Number of received rows, by the combination of the parents' states and by state.
    table : ndarray of shape (strata, states)
        Probability of each state in each stratum.
    missing : int
        Number of rows that were drawn but not received, for any reason.
    sizes : sequence of int
        Number of states of each parent; their product is the number of strata.

    Notes
    -----
    A row of a stratum in which a state has probability p contributes the factor
    ``exp(t hit) / (1 - p + p exp(t))``. Its mean is one given the rows before it, and rows of other
    strata have the factor one. So the product of the factors of any set of strata is a
    supermartingale that starts at one, and so is the average over tilts t, over states, and over
    sets: every stratum, those that agree in the state of one parent, and all together. Missing rows
    count as the smallest factor that they could have.

    Examples
    --------
    >>> even = np.array([[0.5, 0.5]])
    >>> log_evidence_against_table(np.array([[52.0, 48.0]]), even) < math.log(1000)
    True
    >>> log_evidence_against_table(np.array([[80.0, 20.0]]), even) > math.log(1000)
    True
    """
    seen = np.flatnonzero(hits.any(axis=1))
    rows, chances = hits[seen], table[seen]
    norms = _log_norms(chances)
    logs = _TILTS * rows - rows.sum(axis=1)[:, None] * norms
    # The mean of exp(t hit) is monotone in the probability of the state.
    ends = np.stack([table.min(axis=0), table.max(axis=0)])
    lost = missing * _worst(_log_norms(ends)).max(axis=1, keepdims=True)
    every = _log_mean_of_sets(logs - missing * _worst(norms), len(table))
    together = _log_mean_of_sets(logs.sum(axis=1, keepdims=True) - lost, 1)
    kinds = [every, together]
    for codes, size in zip(np.unravel_index(seen, sizes) if sizes else (), sizes, strict=True):
        sums = np.stack([logs[:, codes == code].sum(axis=1) for code in range(size)], axis=1)
        kinds.append(_log_mean_of_sets(sums - lost, size))
    return _mean(np.array(kinds))


def _log_norms(chances: Floats) -> Floats:
    """Return log(1 - p + p exp(t)), shape (tilts, strata, states)."""
    return np.asarray(np.log1p(chances * np.expm1(_TILTS)))


def _worst(norms: Floats) -> Floats:
    """Return by how much a missing row can reduce the logarithm, whatever it would have been."""
    return np.asarray(np.maximum(0.0, np.maximum(norms, norms - _TILTS)))


def _log_sum(logs: Floats) -> float:
    if not logs.size:
        return -math.inf
    largest = float(logs.max())
    return largest + math.log(float(np.exp(logs - largest).sum()))


def _log_mean_of_sets(logs: Floats, sets: int) -> float:
    """Return the logarithm of the mean over tilts, sets and states; those not listed count as 0."""
    return _log_sum(logs) - math.log(len(_TILTS) * sets * max(logs.shape[-1], 1))


class _Table(NamedTuple):
    """One table: its parents, the shape of its strata, and its place among all counts."""

    node: str
    parents: tuple[str, ...]
    states: tuple[int, ...]
    sizes: tuple[int, ...]
    chances: Floats
    begin: int
    by_arm: bool
    only_natural: bool

    @property
    def about(self) -> str:
        given = ", ".join(["the arm"] * self.by_arm + list(self.parents))
        return f"{self.node} given {given}" if given else self.node

    def of(self, counts: Floats) -> Floats:
        """Return this table's part of all counts."""
        return counts[self.begin : self.begin + self.chances.size].reshape(self.chances.shape)


class TableTest:
    """The test during a study: once rows contradict a table, only corrections take it back.

    Tested are the tables of the nodes that the sensitive attribute or the arm influences, and the
    arms themselves. Rows in which the attribute was not set also test the attribute and, if their
    distribution is assumed, the other nodes of a cell. Rows that were not requested do not count,
    because nobody knows how they were selected.

    Parameters
    ----------
    problem : Problem
        The problem; all its cells can be listed.
    all_known : bool
        Whether the distribution of the other nodes of a cell is assumed.

    Attributes
    ----------
    counts : ndarray
        Number of received rows in every entry of every table.
    counts_then : ndarray
        The same at the moment of the largest contradiction; zeros if there was none.
    asked_then : int
        The number of pulls that were issued until that moment.
    absent_then : list of int
        The numbers of those without a row at that moment.
    """

    fields = ("counts", "counts_then", "asked_then", "absent_then")
    """Attributes that make up the state."""

    def __init__(self, problem: Problem, *, all_known: bool) -> None:
        self._problem = problem
        self._positions = {
            node: {state: place for place, state in enumerate(states)}
            for node, states in problem.model.states.items()
        }
        self._tables = list(_tables(problem, all_known))
        self.counts = np.zeros(sum(table.chances.size for table in self._tables))
        self.counts_then = self.counts.copy()
        self.asked_then = 0
        self.absent_then: list[int] = []

    def contradicted(self) -> tuple[str, ...]:
        """Return the tables that rows contradict, or have contradicted, the clearest first."""
        if not self.asked_then:
            return ()
        logs = self._logs(self.counts_then, len(self.absent_then))
        if _mean(logs) < _LIMIT:
            return ()
        order = np.argsort(-logs)
        clear = [place for place in order if logs[place] >= _LIMIT + math.log(len(logs))]
        return tuple(self._tables[place].about for place in clear or order[:1])

    def add(self, action: int, row: Mapping[str, Any]) -> None:
        """Add the row of a requested pull."""
        self.counts[self._places(action, row)] += 1.0

    def move(self, number: int, action: int, before: Mapping[str, Any], after: Any) -> None:
        """Replace the row of a requested pull by a corrected one."""
        moved = [self.counts]
        if number < self.asked_then and number not in self.absent_then:
            moved.append(self.counts_then)
        for counts in moved:
            counts[self._places(action, before)] -= 1.0
            counts[self._places(action, after)] += 1.0

    def is_due(self, told: int) -> bool:
        """Whether to look at this number of rows."""
        return told % (_EVERY << (told // _OFTEN_UNTIL).bit_length()) == 0

    def look(self, asked: int, missing: int, absent: Iterable[int]) -> None:
        """Remember this moment if the rows contradict a table, and more than ever.

        Parameters
        ----------
        asked, missing : int
            How many pulls were issued, and how many of them have no row.
        absent : iterable of int
            The numbers of the latter.
        """
        evidence = _mean(self._logs(self.counts, missing))
        if evidence < _LIMIT:
            return
        if evidence > _mean(self._logs(self.counts_then, len(self.absent_then))):
            self.counts_then = self.counts.copy()
            self.asked_then, self.absent_then = asked, list(absent)

    def _logs(self, counts: Floats, missing: int) -> Floats:
        return np.array(
            [
                log_evidence_against_table(table.of(counts), table.chances, missing, table.sizes)
                for table in self._tables
            ]
        )

    def _places(self, action: int, row: Mapping[str, Any]) -> Integers:
        """Return the places of a row among all counts."""
        arm, mode = divmod(action, len(self._problem.modes))
        places = []
        for table in self._tables:
            if mode and table.only_natural:
                continue
            stratum = arm if table.by_arm else 0
            for node, size in zip(table.parents, table.states, strict=True):
                stratum = stratum * size + self._positions[node][row[node]]
            states = table.chances.shape[1]
            state = self._positions[table.node][row[table.node]]
            places.append(table.begin + stratum * states + state)
        return np.array(places, dtype=np.int64)


_LIMIT = -math.log(FALSE_ALARM)


def _mean(logs: Floats) -> float:
    """Return the logarithm of the mean e-value."""
    return _log_sum(logs) - math.log(max(len(logs), 1))


def _tables(problem: Problem, all_known: bool) -> Iterator[_Table]:
    """Yield the tables that rows can contradict."""
    model = problem.model
    known = {*problem.attributes, *problem.cell_nodes} - {problem.outcome_node}
    begin = 0
    for node in model.nodes:
        by_arm, influenced = node == problem.intervened, node in problem.carriers
        table = cell_model_of(problem).arm_tables if by_arm else model.tables.get(node)
        parents = model.parents(node)
        # The bets use the distribution of such an attribute, whatever else is known.
        is_root = node in problem.attributes and not parents
        assumed = all_known or influenced or by_arm or is_root
        if table is None or not assumed or not known >= {node, *parents}:
            continue
        chances = table.reshape(-1, table.shape[-1])
        sizes = tuple(model.size(parent) for parent in parents)
        shape = (problem.n_arms, *sizes) if by_arm else sizes
        natural = not (by_arm or influenced)
        yield _Table(node, parents, sizes, shape, chances, begin, by_arm, natural)
        begin += chances.size
