"""Data that a service deletes after some time."""

import time

from fairtrial.study import Tokens
from fairtrial.study.memory import MemoryStore
from fairtrial.study.store import AnswerRow, SessionRow

DAY = 24 * 3_600 * 1_000_000


def answer(key, at):
    return AnswerRow("ward 3", key, "f", 200, "{}", at)


def test_a_service_forgets_old_answers_and_sessions_that_are_over(serve):
    store = MemoryStore()
    now = store.now()
    token = Tokens(store).create("somebody", ["run"])[0].id
    for row in (answer("old", now - 8 * DAY), answer("new", now - 6 * DAY)):
        store.transact(lambda row=row: store.save_answer(row))
    for row in (SessionRow("a" * 64, token, 0, now - 1), SessionRow("b" * 64, token, 0, now + DAY)):
        store.transact(lambda row=row: store.insert_session(row))
    serve(store)
    deadline = time.monotonic() + 30
    while store.answer("ward 3", "old") is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert store.answer("ward 3", "new") is not None
    assert store.session("a" * 64) is None
    assert store.session("b" * 64) is not None
