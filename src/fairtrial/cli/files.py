"""Arguments of a problem that a configuration keeps in files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairtrial.core import Problem
from fairtrial.core.cells import tidy
from fairtrial.core.family import FAMILIES, Family, family_of
from fairtrial.core.mistakes import in_words
from fairtrial.core.sheets import Sheet, read_sheet
from fairtrial.core.warning import warn_caller
from fairtrial.errors import InvalidArgument, MissingExtra

__all__ = ["warn_of_tables", "with_files"]

_LABELS = "arm"


def with_files(
    section: Mapping[str, Any],
    folder: Path,
    mistakes: list[str],
    doubtful: set[str],
    decimal: str | None = None,
) -> dict[str, Any]:
    """Return the problem's section with paths resolved, and tables of features read.

    A table with a mistake is left out, and the argument's name is added to `doubtful`.
    """
    filled = dict(section)
    if filled.get("family") not in FAMILIES:
        return filled
    family = family_of(str(filled["family"]))
    for argument in family.path_arguments:
        if isinstance(filled.get(argument), str):
            filled[argument] = str(folder / filled[argument])
    for argument in (*family.feature_arguments, *family.row_arguments):
        if not isinstance(filled.get(argument), str):
            continue
        try:
            _fill_in(filled, family, argument, folder, decimal)
        except (InvalidArgument, MissingExtra) as error:
            mistakes.append(in_words("problem", error))
            doubtful.add(argument)
            del filled[argument]
    return filled


def _fill_in(
    filled: dict[str, Any], family: Family, argument: str, folder: Path, decimal: str | None
) -> None:
    """Replace the name of a file by its content."""
    path = folder / filled[argument]
    try:
        sheet = read_sheet(path, decimal)
        if argument in family.row_arguments:
            filled[argument] = _rows_of(sheet)
            return
        labels, filled[argument] = _features_of(sheet)
    except InvalidArgument as error:
        if error.name == "path":
            raise InvalidArgument(argument, error.accepted, error.given) from error
        where = f"{argument}: {error.name}"
        raise InvalidArgument(where, error.accepted, error.given) from error
    if labels is not None:
        filled.setdefault(family.feature_arguments[argument], labels)


def _rows_of(sheet: Sheet) -> list[dict[str, str]]:
    """Return the rows of a table, with every value as a label."""
    columns = [sheet.labels(name) for name in sheet.header]
    return [dict(zip(sheet.header, row, strict=True)) for row in zip(*columns, strict=True)]


def warn_of_tables(section: Mapping[str, Any], problem: Problem | None) -> None:
    """Warn of facts in a table of features that its author may not know."""
    if problem is None:
        return
    family = family_of(problem.family)
    if any(isinstance(section.get(argument), str) for argument in family.feature_arguments):
        for doubt in family.doubts_of_table(problem):
            warn_caller(doubt)


def _features_of(sheet: Sheet) -> tuple[list[str] | None, dict[str, list[Any]]]:
    """Return the labels of a table's rows, if it has them, and its other columns."""
    labels = sheet.labels(_LABELS) if sheet.has(_LABELS) else None
    return labels, {name: _feature(sheet, name) for name in sheet.header if name != _LABELS}


def _feature(sheet: Sheet, name: str) -> list[Any]:
    """Return a column of features: numbers, or labels of categories."""
    cells = sheet.cells(name)
    if not name:
        raise InvalidArgument("column", "must have a name, or be left out", cells[0])
    for row, cell in enumerate(cells):
        if isinstance(cell, str) and not tidy(cell):
            raise InvalidArgument(f"{sheet.where(row)}: {name}", "must not be blank")
    return list(sheet.values(name, mixed=False))
