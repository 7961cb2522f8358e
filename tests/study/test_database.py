"""What SQLite does not notice: logs cut short, two machines, damaged pages, lost guards."""

import random
import shutil
import sqlite3
import stat

import pytest

from fairtrial.errors import CorruptLog, StorageBusy, StorageError
from fairtrial.study import Study, accept_loss, machine
from fairtrial.study.sqlite import SQLiteStore
from tests import effort
from tests.messages import raises
from tests.study.tools import connect
from tests.study.toys import OWN, Serving, ToyProblem


def make(storage, name="toy", **more):
    problem = ToyProblem()
    more = {"durability": "process", **more}
    return Study.create(problem, Serving(problem), storage=storage, name=name, seed=7, **more)


def reopened(path, **more):
    return Study.open(path, "toy", **OWN, durability="process", **more)


def run(study, pairs):
    for _ in range(pairs):
        study.tell(study.ask(), 0.5)


def beside(path, ending):
    return path.with_name(f"{path.name}-{ending}")


# ------------------------------------------------------------- damaged write-ahead logs


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The files of a study in use, and the hashes of its events."""
    folder = tmp_path_factory.mktemp("running")
    study = make(folder / "trial.db")
    run(study, 150)
    assert beside(folder / "trial.db", "wal").stat().st_size > 100_000
    yield folder, [event.hash for event in study.events()]
    study.close()


def copied(running, to, head_file=True):
    """Return a copy of the study's file and the files beside it, as a crash would leave them."""
    folder, hashes = running
    for name in ("trial.db", "trial.db-wal", "trial.db-head"):
        if head_file or not name.endswith("head"):
            shutil.copy(folder / name, to / name)
    return to / "trial.db", hashes


def outcome(path, hashes):
    """Return whether everything is there, or the message of the refusal to open."""
    before = {item.name: item.read_bytes() for item in path.parent.iterdir()}
    try:
        study = reopened(path)
    except (CorruptLog, StorageError) as error:
        after = {item.name: item.read_bytes() for item in path.parent.iterdir()}
        assert {name: after[name] for name in before if name != "trial.db-shm"} == before
        return str(error)
    with study:
        assert [event.hash for event in study.events()] == hashes
    return "all there"


@pytest.mark.parametrize("head_file", [True, False])
def test_a_flipped_bit_in_the_log_is_harmless_or_said(running, tmp_path, head_file):
    chance = random.Random(1)
    found = []
    for trial in range(effort.runs(20, whole=50)):
        (tmp_path / str(trial)).mkdir()
        path, hashes = copied(running, tmp_path / str(trial), head_file)
        log = bytearray(beside(path, "wal").read_bytes())
        log[chance.randrange(len(log))] ^= 1 << chance.randrange(8)
        beside(path, "wal").write_bytes(log)
        found.append(outcome(path, hashes))
    refused = [text for text in found if text != "all there"]
    assert len(refused) > effort.runs(3, whole=10)
    assert all("write-ahead log" in text for text in refused)


def test_a_log_cut_short_is_harmless_or_said(running, tmp_path):
    chance = random.Random(2)
    refused = 0
    for trial in range(60):
        (tmp_path / str(trial)).mkdir()
        path, hashes = copied(running, tmp_path / str(trial))
        log = beside(path, "wal").read_bytes()
        length = 0 if trial == 0 else chance.randrange(len(log))
        beside(path, "wal").write_bytes(log[:length])
        refused += outcome(path, hashes) != "all there"
    assert refused > 10


def test_a_removed_log_is_said(running, tmp_path):
    path, hashes = copied(running, tmp_path)
    beside(path, "wal").unlink()
    text = outcome(path, hashes)
    assert "event 300 was acknowledged" in text
    assert "accept-loss" in text


def test_a_removed_file_is_not_made_again_in_silence(path):
    with make(path) as study:
        run(study, 1)
    path.unlink()
    with raises(CorruptLog):
        make(path)


def test_an_older_copy_is_not_taken_for_the_study(path):
    with make(path) as study:
        run(study, 2)
    shutil.copy(path, path.with_name("old"))
    with reopened(path) as study:
        run(study, 2)
    path.with_name("old").replace(path)
    with raises(CorruptLog):
        reopened(path)


def test_another_log_of_the_same_length_can_be_audited_but_not_continued(path):
    for name in ("one", "two"):
        with make(path.with_name(name)) as study:
            run(study, 2)
    shutil.copy(path.with_name("one"), path)
    shutil.copy(path.with_name("two-head"), beside(path, "head"))
    with reopened(path) as study:
        assert study.policy.told == 2
        found = study.verify()
        assert "is not the one that was acknowledged" in found.first_difference
        with raises(CorruptLog):
            study.ask()


def test_a_loss_can_be_accepted(running, tmp_path):
    path, hashes = copied(running, tmp_path)
    log = beside(path, "wal")
    log.write_bytes(log.read_bytes()[:-30_000])
    with raises(CorruptLog):
        reopened(path)
    [(name, lost, left)] = accept_loss(path)
    assert (name, lost) == ("toy", 300)
    with reopened(path) as study:
        assert [event.hash for event in study.events()] == hashes[:left]
        assert left < 300
        run(study, 1)
        assert study.verify().ok


def test_the_loss_of_a_whole_study_can_be_accepted(path):
    with make(path) as study:
        run(study, 1)
    path.write_bytes(b"")
    with raises(CorruptLog):
        make(path)
    assert accept_loss(path) == [("", 2, 0)]
    assert accept_loss(path) == []
    with make(path) as study:
        run(study, 1)


