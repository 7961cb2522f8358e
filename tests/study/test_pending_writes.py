"""Writes gathered in a transaction: read inside it, written once, and cached for a while."""

import pytest

from fairtrial.errors import ConflictingOutcome, StorageError
from fairtrial.study import Study
from fairtrial.study.recent_pulls import RecentPulls
from fairtrial.study.sqlite import SQLiteStore
from fairtrial.study.store import Addition, AnswerRow
from tests.messages import raises
from tests.study.test_store import append, insert, log, record, row
from tests.study.toys import OWN, Serving, ToyProblem


@pytest.fixture
def written(path):
    """A store in a file that counts how often it changes its tables."""

    class Noting(SQLiteStore):
        changes = 0

        def _change(self, *changes):
            self.changes += 1
            return super()._change(*changes)

    store = Noting(path, "process")
    yield store
    store.close()


def test_writes_of_a_transaction_are_read_within_it(store):
    study = insert(store)

    def write():
        first = record(1, pull_id="p1", request_id="r")
        after = store.append(study, Addition([first], [row()], "running"))
        second = record(2, "stop", previous=after.head_hash)
        after = store.append(after, Addition([second], [row(state="told")], "running"))
        assert store.request(study.id, "r") == first
        assert store.pull(study.id, "p1").state == "told"
        assert store.first(study.id, "stop") == second
        assert list(store.records(study.id)) == [first, second]
        assert store.read_study(study.id) == after == store.find_study("a")
        assert store.open_pulls(study.id) == []
        answer = AnswerRow("me", "k", "f", 200, "{}", 1)
        assert store.answer("me", "k") is None
        store.save_answer(answer)
        assert store.answer("me", "k") == answer

    store.transact(write)
    assert store.read_study(study.id).head_seq == 2
    assert store.answer("me", "k").body == "{}"


def test_many_appends_of_several_studies_are_one_change(written):
    studies = [insert(written, name) for name in "abc"]

    def write():
        for _ in range(20):
            for place, study in enumerate(studies):
                events = log(2, study.head_hash, study.head_seq + 1)
                studies[place] = written.append(
                    study, Addition(events, [row(events[0].pull_id)], "running")
                )

    written.changes = 0
    written.transact(write)
    assert written.changes == 1
    assert [written.read_study(study.id) for study in studies] == studies
    assert len(list(written.records(studies[0].id))) == 40


def test_a_long_import_does_not_wait_in_memory(written, monkeypatch):
    monkeypatch.setattr("fairtrial.study.pending_writes._MOST_EVENTS", 10)
    study = insert(written)

    def write(study):
        for _ in range(10):
            study = written.append(
                study, Addition(log(5, study.head_hash, study.head_seq + 1), [], "running")
            )

    written.changes = 0
    written.transact(lambda: write(study))
    assert written.changes == 5


def test_a_head_that_others_have_moved_is_found_when_it_is_written(store):
    study = insert(store)
    moved = append(store, study, log(1))

    def write():
        store.append(moved, Addition(log(1, moved.head_hash, 2), [row("p2")], "running"))
        with raises(StorageError):
            store.append(moved, Addition(log(1, moved.head_hash, 2), [], "running"))

    store.transact(write)
    assert store.read_study(study.id).head_seq == 2
    with raises(StorageError):
        store.transact(lambda: store.append(moved, Addition([], [], "decided", 1)))
    assert store.read_study(study.id).status == "running"


def test_nothing_of_an_undone_transaction_comes_with_the_next(store):
    study = insert(store)

    def write():
        store.append(study, Addition(log(1, request_id="r"), [row()], "running"))
        store.save_answer(AnswerRow("me", "k", "f", 200, "{}", 1))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.transact(write)
    assert store.transact(lambda: (store.pull(study.id, "p1"), store.answer("me", "k"))) == (
        None,
        None,
    )
    assert store.request(study.id, "r") is None
    assert append(store, study, log(1), [row()]).head_seq == 1


def test_another_handle_sees_nothing_before_the_commit(path):
    with SQLiteClosing(path) as one, SQLiteClosing(path) as other:
        study = insert(one)

        def write():
            one.append(study, Addition(log(1), [row()], "running"))
            assert other.pull(study.id, "p1") is None
            assert other.read_study(study.id).head_seq == 0

        one.transact(write)
        assert other.pull(study.id, "p1").state == "open"


class SQLiteClosing(SQLiteStore):
    """A store that a context closes."""

    def __init__(self, path):
        super().__init__(path, "process")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def test_a_pull_that_somebody_else_was_told_of_meanwhile_is_read_again(path):
    problem = ToyProblem()
    mine = Study.create(problem, Serving(problem), storage=path, name="toy", seed=7)
    first, second = mine.ask(2)
    with Study.open(path, "toy", **OWN) as other:
        other.tell(first.id, 1.0)
        with raises(ConflictingOutcome):
            mine.tell(first, 2.0)
        mine.tell(second, 3.0)
        with raises(ConflictingOutcome):
            other.tell(second.id, 4.0)
    assert mine.verify().ok
    mine.close()


def test_recent_pulls_are_those_of_one_head(written):
    recent, before = RecentPulls(), insert(written)
    after = before._replace(head_hash="h1")
    assert recent.find(before, "p1") is None
    recent.keep(before, after, [row("p1"), row("p2", state="told")])
    assert recent.find(after, "p1") == row("p1")
    assert recent.find(after, "p2") is None
    later = before._replace(head_hash="h2")
    recent.keep(after, later, [row("p1", state="told"), row("p3")])
    assert (recent.find(later, "p1"), recent.find(later, "p3")) == (None, row("p3"))
    # Another process has written since: the cache is dropped for good.
    assert recent.find(before._replace(head_hash="theirs"), "p3") is None
    assert recent.find(later, "p3") is None


def test_recent_pulls_take_a_bounded_memory(written, monkeypatch):
    monkeypatch.setattr("fairtrial.study.recent_pulls._MOST", 10)
    recent, before = RecentPulls(), insert(written)
    heads = []
    for number in range(50):
        study = before._replace(id=number)
        heads.append(study._replace(head_hash=f"h{number}"))
        recent.keep(study, heads[-1], [row("p1"), row("p2"), row("p3")])
    kept = [head for head in heads if recent.find(head, "p1") is not None]
    assert kept == heads[-3:]
