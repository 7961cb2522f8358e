"""Notify a chosen URL when a study stops or needs attention.

Messages follow the Standard Webhooks specification, with headers ``webhook-id``,
``webhook-timestamp`` and ``webhook-signature``; the signature is an HMAC-SHA256 over id, timestamp
and body. A message says that something happened but contains no results: readers who may see them
find them in the study.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from fairtrial.client.address import is_loopback
from fairtrial.core.logs import LogEvent
from fairtrial.core.wording import plural
from fairtrial.errors import FairtrialError, InvalidArgument, StudyNotFound
from fairtrial.server.telemetry import Telemetry
from fairtrial.study import Store, Study
from fairtrial.study.long_reads import LongRead, interruptible

__all__ = ["Webhooks", "check_webhook", "signature"]

_LOG = logging.getLogger("fairtrial.server")
_UNDELIVERED = LogEvent(
    "server", "webhook not delivered", logging.WARNING, ("message", "failures", "answer")
)

_TIMEOUT = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 3_600.0
_LONGEST_RETRY = 300.0
"""Longest pause before a study that could not be examined is tried again, in seconds."""
_SHORTEST_SECRET = 24
_NUMBERS = re.compile(r"\d[\d.,%]*")
_BETWEEN_LOOKS = 1.0
"""Seconds between looks, so that a study with constant writes is not examined constantly."""
_WORTH = {"heuristic": 0, "calibrated": 1, "proven": 2}


def check_webhook(url: object, secret: object) -> tuple[str, bytes]:
    """Return the URL and the key of a webhook if they are acceptable; raise otherwise.

    Parameters
    ----------
    url : str
        ``https://``, or ``http://`` for this machine only.
    secret : str
        At least 24 characters; or ``whsec_`` followed by a key of at least 24 bytes in base64.

    Raises
    ------
    InvalidArgument
        If one of them is invalid; the message does not show the secret.
    """
    if not isinstance(url, str) or not _is_address(url):
        accepted = "must be an address that begins with https://, or http:// on this machine"
        raise InvalidArgument("webhook", accepted, url)
    key = _key_of(secret) if isinstance(secret, str) else b""
    if len(key) < _SHORTEST_SECRET:
        accepted = f"must have at least {_SHORTEST_SECRET} characters, to sign messages with"
        raise InvalidArgument("webhook secret", accepted)
    return url, key


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    return is_safe and host != "" and url.isprintable() and parts.username is None


def _key_of(secret: str) -> bytes:
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        return b""


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header ``webhook-signature``.

    Examples
    --------
    >>> signature(b"k" * 24, "msg_1", 1700000000, b"{}")
    'v1,E3sCg9uS8x43RKlJqcda1EcaYZxNkN+l2u7RBZBSZQQ='
    """
    signed = b".".join([message_id.encode(), str(timestamp).encode(), body])
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


@dataclass
class _Notice:
    """A message to deliver, and when to try next."""

    id: str
    study_id: int
    body: bytes
    due: float = 0.0
    failures: int = 0
    is_delivered: bool = False
    """Whether only the record of the delivery is missing."""


@dataclass
class _Looked:
    """When a study was last examined, for each kind of check, and whether it has changed since."""

    for_warnings: float = float("-inf")
    for_alterations: float = float("-inf")
    has_changed: bool = False


@dataclass
class _Failed:
    """How often in a row a study could not be examined, and when to try next."""

    times: int
    due: float


