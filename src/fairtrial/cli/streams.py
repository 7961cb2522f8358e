"""The lines of a command that reports while it runs: readings, and at its end the outcome."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from fairtrial.errors import FairtrialError
from fairtrial.study.reporting import StopPull

if TYPE_CHECKING:
    from fairtrial.study.reporting import Report

__all__ = ["ReadingLine", "Readings", "Trouble", "parse_reading", "quoted"]

_BLOCK = 65_536
_SHOWN = 100
_MOST_BITS = sys.float_info.max_exp
_KEYS = frozenset({"value", "stage", "elapsed", "std", "more"})


class Trouble(Exception):
    """What went wrong with a command, to be read after "the command"."""


class ReadingLine(NamedTuple):
    """One line: a value, what is known of it, and whether it says that more lines will come."""

    text: str
    value: float
    details: dict[str, Any]
    more: bool = False


def quoted(line: str) -> str:
    """Return what a command printed, for a message: not too much of it.

    Examples
    --------
    >>> quoted("oops"), len(quoted("x" * 1000))
    ("'oops'", 105)
    """
    return repr(line) if len(line) <= _SHOWN else f"{line[:_SHOWN]!r}..."


def parse_reading(line: str) -> ReadingLine:
    """Return what a line says.

    Raises
    ------
    Trouble
        If it is neither a number nor an object with a value.

    Examples
    --------
    >>> parse_reading('{"value": 0.25, "stage": 3}').details
    {'stage': 3}
    """
    with suppress(ValueError):
        return ReadingLine(line, float(line), {})
    record: Any = None
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
    if not isinstance(record, dict) or not _is_number(record.get("value")):
        raise Trouble(
            f"printed {quoted(line)}, which is neither a number nor an object with a value"
        )
    unknown = sorted(record.keys() - _KEYS)
    if unknown:
        raise Trouble(f"printed {quoted(line)}: {unknown[0]!r} is not one of {sorted(_KEYS)}")
    details = {key: record[key] for key in ("stage", "elapsed", "std") if key in record}
    for key, given in details.items():
        if not _is_number(given):
            raise Trouble(f"printed {quoted(line)}: {key} must be a number")
    more = record.get("more", False)
    if not isinstance(more, bool):
        raise Trouble(f"printed {quoted(line)}: more must be true or false")
    return ReadingLine(line, float(record["value"]), details, more)


def _is_number(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return value.bit_length() < _MOST_BITS
    return isinstance(value, float)


class Readings:
    """Follows the file that a command writes, and reports each line but the last.

    Which line is the last is known when the next one comes, or when the command has ended; a
    line that says that more will come is reported at once.

    Parameters
    ----------
    stream : file
        What the command writes to.
    report : Report
        Takes the readings.
    """

    def __init__(self, stream: IO[bytes], report: Report) -> None:
        self._file = stream.fileno()
        self._report = report
        self._position = 0
        self._rest = b""
        self._last: ReadingLine | None = None
        self._has_ended = False

    def follow(self) -> None:
        """Report what has come since.

        Raises
        ------
        StopPull
            If the pull no longer matters.
        Trouble
            If a line is no reading, or one that is refused.
        """
        # By its place: to seek would move the place where the command writes.
        while block := os.pread(self._file, _BLOCK, self._position):
            self._position += len(block)
            *lines, self._rest = (self._rest + block).split(b"\n")
            if len(self._rest) > _BLOCK:
                raise Trouble(f"printed a line of more than {_BLOCK} characters")
            for line in lines:
                self._take(line)

    def end(self) -> None:
        """Report the rest, once the command has ended: nothing is to be stopped any more.

        Raises
        ------
        Trouble
            As `follow`.
        """
        self._has_ended = True
        self.follow()
        self._take(self._rest)
        self._rest = b""

    def outcome(self) -> tuple[float, str]:
        """Return the last line's value, and how it was printed, after the end.

        Raises
        ------
        Trouble
            If there is no last line that is the outcome.
        """
        if self._last is None:
            raise Trouble("printed no last line that is the outcome")
        return self._last.value, quoted(self._last.text)

    def _take(self, line: bytes) -> None:
        text = line.decode(errors="replace").strip()
        if not text:
            return
        reading = parse_reading(text)
        if self._last is not None:
            self._tell(self._last)
        self._last = reading
        if reading.more:
            self._tell(reading)
            self._last = None

    def _tell(self, reading: ReadingLine) -> None:
        try:
            self._report(reading.value, **reading.details)
        except StopPull:
            if not self._has_ended:
                raise
        except FairtrialError as error:
            raise Trouble(f"printed {quoted(reading.text)}: {error}") from None
