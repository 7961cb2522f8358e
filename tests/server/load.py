"""A service as a separate process, and clients that load it and record its answers."""

from __future__ import annotations

import http.client
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from fairtrial.server import Settings, create_app
from fairtrial.server.http import configured
from fairtrial.study import Study, Tokens
from tests.server.histories import Operation, asked, looked, told
from tests.server.toys import ARMS, OWN, FourArms, InTurn

PATIENCE = 120.0
BUSY = (429, 503)


def free_port() -> int:
    """Return an unused port, from a range that only this test process uses.

    With a port from a shared range, another test's service could start first, and answer.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = 20_000 + 1_000 * (worker % 10) + secrets.randbelow(1_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def make_study(storage: str, name: str = "trial") -> None:
    """Make a study of the toy policy."""
    problem = FourArms()
    Study.create(problem, InTurn(problem), storage=storage, name=name, seed=1).close()


def make_token(storage: str, name: str = "load", scopes=("admin",)) -> str:
    """Return the text of a new token."""
    with Tokens(storage) as tokens:
        return tokens.create(name, scopes)[1]


class ServiceProcess:
    """A service that can be killed and started again on the same port."""

    def __init__(self, storage: str) -> None:
        self.storage = storage
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "tests.server.killed", self.storage, str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self.process.poll() is None, "the service has ended"
            assert time.monotonic() < deadline, "the service does not answer"
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, and return its exit status."""
        self.process.terminate()
        return self.process.wait(PATIENCE)


@contextmanager
def service(storage: str):
    """Yield a service that is gone when the context ends."""
    running = ServiceProcess(storage)
    try:
        yield running
    finally:
        running.kill()


