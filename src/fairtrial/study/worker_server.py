"""Where a driver takes what its workers say, from threads, other processes and machines."""

from __future__ import annotations

import queue
import random
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from fairtrial.errors import FairtrialError, InvalidOutcome
from fairtrial.study.wire import Imposter, Wire, error_as_data, error_from_data, packed

__all__ = ["Channel", "Request", "Unreachable", "WorkerServer"]

_CONNECT_SECONDS = 10.0
_RETRY_SECONDS = 0.05
_ACCEPT_SECONDS = 0.1
_MOST_STRANGERS = 64

_DETAILS = frozenset({"stage", "elapsed", "std"})


class Unreachable(FairtrialError):
    """There is no way from a worker to the driver."""


class Channel(Protocol):
    """A way to the driver; packed for another process, it is one that leads back."""

    def ask(self, message: Mapping[str, Any]) -> bool | None:
        """Return the answer to a message: whether to go on; None if nobody is there."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class Request:
    """A message that waits for its answer: whether to go on, or an exception."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.message = message
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._go_on = False
        self._error: Exception | None = None

    def answer(self, go_on: bool, error: Exception | None = None) -> None:
        """Say whether to go on, or what is to be raised; only the first answer counts."""
        with self._lock:
            if not self._answered.is_set():
                self._go_on, self._error = go_on, error
        # Even a second time: an interruption may have come before those who wait were woken.
        self._answered.set()

    def wait(self) -> bool:
        """Return the answer, or raise it, once it is there."""
        self._answered.wait()
        if self._error is not None:
            raise self._error
        return self._go_on


