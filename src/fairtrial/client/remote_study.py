"""A study that a service keeps: it has the methods of a local study, and sends requests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fairtrial.client.documents import (
    event_of,
    lease_of,
    progress_of,
    recommendation_of,
    record_of,
    verification_of,
)
from fairtrial.client.transport import Transport
from fairtrial.core import Policy, Progress, Pull, Recommendation
from fairtrial.core.frames import Library
from fairtrial.core.specification import policy_from_dict, problem_from_dict
from fairtrial.core.validation import check_integer
from fairtrial.errors import (
    AccessRefused,
    InvalidArgument,
    InvalidTable,
    StorageUnreachable,
    UnknownPull,
)
from fairtrial.study import Event, StudyPull, Verification
from fairtrial.study.arguments import MOST_PER_REQUEST, as_hashes, as_path, check_one_of
from fairtrial.study.base import BaseStudy
from fairtrial.study.conduct import Conduct
from fairtrial.study.export import ENDINGS, history
from fairtrial.study.log import seal
from fairtrial.study.numbers import Asked
from fairtrial.study.pull import MASKED
from fairtrial.study.pull_tables import PullFinder
from fairtrial.study.result_tables import Correction
from fairtrial.study.witness import Witness
from fairtrial.study.writes import (
    Ask,
    Checks,
    Extend,
    Tell,
    TellMany,
    TellManyKnown,
    Write,
    Written,
)

__all__ = ["RemoteStudy", "study_path"]

_BETWEEN_AUDITS = 1.0
"""Seconds between two requests for the result of an audit that goes on in the service."""
_BROKEN_OFF = 3
"""How often a stream of events can break off without a new event before it is given up."""


def study_path(name: str) -> str:
    """Return the path of a study on the service.

    Examples
    --------
    >>> study_path("dose 1/2")
    '/v1/studies/dose%201%2F2'
    """
    return f"/v1/studies/{quote(name, safe='')}"


class RemoteStudy(BaseStudy):
    """A study that a service keeps; use `Connection.study` or `Connection.create` to get one.

    Methods, arguments, results and errors are those of `Study`, with these differences:

    - The service records the token's name as who did something: leave out `worker` and `actor`.
    - One call can have at most 1,000 pulls or outcomes.
    - To `stop`, the token needs the scope ``admin``.
    - `policy` has the rule and its parameters, but not its state.

    What a call has written is durable once the call returns. An unacknowledged request is
    repeated, and counts once.

    Parameters
    ----------
    transport : Transport
        Sends the requests.
    document : mapping
        The service's document about the study.

    Attributes
    ----------
    name : str
        The study's name.
    problem : Problem
        The problem.
    """

    def __init__(self, transport: Transport, document: Mapping[str, Any]) -> None:
        name, problem = document["name"], problem_from_dict(document["problem"])
        conduct = Conduct.of(problem, document.get("conduct") or {})
        checks = Checks(
            *(name, problem, transport.url, MOST_PER_REQUEST), is_remote=True, conduct=conduct
        )
        super().__init__(checks, self._send)
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
    def notes(self) -> dict[str, str]:
        """What was noted when the study was created; the token needs the scope ``read``."""
        return dict(self._readable("notes"))

    @property
    def storage_software(self) -> str:
        """The service's storage software and its version, such as ``"SQLite 3.54.0"``."""
        return str(self._document()["storage_software"])

    # ----------------------------------------------------------------------- answers

    @property
    def seed(self) -> int:
        """The policy's seed; the token needs the scope ``read``."""
        return int(self._readable("seed"))

    @cached_property
    def policy(self) -> Policy:
        """The policy in its initial state: its class and parameters.

        The service has its present state: see `recommend` and `progress`, and `status` for whether
        it has stopped. The token needs the scope ``read``.
        """
        return policy_from_dict(self._readable("policy_spec"), self.problem, self.seed)

    def _readable(self, name: str) -> Any:
        """Return a fact that the service only reveals to the scope ``read``."""
        fact = self._made_from.get(name)
        if fact is None:
            raise AccessRefused(
                f"the token may not see the {name.partition('_')[0]} of study "
                f"{self.name!r}: it needs the scope 'read'"
            )
        return fact

    def _document(self) -> Any:
        return self._transport.get(self._path)

    def recommend(self) -> Recommendation:
        """Return the present answer."""
        return recommendation_of(self._transport.get(f"{self._path}/recommendation"))

    def progress(self) -> Progress:
        """Return the data for plots and pages."""
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
        """Return the study's progress at up to `points` earlier times, and now.

        See `Study.trace`.
        """
        wanted = check_integer("points", points, low=2)
        found = self._transport.get(f"{self._path}/trace", points=wanted)
        return [progress_of(moment) for moment in found["trace"]]

    def weighted_means(self) -> list[float | None]:
        """Return the mean of every action, with each result weighted by its inverse propensity.

        See `Study.weighted_means`.
        """
        means = self._transport.get(f"{self._path}/weighted_means")["weighted_means"]
        return [None if mean is None else float(mean) for mean in means]

    def health(self, *, blinded: bool = False) -> dict[str, Any]:
        """Return signs of problems with a running study; see `Study.health`.

        Parameters
        ----------
        blinded : bool
            Whether the readers recruit or treat participants. A token with only the scope ``run``
            needs this.
        """
        asked = "true" if blinded else None
        found: dict[str, Any] = self._transport.get(f"{self._path}/health", blinded=asked)
        return found

    def recruitment(self) -> dict[str, int]:
        """Return the numbers of pulls requested, with results and open, and of results by group.

        A token with the scope ``run`` may see this, as it says nothing about arms.
        """
        found: dict[str, int] = self._transport.get(f"{self._path}/recruitment")["recruitment"]
        return found

    # --------------------------------------------------------------- pulls in flight

    def outstanding(self) -> list[StudyPull]:
        """Return the open pulls, in the order in which they were issued."""
        return self._bound(self._open_documents())

    def asked_for(self, pulls: Sequence[StudyPull]) -> list[Asked]:
        """Return when pulls were asked for, and for which participants.

        Pulls that `outstanding` returned know this: nothing is read for them.
        """
        known = {pull.id: pull.asked for pull in pulls if pull.asked is not None}
        if len(known) < len(pulls):
            known |= {document["id"]: _asked(document) for document in self._open_documents()}
        return [
            known.get(pull.id) or _asked(self._transport.get(self._pull_path(pull)))
            for pull in pulls
        ]

    def _open_documents(self) -> Iterator[Mapping[str, Any]]:
        """Yield the documents of the open pulls, page by page."""
        after = None
        while True:
            page = self._transport.get(f"{self._path}/pulls", state="open", after=after)
            yield from page["pulls"]
            after = page["next"]
            if after is None:
                return

    def pull_of(self, participant: str | None = None, *, unit: str | None = None) -> StudyPull:
        """Return the pull of a participant, by their number, or of a unit.

        Raises
        ------
        UnknownPull
            If it has no pull; without the scope ``read``, none of the token's own.
        """
        check_one_of(participant, unit)
        if unit is not None:
            pulls = self.write(Ask(0, unit=unit)).pulls
            if not pulls:
                raise UnknownPull(f"study {self.name!r} has no pull of this unit")
            return pulls[0]
        wanted = self.checks.conduct.check_participant(participant, 1)
        page = self._transport.get(f"{self._path}/pulls", state="all", participant=wanted)
        if not page["pulls"]:
            raise UnknownPull(f"study {self.name!r} has no pull of this participant")
        return self._bound(page["pulls"])[0]

    def to_cancel(self) -> list[StudyPull]:
        """Return the open pulls whose outcomes the policy no longer needs."""
        return self._bound(self._transport.get(f"{self._path}/to_cancel")["pulls"])

    def should_stop(self, pull: Pull | str) -> bool:
        """Return whether the policy no longer needs a pull's outcome, or the pull has ended."""
        return bool(self._transport.get(self._pull_path(pull))["should_stop"])

    def _bound(self, documents: Iterable[Mapping[str, Any]]) -> list[StudyPull]:
        return self._bind(list(map(self._pull, documents)))

    def _pull(self, document: Mapping[str, Any]) -> StudyPull:
        # A masked study shows neither the action nor its arm.
        action = MASKED if document["action"] is None else document["action"]
        labels = document["labels"] if action == MASKED else self.problem.labels(action)
        about = document["number"], action, labels, document["tag"] or 0
        pull = StudyPull(
            *(*about, document["id"], None, document["propensity"]),
            *(document.get("block"), document["worker"]),
        )
        pull.kits = tuple(document.get("kits") or ())
        pull.asked = _asked(document) if document.get("asked_at") else None
        return pull

    def _unmasked(self, event: Event) -> Mapping[str, Any]:
        return event.body

    def _pull_path(self, pull: Pull | str) -> str:
        return f"{self._path}/pulls/{self.checks.pull_id(pull)}"

    # ----------------------------------------------------------------------- the log

    @property
    def head_hash(self) -> str:
        """The hash of the last event; logs with equal hashes are equal."""
        digest = self._document().get("head_hash")
        if digest is None:
            self._readable("head_hash")
        return str(digest)

    @property
    def n_events(self) -> int:
        """Number of events in the log."""
        return int(self._document()["head_seq"])

    def wait(self, after: int, seconds: float) -> int:
        """Wait for a new event, without polling.

        Parameters
        ----------
        after : int
            Number of the last known event: `n_events`.
        seconds : float
            Longest time to wait; the service waits at most 30 s.

        Returns
        -------
        int
            The number of events in the log after waiting.
        """
        document = self._transport.get(self._path, wait=min(seconds, 30.0), after=after)
        return int(document["head_seq"])

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events of the log after number `after`.

        They arrive as a stream, which is continued if it breaks off.
        """
        last = check_integer("after", after, low=0)
        return self._events(last)

    def rare_events(self, *kinds: str) -> list[Event]:
        """Return all events of some rare kinds, any but ``ask``, ``report`` and ``tell``."""
        return [event for event in self.events() if event.kind in kinds]

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

    def history(self, library: Library | None = None) -> Any:
        """Return the log as a table, one row per event.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            The library of the table; by default the first of these that is installed.

        Raises
        ------
        MissingExtra
            If the library is not installed.
        """
        records = list(map(record_of, self.events()))
        return history(lambda: iter(records), self.problem, library)

    def export(self, path: str | os.PathLike[str], *, secret: bool = False) -> Path:
        """Write the log to a file and return its path.

        Parameters
        ----------
        path : str or path
            Must end in ``.jsonl``, ``.csv``, ``.parquet`` or ``.xlsx`` (extras ``data``
            and ``excel`` on the service). An existing file is replaced.
        secret : bool
            Whether to include the source of the random order of pulls in a ``.jsonl`` file;
            `Study.import_log` needs it. The token needs the scope ``admin``.
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
        """Let the service audit the log: its chain of hashes and all decisions, derived again.

        Parameters
        ----------
        expected : str or sequence of str
            Earlier values of `head_hash` that were noted elsewhere; the log must contain them.
        witness : str or path, optional
            A file on this machine that has recorded heads of the log.
        """
        heads = as_hashes(expected)
        noted = [] if witness is None else Witness(as_path(witness)).hashes()
        document = self._transport.get(f"{self._path}/verify", head=heads or None)
        while document["ok"] is None:
            # The audit of a long log goes on in the service.
            time.sleep(_BETWEEN_AUDITS)
            document = self._transport.get(f"{self._path}/verify", head=heads or None)
        found = verification_of(document)
        if not found.ok or not noted:
            return found
        # Compare here: an attacker with access to the storage may also run the service.
        missing = set(noted) - {event.hash for event in self.events()}
        return found if not missing else _lacking(found, min(missing))

    def verify_last(self, events: int) -> Verification:
        """Check the hashes of the last events on this machine; see `Study.verify_last`.

        Parameters
        ----------
        events : int
            Number of events to check.
        """
        wanted = check_integer("events", events, low=1)
        skipped = max(self.n_events - wanted, 0)
        # The service omits part of the first event's body, so that event cannot be checked.
        records = map(record_of, self.events(after=max(skipped - 1, 0)))
        before = next(records, None)
        checked = 0
        for record in records:
            assert before is not None, "there is a first one if there is another"
            if record.seq != before.seq + 1 or record.hash != seal(before.hash, record):
                place = f"event {record.seq}: its hash does not match its content"
                return Verification(
                    ok=False, events=checked, first_difference=place, skipped=skipped
                )
            before, checked = record, checked + 1
        return Verification(ok=True, events=checked, skipped=max(skipped, 1))

    # ----------------------------------------------------------------------- writing

    def ask_up_to(
        self, n: int, *, lease: float | None = None, request_id: str | None = None, **context: Any
    ) -> tuple[list[StudyPull], bool]:
        """Issue up to `n` pulls, as `ask`; return them and whether the study has stopped."""
        done = self.write(Ask(n, None, lease, request_id, context))
        return done.pulls, done.stopped

    def heartbeat(self, pull: Pull | str, lease: float) -> bool:
        """Renew a lease, as `extend`; return whether the pull's outcome is still needed."""
        return not self._post(Extend(pull, lease).check(self.checks))["should_stop"]

    # --------------------------------------------------------------------- requests

    def _send(self, write: Write) -> Written:
        """Send a checked write."""
        if isinstance(write, Tell) and not isinstance(write.pull, str):
            write = TellMany([write], write.request_id)
        if isinstance(write, TellMany | TellManyKnown) and not write.writes:
            return Written([], [], [])
        try:
            answer = self._post(write)
        except InvalidTable as error:
            # The text of an answer may be shortened; its mistakes are not.
            raise InvalidTable(error.mistakes, error.source) from None
        if isinstance(write, Extend):
            return Written([], [], [], lease=lease_of(answer))
        events = answer.get("events", [answer] if "seq" in answer else [])
        pulls = list(map(self._pull, answer.get("pulls", ())))
        stopped, reason = bool(answer.get("stopped")), answer.get("reason", "")
        return Written(
            list(map(event_of, events)),
            pulls,
            list(map(_correction, answer.get("corrections", ()))),
            stopped,
            reason=reason,
            first_results=answer.get("first_results", 0),
        )

    def _post(self, write: Write) -> Any:
        path, body = write.path.format(pull=getattr(write, "pull", "")), write.to_json()
        return self._transport.post(f"{self._path}/{path}", body, write.key)

    def _finders(self) -> dict[str, PullFinder]:
        find = super()._finders()
        if "participant" not in find:
            return find
        ids: dict[str, str] = {}

        def by_number(number: str) -> str:
            """Return the pull's id; all open pulls are fetched at once, others one by one."""
            wanted = str(self.checks.conduct.check_participant(number, 1))
            if not ids:
                ids.update((str(one["participant"]), one["id"]) for one in self._open_documents())
            return ids.get(wanted) or self.pull_of(wanted).id

        return {"participant": by_number}


def _correction(document: Mapping[str, Any]) -> Correction:
    return Correction(
        document["pull"], document["before"], document["after"], document["participant"]
    )


def _asked(document: Mapping[str, Any]) -> Asked:
    """Return when a pull was asked for and for whom, as the service's document says."""
    at = datetime.fromisoformat(document["asked_at"])
    return Asked(document["number"], at, document.get("participant"))


def _lacking(found: Verification, digest: str) -> Verification:
    return Verification(
        ok=False,
        events=found.events,
        first_difference=(
            f"the log holds no event with the hash {digest}, which was noted elsewhere: it was "
            "replaced or altered, or has lost its end"
        ),
    )
