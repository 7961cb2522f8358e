"""Wait for events that any process, on any machine, may write."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from fairtrial.study.store import StudyRow

__all__ = ["Waiting"]


class Waiting(ABC):
    """The part of a store that waits for others to write."""

    @abstractmethod
    def read_study(self, study_id: int) -> StudyRow:
        """Return the current row of a study."""

    @abstractmethod
    def changes(self) -> object:
        """Return a value that differs after any write to the storage."""

    @abstractmethod
    def await_change(self, seen: object, seconds: float) -> None:
        """Wait until `changes` no longer equals `seen`, for at most that many seconds."""

    def wait(self, study_id: int, after: int, seconds: float) -> bool:
        """Wait until a study has more events than `after`; return whether they came in time."""
        deadline = time.monotonic() + seconds
        while True:
            # Read this first, so that any write after the check counts as a change.
            seen = self.changes()
            if self.read_study(study_id).head_seq > after:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.await_change(seen, left)
