"""Waiting for events that anybody may write, on any machine."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from fairtrial.study.store import StudyRow

__all__ = ["Waiting"]


class Waiting(ABC):
    """The part of a store that waits for others to write."""

    @abstractmethod
    def read_study(self, study_id: int) -> StudyRow:
        """Return the study as it is now."""

    @abstractmethod
    def changes(self) -> object:
        """Return what will be another value once anybody has written to the storage."""

    @abstractmethod
    def await_change(self, seen: object, seconds: float) -> None:
        """Wait until `changes` is no longer `seen`, or for so many seconds; or less."""

    def wait(self, study_id: int, after: int, seconds: float) -> bool:
        """Wait until a study has more events than `after`; return whether they came in time."""
        deadline = time.monotonic() + seconds
        while True:
            # Before the look: what is written after it is then a change.
            seen = self.changes()
            if self.read_study(study_id).head_seq > after:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.await_change(seen, left)
