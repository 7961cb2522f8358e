"""The service as one application: its parts, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

from fairtrial.core import Problem
from fairtrial.core.parameters import Parametrized
from fairtrial.server.problems import add_problems
from fairtrial.server.readers import Readers
from fairtrial.server.routes import health, pulls, reading, studies
from fairtrial.server.security.access import Access
from fairtrial.server.security.guard import Guard
from fairtrial.server.service import Service
from fairtrial.server.settings import Settings
from fairtrial.server.waiting import Heads
from fairtrial.server.writer import StudyWriter
from fairtrial.study import Store
from fairtrial.study.location import Durability, Storage, open_store, parse_storage

__all__ = ["create_app"]

_READING_HANDLES = 4


def create_app(
    storage: Storage,
    *,
    settings: Settings | None = None,
    durability: Durability = "full",
    policies: Sequence[type[Parametrized]] = (),
    problems: Sequence[type[Problem]] = (),
) -> FastAPI:
    """Return the service of the studies in a storage, as an ASGI application.

    Its writer ends, with all that waits written, when the application is shut down.

    Parameters
    ----------
    storage, durability, policies, problems
        As in `Study.open`. A store that is open already is read and written by the one handle.
    settings : Settings, optional
        Limits, and names by which the service may be called.

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
    stores = _Stores(storage, durability)
    own = (tuple(policies), tuple(problems))
    heads = Heads(stores.waiting)
    writer = StudyWriter(stores.writing, own, chosen.queue, heads.changed)
    readers = Readers(stores.reading, own)
    service = Service(
        settings=chosen,
        writer=writer,
        readers=readers,
        access=Access(readers, writer, chosen),
        heads=heads,
        own=own,
        stores=stores.all,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="fairtrial",
        summary="Sequential experiments that find the best option",
        version=_version(),
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    for part in (health, studies, pulls, reading):
        app.include_router(part.routes)
    add_problems(app, stores.place)
    app.add_middleware(Guard, settings=chosen)
    return app


class _Stores:
    """Handles of one storage: to write, to read, and to wait by."""

    def __init__(self, storage: Storage, durability: Durability) -> None:
        self.writing = open_store(storage, durability)
        self.all: list[Store] = [] if self.writing is storage else [self.writing]
        is_one = self.writing is storage or parse_storage(storage) is None  # type: ignore[arg-type]
        self.reading = [
            self.writing if is_one else self._another(storage) for _ in range(_READING_HANDLES)
        ]
        self.waiting = self.writing if is_one else self._another(storage)
        self.place = self.writing.url

    def _another(self, storage: Storage) -> Store:
        store = open_store(storage, create=False)
        self.all.append(store)
        return store


def _version() -> str:
    from fairtrial import __version__

    return __version__
