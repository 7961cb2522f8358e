"""Close connections that make no progress; limit what one may hold, and their number."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

__all__ = ["TimeLimitedProtocol", "most_connections"]

_MOST_FILES = 65_536
_RESERVED = 256
"""Number of files reserved for the storage and for downloads."""
_MOST_UNREAD = 64 * 1024
"""Largest number of bytes in a request's head, or between two parts of its body."""
_MOST_READY = 128 * 1024
"""Number of bytes that the operating system buffers for a client that reads slowly."""
_NO_LINGERING = struct.pack("ii", 1, 0)
"""Otherwise the operating system would keep an answer that nobody reads for minutes."""
_MOST_PIPELINED = 100
"""Largest number of requests of a connection that wait for the answers to earlier ones."""
_LOOKS = 8
"""Number of times that progress is examined within the shortest time limit."""


def most_connections() -> int:
    """Return the largest number of open connections, from the process's limit of open files."""
    try:
        import resource  # noqa: PLC0415 - optional
    except ImportError:
        # Windows has no such limit.
        return _MOST_FILES - _RESERVED
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_FILES if limit == resource.RLIM_INFINITY else min(limit, _MOST_FILES)
    return max(files - _RESERVED, files // 2)


class _Places:
    """Who holds the connections of one server: addresses without a token, and tokens."""

    def __init__(self) -> None:
        self._strangers: dict[str, dict[TimeLimitedProtocol, None]] = {}
        self._known: dict[str, dict[TimeLimitedProtocol, None]] = {}
        self._number = 0

    def enter(self, connection: TimeLimitedProtocol) -> None:
        """Note a connection, of its token if that is known, otherwise of its address."""
        owners, owner = self._owner_of(connection)
        owners.setdefault(owner, {})[connection] = None
        self._number += 1

    def leave(self, connection: TimeLimitedProtocol) -> None:
        """Forget a connection; calling it twice has no effect."""
        owners, owner = self._owner_of(connection)
        own = owners.get(owner, {})
        if connection in own:
            del own[connection]
            self._number -= 1
            if not own:
                del owners[owner]

    def _owner_of(
        self, connection: TimeLimitedProtocol
    ) -> tuple[dict[str, dict[TimeLimitedProtocol, None]], str]:
        if connection.token:
            return self._known, connection.token
        return self._strangers, connection.address

    def superfluous(
        self, new: TimeLimitedProtocol, most: int, most_strangers: int
    ) -> TimeLimitedProtocol | None:
        """Return which connection must make place for a new one; None if there is room.

        Whoever has no token goes first: the oldest connection of the address with the most of
        them. Then the oldest connection of a token that has more than half of all.
        """
        own = self._strangers[new.address]
        if len(own) > most_strangers:
            return next(iter(own))
        if self._number <= most:
            return None
        largest = max(self._strangers.values(), key=len)
        oldest = next(iter(largest))
        if oldest is not new:
            return oldest
        greedy: dict[TimeLimitedProtocol, None] = max(self._known.values(), key=len, default={})
        return next(iter(greedy)) if len(greedy) > most // 2 else new


class TimeLimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with limits of time, size and number for clients.

    uvicorn waits for ever for the head of a request, for the rest of a request that is already
    answered, and for a client to read an answer. Its parser stores headers, and trailers after a
    body, without a limit; it queues pipelined requests without a limit.
    """

    patience = 20.0
    """Seconds from connecting, or from a request's first byte, until its head is complete; and
    from an answer until the rest of its request has come."""
    taking = 60.0
    """Seconds within which a client must read some of an answer that is ready."""
    most = most_connections()
    """Largest number of connections; beyond it, one makes place for each new one."""
    most_strangers = max(most // 4, 8)
    """Largest number of connections of one address on which no valid token has come."""

    _places: ClassVar[WeakKeyDictionary[Any, _Places]] = WeakKeyDictionary()
    """The places of each server, by its configuration."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.token = ""
        self._unread = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_receiving = False
        self._head_since: float | None = None
        self._idle_since: float | None = None
        self._rest_since: float | None = None
        self._answering: RequestResponseCycle | None = None
        self._least: int | None = None
        self._taken_at = 0.0
        self._own = self._places.setdefault(self.config, _Places())

    @property
    def address(self) -> str:
        """The client's address."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Handle a new connection."""
        super().connection_made(transport)
        _set_option(transport, socket.SO_SNDBUF, _MOST_READY)
        self._own.enter(self)
        self._head_since = self.loop.time()
        self._look_again()
        leaving = self._own.superfluous(self, self.most, min(self.most_strangers, self.most))
        if leaving is not None:
            self._own.leave(leaving)
            leaving.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        if self._timer is not None:
            self._timer.cancel()
        self._own.leave(self)
        self._abandon()
        super().connection_lost(exc)

    def abort(self) -> None:
        """End the connection at once, and forget what the client has not read."""
        self._abandon()
        _set_option(self.transport, socket.SO_LINGER, _NO_LINGERING)
        self.transport.abort()

    def _abandon(self) -> None:
        """Tell the request that is being answered that its client has gone; drop those behind it.

        uvicorn tells only the last of the requests that have come.
        """
        self.pipeline.clear()
        if self._answering is not None:
            self._answering.disconnected = True
            self._answering.message_event.set()
        self.flow.resume_writing()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def recognise(self, token: str) -> None:
        """Note that a valid token of that name has come through this connection."""
        if self.token != token and self in self.connections:
            self._own.leave(self)
            self.token = token
            self._own.enter(self)

    def resume_writing(self) -> None:
        """Handle a write buffer that the client has mostly read."""
        self._least = None
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        self._unread += len(data)
        super().data_received(data)
        if _is_closing(self.transport):
            return
        if self._unread > _MOST_UNREAD:
            self.send_400_response("The head of the request is too large.")
        elif len(self.pipeline) > _MOST_PIPELINED:
            self.abort()

    def on_message_begin(self) -> None:
        """Handle the beginning of a request."""
        self._is_receiving = True
        self._idle_since = self._rest_since = None
        if self._head_since is None:
            self._head_since = self.loop.time()
        super().on_message_begin()
        self.scope["extensions"] = {"fairtrial": {"recognise": self.recognise}}

    def on_headers_complete(self) -> None:
        """Handle the end of a request's head."""
        self._head_since = None
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Handle a part of a body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Handle the end of a request."""
        self._is_receiving = False
        self._unread = 0
        super().on_message_complete()

    # ------------------------------------------------------------------ progress

    def _look_again(self) -> None:
        pause = min(self.patience, self.taking, self.timeout_keep_alive) / _LOOKS
        self._timer = self.loop.call_later(pause, self._look)

    def _look(self) -> None:
        """End the connection if its client makes no progress."""
        now = self.loop.time()
        is_slow = self._reads_too_slowly(now) or self._sends_too_slowly(now)
        if is_slow or self._is_idle_for_too_long(now):
            # Closing would wait until the client has read what is ready.
            self.abort()
        else:
            self._look_again()

    def _reads_too_slowly(self, now: float) -> bool:
        """Return whether a client has taken nothing of what is ready for too long.

        What matters is what it leaves, however little that is, and also after a close.
        """
        ready = self.transport.get_write_buffer_size()
        if not ready or self._least is None or ready < self._least:
            self._least, self._taken_at = ready or None, now
        return bool(ready) and now - self._taken_at > self.taking

    def _sends_too_slowly(self, now: float) -> bool:
        if self._head_since is not None:
            if self.flow.read_paused:
                # We let it wait ourselves.
                self._head_since = now
            return now - self._head_since > self.patience
        if not self._is_receiving or not self.cycle.response_complete:
            return False
        if self._rest_since is None:
            self._rest_since = now
        return now - self._rest_since > self.patience

    def _is_idle_for_too_long(self, now: float) -> bool:
        """Return whether no request has begun for too long; other bytes do not count."""
        if self._is_receiving or self.cycle is None or not self.cycle.response_complete:
            return False
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since > self.timeout_keep_alive + self.patience


def _set_option(transport: asyncio.Transport, option: int, value: int | bytes) -> None:
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, option, value)


def _is_closing(transport: asyncio.Transport | None) -> bool:
    return transport is None or transport.is_closing()
