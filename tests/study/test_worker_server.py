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
from multiprocessing.connection import Connection

import pytest

from fairtrial import errors
from fairtrial.core import Pull
from fairtrial.errors import FairtrialError, InvalidArgument, InvalidOutcome, NotSupported
from fairtrial.study import StopPull, worker_server
from fairtrial.study.reporting import Report
from fairtrial.study.worker_server import (
    Imposter,
    Line,
    Unreachable,
    WorkerServer,
    error_as_data,
    error_from_data,
    packed,
)
from tests.messages import raises
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


@pytest.fixture
def impatient(monkeypatch):
    """Let workers try for less than a second to reach their driver."""
    monkeypatch.setattr(worker_server, "_CONNECT_SECONDS", 0.4)


@pytest.mark.usefixtures("impatient")
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
    """A peer that frames messages as `Line` does, without a key."""

    def __init__(self, connection):
        connection.settimeout(None)
        self.ends = Connection(connection.dup().detach())

    def lets_prove(self, drawn):
        """Let a worker prove that it knows the key; return what it sends."""
        self.ends.send_bytes(drawn)
        return self.ends.recv_bytes(256)


def guesses(connection):
    peer = Peer(connection)
    peer.lets_prove(os.urandom(32))
    peer.ends.send_bytes(os.urandom(32))
    peer.ends.recv_bytes(256)


def reflects(connection):
    peer = Peer(connection)
    answer = peer.lets_prove(os.urandom(32))
    peer.ends.send_bytes(answer[32:])
    peer.ends.recv_bytes(256)


def proves_nothing(connection):
    peer = Peer(connection)
    peer.lets_prove(b"")
    peer.ends.send_bytes(b"")
    peer.ends.recv_bytes(256)


def repeats_itself(connection):
    connection.sendall(b"#CHALLENGE#" * 100)


def speaks_http(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" * 3)


def is_deep(connection):
    connection.sendall(b'{"a":' * 1_000_000)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "behave", [guesses, reflects, proves_nothing, speaks_http, is_deep, repeats_itself]
)
def test_a_worker_talks_to_nobody_who_does_not_know_the_key(behave):
    with (
        a_port_taken_over(behave) as address,
        # How the connection ends depends on the moment, and so do the words.
        pytest.raises(Unreachable),
    ):
        channel_to(address).ask(LOOK)


def drips(connection):
    for byte in LONG:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def hangs_up(connection):
    Peer(connection).lets_prove(os.urandom(32))


