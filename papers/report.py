"""The report of a reproduction: our tables next to the published ones, as text and as data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "AGREES",
    "Cell",
    "Measured",
    "Report",
    "Row",
    "Section",
    "Table",
    "keeps_level",
    "save_figures",
    "share",
]

AGREES = "agrees"
"""The column that contains a row's verdict."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A mean with its standard error, if it is known.

    Examples
    --------
    >>> str(Measured(730.4, 11.2)), str(Measured(0.976)), str(Measured(104.4, 1.66))
    ('730 (11)', '0.976', '104 (1.7)')
    """

    mean: float
    error: float | None = None

    @classmethod
    def of(cls, values: ArrayLike) -> Self:
        """Return the mean and standard error of one number per run.

        Examples
        --------
        >>> Measured.of([1.0, 2.0, 3.0])
        Measured(mean=2.0, error=0.5773502691896258)
        """
        given = np.asarray(values, dtype=np.float64)
        error = float(given.std(ddof=1)) / math.sqrt(given.size) if given.size > 1 else None
        return cls(float(given.mean()), error)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a table's text such as "730 (11)" or "730".

        Examples
        --------
        >>> Measured.parse("730 (11)")
        Measured(mean=730.0, error=11.0)
        """
        mean, _, error = text.partition(" ")
        return cls(float(mean), float(error.strip("()")) if error else None)

    def agrees_with(self, reference: Measured, errors: float = 4.0) -> bool:
        """Return whether two means differ by at most `errors` standard errors of the difference.

        Examples
        --------
        >>> Measured(730, 11).agrees_with(Measured(800, 10))
        False
        """
        spread = math.hypot(self.error or 0.0, reference.error or 0.0)
        return abs(self.mean - reference.mean) <= errors * spread

    def rounded(self, decimals: int) -> str:
        """Return mean and standard error with `decimals` digits after the decimal point.

        Examples
        --------
        >>> Measured(0.34, 0.01498).rounded(3)
        '0.340 (0.015)'
        """
        error = "" if self.error is None else f" ({self.error:,.{decimals}f})"
        return f"{self.mean:,.{decimals}f}{error}"

    def __str__(self) -> str:
        error = "" if self.error is None else f" ({_number(self.error, 2)})"
        return f"{_number(self.mean, 3)}{error}"


Cell = Measured | str | float | int | bool | None
"""A cell of a table; True and False are verdicts, None is an empty cell."""

