"""What all that carry out pulls share: how they ask, tell what became of a pull, and end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fairtrial.errors import AlreadyTold, ConflictingOutcome, InvalidOutcome, SourceError
from fairtrial.study.base import BaseStudy
from fairtrial.study.pull import StudyPull
from fairtrial.study.reporting import Ended, known_measures

__all__ = ["NOT_NEEDED", "Ending", "PullLoop", "Work"]

_Answer = TypeVar("_Answer")

Ending = Literal["stopped", "limit", "interrupted"]
"""Why a loop ended: the study stopped, the limit of pulls was reached, or it was interrupted."""

NOT_NEEDED = "no longer needed"
"""The reason with which pulls are cancelled."""


@dataclass(eq=False)
class Work:
    """The work on one pull.

    `is_open` is true until its outcome is told, the pull is given up or its outcome is no longer
    needed; the function may still be running after that. `is_needed` is false once the policy does
    not need the pull, which can stay open until the function ends.
    """

    pull: StudyPull
    has_readings: bool = False
    is_open: bool = True
    is_needed: bool = True


class PullLoop(ABC):
    """Asks a study for pulls, tells it what became of them, and counts failures.

    Subclasses decide how many pulls are begun, where they are carried out, and how long. They call
    these methods in the thread that runs the loop, except `_read`.

    Parameters
    ----------
    study : BaseStudy
        The study.
    max_failures : int
        Largest number of failures in a row before the loop ends with an error.
    interrupted : callable
        Called regularly: whether to end.
    actor : str, optional
        Who tells; recorded.
    """

    def __init__(
        self,
        study: BaseStudy,
        max_failures: int,
        interrupted: Callable[[], bool],
        actor: str | None = None,
    ) -> None:
        self._told_to = study
        self._interrupted = interrupted
        self._who = {} if actor is None else {"actor": actor}
        self._max_failures = max_failures
        self._failures = 0
        self._work: dict[str, Any] = {}
        self._may_have_more = True
        self._error: Exception | None = None

    # ---------------------------------------------------------------- how work begins

    def _fill(self) -> None:
        """Ask for as many pulls as there are free places, unless none are expected."""
        wanted = self._places()
        if wanted > 0 and self._may_have_more:
            pulls = self._ask(wanted)
            self._may_have_more = len(pulls) == wanted
            self._begin(pulls)

    @abstractmethod
    def _places(self) -> int:
        """Return how many pulls can be begun now."""

    @abstractmethod
    def _ask(self, wanted: int) -> Sequence[StudyPull]:
        """Ask the study for pulls; return as many as it gives."""

    @abstractmethod
    def _begin(self, pulls: Sequence[StudyPull]) -> None:
        """Begin the work on pulls."""

    # ------------------------------------------------------------------ how work ends

    def _settle(self, work: Work, ended: Ended) -> None:
        """Tell the study how the work on a pull ended."""
        del self._work[work.pull.id]
        self._may_have_more = True
        if ended.kind == "done":
            self._tell(work, ended.outcome)
        elif ended.kind in ("fatal", "unreachable"):
            self._end_with(SourceError(ended.about))
        elif ended.kind == "stopped":
            self._fail(work, "lost", "it was given up by its worker")
        else:
            self._fail(work, ended.kind, ended.about, ended.trace)

    def _tell(self, work: Work, outcome: Any) -> None:
        try:
            self._patiently(lambda: self._record(work, outcome))
        except (InvalidOutcome, ConflictingOutcome) as error:
            self._fail(work, "error", str(error))
        else:
            self._failures = 0
            self._may_have_more = True
            self._note(work, repr(outcome))

    def _record(self, work: Work, outcome: Any) -> None:
        """Record an outcome; with several measures, those that are known, and the rest later."""
        if not self._told_to.problem.measures:
            self._told_to.tell(work.pull, outcome, **self._who)
            return
        known = known_measures(outcome, has_readings=work.has_readings)
        event = self._told_to.tell_known(work.pull, known, **self._who)
        if event is None or event.kind == "report":
            self._leave_to_others(work)

    def _read(self, work: Work, value: Any, details: Mapping[str, Any]) -> None:
        """Record a reading."""
        try:
            self._told_to.report(work.pull, value, **self._who, **details)
        except ConflictingOutcome:
            raise
        except AlreadyTold:
            work.is_open = False
        else:
            work.has_readings = True

    def _fail(self, work: Work, reason: str, about: str, trace: str = "") -> None:
        """Report that a pull will have no outcome."""
        self._give_up(work, self._told_to.fail, reason)
        self._note(work, f"{reason}: {about}")
        self._count_failure(work, about if reason == "error" else f"{reason}: {about}", trace)

    def _give_up(self, work: Work, how: Callable[..., object], reason: str) -> None:
        work.is_open = False
        self._may_have_more = True
        with suppress(AlreadyTold):
            self._patiently(lambda: how(work.pull, reason, **self._who))

    def _count_failure(self, work: Work, about: str, trace: str = "") -> None:
        self._failures += 1
        if self._failures > self._max_failures:
            text = f"{work.pull!r} failed: {about}"
            if self._failures > 1:
                text = f"{self._failures} pulls in a row failed; the last: {text}"
            self._end_with(SourceError(f"{text}\n{trace}".strip()))

    def _ending(self, *, has_stopped: bool) -> Ending:
        """Return why the loop has ended; raise if it was an error."""
        if self._error is not None:
            raise self._error
        if has_stopped:
            return "stopped"
        return "interrupted" if self._interrupted() else "limit"

    # ---------------------------------------------------------- what subclasses change

    def _patiently(self, call: Callable[[], _Answer]) -> _Answer:
        """Return the result of a call to the study; a subclass may repeat it."""
        return call()

    def _leave_to_others(self, work: Work) -> None:  # noqa: B027 - only some need it
        """Do what is needed for a pull whose other measures are told by others."""

    def _note(self, work: Work, about: str) -> None:  # noqa: B027 - only some need it
        """Note what became of a pull."""

    def _end_with(self, error: Exception) -> None:
        """Begin nothing more; raise the error once everything that has begun has ended."""
        self._error = self._error or error
