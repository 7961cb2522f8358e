"""The policy as the log has made it: replayed, kept up with the log, restored after a mishap."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairtrial.core import Policy, Pull
from fairtrial.errors import CorruptLog, NotSupported
from fairtrial.study import snapshots
from fairtrial.study.log import Record, Step, outcome_of
from fairtrial.study.store import Store, StudyRow

__all__ = ["Cache", "Replica"]

SNAPSHOT_EVERY = 1_000


class Replica:
    """A policy that goes through a log, or a little ahead of it while a write decides.

    A live study and a replay make the same calls, through the same method.

    Parameters
    ----------
    policy : Policy
        Fresh, or restored to its state after event `seq`.
    seq : int
        The last event that it knows.
    """

    def __init__(self, policy: Policy, seq: int = 0) -> None:
        self.policy = policy
        self.seq = seq
        self.ahead = False
        self.last: tuple[str, str | None] | None = None
        """Kind and body of the last event, if it was not before a snapshot."""

    @property
    def status(self) -> str:
        """The policy's status, at little cost while it runs."""
        return self.policy.recommend().status if self.policy.stopped else "running"

    # ----------------------------------------------------------------------- live

    def ask(self, context: Mapping[str, Any]) -> Pull | None:
        """Let the policy decide; None if it has nothing to give now."""
        self.ahead = True
        issued = self.policy.ask(1, **context)
        return issued[0] if issued else None

    def perform(self, step: Step) -> None:
        """Let the policy take an event that is about to be written."""
        self.ahead = True
        self._run((step,))

    def settle(self, seq: int, last: Record | None) -> None:
        """Take note that all it knows is written now."""
        self.seq, self.ahead = seq, False
        if last is not None:
            self.last = last.kind, last.body

    # --------------------------------------------------------------------- replay

    def replay(self, steps: Iterable[Step]) -> None:
        """Go through events of the log; every recorded decision must come out again.

        Raises
        ------
        CorruptLog
            At the first event that does not follow from those before; the replica is of no
            use then.
        """
        try:
            self._run(steps)
        except _Difference as difference:
            raise CorruptLog(f"event {self.seq + 1}: {difference}") from None
        except Exception as error:
            policy = type(self.policy)
            raise CorruptLog(
                f"event {self.seq + 1} cannot be replayed by {policy.__name__} (version "
                f"{policy.version}): {error or type(error).__name__}"
            ) from error

    def _run(self, steps: Iterable[Step]) -> None:
        ask, tell, labels = self.policy.ask, self.policy.tell, self.policy.problem.labels
        kind, body = None, None
        for seq, kind, number, action, tag, value, stage, body in steps:
            if kind == "ask":
                pull = ask() if body is None else ask(**_context(body))
                if (pull.number, pull.action, pull.tag) != (number, action, tag):
                    raise _Difference(self._other_decision(pull, number, action, tag))
            elif kind in ("tell", "late_tell", "unsolicited"):
                pull = Pull(number, action, labels(action), tag)  # type: ignore[arg-type]
                tell(pull, outcome_of(value, body))
            elif kind == "wait":
                self._wait(body)
            elif number is not None and action is not None and tag is not None:
                pull = Pull(number, action, labels(action), tag)
                self._take(kind, pull, value, stage, json.loads(body) if body else {})
            self.seq = seq
        if kind is not None:
            self.last = kind, body

    def _wait(self, body: str | None) -> None:
        if self.policy.stopped or self.policy.ask(1, **_context(body)):
            raise _Difference("the log says that there was nothing to ask, and now there is")

    def _take(
        self,
        kind: str,
        pull: Pull,
        value: float | None,
        stage: int | None,
        body: Mapping[str, Any],
    ) -> None:
        if kind == "report":
            details = {} if stage is None else {"stage": stage}
            self.policy.report(pull, value, **details, **body.get("details", {}))  # type: ignore[arg-type]
        elif kind == "expire":
            self.policy.fail(pull, "expired")
        elif kind == "cancel":
            self.policy.fail(pull, "cancelled")
        elif kind == "fail":
            self.policy.fail(pull, body["reason"])
        elif kind == "amend":
            new = body.get("outcome") if value is None else value
            self.policy.amend(pull, body["old"], new)  # type: ignore[arg-type]
        elif kind not in ("extend", "reissue"):
            raise _Difference(f"its kind {kind!r} is not known")

    def _other_decision(self, pull: Pull, *recorded: int | None) -> str:
        policy = type(self.policy)
        said = "the log says pull {}, action {}, tag {}".format(*recorded)
        return (
            f"{said}; {policy.__name__} (version {policy.version}) decides pull {pull.number}, "
            f"action {pull.action}, tag {pull.tag}"
        )