def test_a_new_witness_knows_of_all_studies(path):
    for name in ("toy", "other"):
        make(path, name).close()
    with Study.open(path, "other", **OWN) as study:
        run(study, 1)
    beside(path, "head").unlink()
    with reopened(path) as study:
        run(study, 1)
    heads = SQLiteStore(path)._head_file.read()
    assert {number: head.seq for number, head in heads.items()} == {1: 2, 2: 2}


def test_a_damaged_witness_is_one_that_is_not_there(path):
    with make(path) as study:
        run(study, 2)
    content = bytearray(beside(path, "head").read_bytes())
    content[140] ^= 1
    beside(path, "head").write_bytes(content)
    with reopened(path) as study:
        run(study, 1)
    assert SQLiteStore(path)._head_file.read()[1].seq == 6


@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_a_log_that_vanishes_under_an_open_study_is_noticed(path, what):
    study = make(path)
    run(study, 1)
    log = beside(path, "wal")
    content = log.read_bytes()
    log.unlink()
    if what == "replaced":
        log.write_bytes(content)
    with raises(StorageError):
        study.ask()


# ------------------------------------------------- who moves the log into the file, and when


class Traced(SQLiteStore):
    """Records its statements, and tries to write with another connection while the log is moved."""

    def __init__(self, path):
        self.statements = []
        self.kept_out = 0
        super().__init__(path, "process")

    def _prepared(self, connection, noted):
        connection.set_trace_callback(self._traced)
        return super()._prepared(connection, noted)

    def _traced(self, statement):
        self.statements.append(statement)
        if "wal_checkpoint" in statement:
            other = SQLiteStore(self._path, "process", busy_timeout=0.05)
            with pytest.raises(StorageBusy):
                other.transact(lambda: None)
            self.kept_out += 1
            other.close()


def test_nobody_can_commit_while_the_log_is_moved_into_the_file(path):
    store = Traced(path)
    with make(store) as study:
        for _ in range(30):
            study.tell_many([(pull, 0.5) for pull in study.ask(20)])
    assert store.kept_out == 3
    assert store.statements.count("PRAGMA wal_autocheckpoint = 0") == 1
    assert store._connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    store.close()


def test_the_log_is_written_again_from_its_beginning_once_it_was_moved(path):
    study = make(path)
    run(study, 210)
    size = beside(path, "wal").stat().st_size
    run(study, 600)
    assert beside(path, "wal").stat().st_size < 2 * size
    assert study.verify().ok


# ------------------------------------------------------------------------- two machines


def test_a_second_machine_is_told_from_a_second_process(path, monkeypatch):
    here, process = make(path), reopened(path)
    run(here, 1)
    run(process, 1)
    monkeypatch.setattr(machine, "_boot_id", lambda: "another")
    machine.boot.cache_clear()
    there = reopened(path)
    run(there, 1)
    with raises(StorageError):
        here.ask()
    monkeypatch.undo()
    machine.boot.cache_clear()
    for study in (here, process, there):
        study.close()
    with reopened(path) as study:
        run(study, 1)
        assert study.verify().ok


# ----------------------------------------------------------------- damaged and odd files


def damage(path, table):
    """Overwrite the content of a table's pages."""
    connection = connect(path)
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
    [root] = connection.execute(query, (table,)).fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    content[(root - 1) * size : root * size] = b"\xa5" * size
    path.write_bytes(content)


def test_a_damaged_page_of_snapshots_is_not_the_log(path):
    with make(path) as study:
        run(study, 20)
    damage(path, "snapshot")
    with reopened(path) as study:
        assert study.policy.told == 20
        run(study, 10)
        assert len(list(study.events())) == 60
        found = study.verify()
    assert not found.ok
    assert found.events == 60
    assert "the file is damaged" in found.first_difference


def test_a_snapshot_whose_state_is_damaged_leaves_the_one_before(path, monkeypatch):
    with make(path) as study:
        run(study, 5)
        study.snapshot()
        run(study, 5)
    store = SQLiteStore(path)
    whole = list(store.snapshots(1))
    assert [snapshot.seq for snapshot in whole] == [20, 10]
    original = SQLiteStore._fetched

    def fetched(self, statement, parameters):
        if "state" in statement and parameters[1] > 20:
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        return original(self, statement, parameters)

    monkeypatch.setattr(SQLiteStore, "_fetched", fetched)
    assert list(store.snapshots(1)) == whole[1:]


def test_a_damaged_page_of_the_log_is_said_and_not_raised(path):
    with make(path) as study:
        run(study, 200)
    damage(path, "pull")
    with reopened(path) as study:
        found = study.verify()
    assert not found.ok
    assert "the file is damaged" in found.first_difference


@pytest.mark.parametrize("trigger", ["event_is_never_changed", "study_is_never_removed"])
def test_a_removed_guard_is_noticed(path, trigger):
    with make(path) as study:
        run(study, 1)
    connect(path).execute(f"DROP TRIGGER {trigger}")
    with reopened(path) as study:
        assert trigger in study.verify().first_difference


def test_files_are_for_their_owner_only(path):
    study = make(path)
    run(study, 1)
    modes = {item.name: stat.S_IMODE(item.stat().st_mode) for item in path.parent.iterdir()}
    assert set(modes) == {f"trial.db{end}" for end in ("", "-wal", "-shm", "-head", "-lock")}
    assert set(modes.values()) == {0o600}


def test_files_beside_are_as_open_as_the_database_was_made(path):
    path.touch(mode=0o640)
    path.chmod(0o640)
    study = make(path)
    run(study, 1)
    assert {stat.S_IMODE(item.stat().st_mode) for item in path.parent.iterdir()} == {0o640}
