"""Clients that are slow, send too much, or leave thousands of pulls open, and their neighbours."""

import http.client
import json
import socket
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from fairtrial.server.problems import Refusal
from fairtrial.server.routes import reading
from fairtrial.server.security.bodies import parse_json
from fairtrial.server.security.connections import TimeLimitedProtocol
from fairtrial.study import Study
from fairtrial.study.export import LogText
from fairtrial.study.sqlite import SQLiteStore
from tests.messages import raises
from tests.server.load import Client, in_thread, make_study, make_token
from tests.server.toys import OWN

MANY = 50

LIVE = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
def storage(tmp_path):
    address = f"sqlite:///{tmp_path}/studies.db"
    make_study(address)
    return address


def raw(port, stack):
    """Return an open connection."""
    return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))


def head(token, length):
    return (
        "POST /v1/studies/trial/asks HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
    ).encode()


def answer_of(connection):
    """Return status and document of the answer on a connection."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, json.loads(response.read())


def status_of(connection):
    return answer_of(connection)[0]


def require_served(client):
    for number in range(5):
        assert (
            client.once("POST", "/v1/studies/trial/asks", {"n": 1}, f"{time.time()}{number}")[0]
            == 200
        )


@pytest.mark.slow
def test_clients_that_send_a_byte_now_and_then_keep_nobody_out_and_are_sent_away(storage):
    token = make_token(storage)
    with in_thread(storage, timeout=0.5, longest_wait=0.5) as port, ExitStack() as stack:
        slow = [raw(port, stack) for _ in range(MANY)]
        for connection in slow:
            connection.sendall(head(token, "Content-Length: 1000"))
        for _ in range(3):
            for connection in slow:
                connection.sendall(b" ")
            require_served(Client(port, token))
        # On a busy machine, one may have waited for its turn for too long before its time was up.
        statuses = {status_of(connection) for connection in slow}
        assert 408 in statuses
        assert statuses <= {408, 503}
        require_served(Client(port, token))


def test_connections_by_which_no_whole_request_comes_are_closed(storage, monkeypatch):
    monkeypatch.setattr(TimeLimitedProtocol, "patience", 0.3)
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        silent, slow, second = (raw(port, stack) for _ in range(3))
        second.sendall(LIVE + b"\r\n")
        assert status_of(second) == 200
        for letter in LIVE[:8]:
            slow.sendall(bytes([letter]))
            second.sendall(bytes([letter]))
            time.sleep(0.02)
        for connection in (silent, slow, second):
            with suppress(ConnectionError):
                assert connection.recv(1) == b""
        require_served(Client(port, token))


def test_the_oldest_connection_of_a_stranger_makes_place_at_once_for_one_too_many(
    storage, monkeypatch
):
    monkeypatch.setattr(TimeLimitedProtocol, "most", 3)
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        client = Client(port, token)
        require_served(client)
        oldest, second, _last = (raw(port, stack) for _ in range(3))
        # Without this rule, the connection is closed only after 20 s without a request.
        oldest.settimeout(10.0)
        with suppress(ConnectionError):
            assert oldest.recv(1) == b""
        second.sendall(LIVE + b"\r\n")
        assert status_of(second) == 200
        require_served(client)


@pytest.mark.slow
def test_clients_that_read_nothing_keep_nobody_out(storage):
    token = make_token(storage)
    with Study.open(storage, "trial", **OWN) as study:
        for _ in range(5):
            study.ask(1_000)
    with in_thread(storage) as port, ExitStack() as stack:
        for _ in range(MANY):
            connection = raw(port, stack)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            line = "GET /v1/studies/trial/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            line += f"Accept: application/x-ndjson\r\nAuthorization: Bearer {token}\r\n\r\n"
            connection.sendall(line.encode())
        require_served(Client(port, token))


# ---------------------------------------------------------- readers of a log that is long


@pytest.fixture
def long_log(storage, monkeypatch):
    """Make a log of 40 pages, each larger than a reader's buffer; return the pages made."""
    made = []
    page_of = LogText.page

    def page(text, after, most):
        made.append(after)
        # Empty lines are not part of the log.
        return page_of(text, after, most) + 1_000_000 * "\n"

    monkeypatch.setattr(LogText, "page", page)
    monkeypatch.setattr(reading, "_PAGE", 50)
    with Study.open(storage, "trial", **OWN) as study:
        study.ask(1_000)
        study.ask(1_000)
    return made


