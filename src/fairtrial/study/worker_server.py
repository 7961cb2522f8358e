"""The server in a driver that receives messages of workers: threads, processes, other machines.

Other processes connect through a socket. Neither end parses anything before the other has proved
that it knows the key. Each message is signed, so nobody in between can alter, repeat or insert one,
but they are not encrypted. Nothing that is received is ever unpickled: messages are JSON of limited
length and depth.
"""

from __future__ import annotations

import hmac
import json
import queue
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Protocol

from fairtrial import errors
from fairtrial.core.nesting import is_deeper
from fairtrial.errors import FairtrialError, InvalidArgument, InvalidOutcome

__all__ = [
    "LONGEST_MESSAGE",
    "Channel",
    "Imposter",
    "Line",
    "Request",
    "Unreachable",
    "WorkerServer",
    "error_as_data",
    "error_from_data",
    "packed",
]

LONGEST_MESSAGE = 65_536
"""Largest size of a message: bytes of JSON."""

_DEPTH = 8
_LONGEST_PART = 2_000

_CONNECT_SECONDS = 10.0
_RETRY_SECONDS = 0.05
_ACCEPT_SECONDS = 0.1
_MOST_STRANGERS = 64
_RANDOM_BYTES = _SIGNATURE_BYTES = 32

_DETAILS = frozenset({"stage", "elapsed", "std"})


class Unreachable(FairtrialError):
    """A worker cannot connect to the driver."""


class Channel(Protocol):
    """A connection to the driver; pickled for another process, it connects from there."""

    def ask(self, message: Mapping[str, Any]) -> bool | None:
        """Return the answer to a message: whether to continue; None if the driver is gone."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Request:
    """A message that waits for its answer: whether to continue, or an exception."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.message = message
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._go_on = False
        self._error: Exception | None = None

    def answer(self, go_on: bool, error: Exception | None = None) -> None:
        """Answer whether to continue, or which error to raise; only the first answer counts."""
        with self._lock:
            if not self._answered.is_set():
                self._go_on, self._error = go_on, error
        # Set it even the second time: the first call may have been interrupted before this line.
        self._answered.set()

    def wait(self) -> bool:
        """Wait for the answer; return it, or raise its error."""
        self._answered.wait()
        if self._error is not None:
            raise self._error
        return self._go_on


