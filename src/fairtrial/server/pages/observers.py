"""The observers of the studies that people view, and the work that keeps them up to date."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from fairtrial.server.pages.observer import Observer, make_checks
from fairtrial.server.readers import Readers
from fairtrial.study import Study
from fairtrial.study.store import StudyRow

__all__ = ["Observers", "View"]

_Answer = TypeVar("_Answer")
_Work = Callable[[str], Coroutine[Any, Any, None]]

_MOST = 64
"""Number of studies followed; others are read again from the beginning when viewed."""
_SECONDS = 0.2
"""Seconds that a request may spend reading new events; the rest is read in the background."""
_SHORT = 2_000
"""Number of events that a request may read, or check, in one go."""
_LONGEST = 10.0
_PAUSE = 20.0
"""Least pause between two checks, as a multiple of the time that a check takes."""
_LEAST_PAUSE = 30.0


@dataclass(frozen=True, slots=True)
class View:
    """A study in the form that pages show, and how far its observer has read.

    Parameters
    ----------
    observer : Observer
        The observer, whose lock the caller holds.
    row : StudyRow
        The study's row in the store.
    """

    observer: Observer
    row: StudyRow

    @property
    def state(self) -> str:
        """A text that changes whenever the page would."""
        checks = self.observer.checks
        made = "" if checks is None else f"{checks.seq}.{checks.made_at:%H%M%S%f}"
        row = self.row
        state = f"{row.head_seq}-{row.duplicates}-{row.lease_changes}-{row.head_hash[:16]}"
        return f"{state}-{self.observer.seq}-{made}"


class Observers:
    """Shows studies on pages, in the threads of the readers.

    Parameters
    ----------
    readers : Readers
        The readers of studies.
    """

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._lock = Lock()
        self._known: OrderedDict[str, Observer] = OrderedDict()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def show(self, name: str, page: Callable[[View], _Answer], who: str) -> _Answer:
        """Return the result of `page` for the present state of a study, in the turn of `who`.

        Raises
        ------
        StudyNotFound
            If there is no such study.
        """
        answer, undone = await self._readers.run(name, lambda study: self._shown(study, page), who)
        for work in undone:
            self._start(name, work)
        return answer

    def _start(self, name: str, work: _Work) -> None:
        """Start work on a study in the background, unless it is already being done."""
        key = name, work.__name__
        if key not in self._tasks:
            task = self._tasks[key] = asyncio.ensure_future(work(name))
            task.add_done_callback(lambda _: self._tasks.pop(key, None))

    def _shown(self, study: Study, page: Callable[[View], _Answer]) -> tuple[_Answer, list[_Work]]:
        observer = self._observer(study)
        with observer.lock:
            is_short = study.n_events - observer.seq <= _SHORT
            row = observer.advance(_SECONDS if not is_short else _LONGEST)
            due = _is_due(observer, row)
            if due and row.head_seq <= _SHORT:
                observer.checks, due = make_checks(observer.study), False
            answer = page(View(observer, row))
            undone: list[_Work] = []
            if due or observer.seq < row.head_seq:
                undone.append(self._catch_up)
            if observer.is_reading_more:
                undone.append(self._look_on)
            return answer, undone

    def _observer(self, study: Study) -> Observer:
        with self._lock:
            observer = self._known.get(study.name)
            # A log that has become shorter was restored from a backup.
            if observer is None or observer.seq > study.n_events:
                observer = self._known[study.name] = Observer(study.session)
                if len(self._known) > _MOST:
                    self._known.popitem(last=False)
            self._known.move_to_end(study.name)
            return observer

    async def _catch_up(self, name: str) -> None:
        """Read the rest of a log, then check all of it."""
        while await self._readers.run_long(name, self._read_on):
            pass
        await self._readers.run_long(name, self._check)

    def _read_on(self, study: Study) -> bool:
        observer = self._observer(study)
        with observer.lock:
            return observer.seq < observer.advance(_SECONDS).head_seq

    async def _look_on(self, name: str) -> None:
        """Read the missing moments of a part in close-up."""
        while await self._readers.run_long(name, self._looked_on):
            # Pauses take half of the time, so that urgent work is not slowed down.
            await asyncio.sleep(_SECONDS)

    def _looked_on(self, study: Study) -> bool:
        observer = self._observer(study)
        with observer.lock:
            observer.read_more(_SECONDS)
            return observer.is_reading_more

    def _check(self, study: Study) -> None:
        observer = self._observer(study)
        if _is_due(observer, study.session.row()):
            observer.checks = make_checks(Study(study.session))


def _is_due(observer: Observer, row: StudyRow) -> bool:
    """Return whether there are unchecked events and the last check was not too recent."""
    checks = observer.checks
    if checks is None:
        return True
    if checks.seq == row.head_seq:
        return False
    pause = _PAUSE * checks.seconds
    if row.head_seq > _SHORT:
        pause = max(pause, _LEAST_PAUSE)
    return time.time() - checks.made_at.timestamp() > pause