def begin_export(port, token, stack):
    """Return a connection on which a log is being sent, without reading any of it."""
    connection = raw(port, stack)
    line = "GET /v1/studies/trial/export HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    connection.sendall(f"{line}Authorization: Bearer {token}\r\n\r\n".encode())
    return connection


def settled(made):
    """Return how many pages were made, once no more are made."""
    deadline, number = time.monotonic() + 30, 0
    while (number < len(made) or not made) and time.monotonic() < deadline:
        number = len(made)
        time.sleep(0.3)
    return number


def test_who_reads_a_long_log_slowly_keeps_nobody_waiting_and_gets_the_whole(storage, long_log):
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        slow = begin_export(port, token, stack)
        # No more is made than the reader takes.
        assert 0 < settled(long_log) < 40
        client = Client(port, token)
        require_served(client)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        stack.callback(connection.close)
        path = "/v1/studies/trial/export?format=csv"
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        other = connection.getresponse().read().split()
        assert len(other) > 2_000
        response = http.client.HTTPResponse(slow)
        response.begin()
        lines = response.read().split(b"\n")
        assert len([line for line in lines if line]) == 2_001


def test_for_a_reader_who_has_vanished_no_more_is_made(storage, long_log):
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        connection = begin_export(port, token, stack)
        before = settled(long_log)
        connection.close()
        assert settled(long_log) <= before + 1 < 40
        require_served(Client(port, token))


def test_a_reader_who_takes_nothing_for_long_is_sent_away(storage, long_log, monkeypatch):
    gone = threading.Event()
    lost = TimeLimitedProtocol.connection_lost

    def connection_lost(protocol, error):
        lost(protocol, error)
        gone.set()

    monkeypatch.setattr(TimeLimitedProtocol, "taking", 0.2)
    monkeypatch.setattr(TimeLimitedProtocol, "connection_lost", connection_lost)
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        begin_export(port, token, stack)
        assert gone.wait(30)
        assert settled(long_log) < 40


def test_a_body_that_is_too_large_is_refused_at_its_announcement_or_while_it_comes(storage):
    token = make_token(storage)
    with in_thread(storage, body_limit=10_000) as port, ExitStack() as stack:
        announced = raw(port, stack)
        announced.sendall(head(token, "Content-Length: 10001"))
        assert status_of(announced) == 413
        streamed = raw(port, stack)
        streamed.sendall(head(token, "Transfer-Encoding: chunked"))
        chunk = b"800\r\n" + b" " * 0x800 + b"\r\n"
        # It may be closed while more is sent.
        for _ in range(6):
            streamed.sendall(chunk)
        assert status_of(streamed) == 413
        require_served(Client(port, token))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 5_000,
        b'{"n": ' + b"9" * 5_000 + b"}",
        b'{"n": NaN}',
        b'{"n": 1, "n": 2}',
        b'{"n": 1e400}',
        b'{"n": true}',
        b'{"n": -1}',
        b'{"n": 1001}',
        b'{"n": 1, "lease": 1e308}',
        b'{"n": 1, "tell": {"pull": "\\u0000", "value": 1}}',
        b'{"n": 1, "tell": {"pull": "\\ud800", "value": 1}}',
        b"\xff\xfe{}",
    ],
)
def test_bodies_that_make_no_sense_are_refused_with_a_reason_and_change_nothing(storage, body):
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        connection = raw(port, stack)
        connection.sendall(head(token, f"Content-Length: {len(body)}") + body)
        status, answer = answer_of(connection)
        assert 400 <= status < 500, answer
        assert answer["detail"] != "There was an error parsing the body"
        assert Client(port, token).once("GET", "/v1/studies/trial")[1]["head_seq"] == 0


