"""What the package logs, below the logger ``fairtrial``: named events with named facts."""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import dataclass

__all__ = ["LogEvent", "RareLog", "logger"]

_PAUSE = 60.0
"""Seconds between two records of an event that may happen all the time."""

_TOP = logging.getLogger("fairtrial")
# Otherwise Python writes warnings to the standard error of programs that asked for none.
_TOP.addHandler(logging.NullHandler())


def logger(name: str) -> logging.Logger:
    """Return the logger ``fairtrial.<name>``; the program decides whether anything is shown.

    Examples
    --------
    >>> logger("allocation").name
    'fairtrial.allocation'
    """
    return _TOP.getChild(name)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A kind of event that is logged; ``docs/reference/logging.md`` lists all of them.

    The record's message is the name and the facts. Its attribute `event` is the name, and `facts`
    is a dictionary of the facts, which a formatter can write as JSON.

    Parameters
    ----------
    logger : str
        The logger, below ``fairtrial``.
    name : str
        What happened.
    level : int
        The level.
    facts : tuple of str
        The names of the facts. None of them holds outcomes, arms, units or other personal data.

    Examples
    --------
    >>> LogEvent("study", "study created", logging.INFO, ("study",)).log(study="trial")
    """

    logger: str
    name: str
    level: int
    facts: tuple[str, ...]

    def log(self, **facts: object) -> None:
        """Log that it happened, with its facts."""
        target = logger(self.logger)
        if not target.isEnabledFor(self.level):
            return
        said = ", ".join(f"{name}={fact!r}" for name, fact in facts.items())
        extra = {"event": self.name, "facts": facts}
        target.log(self.level, "%s: %s", self.name, said, extra=extra, stacklevel=2)


class RareLog:
    """Logs an event at most once a minute for each subject, with the number of `times` since then.

    Parameters
    ----------
    event : LogEvent
        The event; `times` is one of its facts.

    Examples
    --------
    >>> event = LogEvent("study", "unknown label", logging.WARNING, ("study", "times"))
    >>> RareLog(event).log("trial", at=0.0, study="trial")
    """

    def __init__(self, event: LogEvent) -> None:
        self._event = event
        self._times: Counter[str] = Counter()
        self._logged: dict[str, float] = {}

    def log(self, subject: str, at: float, **facts: object) -> None:
        """Log that it happened to a subject at a time, in seconds."""
        self._times[subject] += 1
        if abs(at - self._logged.get(subject, -math.inf)) >= _PAUSE:
            self._logged[subject] = at
            self._event.log(**facts, times=self._times.pop(subject))
