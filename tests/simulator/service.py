"""The service in a simulation: the real application, and a network that loses and doubles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import httpx
from fastapi import FastAPI

from fairtrial.server import Settings, create_app
from fairtrial.server.app import _composed, _Stores
from fairtrial.study.location import parse_storage
from fairtrial.study.memory import MemoryStore
from fairtrial.study.store import Store
from tests.simulator.luck import Luck
from tests.simulator.people import OWN
from tests.simulator.scheduler import Process, Scheduler
from tests.simulator.standard_library import Event, Loop


@cache
def routes() -> FastAPI:
    """Return the application, whose routes take long to create; its service is added later."""
    app = create_app(MemoryStore())
    app.state.service.close()
    return app


class _Exchange:
    """One request on its way, and its answer."""

    def __init__(self, scheduler: Scheduler, request: httpx.Request) -> None:
        self.method = request.method
        self.url = request.url
        self.headers = request.headers.raw
        self.content = request.read()
        self.is_over = Event(scheduler)
        self.answer: tuple[int, Any, bytes] | None = None

    def response(self, request: httpx.Request) -> httpx.Response:
        if self.answer is None:
            raise httpx.RemoteProtocolError("the server hung up", request=request)
        status, headers, content = self.answer
        return httpx.Response(status, headers=headers, content=content, request=request)


class _Handles(_Stores):
    """Handles of a simulated storage: nothing is patched while another service may open its own."""

    def __init__(self, open_store: Callable[[], Any], address: str) -> None:
        self._open_store = open_store
        self._is_one = parse_storage(address) is None
        self.writing = open_store()
        self.all = [self.writing]
        self.reading = [self.another()]
        self.access = self.another()
        self.waiting = self.another()

    def another(self) -> Any:
        if self._is_one:
            return self.writing
        store = self._open_store()
        self.all.append(store)
        return store


class Service:
    """A service that runs until it is killed or asked to end.

    Parameters
    ----------
    open_store : callable
        Returns a handle of the process.
    """

    def __init__(
        self, scheduler: Scheduler, process: Process, open_store: Callable[[], Store], address: str
    ) -> None:
        self.process = process
        self._scheduler = scheduler
        self._open_store = open_store
        self._address = address
        self._loop: Loop | None = None
        self._exchanges: dict[_Exchange, None] = {}

    def run(self) -> None:
        """Serve until the end."""
        try:
            self._serve()
        finally:
            for exchange in self._exchanges:
                exchange.is_over.set()

    def _serve(self) -> None:
        app, service = routes(), self._composed()
        app.state.service = service
        for part in (service.access, service.access._rate, service.access._unknown):
            part._clock = lambda: self._scheduler.seconds
        self._transport = httpx.ASGITransport(app=app)
        loop = Loop(self._scheduler, self.process)
        self._loop = loop
        try:
            loop.run_forever()
            self._loop = None
            service.close()
        finally:
            self._loop = None
            loop.drop()

    def _composed(self) -> Any:
        """Return the service's parts. Each of the stores that it opens may fail to open."""
        stores = _Handles(self._open_store, self._address)
        return _composed(stores, (OWN["policies"], OWN["problems"]), Settings(), None)

    def stop(self) -> None:
        """Ask it to end: everything that waits is written first."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    @property
    def is_listening(self) -> bool:
        return self._loop is not None and not self.process.is_dead

    def deliver(self, exchange: _Exchange) -> None:
        """Let a request arrive."""
        if not self.is_listening:
            exchange.is_over.set()
            return
        loop = self._loop
        assert loop is not None
        self._exchanges[exchange] = None
        loop.call_soon_threadsafe(lambda: loop.create_task(self._answer(exchange)))

    async def _answer(self, exchange: _Exchange) -> None:
        request = httpx.Request(
            exchange.method, exchange.url, headers=exchange.headers, content=exchange.content
        )
        response = await self._transport.handle_async_request(request)
        content = await response.aread()
        exchange.answer = response.status_code, response.headers.raw, content
        self._exchanges.pop(exchange, None)
        exchange.is_over.set()


class Network(httpx.BaseTransport):
    """The connection from clients to the service."""

    def __init__(self, scheduler: Scheduler, luck: Luck) -> None:
        self._scheduler = scheduler
        self._luck = luck
        self._wires = Process("network")
        self.services: dict[str, Service] = {}
        self.doubled: set[str | None] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        timeout = request.extensions["timeout"]["read"]
        exchange = _Exchange(self._scheduler, request)
        self._travel()
        service = self._one()
        if self._luck.has("connection refused") or service is None:
            raise httpx.ConnectError("nobody listens", request=request)
        if self._luck.has("request lost"):
            self._lose("request", timeout, request)
        service.deliver(exchange)
        if self._luck.has("request doubled"):
            self._double(request)
        if not exchange.is_over.wait(timeout):
            raise httpx.ReadTimeout("no answer in time", request=request)
        self._travel()
        if self._luck.has("answer lost"):
            self._lose("answer", timeout, request)
        return exchange.response(request)

    def _one(self) -> Service | None:
        """Return one of the running services; each of them serves everybody."""
        listening = [each for each in self.services.values() if each.is_listening]
        return self._scheduler.chance.choice(listening) if listening else None

    def _travel(self) -> None:
        chance = self._scheduler.chance
        self._scheduler.sleep(chance.random() * 0.01 if chance.random() < 0.9 else 0.3)

    def _lose(self, what: str, timeout: float, request: httpx.Request) -> None:
        self._scheduler.note(f"the network loses the {what}: {request.method} {request.url.path}")
        self._scheduler.sleep(timeout)
        raise httpx.ReadTimeout(f"the {what} was lost", request=request)

    def _double(self, request: httpx.Request) -> None:
        """Let the same request arrive again, perhaps much later."""
        self._scheduler.note(f"the network doubles {request.method} {request.url.path}")
        self.doubled.add(request.headers.get("idempotency-key"))
        late = self._scheduler.chance.choice((0.0, 0.05, 3.0))

        def arrive() -> None:
            self._scheduler.sleep(late)
            service = self._one()
            if service is not None:
                service.deliver(_Exchange(self._scheduler, request))

        self._scheduler.spawn(self._wires, "doubled", arrive)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Send clients' requests this way, and run the application's thread work as tasks."""

        def client(**options: Any) -> httpx.Client:
            options.pop("verify")
            return httpx.Client(transport=self, **options)

        async def at_once(function: Callable[..., Any], *args: Any, **_: Any) -> Any:
            return function(*args)

        changed = SimpleNamespace(**{**vars(httpx), "Client": client})
        with ExitStack() as stack:
            stack.enter_context(patch("fairtrial.client.transport.httpx", changed))
            stack.enter_context(patch("anyio.to_thread.run_sync", at_once))
            yield
