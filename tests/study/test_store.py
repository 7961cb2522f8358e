"""The conformance suite: what every store must do, whatever is behind it."""

import threading

import pytest

from fairtrial.errors import StorageError
from fairtrial.study.log import PullRow, Record, seal
from fairtrial.study.memory import MemoryStore
from fairtrial.study.store import Addition, NewStudy, Snapshot, Store, Unflushed
from tests.messages import raises
from tests.study.conftest import opened_store
from tests.study.tools import Fault

SPEC = "ab" * 32


@pytest.fixture(params=["file", "memory", "postgresql", "bundled"])
def store(request, clock):
    """Every store, and the one in a file with another SQLite than Python's own."""
    if request.param == "bundled":
        pytest.importorskip("apsw")
    opened = opened_store(request, clock)
    yield opened
    opened.close()


def new_study(name="a", **changes):
    new = NewStudy(name, '{"seed":1}', SPEC, "1", 3, "0.1", 1_800_000_000_000_000, 1)
    return new._replace(**changes)


def insert(store, name="a"):
    return store.transact(lambda: store.insert_study(new_study(name)))


def record(seq, kind="ask", previous=SPEC, **columns):
    blank = Record(seq, kind, None, None, None, None, None, None, None, seq, None, None, None, "")
    blank = blank._replace(**columns)
    return blank._replace(hash=seal(previous, blank))


def log(length, previous=SPEC, first=1, **columns):
    records = []
    for seq in range(first, first + length):
        records.append(record(seq, previous=previous, pull_id=f"p{seq}", **columns))
        previous = records[-1].hash
    return records


def row(pull_id="p1", number=0, **changes):
    return PullRow(pull_id, number, 1, 0, "open", None, None, None, 1)._replace(**changes)


def append(store, study, records, pulls=(), **more):
    return store.transact(
        lambda: store.append(study, Addition(records, list(pulls), "running", **more))
    )


# ----------------------------------------------------------------------------- studies


def test_it_is_a_store(store):
    assert isinstance(store, Store)


def test_a_study_is_found_by_name_with_an_empty_log(store):
    study = insert(store)
    assert store.find_study("a") == study
    assert store.find_study("b") is None
    assert store.read_study(study.id) == study
    assert study[1:10] == new_study()
    assert (study.head_seq, study.head_hash, study.status, study.duplicates) == (
        0,
        SPEC,
        "running",
        0,
    )


def test_studies_are_listed_oldest_first(store):
    assert store.studies() == []
    one, two = insert(store, "z"), insert(store, "a")
    assert store.studies() == [one, two]


def test_names_are_unique(store):
    insert(store)
    with raises(StorageError):
        insert(store)
    assert len(store.studies()) == 1


def test_odd_names_are_names(store):
    for name in ("ß 漢字 🎲", "a'; DROP TABLE study; --", "%_\\"):
        insert(store, name)
        assert store.find_study(name).name == name


def test_the_clock_counts_microseconds(store, clock):
    before = store.now()
    clock.advance(1.5)
    assert store.now() - before == 1_500_000


# ---------------------------------------------------------------------------- the log


def test_what_is_appended_is_read_back(store):
    study = insert(store)
    full = record(
        1,
        "report",
        pull_id="p1",
        number=2**40,
        action=3,
        tag=-1,
        value=0.1,
        stage=2,
        lease_until=2**52,
        actor="a",
        request_id="r",
        body='{"x":1}',
    )
    after = append(store, study, [full])
    assert list(store.records(study.id)) == [full]
    assert [tuple(step) for step in store.steps(study.id)] == [tuple(full.step)]
    assert (after.head_seq, after.head_hash) == (1, full.hash)
    assert store.read_study(study.id) == after


def test_ranges_of_the_log(store):
    study = insert(store)
    records = log(12)
    append(store, study, records)
    assert list(store.records(study.id, after=3, until=7)) == records[3:7]
    assert [step[0] for step in store.steps(study.id, after=10)] == [11, 12]
    assert list(store.records(study.id, after=12)) == []


def test_long_logs_are_read_in_pages(store, monkeypatch):
    monkeypatch.setattr("fairtrial.study.tables._PAGE", 5)
    study = insert(store)
    for length in (10, 3):
        study = append(store, study, log(length, study.head_hash, study.head_seq + 1))
    assert [record.seq for record in store.records(study.id)] == list(range(1, 14))
    assert [step[0] for step in store.steps(study.id, until=10)] == list(range(1, 11))


