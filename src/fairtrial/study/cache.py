"""Keep a replica at the head of the log: advance it, restore it after failed writes, save it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

from fairtrial.core import Policy
from fairtrial.core.warning import warn_caller
from fairtrial.errors import NotSupported, StorageError
from fairtrial.study import snapshots
from fairtrial.study.kit_supply import Supply
from fairtrial.study.log import Record
from fairtrial.study.long_reads import LongRead, interruptible
from fairtrial.study.replica import Closing, Replica
from fairtrial.study.store import Store, StudyRow

__all__ = ["Cache"]

SNAPSHOT_EVERY = 1_000


class Cache:
    """The replica that a study works with, brought to the head of the log whenever it is needed.

    It is never left half advanced: if a write fails after the policy has moved, the policy is
    rebuilt from the newest snapshot and the log.

    Parameters
    ----------
    store : Store
        The store of the log.
    study_id : int
        The id of the study.
    build : callable
        Returns a fresh policy.
    """

    def __init__(self, store: Store, study_id: int, build: Callable[[], Policy]) -> None:
        self._store = store
        self._study_id = study_id
        self._build = build
        self._replica: Replica | None = None
        self._hash = ""
        self._mark = (0, 0)
        self._saved = 0
        self._savable = True
        self.is_paused = False
        """Whether no snapshots are saved for now."""

    def at_head(self, study: StudyRow) -> Replica:
        """Return the policy after the study's last event."""
        replica = self._replica if self._is_prefix(study) else None
        self._replica = None
        # Never abandoned half-way: whoever comes next would have to begin again.
        with interruptible(LongRead()):
            replica = replica or self._restored(study)
            if replica.seq < study.head_seq:
                replica.replay(self._store.steps(self._study_id, replica.seq, study.head_seq))
        self._keep(replica, study.head_hash)
        return replica

    def is_near(self, study: StudyRow) -> bool:
        """Return whether `at_head` needs no snapshot and only a short replay."""
        known = self._replica
        return (
            known is not None
            and study.head_seq - known.seq < SNAPSHOT_EVERY
            and self._is_prefix(study)
        )

    def _is_prefix(self, study: StudyRow) -> bool:
        """Return whether the replica has seen a prefix of this log and nothing else."""
        known = self._replica
        if known is None or known.ahead or known.seq > study.head_seq:
            return False
        touched = (known.policy.asked, known.policy.told) != self._mark
        return not touched and (known.seq < study.head_seq or self._hash == study.head_hash)

    def settle(self, study: StudyRow, last: Record | None) -> None:
        """Note that the write in which the policy moved was committed."""
        assert self._replica is not None
        self._replica.settle(study.head_seq, last)
        self._keep(self._replica, study.head_hash)

    @property
    def is_ahead(self) -> bool:
        """Whether the policy moved in a write that was not committed."""
        return self._replica is not None and self._replica.ahead

    def forget(self) -> None:
        """Discard the policy, because a write in which it moved was not committed."""
        self._replica = None

    def _keep(self, replica: Replica, head_hash: str) -> None:
        self._replica, self._hash = replica, head_hash
        self._mark = replica.policy.asked, replica.policy.told

    # ------------------------------------------------------------------ snapshots

    def _restored(self, study: StudyRow) -> Replica:
        for snapshot in self._store.snapshots(self._study_id):
            policy = self._build()
            digest = self._hash_at(snapshot.seq, study)
            if digest is None:
                continue
            decisions = snapshots.restore(snapshot, policy, digest)
            if decisions is not None:
                self._saved = snapshot.seq
                seq = snapshot.seq
                by_hand = self._stop_reason(seq), self._closings(seq), self._kits(policy, seq)
                return Replica(policy, seq, *by_hand, decisions)
        self._saved = 0
        return Replica(self._build())

    def _stop_reason(self, seq: int) -> str | None:
        """Return why the study had been stopped by event `seq`; None if it had not."""
        found = self._store.first(self._study_id, "stop")
        if found is None or found.seq > seq:
            return None
        return str(json.loads(found.body or "{}")["reason"])

    def _closings(self, seq: int) -> list[Closing]:
        """Return what had been closed by event `seq`."""
        found = self._store.all_of(self._study_id, "close")
        return [Closing.of(event.seq, event.body) for event in found if event.seq <= seq]

    def _kits(self, policy: Policy, seq: int) -> Supply | None:
        """Return the kits that had not been handed out by event `seq`; None if none were added."""
        events = (
            [event for event in self._store.all_of(self._study_id, kind) if event.seq <= seq]
            for kind in ("supply", "kit")
        )
        supplied, handed_out = events
        return Supply.of(policy.problem, supplied, handed_out) if supplied else None

    def _hash_at(self, seq: int, study: StudyRow) -> str | None:
        if seq > study.head_seq:
            return None
        found = next(iter(self._store.records(self._study_id, seq - 1, seq)), None)
        return None if found is None else found.hash

    @property
    def is_due(self) -> bool:
        """Whether a replay from the newest snapshot would take long."""
        return self._replica is not None and self._replica.seq - self._saved >= SNAPSHOT_EVERY

    def save(self) -> None:
        """Save a snapshot of the policy in its current state.

        Raises
        ------
        NotSupported
            If the policy's state cannot be saved completely.
        """
        replica = self._replica
        if replica is None or replica.ahead or replica.seq == self._saved:
            return
        forgotten = snapshots.undeclared(replica.policy)
        if forgotten:
            name = type(replica.policy).__name__
            raise NotSupported(
                f"{name}.state_fields forgets {', '.join(forgotten)}: a snapshot would lose "
                f"what {name} has learned"
            )
        snapshot = snapshots.take(replica.policy, replica.seq, self._hash, replica.decisions)
        # If this fails, the next attempt is a thousand events away, not in every write.
        self._saved = replica.seq
        self._store.save_snapshot(self._study_id, snapshot)

    def save_if_due(self) -> None:
        """Save a snapshot every thousand events; warn once if the policy cannot be saved."""
        if self.is_paused or not self._savable or not self.is_due:
            return
        try:
            with suppress(StorageError):
                self.save()
        except NotSupported as error:
            self._savable = False
            warn_caller(
                f"{error}. The study is safe, but every opening replays the whole log.",
                RuntimeWarning,
            )
