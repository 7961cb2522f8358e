"""Failures around a study: disks, other programs, other processes, power."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairtrial.errors import StorageBusy, StorageError, StorageFull
from fairtrial.study import Study, list_studies
from fairtrial.study.sqlite import SQLiteStore
from tests.messages import raises
from tests.study.tools import FailingStore, Fault, as_ordinary_user, connect, replayed, same_state
from tests.study.toys import OWN, Racing, Serving, ToyProblem


def make(storage, policy=Serving, **more):
    problem = ToyProblem()
    return Study.create(problem, policy(problem), storage=storage, name="toy", seed=7, **more)


def reopened(path, **more):
    return Study.open(path, "toy", **OWN, **more)


def events(study):
    return list(study.events())


# ------------------------------------------------------------------------ fault points


@pytest.mark.parametrize("point", ["after begin", "before insert", "before commit", "after insert"])
@pytest.mark.parametrize("call", ["ask", "tell", "report", "fail", "fused", "many"])
def test_a_fault_between_begin_and_commit_leaves_nothing_behind(path, point, call):
    store = FailingStore(path, "process")
    study = make(store, Racing)
    first, second, third = study.ask(3)
    study.report(first, 0.5, stage=0)
    study.tell(third, 1.0)
    before, state = events(study), study.policy.get_state()
    calls = {
        "ask": lambda: study.ask(2, lease=9),
        "tell": lambda: study.tell(first, 2.0),
        "report": lambda: study.report(first, 0.25, stage=1),
        "fail": lambda: study.fail(first),
        "fused": lambda: study.tell_and_ask(first, 2.0),
        "many": lambda: study.tell_many([(first, 1.0), (second, 2.0)]),
    }
    store.fail_at = point
    with pytest.raises(Fault):
        calls[call]()
    assert events(study) == before
    assert all((state[key] == value).all() for key, value in study.policy.get_state().items())
    calls[call]()
    assert same_state(study.policy, replayed(study))
    assert reopened(path).verify().ok


def test_an_interruption_by_the_keyboard_leaves_nothing_behind(path, monkeypatch):
    study = make(path)
    pull = study.ask()

    def interrupted(self, pull, outcome):
        self.sums += 1
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Serving, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            study.tell(pull, 1.0)
    study.tell(pull, 1.0)
    assert study.verify().ok


def test_an_interruption_right_after_the_lock_gives_it_back(path, monkeypatch):
    study = make(path)
    original = SQLiteStore._patiently

    def interrupted(self, action):
        answer = original(self, action)
        if self._connection.in_transaction:
            raise KeyboardInterrupt
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(SQLiteStore, "_patiently", interrupted)
        with pytest.raises(KeyboardInterrupt):
            study.ask()
    reopened(path, durability="process").ask()
    study.tell(study.ask(), 1.0)
    assert study.verify().events == 3


def test_a_policy_whose_state_cannot_be_had_still_lets_go_of_the_storage(path, monkeypatch):
    study = make(path)
    study.ask()

    def broken(self):
        raise ZeroDivisionError

    monkeypatch.setattr(Serving, "get_state", broken)
    with pytest.raises(ZeroDivisionError):
        study.close()
    with raises(StorageError):
        study._store.studies()


def test_a_snapshot_that_fails_does_not_take_the_outcome_with_it(path, monkeypatch):
    study = make(path)
    monkeypatch.setattr("fairtrial.study.cache.SNAPSHOT_EVERY", 1)

    def full(self, study_id, snapshot):
        raise StorageError("disk full")

    monkeypatch.setattr(SQLiteStore, "save_snapshot", full)
    study.tell(study.ask(), 1.0)
    study.close()
    assert reopened(path).policy.told == 1


# --------------------------------------------------------------------------- full disks


def test_a_full_disk_is_named_and_nothing_is_lost(path):
    study = make(path)
    told = []
    connection = study._store._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 5}")

    def run():
        while True:
            pull = study.ask()
            study.tell(pull, 0.5)
            told.append(pull.id)

    with raises(StorageFull):
        run()
    assert told
    assert [event.pull_id for event in study.events() if event.kind == "tell"] == told
    assert study.policy.told == len(told)
    connection.execute("PRAGMA max_page_count = 1000000")
    study.ask()
    assert study.verify().ok
    assert same_state(reopened(path).policy, study.policy)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one megabyte."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_on_a_full_disk_writes_are_refused_reads_go_on_and_writes_too_once_there_is_room(
    small_disk,
):
    path = small_disk / "studies.db"
    study = make(path)
    study.tell(study.ask(), 0.5)
    with (small_disk / "rest").open("wb", buffering=0) as rest:
        for size in (65_536, 512):
            with suppress(OSError):
                while rest.write(bytes(size)):
                    pass
        told = 1

        def go_on():
            nonlocal told
            while True:
                study.tell(study.ask(), 0.5)
                told += 1

        for attempt in (go_on, study.ask, lambda: make(small_disk / "other.db")):
            with raises(StorageFull):
                attempt()
        assert reopened(path).policy.told == study.policy.told == told
    (small_disk / "rest").unlink()
    study.tell(study.ask(), 0.5)
    assert study.verify().ok
    assert same_state(reopened(path).policy, study.policy)


FULL = """
    import resource, signal, sys
    from fairtrial.errors import StorageError
    from fairtrial.study import Study
    from tests.study.toys import Serving, ToyProblem

    problem = ToyProblem()
    study = Study.create(problem, Serving(problem), storage=sys.argv[1], name="toy")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    told = 0
    try:
        while True:
            study.tell(study.ask(), 0.5)
            told += 1
            print(told, flush=True)
    except StorageError as error:
        print(type(error).__name__, flush=True)