class WorkerServer:
    """What comes from workers, in the order in which it comes, for one driver.

    Threads of this process put their messages into its queue. When a channel is packed for another
    process for the first time, a socket is opened for such. Whoever speaks through it has to
    prove to know a key that comes with the channel, and so does the server; see `wire`.

    Parameters
    ----------
    host : str
        The address by which workers reach this machine.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.key = secrets.token_bytes(32)
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self._unanswered: set[Request] = set()
        self._listener: _Listener | None = None

    def channel(self) -> Channel:
        """Return a channel to this server."""
        return _DirectChannel(self)

    def put(self, item: Any) -> None:
        """Add a message; once the server is closed, requests are answered with "stop"."""
        with self._lock:
            if not self._is_closed:
                self._inbox.put(item)
                return
        if isinstance(item, Request):
            item.answer(go_on=False)

    def ask(self, message: Mapping[str, Any]) -> bool:
        """Send a message and return the answer to it, or raise it."""
        request = Request(message)
        # An interruption may take a request from the inbox and lose it: closing answers it.
        self._unanswered.add(request)
        try:
            self.put(request)
            return request.wait()
        finally:
            self._unanswered.discard(request)

    def take(self, timeout: float) -> Any:
        """Return what comes next, or None if nothing does within `timeout` seconds."""
        try:
            return self._inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def waiting(self) -> int:
        """Return how many messages wait to be taken."""
        return self._inbox.qsize()

    def close(self) -> None:
        """Take nothing any more, and stop all who ask."""
        with self._lock:
            self._is_closed = True
            listener, self._listener = self._listener, None
        for request in list(self._unanswered):
            request.answer(go_on=False)
        if listener is not None:
            listener.close()

    def address(self) -> tuple[str, int]:
        """Return where other processes find the server; it listens there from now on."""
        with self._lock:
            if self._is_closed:
                return self.host, 0
            if self._listener is None:
                self._listener = _Listener(self)
            return self.host, self._listener.port


class _DirectChannel:
    """The channel to the server from a thread of its own process."""

    def __init__(self, server: WorkerServer) -> None:
        self._server = server

    def ask(self, message: Mapping[str, Any]) -> bool:
        return self._server.ask(message)

    def close(self) -> None:
        """There is nothing to let go of."""

    def __reduce__(self) -> tuple[type[_SocketChannel], tuple[tuple[str, int], bytes]]:
        return _SocketChannel, (self._server.address(), self._server.key)


# ------------------------------------------------------------------------- in a worker


class _SocketChannel:
    """The channel to the server from another process; connected when it is first used."""

    def __init__(self, address: tuple[str, int], key: bytes) -> None:
        self._address = address
        self._key = key
        self._lock = threading.Lock()
        self._wire: Wire | None = None

    def ask(self, message: Mapping[str, Any]) -> bool | None:
        """Send a message to the server in the other process and return the answer to it."""
        content = _content(message)
        with self._lock:
            if self._wire is None:
                self._wire = self._connected()
            try:
                self._wire.send(content)
                answer = self._wire.receive()
            except OSError:
                self._wire.close()
                return None
        if answer is not None and "error" in answer:
            raise error_from_data(answer["error"])
        return None if answer is None else answer.get("go_on") is True

    def _connected(self) -> Wire:
        """Return a connection to the driver; where strangers crowd its port, after a while."""
        deadline = time.monotonic() + _CONNECT_SECONDS
        while True:
            try:
                connection = socket.create_connection(self._address, timeout=_CONNECT_SECONDS)
            except OSError as error:
                raise self._unreachable(str(error)) from error
            try:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return Wire.of_worker(connection, self._key, deadline - time.monotonic())
            except OSError as error:
                connection.close()
                if isinstance(error, Imposter) or time.monotonic() >= deadline:
                    about = f"whatever answers there is not this driver ({error})"
                    raise self._unreachable(about) from error
            except BaseException:
                connection.close()
                raise
            time.sleep(random.uniform(0.0, _RETRY_SECONDS))  # noqa: S311

    def _unreachable(self, about: str) -> Unreachable:
        host, port = self._address
        return Unreachable(
            f"a worker does not reach the driver of the study at {host}, port {port}: {about}; "
            "give the address of the driver's machine as host="
        )

    def close(self) -> None:
        with self._lock:
            if self._wire is not None:
                wire, self._wire = self._wire, None
                wire.close()

    def __reduce__(self) -> tuple[type[_SocketChannel], tuple[tuple[str, int], bytes]]:
        return _SocketChannel, (self._address, self._key)


def _content(message: Mapping[str, Any]) -> bytes:
    try:
        return packed(message)
    except ValueError as error:
        # All else in a message is ours, and short.
        raise InvalidOutcome("reading", f"must be a number ({error})") from None


# ------------------------------------------------------------------------ in the driver


class _Listener:
    """Answers other processes, each connection in a thread of its own.

    Of connections that have not proved yet that they know the key there are only a few: a new
    one takes the place of the oldest, so that strangers who come in numbers or say nothing keep
    no worker out.

    Parameters
    ----------
    server : WorkerServer
        Takes what workers say.
    """

    def __init__(self, server: WorkerServer) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._is_closed = False
        self._strangers: dict[socket.socket, None] = {}
        self._socket = socket.create_server((server.host, 0), backlog=128)
        self._socket.settimeout(_ACCEPT_SECONDS)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, name="fairtrial-worker-server", daemon=True).start()

    def close(self) -> None:
        """Accept no more workers."""
        self._is_closed = True
        # Workers that were forked hold the socket too: closing it here closes it for nobody.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        with self._socket:
            while not self._is_closed:
                try:
                    connection, _ = self._socket.accept()
                except TimeoutError:
                    continue
                except OSError:
                    # Closed; or too many files are open, of which some may be closed soon.
                    time.sleep(_RETRY_SECONDS)
                    continue
                self._welcome(connection)

    def _welcome(self, connection: socket.socket) -> None:
        self._make_room(connection)
        try:
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        except RuntimeError:  # the system gives no more threads
            self._forget(connection)
            connection.close()

    def _make_room(self, connection: socket.socket) -> None:
        with self._lock:
            self._strangers[connection] = None
            oldest = next(iter(self._strangers))
            if len(self._strangers) > _MOST_STRANGERS:
                del self._strangers[oldest]
                # Its own thread closes it.
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._strangers.pop(connection, None)

    def _serve(self, connection: socket.socket) -> None:
        """Answer one connection until it ends."""
        wire = None
        try:
            with suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                wire = Wire.of_driver(connection, self._server.key, _CONNECT_SECONDS)
                self._forget(connection)
                self._answer_all(wire)
        finally:
            self._forget(connection)
            (wire or connection).close()

    def _answer_all(self, wire: Wire) -> None:
        while (message := wire.receive()) is not None:
            try:
                answer: dict[str, Any] = {"go_on": self._server.ask(_understood(message))}
            except Exception as error:  # noqa: BLE001 - it is raised where the message came from
                answer = {"error": error_as_data(error)}
            wire.send(packed(answer))


def _understood(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message of which the driver can make sense, or raise."""
    kind = message.get("kind")
    whose = [message.get("pull"), message.get("attempt")]
    fits = (
        kind in ("begin", "look", "reading")
        and message.keys() >= {"pull", "attempt"}
        and all(part is None or isinstance(part, str) for part in whose)
    )
    if fits and kind == "reading":
        details = message.get("details")
        fits = "value" in message and isinstance(details, dict) and details.keys() <= _DETAILS
    if not fits:
        raise FairtrialError(f"the driver does not understand a message of kind {kind!r}")
    return message