class WorkerServer:
    """Receives the messages of all workers, in the order of arrival, for one driver.

    Threads of this process put their messages directly into its queue. When a channel is first
    pickled for another process, the server opens a socket. Both ends of a connection must prove
    that they know a key that travels with the channel.

    Parameters
    ----------
    host : str
        The address at which workers reach this machine.
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
        """Add a message; once the server is closed, answer requests with "stop"."""
        with self._lock:
            if not self._is_closed:
                self._inbox.put(item)
                return
        if isinstance(item, Request):
            item.answer(go_on=False)

    def ask(self, message: Mapping[str, Any]) -> bool:
        """Send a message; return its answer, or raise its error."""
        request = Request(message)
        # An interrupt can lose a request that was just taken from the inbox; closing answers it.
        self._unanswered.add(request)
        try:
            self.put(request)
            return request.wait()
        finally:
            self._unanswered.discard(request)

    def take(self, timeout: float) -> Any:
        """Return the next message, or None after `timeout` seconds."""
        try:
            return self._inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def waiting(self) -> int:
        """Return the number of messages in the queue."""
        return self._inbox.qsize()

    def close(self) -> None:
        """Stop accepting messages, and tell all waiting workers to stop."""
        with self._lock:
            self._is_closed = True
            listener, self._listener = self._listener, None
        for request in list(self._unanswered):
            request.answer(go_on=False)
        if listener is not None:
            listener.close()

    def address(self) -> tuple[str, int]:
        """Return the address for other processes; from the first call on, the server listens."""
        with self._lock:
            if self._is_closed:
                return self.host, 0
            if self._listener is None:
                self._listener = _Listener(self)
            return self.host, self._listener.port


class _DirectChannel:
    """The channel to the server for threads of its own process."""

    def __init__(self, server: WorkerServer) -> None:
        self._server = server

    def ask(self, message: Mapping[str, Any]) -> bool:
        return self._server.ask(message)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""

    def __reduce__(self) -> tuple[type[_SocketChannel], tuple[tuple[str, int], bytes]]:
        return _SocketChannel, (self._server.address(), self._server.key)


# ------------------------------------------------------------------------- in a worker


class _SocketChannel:
    """The channel to the server for other processes; it connects when first used."""

    def __init__(self, address: tuple[str, int], key: bytes) -> None:
        self._address = address
        self._key = key
        self._lock = threading.Lock()
        self._line: Line | None = None

    def ask(self, message: Mapping[str, Any]) -> bool | None:
        """Send a message to the server in the other process, and return its answer."""
        content = _content(message)
        with self._lock:
            if self._line is None:
                self._line = self._connected()
            try:
                self._line.send(content)
                answer = self._line.receive()
            except OSError:
                self._line.close()
                return None
        if answer is not None and "error" in answer:
            raise error_from_data(answer["error"])
        return None if answer is None else answer.get("go_on") is True

    def _connected(self) -> Line:
        """Return a connection to the driver; retry while strangers crowd its port."""
        deadline = time.monotonic() + _CONNECT_SECONDS
        while True:
            try:
                connection = socket.create_connection(self._address, timeout=_CONNECT_SECONDS)
            except OSError as error:
                raise self._unreachable(str(error)) from error
            try:
                _configure(connection)
                left = threading.Timer(deadline - time.monotonic(), _hang_up, (connection,))
                left.start()
                try:
                    return Line(connection, self._key, of_driver=False)
                finally:
                    left.cancel()
            except OSError as error:
                connection.close()
                if isinstance(error, Imposter) or time.monotonic() >= deadline:
                    about = f"the program that answers there is not this driver ({error})"
                    raise self._unreachable(about) from error
            except BaseException:
                connection.close()
                raise
            time.sleep(random.uniform(0.0, _RETRY_SECONDS))  # noqa: S311

    def _unreachable(self, about: str) -> Unreachable:
        host, port = self._address
        return Unreachable(
            f"a worker cannot reach the driver of the study at {host}, port {port}: {about}; "
            "pass the address of the driver's machine as host="
        )

    def close(self) -> None:
        with self._lock:
            if self._line is not None:
                line, self._line = self._line, None
                line.close()

    def __reduce__(self) -> tuple[type[_SocketChannel], tuple[tuple[str, int], bytes]]:
        return _SocketChannel, (self._address, self._key)


def _content(message: Mapping[str, Any]) -> bytes:
    try:
        return packed(message)
    except ValueError as error:
        # Everything else in a message comes from this package and is short.
        raise InvalidOutcome("reading", f"must be a number ({error})") from None


# ------------------------------------------------------------------------ in the driver


class _Listener:
    """Answers other processes, each connection in a thread of its own.

    Only a few connections can be open that have not yet proved that they know the key. A new one
    replaces the oldest, so that many or silent strangers cannot keep workers out.

    Parameters
    ----------
    server : WorkerServer
        The server that receives the messages.
    """

    def __init__(self, server: WorkerServer) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._is_closed = False
        self._strangers: dict[socket.socket, float] = {}
        """Connections that have not proved anything yet, and when to end them."""
        self._workers: set[socket.socket] = set()
        """Connections that have proved that they know the key."""
        self._socket = socket.create_server((server.host, 0), backlog=128)
        self._socket.settimeout(_ACCEPT_SECONDS)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, name="fairtrial-worker-server", daemon=True).start()

    def close(self) -> None:
        """Accept no more connections, and end all others once their last answer is sent."""
        # Forked workers hold the sockets too, so closing them here would not end them.
        with self._lock:
            self._is_closed = True
            for stranger in self._strangers:
                _hang_up(stranger)
            for worker in self._workers:
                _hang_up(worker, socket.SHUT_RD)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        with self._socket:
            while not self._is_closed:
                self._send_away(time.monotonic())
                try:
                    connection, _ = self._socket.accept()
                except TimeoutError:
                    continue
                except OSError:
                    # The socket is closed, or too many files are open and some may close soon.
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
            self._strangers[connection] = time.monotonic() + _CONNECT_SECONDS
            oldest = next(iter(self._strangers))
            if len(self._strangers) > _MOST_STRANGERS:
                del self._strangers[oldest]
                # Its own thread closes it afterwards.
                _hang_up(oldest)

    def _send_away(self, now: float) -> None:
        """End the connections that took too long to prove that they know the key."""
        with self._lock:
            for connection, due in self._strangers.items():
                if due <= now:
                    _hang_up(connection)

    def _admit(self, connection: socket.socket) -> None:
        """Note that a connection has proved that it knows the key: it no longer makes room."""
        with self._lock:
            if self._strangers.pop(connection, None) is None or self._is_closed:
                raise ConnectionError("it took too long, or others needed its place")
            self._workers.add(connection)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._strangers.pop(connection, None)
            self._workers.discard(connection)

    def _serve(self, connection: socket.socket) -> None:
        """Serve one connection until it ends."""
        line = None
        try:
            with suppress(OSError):
                _configure(connection)
                line = Line(
                    *(connection, self._server.key),
                    of_driver=True,
                    # Before the worker knows that it is connected.
                    admit=lambda: self._admit(connection),
                )
                self._answer_all(line)
        finally:
            self._forget(connection)
            (line or connection).close()

    def _answer_all(self, line: Line) -> None:
        while (message := line.receive()) is not None:
            try:
                answer: dict[str, Any] = {"go_on": self._server.ask(_understood(message))}
            except Exception as error:  # noqa: BLE001 - it is raised where the message came from
                answer = {"error": error_as_data(error)}
            line.send(packed(answer))


def _understood(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message if it is valid; raise otherwise."""
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


