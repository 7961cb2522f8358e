"""Where a driver takes what its workers say, from threads, other processes and machines."""

from __future__ import annotations

import base64
import json
import pickle
import queue
import secrets
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from fairtrial.errors import FairtrialError

if TYPE_CHECKING:
    from socketserver import ThreadingTCPServer

__all__ = ["Channel", "Desk", "Request", "Unreachable"]

_CONNECT_SECONDS = 10.0
_LONGEST_MESSAGE = 65_536


class Unreachable(FairtrialError):
    """There is no way from a worker to the driver."""


class Channel(Protocol):
    """A way to the driver; packed for another process, it is one that leads back."""

    def ask(self, message: Mapping[str, Any]) -> bool | None:
        """Return the answer to a message: whether to go on; None if nobody is there."""
        ...

    def close(self) -> None:
        """Let go of it."""
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


class Desk:
    """What comes from workers, in the order in which it comes, for one driver.

    Threads of this process lay their messages on it. When a channel is packed for another
    process for the first time, a socket is opened for such. Whoever speaks through it has to
    know a key that comes with the channel; messages are JSON, and nothing is unpickled here.

    Parameters
    ----------
    host : str
        The address by which workers reach this machine.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.key = secrets.token_hex(32)
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self._unanswered: set[Request] = set()
        self._server: ThreadingTCPServer | None = None

    def channel(self) -> Channel:
        """Return a way to this desk."""
        return _DirectChannel(self)

    def put(self, item: Any) -> None:
        """Lay something on the desk; once it is closed, requests are answered with "stop"."""
        with self._lock:
            if not self._is_closed:
                self._inbox.put(item)
                return
        if isinstance(item, Request):
            item.answer(go_on=False)

    def ask(self, message: Mapping[str, Any]) -> bool:
        """Lay a message on the desk and return the answer to it, or raise it."""
        request = Request(message)
        # An interruption may take a request from the inbox and lose it: closing answers it.
        self._unanswered.add(request)
        try:
            self.put(request)
            return request.wait()
        finally:
            self._unanswered.discard(request)

    def take(self, timeout: float) -> Any:
        """Return what comes next, or None if nothing does in so many seconds."""
        try:
            return self._inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def waiting(self) -> int:
        """Return how much lies on it."""
        return self._inbox.qsize()

    def close(self) -> None:
        """Take nothing any more, and stop all who ask."""
        with self._lock:
            self._is_closed = True
            server, self._server = self._server, None
        for request in list(self._unanswered):
            request.answer(go_on=False)
        if server is not None:
            # Workers that were forked hold the socket too: closing it here closes it for nobody.
            with suppress(OSError):
                server.socket.shutdown(socket.SHUT_RDWR)
            server.shutdown()
            server.server_close()

    def address(self) -> tuple[str, int]:
        """Return where other processes find the desk; it listens there from now on."""
        with self._lock:
            if self._is_closed:
                return self.host, 0
            if self._server is None:
                self._server = _serve(self)
            return self.host, self._server.server_address[1]


class _DirectChannel:
    """The way to the desk from a thread of its own process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def ask(self, message: Mapping[str, Any]) -> bool:
        return self._desk.ask(message)

    def close(self) -> None:
        """There is nothing to let go of."""

    def __reduce__(self) -> tuple[type[_SocketChannel], tuple[tuple[str, int], str]]:
        return _SocketChannel, (self._desk.address(), self._desk.key)


class _SocketChannel:
    """The way to the desk from another process; connected when it is first used."""

    def __init__(self, address: tuple[str, int], key: str) -> None:
        self._address = address
        self._key = key
        self._lock = threading.Lock()
        self._stream: Any = None

    def ask(self, message: Mapping[str, Any]) -> bool | None:
        """Send a message to the desk in the other process and return the answer to it."""
        text = _text(message)
        with self._lock:
            if self._stream is None:
                self._stream = self._connected()
            try:
                _send(self._stream, text)
                answer = _receive(self._stream)
            except OSError:
                return None
        if answer is not None and "error" in answer:
            raise _unpacked(answer["error"])
        return None if answer is None else bool(answer["go_on"])

    def _connected(self) -> Any:
        try:
            connection = socket.create_connection(self._address, timeout=_CONNECT_SECONDS)
        except OSError as error:
            host, port = self._address
            raise Unreachable(
                f"a worker does not reach the driver of the study at {host}, port {port}: {error}; "
                "give the address of the driver's machine as host="
            ) from error
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = connection.makefile("rwb")
        connection.close()  # the stream holds it open
        _send(stream, _text({"key": self._key}))
        return stream

    def close(self) -> None:
        with self._lock, suppress(OSError):
            if self._stream is not None:
                stream, self._stream = self._stream, None
                stream.close()

    def __reduce__(self) -> tuple[type[_SocketChannel], tuple[tuple[str, int], str]]:
        return _SocketChannel, (self._address, self._key)


def _serve(desk: Desk) -> ThreadingTCPServer:
    """Answer other processes, each connection in a thread of its own."""
    from socketserver import BaseRequestHandler, ThreadingTCPServer

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            """Answer one connection until it ends."""
            # Whoever does not give the key, speaks another language or leaves is not answered.
            with suppress(OSError, ValueError), self.request.makefile("rwb") as stream:
                self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.request.settimeout(_CONNECT_SECONDS)
                greeting = _receive(stream) or {}
                self.request.settimeout(None)
                if secrets.compare_digest(str(greeting.get("key")).encode(), desk.key.encode()):
                    _answer_all(desk, stream)

    class Server(ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 128

    server = Server((desk.host, 0), Handler)
    threading.Thread(
        target=server.serve_forever, args=(0.1,), name="fairtrial-desk", daemon=True
    ).start()
    return server


def _answer_all(desk: Desk, stream: Any) -> None:
    channel = _DirectChannel(desk)
    while (message := _receive(stream)) is not None:
        try:
            answer: dict[str, Any] = {"go_on": channel.ask(message)}
        except Exception as error:  # noqa: BLE001 - it is raised where the message came from
            answer = {"error": _packed(error)}
        _send(stream, _text(answer))


def _text(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _send(stream: Any, text: bytes) -> None:
    stream.write(text)
    stream.flush()


def _receive(stream: Any) -> dict[str, Any] | None:
    """Return the next message; None if there is none to come."""
    line = stream.readline(_LONGEST_MESSAGE)
    if not line.endswith(b"\n"):
        return None
    message: dict[str, Any] = json.loads(line)
    return message if isinstance(message, dict) else None


def _packed(error: Exception) -> str:
    """Return an exception as text."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301 - of our own making
    except Exception:  # noqa: BLE001 - an exception may hold anything
        data = pickle.dumps(FairtrialError(str(error)))
    return base64.b64encode(data).decode()


def _unpacked(text: str) -> Exception:
    """Return an exception that the driver packed, whose code this worker carries out anyway."""
    error = pickle.loads(base64.b64decode(text))  # noqa: S301
    return error if isinstance(error, Exception) else FairtrialError(str(error))
