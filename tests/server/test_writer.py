"""The writer's queue: bounded, fair, many writes in one commit, emptied at the end."""

import asyncio
import threading
from collections import Counter

import pytest

from fairtrial.errors import ServiceBusy, StorageUnreachable, StudyNotFound, UnknownPull
from fairtrial.server.writer import MOST_IN_COMMIT, StudyWriter
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.study.sqlite import SQLiteStore
from tests.messages import raises
from tests.study.tools import Fault
from tests.study.toys import OWN, Serving, ToyProblem

CLASSES = (OWN["policies"], OWN["problems"])


def make(store, *names):
    problem = ToyProblem()
    for name in names:
        Study.create(problem, Serving(problem), storage=store, name=name, seed=7)


@pytest.fixture
def store(tmp_path):
    opened = SQLiteStore(tmp_path / "studies.db", "process")
    make(opened, "a", "b")
    yield opened
    opened.close()


class Gate:
    """Blocks the writer, so that other writes must wait."""

    def __init__(self):
        self.is_in = threading.Event()
        self.is_open = threading.Event()

    def __call__(self, _):
        self.is_in.set()
        self.is_open.wait()


def ask(study):
    return study.ask()


async def held_up(writer, gate):
    """Return a write that blocks the writer until the gate is opened."""
    task = asyncio.ensure_future(writer.run_on_store(gate))
    await asyncio.to_thread(gate.is_in.wait)
    return task


def test_all_that_waits_is_written_by_one_commit(store):
    commits = []
    writer = StudyWriter(store, CLASSES, on_commit=lambda *what: commits.append(what))

    async def calls():
        gate = Gate()
        first = await held_up(writer, gate)
        waiting = [asyncio.ensure_future(writer.run(name, ask)) for name in "abab"]
        await asyncio.sleep(0)
        assert writer.waiting == 4
        gate.is_open.set()
        await first
        return await asyncio.gather(*waiting)

    pulls = asyncio.run(calls())
    writer.close()
    assert [pull.number for pull in pulls] == [0, 0, 1, 1]
    assert [(sorted(names), operations) for names, operations, _ in commits] == [
        ([], 1),
        (["a", "b"], 4),
    ]


def test_a_full_queue_takes_no_more_and_says_so(store):
    writer = StudyWriter(store, CLASSES, capacity=4)

    async def calls():
        gate = Gate()
        first = await held_up(writer, gate)
        waiting = [asyncio.ensure_future(writer.run(name, ask)) for name in "aabb"]
        await asyncio.sleep(0)
        assert not writer.accepts
        with raises(ServiceBusy):
            await writer.run_on_store(lambda store: None)
        gate.is_open.set()
        await first
        await asyncio.gather(*waiting)
        assert writer.accepts
        await writer.run("a", ask)

    asyncio.run(calls())
    writer.close()


def test_one_study_fills_half_of_the_queue_and_no_more(store):
    writer = StudyWriter(store, CLASSES, capacity=4)

    async def calls():
        gate = Gate()
        first = await held_up(writer, gate)
        waiting = [asyncio.ensure_future(writer.run(name, ask)) for name in "aa"]
        await asyncio.sleep(0)
        with raises(ServiceBusy):
            await writer.run("a", ask)
        waiting.append(asyncio.ensure_future(writer.run("b", ask)))
        await asyncio.sleep(0)
        gate.is_open.set()
        await asyncio.gather(first, *waiting)

    asyncio.run(calls())
    writer.close()


def test_a_study_with_many_writes_keeps_another_one_waiting_for_one_commit(store):
    commits = []
    writer = StudyWriter(store, CLASSES, on_commit=lambda *what: commits.append(set(what[0])))

    async def calls():
        gate = Gate()
        first = await held_up(writer, gate)
        many = [asyncio.ensure_future(writer.run("a", ask)) for _ in range(2 * MOST_IN_COMMIT)]
        await asyncio.sleep(0)
        one = asyncio.ensure_future(writer.run("b", ask))
        await asyncio.sleep(0)
        gate.is_open.set()
        await asyncio.gather(first, one, *many)

    asyncio.run(calls())
    writer.close()
    assert commits[:2] == [set(), {"a", "b"}]


