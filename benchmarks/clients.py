"""Cheap clients of the service: HTTP/1.1 over persistent connections.

A client only reads an answer's status, its length and the id of the pull. Requests are assembled
from parts that are made once, so a benchmark measures the service and not its clients.
`Pressed.processor_seconds` holds the cost of the clients.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field

_HOST = "127.0.0.1"
_ID = b'"id":"'


@dataclass
class Pressed:
    """The answers to clients within some time.

    Parameters
    ----------
    pairs : int
        Number of outcomes that were told, each followed by a new pull.
    seconds : dict of str to list of float
        Duration of each request, by kind.
    processor_seconds : float
        Processor time of the clients per pair.
    """

    pairs: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    processor_seconds: float = 0.0


def press(
    port: int, secret: str, clients: int, studies: int, spell: float, *, fused: bool = True
) -> Pressed:
    """Run clients for some seconds, each on its own studies if there are enough.

    Fused clients tell an outcome and ask for the next pull in one request; others use two requests.
    """
    return asyncio.run(_all(port, secret, clients, studies, spell, fused=fused))


async def _all(
    port: int, secret: str, clients: int, studies: int, spell: float, *, fused: bool
) -> Pressed:
    pressed = Pressed(seconds={"both": []} if fused else {"tell": [], "ask": []})
    ready = asyncio.Barrier(clients + 1)
    over = asyncio.Event()

    async def client(number: int) -> None:
        own = [*range(number % studies, studies, clients)] or [number % studies]
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(secret), _HOST, port
        )
        # The first answer of a study is slow, because the study has to be opened.
        pulls = deque([(study, await connection.ask(study)) for study in own])
        await ready.wait()
        while not over.is_set():
            study, pull = pulls.popleft()
            began = time.perf_counter()
            if fused:
                pulls.append((study, await connection.tell_and_ask(study, pull)))
                pressed.seconds["both"].append(time.perf_counter() - began)
            else:
                await connection.tell(study, pull)
                told = time.perf_counter()
                pulls.append((study, await connection.ask(study)))
                pressed.seconds["tell"].append(told - began)
                pressed.seconds["ask"].append(time.perf_counter() - told)
            pressed.pairs += not over.is_set()
        connection.close()

    working = [asyncio.ensure_future(client(number)) for number in range(clients)]
    await ready.wait()
    before = time.process_time()
    await asyncio.wait(working, timeout=spell)
    pressed.processor_seconds = (time.process_time() - before) / max(pressed.pairs, 1)
    over.set()
    await asyncio.gather(*working)
    return pressed


class _Connection(asyncio.Protocol):
    """One connection, which sends one request after the other."""

    def __init__(self, secret: str) -> None:
        self._tail = (
            f" HTTP/1.1\r\nHost: {_HOST}\r\nAuthorization: Bearer {secret}\r\n"
            "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        ).encode()
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None

    async def ask(self, study: int) -> bytes:
        """Return the id of the next pull."""
        return _id_in(await self._post(b"/v1/studies/%d/asks" % study, b"{}"))

    async def tell(self, study: int, pull: bytes) -> None:
        """Tell the outcome of a pull."""
        await self._post(b"/v1/studies/%d/pulls/%b/tell" % (study, pull), b'{"value":0.5}')

    async def tell_and_ask(self, study: int, pull: bytes) -> bytes:
        """Tell the outcome of a pull; return the id of the next one."""
        body = b'{"tell":{"pull":"%b","value":0.5}}' % pull
        return _id_in(await self._post(b"/v1/studies/%d/asks" % study, body))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    async def _post(self, path: bytes, body: bytes) -> bytes:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(b"POST " + path + self._tail % len(body) + body)
        return await self._answer

    # ------------------------------------------------------------------- of the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Receive a part of an answer; return the answer when it is complete."""
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator or len(body) < _length(head):
            return
        assert self._answer is not None
        if head.startswith(b"HTTP/1.1 200 "):
            self._answer.set_result(bytes(body))
        else:
            self._answer.set_exception(RuntimeError(self._received.decode()))
        self._received.clear()

    def connection_lost(self, error: Exception | None) -> None:
        """Raise in the waiting caller: no answer will arrive."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the service has closed"))


def _length(head: bytearray) -> int:
    return int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])


def _id_in(body: bytes) -> bytes:
    return body.partition(_ID)[2].partition(b'"')[0]
