"""Waiting for events: woken by writes of this handle, of others, and of other processes."""

import threading
import time

import pytest

from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.study.server_address import ServerAddress
from fairtrial.study.sqlite import SQLiteStore
from tests.study.tools import PATIENCE, end_sessions_of
from tests.study.toys import OWN


def another(store, request):
    """Return another handle of the same storage."""
    if isinstance(store, MemoryStore):
        return store
    if isinstance(store, SQLiteStore):
        return SQLiteStore(request.getfixturevalue("tmp_path") / "study.db", "process")
    from fairtrial.study.postgresql import PostgreSQLStore

    return PostgreSQLStore(ServerAddress(request.getfixturevalue("postgresql_url")), "process")


def later(action):
    thread = threading.Timer(0.2, action)
    thread.start()
    return thread


def test_what_was_written_before_needs_no_waiting(make_study, store):
    study = make_study()
    study.ask()
    assert store.wait(1, 0, 0.0)
    assert not store.wait(1, 1, 0.0)


def test_nothing_comes_in_time(make_study, store):
    make_study()
    begin = time.monotonic()
    assert not store.wait(1, 0, 0.3)
    assert time.monotonic() - begin >= 0.3


def test_a_write_by_the_same_handle_wakes(make_study, store):
    study = make_study()
    thread = later(study.ask)
    assert store.wait(1, 0, PATIENCE)
    thread.join()


def test_a_write_of_ones_own_that_is_heard_late_is_no_second_change(make_study, store):
    study = make_study()
    store.changes()
    study.ask()
    seen = store.changes()
    store.await_change(seen, 0.3)
    assert store.changes() == seen


def test_a_write_of_ones_own_that_is_heard_early_is_one_change(make_study, store, monkeypatch):
    study = make_study()
    seen, over = [store.changes()], threading.Event()
    commit = getattr(type(store), "_commit", None)

    def slowly(self):
        commit(self)
        # Enough time to learn about it before it is counted.
        time.sleep(0.3)

    def watch():
        while not over.is_set():
            store.await_change(seen[-1], 0.1)
            if (now := store.changes()) != seen[-1]:
                seen.append(now)

    # A study in memory has no commit that could take long.
    monkeypatch.setattr(type(store), "_commit", slowly, raising=False)
    thread = threading.Thread(target=watch)
    thread.start()
    study.ask()
    time.sleep(0.3)
    over.set()
    thread.join()
    assert len(seen) == 2


def test_a_write_by_another_handle_wakes(make_study, store, request):
    make_study()
    other = another(store, request)
    with Study.open(other, "toy", **OWN) as study:
        thread = later(study.ask)
        assert store.wait(1, 0, PATIENCE)
        thread.join()
    if other is not store:
        other.close()


def test_a_write_to_another_study_is_none_to_this_one(make_study, store):
    make_study()
    other = make_study(name="other")
    thread = later(other.ask)
    assert not store.wait(1, 0, 0.6)
    thread.join()


def test_many_threads_wait_on_one_handle(make_study, store):
    study = make_study()
    woken = []
    threads = [
        threading.Thread(target=lambda: woken.append(store.wait(1, 0, PATIENCE))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    study.ask()
    for thread in threads:
        thread.join()
    assert woken == [True] * 8


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_who_waits_is_woken_after_the_server_has_dropped_the_connection(
    make_study, store, postgresql_url
):
    study = make_study()
    store.changes()
    end_sessions_of(postgresql_url)
    thread = later(study.ask)
    assert store.wait(1, 0, PATIENCE)
    thread.join()