def test_whoever_has_gone_away_before_their_turn_writes_nothing(store):
    writer = StudyWriter(store, CLASSES)

    async def calls():
        gate = Gate()
        first = await held_up(writer, gate)
        gone = asyncio.ensure_future(writer.run("a", ask))
        stays = asyncio.ensure_future(writer.run("a", ask))
        await asyncio.sleep(0)
        gone.cancel()
        gate.is_open.set()
        await first
        return await stays

    assert asyncio.run(calls()).number == 0
    writer.close()
    with Study.open(store, "a", **OWN) as study:
        assert study.n_events == 1


def test_closing_writes_what_waits_and_takes_no_more(store):
    writer = StudyWriter(store, CLASSES)

    async def calls():
        gate = Gate()
        first = await held_up(writer, gate)
        waiting = [asyncio.ensure_future(writer.run("a", ask)) for _ in range(300)]
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(asyncio.to_thread(writer.close))
        while writer.accepts:
            await asyncio.sleep(0.001)
        with raises(ServiceBusy):
            await writer.run("a", ask)
        gate.is_open.set()
        pulls = await asyncio.gather(first, *waiting)
        await closing
        return pulls[1:]

    assert [pull.number for pull in asyncio.run(calls())] == list(range(300))
    writer.close()
    with Study.open(store, "a", **OWN) as study:
        assert study.n_events == 300
        assert study.verify().ok


def test_an_unknown_study_is_its_callers_problem_alone(store):
    writer = StudyWriter(store, CLASSES)

    async def calls():
        return await asyncio.gather(
            *(writer.run(name, ask) for name in ("a", "nothing", "b")), return_exceptions=True
        )

    first, unknown, second = asyncio.run(calls())
    writer.close()
    assert (first.number, second.number) == (0, 0)
    assert isinstance(unknown, StudyNotFound)
    assert str(unknown) == "there is no study 'nothing'"


def test_a_storage_that_is_gone_is_waited_for_once_on_behalf_of_all(store):
    writer = StudyWriter(store, CLASSES)
    looked = []

    def find_study(name):
        looked.append(name)
        raise StorageUnreachable("it is gone")

    async def calls():
        gate = Gate()
        first = await held_up(writer, gate)
        store.find_study = find_study
        waiting = [asyncio.ensure_future(writer.run(name, ask)) for name in "abab"]
        await asyncio.sleep(0)
        gate.is_open.set()
        await first
        return await asyncio.gather(*waiting, return_exceptions=True)

    errors = asyncio.run(calls())
    del store.find_study
    assert {type(error) for error in errors} == {StorageUnreachable}
    assert looked == ["a"]
    assert asyncio.run(writer.run("a", ask)).number == 0
    writer.close()


def test_the_thread_outlives_everything(store):
    def fail(*_):
        raise Fault

    writer = StudyWriter(store, CLASSES, on_commit=fail)

    async def calls():
        for operation in (fail, lambda study: study.tell("x", 1.0), fail):
            with pytest.raises((Fault, UnknownPull)):
                await writer.run("a", operation)
        return await writer.run("a", ask)

    assert asyncio.run(calls()).number == 0
    # The client is gone, so nobody can be told.
    gate = Gate()
    loop = asyncio.new_event_loop()
    task = loop.create_task(writer.run_on_store(gate))
    loop.run_until_complete(asyncio.sleep(0))
    gate.is_in.wait()
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    gate.is_open.set()
    assert asyncio.run(writer.run("a", ask)).number == 1
    writer.close()


def test_clients_of_many_loops_are_answered(store):
    writer = StudyWriter(store, CLASSES)
    numbers = Counter()

    def client():
        async def calls():
            for _ in range(20):
                pull = await writer.run("a", ask)
                numbers[pull.number] += 1

        asyncio.run(calls())

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert numbers == Counter(range(80))


def test_studies_beyond_the_limit_are_closed_and_opened_again():
    store = MemoryStore()
    names = [str(number) for number in range(5)]
    make(store, *names)
    writer = StudyWriter(store, CLASSES, most_open=2)

    async def calls():
        for turn in range(3):
            for name in names:
                assert (await writer.run(name, ask)).number == turn

    asyncio.run(calls())
    # The last commit may not be cleaned up yet.
    assert len(writer._studies) <= 3
    writer.close()


def test_a_thread_that_cannot_be_started_is_started_for_the_next_write(store, monkeypatch):
    writer = StudyWriter(store, CLASSES)

    def refuse(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            asyncio.run(writer.run("a", lambda study: study.ask().number))
    assert writer.waiting == 0
    try:
        assert asyncio.run(writer.run("a", lambda study: study.ask().number)) == 0
    finally:
        writer.close()
