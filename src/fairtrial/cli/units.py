"""Read a file with the units to ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairtrial.core.cells import is_blank, label_of
from fairtrial.core.reading import read_bytes, readable, text_of
from fairtrial.core.sheets import ENDINGS, read_sheet
from fairtrial.errors import InvalidArgument
from fairtrial.study.arguments import check_unit

__all__ = ["ListedUnit", "read_units"]

_COLUMN, _GROUP = "unit", "group"


class ListedUnit(NamedTuple):
    """A unit in a file, with its group if the file says it, and its place for messages."""

    name: str
    group: str | None
    where: str


def read_units(path: Path) -> list[ListedUnit]:
    """Return the units in a file, each once, in order.

    A table has the column ``unit``, and ``group`` if it says the groups. Any other file has one
    unit in each line, and may have blank lines.

    Raises
    ------
    InvalidArgument
        If the file cannot be read, has no units, has a unit that cannot be one, or a unit in two
        groups. The message names the line, and no unit: it is often personal data.
    """
    is_table = path.name.lower().endswith(tuple(ENDINGS))
    found: dict[str, ListedUnit] = {}
    for one in _of_table(path) if is_table else _of_text(path):
        try:
            check_unit(one.name)
        except InvalidArgument as error:
            raise InvalidArgument(f"--units, {one.where}", error.accepted) from None
        first = found.setdefault(one.name, one)
        if first.group != one.group:
            accepted = f"must have the same group as in {first.where}, for the same unit"
            raise InvalidArgument(f"--units, {one.where}", accepted, one.group)
    if not found:
        raise InvalidArgument("--units", "must have at least one unit", path.name)
    return list(found.values())


def _of_table(path: Path) -> Iterator[ListedUnit]:
    sheet = read_sheet(path)
    units = sheet.cells(_COLUMN)
    groups = sheet.labels(_GROUP) if sheet.has(_GROUP) else [None] * len(units)
    for row, (unit, group) in enumerate(zip(units, groups, strict=True)):
        yield ListedUnit("" if is_blank(unit) else label_of(unit), group, sheet.where(row))


def _of_text(path: Path) -> Iterator[ListedUnit]:
    with readable(path):
        text = text_of(path, read_bytes(path))
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield ListedUnit(line.strip(), None, f"line {number}")
