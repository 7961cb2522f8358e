"""How long the requests of 32 clients take while others attack the service.

The clients ask and tell on studies of their own, in turn alone and during an attack, so that every
attack is compared with the minutes right before and after it. Every attack runs in a process of its
own, and uses what an attacker may have: an address, a token for one study, or a token that may
read.
"""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks import clients
from benchmarks.service import Service, port_of, served, start
from benchmarks.study_throughput import OWN
from fairtrial.study import Study, Tokens
from fairtrial.study.location import open_store
from fairtrial.study.store import NewStudy

_HOST = "127.0.0.1"
_CLIENTS = 32
_STRANGERS = 150
_UNREAD = 27
_LONG_READS = ("verify", "verify", "export?format=jsonl")
_Attack = Callable[[int, str, float], Coroutine[Any, Any, int]]


def run(*, quick: bool) -> None:
    print("\nthe service under attack: requests of 32 clients on studies of their own")
    spell, studies, events = (5.0, 2_000, 50_000) if quick else (60.0, 10_000, 1_000_000)
    with tempfile.TemporaryDirectory() as name:
        storage = f"sqlite:///{Path(name)}/hostile.db"
        with served(storage, _CLIENTS) as service:
            secrets = _prepare(storage, studies, events)
            before = _alone(service, spell)
            for title, (attack, who) in _ATTACKS.items():
                seen = _pressed(service.port, service.secret, spell, attack, secrets[who])
                after = _alone(service, spell)
                _show(title, seen, sorted(before + after))
                before = after
        _show_end(storage, secrets["reader"])


def _alone(service: Service, spell: float) -> list[float]:
    """Return the durations of the clients' requests without an attack, and show them."""
    calm = _pressed(service.port, service.secret, spell, None, "")
    _show("alone", calm, calm)
    return calm


