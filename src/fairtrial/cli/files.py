"""Arguments of a problem that a configuration keeps in files beside it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairtrial.core import Problem
from fairtrial.core.family import FAMILIES, Family, family_of
from fairtrial.core.mistakes import in_words
from fairtrial.core.tables import read_table
from fairtrial.errors import InvalidArgument, MissingExtra

__all__ = ["warn_of_tables", "with_files"]

_LABELS = "arm"


def with_files(
    section: Mapping[str, Any], folder: Path, mistakes: list[str], doubtful: set[str]
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
            _fill_in(filled, family, argument, folder)
        except (InvalidArgument, MissingExtra) as error:
            mistakes.append(in_words("problem", error))
            doubtful.add(argument)
            del filled[argument]
    return filled


def _fill_in(filled: dict[str, Any], family: Family, argument: str, folder: Path) -> None:
    """Replace the name of a file by its content."""
    path = folder / filled[argument]
    if argument in family.row_arguments:
        filled[argument] = _read_rows(argument, path)
        return
    labels, filled[argument] = _read_features(argument, path, "interactions" in filled)
    if labels is not None:
        filled.setdefault(family.feature_arguments[argument], labels)


def _read_rows(argument: str, path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, with every value as written."""
    try:
        table = read_table(path)
        table = read_table(path, text=list(table))
    except InvalidArgument as error:
        raise InvalidArgument(argument, error.accepted, error.given) from error
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def warn_of_tables(section: Mapping[str, Any], problem: Problem | None) -> None:
    """Warn of facts in a table of features that its author may not know."""
    if problem is None:
        return
    family = family_of(problem.family)
    if any(isinstance(section.get(argument), str) for argument in family.feature_arguments):
        for doubt in family.doubts_of_table(problem):
            warnings.warn(doubt, stacklevel=2)


def _read_features(
    argument: str, path: Path, by_name: bool
) -> tuple[list[str] | None, dict[str, list[Any]] | list[list[float]]]:
    """Return the labels of a table's rows, if it has them, and its other columns.

    If all of these are numbers, and their names do not matter, return them as rows of numbers.
    """
    try:
        table = read_table(path, text=[_LABELS])
    except InvalidArgument as error:
        raise InvalidArgument(argument, error.accepted, error.given) from error
    labels = table.pop(_LABELS, None)
    if by_name or any(isinstance(column[0], str) for column in table.values()):
        return labels, table
    return labels, [list(row) for row in zip(*table.values(), strict=True)]
