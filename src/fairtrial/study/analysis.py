"""Analyse a finished experiment, read from a table, as a study with the same guarantee."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fairtrial.core import Problem
from fairtrial.core.family import family_of
from fairtrial.core.keywords import named_arguments
from fairtrial.core.problem import Outcome
from fairtrial.core.sheets import is_blank
from fairtrial.core.tables import column_of, columns_of_measures, read_table
from fairtrial.core.validation import check_instance
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported
from fairtrial.study.location import Storage
from fairtrial.study.study import Study

__all__ = ["AS_GIVEN", "FROM_TABLE", "analyse"]

AS_GIVEN = "as given"
"""The value of `order` for rows that are already in the order of assignment."""

FROM_TABLE = "from the table"
"""The value of `group_weights` that weighs each group by its number of rows."""

MISSING = "no outcome in the table"
"""Why a unit without an outcome is recorded as lost."""

_OUTCOME = "outcome"

_AT_ONCE = 1_000


@dataclass(frozen=True)
class _Unit:
    """A unit of the experiment; its outcome is None if missing."""

    action: int
    outcome: Outcome | None


@named_arguments
def analyse(
    problem: Problem,
    table: Any,
    delta: float = 0.05,
    *,
    order: str,
    outcome: str | Mapping[str, str] = _OUTCOME,
    columns: Mapping[str, str] | None = None,
    group_weights: str | None = None,
    storage: Storage = "memory://",
    name: str = "analysis",
) -> Study:
    """Analyse a finished experiment, with the guarantee of a study run by block betting.

    The rows are read in the order of assignment and cut into blocks by their assignments alone.
    The bets on a block are fixed from earlier blocks before its outcomes are looked at. So the
    answer is wrong with probability at most `delta`, if the assignment did not depend on outcomes
    of the same block.

    Parameters
    ----------
    problem : Problem
        The problem, as it was stated before the outcomes were known.
    table : path, pandas.DataFrame or mapping of str to sequence
        One row per assigned unit. A blank outcome is missing: the unit counts as lost.
    delta : float
        The accepted probability of a wrong answer.
    order : str
        The column that gives the order of assignment: numbers, or dates such as 2026-11-23. The
        rows are sorted by it. ``"as given"`` states that the rows are already in that order.
    outcome : str, or mapping of str to str
        The column of the outcomes. If the problem has measures: the column of each measure; the
        default is the measure's name, and a blank cell is a missing value. If an outcome is a row
        of fields (family ``causal``), each field is read from the column of its name instead.
    columns : mapping of str to str, optional
        For each label of an action (``"arm"``, ``"group"``), the column that holds it. The default
        is the column of the same name.
    group_weights : str, optional
        ``"from the table"`` weighs each group by its share of the rows. By default the weights are
        those of the problem.
    storage, name
        Where to keep the study, and its name.

    Returns
    -------
    Study
        The study gives the answer (`recommend`), the effects and evidence (`progress`), and a log
        in which every row is a pull. `write_report` writes its report.

    Raises
    ------
    InvalidArgument
        If a column is missing, a label is unknown, the order column cannot be sorted, or an arm
        has no row.
    InvalidOutcome
        If the problem refuses an outcome; the row is named.
    NotSupported
        If the family does not support this analysis.

    Notes
    -----
    Source and proof: docs/explanation/finished-experiments.md.

    Examples
    --------
    >>> from fairtrial.subpopulations import Problem
    >>> problem = Problem(["old", "new"], ["all"], floors=None, reward_range=(0, 1))
    >>> rows = {"arm": ["old", "new"] * 150, "cured": [0, 1] * 150, "day": range(300)}
    >>> with analyse(problem, rows, order="day", outcome="cured") as study:
    ...     study.recommend().arm
    'new'
    """
    check_instance("problem", problem, Problem)
    reader = family_of(problem.family).analysis
    if reader is None:
        raise NotSupported(
            f"finished experiments of the family {problem.family!r} cannot be analysed"
        )
    rows = _Rows(problem, table, columns or {}, outcome, order)
    if group_weights is not None:
        problem = _weighed(problem, rows, group_weights)
    units = list(rows.units())
    policy = reader(problem, [unit.action for unit in units], delta)
    study = Study.create(problem, policy, storage=storage, name=name, seed=0)
    try:
        _play(study, units)
    except BaseException:
        study.close()
        raise
    return study


class _Rows:
    """The rows of a table in their order of assignment."""

    def __init__(
        self, problem: Problem, table: Any, columns: Mapping[str, str], outcome: Any, order: str
    ) -> None:
        self._fields = () if problem.measures else tuple(problem.outcome_fields)
        self._problem = problem
        names = _outcome_columns(problem, outcome)
        if order in names.values():
            raise InvalidArgument("order", "must not be the column of the outcomes", order)
        sources = _sources_of(problem, columns)
        self._is_file = isinstance(table, str | Path)
        if self._is_file:
            table = read_table(table, text=list(sources.values()))
        self._outcomes = {name: column_of(table, column) for name, column in names.items()}
        number = len(next(iter(self._outcomes.values())))
        for name, values in self._outcomes.items():
            _require_length(names[name], values, number)
        if number == 0:
            raise InvalidArgument("table", "must have at least one row")
        self.labels = {
            name: _labels_of(problem, table, name, source, number)
            for name, source in sources.items()
        }
        self._order = list(range(number))
        if order != AS_GIVEN:
            places = _as_order(column_of(table, order), order, self._place)
            _require_length(order, places, number)
            self._order.sort(key=places.__getitem__)

    def _place(self, row: int) -> str:
        """Return a row's position: the line number for a file, the index for a table in memory."""
        return f"line {row + 2}" if self._is_file else f"row {row}"

    def units(self) -> Iterator[_Unit]:
        """Yield the units in the order of assignment."""
        for row in self._order:
            labels = {name: column[row] for name, column in self.labels.items()}
            try:
                action = self._problem.action(**labels)
            except InvalidArgument as error:
                where = f"table, {self._place(row)}"
                raise InvalidArgument(where, error.accepted, labels) from None
            yield _Unit(action, self._outcome(row))

    def _outcome(self, row: int) -> Outcome | None:
        """Return a unit's outcome; None if blank. With measures, each blank one is None."""
        cells = {name: column[row] for name, column in self._outcomes.items()}
        values = {name: None if is_blank(cell) else cell for name, cell in cells.items()}
        outcome: Any
        if self._fields:
            outcome = None if None in values.values() else values
        else:
            numbers = {name: _as_number(value) for name, value in values.items()}
            known = any(value is not None for value in numbers.values())
            outcome = (numbers if self._problem.measures else numbers[""]) if known else None
        return None if outcome is None else self._checked(outcome, row)

    def _checked(self, outcome: Any, row: int) -> Outcome:
        try:
            checked: Outcome = self._problem.check_outcome(outcome)
        except InvalidOutcome as error:
            name = error.name if self._problem.measures else "outcome"
            where = f"table, {self._place(row)}: {name}"
            raise InvalidOutcome(where, error.accepted, error.given) from None
        # The study expects measures by name, as callers report them.
        return outcome if self._problem.measures else checked


