"""Somebody without a token, who has only an address, keeps nobody out."""

import select
import socket
import time
from contextlib import ExitStack, suppress

import pytest

from fairtrial.server.security.connections import TimeLimitedProtocol
from tests.server.load import Client, in_thread, make_study, make_token

HOST = b"HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LIVE = b"GET /health/live " + HOST + b"\r\n"
DOCUMENT = b"GET /v1/openapi.json " + HOST + b"\r\n"
MANY = 40
UNREAD = 27
PATIENCE = 30.0


@pytest.fixture
def storage(tmp_path):
    address = f"sqlite:///{tmp_path}/studies.db"
    make_study(address)
    return address


def connected(port, stack):
    """Return a connection whose owner can receive little."""
    made = stack.enter_context(socket.socket())
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
    made.settimeout(PATIENCE)
    made.connect(("127.0.0.1", port))
    return made


def is_open(connection):
    """Return whether the service still keeps a connection, without reading what it has sent."""
    poll = select.poll()
    poll.register(connection, select.POLLHUP | select.POLLERR | select.POLLRDHUP)
    return not poll.poll(0)


def require_closed(connections):
    deadline = time.monotonic() + PATIENCE
    while left := [one for one in connections if is_open(one)]:
        assert time.monotonic() < deadline, f"{len(left)} are still open"
        time.sleep(0.02)


@pytest.fixture
def opened(monkeypatch):
    """The connections that the service keeps open."""
    found = set()
    made, lost = TimeLimitedProtocol.connection_made, TimeLimitedProtocol.connection_lost

    def connection_made(protocol, transport):
        found.add(protocol)
        made(protocol, transport)

    def connection_lost(protocol, error):
        lost(protocol, error)
        found.discard(protocol)

    monkeypatch.setattr(TimeLimitedProtocol, "connection_made", connection_made)
    monkeypatch.setattr(TimeLimitedProtocol, "connection_lost", connection_lost)
    return found


def require_none(opened):
    deadline = time.monotonic() + PATIENCE
    while opened:
        assert time.monotonic() < deadline, f"{len(opened)} are still open"
        time.sleep(0.02)


def require_served(port, token, times=10):
    """Fail unless every one of some new clients is served at once."""
    for number in range(times):
        client = Client(port, token)
        key = f"{time.time()}{number}"
        assert client.once("POST", "/v1/studies/trial/asks", {"n": 1}, key)[0] == 200
        client.close()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(TimeLimitedProtocol, "patience", 0.4)
    monkeypatch.setattr(TimeLimitedProtocol, "taking", 0.4)


ATTACKS = {
    "answers that nobody reads": DOCUMENT * UNREAD,
    "one answer that nobody reads": DOCUMENT,
    "answers to HEAD": LIVE.replace(b"GET", b"HEAD") * UNREAD,
    "refusals": LIVE.replace(b"GET", b"OPTIONS") * UNREAD,
    "nothing": b"",
    "half a head": LIVE[:30],
    "half a second head": LIVE + LIVE[:30],
    "half a body": b"POST /v1/studies " + HOST + b"Content-Length: 9000\r\n\r\n{",
    "half a form": b"POST /login " + HOST + b"Content-Length: 9000\r\n\r\ntoken=",
    "half a chunk": b"POST /v1/studies " + HOST + b"Transfer-Encoding: chunked\r\n\r\n9\r\n{",
    "blank lines after a request": LIVE + b"\r\n",
    "a socket for the web": b"GET / " + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "an answer that is expected": b"POST /v1/studies "
    + HOST
    + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
}


@pytest.mark.parametrize("sent", ATTACKS.values(), ids=ATTACKS.keys())
def test_whatever_strangers_send_and_leave_unread_new_clients_are_served(
    storage, monkeypatch, sent
):
    monkeypatch.setattr(TimeLimitedProtocol, "most", MANY // 2)
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        for _ in range(MANY):
            connection = connected(port, stack)
            with suppress(ConnectionError):
                connection.sendall(sent)
        require_served(port, token)


@pytest.mark.parametrize("sent", ATTACKS.values(), ids=ATTACKS.keys())
def test_no_connection_without_progress_stays_open(storage, monkeypatch, impatient, opened, sent):
    monkeypatch.setattr("fairtrial.server.http.KEEP_ALIVE", 0.2)
    monkeypatch.setattr("fairtrial.server.http._MARGIN", 0.2)
    with in_thread(storage, timeout=0.3, longest_wait=0.1) as port, ExitStack() as stack:
        held = [connected(port, stack) for _ in range(3)]
        for connection in held:
            connection.sendall(sent)
        require_none(opened)


def test_a_byte_now_and_then_prolongs_nothing(storage, monkeypatch, impatient):
    monkeypatch.setattr("fairtrial.server.http.KEEP_ALIVE", 0.2)
    monkeypatch.setattr("fairtrial.server.http._MARGIN", 0.2)
    beginnings = [
        b"GET /",
        LIVE,
        b"POST /v1/studies " + HOST + b"Content-Length: 900000\r\n\r\n",
        b"POST /v1/studies " + HOST + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n",
    ]
    with in_thread(storage, timeout=0.3, longest_wait=0.1) as port, ExitStack() as stack:
        held = [connected(port, stack) for _ in beginnings]
        for connection, sent in zip(held, beginnings, strict=True):
            connection.sendall(sent)
        deadline = time.monotonic() + PATIENCE
        while any(map(is_open, held)):
            assert time.monotonic() < deadline
            for connection, sent in zip(held, beginnings, strict=True):
                with suppress(OSError):
                    connection.sendall(b"\n" if sent is LIVE else b"a")
            time.sleep(0.05)


def test_too_many_requests_at_once_close_their_connection(storage):
    with in_thread(storage) as port, ExitStack() as stack:
        greedy = connected(port, stack)
        with suppress(ConnectionError):
            greedy.sendall(LIVE * 1_000)
        require_closed([greedy])


def test_no_stranger_displaces_whoever_has_shown_a_token(storage, monkeypatch):
    monkeypatch.setattr(TimeLimitedProtocol, "most", 10)
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        clients = [Client(port, token) for _ in range(5)]
        for client in clients:
            assert client.once("GET", "/v1/studies")[0] == 200
        before = [client._connection for client in clients]
        strangers = [connected(port, stack) for _ in range(30)]
        for client in clients:
            assert client.once("GET", "/v1/studies")[0] == 200
        assert [client._connection for client in clients] == before
        # The oldest of them made place.
        require_closed(strangers[:25])
        for client in clients:
            client.close()


def test_one_token_leaves_others_their_connections(storage, monkeypatch):
    monkeypatch.setattr(TimeLimitedProtocol, "most", 10)
    greedy, other = make_token(storage), make_token(storage, "other")
    with in_thread(storage) as port:
        many = [Client(port, greedy) for _ in range(10)]
        for client in many:
            assert client.once("GET", "/v1/studies")[0] == 200
        require_served(port, other)
        for client in many:
            client.close()


def test_every_answer_announces_how_long_its_connection_stays_open(storage):
    with in_thread(storage) as port, ExitStack() as stack:
        connection = connected(port, stack)
        connection.sendall(LIVE)
        assert b"\r\nkeep-alive: timeout=60\r\n" in connection.recv(4_096)
