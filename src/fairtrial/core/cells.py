"""Cells of tables: what is blank, which text is a number, and how labels are read."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any

from fairtrial.core.warning import warn_caller
from fairtrial.errors import InvalidArgument

__all__ = [
    "FAILED",
    "MISSING",
    "MIXED",
    "NotANumber",
    "NumberFormat",
    "UnreadableCell",
    "check_decimal",
    "is_blank",
    "label_of",
    "labels_in",
    "number_of",
    "number_or_text",
    "odd_cells",
    "refuse_odd_cells",
    "tidy",
]

FAILED, MISSING = "failed", "missing"
"""Words for a pull that has no outcome, and for a value that will never be known."""

MIXED = ", like most cells of the column; for categories, write text in every row, such as t90"
"""What helps if most cells of a column are numbers, and others not."""

_BLANK = frozenset({"", "na", "n/a", "nan", "nat", "<na>", "none", "null"})
"""How tables write a missing value, in lower case."""
_TRUTH = {"true": 1.0, "false": 0.0}
_ERRORS = ("#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!", "#CALC!")

_SPACES = dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f"), " ")
_INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u200e\u200f\u2060"))
_WRITTEN_OTHERWISE = {ord("\u2212"): "-", ord("\u2019"): "'"}
_DECIMALS = (".", ",")

# A sign, digits with marks between them, and an exponent.
_PARTS = re.compile(r"([+-]?)((?=[.,]?[0-9])[0-9., ']*)(e[+-]?[0-9]+)?", re.IGNORECASE)
_MAY_BE_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")
_GROUPED = re.compile(r"[1-9][0-9]{0,2}([., '])[0-9]{3}(?:\1[0-9]{3})*")
_DATE = re.compile(r"[0-9]{1,4}([-/.])[0-9]{1,2}\1[0-9]{1,4}([ T].*)?")

_CENSORED = re.compile(r"[<>\u2264\u2265]=?\s*[0-9.,]+")
_LEADING_UNIT = re.compile(r"[^\d\s.,+'_-]+\s*[+-]?[0-9][0-9., ']*")
_TRAILING_UNIT = re.compile(r"[+-]?[0-9][0-9., ']*[^\W\d_\s]\D*|[+-]?[0-9][0-9., ']*[°$€£¥]\w*")


_OF_A_DATE = ": this is a date, perhaps made by a spreadsheet"


class NotANumber(ValueError):
    """A cell that holds no number; its text says what is accepted, and what may help."""


@dataclass(frozen=True)
class UnreadableCell:
    """A cell whose content is not what people see, or is no content at all.

    Parameters
    ----------
    content : str
        What the file holds, such as a formula.
    problem : str
        What is wrong with it, and what helps.
    """

    content: str
    problem: str

    def __str__(self) -> str:
        return self.content

    def __repr__(self) -> str:
        return repr(self.content)


def is_blank(cell: Any) -> bool:
    """Return whether a cell is a missing value.

    Examples
    --------
    >>> is_blank(" "), is_blank("NA"), is_blank(float("nan")), is_blank(0)
    (True, True, True, False)
    """
    if isinstance(cell, int | float):
        return cell != cell
    return cell is None or tidy(str(cell)).lower() in _BLANK


def tidy(text: str) -> str:
    r"""Return text without spaces around it, and with plain spaces within.

    Examples
    --------
    >>> tidy("\ufeffB2\u00a0"), tidy("low\u00a0dose")
    ('B2', 'low dose')
    """
    if text.isascii():
        return text.strip()
    return text.translate(_SPACES).translate(_INVISIBLE).strip()


# ---------------------------------------------------------------------------- labels


def label_of(value: Any) -> str:
    """Return the label for a cell: 1.0 gives "1", and spaces around text are dropped."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return tidy(str(value))


def labels_in(cells: Sequence[Any], column: str, where: Callable[[int], str]) -> list[str]:
    """Return a column of labels; `where` gives the place of a row.

    Raises
    ------
    InvalidArgument
        If a cell is unreadable.

    Warns
    -----
    UserWarning
        If cells are the same label only without the spaces around it.
    """
    for row, cell in enumerate(cells):
        if isinstance(cell, UnreadableCell):
            raise InvalidArgument(f"{where(row)}: {column}", cell.problem, cell.content)
    # Each text is read once: columns of a million rows often have few values.
    texts = {cell for cell in cells if isinstance(cell, str)}
    written = {text: label_of(text) for text in texts}
    labels = [written[cell] if isinstance(cell, str) else label_of(cell) for cell in cells]
    if len(set(written.values())) < len(written):
        _warn_of_spaces(cells, labels, column, where)
    return labels


def _warn_of_spaces(
    cells: Sequence[Any], labels: Sequence[str], column: str, where: Callable[[int], str]
) -> None:
    exact = {cell for cell, label in zip(cells, labels, strict=True) if cell == label}
    for row, (cell, label) in enumerate(zip(cells, labels, strict=True)):
        if isinstance(cell, str) and cell != label and label in exact:
            warn_caller(f"column {column!r}, {where(row)}: {cell!r} is read as {label!r}")
            return