def test_logs_of_two_studies_are_apart(store):
    one, two = insert(store, "one"), insert(store, "two")
    append(store, one, log(2, request_id=None))
    append(store, two, [record(1, request_id="r", pull_id="p1")], [row()])
    assert len(list(store.records(one.id))) == 2
    assert store.request(one.id, "r") is None
    assert store.pull(one.id, "p1") is None
    assert store.request(two.id, "r").seq == 1


def test_a_moved_head_keeps_everything_out(store):
    study = insert(store)
    append(store, study, log(1), [row()])
    with raises(StorageError):
        append(store, study, log(1), [row(state="told")])
    stale = study._replace(head_seq=1)
    with raises(StorageError):
        append(store, stale, [record(2)], [row(state="told")])
    assert len(list(store.records(study.id))) == 1
    assert store.pull(study.id, "p1").state == "open"


def test_a_request_has_one_event(store):
    study = insert(store)
    study = append(store, study, [record(1, request_id="r")])
    with raises(StorageError):
        append(store, study, [record(2, previous=study.head_hash, request_id="r")])
    assert store.request(study.id, "r").seq == 1
    assert store.request(study.id, "s") is None
    assert store.read_study(study.id).head_seq == 1


def test_reports_are_those_of_the_pulls(store):
    study = insert(store)
    kinds = ["ask", "ask", "report", "report", "tell", "report"]
    events, previous = [], SPEC
    for place, (kind, pull) in enumerate(zip(kinds, ["p", "q", "p", "q", "p", "p"], strict=True)):
        columns = {"number": 0, "action": 1, "tag": 0, "pull_id": pull}
        events.append(record(place + 1, kind, previous, **columns))
        previous = events[-1].hash
    pulls = [row("p"), row("q", 1, asked_seq=2)]
    append(store, study, events, pulls)
    assert [found.seq for found in store.reports(study.id, pulls)] == [3, 4, 6]
    assert [found.seq for found in store.reports(study.id, pulls[:1])] == [3, 6]
    assert store.reports(study.id, []) == store.reports(study.id, [row("r")]) == []


def test_duplicates_are_counted_without_an_event(store):
    study = insert(store)
    study = append(store, study, log(1))
    study = append(store, study, [], duplicates=2)
    assert (study.head_seq, study.duplicates) == (1, 2)
    assert store.read_study(study.id) == study


def test_rare_kinds_are_counted(store):
    study = insert(store)
    kinds = ["ask", "tell", "report", "amend", "late_tell", "amend", "expire"]
    previous, records = SPEC, []
    for seq, kind in enumerate(kinds, start=1):
        records.append(record(seq, kind, previous))
        previous = records[-1].hash
    append(store, study, records)
    assert store.counts(study.id) == {"amend": 2, "late_tell": 1, "expire": 1}


# ------------------------------------------------------------------------ transactions


def test_an_error_in_a_transaction_undoes_all_of_it(store):
    study = insert(store)

    def fail():
        store.append(study, Addition(log(2), [row()], "decided"))
        store.insert_study(new_study("b"))
        assert store.read_study(study.id).head_seq == 2
        raise Fault

    with pytest.raises(Fault):
        store.transact(fail)
    assert store.read_study(study.id) == study
    assert list(store.records(study.id)) == []
    assert store.pull(study.id, "p1") is None
    assert [item.name for item in store.studies()] == ["a"]


def test_a_write_within_a_write_is_refused_and_harms_nothing(store):
    def within():
        store.insert_study(new_study("a"))
        with raises(StorageError):
            store.transact(lambda: None)
        store.insert_study(new_study("b"))

    store.transact(within)
    assert [study.name for study in store.studies()] == ["a", "b"]


def test_a_lease_is_set_beside_the_log(store):
    study = insert(store)
    before = append(store, study, log(1), [row(lease_until=5)])
    longer = row(lease_until=7)
    after = store.transact(lambda: store.set_lease(store.read_study(study.id), longer), flush=False)
    assert after == before._replace(lease_changes=before.lease_changes + 1)
    assert store.read_study(study.id) == after
    assert store.pull(study.id, "p1") == longer
    assert store.open_pulls(study.id, due_by=6) == []


def test_a_lease_that_is_set_in_a_failed_write_is_not_kept(store):
    study = insert(store)
    before = append(store, study, log(1), [row(lease_until=5)])

    def fail():
        store.set_lease(store.read_study(study.id), row(lease_until=7))
        assert store.pull(study.id, "p1").lease_until == 7
        raise Fault

    with pytest.raises(Fault):
        store.transact(fail)
    assert store.pull(study.id, "p1") == row(lease_until=5)
    assert store.read_study(study.id) == before