"""


def test_a_file_that_may_not_grow_any_more_keeps_all_that_was_acknowledged(path):
    command = [sys.executable, "-c", textwrap.dedent(FULL), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    *numbers, last = done.stdout.split()
    assert last == "StorageError"
    study = reopened(path)
    assert study.policy.told == int(numbers[-1]) > 0
    assert study.verify().ok


# ------------------------------------------------------------------- read-only storage


@pytest.fixture
def open_folder():
    """A folder that an ordinary user may enter: pytest's own may be root's alone."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_folder_is_named(open_folder):
    open_folder.chmod(0o555)

    @as_ordinary_user
    def check():
        with pytest.raises(StorageError):
            make(open_folder / "new.db")


def test_a_finished_study_can_be_read_where_nothing_can_be_written(open_folder):
    path = open_folder / "trial.db"
    with make(path) as study:
        study.tell(study.ask(), 1.0)
        pull = study.ask()
    path.chmod(0o444)
    open_folder.chmod(0o555)

    @as_ordinary_user
    def check():
        with reopened(path) as study:
            assert study.verify().ok
            assert study.outstanding() == [pull]
            for write in (study.ask, lambda: study.tell(pull, 1.0)):
                with pytest.raises(StorageError):
                    write()
            assert same_state(study.policy, replayed(study))

    beside = sorted(item.name for item in open_folder.iterdir())
    assert beside == ["trial.db", "trial.db-head", "trial.db-lock"]


def test_a_study_in_use_is_not_read_without_its_log_where_nothing_can_be_written(open_folder):
    path = open_folder / "trial.db"
    study = make(path)
    study.ask()
    for item in open_folder.iterdir():
        item.chmod(0o444)
    open_folder.chmod(0o555)

    @as_ordinary_user
    def check():
        try:
            found = reopened(path)
        except StorageError:
            return
        assert len(events(found)) == 1


def test_a_file_that_may_not_be_read_is_named(open_folder):
    path = open_folder / "trial.db"
    make(path).close()
    path.chmod(0o000)

    @as_ordinary_user
    def check():
        with pytest.raises(StorageError):
            reopened(path)


def test_a_read_only_file_in_a_writable_folder_can_be_read(open_folder):
    path = open_folder / "trial.db"
    with make(path) as study:
        study.ask()
    path.chmod(0o444)
    open_folder.chmod(0o777)

    @as_ordinary_user
    def check():
        with reopened(path) as study:
            assert study.policy.asked == 1
            with pytest.raises(StorageError):
                study.ask()


# --------------------------------------------------------------------- several processes


WORKER = """
    import sys
    from fairtrial.study import Study
    from tests.study.toys import OWN

    with Study.open(sys.argv[1], "toy", **OWN) as study:
        for _ in range(int(sys.argv[2])):
            pull = study.ask(worker=sys.argv[3])
            study.tell(pull, pull.number / 7)
"""


def test_several_processes_share_a_study(path):
    study = make(path)
    command = [sys.executable, "-c", textwrap.dedent(WORKER), str(path), "40"]
    workers = [subprocess.Popen([*command, f"worker {index}"]) for index in range(2)]
    for _ in range(40):
        pull = study.ask()
        study.tell(pull, pull.number / 7)
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    assert study.policy.told == 120
    numbers = [event.number for event in study.events() if event.kind == "ask"]
    assert numbers == list(range(120))
    assert study.verify().ok
    assert same_state(study.policy, replayed(study))


def test_a_storage_that_another_process_holds_is_busy(path):
    study = make(SQLiteStore(path, busy_timeout=0.2))
    other = connect(path)
    other.execute("BEGIN IMMEDIATE")
    with raises(StorageBusy):
        study.ask()
    other.execute("ROLLBACK")
    study.ask()
    assert study.verify().events == 1


def test_whoever_decides_keeps_other_writers_out_from_the_beginning(path):
    make(path).close()
    one, two = SQLiteStore(path), SQLiteStore(path, busy_timeout=0.1)

    def deciding():
        with raises(StorageBusy) as caught:
            two.transact(lambda: None)
        assert f"process {os.getpid()} on " in str(caught.value)

    one.transact(deciding)
    assert two.transact(lambda: two.read_study(1)).head_seq == 0