# -------------------------------------------------------------------------- the socket


class Imposter(ConnectionError):
    """The peer does not know the key."""


def _configure(connection: socket.socket) -> None:
    """Let a connection notice that the other machine is gone, and send short messages at once."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _hang_up(connection: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    """End a connection, even for processes that inherited it."""
    with suppress(OSError):
        connection.shutdown(how)


class _Signer:
    """Signs the messages in one direction of a connection (HMAC with SHA-256).

    A signature also covers the number of messages before, so none can be repeated or left out.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def sign(self, content: bytes) -> bytes:
        """Return the signature of the next message."""
        signature = hmac.digest(self._key, self._number.to_bytes(8) + content, "sha256")
        self._number += 1
        return signature


class Line:
    """A connection whose two ends have both proved that they know the key.

    Each end draws random bytes; the proof is the key's signature of both and of the end's role. So
    no proof is valid on another connection, and nobody can let one worker answer what another one
    asks. Keys for signing the messages are derived in the same way.

    Parameters
    ----------
    connection : socket.socket
        The connection; whoever made it may end it while the peer has proved nothing yet.
    key : bytes
        The common key.
    of_driver : bool
        Whether this is the driver's end.
    admit : callable
        Called once the worker has proved that it knows the key, before the driver proves it.

    Raises
    ------
    Imposter
        If the peer does not know the key.
    OSError
        If the connection ends early.
    """

    def __init__(
        self,
        connection: socket.socket,
        key: bytes,
        *,
        of_driver: bool,
        admit: Callable[[], None] = lambda: None,
    ) -> None:
        connection.settimeout(None)
        self._socket = connection
        self._ends = Connection(connection.dup().detach())
        try:
            drawn = self._prove(key, admit) if of_driver else self._answer(key)
        except EOFError:
            self.close()
            raise ConnectionError("it ended the connection") from None
        except BaseException:
            self.close()
            raise
        driver, worker = (
            _Signer(_signed(key, direction, drawn)) for direction in (b"to worker", b"to driver")
        )
        self._sent, self._received = (driver, worker) if of_driver else (worker, driver)

    def _prove(self, key: bytes, admit: Callable[[], None]) -> bytes:
        """Let a worker prove that it knows the key, then prove it; return what both have drawn."""
        own = secrets.token_bytes(_RANDOM_BYTES)
        self._ends.send_bytes(own)
        answer = self._ends.recv_bytes(_RANDOM_BYTES + _SIGNATURE_BYTES)
        drawn = own + answer[:_RANDOM_BYTES]
        if not hmac.compare_digest(answer[_RANDOM_BYTES:], _signed(key, b"worker", drawn)):
            # The driver, which listens, proves nothing to those who have proved nothing.
            self._ends.send_bytes(b"")
            raise Imposter("it does not know the key")
        admit()
        self._ends.send_bytes(_signed(key, b"driver", drawn))
        return drawn

    def _answer(self, key: bytes) -> bytes:
        """Prove to a driver that this end knows the key, and let it prove the same."""
        given = self._ends.recv_bytes(_RANDOM_BYTES)
        own = secrets.token_bytes(_RANDOM_BYTES)
        drawn = given + own
        self._ends.send_bytes(own + _signed(key, b"worker", drawn))
        proof = self._ends.recv_bytes(_SIGNATURE_BYTES)
        if not hmac.compare_digest(proof, _signed(key, b"driver", drawn)):
            raise Imposter("it does not know the key")
        return drawn

    def send(self, content: bytes) -> None:
        """Send a message in the form that `packed` returns."""
        self._ends.send_bytes(self._sent.sign(content) + content)

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next message; None if the peer has closed the connection.

        Raises
        ------
        OSError
            If the connection broke, or the data received are not a message of the peer.
        """
        try:
            received = self._ends.recv_bytes(_SIGNATURE_BYTES + LONGEST_MESSAGE)
        except EOFError:
            return None
        signature, content = received[:_SIGNATURE_BYTES], received[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._received.sign(content)):
            raise ConnectionError("a message was altered, repeated or inserted")
        return _parsed(content)

    def close(self) -> None:
        """End the connection, even for processes that inherited it."""
        _hang_up(self._socket)
        self._socket.close()
        self._ends.close()


def _signed(key: bytes, role: bytes, drawn: bytes) -> bytes:
    return hmac.digest(key, role + drawn, "sha256")


def packed(message: Mapping[str, Any]) -> bytes:
    """Return a message as bytes.

    Raises
    ------
    ValueError
        If it is too long, too deeply nested, or not JSON.
    """
    try:
        text = json.dumps(message)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if len(text) > LONGEST_MESSAGE or is_deeper(text, _DEPTH):
        raise ValueError("it is too long or too deeply nested")
    return text.encode()


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        text = content.decode()
        if is_deeper(text, _DEPTH):
            raise ConnectionError("a message is too deeply nested")
        message = json.loads(text)
    except ValueError as error:
        raise ConnectionError(f"a message is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise ConnectionError("a message is not a JSON object")
    return message


# The constructors of these take other arguments; they never refuse a reading.
_OTHERS = ("ConfigurationError", "InvalidTable", "MissingExtra", "MistakesFound")
_CLASSES: dict[str, type[FairtrialError]] = {
    name: getattr(errors, name) for name in errors.__all__ if name not in _OTHERS
}


def error_as_data(error: Exception) -> dict[str, Any]:
    """Return an exception as data: its nearest class in `fairtrial.errors`, and its message.

    Examples
    --------
    >>> error_as_data(KeyError("x"))
    {'type': 'FairtrialError', 'arguments': ["KeyError: 'x'"]}
    """
    if not isinstance(error, FairtrialError):
        return _described("FairtrialError", f"{type(error).__name__}: {error}")
    cls = next(cls for cls in type(error).__mro__ if _CLASSES.get(cls.__name__) is cls)
    message = str(error)
    if isinstance(error, InvalidArgument):
        # The rejected value stays with the sender; the message describes it.
        return _described(cls.__name__, error.name, message.removeprefix(f"{error.name} "))
    return _described(cls.__name__, message)


def _described(name: str, *arguments: str) -> dict[str, Any]:
    return {"type": name, "arguments": [part[:_LONGEST_PART] for part in arguments]}


def error_from_data(data: object) -> FairtrialError:
    """Return the exception that `error_as_data` has described.

    Examples
    --------
    >>> error_from_data({"type": "NotSupported", "arguments": ["no readings here"]})
    NotSupported('no readings here')
    """
    parts = data if isinstance(data, Mapping) else {}
    cls, arguments = _CLASSES.get(str(parts.get("type"))), parts.get("arguments")
    expected = 2 if cls is not None and issubclass(cls, InvalidArgument) else 1
    if cls is None or not isinstance(arguments, list) or len(arguments) != expected:
        return FairtrialError("the driver refused, and gave no reason that can be understood")
    return cls(*map(str, arguments))