def _prepare(storage: str, studies: int, events: int) -> dict[str, str]:
    """Add many studies and a long log; return the tokens of attackers."""
    store = open_store(storage, durability="process")
    first = store.find_study("0")
    assert first is not None

    def insert() -> None:
        for number in range(studies):
            store.insert_study(
                NewStudy(f"many {number:06d}", *first[2 : len(NewStudy._fields) + 1])
            )
        for name in ("victim", "long"):
            store.insert_study(NewStudy(name, *first[2 : len(NewStudy._fields) + 1]))

    store.transact(insert)
    with Study.open(storage, "long", durability="process", **OWN) as study:
        for _ in range(events // 2_000):
            study.tell_many([(pull, 0.5) for pull in study.ask(1_000)])
    with Tokens(store) as tokens:
        found = {
            "stranger": "",
            "runner": tokens.create("runner", ["run"], studies=["victim"])[1],
            "lister": tokens.create("lister", ["run"])[1],
            "reader": tokens.create("reader", ["read"])[1],
        }
    store.close()
    return found


def _pressed(
    port: int, secret: str, spell: float, attack: _Attack | None, attacker: str
) -> list[float]:
    """Return the sorted durations of the clients' requests, during an attack if there is one."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        attacking = None
        if attack is not None:
            attacking = pool.submit(_attacked, attack, port, attacker, spell + 4.0)
            time.sleep(2.0)
        pressed = pool.submit(
            clients.press, port, secret, _CLIENTS, _CLIENTS, spell, fused=False
        ).result()
        if attacking is not None:
            print(f"{'':<46}{attacking.result():10,} requests of the attackers were answered")
    return sorted(second for kind in pressed.seconds.values() for second in kind)


def _show(title: str, seen: list[float], calm: list[float]) -> None:
    def at(durations: list[float], share: float) -> float:
        return durations[int((len(durations) - 1) * share)] * 1e3

    print(
        f"{title:<46}{at(seen, 0.5):10,.1f} ms median, {at(seen, 0.99):,.1f} ms at the 99th "
        f"percentile ({at(seen, 0.99) / at(calm, 0.99):.2f} times), {len(seen):,} requests",
        flush=True,
    )


def _show_end(storage: str, secret: str) -> None:
    """Show how soon a service ends after SIGTERM while a long log is audited and exported."""
    with start(storage) as service:
        port = port_of(service)
        readers = [_reader(port, secret, path) for path in _LONG_READS]
        time.sleep(2.0)
        began = time.monotonic()
        service.terminate()
        service.wait()
        ended = time.monotonic()
    for connection in readers:
        connection.close()
    title = "SIGTERM while the long log is read"
    print(f"{title:<46}{ended - began:10,.1f} s until the service ended", flush=True)


def _reader(port: int, secret: str, path: str) -> socket.socket:
    """Ask for something of the long log; leave the answer unread and the connection open."""
    connection = socket.create_connection((_HOST, port))
    head = f"GET /v1/studies/long/{path} HTTP/1.1\r\nHost: {_HOST}\r\n"
    connection.sendall(f"{head}Authorization: Bearer {secret}\r\n\r\n".encode())
    return connection


# --------------------------------------------------------------------------- the attacks


def _attacked(attack: _Attack, port: int, secret: str, seconds: float) -> int:
    """Return the number of answers to an attack that lasts for some seconds."""
    return asyncio.run(attack(port, secret, seconds))


async def _leave_answers_unread(port: int, _: str, seconds: float) -> int:
    """Hold connections with answers that nobody reads; connect again when one is closed."""
    request = f"GET /v1/openapi.json HTTP/1.1\r\nHost: {_HOST}\r\n\r\n".encode() * _UNREAD
    loop, end = asyncio.get_running_loop(), time.monotonic() + seconds
    opened = 0

    async def hold() -> None:
        nonlocal opened
        while time.monotonic() < end:
            with suppress(OSError), socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
                connection.setblocking(False)
                await loop.sock_connect(connection, (_HOST, port))
                await loop.sock_sendall(connection, request)
                opened += 1
                # An empty look, so that a closed connection is noticed.
                while time.monotonic() < end and connection.send(b"\r\n"):
                    await asyncio.sleep(1.0)
            await asyncio.sleep(0.1)

    await asyncio.gather(*(hold() for _ in range(_STRANGERS)))
    return opened


def _get_again_and_again(path: str, connections: int, before: Callable[..., None] | None = None):
    async def attack(port: int, secret: str, seconds: float) -> int:
        if before is not None:
            await asyncio.to_thread(before, port, secret)
        end, answered = time.monotonic() + seconds, 0
        head = f"GET {path} HTTP/1.1\r\nHost: {_HOST}\r\nAuthorization: Bearer {secret}\r\n\r\n"

        async def ask() -> None:
            nonlocal answered
            while time.monotonic() < end:
                with suppress(OSError, ValueError, asyncio.IncompleteReadError):
                    reader, writer = await asyncio.open_connection(_HOST, port)
                    while time.monotonic() < end:
                        writer.write(head.encode())
                        lines = (await reader.readuntil(b"\r\n\r\n")).lower()
                        length = lines.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                        await reader.readexactly(int(length))
                        answered += 1
                    writer.close()
                await asyncio.sleep(0.05)

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(ask() for _ in range(connections)))
        return answered

    return attack


def _ask_for_too_much(port: int, secret: str) -> None:
    """Open as many pulls as the service gives, up to 50,000."""
    connection = HTTPConnection(_HOST, port)
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    for _ in range(50):
        connection.request(
            "POST", "/v1/studies/victim/asks", json.dumps({"n": 1_000}), headers=headers
        )
        connection.getresponse().read()
    connection.close()


async def _list_open_pulls(port: int, secret: str, seconds: float) -> int:
    path = "/v1/studies/victim/pulls?limit=1"
    return await _get_again_and_again(path, 12, _ask_for_too_much)(port, secret, seconds)


async def _list_studies(port: int, secret: str, seconds: float) -> int:
    return await _get_again_and_again("/v1/studies", 16)(port, secret, seconds)


async def _audit(port: int, secret: str, seconds: float) -> int:
    return await _get_again_and_again("/v1/studies/long/verify", 2)(port, secret, seconds)


_ATTACKS: dict[str, tuple[_Attack, str]] = {
    "150 connections that read nothing": (_leave_answers_unread, "stranger"),
    "50,000 open pulls, listed by 12 connections": (_list_open_pulls, "runner"),
    "all studies, listed by 16 connections": (_list_studies, "lister"),
    "a long log, audited by 2 connections": (_audit, "reader"),
}
