"""Assemble the service's parts into one application."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache

from fastapi import FastAPI, Response

from fairtrial.core import Problem
from fairtrial.core.logs import LogEvent
from fairtrial.core.parameters import Parametrized
from fairtrial.server.audits import Audits
from fairtrial.server.housekeeping import forget_old
from fairtrial.server.pages import add_pages
from fairtrial.server.problems import add_problems
from fairtrial.server.readers import Readers
from fairtrial.server.readiness import Readiness
from fairtrial.server.routes import health, pulls, reading, studies, writing
from fairtrial.server.routes.writing import add_direct_routes
from fairtrial.server.security.access import Access
from fairtrial.server.security.guard import Guard
from fairtrial.server.service import Service
from fairtrial.server.settings import Settings
from fairtrial.server.telemetry import Telemetry
from fairtrial.server.waiting import EventWaiters
from fairtrial.server.webhooks import Webhooks
from fairtrial.server.writer import StudyWriter
from fairtrial.study import Store, Study
from fairtrial.study.location import Durability, Storage, open_store, parse_storage
from fairtrial.study.opening import Classes
from fairtrial.version import __version__

__all__ = ["create_app"]

_STARTED = LogEvent("server", "service started", logging.INFO, ("version",))
_STOPPED = LogEvent("server", "service stopped", logging.INFO, ("version",))

_READING_HANDLES = 4


def create_app(
    storage: Storage,
    *,
    settings: Settings | None = None,
    durability: Durability = "full",
    policies: Sequence[type[Parametrized]] = (),
    problems: Sequence[type[Problem]] = (),
    webhook: tuple[str, bytes] | None = None,
) -> FastAPI:
    """Return the service for the studies in a storage, as an ASGI application.

    When the application shuts down, it first writes everything that is still queued.

    Parameters
    ----------
    storage, durability, policies, problems
        As for `Study.open`. A store that is already open is read and written through that handle.
    settings : Settings, optional
        Limits, and the host names that the service accepts.
    webhook : (str, bytes), optional
        A URL to notify of changes to studies, and the key with which messages are signed.

    Raises
    ------
    StorageError
        If the storage cannot be used.

    Examples
    --------
    >>> app = create_app("memory://")
    >>> app.title
    'fairtrial'
    >>> app.state.service.close()
    """
    chosen = settings or Settings()
    stores = _Stores(storage, durability, chosen.server_timeout)
    own = (tuple(policies), tuple(problems))
    service = _composed(stores, own, chosen, webhook)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if service.webhooks is not None:
            service.webhooks.start()
        tidying = asyncio.create_task(forget_old(service))
        _STARTED.log(version=__version__)
        yield
        tidying.cancel()
        await asyncio.to_thread(service.close)
        _STOPPED.log(version=__version__)

    app = FastAPI(
        title="fairtrial",
        summary="Sequential experiments that find the best option",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        servers=[{"url": chosen.root_path}] if chosen.root_path else None,
    )
    app.state.service = service
    for part in (health, studies, writing, pulls, reading):
        # `include_router` would build each route again for every application, which takes 0.1 s.
        app.router.routes.extend(part.routes.routes)
    add_direct_routes(app)
    _add_openapi(app)
    add_pages(app)
    add_problems(app, service.telemetry)
    app.add_middleware(Guard, settings=chosen, telemetry=service.telemetry)
    service.telemetry.watch(app)
    return app


def _add_openapi(app: FastAPI) -> None:
    """Serve the OpenAPI document to everybody; it is written only once."""

    @cache
    def text() -> bytes:
        return json.dumps(app.openapi(), ensure_ascii=False).encode()

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(text(), media_type="application/json")


def _composed(
    stores: _Stores, own: Classes, settings: Settings, webhook: tuple[str, bytes] | None
) -> Service:
    """Return the service, with its parts connected to each other."""
    heads = EventWaiters(stores.waiting)
    readers = Readers(stores.reading, own, settings.studies_in_memory, stores.access)
    telemetry = Telemetry(
        studies=stores.waiting.statuses,
        queue=lambda: writer.waiting,
    )
    webhooks = None
    if webhook is not None:
        webhooks = Webhooks(
            *webhook,
            stores.another(),
            lambda name: Study(readers.session(name)),
            telemetry,
        )

    def committed(names: Sequence[str], operations: int, seconds: float) -> None:
        heads.changed(names)
        telemetry.committed(operations, seconds)
        if webhooks is not None:
            webhooks.changed(names)

    writer = StudyWriter(
        *(stores.writing, own, settings.queue, committed),
        most_open=settings.studies_in_memory,
        patience=settings.server_timeout,
    )
    return Service(
        settings=settings,
        writer=writer,
        readers=readers,
        access=Access(readers, writer, settings),
        audits=Audits(readers),
        readiness=Readiness(readers, writer),
        heads=heads,
        telemetry=telemetry,
        own=own,
        stores=stores.all,
        webhooks=webhooks,
    )


class _Stores:
    """Handles of one storage: for writing, for reading, for tokens, and for waiting."""

    def __init__(
        self, storage: Storage, durability: Durability, server_timeout: float = 30.0
    ) -> None:
        self._storage = storage
        self._server_timeout = server_timeout
        self.writing = open_store(storage, durability, server_timeout=server_timeout)
        self.all: list[Store] = [] if self.writing is storage else [self.writing]
        self._is_one = self.writing is storage or parse_storage(storage) is None  # type: ignore[arg-type]
        self.reading = [self.another() for _ in range(_READING_HANDLES)]
        self.access = self.another()
        self.waiting = self.another()

    def another(self) -> Store:
        """Return another handle, or the same one if the storage allows only one."""
        if self._is_one:
            return self.writing
        store = open_store(self._storage, create=False, server_timeout=self._server_timeout)
        self.all.append(store)
        return store
