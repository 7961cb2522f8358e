"""Test whether a log contradicts the model: the independences of its graph, and its tables.

Every test compares a count, or a sum of outcomes, with its expected value. Under the model it is a
sum of independent terms, or dominated by such a sum: a hypergeometric count is a sum of independent
indicators (Vatutin and Mikhailov 1982), and a sum of draws without replacement varies less than one
with replacement (Hoeffding 1963, section 6). So Bennett's inequality bounds the probability of each
deviation, for any number of rows. The bounds of all tests are added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._separation import (
    ARM,
    are_separated,
    with_arm,
    without_needless,
)
from fairtrial.causal.model import ancestors_in

if TYPE_CHECKING:
    from fairtrial.causal._ledger import LedgerRecords
    from fairtrial.causal.problem import Problem

__all__ = ["LEVEL", "Contradiction", "contradictions"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEVEL = 0.001
"""Largest probability of finding any contradiction although the model is right."""

_FEWEST = 10
_MOST_SUMS = 20_000_000
_ROUNDING = 1e-6


class Contradiction(NamedTuple):
    """A statement of the model that the rows contradict.

    Attributes
    ----------
    statement : str
        What the rows show, contrary to the model.
    p_value : float
        Bound on the probability of these rows, or of any other contradiction as strong, if the
        model is right.

    Examples
    --------
    >>> str(Contradiction("Y depends on S given V", 2e-7))
    'Y depends on S given V (p < 2e-07)'
    """

    statement: str
    p_value: float

    def __str__(self) -> str:
        """Return the statement with its p-value, rounded up."""
        return f"{self.statement} (p < {max(self.p_value, 1e-300):.0e})"


class _Test(NamedTuple):
    """Deviations from the model's expectations, by stratum: for each, and for all together."""

    statement: str
    observed: Floats
    expected: Floats
    variance: Floats
    size: Floats


def contradictions(problem: Problem, records: LedgerRecords) -> tuple[Contradiction, ...]:
    """Return the statements of the model that the rows contradict, the strongest first.

    If the model is right, the result is empty with probability at least 1 - `LEVEL`.
    """
    table = _Table(problem, records)
    logs: dict[str, float] = {}
    number = 0
    for test in (*_independences(problem, table), *_tables(problem, table)):
        bounds = _log_bounds(test)
        number += len(bounds)
        logs[test.statement] = min(logs.get(test.statement, 0.0), float(bounds.min(initial=0.0)))
    found = [
        Contradiction(statement, float(number * np.exp(log)))
        for statement, log in logs.items()
        if log + np.log(max(number, 1)) < np.log(LEVEL)
    ]
    return tuple(sorted(found, key=lambda contradiction: contradiction.p_value))


