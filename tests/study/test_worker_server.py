"""Worker and driver over a socket, each against a peer that only pretends to be the other."""

import base64
import contextlib
import hmac
import os
import pickle
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, answer_challenge

import pytest

from fairtrial import errors
from fairtrial.errors import FairtrialError, InvalidArgument, InvalidOutcome, NotSupported
from fairtrial.study import worker_server
from fairtrial.study.worker_server import (
    Imposter,
    Line,
    Unreachable,
    WorkerServer,
    error_as_data,
    error_from_data,
    packed,
)
from tests.study.tools import PATIENCE, wait_until

LOOK = {"kind": "look", "pull": "p", "attempt": None}
KEY = bytes(32)


@pytest.fixture
def server():
    """A driver's server that listens."""
    made = WorkerServer("127.0.0.1")
    made.address()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _no_tracebacks(monkeypatch, capfd):
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    yield
    assert failed == []
    assert capfd.readouterr().err == ""


def channel_to(address, key=KEY):
    """Return the object with which a worker reaches the driver at an address."""
    return worker_server._SocketChannel(address, key)


def worker_of(server):
    return pickle.loads(pickle.dumps(server.channel()))


def answered(server, channel, go_on=True):
    """Let a worker ask and the driver answer; return the worker's answer."""
    with ThreadPoolExecutor(1) as thread:
        asking = thread.submit(channel.ask, LOOK)
        request = server.take(PATIENCE)
        assert request.message == LOOK
        request.answer(go_on=go_on)
        return asking.result(PATIENCE)


@contextlib.contextmanager
def a_port_taken_over(behave):
    """Yield the address of a peer that does what `behave` does with every connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, contextlib.suppress(OSError, EOFError):
                        behave(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listening.getsockname()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


class Bomb:
    """An object that runs code where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


# ----------------------------------------------------------- a driver that is none


def test_a_worker_carries_out_nothing_that_whoever_took_the_port_of_its_driver_sends(tmp_path):
    trap = tmp_path / "trap"
    bomb = pickle.dumps(Bomb(trap))

    def behave(connection):
        connection.sendall(b'{"error": "%s"}\n' % base64.b64encode(bomb) + bomb)
        connection.recv(100_000)

    with (
        a_port_taken_over(behave) as address,
        contextlib.suppress(FairtrialError, FileExistsError),
    ):
        channel_to(address).ask(LOOK)
    assert not trap.exists()


LONG = struct.pack("!i", 200) + bytes(200)
"""A message of some length, which can arrive slowly."""


class Peer:
    """A peer that speaks the language of `multiprocessing.connection` without a key."""

    def __init__(self, connection):
        connection.settimeout(None)
        self.ends = Connection(connection.dup().detach())

    def lets_prove(self, challenge):
        """Let a worker answer a challenge; return the answer, as if it were right."""
        self.ends.send_bytes(challenge)
        answer = self.ends.recv_bytes(256)
        self.ends.send_bytes(b"#WELCOME#")
        return answer


def guesses(connection):
    peer = Peer(connection)
    answer = peer.lets_prove(b"#CHALLENGE#" + os.urandom(20))
    peer.ends.recv_bytes(256)
    peer.ends.send_bytes(os.urandom(len(answer)))
    peer.ends.recv_bytes(256)


def repeats_itself(connection):
    connection.sendall(b"#CHALLENGE#" * 100)


