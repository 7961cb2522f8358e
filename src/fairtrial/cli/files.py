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
    for argument, labelled in _FEATURES.items():
        if not isinstance(filled.get(argument), str):
            continue
        try:
            labels, filled[argument] = _read_features(argument, folder / filled[argument])
        except (InvalidArgument, MissingExtra) as error:
            mistakes.append(in_words("problem", error))
            doubtful.add(argument)
            del filled[argument]
        else:
            if labels is not None:
                filled.setdefault(labelled, labels)
    return filled


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
