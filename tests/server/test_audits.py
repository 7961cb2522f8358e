"""Audits that take longer than a request, reads that nobody waits for, and the end of a service."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from fairtrial.errors import ServiceBusy, StorageBusy
from fairtrial.server.audits import Audits
from fairtrial.server.readers import Readers
from fairtrial.study import Study
from fairtrial.study.long_reads import LongRead, interruptible, keep_going
from fairtrial.study.memory import MemoryStore
from tests.messages import raises
from tests.server.conftest import POLICY, PROBLEM
from tests.server.load import PATIENCE, free_port, make_study, make_token
from tests.server.toys import OWN

URL = "/v1/studies/trial"


@pytest.fixture
def gate(monkeypatch):
    """Make audits wait, seeing every few milliseconds whether they should go on."""
    is_open = threading.Event()
    verify = Study.verify

    def waiting(study, *arguments):
        while not is_open.wait(0.005):
            keep_going(events=7)
        return verify(study, *arguments)

    monkeypatch.setattr(Study, "verify", waiting)
    return is_open


def test_an_audit_goes_on_between_the_requests_that_ask_for_it(service, gate, monkeypatch):
    monkeypatch.setattr(Audits, "patience", 0.05)
    service.admin.ask()
    first = service.read.get(f"{URL}/verify")
    assert first.status_code == 202
    assert first.json() == {"ok": None, "events": 7, "first_difference": None, "skipped": 0}
    assert int(first.headers["retry-after"]) >= 1
    gate.set()
    found = service.read.get(f"{URL}/verify")
    while found.status_code == 202:
        found = service.read.get(f"{URL}/verify")
    assert found.json()["ok"] is True
    # Its result was fetched, so the next request begins another audit.
    service.admin.ask()
    assert service.read.get(f"{URL}/verify").json()["events"] == 2


def test_an_audit_that_nobody_asks_for_ends(service, gate, monkeypatch):
    monkeypatch.setattr(Audits, "patience", 0.02)
    monkeypatch.setattr(Audits, "forgotten_after", 0.05)
    monkeypatch.setattr("fairtrial.server.audits._BETWEEN_LOOKS", 0.02)
    assert service.read.get(f"{URL}/verify").status_code == 202
    readers = service.app.state.service.readers
    deadline = time.monotonic() + PATIENCE
    while readers.is_busy:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_token_has_few_unfinished_audits(service, gate, monkeypatch):
    monkeypatch.setattr(Audits, "patience", 0.01)
    heads = [f"{number:064x}" for number in range(6)]
    statuses = [service.read.get(f"{URL}/verify?head={head}").status_code for head in heads]
    assert statuses == [202] * 4 + [429] * 2
    other = service.caller("other", ["read"])
    assert other.get(f"{URL}/verify").status_code == 202
    gate.set()


def test_an_audit_delays_no_other_long_read(service, gate, monkeypatch):
    monkeypatch.setattr(Audits, "patience", 0.01)
    for number in range(3):
        caller = service.caller(f"reader {number}", ["read"])
        assert caller.get(f"{URL}/verify").status_code == 202
    assert service.read.get(f"{URL}/health").status_code == 200
    gate.set()


def test_a_read_that_nobody_waits_for_ends():
    store = MemoryStore()
    Study.create(PROBLEM, POLICY, storage=store, name="trial", seed=7).close()
    readers = Readers([store])
    ended = threading.Event()

    def endless(_):
        try:
            while True:
                keep_going()
                time.sleep(0.001)
        except StorageBusy:
            ended.set()
            raise

    async def scene():
        for read in (readers.run, readers.run_long, readers.run_page):
            ended.clear()
            reading = asyncio.ensure_future(read("trial", endless, "somebody"))
            await asyncio.sleep(0.02)
            reading.cancel()
            assert await asyncio.to_thread(ended.wait, PATIENCE)

    asyncio.run(scene())
    readers.close()


def test_at_its_end_a_service_begins_no_more_long_reads():
    store = MemoryStore()
    Study.create(PROBLEM, POLICY, storage=store, name="trial", seed=7).close()
    readers = Readers([store])

    async def scene():
        readers.end()
        with raises(ServiceBusy):
            await readers.run_long("trial", lambda study: study.name, "somebody")
        # Whoever waited for news is still answered.
        assert await readers.run("trial", lambda study: study.name, "somebody") == "trial"

    asyncio.run(scene())
    readers.close()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_every_read_of_a_long_log_can_be_abandoned(tmp_path, kind):
    storage = MemoryStore() if kind == "memory" else f"sqlite:///{tmp_path}/studies.db"
    with Study.create(PROBLEM, POLICY, storage=storage, name="trial", seed=7) as study:
        study.tell_many([(pull, 0.5) for pull in study.ask(400)])
        for read in (
            study.verify,
            study.health,
            lambda: list(study.events()),
            lambda: list(study.trace(5)),
            study.weighted_means,
        ):
            long_read = LongRead()
            long_read.is_abandoned = True
            with interruptible(long_read), raises(StorageBusy):
                read()
        # The study is as good as before.
        assert study.verify().ok


def test_a_policy_is_brought_to_the_head_of_its_log_even_if_nobody_waits(tmp_path):
    storage = f"sqlite:///{tmp_path}/studies.db"
    with Study.create(PROBLEM, POLICY, storage=storage, name="trial", seed=7) as study:
        study.tell_many([(pull, 0.5) for pull in study.ask(400)])
    with Study.open(storage, "trial") as cold:
        long_read = LongRead()
        long_read.is_abandoned = True
        with interruptible(long_read):
            assert cold.progress().told == 400


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it has no signals")
def test_a_service_ends_soon_after_the_signal_whatever_is_being_read(tmp_path):
    """Two audits of a log that takes minutes, an export that nobody reads, and a long poll."""
    storage = f"sqlite:///{tmp_path}/studies.db"
    make_study(storage)
    token = make_token(storage)
    with Study.open(storage, "trial", durability="process", **OWN) as study:
        for _ in range(10):
            study.tell_many([(pull, 0.5) for pull in study.ask(1_000)])
    port = free_port()
    command = [sys.executable, "-m", "tests.server.ending", storage, str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ})
    try:
        assert process.stdout.readline() == b"ready\n"
        asyncio.run(_read_much(port, token))
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert time.monotonic() - began < 20
    finally:
        process.kill()
        process.stdout.close()


async def _read_much(port, token):
    paths = ("verify", "verify?head=" + "0" * 64, "export", "health", f"?after={2**40}&wait=30")
    for path in paths:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000)
        where = f"/v1/studies/trial{'' if path.startswith('?') else '/'}{path}"
        head = f"GET {where} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
    await asyncio.sleep(1.0)