class Webhooks:
    """Watches the studies of a storage, and sends notifications about them.

    The storage records which notifications were delivered; undelivered ones are found again after
    a restart. So each message is delivered at least once, and always with the same id. It arrives
    twice only if the receiver's answer was lost, or if the service ended before it could record
    the delivery.

    All studies are looked over again and again, so a change is found although another process made
    it, or the storage could not be reached at the time.

    Parameters
    ----------
    url : str
        Where to send messages.
    key : bytes
        The key with which messages are signed.
    store : Store
        A separate handle, to record deliveries.
    open_study : callable
        Returns a study by its name, for reading.
    telemetry : Telemetry
        Counts deliveries.
    warnings_every : float
        Seconds between two health checks of a study, each of which reads its log.
    verify_every : float
        Seconds between two audits of a study.
    scan_every : float
        Seconds after which all studies are looked over for changes.
    """

    def __init__(
        self,
        url: str,
        key: bytes,
        store: Store,
        open_study: Callable[[str], Study],
        telemetry: Telemetry,
        *,
        warnings_every: float = 300.0,
        verify_every: float = 86_400.0,
        scan_every: float = 30.0,
    ) -> None:
        self._url = url
        self._key = key
        self._store = store
        self._open_study = open_study
        self._telemetry = telemetry
        self._warnings_every = warnings_every
        self._verify_every = verify_every
        self._scan_every = scan_every
        self._scan_due = float("-inf")
        # No proxies and no redirects: messages go to exactly the given URL.
        self._http = httpx.Client(timeout=_TIMEOUT, trust_env=False, follow_redirects=False)
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._outbox: dict[str, _Notice] = {}
        self._looked: dict[str, _Looked] = {}
        self._promised: dict[str, str | None] = {}
        self._examined: dict[str, int] = {}
        """The number of events of each study when it was last examined with success."""
        self._failed: dict[str, _Failed] = {}
        self._long_read = LongRead()
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------------------- callers

    def start(self) -> None:
        """Start in a thread of its own, by examining all studies."""
        self._thread = threading.Thread(target=self._run, name="fairtrial-webhooks", daemon=True)
        self._thread.start()

    def changed(self, names: Iterable[str]) -> None:
        """Note that studies were written; return at once."""
        with self._lock:
            self._changed.update(names)
        self._wake.set()

    def close(self) -> None:
        """Stop; undelivered messages are sent after the next start."""
        self.end()
        if self._thread is not None:
            self._thread.join(_TIMEOUT)
        self._http.close()

    def end(self) -> None:
        """Begin to stop; return at once."""
        self._closing.set()
        self._long_read.is_abandoned = True
        self._wake.set()

    # ---------------------------------------------------------------------- the thread

    def _run(self) -> None:
        while not self._closing.wait(_BETWEEN_LOOKS):
            self._wake.clear()
            try:
                pause = min(self.scan(), self.work())
            except Exception:  # noqa: BLE001 - whatever it is, it may be over soon
                _LOG.exception("webhooks failed")
                pause = self._scan_every
            self._wake.wait(pause)

    def work(self) -> float:
        """Examine changed studies and deliver due messages; return the seconds until next time."""
        with self._lock:
            names, self._changed = self._changed, set()
        for name in names | self._to_look_at_again():
            if self._closing.is_set():
                break
            self._examine(name)
        for notice in list(self._outbox.values()):
            if self._closing.is_set():
                break
            if notice.due <= time.monotonic():
                self._send(notice)
        return self._next_due()

    def scan(self) -> float:
        """Note every study that has changed since it was last examined, whoever changed it.

        Return the seconds until next time.
        """
        now = time.monotonic()
        if now >= self._scan_due:
            self._scan_due = now + self._scan_every
            self._note_changes()
        return self._scan_due - now

    def _note_changes(self) -> None:
        try:
            heads = self._store.heads()
        except FairtrialError:
            _LOG.exception("the studies could not be listed for webhooks")
            self._scan_due = time.monotonic() + _FIRST_PAUSE
            return
        with self._lock:
            self._changed.update(
                name
                for name, head in heads.items()
                if self._examined.get(name) != head and name not in self._failed
            )

    def _examine(self, name: str) -> None:
        """Look for what there is to tell about a study; after an error, try again later."""
        try:
            with interruptible(self._long_read):
                self._look(name)
        except StudyNotFound:
            self._failed.pop(name, None)
        except Exception:  # noqa: BLE001 - whatever it is, nothing must be forgotten
            _LOG.exception("a study could not be examined")
            before = self._failed.get(name)
            times = 0 if before is None else before.times + 1
            self._failed[name] = _Failed(times, time.monotonic() + _pause(times, _LONGEST_RETRY))
        else:
            self._failed.pop(name, None)

    def _to_look_at_again(self) -> set[str]:
        """Return the changed studies whose next health check is due, and those that failed."""
        now = time.monotonic()
        before = now - self._warnings_every
        changed = {
            name
            for name, looked in self._looked.items()
            if looked.has_changed and looked.for_warnings <= before and name not in self._failed
        }
        return changed | {name for name, failed in self._failed.items() if failed.due <= now}

    def _next_due(self) -> float:
        now = time.monotonic()
        due = [notice.due for notice in self._outbox.values()]
        due += [failed.due for failed in self._failed.values()]
        due += [
            looked.for_warnings + self._warnings_every
            for looked in self._looked.values()
            if looked.has_changed
        ]
        return min(max(min(due, default=now + _LONGEST_PAUSE) - now, 0.0), _LONGEST_PAUSE)

    # ----------------------------------------------------------------- what there is to tell

    def _look(self, name: str) -> None:
        study = self._open_study(name)
        row = self._store.find_study(name)
        if row is None:
            return
        told = self._store.notices(row.id)
        for kind, key, message in self._found(study):
            identity = _identity(f"{row.spec_sha256} {row.created_at} {name} {kind} {key}")
            if identity not in told and identity not in self._outbox:
                body = _body(kind, name, row.head_seq, message)
                self._outbox[identity] = _Notice(identity, row.id, body)
        self._examined[name] = row.head_seq

    def _found(self, study: Study) -> Iterator[tuple[str, str, str]]:
        """Yield the reasons to notify about a study: for each, its kind, a key and a sentence."""
        now = time.monotonic()
        looked = self._looked.setdefault(study.name, _Looked())
        if study.stopped:
            yield "study.stopped", "", "the study has stopped and issues no more pulls"
        yield from self._fallen(study)
        looked.has_changed = now - looked.for_warnings < self._warnings_every
        if not looked.has_changed:
            for warning in study.warnings_to_send():
                # Numbers in a sentence change with every result, but it is the same warning.
                yield "study.warning", _NUMBERS.sub("#", warning), warning
            # Only a check that was completed delays the next one.
            looked.for_warnings = now
        if now - looked.for_alterations >= self._verify_every:
            audit = study.verify()
            if not audit.ok:
                good = plural(audit.events, "good event")
                yield "study.verification_failed", "", f"the log does not verify after {good}"
            looked.for_alterations = now

    def _fallen(self, study: Study) -> Iterator[tuple[str, str, str]]:
        """Yield a notification if the guarantee is weaker than it was at first."""
        now = study.recommend().guarantee
        if study.name not in self._promised:
            fresh = study.policy.clone().recommend().guarantee
            self._promised[study.name] = None if fresh is None else fresh.label
        promised = self._promised[study.name]
        if promised is None or now is None or _WORTH[now.label] >= _WORTH[promised]:
            return
        message = f"the guarantee is {now.label} and no longer {promised}: the study says why"
        yield "study.guarantee_fell", now.label, message

    # -------------------------------------------------------------------------- delivery

    def _send(self, notice: _Notice) -> None:
        """Deliver a message and record that; each is tried again until it succeeds."""
        if not notice.is_delivered:
            self._deliver(notice)
        if notice.is_delivered:
            self._record(notice)

    def _record(self, notice: _Notice) -> None:
        try:
            self._store.transact(
                lambda: self._store.save_notice(notice.study_id, notice.id, self._store.now())
            )
        except FairtrialError:
            _LOG.exception("the delivery of a webhook could not be recorded")
            self._put_off(notice)
        else:
            del self._outbox[notice.id]

    def _put_off(self, notice: _Notice) -> None:
        notice.due = time.monotonic() + _pause(notice.failures, _LONGEST_PAUSE)
        notice.failures += 1

    def _deliver(self, notice: _Notice) -> None:
        now = int(time.time())
        headers = {
            "Content-Type": "application/json",
            "webhook-id": notice.id,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(self._key, notice.id, now, notice.body),
        }
        try:
            # The body of the answer is not read, because it may be arbitrarily long.
            with self._http.stream(
                "POST", self._url, content=notice.body, headers=headers
            ) as answer:
                is_delivered, said = answer.is_success, str(answer.status_code)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
            is_delivered, said = False, type(error).__name__
        self._telemetry.notified(delivered=is_delivered)
        if is_delivered:
            notice.is_delivered, notice.failures = True, 0
            return
        self._put_off(notice)
        _UNDELIVERED.log(message=notice.id, failures=notice.failures, answer=said)


def _pause(failures: int, longest: float) -> float:
    """Return a random pause in seconds, which grows with the number of failures."""
    pause = min(longest, _FIRST_PAUSE * 2.0 ** min(failures, 30))
    return random.uniform(pause / 2.0, pause)  # noqa: S311 - no secret


def _identity(text: str) -> str:
    return "msg_" + hashlib.sha256(text.encode()).hexdigest()[:32]


def _body(kind: str, study: str, events: int, message: str) -> bytes:
    data: dict[str, Any] = {"study": study, "events": events, "message": message}
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"type": kind, "timestamp": at, "data": data}).encode()
