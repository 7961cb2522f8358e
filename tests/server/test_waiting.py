"""Requests that wait for events: many of them cost little, and no caller takes all places."""

import asyncio
from types import SimpleNamespace

from fairtrial.server.problems import Refusal
from fairtrial.server.waiting import _MOST_WAITS, EventWaiters
from tests import effort
from tests.messages import raises


class Slow:
    """A store with one study that counts how often it is read."""

    def __init__(self):
        self.head, self.looks = 0, 0

    def find_study(self, _):
        self.looks += 1
        return SimpleNamespace(head_seq=self.head)

    def changes(self):
        return 0

    def await_change(self, _, seconds):
        pass


def test_many_who_wait_are_woken_by_a_few_looks():
    store = Slow()
    heads = EventWaiters(store)

    async def scene():
        waits = [
            asyncio.ensure_future(heads.wait("trial", 1, 60.0, str(number)))
            for number in range(500)
        ]
        while store.looks < 500:
            await asyncio.sleep(0.01)
        for store.head in (1, 2):
            store.looks = 0
            heads.changed(["trial"])
            await asyncio.sleep(0.2)
            assert 1 <= store.looks < 50
        await asyncio.wait_for(asyncio.gather(*waits), 30)

    asyncio.run(scene())
    heads.close()


def test_an_event_that_comes_while_a_look_is_made_is_not_missed():
    store = Slow()
    heads = EventWaiters(store)

    async def scene(number):
        waiting = asyncio.ensure_future(heads.wait("trial", number, 30.0, "ward 3"))
        await asyncio.sleep(0.0003 * (number % 10))
        store.head = number + 1
        heads.changed(["trial"])
        await asyncio.wait_for(waiting, 10)

    for number in range(effort.runs(80, whole=200)):
        asyncio.run(scene(number))
    heads.close()


def test_no_caller_waits_with_more_requests_than_its_places():
    heads = EventWaiters(Slow())

    async def scene():
        waits = [
            asyncio.ensure_future(heads.wait("trial", 1, 60.0, "greedy"))
            for _ in range(_MOST_WAITS)
        ]
        await asyncio.sleep(0.05)
        with raises(Refusal, status=429):
            await heads.wait("trial", 1, 60.0, "greedy")
        await heads.wait("trial", 1, 0.01, "another")
        waits[0].cancel()
        await asyncio.sleep(0.05)
        await heads.wait("trial", 1, 0.01, "greedy")
        for wait in waits:
            wait.cancel()

    asyncio.run(scene())
    heads.close()
    assert not heads._waits
