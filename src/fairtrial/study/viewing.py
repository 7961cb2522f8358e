"""What can be read of a study: its answer, its pulls in flight, its health, its log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairtrial.core import Policy, Progress, Pull, Recommendation
from fairtrial.core.validation import check_integer
from fairtrial.errors import UnknownPull
from fairtrial.study.arguments import as_hashes, as_path
from fairtrial.study.assumption_checks import BLINDED, doubts
from fairtrial.study.audit import Verification, verify, verify_last
from fairtrial.study.export import export, history, records_of
from fairtrial.study.handle import Handle
from fairtrial.study.head_notes import HeadNotes
from fairtrial.study.log import Event
from fairtrial.study.pull import StudyPull
from fairtrial.study.pull_histories import PullHistories
from fairtrial.study.trace import trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Viewing"]


class Viewing(Handle):
    """The part of a study that writes nothing."""

    # ----------------------------------------------------------------------- answers

    @property
    def policy(self) -> Policy:
        """The policy after the last event: to be read, not to be asked or told."""
        with self._session.at_head() as (_, policy):
            return policy

    def recommend(self) -> Recommendation:
        """Return the answer now."""
        with self._session.replica_at_head() as (_, replica):
            return replica.recommend()

    def progress(self) -> Progress:
        """Return all that a plot or a page shows."""
        with self._session.replica_at_head() as (_, replica):
            return replica.progress()

    @property
    def status(self) -> str:
        """``"running"``, ``"decided"`` or ``"undecided"``."""
        return self.recommend().status

    @property
    def stopped(self) -> bool:
        """Whether the study has stopped: its policy by itself, or somebody by `stop`."""
        with self._session.replica_at_head() as (_, replica):
            return replica.stopped

    def outstanding(self) -> list[StudyPull]:
        """Return the pulls in flight, in the order in which they were issued."""
        return self._bound(self._store.open_pulls(self._session.id))

    def trace(self, points: int = 200) -> list[Progress]:
        """Return how far the study had come at up to `points` earlier moments, and now.

        The moments are evenly spaced in outcomes; the log is replayed for them.
        """
        wanted = check_integer("points", points, low=2)
        with self._session.at_head() as (row, policy):
            tells = policy.told
        steps = self._store.steps(row.id, until=row.head_seq)
        return trace(steps, self._session.build(), tells, wanted)

    def weighted_means(self) -> list[float | None]:
        """Return the mean of every action, each result weighted by the inverse of its propensity.

        They stand beside the plain means of `progress`, which are too large for the arm that wins:
        a study stops when an arm looks good. This holds of weighted means almost as much.

        Returns
        -------
        list of float or None
            By action. None without a result of a pull that was drawn at random, and where outcomes
            have named fields.

        Notes
        -----
        The whole log is read: some seconds for a million events.

        Source: Hajek (1971), Comment on "An essay on the logical foundations of survey sampling".

        Examples
        --------
        >>> import fairtrial as ft
        >>> problem = ft.subpopulations.Problem(["a", "b"], ["x"], reward_range=(0, 1))
        >>> policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
        >>> with ft.Study.create(problem, policy, storage="memory://", name="t", seed=7) as study:
        ...     for pull in study.ask(20):
        ...         told = study.tell(pull, 0.75 if pull.arm == "a" else 0.25)
        ...     [round(mean, 2) for mean in study.weighted_means()]
        [0.75, 0.25]
        """
        head = self._session.row().head_seq
        histories = PullHistories(self._store.steps(self._session.id, until=head))
        return histories.weighted_means(self.problem.n_actions)

    def health(self, *, blinded: bool = False) -> dict[str, Any]:
        """Return what may be wrong with a study that runs.

        The whole log is read: some seconds for a million events.

        Parameters
        ----------
        blinded : bool
            Whether it is for those who recruit or treat: no warning then names an arm, or says
            how far the evidence is.

        Returns
        -------
        dict
            Numbers of pulls: `open`, of those `overdue` (their lease has run out since the
            last event), `expired`, `reissued`, `cancelled`, `lost`. Of outcomes: `late`
            (after the lease, or given up), `amended`, `duplicates` (told again),
            `unsolicited`. And `expiry`, what the policy does about a lease that ran out:
            if outcomes get lost because of what they are, the answer may be biased. And
            `warnings`: what the results contradict, or keeps them from deciding, a sentence each.
            They include drift, pulls of some arms that are passed over, and groups that arrive in
            other proportions than stated.
        """
        counts = self._store.counts(self._session.id)
        return {
            "open": len(self._store.open_pulls(self._session.id)),
            "overdue": len(self._store.open_pulls(self._session.id, due_by=self._store.now())),
            "expired": counts.get("expire", 0),
            "reissued": counts.get("reissue", 0),
            "cancelled": counts.get("cancel", 0),
            "lost": counts.get("fail", 0),
            "late": counts.get("late_tell", 0),
            "amended": counts.get("amend", 0),
            "duplicates": self._session.row().duplicates,
            "unsolicited": counts.get("unsolicited", 0),
            "expiry": self._session.build().expiry,
            "warnings": self._warnings(blinded),
        }

    def _warnings(self, blinded: bool) -> list[str]:
        with self._session.at_head() as (row, policy):
            found = [BLINDED if blinded else warning for warning in policy.warnings()]
        # After that, so that nobody is kept from writing while a long log is read.
        told = doubts(self._store.steps(row.id, until=row.head_seq), policy)
        sentences = [BLINDED if blinded and one.is_about_arms else one.sentence for one in told]
        return list(dict.fromkeys(found + sentences))

    @property
    def secret(self) -> str | None:
        """What the random order of pulls is drawn from; None if the policy draws nothing.

        Keep it from everybody who recruits or treats: it tells all pulls in advance.
        """
        return self._session.row().secret

    # --------------------------------------------------------------- pulls in flight

    def should_stop(self, pull: Pull | str) -> bool:
        """Return whether a pull's outcome no longer matters to the policy, or was given up."""
        pull_id = self._pull_id(pull)
        with self._session.replica_at_head() as (_, replica):
            row = self._store.pull(self._session.id, pull_id)
            if row is None:
                raise UnknownPull(f"pull {pull_id} was never issued by study {self.name!r}")
            to_cancel = [pull.number for pull in replica.to_cancel()]
        return row.state != "open" or row.number in to_cancel

    def to_cancel(self) -> list[StudyPull]:
        """Return the pulls in flight whose outcome no longer matters to the policy.

        They are to be called back with `cancel`; an outcome that comes all the same counts.
        """
        with self._session.replica_at_head() as (row, replica):
            numbers = {pull.number for pull in replica.to_cancel()}
            rows = self._store.open_pulls(row.id) if numbers else []
        return self._bound([row for row in rows if row.number in numbers])

    # ----------------------------------------------------------------------- the log

    @property
    def head_hash(self) -> str:
        """The hash of the last event: two logs with the same are the same."""
        return self._session.row().head_hash

    @property
    def n_events(self) -> int:
        """Number of events in the log."""
        return self._session.row().head_seq

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events of the log that come after number `after`."""
        records = self._store.records(self._session.id, check_integer("after", after, low=0))
        return map(Event.of, records)

    def history(self) -> pd.DataFrame:
        """Return the log as a table, one row per event (extra ``data``)."""
        return history(records_of(self._store, self._session.row()), self.problem)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the log to a file and return its path.

        Parameters
        ----------
        path : str or path
            Ends in ``.jsonl`` (all there is, for `import_log`), ``.csv`` or ``.parquet``
            (extra ``data``). An existing file is replaced.
        """
        target = as_path(path)
        export(self._store, self._session.row(), self.problem, target)
        return target

    def verify(
        self,
        expected: str | Sequence[str] = (),
        witness: str | os.PathLike[str] | None = None,
    ) -> Verification:
        """Audit the log: its chain of hashes, and every decision derived once more.

        Parameters
        ----------
        expected : str or sequence of str
            Hashes that `head_hash` once gave and that were noted elsewhere. Whoever can write
            the file can write a whole new log; the log must then lack one of these.
        witness : str or path, optional
            The file that was given as `witness` when the study was in use: the log must hold
            every event that was noted there.

        Returns
        -------
        Verification
            `ok`, the number of `events` checked, and the `first_difference`.
        """
        row, live = self._session.state_at_head()
        hashes = as_hashes(expected)
        if witness is not None:
            hashes += HeadNotes(as_path(witness)).hashes()
        return verify(self._store, row, self._session.build(), live, hashes)

    def verify_last(self, events: int) -> Verification:
        """Check only the hashes of the last events: quick, however long the log is.

        An event before these that was altered is not found, nor a decision that does not follow:
        `verify` finds both, and takes some 13 s for a million events.

        Parameters
        ----------
        events : int
            Number of events to check.

        Returns
        -------
        Verification
            `skipped` says how many events before these were not looked at.
        """
        wanted = check_integer("events", events, low=1)
        return verify_last(self._store, self._session.row(), wanted)
