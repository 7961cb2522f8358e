"""What can be read of a study that a service keeps."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fairtrial.client.documents import (
    event_of,
    progress_of,
    recommendation_of,
    record_of,
    verification_of,
)
from fairtrial.client.transport import Transport
from fairtrial.core import Policy, Progress, Pull, Recommendation
from fairtrial.core.specification import policy_from_dict, problem_from_dict
from fairtrial.core.validation import check_integer
from fairtrial.errors import AccessRefused, InvalidArgument, StorageUnreachable, UnknownPull
from fairtrial.study import Event, StudyPull, Verification
from fairtrial.study.arguments import as_hashes, as_path
from fairtrial.study.base import BaseStudy
from fairtrial.study.export import ENDINGS, history
from fairtrial.study.head_notes import HeadNotes
from fairtrial.study.log import seal

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RemoteViewing", "study_path"]

_PULL_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
_BROKEN_OFF = 3
"""Times that a stream of events may break off without a new one, before it is given up."""


def study_path(name: str) -> str:
    """Return where a study is.

    Examples
    --------
    >>> study_path("dose 1/2")
    '/v1/studies/dose%201%2F2'
    """
    return f"/v1/studies/{quote(name, safe='')}"


class RemoteViewing(BaseStudy):
    """The part of a remote study that writes nothing.

    Parameters
    ----------
    transport : Transport
        The way to the service.
    document : mapping
        What the service says of the study.
    """

    def __init__(self, transport: Transport, document: Mapping[str, Any]) -> None:
        self.name: str = document["name"]
        self.problem = problem_from_dict(document["problem"])
        self._transport = transport
        self._path = study_path(self.name)
        self._made_from = document

    def close(self) -> None:
        """Do nothing: the connection stays open for other studies."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, storage={self.storage!r})"

    @property
    def storage(self) -> str:
        """The address of the service."""
        return self._transport.url

    @property
    def storage_software(self) -> str:
        """What keeps the study there, with its version: ``"SQLite 3.54.0"``, say."""
        return str(self._document()["storage_software"])

    # ----------------------------------------------------------------------- answers

    @property
    def seed(self) -> int:
        """The policy's; the token needs the scope ``read``."""
        return int(self._readable("seed"))

    @cached_property
    def policy(self) -> Policy:
        """The policy as the study was made with: its class and parameters.

        It knows nothing of what came since, which is with the service: `recommend` and `progress`
        tell, and `status` says whether it has stopped. The token needs the scope ``read``.
        """
        return policy_from_dict(self._readable("policy_spec"), self.problem, self.seed)

    def _readable(self, name: str) -> Any:
        """Return a fact that only those who may read everything are told."""
        fact = self._made_from.get(name)
        if fact is None:
            raise AccessRefused(
                f"the token does not allow to see the {name.partition('_')[0]} of study "
                f"{self.name!r}: it needs the scope 'read'"
            )
        return fact

    def _document(self) -> Any:
        return self._transport.get(self._path)

    def recommend(self) -> Recommendation:
        """Return the answer now."""
        return recommendation_of(self._transport.get(f"{self._path}/recommendation"))

    def progress(self) -> Progress:
        """Return all that a plot or a page shows."""
        return progress_of(self._transport.get(f"{self._path}/progress"))

    @property
    def status(self) -> str:
        """``"running"``, ``"decided"`` or ``"undecided"``."""
        return str(self._document()["status"])

    @property
    def stopped(self) -> bool:
        """Whether no more pulls are issued."""
        return bool(self._document()["stopped"])

    def trace(self, points: int = 200) -> list[Progress]:
        """Return how far the study had come at up to `points` earlier moments, and now.

        As `Study.trace`.
        """
        wanted = check_integer("points", points, low=2)
        found = self._transport.get(f"{self._path}/trace", points=wanted)
        return [progress_of(moment) for moment in found["trace"]]

    def weighted_means(self) -> list[float | None]:
        """Return the mean of every action, each result weighted by the inverse of its propensity.

        As `Study.weighted_means`.
        """
        means = self._transport.get(f"{self._path}/weighted_means")["weighted_means"]
        return [None if mean is None else float(mean) for mean in means]

    def health(self, *, blinded: bool = False) -> dict[str, Any]:
        """Return what may be wrong with a study that runs, as `Study.health`.

        Parameters
        ----------
        blinded : bool
            Whether it is for those who recruit or treat; a token with the scope ``run`` sees no
            other.
        """
        asked = "true" if blinded else None
        found: dict[str, Any] = self._transport.get(f"{self._path}/health", blinded=asked)
        return found

    def recruitment(self) -> dict[str, int]:
        """Return how many pulls were asked for, have a result or are open, and results by group.

        A token with the scope ``run`` may see it: it tells nothing of arms.
        """
        found: dict[str, int] = self._transport.get(f"{self._path}/recruitment")["recruitment"]
        return found

    # --------------------------------------------------------------- pulls in flight

    def outstanding(self) -> list[StudyPull]:
        """Return the pulls in flight, in the order in which they were issued."""
        pulls: list[StudyPull] = []
        after = None
        while True:
            page = self._transport.get(f"{self._path}/pulls", state="open", after=after)
            pulls += map(self._bound, page["pulls"])
            after = page["next"]
            if after is None:
                return pulls

    def to_cancel(self) -> list[StudyPull]:
        """Return the pulls in flight whose outcome no longer matters to the policy."""
        return list(map(self._bound, self._transport.get(f"{self._path}/to_cancel")["pulls"]))

    def should_stop(self, pull: Pull | str) -> bool:
        """Return whether a pull's outcome no longer matters to the policy, or was given up."""
        return bool(self._transport.get(self._pull_path(pull))["should_stop"])

    def _bound(self, document: Mapping[str, Any]) -> StudyPull:
        action = document["action"]
        about = document["number"], action, self.problem.labels(action), document["tag"] or 0
        return StudyPull(*about, document["id"], self, document["propensity"])

    def _pull_path(self, pull: Pull | str) -> str:
        return f"{self._path}/pulls/{self._pull_id(pull)}"

    def _pull_id(self, pull: Pull | str) -> str:
        """Return the identity by which the service knows a pull."""
        if isinstance(pull, str):
            if not _PULL_ID.fullmatch(pull):
                raise UnknownPull(f"pull {pull} was never issued by study {self.name!r}")
            return pull
        if not isinstance(pull, StudyPull):
            raise UnknownPull(
                f"{pull!r} was not issued by study {self.name!r}: give what its ask returned, "
                "or the id of that"
            )
        owner: object = pull.study
        if owner is not None and owner is not self and self._differs_from(owner):
            whose = getattr(owner, "name", "")
            raise UnknownPull(f"{pull!r} is a pull of study {whose!r}, not of {self.name!r}")
        return pull.id

    def _differs_from(self, owner: object) -> bool:
        """Return whether another study is not this one, opened another time."""
        where = getattr(owner, "name", None), getattr(owner, "storage", None)
        return where != (self.name, self.storage)

    # ----------------------------------------------------------------------- the log

    @property
    def head_hash(self) -> str:
        """The hash of the last event: two logs with the same are the same."""
        digest = self._document().get("head_hash")
        if digest is None:
            self._readable("head_hash")
        return str(digest)

    @property
    def n_events(self) -> int:
        """Number of events in the log."""
        return int(self._document()["head_seq"])

    def wait(self, after: int, seconds: float) -> int:
        """Wait for an event, without asking again and again.

        Parameters
        ----------
        after : int
            Number of the last event that is known: `n_events`.
        seconds : float
            How long to wait at most; the service waits 30 s at most.

        Returns
        -------
        int
            Number of events in the log then.
        """
        document = self._transport.get(self._path, wait=min(seconds, 30.0), after=after)
        return int(document["head_seq"])

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events of the log that come after number `after`.

        They come as a stream; if it breaks off it is continued where it was.
        """
        last = check_integer("after", after, low=0)
        return self._events(last)

    def _events(self, last: int) -> Iterator[Event]:
        broken = 0
        while True:
            try:
                for document in self._transport.lines(f"{self._path}/events", after=last):
                    event = event_of(document)
                    last, broken = event.seq, 0
                    yield event
            except StorageUnreachable:
                broken += 1
                if broken == _BROKEN_OFF:
                    raise
            else:
                return

    def history(self) -> pd.DataFrame:
        """Return the log as a table, one row per event (extra ``data``)."""
        records = list(map(record_of, self.events()))
        return history(lambda: iter(records), self.problem)

    def export(self, path: str | os.PathLike[str], *, secret: bool = False) -> Path:
        """Write the log to a file and return its path.

        Parameters
        ----------
        path : str or path
            Ends in ``.jsonl``, ``.csv`` or ``.parquet`` (extra ``data``, of the service). An
            existing file is replaced.
        secret : bool
            Whether a file in ``.jsonl`` holds what the random order of pulls is drawn from, without
            which `Study.import_log` cannot check it; the token needs the scope ``admin``.
        """
        target = as_path(path)
        ending = target.suffix.lower()
        if ending not in ENDINGS:
            raise InvalidArgument("path", f"must end in {', '.join(ENDINGS)}", str(target))
        wanted = {"format": ending[1:], "secret": "true" if secret else None}
        self._transport.download(f"{self._path}/export", target, **wanted)
        return target

    def verify(
        self,
        expected: str | Sequence[str] = (),
        witness: str | os.PathLike[str] | None = None,
    ) -> Verification:
        """Have the service audit the log: its chain of hashes, and every decision derived again.

        Parameters
        ----------
        expected : str or sequence of str
            Hashes that `head_hash` once gave and that were noted elsewhere: the log must hold them.
        witness : str or path, optional
            A file on this machine in which heads were noted.
        """
        heads = as_hashes(expected)
        noted = [] if witness is None else HeadNotes(as_path(witness)).hashes()
        found = verification_of(self._transport.get(f"{self._path}/verify", head=heads or None))
        if not found.ok or not noted:
            return found
        # Compared here: whoever can write the storage may be whoever runs the service.
        missing = set(noted) - {event.hash for event in self.events()}
        return found if not missing else _lacking(found, min(missing))

    def verify_last(self, events: int) -> Verification:
        """Check the hashes of the last events, here: as `Study.verify_last`.

        Parameters
        ----------
        events : int
            Number of events to check.
        """
        wanted = check_integer("events", events, low=1)
        skipped = max(self.n_events - wanted, 0)
        # The first event lacks what fixes the secret, and is not checked.
        records = map(record_of, self.events(after=max(skipped - 1, 0)))
        before = next(records, None)
        checked = 0
        for record in records:
            assert before is not None, "there is a first one if there is another"
            if record.seq != before.seq + 1 or record.hash != seal(before.hash, record):
                place = f"event {record.seq}: its hash is not that of what it says"
                return Verification(
                    ok=False, events=checked, first_difference=place, skipped=skipped
                )
            before, checked = record, checked + 1
        return Verification(ok=True, events=checked, skipped=max(skipped, 1))


def _lacking(found: Verification, digest: str) -> Verification:
    return Verification(
        ok=False,
        events=found.events,
        first_difference=(
            f"the log holds no event with the hash {digest}, which was noted elsewhere: it was "
            "replaced or altered, or has lost its end"
        ),
    )
