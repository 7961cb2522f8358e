"""Which participant a pull is for, and which kits were handed out for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from fairtrial.study.conduct import Conduct
from fairtrial.study.log import PullRow, as_time
from fairtrial.study.store import Store

__all__ = ["Asked", "Numbers", "asked_for", "numbers_of"]


class Asked(NamedTuple):
    """When a pull was asked for, and for which participant, if it has one."""

    number: int
    at: datetime
    participant: str | None = None

    @property
    def in_words(self) -> str:
        """The pull, its participant and the day, for a sentence."""
        whom = "" if self.participant is None else f"{self.participant}, "
        return f"pull {self.number:,} ({whom}asked for on {self.at:%Y-%m-%d})"


def asked_for(store: Store, study_id: int, rows: Sequence[PullRow]) -> list[Asked]:
    """Return when each pull was asked for and for whom; reads one event for each."""
    found = []
    for row in rows:
        asked = next(iter(store.records(study_id, row.asked_seq - 1, row.asked_seq)))
        participant = json.loads(asked.body or "{}").get("participant")
        found.append(Asked(row.number, as_time(asked.at), participant))
    return found


class Numbers(NamedTuple):
    """The participant of a pull, if it has one, and its kits in the order of their events."""

    participant: str | None = None
    kits: tuple[str, ...] = ()


def numbers_of(
    store: Store, study_id: int, conduct: Conduct, rows: Sequence[PullRow]
) -> list[Numbers]:
    """Return participant and kits of each pull; nothing is read if a study has no such numbers."""
    if not rows:
        return []
    kits: dict[str, list[str]] = {}
    # A kit is handed out after its pull was asked for.
    before = min(row.asked_seq for row in rows)
    for event in store.all_of(study_id, "kit", before) if conduct.kits is not None else ():
        kits.setdefault(str(event.pull_id), []).append(json.loads(event.body or "{}")["kit"])
    found = []
    for row in rows:
        participant = None
        if conduct.participants is not None:
            asked = next(iter(store.records(study_id, row.asked_seq - 1, row.asked_seq)))
            participant = json.loads(asked.body or "{}").get("participant")
        found.append(Numbers(participant, tuple(kits.get(row.pull_id, ()))))
    return found