def says_nothing(connection):
    connection.recv(1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("behave", [drips, hangs_up, says_nothing])
def test_a_worker_waits_only_so_long_for_a_proof(behave):
    began = time.monotonic()
    with a_port_taken_over(behave) as address, pytest.raises(Unreachable):
        channel_to(address).ask(LOOK)
    assert time.monotonic() - began < PATIENCE


def test_no_worker_answers_for_a_driver():
    """Whoever takes over the port cannot let a second worker prove what the first one asks for."""
    with ThreadPoolExecutor(2) as threads, socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        asking = [threads.submit(channel_to(address).ask, LOOK) for _ in range(2)]
        first, second = (Peer(listening.accept()[0]) for _ in asking)
        answer = first.lets_prove(os.urandom(32))
        first.ends.send_bytes(second.lets_prove(answer[:32])[32:])
        with pytest.raises(EOFError):
            first.ends.recv_bytes(256)
        second.ends.send_bytes(b"")
        listening.close()
        for one in asking:
            assert isinstance(one.exception(PATIENCE), Unreachable)


def test_an_error_that_says_nothing_about_the_key_is_not_called_an_imposter(monkeypatch):
    def fails(*_):
        raise ValueError("this system has no such hash function")

    one, other = socket.socketpair()
    with one, other:
        monkeypatch.setattr(hmac, "digest", fails)
        Peer(other).ends.send_bytes(bytes(32))
        with pytest.raises(ValueError, match="no such hash function"):
            Line(one, KEY, of_driver=False)


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


def test_work_whose_driver_is_gone_is_to_stop():
    with a_port_taken_over(announces_too_much) as address:
        report = Report(Pull(0, 0, {"arm": "a"}), channel_to(address))
        assert report.should_stop()
        with raises(StopPull):
            report(0.5)


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
            with raises(FairtrialError):
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
        assert len(peer.ends.recv_bytes(256)) == 32
        peer.ends.send_bytes(bytes(64))
        assert peer.ends.recv_bytes(256) == b""
        with pytest.raises(EOFError):
            peer.ends.recv_bytes(256)


class Tap:
    """Passes messages between a worker and a driver on, and remembers them."""

    def __init__(self, server):
        self.driver = Peer(socket.create_connection(server.address(), timeout=PATIENCE)).ends
        mine, self._workers = socket.socketpair()
        self.worker = Peer(mine).ends
        self.to_driver, self.to_worker = [], []
        with ThreadPoolExecutor(1) as thread:
            made = thread.submit(Line, self._workers, server.key, of_driver=False)
            self.pass_on(to_worker=True)
            self.pass_on(to_worker=False)
            self.pass_on(to_worker=True)
            self.line = made.result(PATIENCE)

    def pass_on(self, to_worker):
        source, target = (self.driver, self.worker) if to_worker else (self.worker, self.driver)
        content = source.recv_bytes(100_000)
        (self.to_worker if to_worker else self.to_driver).append(content)
        target.send_bytes(content)

    def close(self):
        for end in (self.driver, self.worker, self.line):
            end.close()


def test_a_proof_is_of_one_connection_only(server):
    """A proof overheard on one connection is not valid on another."""
    tap = Tap(server)
    tap.close()
    with socket.create_connection(server.address(), timeout=PATIENCE) as connection:
        peer = Peer(connection)
        peer.ends.recv_bytes(256)
        peer.ends.send_bytes(tap.to_driver[0])
        assert peer.ends.recv_bytes(256) == b""


STOP = packed({"kind": "look", "pull": "p", "attempt": "x"})


@pytest.mark.parametrize("what", ["altered", "inserted", "repeated"])
def test_a_driver_takes_no_message_that_its_worker_has_not_sent(server, what):
    tap = Tap(server)
    tap.line.send(packed(LOOK))
    if what == "repeated":
        tap.pass_on(to_worker=False)
        server.take(PATIENCE).answer(go_on=True)
        tap.pass_on(to_worker=True)
        tap.driver.send_bytes(tap.to_driver[-1])
    elif what == "inserted":
        tap.driver.send_bytes(bytes(32) + STOP)
    else:
        tap.driver.send_bytes(tap.worker.recv_bytes(100_000).replace(b'"p"', b'"q"'))
    with pytest.raises(EOFError):
        tap.driver.recv_bytes(256)
    assert server.waiting() == 0
    tap.close()


@pytest.mark.parametrize("what", ["altered", "reflected", "repeated"])
def test_a_worker_takes_no_answer_that_its_driver_has_not_sent(server, what):
    tap = Tap(server)
    for go_on in (True, False):
        tap.line.send(packed(LOOK))
        tap.pass_on(to_worker=False)
        server.take(PATIENCE).answer(go_on=go_on)
        if go_on:
            tap.pass_on(to_worker=True)
            assert tap.line.receive() == {"go_on": True}
    answer = tap.driver.recv_bytes(256)
    if what == "altered":
        answer = answer.replace(b"false", b"true ")
    else:
        answer = (tap.to_worker if what == "repeated" else tap.to_driver)[-1]
    tap.worker.send_bytes(answer)
    with pytest.raises(ConnectionError, match="altered, repeated or inserted"):
        tap.line.receive()
    tap.close()


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


def test_a_worker_that_knows_the_key_makes_no_room_for_strangers(server):
    made = [as_worker(server) for _ in range(3)]
    # From the moment at which it is connected: its first message may be late.
    assert server._listener._strangers == {}
    with contextlib.ExitStack() as crowd:
        for _ in range(2 * worker_server._MOST_STRANGERS):
            crowd.enter_context(socket.create_connection(server.address(), timeout=PATIENCE))
        wait_until(lambda: len(server._listener._strangers) == worker_server._MOST_STRANGERS)
        with ThreadPoolExecutor(1) as thread:
            for line in made:
                line.send(packed(LOOK))
                answer = thread.submit(line.receive)
                server.take(PATIENCE).answer(go_on=True)
                assert answer.result(PATIENCE) == {"go_on": True}
                line.close()


def test_a_worker_whose_place_was_needed_while_it_proved_its_key_connects_again(server):
    sign, evicted = worker_server._signed, []

    def signed(key, role, drawn):
        strangers = server._listener._strangers
        if role == b"worker" and strangers and not evicted:
            evicted.append(next(iter(strangers)))
            with server._listener._lock:
                worker_server._hang_up(evicted[0])
                del strangers[evicted[0]]
        return sign(key, role, drawn)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_server, "_signed", signed)
        assert answered(server, worker_of(server)) is True
    assert len(evicted) == 1


def test_the_driver_notices_that_the_machine_of_a_worker_is_gone(server):
    line = as_worker(server)
    wait_until(lambda: server._listener._workers)
    (connection,) = server._listener._workers
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    line.close()
    wait_until(lambda: not server._listener._workers)


def test_closing_ends_every_connection_after_its_last_answer():
    before = threading.active_count()
    server = WorkerServer("127.0.0.1")
    address = server.address()
    with socket.create_connection(address, timeout=PATIENCE) as stranger:
        idle, waiting = as_worker(server), as_worker(server)
        waiting.send(packed(LOOK))
        wait_until(server.waiting)
        server.close()
        assert waiting.receive() == {"go_on": False}
        assert waiting.receive() is None
        assert idle.receive() is None
        stranger.settimeout(PATIENCE)
        while stranger.recv(100):
            pass
    wait_until(lambda: threading.active_count() <= before)
    idle.close()
    waiting.close()


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
    with raises(InvalidOutcome, "reading"):
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
        (errors.MistakesFound(["a: no", "b: no"], "outcomes"), FairtrialError, None),
        (errors.InvalidTable(["line 3: no"], "table.csv"), FairtrialError, None),
        (errors.ConfigurationError(["policy: no"]), FairtrialError, None),
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