class Client:
    """A client with its own connection, which repeats its requests until it is answered."""

    def __init__(self, port: int, token: str, over: threading.Event | None = None) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection: http.client.HTTPConnection | None = None
        self.over = over or threading.Event()
        self.repeated = 0

    def once(self, method: str, path: str, body: Any = None, key: str | None = None):
        """Return status and document of one attempt; raise OSError if there is no answer."""
        headers = self._headers if key is None else {**self._headers, "Idempotency-Key": key}
        data = None if body is None else json.dumps(body)
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
                self._connection.connect()
                self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection.request(method, path, data, headers)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise OSError(str(error)) from error
        return response.status, json.loads(text) if text else None

    def surely(self, method: str, path: str, body: Any = None, key: str | None = None):
        """Repeat a request until the answer is not "try again"; a POST needs a key."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(OSError):
                status, document = self.once(method, path, body, key)
                if status not in BUSY:
                    return status, document
            assert time.monotonic() < deadline, "nobody answers"
            self.repeated += 1
            time.sleep(random.uniform(0.005, 0.05))

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass
class Seen:
    """What one client has seen: its operations, and how long each took."""

    operations: list[Operation] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"ask": [], "tell": []})
    statuses: Counter[int] = field(default_factory=Counter)
    repeated: int = 0


def work(client: Client, study: str, seed: int, seen: Seen) -> None:
    """Ask, tell, tell again, tell something else, and look, until the end."""
    choice = random.Random(seed)
    while not client.over.is_set():
        step(client, f"/v1/studies/{study}", choice, seen)
    seen.repeated = client.repeated
    client.close()


def step(client: Client, path: str, choice: random.Random, seen: Seen) -> None:
    """Ask once, tell all its pulls, and perhaps look."""
    n = choice.choice([1, 1, 1, 2])
    key = secrets.token_hex(8)
    called = time.monotonic()
    status, answer = client.surely("POST", f"{path}/asks", {"n": n}, key)
    returned = time.monotonic()
    seen.statuses[status] += 1
    assert status == 200, answer
    pulls = [(pull["number"], pull["id"]) for pull in answer["pulls"]]
    assert all(pull["action"] == pull["number"] % ARMS for pull in answer["pulls"])
    seen.operations.append(asked(called, returned, pulls, n, key))
    seen.seconds["ask"].append(returned - called)
    for number, pull in pulls:
        _tell(client, path, pull, number % 2, choice, seen)
    if choice.random() < 0.1:
        called = time.monotonic()
        status, answer = client.surely("GET", path)
        seen.statuses[status] += 1
        seen.operations.append(looked(called, time.monotonic(), answer["head_seq"]))


def _tell(client: Client, path: str, pull: str, value: int, choice: random.Random, seen: Seen):
    values = [float(value)]
    if choice.random() < 0.1:
        values.append(choice.choice([float(value), 1.0 - value]))
    for each in values:
        key = secrets.token_hex(8)
        called = time.monotonic()
        status, answer = client.surely("POST", f"{path}/pulls/{pull}/tell", {"value": each}, key)
        returned = time.monotonic()
        seen.statuses[status] += 1
        assert status in (200, 409), answer
        result = answer["seq"] if status == 200 else "conflict"
        seen.operations.append(told(called, returned, pull, each, result, key))
        seen.seconds["tell"].append(returned - called)


def press(
    ports: int | list[int], token: str, clients: int, studies: list[str], while_they_do
) -> list[list[Seen]]:
    """Let clients work until a function returns; return what they saw, study by study.

    With several ports, of services on one storage, each serves a part of the clients. The first
    answers of a study take long, because it is opened, so they come before the measurement.
    """
    over = threading.Event()
    ports = [ports] if isinstance(ports, int) else ports
    seen = [Seen() for _ in range(clients)]
    first = Client(ports[0], token)
    for number, study in enumerate(studies):
        step(first, f"/v1/studies/{study}", random.Random(number), seen[number])
        seen[number].seconds = {"ask": [], "tell": []}
    first.close()
    failures: list[BaseException] = []

    def carry_out(number: int) -> None:
        try:
            # Clients of the same study call different services.
            client = Client(ports[number // len(studies) % len(ports)], token, over)
            work(client, studies[number % len(studies)], number, seen[number])
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            failures.append(error)
            over.set()

    threads = [threading.Thread(target=carry_out, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        while_they_do(over, seen)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return [seen[place :: len(studies)] for place in range(len(studies))]


def note(record_property, seen: list[Seen]) -> None:
    """Record the amount of work and its time, for the file of a long run."""
    record_property("operations", sum(len(each.operations) for each in seen))
    record_property("repeated", sum(each.repeated for each in seen))
    for kind in ("ask", "tell"):
        took = sorted(value for each in seen for value in each.seconds[kind])
        record_property(f"{kind}, ms, in the middle", round(took[len(took) // 2] * 1e3, 1))
        record_property(f"{kind}, ms, 99th %", round(took[int(len(took) * 0.99)] * 1e3, 1))


def require_all_kept(storage: str, study: str, seen: list[Seen]) -> None:
    """Fail if an acknowledged event is lost or doubled, or the log does not verify."""
    with Study.open(storage, study, **OWN) as opened:
        events = list(opened.events())
        assert opened.verify().ok
    asks = {event.pull_id: event.number for event in events if event.kind == "ask"}
    tells = {event.pull_id: event for event in events if event.kind == "tell"}
    assert len(asks) == sum(event.kind == "ask" for event in events)
    assert len(tells) == sum(event.kind == "tell" for event in events)
    assert sorted(asks.values()) == list(range(len(asks)))
    operations = [operation for each in seen for operation in each.operations]
    given = [pull for each in operations if each.kind == "ask" for pull in each.answer]
    assert len({pull for _, pull in given}) == len(given)
    assert all(asks[pull] == number for number, pull in given)
    for each in operations:
        if each.kind == "tell" and each.answer != "conflict":
            event = tells[each.content["pull"]]
            assert (event.seq, event.value) == (each.answer, each.content["value"])
    # Only what was asked and told: every client received its last answer.
    assert len(given) == len(asks)


def require_same_again(client: Client, study: str, operations: list[Operation]) -> None:
    """Fail if a repeated request under the same key gets a different answer."""
    path = f"/v1/studies/{study}"
    for each in operations:
        key = each.content.get("key")
        if each.kind == "ask":
            status, answer = client.surely("POST", f"{path}/asks", {"n": each.content["n"]}, key)
            assert status == 200
            assert [(pull["number"], pull["id"]) for pull in answer["pulls"]] == list(each.answer)
        elif each.kind == "tell":
            target = f"{path}/pulls/{each.content['pull']}/tell"
            status, answer = client.surely("POST", target, {"value": each.content["value"]}, key)
            result = answer["seq"] if status == 200 else "conflict"
            assert result == each.answer


@contextmanager
def in_thread(storage, own=OWN, trusted_proxies=(), **limits):
    """Yield the port of a service in a thread of this process, with special settings."""
    app = create_app(storage, settings=Settings(**limits), **own)
    server = uvicorn.Server(configured(app, "127.0.0.1", 0, trusted_proxies=trusted_proxies))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the service has ended"
            time.sleep(0.005)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