# --------------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of one column are written.

    Parameters
    ----------
    decimal : {".", ",", None}
        The decimal separator; None if the column does not show it.
    thousands : str
        The mark between thousands that the column shows; empty if it shows none.
    example : str
        A number of the column that shows the decimal separator, if there is one.
    """

    decimal: str | None = "."
    thousands: str = ""
    example: str = ""

    @classmethod
    def of(
        cls, cells: Iterable[Any], usual: str | None = ".", decimal: str | None = None
    ) -> NumberFormat:
        """Return the format that a whole column shows.

        Parameters
        ----------
        cells : iterable
            The column as written.
        usual : {".", ",", None}
            The decimal separator of such files if the column does not show another: a point in
            files with commas between columns, which would have to quote a decimal comma.
        decimal : {".", ",", None}
            The decimal separator that somebody has stated.

        Examples
        --------
        >>> NumberFormat.of(["740,2", "2.347"])
        NumberFormat(decimal=',', thousands='.', example='740,2')
        """
        # Digits alone show nothing.
        texts = (cell for cell in cells if isinstance(cell, str) and not _is_digits(cell))
        distinct = dict.fromkeys(texts)
        written = [body for body in map(_body, distinct) if body]
        example = ""
        if decimal is None:
            decimal, example = _decimal_of(written, usual)
        marks = (_thousands_of(body, decimal) for body in written) if decimal else iter(())
        return cls(decimal, next(filter(None, marks), ""), example)

    def number(self, cell: Any) -> float:
        """Return the number in a cell; 1 and 0 for "true" and "false" in upper or lower case.

        Raises
        ------
        NotANumber
            If it holds no finite number in this format.

        Examples
        --------
        >>> NumberFormat(",", ".").number("1.234,5")
        1234.5
        """
        found = self._of_text(cell) if isinstance(cell, str) else _native(cell)
        if not math.isfinite(found):
            raise NotANumber("must be a finite number")
        return found

    @property
    def settled(self) -> NumberFormat:
        """The format to tell numbers from text: a column may not show what its numbers are."""
        return self if self.decimal else NumberFormat(".", ",")

    def reads(self, cell: Any) -> bool:
        """Return whether a cell holds a number in this format."""
        try:
            self.number(cell)
        except NotANumber:
            return False
        return True

    def _of_text(self, cell: str) -> float:
        if _is_digits(cell):
            return float(cell)
        text = tidy(cell).translate(_WRITTEN_OTHERWISE)
        if _is_digits(text):
            return float(text)
        if text.lower() in _TRUTH:
            return _TRUTH[text.lower()]
        parts = _PARTS.fullmatch(text)
        if parts is None:
            raise NotANumber(f"must be a number{_hint(text)}")
        sign, body, exponent = parts.groups(default="")
        if self.decimal is None and ("." in body or "," in body):
            raise NotANumber(_both_readings(sign + body))
        return float(f"{sign}{self._plain(body)}{exponent}")

    def _plain(self, body: str) -> str:
        """Return the digits of a number with a decimal point and without other marks."""
        point = self.decimal or "."
        whole, _, fraction = body.rpartition(point) if point in body else (body, "", "")
        grouped = _GROUPED.fullmatch(whole)
        if grouped and grouped[1] not in (point, self.thousands):
            grouped = None
        is_plain = not whole or (whole.isdecimal() and whole.isascii())
        if not (grouped or is_plain) or not re.fullmatch("[0-9]*", fraction):
            raise NotANumber(f"must be a number{self._in_words}")
        digits = whole.replace(grouped[1], "") if grouped else whole
        return f"{digits or '0'}.{fraction or '0'}"

    @property
    def _in_words(self) -> str:
        """How numbers of the column are written, for messages."""
        decimal = " with a decimal comma" if self.decimal == "," else " with a decimal point"
        marks = {".": "points", ",": "commas", " ": "spaces", "'": "apostrophes"}
        between = (
            f"{marks[self.thousands]} between thousands" if self.thousands else "no other mark"
        )
        others = f", like {self.example!r} in the same column" if self.example else ""
        return f"{decimal} and {between}{others}"


def number_of(cell: Any) -> float:
    """Return the number in a single cell, which is written with a decimal point.

    Raises
    ------
    NotANumber
        If it holds no finite number. Python reads "1_000" as a number, but no table means it as
        one.
    """
    return NumberFormat().number(cell)


def number_or_text(cell: Any) -> Any:
    """Return a cell as a number if it is one, otherwise unchanged.

    Examples
    --------
    >>> number_or_text("0.5"), number_or_text("yes")
    (0.5, 'yes')
    """
    try:
        return number_of(cell)
    except NotANumber:
        return cell


def check_decimal(decimal: str | None) -> str | None:
    """Return a decimal separator that somebody has stated, or None.

    Raises
    ------
    InvalidArgument
        If it is neither a point nor a comma.
    """
    if decimal is not None and decimal not in _DECIMALS:
        raise InvalidArgument("decimal", "must be '.' or ','", decimal)
    return decimal


def odd_cells(cells: Sequence[Any], numbers: NumberFormat) -> list[int]:
    """Return the rows that hold no number, if most rows of the column do.

    Examples
    --------
    >>> odd_cells(["90", "105 C", "120"], NumberFormat())
    [1]
    """
    odd = [row for row, cell in enumerate(cells) if not numbers.reads(cell)]
    return odd if 2 * len(odd) < len(cells) else []


def refuse_odd_cells(
    cells: Sequence[Any], numbers: NumberFormat, column: str, where: Callable[[int], str]
) -> None:
    """Refuse a column in which most cells are numbers, and others not: it would be categories.

    Raises
    ------
    InvalidArgument
        If it is one; the error names the first cell that is no number.
    """
    numbers = numbers.settled
    for row in odd_cells(cells, numbers)[:1]:
        refusal = _refusal(cells[row], numbers)
        raise InvalidArgument(f"{where(row)}: {column}", f"{refusal}{MIXED}", cells[row])


def _refusal(cell: Any, numbers: NumberFormat) -> str:
    try:
        numbers.number(cell)
    except NotANumber as error:
        return str(error)
    return ""


def _native(cell: Any) -> float:
    """Return the number in a cell that is not text."""
    if isinstance(cell, UnreadableCell):
        raise NotANumber(cell.problem)
    try:
        return float(cell)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        is_date = isinstance(cell, date | time | timedelta)
        raise NotANumber(f"must be a number{_OF_A_DATE if is_date else ''}") from None


# ------------------------------------------------------------- the format of a column


def _is_digits(text: str) -> bool:
    return text.isdecimal() and text.isascii()


def _body(cell: str) -> str:
    """Return the digits of a number and the marks between them; empty if it is no number."""
    parts = _PARTS.fullmatch(tidy(cell).translate(_WRITTEN_OTHERWISE))
    return "" if parts is None else parts[2]


def _decimal_of(bodies: Sequence[str], usual: str | None) -> tuple[str | None, str]:
    """Return the decimal separator of a column, and a number that shows it.

    The separator is None if nothing shows it. If numbers show both, it is the more frequent one,
    and the other numbers are refused.
    """
    shown: dict[str, list[str]] = {mark: [] for mark in _DECIMALS}
    for body in bodies:
        mark = _shown_decimal(body)
        if mark is not None:
            shown[mark].append(body)
    if any(shown.values()):
        likely = usual or ","
        mark = max(_DECIMALS, key=lambda mark: (len(shown[mark]), mark == likely))
        return mark, shown[mark][0]
    # Other texts with such marks, like dates, are no numbers, however they are read.
    unclear = [body for body in bodies if _MAY_BE_THOUSANDS.fullmatch(body)]
    open_marks = {mark for body in unclear for mark in _DECIMALS if mark in body}
    if not open_marks:
        return usual or ".", ""
    return (usual if open_marks == {usual} else None), ""


def _shown_decimal(body: str) -> str | None:
    """Return the decimal separator that a number shows by itself."""
    counts = Counter(mark for mark in body if mark in _DECIMALS)
    if len(counts) == 2:
        last = max(_DECIMALS, key=body.rindex)
        return last if counts[last] == 1 and _GROUPED.fullmatch(body[: body.rindex(last)]) else None
    if not counts:
        return None
    mark, number = counts.popitem()
    if number == 1:
        return None if _MAY_BE_THOUSANDS.fullmatch(body) else mark
    other = _DECIMALS[1 - _DECIMALS.index(mark)]
    return other if _GROUPED.fullmatch(body) else None


def _thousands_of(body: str, decimal: str) -> str:
    """Return the mark between the thousands of a number; empty if there is none."""
    grouped = _GROUPED.fullmatch(body.rpartition(decimal)[0] if decimal in body else body)
    return grouped[1] if grouped and grouped[1] != decimal else ""


def _both_readings(written: str) -> str:
    mark = next(mark for mark in _DECIMALS if mark in written)
    name = {".": "point", ",": "comma"}[mark]
    fraction, thousands = written.replace(mark, "."), written.replace(mark, "")
    return (
        f"must be one number, and nothing in the column shows which: {fraction} if the {name} is "
        f"decimal, {thousands} if it stands between thousands; state decimal as '.' or ','"
    )


def _hint(text: str) -> str:
    """Return what may help, for text that is no number."""
    if text.upper() in _ERRORS:
        return ": this is an error of the spreadsheet"
    if _CENSORED.fullmatch(text):
        return (
            ": only a limit is known here; write the value that your protocol gives such results, "
            f"or {MISSING!r}"
        )
    if text.endswith("%"):
        return " without a percent sign: 72% may mean 0.72 or 72"
    if any(mark.isdigit() and not mark.isascii() for mark in text):
        return ", in the digits 0 to 9"
    if text.startswith("'"):
        return " without an apostrophe"
    if text.startswith("("):
        return ", with a minus sign if it is negative"
    if _DATE.fullmatch(text):
        return _OF_A_DATE
    if _LEADING_UNIT.fullmatch(text) or _TRAILING_UNIT.fullmatch(text):
        return " alone; a unit or currency belongs in the column's name"
    return ""