class _Difference(Exception):
    """What the log says is not what the policy does."""


def _context(body: str | None) -> dict[str, Any]:
    context: dict[str, Any] = json.loads(body).get("context", {}) if body else {}
    return context


class Cache:
    """The replica that a study works with, brought to the log's head whenever it is wanted.

    It is never half advanced: if a write fails after the policy has moved, the policy is
    made anew from the newest snapshot and the log.

    Parameters
    ----------
    store : Store
        Where the log is.
    study_id : int
        Of which study.
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

    def at_head(self, study: StudyRow) -> Replica:
        """Return the policy after the study's last event."""
        replica = self._replica if self._is_prefix(study) else None
        self._replica = None
        replica = replica or self._restored(study)
        if replica.seq < study.head_seq:
            replica.replay(self._store.steps(self._study_id, replica.seq, study.head_seq))
        self._keep(replica, study.head_hash)
        return replica

    def _is_prefix(self, study: StudyRow) -> bool:
        """Return whether the replica knows a part of this log and nothing else."""
        known = self._replica
        if known is None or known.ahead or known.seq > study.head_seq:
            return False
        touched = (known.policy.asked, known.policy.told) != self._mark
        return not touched and (known.seq < study.head_seq or self._hash == study.head_hash)

    def settle(self, study: StudyRow, last: Record | None) -> None:
        """Take note that the write in which the policy moved is kept."""
        assert self._replica is not None
        self._replica.settle(study.head_seq, last)
        self._keep(self._replica, study.head_hash)

    def _keep(self, replica: Replica, head_hash: str) -> None:
        self._replica, self._hash = replica, head_hash
        self._mark = replica.policy.asked, replica.policy.told

    # ------------------------------------------------------------------ snapshots

    def _restored(self, study: StudyRow) -> Replica:
        for snapshot in self._store.snapshots(self._study_id):
            policy = self._build()
            digest = self._hash_at(snapshot.seq, study)
            if digest is not None and snapshots.restore(snapshot, policy, digest):
                self._saved = snapshot.seq
                return Replica(policy, snapshot.seq)
        self._saved = 0
        return Replica(self._build())

    def _hash_at(self, seq: int, study: StudyRow) -> str | None:
        if seq > study.head_seq:
            return None
        found = next(iter(self._store.records(self._study_id, seq - 1, seq)), None)
        return None if found is None else found.hash

    @property
    def is_due(self) -> bool:
        """Whether a replay from the newest snapshot would be a long one."""
        return self._replica is not None and self._replica.seq - self._saved >= SNAPSHOT_EVERY

    def save(self) -> None:
        """Keep a snapshot of the policy as it is.

        Raises
        ------
        NotSupported
            If the policy's state cannot be saved whole.
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
        snapshot = snapshots.take(replica.policy, replica.seq, self._hash)
        self._store.save_snapshot(self._study_id, snapshot)
        self._saved = replica.seq

    def save_if_due(self) -> None:
        """Keep a snapshot every thousand events; warn once if the policy cannot be saved."""
        if not self._savable or not self.is_due:
            return
        try:
            self.save()
        except NotSupported as error:
            self._savable = False
            warnings.warn(
                f"{error}. The study is safe, but every opening replays the whole log.",
                RuntimeWarning,
                stacklevel=4,  # where the user's program called the study
            )
