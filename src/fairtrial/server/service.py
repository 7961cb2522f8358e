"""The parts of the service that its routes use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Request

from fairtrial.server.audits import Audits
from fairtrial.server.problems import Refusal
from fairtrial.server.readers import Readers
from fairtrial.server.readiness import Readiness
from fairtrial.server.security.access import Access, Caller
from fairtrial.server.settings import Settings
from fairtrial.server.telemetry import Telemetry
from fairtrial.server.waiting import EventWaiters
from fairtrial.server.webhooks import Webhooks
from fairtrial.server.writer import StudyWriter
from fairtrial.study import Store, Study
from fairtrial.study.opening import Classes
from fairtrial.study.store import AnswerRow

__all__ = [
    "Answer",
    "IdempotencyKey",
    "Key",
    "KeyText",
    "Service",
    "TheService",
    "TheViewer",
    "current_viewer",
    "fingerprint",
    "service_of",
    "the_service",
]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a writing request, returned again if the request is repeated."""

    status: int
    body: str


@dataclass(frozen=True, slots=True)
class Key:
    """The idempotency key of a request, with a fingerprint of its content."""

    actor: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Service:
    """The service's parts.

    Parameters
    ----------
    settings : Settings
        The operator's choices.
    writer, readers : StudyWriter, Readers
        Access to the storage.
    access : Access
        Identifies callers.
    audits : Audits
        Audits logs.
    readiness : Readiness
        Finds out whether the storage can be used.
    heads : EventWaiters
        Lets requests wait for events.
    telemetry : Telemetry
        Metrics and the log.
    own : tuple of sequences
        The caller's own classes of policies and problems.
    stores : sequence of Store
        Handles to close together with the service.
    webhooks : Webhooks, optional
        Sends notifications.
    """

    settings: Settings
    writer: StudyWriter
    readers: Readers
    access: Access
    audits: Audits
    readiness: Readiness
    heads: EventWaiters
    telemetry: Telemetry
    own: Classes
    stores: Sequence[Store] = ()
    webhooks: Webhooks | None = None

    def end(self) -> None:
        """Begin to end: whoever waits for news is answered, and long reads are abandoned."""
        if self.webhooks is not None:
            self.webhooks.end()
        self.heads.close()
        self.readers.end()

    def close(self) -> None:
        """Write everything queued, then release the storage; calling it twice has no effect."""
        if self.webhooks is not None:
            self.webhooks.close()
        self.heads.close()
        self.writer.close()
        self.readers.close()
        for store in self.stores:
            store.close()

    async def write(
        self,
        study: str,
        operation: Callable[[Study], Answer],
        key: Key | None,
        *,
        needs_flush: bool = True,
    ) -> Answer:
        """Write to a study and return the answer; for a repeated request, the first answer.

        `needs_flush` says whether the write must survive a power failure.

        Raises
        ------
        Refusal
            422 if the key was used for a different request before.
        """
        if not self.writer.has_open(study):
            # Open it here and not in the writer, where all other studies would have to wait.
            await self.readers.run_opening(study, _ease_opening)

        def once(opened: Study) -> Answer:
            return _answered(opened.session.store, key, lambda: operation(opened))

        return await self.writer.run(study, once, needs_flush=needs_flush)

    async def write_on_store(self, operation: Callable[[Store], Answer], key: Key | None) -> Answer:
        """Write to the storage and return the answer; for requests that concern no open study."""
        return await self.writer.run_on_store(
            lambda store: _answered(store, key, lambda: operation(store))
        )


def _ease_opening(study: Study) -> None:
    """Replay a long log, load what this needs, and save a snapshot for the next opening."""
    study.session.catch_up()
    study.session.save_if_due()


def _answered(store: Store, key: Key | None, operation: Callable[[], Answer]) -> Answer:
    # This runs in the transaction of the write, so both are kept or neither.
    if key is None:
        return operation()
    earlier = store.answer(key.actor, key.key)
    if earlier is not None:
        if earlier.fingerprint != key.fingerprint:
            raise Refusal(
                *(422, "invalid-argument", "Idempotency-Key was used before, for another request"),
                [("Idempotency-Key", "was used before, for another request")],
            )
        return Answer(earlier.status, earlier.body)
    answer = operation()
    row = AnswerRow(key.actor, key.key, key.fingerprint, answer.status, answer.body, store.now())
    store.save_answer(row)
    return answer


def fingerprint(request: Request, body: Any) -> str:
    """Return a hash that identifies the content of a request."""
    text = json.dumps([request.url.path, body], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def service_of(request: Request) -> Service:
    """Return the service's parts."""
    service: Service = request.app.state.service
    return service


async def the_service(request: Request) -> Service:
    """Return the service's parts; async because FastAPI runs other functions in threads."""
    return service_of(request)


async def current_viewer(request: Request) -> Caller:
    """Return the caller; refuse with 401 if unknown."""
    return await service_of(request).access.viewer(request)


TheService = Annotated[Service, Depends(the_service)]
TheViewer = Annotated[Caller, Depends(current_viewer)]


KeyText = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Repeating a key returns the first answer, and nothing is done twice.",
    ),
]


async def _idempotency_key(idempotency_key: KeyText = None) -> str | None:
    return idempotency_key


IdempotencyKey = Annotated[str | None, Depends(_idempotency_key)]