def speaks_http(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" * 3)


def is_deep(connection):
    connection.sendall(b'{"a":' * 1_000_000)


@pytest.mark.parametrize("behave", [guesses, speaks_http, is_deep, repeats_itself])
def test_a_worker_talks_to_nobody_who_does_not_know_the_key(behave):
    with (
        a_port_taken_over(behave) as address,
        pytest.raises(Unreachable, match="the program that answers there is not this driver"),
    ):
        channel_to(address).ask(LOOK)


def drips(connection):
    for byte in LONG:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def hangs_up(connection):
    Peer(connection).lets_prove(b"#CHALLENGE#" + os.urandom(20))


def says_nothing(connection):
    connection.recv(1)


@pytest.mark.parametrize("behave", [drips, hangs_up, says_nothing])
def test_a_worker_waits_only_so_long_for_a_proof(behave, monkeypatch):
    monkeypatch.setattr(worker_server, "_CONNECT_SECONDS", 0.4)
    began = time.monotonic()
    with a_port_taken_over(behave) as address, pytest.raises(Unreachable):
        channel_to(address).ask(LOOK)
    assert time.monotonic() - began < PATIENCE


def test_no_worker_answers_for_a_driver():
    """Whoever takes over the port cannot let a second worker answer the first one's challenge."""
    with ThreadPoolExecutor(2) as threads, socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        asking = [threads.submit(channel_to(address).ask, LOOK) for _ in range(2)]
        first, second = (Peer(listening.accept()[0]) for _ in asking)
        first.lets_prove(b"#CHALLENGE#" + os.urandom(20))
        challenge = first.ends.recv_bytes(256)
        first.ends.send_bytes(second.lets_prove(challenge))
        assert first.ends.recv_bytes(256) == b"#FAILURE#"
        listening.close()
        second.ends.close()
        for one in asking:
            assert isinstance(one.exception(PATIENCE), Unreachable)


def proven(connection):
    """Be a driver that knows the key; return its end of the line."""
    return Line(connection, KEY, of_driver=True)


def announces_too_much(connection):
    made = proven(connection)
    made.receive()
    connection.sendall(struct.pack("!i", 2**31 - 1))
    connection.recv(1)


def nests(connection):
    made = proven(connection)
    made.receive()
    made.send(b"[" * 60_000)


@pytest.mark.parametrize("behave", [announces_too_much, nests])
def test_answers_that_are_not_the_drivers_are_none(behave):
    with a_port_taken_over(behave) as address:
        assert channel_to(address).ask(LOOK) is None


@pytest.mark.parametrize(
    "answer",
    [{}, {"go_on": "yes"}, {"go_on": 1}, {"error": None}, {"error": {"type": "os.system"}}],
)
def test_an_answer_that_says_nothing_is_no_leave_to_go_on(answer):
    def behave(connection):
        made = proven(connection)
        made.receive()
        made.send(packed(answer))

    with a_port_taken_over(behave) as address:
        channel = channel_to(address)
        if "error" in answer:
            with pytest.raises(FairtrialError, match="no reason that can be understood"):
                channel.ask(LOOK)
        else:
            assert channel.ask(LOOK) is False


# ----------------------------------------------------------- workers that are none


def sends(content):
    def behave(connection):
        connection.sendall(content)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65_536):
                pass

    return behave


STRANGERS = {
    "nothing": sends(b""),
    "garbage": sends(b"rubbish\n" * 20),
    "the old greeting": sends(b'{"key": "guess"}\n{"kind": "look"}\n' * 4),
    "nested": sends(b"[" * 100_000 + b"\n"),
    "flood": sends(bytes(5_000_000)),
    "http": sends(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_driver_takes_nothing_from_those_who_do_not_know_the_key(server, name):
    for _ in range(3):
        with (
            socket.create_connection(server.address(), timeout=PATIENCE) as connection,
            contextlib.suppress(OSError),
        ):
            STRANGERS[name](connection)
    assert server.waiting() == 0
    assert answered(server, worker_of(server)) is True


def test_a_driver_proves_nothing_to_those_who_have_not(server):
    with socket.create_connection(server.address(), timeout=PATIENCE) as connection:
        peer = Peer(connection)
        assert peer.ends.recv_bytes(256).startswith(b"#CHALLENGE#")
        peer.ends.send_bytes(bytes(16))
        assert peer.ends.recv_bytes(256) == b"#FAILURE#"
        with pytest.raises(EOFError):
            peer.ends.recv_bytes(256)


class Overheard:
    """The end of a connection that remembers what was sent."""

    def __init__(self, ends):
        self.ends = ends
        self.recv_bytes = ends.recv_bytes

    def send_bytes(self, content):
        self.sent = content
        self.ends.send_bytes(content)


def test_a_proof_is_of_one_connection_only(server):
    """A proof overheard on one connection is not valid on another."""
    worker = hmac.digest(server.key, b"worker", "sha256")
    with socket.create_connection(server.address(), timeout=PATIENCE) as connection:
        overheard = Overheard(Peer(connection).ends)
        answer_challenge(overheard, worker)
    with socket.create_connection(server.address(), timeout=PATIENCE) as connection:
        peer = Peer(connection)
        peer.ends.recv_bytes(256)
        peer.ends.send_bytes(overheard.sent)
        assert peer.ends.recv_bytes(256) == b"#FAILURE#"


def test_strangers_who_drip_are_cut_off_in_time(monkeypatch):
    monkeypatch.setattr(worker_server, "_CONNECT_SECONDS", 0.3)
    server = WorkerServer("127.0.0.1")
    with (
        socket.create_connection(server.address(), timeout=PATIENCE) as connection,
        contextlib.suppress(OSError),
    ):
        for byte in LONG:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
        while connection.recv(100):
            pass
    assert answered(server, worker_of(server)) is True
    server.close()


def test_strangers_in_numbers_keep_no_worker_out_and_leave_nothing_behind(server):
    before = threading.active_count()
    with contextlib.ExitStack() as crowd:
        for _ in range(3 * worker_server._MOST_STRANGERS):
            connection = crowd.enter_context(
                socket.create_connection(server.address(), timeout=PATIENCE)
            )
            connection.settimeout(PATIENCE)
        wait_until(lambda: len(server._listener._strangers) == worker_server._MOST_STRANGERS)
        worker = worker_of(server)
        assert answered(server, worker) is True
        wait_until(lambda: threading.active_count() <= before + worker_server._MOST_STRANGERS + 1)
        worker.close()
    wait_until(lambda: not server._listener._strangers)
    wait_until(lambda: threading.active_count() <= before)


def as_worker(server):
    """Return a line to the server, on which a worker may send anything."""
    connection = socket.create_connection(server.address(), timeout=PATIENCE)
    return Line(connection, server.key, of_driver=False)


@pytest.mark.parametrize(
    "content",
    [b"[" * 60_000, b'{"a":' * 10_000, b"rubbish", b"[1]", b"\xff\xfe", b"9" * 60_000, b""],
    ids=["lists", "objects", "rubbish", "no object", "no text", "digits", "empty"],
)
def test_what_is_no_message_ends_the_connection_of_a_worker_that_knows_the_key(server, content):
    made = as_worker(server)
    made.send(content)
    assert made.receive() is None
    made.close()
    assert server.waiting() == 0
    assert answered(server, worker_of(server)) is True


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"kind": "look"},
        {"kind": ["look"], "pull": "p", "attempt": "a"},
        {"kind": "look", "pull": {"p": 1}, "attempt": "a"},
        {"kind": "stop", "pull": "p", "attempt": "a"},
        {"kind": "reading", "pull": "p", "attempt": "a"},
        {"kind": "reading", "pull": "p", "attempt": "a", "value": 1.0, "details": []},
        {"kind": "reading", "pull": "p", "attempt": "a", "value": 1, "details": {"actor": "x"}},
    ],
)
def test_a_message_without_sense_is_refused_before_the_driver_sees_it(server, message):
    made = as_worker(server)
    made.send(packed(message))
    refusal = made.receive()
    assert "does not understand" in refusal["error"]["arguments"][0]
    assert server.waiting() == 0
    made.close()


