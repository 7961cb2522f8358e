"""Arguments of a problem that a configuration keeps in files beside it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairtrial.cli.construction import in_words
from fairtrial.core import Problem
from fairtrial.core.tables import read_table
from fairtrial.errors import InvalidArgument, MissingExtra

__all__ = ["warn_without_constant", "with_files"]

_LABELS = "arm"

_ARMS = "arms"
"""An argument of `causal` that may be a table: a row for every arm and what it depends on."""

_FEATURES = {"features": "arms", "candidates": "answers"}
"""Arguments that may be tables, and the argument that the labels of their rows are."""


def with_files(
    section: Mapping[str, Any], folder: Path, mistakes: list[str], doubtful: set[str]
) -> dict[str, Any]:
    """Return the problem's section with files found, and tables of features read.

    A table with a mistake is left out, and the argument's name is added to `doubtful`.
    """
    filled = dict(section)
    if isinstance(filled.get("model"), str):
        filled["model"] = str(folder / filled["model"])
    tables = (*_FEATURES, _ARMS) if filled.get("family") == "causal" else tuple(_FEATURES)
    for argument in tables:
        if not isinstance(filled.get(argument), str):
            continue
        try:
            _fill_in(filled, argument, folder)
        except (InvalidArgument, MissingExtra) as error:
            mistakes.append(in_words("problem", error))
            doubtful.add(argument)
            del filled[argument]
    return filled


def _fill_in(filled: dict[str, Any], argument: str, folder: Path) -> None:
    """Put what a file holds in the place of its name."""
    path = folder / filled[argument]
    if argument == _ARMS:
        filled[argument] = _read_rows(argument, path)
        return
    labels, filled[argument] = _read_features(argument, path)
    if labels is not None:
        filled.setdefault(_FEATURES[argument], labels)


def _read_rows(argument: str, path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, every value as it is written."""
    try:
        table = read_table(path)
        table = read_table(path, text=list(table))
    except InvalidArgument as error:
        raise InvalidArgument(argument, error.accepted, error.given) from error
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def warn_without_constant(section: Mapping[str, Any], problem: Problem | None) -> None:
    """Warn of a table of features that says, perhaps unawares, that means are 0 at 0."""
    is_table = isinstance(section.get("features"), str)
    if is_table and not getattr(problem, "has_intercept", True):
        from fairtrial.linear.problem import NO_INTERCEPT

        warnings.warn(NO_INTERCEPT, stacklevel=2)


def _read_features(argument: str, path: Path) -> tuple[list[str] | None, list[list[float]]]:
    """Return the labels of a table's rows, if it has them, and the numbers of each row."""
    try:
        table = read_table(path, text=[_LABELS])
    except InvalidArgument as error:
        raise InvalidArgument(argument, error.accepted, error.given) from error
    labels = table.pop(_LABELS, None)
    texts = [name for name, column in table.items() if isinstance(column[0], str)]
    if texts:
        raise InvalidArgument(
            argument,
            f"must have numbers in every column but {_LABELS!r}; {path.name} has text in "
            f"{', '.join(map(repr, texts))} (give each of its values a column of 0 and 1)",
        )
    return labels, [list(row) for row in zip(*table.values(), strict=True)]
