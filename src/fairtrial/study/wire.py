"""The protocol between a worker and its driver: both authenticate, and every message is sealed.

Neither side parses anything before the other has proved that it knows the key, and neither ever
unpickles what it receives. The key itself is never sent over the socket. An eavesdropper can read
messages, but cannot forge, alter, repeat or drop them without being noticed.

The driver sends a nonce. The worker answers with its own nonce and the HMAC-SHA256 of both under
the key. The driver answers with another HMAC of both. After that, each message consists of its
length (4 bytes), an HMAC-SHA256 of its number and content under a key for this connection and
direction, and the content: JSON of limited length and depth.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from fairtrial import errors
from fairtrial.core.nesting import is_deeper
from fairtrial.errors import FairtrialError, InvalidArgument

__all__ = ["LONGEST_MESSAGE", "Imposter", "Wire", "error_as_data", "error_from_data", "packed"]

LONGEST_MESSAGE = 65_536
"""Largest size of a message: bytes of JSON."""

_DEPTH = 8
_MESSAGE_SECONDS = 10.0
_LONGEST_PART = 2_000
_GREETING = b"fairtrial worker protocol 1\n"
_BYTES = 32
_HEADER = struct.Struct(">I32s")


class Imposter(ConnectionError):
    """The peer does not know the key."""


class Wire:
    """A connection whose two ends have both proved that they know the key.

    Parameters
    ----------
    connection : socket.socket
        The connection.
    sending, receiving : bytes
        Keys of this connection, one for each direction.
    """

    def __init__(self, connection: socket.socket, sending: bytes, receiving: bytes) -> None:
        self._connection = connection
        self._sending = sending
        self._receiving = receiving
        self._sent = 0
        self._received = 0

    @classmethod
    def of_worker(cls, connection: socket.socket, key: bytes, seconds: float) -> Self:
        """Prove to the driver that this worker knows the key, and let the driver prove the same.

        Raises
        ------
        Imposter
            If the driver does not know the key.
        OSError
            If the connection ends early, or `seconds` have passed.
        """
        deadline = time.monotonic() + seconds
        greeting = _read(connection, len(_GREETING) + _BYTES, deadline)
        if not greeting.startswith(_GREETING):
            raise Imposter("it speaks another language")
        nonces = greeting[len(_GREETING) :] + (own := secrets.token_bytes(_BYTES))
        connection.sendall(own + _code(key, b"worker", nonces))
        if not hmac.compare_digest(
            _read(connection, _BYTES, deadline), _code(key, b"driver", nonces)
        ):
            raise Imposter("it does not know the key")
        connection.settimeout(None)
        return cls(connection, _code(key, b"to driver", nonces), _code(key, b"to worker", nonces))

    @classmethod
    def of_driver(cls, connection: socket.socket, key: bytes, seconds: float) -> Self:
        """Let a worker prove that it knows the key, and only then prove the same to the worker.

        Raises
        ------
        Imposter, OSError
            As for `of_worker`.
        """
        deadline = time.monotonic() + seconds
        connection.settimeout(seconds)
        own = secrets.token_bytes(_BYTES)
        connection.sendall(_GREETING + own)
        answer = _read(connection, 2 * _BYTES, deadline)
        nonces = own + answer[:_BYTES]
        if not hmac.compare_digest(answer[_BYTES:], _code(key, b"worker", nonces)):
            raise Imposter("it does not know the key")
        connection.sendall(_code(key, b"driver", nonces))
        connection.settimeout(None)
        return cls(connection, _code(key, b"to worker", nonces), _code(key, b"to driver", nonces))

    def send(self, content: bytes) -> None:
        """Send a message in the form that `packed` returns."""
        code = _code(self._sending, self._sent.to_bytes(8), content)
        self._connection.sendall(_HEADER.pack(len(content), code) + content)
        self._sent += 1

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next message; None if the peer has closed the connection.

        Raises
        ------
        OSError
            If the connection broke, or the data received are not a message of the peer.
        """
        # A message can begin at any time, but once it has begun it must arrive completely in time.
        self._connection.settimeout(None)
        first = self._connection.recv(1)
        if not first:
            return None
        deadline = time.monotonic() + _MESSAGE_SECONDS
        header = first + _read(self._connection, _HEADER.size - 1, deadline)
        length, code = _HEADER.unpack(header)
        if length > LONGEST_MESSAGE:
            raise ConnectionError(f"a message of {length} bytes is announced")
        content = _read(self._connection, length, deadline)
        expected = _code(self._receiving, self._received.to_bytes(8), content)
        if not hmac.compare_digest(code, expected):
            raise Imposter("a message is not the other side's")
        self._received += 1
        self._connection.settimeout(None)
        return _parsed(content)

    def close(self) -> None:
        """End the connection, even for processes that inherited it."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


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


def _code(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"|".join(parts), "sha256")


def _read(connection: socket.socket, length: int, deadline: float) -> bytes:
    """Return exactly `length` bytes; one deadline for all keeps slow senders from blocking us."""
    parts = bytearray()
    while len(parts) < length:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the other side is too slow")
        connection.settimeout(left)
        part = connection.recv(length - len(parts))
        if not part:
            raise ConnectionError("the other side has gone")
        parts += part
    return bytes(parts)


# ----------------------------------------------------------------------------- errors

# The constructors of these two take other arguments; they never refuse a reading.
_CLASSES: dict[str, type[FairtrialError]] = {
    name: getattr(errors, name)
    for name in errors.__all__
    if name not in ("ConfigurationError", "MissingExtra")
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
