"""Keep recently written open pulls in memory, so that they need not be read for their results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from fairtrial.study.log import PullRow
from fairtrial.study.store import StudyRow

__all__ = ["RecentPulls"]

_MOST = 20_000
"""Number of pulls kept for all studies together, about ten megabytes."""


class RecentPulls:
    """Open pulls of studies that no other process has written since.

    The hash of a log's last event and the number of changed leases show whether this is so.
    """

    def __init__(self) -> None:
        self._pulls: OrderedDict[int, dict[str, PullRow]] = OrderedDict()
        self._states: dict[int, tuple[str, int]] = {}
        self._number = 0

    def find(self, study: StudyRow, pull_id: str) -> PullRow | None:
        """Return an open pull of a study in this state; None if it must be read from the store."""
        if self._states.get(study.id) != _state_of(study):
            self._forget(study.id)
            return None
        return self._pulls[study.id].get(pull_id)

    def keep(self, before: StudyRow, after: StudyRow, pulls: Iterable[PullRow]) -> None:
        """Remember the pulls that a committed transaction changed, and the state after it."""
        if self._states.get(before.id) != _state_of(before):
            self._forget(before.id)
        known = self._pulls.setdefault(after.id, {})
        self._pulls.move_to_end(after.id)
        self._states[after.id] = _state_of(after)
        self._number -= len(known)
        for pull in pulls:
            known.pop(pull.pull_id, None)
            if pull.state == "open":
                known[pull.pull_id] = pull
        self._number += len(known)
        while self._number > _MOST:
            self._forget(next(iter(self._pulls)))

    def _forget(self, study_id: int) -> None:
        self._number -= len(self._pulls.pop(study_id, ()))
        self._states.pop(study_id, None)


def _state_of(study: StudyRow) -> tuple[str, int]:
    return study.head_hash, study.lease_changes
