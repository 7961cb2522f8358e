"""A service on the loopback interface, in a thread of the test process."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import uvicorn

import fairtrial as ft
from fairtrial.server import create_app
from fairtrial.study import Tokens


@contextmanager
def served(storage, **options):
    """Serve a storage; yield its address, and a function that connects with a new token."""
    app = create_app(storage, **options)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server has ended"
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield _Served(f"http://127.0.0.1:{port}", storage, server)
    finally:
        # Otherwise the end would wait for requests that wait for news.
        app.state.service.heads.close()
        server.should_exit = True
        thread.join()


class _Served:
    def __init__(self, url, storage, server):
        self.url = url
        self._storage = storage
        self.server = server

    def token(self, name, *scopes, **options):
        with Tokens(self._storage) as tokens:
            return tokens.create(name, scopes, **options)[1]

    def connect(self, name, *scopes, studies=None, **options):
        """Connect as a person with this scope."""
        return ft.connect(self.url, self.token(name, *scopes, studies=studies), **options)


def settings(**changes):
    from fairtrial.server import Settings

    return Settings(**changes)


def without_time(event):
    """Return the parts of an event that are the same in every run of the same study."""
    return SimpleNamespace(
        kind=event.kind,
        number=event.number,
        action=event.action,
        tag=event.tag,
        value=event.value,
        stage=event.stage,
        body={key: part for key, part in event.body.items() if key not in ("environment",)},
    )
