"""Analyse a log: find the best fair intervention from rows that others have drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.causal._logs import columns_of, forced_rows, positions_in_column
from fairtrial.causal._states import state_label
from fairtrial.causal.contradictions import Contradiction, contradictions
from fairtrial.causal.errors import ContradictedModel
from fairtrial.causal.estimation import records_of
from fairtrial.causal.policies.block_betting import BlockBetting
from fairtrial.causal.problem import NATURAL, Problem
from fairtrial.core.cells import is_blank
from fairtrial.core.frames import plain_data
from fairtrial.core.keywords import named_arguments
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.sheets import Sheet, naming_lines, read_sheet
from fairtrial.core.validation import check_instance
from fairtrial.core.warning import warn_caller
from fairtrial.errors import InvalidArgument, InvalidOutcome

__all__ = ["read"]

_AT_ONCE = 1_000
_MISSING = "no outcome in the log"


@named_arguments
def read(
    problem: Problem,
    table: Any,
    delta: float = 0.05,
    *,
    allocation: str | ArrayLike | Sequence[str] = "fixed",
    knowledge: str = "auto",
    arm: str = "arm",
    mode: str = "s_mode",
    decimal: str | None = None,
) -> BlockBetting:
    """Analyse a log by block betting: the best fair intervention, with a proven error probability.

    No pulls are requested: the rows are those of the table, in their order. The bets on a row only
    depend on the rows before its block.

    Parameters
    ----------
    problem : Problem
        The problem, as it was stated before the outcomes were known.
    table : path, data frame, mapping of str to sequence, or sequence of mappings
        One row per unit, in the order of assignment: the columns of ``problem.columns``, the arm
        and the mode. A blank outcome is missing, and its row counts as the worst possible row.
    delta : float
        Accepted probability of a wrong answer.
    allocation : {"fixed", "any"}, sequence of str, or array-like of shape (rows, actions)
        How the actions were chosen. ``"fixed"`` (default): they were fixed, or drawn, without using
        outcomes of the same block of rows. A list of column names, one for each action in the order
        of ``problem.action_labels``, or an array: the probabilities with which each action was
        drawn, given the rows before it. ``"any"``: each action is an arbitrary function of the rows
        before it; a row then only informs through its own action.
    knowledge : {"auto", "cells", "covariates", "ratios"}
        Which part of the model has to be right; see `BlockBetting`.
    arm, mode : str
        Names of the columns of the arm and of the mode of the sensitive attribute: ``natural`` (the
        default without such a column) or ``forced``.
    decimal : {".", ","}, optional
        The decimal separator of numbers in a file, if its columns do not show it.

    Returns
    -------
    BlockBetting
        The policy after reading the log: see `recommend`, `progress`, `guarantee` and `warnings`.

    Raises
    ------
    InvalidArgument
        If a column is missing, or another argument is not acceptable.
    InvalidOutcome
        If a value is refused; the message names the row.

    Warns
    -----
    ContradictedModel
        If the rows contradict the model; the answer is then not called proven.

    Notes
    -----
    Source: docs/explanation/fair-interventions.md, which says when the answer is proven and when
    not.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> log = environment.table([0, 3] * 200, np.random.default_rng(0))
    >>> found = read(problem, log, delta=0.05)
    >>> found.recommend().arm, found.guarantee.label
    ('b', 'proven')
    """
    check_instance("problem", problem, Problem)
    if not isinstance(table, str | Path):
        return _read(problem, plain_data(table), delta, allocation, knowledge, arm, mode)
    sheet = read_sheet(table, decimal)
    with naming_lines(sheet):
        return _read(problem, sheet, delta, allocation, knowledge, arm, mode)


def _read(
    problem: Problem,
    table: Any,
    delta: float,
    allocation: str | ArrayLike | Sequence[str],
    knowledge: str,
    arm: str,
    mode: str,
) -> BlockBetting:
    rows = _Rows(problem, table, arm, mode)
    policy = BlockBetting(
        problem,
        delta,
        knowledge,
        assigned=rows.actions.tolist(),
        allocation=rows.numbers(allocation) if _are_names(allocation) else allocation,
    )
    _tell(policy, rows)
    policy.contradictions = rows.contradictions()
    if policy.contradictions:
        warn_caller(ContradictedModel(policy.contradictions))
    return policy


def _are_names(allocation: object) -> TypeGuard[Sequence[str]]:
    if isinstance(allocation, str) or not isinstance(allocation, Sequence):
        return False
    return all(isinstance(name, str) for name in allocation)


class _Rows:
    """The rows of a log: actions, and outcomes in the form of the problem."""

    def __init__(self, problem: Problem, table: Any, arm: str, mode: str) -> None:
        self._problem = problem
        self._names = arm, mode
        self._sheet = table if isinstance(table, Sheet) else None
        if self._sheet is not None:
            table = self._read(self._sheet)
        self._table = table
        self._columns = columns_of(table, (arm, *problem.columns), (mode,))
        if not len(self._columns[arm]):
            raise InvalidArgument("table", "must have at least one row")
        arms = positions_in_column(arm, self._columns[arm], problem.arm_labels)
        forced = np.zeros(len(arms), dtype=bool)
        if mode in self._columns:
            forced = forced_rows(problem, mode, self._columns[mode])
        self.actions = arms * len(problem.modes)
        self.actions[forced] += 1 + self._values(np.flatnonzero(forced))

    def _read(self, sheet: Sheet) -> dict[str, list[Any]]:
        """Return the columns of a file that the problem needs."""
        wanted = dict.fromkeys([*self._names, *self._problem.columns])
        return {name: self._column(sheet, name) for name in wanted if sheet.has(name)}

    def _column(self, sheet: Sheet, name: str) -> list[Any]:
        problem = self._problem
        known = problem.outcome_values
        if name == problem.outcome_node and known is not None:
            labels = sheet.labels(name)
            if all(label in known or is_blank(label) for label in labels):
                return labels
        is_label = name in self._names or problem.model.is_discrete(name)
        if is_label and name != problem.outcome_node:
            return sheet.labels(name)
        try:
            return sheet.numbers(name)
        except InvalidArgument as error:
            raise InvalidOutcome(error.name, error.accepted, error.given) from None

    def _values(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the values of the sensitive attribute in some rows."""
        labels = [
            ", ".join(state_label(self._columns[node][row]) for node in self._problem.attributes)
            for row in rows.tolist()
        ]
        return positions_in_column(NATURAL, labels, self._problem.values)

    def numbers(self, names: Sequence[str]) -> list[list[float]]:
        """Return columns of numbers, one list for every row."""
        if self._sheet is not None:
            table: Any = {name: self._sheet.numbers(name) for name in names}
        else:
            table = self._table
        columns = columns_of(table, names, ())
        return [list(row) for row in zip(*(columns[name] for name in names), strict=True)]

    def outcome(self, row: int) -> Mapping[str, Any] | None:
        """Return the outcome of a row; None if it is missing."""
        columns = self._problem.columns
        found = {name: self._columns[name][row] for name in columns}
        return None if is_blank(found[self._problem.outcome_node]) else found

    def contradictions(self) -> tuple[Contradiction, ...]:
        """Return the statements of the model that the rows with an outcome contradict."""
        column = self._columns[self._problem.outcome_node]
        told = [row for row, value in enumerate(column) if not is_blank(value)]
        if not told:
            return ()
        kept = {name: [values[row] for row in told] for name, values in self._columns.items()}
        return contradictions(self._problem, records_of(self._problem, kept, *self._names))


def _tell(policy: BlockBetting, rows: _Rows) -> None:
    """Tell the rows to a policy, block by block; rows after its stop are additional data."""
    problem, number = policy.problem, len(rows.actions)
    row = 0
    while pulls := policy.ask(min(_AT_ONCE, number - row)):
        for pull in pulls:
            _take(policy, pull, row, rows.outcome(row))
            row += 1
    for later in range(row, number):
        pull = problem.pull(**problem.labels(int(rows.actions[later])))
        _take(policy, pull, later, rows.outcome(later))


def _take(policy: BlockBetting, pull: Pull, row: int, outcome: Mapping[str, Any] | None) -> None:
    if outcome is not None:
        try:
            policy.tell(pull, outcome)
        except InvalidOutcome as error:
            where = f"row {row}: {error.name}"
            raise InvalidOutcome(where, error.accepted, outcome) from None
    elif pull.number != UNSOLICITED:
        policy.fail(pull, _MISSING)