Row = dict[str, Cell]
"""One line of a table, by column."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with the same columns; a column named "agrees" holds verdicts.

    Parameters
    ----------
    rows : tuple of dict of str to Cell
        At least one; the first names the columns.
    title : str
        What the table shows, if its section does not say so.
    decimals : mapping of str to int
        Digits after the decimal point, for columns whose numbers should be aligned; in other
        columns, the digits follow each number's precision.
    """

    rows: tuple[Row, ...]
    title: str = ""
    decimals: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        names = list(self.rows[0])
        texts = [[self._text(row[name], name) for name in names] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(names, *texts, strict=True)]
        numeric = [_is_numeric(self.rows, name) for name in names]
        rule = [
            "-" * (width - 1) + (":" if right else "-")
            for width, right in zip(widths, numeric, strict=True)
        ]
        lines = [_line(row, widths, numeric) for row in (names, rule, *texts)]
        return "\n".join([f"{self.title}\n", *lines] if self.title else lines)

    def _text(self, cell: Cell, name: str) -> str:
        decimals = self.decimals.get(name)
        if decimals is not None and isinstance(cell, float) and math.isfinite(cell):
            return f"{cell:,.{decimals}f}"
        if decimals is not None and isinstance(cell, Measured):
            return cell.rounded(decimals)
        return _text(cell)

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON types."""
        rows = [{name: _plain(cell) for name, cell in row.items()} for row in self.rows]
        return {"title": self.title, "rows": rows}


@dataclass(frozen=True, slots=True)
class Section:
    """Tables that belong together, with a text that interprets them."""

    name: str
    title: str
    text: str
    tables: tuple[Table, ...]

    def __str__(self) -> str:
        return "\n\n".join([f"## {self.title}", self.text, *map(str, self.tables)])

    @property
    def verdicts(self) -> list[bool]:
        """Return the verdicts of all rows that have one."""
        cells = [row.get(AGREES) for table in self.tables for row in table.rows]
        return [cell for cell in cells if isinstance(cell, bool)]

    def to_dict(self) -> dict[str, Any]:
        """Return the section as JSON types."""
        tables = [table.to_dict() for table in self.tables]
        return {"name": self.name, "title": self.title, "text": self.text, "tables": tables}


@dataclass(frozen=True, slots=True)
class Report:
    """All sections of one reproduction.

    Parameters
    ----------
    title : str
        The paper.
    quick : bool
        Whether it used few replications.
    seed : int
        Source of all randomness.
    seconds : float
        Running time.
    sections : tuple of Section
        The sections in reading order.
    """

    title: str
    quick: bool
    seed: int
    seconds: float
    sections: tuple[Section, ...]

    @property
    def verdicts(self) -> list[bool]:
        """Return the verdicts of all sections."""
        return [verdict for section in self.sections for verdict in section.verdicts]

    @property
    def conclusion(self) -> str:
        """Return one line that says how many comparisons agree."""
        verdicts = self.verdicts
        return (
            f"{sum(verdicts)} of {len(verdicts)} comparisons agree; "
            f"{self.seconds:.0f} s, seed {self.seed}{', quick' if self.quick else ''}."
        )

    def __str__(self) -> str:
        parts = [f"# {self.title}", *map(str, self.sections), self.conclusion]
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        return {
            "title": self.title,
            "quick": self.quick,
            "seed": self.seed,
            "seconds": self.seconds,
            "agree": sum(self.verdicts),
            "compared": len(self.verdicts),
            "sections": [section.to_dict() for section in self.sections],
        }


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "NO"
    if isinstance(cell, float):
        return f"{cell:,.9g}" if math.isfinite(cell) else "never"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _number(value: float, digits: int) -> str:
    """Return a number with `digits` significant digits, or more if its integer part has more.

    Examples
    --------
    >>> _number(6928.7, 3), _number(104.41, 3), _number(1.66, 2), _number(0.00051, 2)
    ('6,929', '104', '1.7', '0.00051')
    """
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, decimals)}f}"


def _is_numeric(rows: tuple[Row, ...], name: str) -> bool:
    return not any(isinstance(row[name], str | bool) for row in rows)


def _line(texts: list[str], widths: list[int], numeric: list[bool]) -> str:
    cells = [
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(texts, widths, numeric, strict=True)
    ]
    return f"| {' | '.join(cells)} |"


def _plain(cell: Cell) -> Any:
    if isinstance(cell, Measured):
        return {"mean": cell.mean, "standard_error": cell.error}
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell


def share(hits: int, runs: int) -> Measured:
    """Return a share with its standard error, if the hits determine one.

    Examples
    --------
    >>> str(share(29, 100)), str(share(0, 100))
    ('0.290 (0.045)', '0')
    """
    rate = hits / runs
    # With no hits, or only hits, the usual standard error would be 0, so it is left out.
    error = math.sqrt(rate * (1.0 - rate) / runs) if 0 < hits < runs else None
    return Measured(rate, error)


def keeps_level(hits: int, runs: int, delta: float) -> bool:
    """Return whether the number of errors is compatible with an error probability of `delta`.

    Examples
    --------
    >>> keeps_level(12, 100, 0.1), keeps_level(31, 100, 0.1)
    (True, False)
    """
    return hits / runs <= delta + 3.0 * math.sqrt(delta / runs)


def save_figures(figures: Iterable[tuple[str, Figure]], folder: Path, dpi: int = 150) -> list[Path]:
    """Write named figures into a folder; return their paths."""
    paths = []
    for name, figure in figures:
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=dpi)
    return paths
