"""Concurrent reads: a slow one does not keep the others waiting."""

import asyncio
import gc
import threading

import pytest

from fairtrial.errors import StorageBusy
from fairtrial.server.readers import Readers
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from tests.server.conftest import POLICY, PROBLEM

PATIENCE = 30.0


@pytest.fixture
def readers():
    store = MemoryStore()
    Study.create(PROBLEM, POLICY, storage=store, name="trial", seed=7).close()
    made = Readers([store])
    yield made
    made.close()


def name_of(study):
    return study.name


def test_who_wants_many_long_reads_leaves_others_their_turn(readers):
    may_end = threading.Event()

    async def scene():
        greedy = [
            asyncio.ensure_future(readers.run_long("trial", lambda _: may_end.wait(), "greedy"))
            for _ in range(10)
        ]
        await asyncio.sleep(0.05)
        # Clients that have gone away still keep a thread busy.
        greedy[0].cancel()
        await asyncio.sleep(0.05)
        found = await asyncio.wait_for(readers.run_long("trial", name_of, "another"), PATIENCE)
        may_end.set()
        await asyncio.gather(*greedy[1:])
        return found

    try:
        assert asyncio.run(scene()) == "trial"
    finally:
        may_end.set()


def test_no_read_keeps_others_from_being_known_or_from_writing(readers):
    may_end = threading.Event()

    async def scene():
        busy = [
            asyncio.ensure_future(read("trial", lambda _: may_end.wait(), *who))
            for read, who in [(readers.run, ())] * 8
            + [(readers.run_long, (str(number),)) for number in range(8)]
        ]
        await asyncio.sleep(0.05)
        found = [
            await asyncio.wait_for(readers.run_on_store(lambda store: store.tokens()), PATIENCE),
            await asyncio.wait_for(readers.run_opening("trial", name_of), PATIENCE),
        ]
        may_end.set()
        await asyncio.gather(*busy)
        return found

    try:
        assert asyncio.run(scene()) == [[], "trial"]
    finally:
        may_end.set()


def test_a_page_of_a_stream_waits_for_no_long_read_and_for_no_other_reader(readers):
    may_end = threading.Event()

    async def scene():
        busy = [
            asyncio.ensure_future(read("trial", lambda _: may_end.wait(), who))
            for read, who in [(readers.run_long, str(number)) for number in range(4)]
            + [(readers.run_page, "greedy")] * 10
        ]
        await asyncio.sleep(0.05)
        found = await asyncio.wait_for(readers.run_page("trial", name_of, "another"), PATIENCE)
        may_end.set()
        await asyncio.gather(*busy)
        return found

    try:
        assert asyncio.run(scene()) == "trial"
    finally:
        may_end.set()


def test_who_wants_many_short_reads_leaves_others_their_turn(readers):
    may_end = threading.Event()

    async def scene():
        greedy = [
            asyncio.ensure_future(readers.run("trial", lambda _: may_end.wait(), "greedy"))
            for _ in range(20)
        ] + [
            asyncio.ensure_future(readers.run_listing(lambda _: may_end.wait(), "greedy"))
            for _ in range(20)
        ]
        await asyncio.sleep(0.05)
        found = [
            await asyncio.wait_for(readers.run("trial", name_of, "another"), PATIENCE),
            await asyncio.wait_for(
                readers.run_listing(lambda store: store.study_names("", 9), "third"), PATIENCE
            ),
            await asyncio.wait_for(readers.run_on_health(lambda store: store.now()), PATIENCE),
        ]
        may_end.set()
        await asyncio.gather(*greedy)
        return found

    try:
        assert asyncio.run(scene())[:2] == ["trial", ["trial"]]
    finally:
        may_end.set()


def test_an_error_of_a_read_that_nobody_waits_for_any_more_is_not_logged(readers):
    begun, may_fail, complaints = threading.Event(), threading.Event(), []

    def fails():
        begun.set()
        may_fail.wait(10)
        raise StorageBusy("busy")

    async def leave():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
        request = asyncio.ensure_future(readers.run_apart(fails))
        await asyncio.to_thread(begun.wait, 10)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        may_fail.set()
        await readers.run_apart(lambda: None)
        await asyncio.sleep(0.05)
        del request
        gc.collect()

    asyncio.run(leave())
    assert complaints == []