def test_a_lease_and_events_of_its_pull_can_be_written_together(store):
    study = insert(store)
    first, second = log(2)

    def issue_and_extend():
        issued = store.append(study, Addition([first], [row(lease_until=5)], "running"))
        extended = store.set_lease(issued, row(lease_until=7))
        assert store.pull(study.id, "p1").lease_until == 7
        return store.append(extended, Addition([second], [], "running"))

    after = store.transact(issue_and_extend)
    assert store.read_study(study.id) == after
    assert (after.head_seq, after.lease_changes) == (2, 1)
    assert store.pull(study.id, "p1").lease_until == 7


def test_events_are_never_written_without_a_flush(store):
    study = insert(store)

    def write():
        return store.append(study, Addition(log(1), [], "running"))

    if isinstance(store, MemoryStore):
        assert store.transact(write, flush=False).head_seq == 1
        return
    with pytest.raises(Unflushed):
        store.transact(write, flush=False)
    assert store.read_study(study.id).head_seq == 0
    assert store.transact(write).head_seq == 1


def test_threads_take_turns(store):
    study_id = insert(store).id

    def extend():
        study = store.read_study(study_id)
        [event] = log(1, study.head_hash, study.head_seq + 1)
        store.append(study, Addition([event], [], "running"))

    def work():
        for _ in range(20):
            store.transact(extend)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read_study(study_id).head_seq == 80


# ------------------------------------------------------------------------------- pulls


def test_pulls_are_written_anew(store):
    study = insert(store)
    first = row(lease_until=5, worker="w", context='{"g":"x"}')
    study = append(store, study, log(1), [first])
    assert store.pull(study.id, "p1") == first
    told = first._replace(state="told", lease_until=None, told_seq=2, value_seq=2)
    append(store, study, log(1, study.head_hash, 2), [told])
    assert store.pull(study.id, "p1") == told
    assert store.pull(study.id, "p2") is None


def test_open_pulls_come_by_number_and_by_due_date(store):
    study = insert(store)
    rows = [
        row("d", 3, lease_until=30, asked_seq=1),
        row("a", 0, lease_until=20, asked_seq=2),
        row("b", 1, asked_seq=3),
        row("c", 2, lease_until=10, state="told", asked_seq=4),
    ]
    append(store, study, log(4), rows)
    assert [item.pull_id for item in store.open_pulls(study.id)] == ["a", "b", "d"]
    assert [item.pull_id for item in store.open_pulls(study.id, due_by=30)] == ["a", "d"]
    assert [item.pull_id for item in store.open_pulls(study.id, due_by=29)] == ["a"]
    assert [item.pull_id for item in store.pulls(study.id)] == ["d", "a", "b", "c"]


# --------------------------------------------------------------------------- snapshots


def test_the_newest_two_snapshots_are_kept(store):
    study = insert(store)
    snapshots = [Snapshot(seq, "P", 1, bytes([seq]) * 9, "h") for seq in (1, 2, 5)]
    assert list(store.snapshots(study.id)) == []
    for snapshot in snapshots:
        store.save_snapshot(study.id, snapshot)
    assert list(store.snapshots(study.id)) == snapshots[:0:-1]
    again = snapshots[-1]._replace(state=b"other")
    store.save_snapshot(study.id, again)
    assert next(iter(store.snapshots(study.id))) == again


def test_snapshots_of_two_studies_are_apart(store):
    one, two = insert(store, "one"), insert(store, "two")
    store.save_snapshot(one.id, Snapshot(1, "P", 1, b"1", "h"))
    for seq in (1, 2, 3):
        store.save_snapshot(two.id, Snapshot(seq, "P", 1, b"2", "h"))
    assert [item.seq for item in store.snapshots(one.id)] == [1]


# ------------------------------------------------------------------------------ closing


def test_a_closed_store_says_so(store):
    study = insert(store)
    store.close()
    store.close()
    with raises(StorageError):
        store.read_study(study.id)


# -------------------------------------------------------------- a part of what there is


def test_names_of_studies_come_in_pages_by_their_code_points(store):
    names = ["b", "B", "a", "ä", "Z z", "z", "_", "臨床"]
    for name in names:
        store.transact(lambda name=name: store.insert_study(new_study(name)))
    found, after = [], ""
    while page := store.study_names(after, 3):
        found += page
        after = page[-1]
    assert found == sorted(names)
    assert [row.name for row in store.studies_named(["z", "none", "B"])] == ["z", "B"]
    assert store.studies_named([]) == []
    newest = store.newest_names(2**62, 3)
    assert [name for _, name in newest] == names[:-4:-1]
    assert [name for _, name in store.newest_names(newest[-1][0], 99)] == names[-4::-1]
    assert store.statuses() == {"running": len(names)}
    assert store.heads() == dict.fromkeys(names, 0)