def test_a_request_of_two_lengths_is_refused_and_what_follows_it_is_not_answered(storage):
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        connection = raw(port, stack)
        smuggled = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        lengths = "Content-Length: 5\r\nTransfer-Encoding: chunked"
        connection.sendall(head(token, lengths) + b"0\r\n\r\n" + smuggled)
        answers = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert answers.count(b"HTTP/1.1") == 1
        assert answers.startswith(b"HTTP/1.1 400")


ENOUGH = 4.0
"""Seconds of processor time: many times the need, and a small part of a quadratic cost."""


def test_a_name_that_comes_twice_among_very_many_is_found_at_once():
    names = ",".join(f'"{number}":1' for number in range(100_000))
    begin = time.process_time()
    with raises(Refusal, status=400):
        parse_json(f'{{{names},"99999":1}}'.encode())
    assert time.process_time() - begin < ENOUGH


@pytest.mark.parametrize(
    "body",
    [
        b'{"outcomes":[' + b",".join([b"1"] * 400_000) + b"]}",
        b'{"outcomes":[' + b",".join([b'{"value":[]}'] * 70_000) + b"]}",
        b'{"the body":1,' + b",".join(b'"%x":1' % number for number in range(90_000)) + b"}",
    ],
    ids=["numbers", "outcomes", "names"],
)
def test_a_body_of_very_many_parts_keeps_nobody_waiting(storage, body):
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        connection = raw(port, stack)
        # Time of this process, which includes the service: other work on the machine does not
        # count.
        begin = time.process_time()
        path = b"/tells HTTP/1.1"
        sent = head(token, f"Content-Length: {len(body)}").replace(b"/asks HTTP/1.1", path)
        connection.sendall(sent + body)
        assert status_of(connection) == 413
        assert time.process_time() - begin < ENOUGH


@pytest.mark.slow
def test_10_000_open_leases_run_out_in_one_write(storage):
    token = make_token(storage)
    with in_thread(storage) as port:
        client = Client(port, token)
        for number in range(10):
            body = {"n": 1_000, "lease": 60 if number < 9 else 30}
            status, answer = client.surely("POST", "/v1/studies/trial/asks", body, f"k{number}")
            assert (status, len(answer["pulls"])) == (200, 1_000)
        seen, after = 0, ""
        while after is not None:
            status, page = client.surely(
                "GET", f"/v1/studies/trial/pulls?limit=1000{after and '&after=' + after}"
            )
            seen += len(page["pulls"])
            after = page["next"]
        assert seen == 10_000
        last = answer["pulls"][0]["id"]
        assert (
            client.surely("POST", f"/v1/studies/trial/pulls/{last}/tell", {"value": 1.0}, "t")[0]
            == 200
        )
    # Its leases run out while the service does not run: the next write records all of them.
    later = time.time() + 3_600
    store = SQLiteStore(Path(storage.removeprefix("sqlite:///")), "process", clock=lambda: later)
    with closing(store), Study.open(store, "trial", **OWN) as study:
        study.ask()
        kinds = [event.kind for event in study.events()]
        assert study.verify().ok
    assert kinds.count("expire") == 9_999


HEAD = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKED = HEAD.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /" + b"a" * 1_000, b"a" * 1_000),
        (HEAD + b"X: ", b"a" * 1_000),
        (HEAD, b"X: " + b"a" * 1_000 + b"\r\n"),
        (CHUNKED + b"1;x=", b"a" * 1_000),
        (CHUNKED + b"0\r\n", b"X: " + b"a" * 1_000 + b"\r\n"),
    ],
)
def test_a_head_or_trailer_without_end_is_refused_before_it_takes_memory(storage, begin, more):
    token = make_token(storage)
    with in_thread(storage) as port, ExitStack() as stack:
        connection = raw(port, stack)
        connection.sendall(begin)
        sent = 0
        try:
            while sent < 50_000_000:
                sent += connection.send(more * 10)
        except OSError:
            pass
        # The buffers of both ends hold a part of it.
        assert sent < 25_000_000
        require_served(Client(port, token))


def test_a_head_of_some_kilobytes_is_read(storage):
    with in_thread(storage) as port, ExitStack() as stack:
        connection = raw(port, stack)
        connection.sendall(HEAD + b"X: " + b"a" * 30_000 + b"\r\n\r\n")
        assert status_of(connection) == 200
