"""Read a file with the units to ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairtrial.core.cells import is_blank, label_of
from fairtrial.core.reading import read_bytes, readable, text_of
from fairtrial.core.sheets import ENDINGS, Sheet, read_sheet
from fairtrial.errors import InvalidArgument
from fairtrial.study.arguments import check_unit

__all__ = ["ListedUnit", "read_units"]

_COLUMN, _GROUP, _PREDICTION = "unit", "group", "prediction"


class ListedUnit(NamedTuple):
    """A unit in a file, with what the file says of it, and its place for messages."""

    name: str
    group: str | None
    where: str
    prediction: Any = None


def read_units(path: Path, measures: Sequence[str] = ()) -> list[ListedUnit]:
    """Return the units in a file, each once, in order.

    A table has the column ``unit``, and ``group`` if it says the groups. Predictions are in the
    column ``prediction``; if several measures are predicted, in one such as ``prediction.cured``
    for each. Any other file has one unit in each line, and may have blank lines.

    Parameters
    ----------
    path : Path
        The file.
    measures : sequence of str
        The measures that are predicted, if there are several.

    Raises
    ------
    InvalidArgument
        If the file cannot be read, has no units, has a unit that cannot be one, or a unit in two
        groups or with two predictions. The message names the line, and no unit: it is often
        personal data.
    """
    is_table = path.name.lower().endswith(tuple(ENDINGS))
    found: dict[str, ListedUnit] = {}
    for one in _of_table(path, measures) if is_table else _of_text(path):
        try:
            check_unit(one.name)
        except InvalidArgument as error:
            raise InvalidArgument(f"--units, {one.where}", error.accepted) from None
        first = found.setdefault(one.name, one)
        if first.group != one.group:
            accepted = f"must have the same group as in {first.where}, for the same unit"
            raise InvalidArgument(f"--units, {one.where}", accepted, one.group)
        if first.prediction != one.prediction:
            accepted = f"must have the same prediction as in {first.where}, for the same unit"
            raise InvalidArgument(f"--units, {one.where}", accepted, one.prediction)
    if not found:
        raise InvalidArgument("--units", "must have at least one unit", path.name)
    return list(found.values())


def _of_table(path: Path, measures: Sequence[str]) -> Iterator[ListedUnit]:
    sheet = read_sheet(path)
    units = sheet.cells(_COLUMN)
    groups = sheet.labels(_GROUP) if sheet.has(_GROUP) else [None] * len(units)
    predictions = _predictions(sheet, measures) or [None] * len(units)
    for row, (unit, group, known) in enumerate(zip(units, groups, predictions, strict=True)):
        name = "" if is_blank(unit) else label_of(unit)
        yield ListedUnit(name, group, sheet.where(row), known)


def _predictions(sheet: Sheet, measures: Sequence[str]) -> list[Any]:
    """Return the prediction of each row, or those of its measures; empty without such columns."""
    if not measures:
        return sheet.numbers(_PREDICTION) if sheet.has(_PREDICTION) else []
    columns = {name: f"{_PREDICTION}.{name}" for name in measures}
    if not any(sheet.has(column) for column in columns.values()):
        return []
    rows = zip(*(sheet.numbers(column) for column in columns.values()), strict=True)
    return [
        {name: one for name, one in zip(columns, row, strict=True) if one is not None}
        for row in rows
    ]


def _of_text(path: Path) -> Iterator[ListedUnit]:
    with readable(path):
        text = text_of(path, read_bytes(path))
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield ListedUnit(line.strip(), None, f"line {number}")
