"""Save states of a policy along its log, so that a part can be replayed without all before it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fairtrial.core import Policy
from fairtrial.errors import NotSupported
from fairtrial.study import snapshots
from fairtrial.study.replica import Closing, Replica
from fairtrial.study.store import Snapshot

__all__ = ["Checkpoints"]

_APART = 2_000
"""Number of events between checkpoints at first; doubled when there are too many."""
_MOST = 256
_MOST_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    told: int
    snapshot: Snapshot
    head_hash: str
    stop_reason: str | None
    closings: tuple[Closing, ...]


class Checkpoints:
    """Saved states of a policy that follows a log; if there are too many, every other one.

    Parameters
    ----------
    build : callable
        Returns a fresh policy.
    """

    def __init__(self, build: Callable[[], Policy]) -> None:
        self._build = build
        self._apart: float = _APART
        self._kept: list[_Checkpoint] = []

    def note(self, replica: Replica, head_hash: str) -> None:
        """Save a replica's state after the event with that hash, if a checkpoint is due."""
        last = self._kept[-1].snapshot.seq if self._kept else 0
        if replica.seq - last < self._apart:
            return
        try:
            whole = not snapshots.undeclared(replica.policy)
            snapshot = snapshots.take(replica.policy, replica.seq, head_hash, replica.decisions)
        except NotSupported:
            whole = False
        if not whole:
            # A policy whose state cannot be saved is replayed from the start.
            self._apart = math.inf
            return
        told = replica.policy.told
        by_hand = replica.stop_reason, replica.closings
        self._kept.append(_Checkpoint(told, snapshot, head_hash, *by_hand))
        while len(self._kept) > _MOST or self._bytes > _MOST_BYTES:
            self._kept = self._kept[1::2]
            self._apart *= 2

    @property
    def _bytes(self) -> int:
        return sum(len(one.snapshot.state) for one in self._kept)

    def before(self, told: int) -> Replica:
        """Return the latest saved replica with fewer results than `told`, or a fresh one."""
        for one in reversed(self._kept):
            if one.told >= told:
                continue
            policy = self._build()
            decisions = snapshots.restore(one.snapshot, policy, one.head_hash)
            if decisions is not None:
                by_hand = one.stop_reason, one.closings
                return Replica(policy, one.snapshot.seq, *by_hand, decisions=decisions)
        return Replica(self._build())