def _log_bounds(test: _Test) -> Floats:
    """Return logarithms of bounds on the probabilities of all deviations, shape (tests,)."""
    large = test.size >= _FEWEST
    deviation = (test.observed - test.expected)[large]
    away = np.abs(np.append(deviation, (test.observed - test.expected).sum()))
    spread = np.append(test.variance[large], test.variance.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = away / spread
        bennett = spread * ((1.0 + ratio) * np.log1p(ratio) - ratio)
    # Without variance, every deviation is impossible.
    bennett = np.where(spread > 0.0, bennett, np.inf)
    return np.where(away > _ROUNDING, np.minimum(np.log(2.0) - bennett, 0.0), 0.0)


# ------------------------------------------------------------------------------ columns


class _Table:
    """The columns of the rows: codes of all discrete nodes, and of the arm."""

    def __init__(self, problem: Problem, records: LedgerRecords) -> None:
        cell_model, model = cell_model_of(problem), problem.model
        self.number = records.number
        self.total = records.total
        self.squares = records.squares
        self.codes: dict[str, Integers] = {ARM: records.arm}
        self.sizes: dict[str, int] = {ARM: problem.n_arms}
        values = np.array(cell_model.combinations, dtype=np.int64)[records.value]
        for axis, node in enumerate(problem.attributes):
            self._add(node, values[:, axis], model.size(node))
        if cell_model.is_tabulated:
            places = np.unravel_index(records.cells, cell_model.shape)
        else:
            places = tuple(records.cells.T)
        for node, place in zip(cell_model.nodes, places, strict=True):
            if model.is_discrete(node):
                self._add(node, np.asarray(place, dtype=np.int64), model.size(node))

    def _add(self, node: str, codes: Integers, size: int) -> None:
        self.codes[node] = codes
        self.sizes[node] = size

    def strata(self, nodes: Sequence[str]) -> tuple[Integers, int]:
        """Return each record's combination of some nodes' states, and how many there are."""
        joint = np.zeros(len(self.number), dtype=np.int64)
        number = 1
        for node in nodes:
            joint = joint * self.sizes[node] + self.codes[node]
            states, joint = np.unique(joint, return_inverse=True)
            number = len(states)
        return joint, number

    def sums(self, amounts: Floats, strata: Integers, number: int, *nodes: str) -> Floats:
        """Return sums by stratum and states of some nodes, shape (strata, states, ...)."""
        place = strata
        shape = [number]
        for node in nodes:
            place = place * self.sizes[node] + self.codes[node]
            shape.append(self.sizes[node])
        sums = np.bincount(place, weights=amounts, minlength=int(np.prod(shape)))
        return np.asarray(sums, dtype=np.float64).reshape(shape)


# ------------------------------------------------------------------------ independences


def implied_independences(
    problem: Problem, known: Sequence[str]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield pairs of known nodes that are independent given other nodes, and these others.

    A row's arm and its value of the attribute may have been chosen together. If the attribute has
    parents, all independences are conditional on its value.
    """
    parents = with_arm(problem)
    attributes = list(problem.attributes)
    design = {ARM, *attributes}
    if problem.is_root:
        for place, node in enumerate(attributes):
            parents[node] = (ARM, *attributes[:place])
    kept = [] if problem.is_root else attributes
    for first, second in combinations(known, 2):
        if {first, second} <= design or {first, second} & set(kept):
            continue
        if first in parents[second] or second in parents[first]:
            continue
        above = ancestors_in(parents, [first, second, *kept])
        given = [node for node in known if node in above and node not in (first, second)]
        if are_separated(parents, [first], [second], given):
            yield first, second, without_needless(parents, [first], [second], given, kept)


def _independences(problem: Problem, table: _Table) -> Iterator[_Test]:
    known = list(table.codes)
    outcome = problem.outcome_node
    measured = outcome not in known and problem.outcome_range is not None
    for first, second, given in implied_independences(problem, [*known, *[outcome] * measured]):
        strata, number = table.strata(given)
        statement = f"{_name(first)} depends on {_name(second)}{_given(given)}"
        if outcome in (first, second) and measured:
            other = second if first == outcome else first
            statement = f"{outcome} depends on {_name(other)}{_given(given)}"
            if number * table.sizes[other] <= _MOST_SUMS:
                yield from _of_outcome(table, other, strata, number, statement)
        elif number * table.sizes[first] * table.sizes[second] <= _MOST_SUMS:
            yield from _of_states(table, first, second, strata, number, statement)


def _of_states(
    table: _Table, first: str, second: str, strata: Integers, number: int, statement: str
) -> Iterator[_Test]:
    """Yield tests of how often two states occur together, given how often each occurs."""
    both = table.sums(table.number, strata, number, first, second)
    rows, columns = both.sum(axis=2), both.sum(axis=1)
    size = rows.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        for a in range(both.shape[1]):
            for b in range(both.shape[2]):
                n, m = rows[:, a], columns[:, b]
                spread = n * m * (size - n) * (size - m) / (size**2 * (size - 1.0))
                variance = np.where(size > 1, spread, 0.0)
                least = np.minimum(np.minimum(n, size - n), np.minimum(m, size - m))
                yield _Test(statement, both[:, a, b], n * m / size, variance, least)


def _of_outcome(
    table: _Table, other: str, strata: Integers, number: int, statement: str
) -> Iterator[_Test]:
    """Yield tests of the sums of outcomes by state, given the outcomes in each stratum."""
    counts = table.sums(table.number, strata, number, other)
    sums = table.sums(table.total, strata, number, other)
    squares = table.sums(table.squares, strata, number)
    size, total = counts.sum(axis=1), sums.sum(axis=1)
    mean = total / size
    spread = np.maximum(squares / size - mean**2, 0.0)
    for state in range(counts.shape[1]):
        n = counts[:, state]
        least = np.minimum(n, size - n)
        yield _Test(statement, sums[:, state], n * mean, least * spread, least)


# ------------------------------------------------------------------------------- tables


def _tables(problem: Problem, table: _Table) -> Iterator[_Test]:
    """Yield tests of the tables that define the weights, except estimated tables."""
    model, cell_model = problem.model, cell_model_of(problem)
    for node in problem.carriers:
        counted = model.fitted and (not model.counts or node in model.counts)
        if node != problem.intervened and node in model.tables and not counted:
            yield from _of_table(table, node, model.parents(node), model.tables[node])
    if cell_model.is_discrete:
        parents = (ARM, *model.parents(problem.intervened))
        yield from _of_table(table, problem.intervened, parents, cell_model.arm_tables)


def _of_table(
    table: _Table, node: str, parents: tuple[str, ...], expected: Floats
) -> Iterator[_Test]:
    """Yield tests of how often each state of a node occurs, given its parents."""
    strata, number = table.strata(parents)
    counts = table.sums(table.number, strata, number, node)
    size = counts.sum(axis=1)
    _, first = np.unique(strata, return_index=True)
    probability = expected[tuple(table.codes[parent][first] for parent in parents)]
    statement = f"{node}{_given(parents)} is not distributed as in the model"
    for state in range(counts.shape[1]):
        p = probability[:, state]
        variance = size * p * (1.0 - p)
        yield _Test(statement, counts[:, state], size * p, variance, size)


def _name(node: str) -> str:
    return "the arm" if node == ARM else node


def _given(nodes: Sequence[str]) -> str:
    return f" given {', '.join(map(_name, nodes))}" if nodes else ""
