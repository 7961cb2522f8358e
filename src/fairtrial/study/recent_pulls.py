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
    """Open pulls of studies whose logs no other process has written since.

    The hash of a log's last event shows whether this is so.
    """

    def __init__(self) -> None:
        self._pulls: OrderedDict[int, dict[str, PullRow]] = OrderedDict()
        self._heads: dict[int, str] = {}
        self._number = 0

    def find(self, study: StudyRow, pull_id: str) -> PullRow | None:
        """Return an open pull of a study with this head; None if it must be read from the store."""
        if self._heads.get(study.id) != study.head_hash:
            self._forget(study.id)
            return None
        return self._pulls[study.id].get(pull_id)

    def keep(self, before: StudyRow, after: StudyRow, pulls: Iterable[PullRow]) -> None:
        """Remember the pulls that a committed transaction changed, and the new head."""
        if self._heads.get(before.id) != before.head_hash:
            self._forget(before.id)
        known = self._pulls.setdefault(after.id, {})
        self._pulls.move_to_end(after.id)
        self._heads[after.id] = after.head_hash
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
        self._heads.pop(study_id, None)