def test_a_long_log_is_replayed_before_others_are_kept_from_writing(path, monkeypatch):
    problem = ToyProblem()
    with (
        Study.create(problem, Serving(problem), storage=path, name="s") as one,
        Study.open(path, "s", **OWN) as other,
    ):
        other.ask()
        for _ in range(6):
            one.tell_many([(pull, 1.0) for pull in one.ask(100)])
        learn, kept_others_waiting = Serving.learn, []

        def watched(policy, pull, outcome):
            kept_others_waiting.append(other._store._connection.in_transaction)
            learn(policy, pull, outcome)

        monkeypatch.setattr(Serving, "learn", watched)
        other.ask()
    assert kept_others_waiting == [False] * 600


def test_looking_does_not_wait_for_a_writer(path):
    study = make(SQLiteStore(path, busy_timeout=0.2))
    study.ask()
    other = connect(path)
    other.execute("BEGIN IMMEDIATE")
    assert study.progress().asked == 1
    assert reopened(path).verify().ok


def test_reading_waits_while_another_process_recovers_the_log(path, monkeypatch):
    store = make(path)._store

    class Recovering:
        """A connection whose first statements find the log locked."""

        def __init__(self, connection, refusals):
            self.connection = connection
            self.refusals = refusals

        def execute(self, *arguments):
            if self.refusals:
                self.refusals -= 1
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            return self.connection.execute(*arguments)

    monkeypatch.setattr(store, "_connection", Recovering(store._connection, refusals=3))
    assert [row.name for row in store.studies()] == ["toy"]


def test_opening_waits_while_another_process_has_the_file_for_itself(path, monkeypatch):
    make(path).close()
    other = connect(path)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN IMMEDIATE")
    other.execute("COMMIT")
    patience = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: other.close()})
    monkeypatch.setattr("fairtrial.study.database.time", patience)
    assert [row.name for row in SQLiteStore(path).studies()] == ["toy"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
@pytest.mark.parametrize("use", [Study.ask, Study.recommend, Study.outstanding])
def test_a_fork_must_open_the_study_again(path, use):
    study = make(path)
    study.ask()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            use(study)
        except StorageError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert b"open the study again in every process" in os.read(reader, 1000)
    study.ask()
    assert study.verify().ok


# ------------------------------------------------------------------------ damaged files


@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_a_file_that_vanishes_under_an_open_study_is_noticed(path, what):
    study = make(path)
    study.ask()
    if what == "removed":
        path.rename(path.with_name("elsewhere.db"))
    else:
        copy = path.with_name("copy.db")
        shutil.copy(path, copy)
        copy.replace(path)
    with raises(StorageError):
        study.ask()


@pytest.mark.parametrize("content", [b"not a database at all, but long enough", b"x" * 5000])
def test_a_file_that_is_no_database_is_named(path, content):
    path.write_bytes(content)
    with raises(StorageError):
        make(path)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_left_alone(path):
    connection = connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with raises(StorageError):
        make(path)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_storage(path):
    path.touch()
    make(path).ask()
    assert list_studies(path)[0].events == 1


def test_damaged_pages_are_named(path):
    with make(path) as study:
        for _ in range(50):
            study.tell(study.ask(), 0.5)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with raises(StorageError):
        reopened(path).verify()


def test_a_text_that_is_no_unicode_is_named(path):
    study = make(path)
    pull = study.ask()
    connect(path).execute("UPDATE pull SET worker = CAST(x'ff' AS TEXT)")
    # A client that has just written a pull need not read it.
    with raises(StorageError):
        reopened(path).tell(pull.id, 1.0)


def test_durability_sets_what_sqlite_waits_for(path):
    for durability, level in (("full", 2), ("process", 1)):
        store = SQLiteStore(path, durability)
        assert store._connection.execute("PRAGMA synchronous").fetchone()[0] == level
        assert store._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        store.close()
    with raises(ValueError, "durability"):
        SQLiteStore(path, "none")


def test_full_durability_is_the_default(path):
    study = make(path)
    assert study._store._connection.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_sqlite_reports_integrity(path):
    with make(path) as study:
        study.ask(100)
    assert connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert sqlite3.threadsafety >= 1


# ------------------------------------------------- readers who may not write


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_a_reader_who_may_not_write_sees_what_is_written_meanwhile(open_folder):
    path = open_folder / "trial.db"
    path.touch()
    path.chmod(0o644)
    with make(path, durability="process") as study:
        run(study, 2)
    heard, said = os.pipe()

    @in_the_background
    def reader():
        found = reopened(path)
        seen = [found.policy.told]
        os.write(said, b"reading")
        while seen[-1] < 256:
            seen.append(found.policy.told)
            assert found.verify().ok
        assert seen == sorted(seen)
        assert seen[0] == 2

    os.close(said)
    assert os.read(heard, 7) == b"reading"
    with reopened(path, durability="process") as study:
        run(study, 254)
    assert os.waitpid(reader, 0)[1] == 0


def run(study, pairs):
    for _ in range(pairs):
        study.tell(study.ask(), 0.5)


def in_the_background(work):
    """Return the id of a process that does some work as an ordinary user."""
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - whatever it is, the parent shall hear of it
            traceback.print_exc()
            os._exit(1)
    return child