def test_messages_and_answers_follow_each_other_in_order(server):
    worker = worker_of(server)
    assert [answered(server, worker, go_on) for go_on in (True, False, True)] == [True, False, True]


@pytest.mark.parametrize(
    "reading",
    [object(), "x" * 70_000, [[[[[[[[[1]]]]]]]]], 10**5000, {1: 2j}],
    ids=["object", "long", "deep", "digits", "complex"],
)
def test_a_reading_that_cannot_be_sent_is_refused_where_it_was_given(server, reading):
    message = {"kind": "reading", "pull": "p", "attempt": "a", "value": reading, "details": {}}
    with pytest.raises(InvalidOutcome, match="reading must be a number"):
        worker_of(server).ask(message)


# ------------------------------------------------------------------------- errors


class Own(NotSupported):
    """An error class that only the driver's process knows."""


@pytest.mark.parametrize(
    ("error", "cls", "text"),
    [
        (InvalidOutcome("reading", "must be finite", float("nan")), InvalidOutcome, None),
        (InvalidOutcome("reading", "must be finite"), InvalidOutcome, None),
        (InvalidArgument("x", "must be 1", [[1] * 50] * 50), InvalidArgument, None),
        (errors.AlreadyTold("told before"), errors.AlreadyTold, None),
        (errors.StorageError("it is full"), errors.StorageError, None),
        (Own("not so"), NotSupported, "not so"),
        (errors.MissingExtra("a table", "data"), FairtrialError, None),
        (KeyError("x"), FairtrialError, "KeyError: 'x'"),
        (Unreachable("nobody"), FairtrialError, "nobody"),
    ],
)
def test_an_error_arrives_as_the_nearest_of_our_own_with_its_words(error, cls, text):
    found = error_from_data(error_as_data(error))
    assert type(found) is cls
    assert str(found) == (text or str(error))


def test_an_error_of_any_length_fits_into_a_message():
    error = InvalidArgument("\N{GRINNING FACE}" * 10_000, "\N{GRINNING FACE}" * 10_000)
    assert len(packed({"error": error_as_data(error)})) < worker_server.LONGEST_MESSAGE


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "x",
        {"type": "SystemExit", "arguments": ["x"]},
        {"type": "FairtrialError", "arguments": {"a": 1}},
        {"type": "FairtrialError", "arguments": []},
        {"type": "InvalidArgument", "arguments": ["x"]},
        {"type": "FairtrialError", "arguments": ["x"] * 5},
    ],
)
def test_what_describes_no_error_of_ours_is_one_without_a_reason(data):
    assert "no reason that can be understood" in str(error_from_data(data))


def test_the_line_of_one_key_is_no_line_of_another():
    one, other = socket.socketpair()
    with one, other, ThreadPoolExecutor(1) as thread:
        worker = thread.submit(Line, one, b"a" * 32, of_driver=False)
        with pytest.raises(Imposter):
            Line(other, b"b" * 32, of_driver=True)
        with pytest.raises(Imposter):
            worker.result(PATIENCE)
