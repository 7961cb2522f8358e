"""A relay between a client and PostgreSQL that can fall silent without closing anything."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Relay:
    """Passes bytes on in both directions, unless it is frozen.

    Parameters
    ----------
    port : int
        Port of the real server.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self, *, over: bool = False) -> None:
        """Fall silent, but still accept connections; or continue."""
        if over:
            self._flows.set()
        else:
            self._flows.clear()

    def close(self) -> None:
        """Close all connections."""
        self._flows.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._flows.wait()
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def frozen_on_demand(url: str) -> Iterator[tuple[str, Callable[..., None]]]:
    """Yield an address of the same database, and a function that makes the server fall silent."""
    port = urlsplit(url).port
    assert port is not None
    relay = Relay(port)
    try:
        yield url.replace(f":{port}/", f":{relay.port}/"), relay.freeze
    finally:
        relay.close()
