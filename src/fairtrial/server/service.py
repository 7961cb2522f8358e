"""All that the routes work with, in one place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Request

from fairtrial.server.problems import Refusal
from fairtrial.server.readers import Readers
from fairtrial.server.security.access import Access, Viewer
from fairtrial.server.settings import Settings
from fairtrial.server.telemetry import Telemetry
from fairtrial.server.waiting import Heads
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
    """What a request that writes is answered: also what the same request is answered again."""

    status: int
    body: str


@dataclass(frozen=True, slots=True)
class Key:
    """The idempotency key of a request, and a fingerprint of what was asked."""

    actor: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Service:
    """The service's parts.

    Parameters
    ----------
    settings : Settings
        What whoever runs it has chosen.
    writer, readers : StudyWriter, Readers
        The two ways to the storage.
    access : Access
        Who asks.
    heads : Heads
        By which requests wait for events.
    telemetry : Telemetry
        What is counted.
    own : tuple of sequences
        Classes of policies and problems of the caller's own.
    stores : sequence of Store
        Handles that are closed with the service.
    webhooks : Webhooks, optional
        Who is told what happens.
    """

    settings: Settings
    writer: StudyWriter
    readers: Readers
    access: Access
    heads: Heads
    telemetry: Telemetry
    own: Classes
    stores: Sequence[Store] = ()
    webhooks: Webhooks | None = None

    def close(self) -> None:
        """Write all that waits, and release the storage; a second time does nothing."""
        if self.webhooks is not None:
            self.webhooks.close()
        self.heads.close()
        self.writer.close()
        self.readers.close()
        for store in self.stores:
            store.close()

    async def write(
        self, study: str, operation: Callable[[Study], Answer], key: Key | None
    ) -> Answer:
        """Return the answer to a request that writes to a study; the first one if it came before.

        Raises
        ------
        Refusal
            422 if the key came with another request before.
        """
        if not self.writer.has_open(study):
            # Here and not in the writer, which would keep all other studies waiting meanwhile.
            await self.readers.run_opening(study, _ease_opening)

        def once(opened: Study) -> Answer:
            return _answered(opened.session.store, key, lambda: operation(opened))

        return await self.writer.run(study, once)

    async def write_on_store(self, operation: Callable[[Store], Answer], key: Key | None) -> Answer:
        """Return the same of a request that is about no study yet."""
        return await self.writer.run_on_store(
            lambda store: _answered(store, key, lambda: operation(store))
        )


def _ease_opening(study: Study) -> None:
    """Replay a long log, load what that needs, and keep a snapshot for whoever opens it next."""
    study.session.catch_up()
    study.session.save_if_due()


def _answered(store: Store, key: Key | None, operation: Callable[[], Answer]) -> Answer:
    # In the transaction of the write: both are kept, or neither is.
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
    """Return what tells a request from all others."""
    text = json.dumps([request.url.path, body], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def service_of(request: Request) -> Service:
    """Return the service's parts."""
    service: Service = request.app.state.service
    return service


async def the_service(request: Request) -> Service:
    """Return the same; FastAPI would call a plain function in another thread."""
    return service_of(request)


async def current_viewer(request: Request) -> Viewer:
    """Return who asks; 401 if it is nobody who is known."""
    return await service_of(request).access.viewer(request)


TheService = Annotated[Service, Depends(the_service)]
TheViewer = Annotated[Viewer, Depends(current_viewer)]


KeyText = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key again gets the first answer, and nothing is done twice.",
    ),
]


async def _idempotency_key(idempotency_key: KeyText = None) -> str | None:
    return idempotency_key


IdempotencyKey = Annotated[str | None, Depends(_idempotency_key)]