def _outcome_columns(problem: Problem, outcome: Any) -> dict[str, str]:
    """Return the column of each part of an outcome; a single number has the name ''."""
    if problem.measures:
        if not isinstance(outcome, Mapping) and outcome != _OUTCOME:
            accepted = f"must be left out, or map the measures {list(problem.measures)} to columns"
            raise InvalidArgument("outcome", accepted, outcome)
        return columns_of_measures(problem, outcome)
    return {field: field for field in problem.outcome_fields} or {"": str(outcome)}


def _sources_of(problem: Problem, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the column that holds each label of an action."""
    names = list(problem.action_labels[0])
    for name in columns:
        if name not in names:
            raise InvalidArgument("columns", f"must name labels: {', '.join(names)}", name)
    return {name: columns.get(name, name) for name in names}


def _labels_of(problem: Problem, table: Any, name: str, source: str, number: int) -> list[str]:
    """Return a column of labels as text; the column is optional if only one label exists."""
    possible = {str(labels[name]) for labels in problem.action_labels}
    if len(possible) == 1 and source not in getattr(table, "columns", table):
        return [possible.pop()] * number
    column = column_of(table, source)
    _require_length(source, column, number)
    return [
        str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
        for label in column
    ]


def _require_length(name: str, column: Sequence[Any], number: int) -> None:
    if len(column) != number:
        accepted = f"must have columns of equal length; {name!r} has {len(column)} rows"
        raise InvalidArgument("table", accepted, number)


def _as_order(column: Sequence[Any], name: str, place: Any) -> list[Any]:
    """Return the column as numbers or, failing that, as dates."""
    numbers = [_number(value) for value in column]
    if all(number is not None for number in numbers):
        return numbers
    dates = [_date(value) for value in column]
    for row, date in enumerate(dates):
        if date is None:
            accepted = f"must be a number or a date such as 2026-11-23 in the column {name!r}"
            raise InvalidArgument(f"order, {place(row)}", accepted, column[row])
    if len({date.tzinfo is None for date in dates if date is not None}) > 1:
        raise InvalidArgument("order", "must have a time zone in all rows or in none", name)
    return dates


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _as_number(value: Any) -> Any:
    """Return a cell as a number if it is one, otherwise unchanged."""
    number = _number(value)
    return value if number is None else number


def _date(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None


def _weighed(problem: Problem, rows: _Rows, group_weights: str) -> Problem:
    """Return the problem with each group weighed by its number of rows."""
    if group_weights != FROM_TABLE or "group" not in rows.labels:
        accepted = f"must be {FROM_TABLE!r}, and the problem must have groups"
        raise InvalidArgument("group_weights", accepted, group_weights)
    groups = dict.fromkeys(str(labels["group"]) for labels in problem.action_labels)
    counts = Counter(rows.labels["group"])
    return problem.clone(group_weights=[counts[group] for group in groups])


def _play(study: Study, units: Sequence[_Unit]) -> None:
    """Give the units to the study in batches until it stops; tell the rest as unsolicited data."""
    asked = 0
    while pulls := study.ask(min(_AT_ONCE, len(units) - asked)):
        own = units[asked : asked + len(pulls)]
        asked += len(pulls)
        missing = [pull for pull, unit in zip(pulls, own, strict=True) if unit.outcome is None]
        for pull in missing:
            study.fail(pull, reason=MISSING)
        study.tell_many(
            [
                (pull, unit.outcome)
                for pull, unit in zip(pulls, own, strict=True)
                if unit.outcome is not None
            ]
        )
    rest = [
        (study.problem.pull(**study.problem.labels(unit.action)), unit.outcome)
        for unit in units[asked:]
        if unit.outcome is not None
    ]
    for start in range(0, len(rest), _AT_ONCE):
        study.tell_many(rest[start : start + _AT_ONCE])
