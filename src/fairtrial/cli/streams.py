"""The lines of a command that reports while it runs: readings, and finally the outcome."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from fairtrial.core.cells import NotANumber, number_of
from fairtrial.core.measures import Measures
from fairtrial.errors import FairtrialError
from fairtrial.study.reporting import StopPull

if TYPE_CHECKING:
    from fairtrial.study.reporting import Report

__all__ = [
    "Lines",
    "MeasureLines",
    "ReadingLine",
    "Readings",
    "Trouble",
    "parse_reading",
    "quoted",
    "record_in",
]

_BLOCK = 65_536
_SHOWN = 100
_MOST_BITS = sys.float_info.max_exp
_KEYS = frozenset({"value", "stage", "elapsed", "std", "more"})


class Trouble(Exception):
    """A problem with a command; the text continues "the command"."""


class ReadingLine(NamedTuple):
    """One line: a value, details about it, and whether more lines will come."""

    text: str
    value: float
    details: dict[str, Any]
    more: bool = False


def quoted(line: str) -> str:
    """Return what a command printed in a message, shortened.

    Examples
    --------
    >>> quoted("oops"), len(quoted("x" * 1000))
    ("'oops'", 105)
    """
    return repr(line) if len(line) <= _SHOWN else f"{line[:_SHOWN]!r}..."


def parse_reading(line: str) -> ReadingLine:
    """Return the content of a line.

    Raises
    ------
    Trouble
        If it is neither a number nor an object with a value.

    Examples
    --------
    >>> parse_reading('{"value": 0.25, "stage": 3}').details
    {'stage': 3}
    """
    try:
        return ReadingLine(line, number_of(line), {})
    except NotANumber as error:
        record = record_in(line)
        if record is None:
            accepted = f"{error}, or a JSON object with a value"
            raise Trouble(f"printed {quoted(line)}: a line {accepted}") from None
    if not _is_number(record.get("value")):
        raise Trouble(f"printed {quoted(line)}: value must be a number")
    unknown = sorted(record.keys() - _KEYS)
    if unknown:
        raise Trouble(f"printed {quoted(line)}: {unknown[0]!r} is not one of {sorted(_KEYS)}")
    details: dict[str, Any] = {
        key: record[key] for key in ("stage", "elapsed", "std") if key in record
    }
    for key, given in details.items():
        if not _is_number(given):
            raise Trouble(f"printed {quoted(line)}: {key} must be a number")
    more = record.get("more", False)
    if not isinstance(more, bool):
        raise Trouble(f"printed {quoted(line)}: more must be true or false")
    return ReadingLine(line, float(record["value"]), details, more)


def record_in(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line; None if it holds none.

    Examples
    --------
    >>> record_in('{"Y": 1}'), record_in("[1]")
    ({'Y': 1}, None)
    """
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
        return record if isinstance(record, dict) else None
    return None


def _is_number(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return value.bit_length() < _MOST_BITS
    return isinstance(value, float)


class Lines:
    """Follows the file that a command writes, line by line.

    Parameters
    ----------
    stream : file
        The file that the command writes to.

    Attributes
    ----------
    has_reported : bool
        Whether something of the pull is in the study's log.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._file = stream.fileno()
        self._position = 0
        self._rest = b""
        self._has_ended = False
        self.has_reported = False

    def follow(self) -> None:
        """Report everything that was written since the last call.

        Raises
        ------
        StopPull
            If the pull is no longer needed.
        Trouble
            If a line is not acceptable, or its content is refused.
        """
        # pread: seeking would move the position at which the command writes.
        while block := os.pread(self._file, _BLOCK, self._position):
            self._position += len(block)
            *lines, self._rest = (self._rest + block).split(b"\n")
            if len(self._rest) > _BLOCK:
                raise Trouble(f"printed a line of more than {_BLOCK} characters")
            for line in lines:
                self._take(line)

    def end(self) -> None:
        """Report the rest after the command has ended; it cannot be stopped any more.

        Raises
        ------
        Trouble
            As in `follow`.
        """
        self._has_ended = True
        self.follow()
        self._take(self._rest)
        self._rest = b""

    def _take(self, line: bytes) -> None:
        text = line.decode(errors="replace").strip()
        if text:
            self._read(text)

    def _read(self, text: str) -> None:
        """Handle one line."""
        raise NotImplementedError

    def _tell(self, report: Report, text: str, value: Any, **details: Any) -> None:
        try:
            report(value, **details)
        except StopPull:
            if not self._has_ended:
                raise
        except FairtrialError as error:
            raise Trouble(f"printed {quoted(text)}: {error}") from None
        else:
            self.has_reported = True


class Readings(Lines):
    """Reports each line except the last, which is the outcome.

    A line is known not to be the last when the next one comes. A line that announces more lines is
    reported at once.

    Parameters
    ----------
    stream : file
        The file that the command writes to.
    report : Report
        Called with the readings.
    """

    def __init__(self, stream: IO[bytes], report: Report) -> None:
        super().__init__(stream)
        self._report = report
        self._last: ReadingLine | None = None

    def outcome(self) -> tuple[float, str]:
        """Return the last line's value, and its text, after the end.

        Raises
        ------
        Trouble
            If the last line is not an outcome, or there is none.
        """
        if self._last is None:
            raise Trouble("printed no outcome as its last line")
        return self._last.value, quoted(self._last.text)

    def _read(self, text: str) -> None:
        reading = parse_reading(text)
        if self._last is not None:
            self._pass_on(self._last)
        self._last = reading
        if reading.more:
            self._pass_on(reading)
            self._last = None

    def _pass_on(self, reading: ReadingLine) -> None:
        self._tell(self._report, reading.text, reading.value, **reading.details)


class MeasureLines(Lines):
    """Takes the values of measures; each line is a JSON object with some of them.

    Values are reported while the command runs, so that plans can use them before the others are
    known. Lines that are not objects are ignored.

    Parameters
    ----------
    stream : file
        The file that the command writes to.
    measured : Measures
        The measures.
    report : Report, optional
        Called with the values; without it they are kept for `outcome`.
    """

    def __init__(self, stream: IO[bytes], measured: Measures, report: Report | None) -> None:
        super().__init__(stream)
        self._measured = measured
        self._report = report
        self._known: dict[str, float | None] = {}
        self._reported: set[str] = set()

    def outcome(self) -> dict[str, float | None]:
        """Return the printed values that were not reported yet, after the end.

        Raises
        ------
        Trouble
            If no measure was printed.
        """
        if not self._known:
            names = ", ".join(self._measured.names)
            raise Trouble(
                f"printed no line with a measure: each is a JSON object with some of {names}"
            )
        return {name: value for name, value in self._known.items() if name not in self._reported}

    def _read(self, text: str) -> None:
        if not text.startswith("{"):
            return
        try:
            values = self._measured.named(json.loads(text))
        except (ValueError, RecursionError, FairtrialError) as error:
            about = error if isinstance(error, FairtrialError) else "which is not a JSON object"
            raise Trouble(f"printed {quoted(text)}: {about}") from None
        for name, value in values.items():
            if self._known.setdefault(name, value) != value:
                raise Trouble(f"printed {quoted(text)}, but another value of {name} before")
        new = {
            name: value
            for name, value in values.items()
            if value is not None and name not in self._reported
        }
        if new and self._report is not None and not self._has_ended:
            self._tell(self._report, text, new)
            self._reported.update(new)
