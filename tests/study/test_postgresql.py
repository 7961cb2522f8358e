"""PostgreSQL: what is refused, what is guarded, and connections that are lost."""

import os
import random
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest

from fairtrial.errors import (
    ConnectionLost,
    CorruptLog,
    MissingExtra,
    StorageBusy,
    StorageError,
    StorageUnreachable,
    StudyNotFound,
)
from fairtrial.study import Study, list_studies, postgresql_schema, schema
from fairtrial.study.location import open_store
from fairtrial.study.log import Record, seal
from fairtrial.study.postgresql import PostgreSQLStore
from fairtrial.study.server_address import ServerAddress
from fairtrial.study.store import Addition, NewStudy
from tests import effort
from tests.messages import raises
from tests.postgresql import PASSWORD, USER
from tests.study.relay import frozen_on_demand
from tests.study.tools import end_sessions_of
from tests.study.toys import OWN, Serving, ToyProblem

PARTS_OF_PASSWORD = ("open", "sesame", "%40", "ß#1")


@pytest.fixture
def url(postgresql_url):
    return postgresql_url


def opened(url, kind=PostgreSQLStore, durability="process", **more):
    return kind(ServerAddress(url), durability, **more)


def make(storage, name="toy", **more):
    problem = ToyProblem()
    more = {"durability": "process", **more}
    return Study.create(problem, Serving(problem), storage=storage, name=name, seed=7, **more)


def reopened(url, **more):
    return Study.open(url, "toy", **OWN, durability="process", **more)


def tell_some(study, pairs=3):
    for _ in range(pairs):
        study.tell(study.ask(), 0.5)


def connected(url):
    connection = psycopg.connect(url, autocommit=True)
    connection.execute("SET search_path = fairtrial")
    return connection


# ------------------------------------------------------------------------ what is refused


def refusal(action):
    """Return the message of a refusal, which must not contain any part of the password."""
    with raises(StorageError) as caught:
        action()
    said = [str(caught.value), repr(caught.value)]
    said += traceback.format_exception(caught.value)[-1:]
    error = caught.value.__cause__
    while error is not None:
        said += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    assert not [part for part in PARTS_OF_PASSWORD if part in " ".join(said)]
    assert "\n" not in said[0]
    return said[0]


def test_a_server_that_is_not_there(postgresql_server):
    url = postgresql_server.url("trials").replace(f":{postgresql_server.port}/", ":1/")
    assert "no connection could be made" in refusal(lambda: open_store(url))
    assert "Connection refused" in refusal(lambda: Study.open(url, "toy"))


def test_a_wrong_password(postgresql_server, url):
    wrong = url.replace("sesame", "sesamy")
    assert f'password authentication failed for user "{USER}"' in refusal(lambda: opened(wrong))


def test_a_database_that_is_not_there(postgresql_server):
    url = postgresql_server.url("nowhere")
    assert 'database "nowhere" does not exist' in refusal(lambda: list_studies(url))


def test_a_user_who_may_make_no_tables(postgresql_server, url):
    with postgresql_server.administrator() as connection:
        connection.execute("CREATE ROLE visitor LOGIN PASSWORD 'open sesame'")
    try:
        theirs = postgresql_server.url(url.rpartition("/")[2], "visitor", "open sesame")
        text = refusal(lambda: make(theirs))
        assert "permission is missing (permission denied for database" in text
        make(url).close()
        text = refusal(lambda: list_studies(theirs))
        assert "permission is missing (permission denied for schema fairtrial" in text
    finally:
        with postgresql_server.administrator() as connection:
            connection.execute("DROP ROLE visitor")


def test_a_user_who_may_write_and_not_change_tables_can_do_everything(postgresql_server, url):
    make(url).close()
    name = url.rpartition("/")[2]
    administrator = postgresql_server.administrator
    with administrator() as connection:
        connection.execute("CREATE ROLE nurse LOGIN PASSWORD 'n'")
    try:
        with administrator(name) as connection:
            connection.execute("GRANT USAGE ON SCHEMA fairtrial TO nurse")
            tables = "fairtrial.meta, fairtrial.study, fairtrial.pull"
            connection.execute(f"GRANT SELECT, INSERT, UPDATE ON {tables} TO nurse")
            connection.execute("GRANT SELECT, INSERT ON fairtrial.event TO nurse")
            everything = "SELECT, INSERT, UPDATE, DELETE"
            connection.execute(f"GRANT {everything} ON fairtrial.snapshot TO nurse")
        theirs = postgresql_server.url(name, "nurse", "n")
        with reopened(theirs) as study:
            tell_some(study)
            study.snapshot()
            assert study.verify().ok
        make(theirs, "another").close()
        with connected(theirs) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DROP TRIGGER event_is_never_removed ON event")
    finally:
        with administrator(name) as connection:
            connection.execute("DROP OWNED BY nurse")
            connection.execute("DROP ROLE nurse")


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "fairtrial.study.postgresql")
    with raises(MissingExtra, extra="postgres") as caught:
        open_store("postgresql://ana:secrets@host/trials")
    assert "secrets" not in repr(caught.value)


def test_a_database_that_cannot_hold_every_script(postgresql_server):
    how = {"ENCODING": "'LATIN1'", "LOCALE": "'C'", "TEMPLATE": "template0"}
    with postgresql_server.database(**how) as url:
        assert "the database's encoding is LATIN1" in refusal(lambda: make(url))


def test_the_tables_of_another_program_are_left_alone(url):
    with connected(url) as connection:
        connection.execute("CREATE SCHEMA fairtrial")
        connection.execute("CREATE TABLE fairtrial.study (colour text)")
    assert "the tables of another program" in refusal(lambda: make(url))


def test_an_empty_schema_made_by_an_administrator_is_used(url):
    with connected(url) as connection:
        connection.execute("CREATE SCHEMA fairtrial")
    make(url).close()
    assert [study.name for study in list_studies(url)] == ["toy"]


def test_looking_makes_no_tables(url):
    for look in (lambda: list_studies(url), lambda: Study.open(url, "toy")):
        with raises(StudyNotFound):
            look()
    with connected(url) as connection:
        assert connection.execute("SELECT to_regnamespace('fairtrial')").fetchone() == (None,)


def test_a_newer_schema_is_refused_in_one_sentence_with_both_numbers(url):
    make(url).close()
    with connected(url) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    expected = (
        f"has schema 99, and this version of fairtrial reads schemas up to {len(schema.STEPS)}"
    )
    for call in (lambda: list_studies(url), lambda: reopened(url), lambda: make(url, "b")):
        assert expected in refusal(call)


RELEASED = {
    3: ("4b33c11d6390ec46d97ebeb9d33faa2ac31a9ad5fb9deb873bea7fc63dc3389a", 17),
    4: ("384ba0c99fb240a2bc8fd9e8e4d14ea3cbd44d684898034e73bc135807e03393", 17),
    5: ("239cd571adefb30270ad42927d2d72c68e8180087d8125ea173c023179a778c9", 16),
}
"""Head hash and length of the study in the fixture of every released schema."""


@pytest.mark.parametrize("number", sorted(RELEASED))
def test_every_released_schema_opens_verifies_and_goes_on(url, number):
    file = Path(__file__).parent / "fixtures" / f"schema_{number}.sql"
    with psycopg.connect(url) as connection:
        connection.execute(file.read_text(encoding="utf-8"))
    head, length = RELEASED[number]
    with Study.open(url, "released", **OWN, durability="process") as study:
        assert study.head_hash == head
        found = study.verify()
        assert (found.ok, found.events) == (True, length), found.first_difference
        study.tell(study.ask(), 0.5)
        assert study.verify().ok
        assert len(list(study.events())) == length + 2


def test_there_is_a_fixture_of_every_schema():
    assert sorted(RELEASED) == list(range(3, len(schema.STEPS) + 1))


def test_an_older_schema_is_brought_forward(url, monkeypatch):
    with make(url) as study:
        tell_some(study)
        head = study.head_hash
    following = ("ALTER TABLE study ADD COLUMN colour TEXT", "UPDATE study SET colour = 'green'")
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, following))
    with reopened(url) as study:
        assert study.head_hash == head
        tell_some(study)
        assert study.verify().ok
    with connected(url) as connection:
        assert connection.execute("SELECT colour FROM study").fetchone() == ("green",)


def test_a_step_that_fails_leaves_the_tables_as_they_were(url, monkeypatch):
    make(url).close()
    broken = ("ALTER TABLE study ADD COLUMN colour TEXT", "ALTER TABLE nowhere ADD COLUMN x TEXT")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS, broken))
        assert 'relation "nowhere" does not exist' in refusal(lambda: list_studies(url))
    with reopened(url) as study:
        tell_some(study)


def test_a_study_that_others_keep_locked(url):
    make(url).close()
    store = opened(url, busy_timeout=0.2)
    study = Study.open(store, "toy", **OWN)
    with connected(url) as other, other.transaction():
        other.execute("SELECT * FROM study FOR UPDATE")
        with raises(StorageBusy):
            study.ask()
        assert study.policy.asked == 0
    tell_some(study)
    store.close()


def test_a_text_that_postgresql_cannot_hold_changes_nothing(url):
    with make(url) as study, raises(ValueError, "actor"):
        study.tell(study.ask(), 0.5, actor="a\0b")


# ------------------------------------------------------------------------- what is guarded


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE event SET value = 1", "the event log is append-only"),
        ("DELETE FROM event", "the event log is append-only"),
        ("TRUNCATE event", "the event log is append-only"),
        ("TRUNCATE study CASCADE", "append-only|never removed"),
        ("DELETE FROM study", "a study is never removed"),
        ("UPDATE study SET seed = '8'", "the specification of a study is immutable"),
        ("UPDATE study SET secret = 'x'", "the specification of a study is immutable"),
        (
            "INSERT INTO event TABLE event ON CONFLICT (study_id, seq) DO UPDATE SET at = 9",
            "the event log is append-only",
        ),
    ],
)
def test_the_log_and_the_specification_are_never_changed(url, statement, reason):
    with make(url) as study:
        tell_some(study)
        with connected(url) as connection, pytest.raises(psycopg.Error, match=reason):
            connection.execute(statement)
        assert study.verify().ok


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("DROP TRIGGER event_is_never_removed ON event", "event_is_never_removed"),
        ("ALTER TABLE study DISABLE TRIGGER study_is_never_changed", "study_is_never_changed"),
        (
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger AS 'BEGIN END' LANGUAGE plpgsql",
            "study_is_never_emptied",
        ),
    ],
)
def test_a_removed_guard_is_noticed(url, statement, missing):
    with make(url) as study:
        tell_some(study)
        with connected(url) as connection:
            connection.execute(statement)
        assert missing in study.verify().first_difference


def test_an_event_that_was_edited_all_the_same_is_noticed(url):
    with make(url) as study:
        tell_some(study)
        with connected(url) as connection:
            connection.execute("ALTER TABLE event DISABLE TRIGGER event_is_never_changed")
            connection.execute("UPDATE event SET value = 9 WHERE seq = 4")
            connection.execute("ALTER TABLE event ENABLE TRIGGER event_is_never_changed")
        assert "event 4: its hash" in study.verify().first_difference


def test_a_log_that_lost_its_end_is_noticed_by_the_one_who_wrote_it(url):
    with make(url) as study:
        tell_some(study)
        with connected(url) as connection:
            connection.execute("UPDATE study SET head_seq = 2")
        with raises(CorruptLog):
            study.ask()


def test_a_database_that_was_replaced_is_noticed(url):
    with make(url) as study:
        with connected(url) as connection:
            connection.execute("ALTER TABLE study DISABLE TRIGGER study_is_never_removed")
            connection.execute("DELETE FROM study")
        with raises(CorruptLog):
            study.ask()


# --------------------------------------------------------------------------- what is kept


@pytest.mark.parametrize(
    "value",
    [0.1, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1 / 3, 1e-300],
)
def test_every_number_comes_back_bit_by_bit(url, value):
    store = opened(url)
    study = inserted(store)
    large = 2**63 - 1
    record = blank(1, value=value, number=large, action=-large, at=large, lease_until=2**52 + 1)
    store.transact(lambda: store.append(study, Addition([record], [], "running")))
    [found] = store.records(study.id)
    assert found == record
    assert repr(found.value) == repr(value)
    store.close()


def inserted(store):
    new = NewStudy("a", '{"seed":1}', "ab" * 32, "1", 3, "0.1", 1_800_000_000_000_000, 1)
    return store.transact(lambda: store.insert_study(new))


def blank(seq, previous="ab" * 32, **columns):
    empty = Record(seq, "ask", *[None] * 7, 1, None, None, None, "")._replace(**columns)
    return empty._replace(hash=seal(previous, empty))


@pytest.mark.parametrize(("durability", "expected"), [("full", "on"), ("process", "off")])
@pytest.mark.filterwarnings("ignore:.*fsync = off")
def test_durability_is_a_setting_of_the_session(url, durability, expected):
    store = opened(url, durability=durability)
    assert store._one("SELECT current_setting('synchronous_commit')") == (expected,)
    store.close()


@pytest.mark.filterwarnings("ignore:.*fsync = off")
def test_more_durability_than_we_ask_for_stays(postgresql_server, url):
    name = url.rpartition("/")[2]
    with postgresql_server.administrator() as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = 'remote_apply'")
    store = opened(url, durability="full")
    assert store._one("SELECT current_setting('synchronous_commit')") == ("remote_apply",)
    store.close()


def test_a_server_that_flushes_nothing_is_named_where_flushes_are_promised(url, recwarn):
    make(url, durability="process").close()
    list_studies(url)
    assert not recwarn
    with Study.open(url, "toy", **OWN) as study:
        with pytest.warns(RuntimeWarning, match="fsync = off"):
            study.ask()
        tell_some(study)
    assert not recwarn


def test_the_clock_is_that_of_the_server_and_stands_still_in_a_write(url):
    store = opened(url)
    study = inserted(store)
    assert abs(store.now() / 1e6 - time.time()) < 60

    def twice():
        store.read_study(study.id)
        return store.now(), time.sleep(0.01), store.now()

    first, _, second = store.transact(twice)
    assert first == second < store.now()
    store.close()


# ------------------------------------------------------------------------------ together


def test_two_who_make_the_same_study_make_one(url):
    make(url, "other").close()
    barrier = threading.Barrier(4)

    def create():
        barrier.wait()
        with make(url, exist_ok=True) as study:
            return tell_some(study), study.seed

    with ThreadPoolExecutor(4) as pool:
        done = [future.result() for future in [pool.submit(create) for _ in range(4)]]
    assert len(set(done)) == 1
    assert [study.name for study in list_studies(url)] == ["other", "toy"]
    with reopened(url) as study:
        assert study.policy.told == 12
        assert study.verify().ok


def test_studies_do_not_wait_for_each_other(url):
    make(url, "other").close()
    make(url).close()
    store = opened(url, busy_timeout=1)
    study = Study.open(store, "toy", **OWN)
    with connected(url) as holder, holder.transaction():
        holder.execute("SELECT * FROM study WHERE name = 'other' FOR UPDATE")
        tell_some(study)
    store.close()


def test_whatever_isolation_the_database_prefers(postgresql_server, url):
    name = url.rpartition("/")[2]
    with postgresql_server.administrator() as connection:
        connection.execute(
            f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
        )
    make(url).close()

    def work():
        with reopened(url) as study:
            tell_some(study, 10)

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(work) for _ in range(3)]:
            future.result()
    with reopened(url) as study:
        assert study.policy.told == 30
        assert study.verify().ok


def test_a_fork_is_told_to_open_the_study_again(url):
    study = make(url)
    child = os.fork()
    if child == 0:
        try:
            study.ask()
        except StorageError as error:
            os._exit(0 if "is its fork" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    tell_some(study)
    study.close()


@pytest.fixture
def set_alarm(monkeypatch):
    """Return a function that sends Ctrl-C after some seconds."""
    # Python cannot raise an exception while an object is deleted. Pytest would report it, which
    # takes long enough for the next one to come meanwhile.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    yield partial(signal.setitimer, signal.ITIMER_REAL)
    signal.signal(signal.SIGALRM, before)


def test_ctrl_c_at_any_moment_leaves_whole_writes_and_no_lock(url, set_alarm):
    study, other = make(url), opened(url, busy_timeout=5)
    chance = random.Random(1)
    acknowledged, interrupted = [], 0
    tell_some(study)
    for _ in range(effort.runs(60, whole=1_000)):
        try:
            set_alarm(chance.uniform(1e-4, 8e-3))
            acknowledged.append(study.ask().id)
            time.sleep(0.01)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            set_alarm(0)
        other.transact(lambda: other.read_study(1))
    assert interrupted >= 20
    assert set(acknowledged) <= {pull.id for pull in study.outstanding()}
    assert study.verify().ok
    study.close()
    other.close()


def test_interrupted_commits_do_not_make_the_next_one_fail(url):
    store = opened(url)
    study = make(store)
    tell_some(study)
    # To psycopg, interrupted commits look like a statement that is worth preparing.
    store._connection._prepared._counts[(b"NOTIFY fairtrial; COMMIT", ())] = 100
    tell_some(study)
    assert study.verify().ok
    study.close()
    store.close()


def test_ctrl_c_while_a_write_is_sent_is_raised_as_itself(url, monkeypatch):
    study, pipeline = make(url), psycopg.Pipeline
    fetch = pipeline._fetch_gen

    def interrupted(self, *, flush):
        if flush:
            # The request is not answered yet, so the pipeline cannot be left, and raises.
            monkeypatch.setattr(pipeline, "_fetch_gen", fetch)
            raise KeyboardInterrupt
        return fetch(self, flush=flush)

    monkeypatch.setattr(pipeline, "_fetch_gen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study.ask()
    tell_some(study)
    assert study.verify().ok
    study.close()


def test_a_refusal_while_an_interrupt_is_handled_is_a_refusal(url, monkeypatch):
    change = PostgreSQLStore._change

    def lost(self, *changes):
        end_sessions_of(url)
        return change(self, *changes)

    with make(url) as study:
        monkeypatch.setattr(PostgreSQLStore, "_change", lost)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            with raises(ConnectionLost):
                study.ask()


def test_an_interrupt_before_an_answer_leaves_a_study_that_goes_on(url):
    store = opened(url)
    make(store).close()
    study, other = Study.open(store, "toy", **OWN), reopened(url)

    def interrupted():
        store.read_study(1)
        store._connection.pgconn.send_query(b"SELECT 1")
        raise KeyboardInterrupt

    for look in (study.ask, study.progress, lambda: list(study.events())):
        store._connection.pgconn.send_query(b"SELECT 1")
        look()
    with pytest.raises(KeyboardInterrupt):
        store.transact(interrupted)
    tell_some(other)
    tell_some(study)
    assert study.verify().ok
    for item in (study, other, store):
        item.close()


# ---------------------------------------------------------------------- lost connections


def test_a_connection_that_was_lost_meanwhile_is_made_again(url):
    with make(url) as study:
        for look in (study.ask, study.progress, study.verify, partial(list, study.events())):
            end_sessions_of(url)
            look()
        tell_some(study)
        assert study.verify().ok


class Losing(PostgreSQLStore):
    """Loses its connection at a chosen point of the next write."""

    lose_at = None
    lost = 0

    def _lose(self, point):
        if self.lose_at == point:
            self.lose_at = None
            self.lost += 1
            end_sessions_of(self.whole_url)

    def read_study(self, study_id):
        study = super().read_study(study_id)
        if self._is_writing:
            self._lose("after begin")
        return study

    def append(self, *args, **kwargs):
        self._lose("before insert")
        row = super().append(*args, **kwargs)
        self._lose("before commit")
        return row

    def _run(self, statement, parameters=(), **options):
        found = super()._run(statement, parameters, **options)
        if statement.endswith("COMMIT") and self.lose_at == "after commit":
            self._lose("after commit")
            super()._run("SELECT 1")
        return found


@pytest.fixture
def losing(url):
    make(url).close()
    Losing.whole_url = url
    store = opened(url, Losing)
    yield store, Study.open(store, "toy", **OWN)
    store.close()


@pytest.mark.parametrize("point", ["after begin", "before insert", "before commit", "after commit"])
def test_a_write_whose_connection_is_lost_counts_once(losing, point):
    store, study = losing
    told = []
    for what in ("ask", "tell", "both", "twice"):
        store.lose_at = point
        if what == "ask":
            pull = study.ask()
        elif what == "tell":
            study.tell(pull, 0.25)
        elif what == "both":
            pull = study.tell_and_ask(study.ask(), 0.5)
        else:
            study.tell(pull, 0.75)
            study.tell(pull, 0.75)
        assert store.lose_at is None
    told = [event.value for event in study.events() if event.kind == "tell"]
    assert (told, store.lost, study.policy.asked) == ([0.25, 0.5, 0.75], 4, 3)
    assert study.health()["duplicates"] == 1
    assert study.verify().ok


def test_a_repetition_is_counted_once_whenever_the_connection_is_lost(losing):
    store, study = losing
    pull = study.ask()
    study.tell(pull, 0.5)
    for number, point in enumerate(["before commit", "after commit"], start=1):
        store.lose_at = point
        study.tell(pull, 0.5)
        assert study.health()["duplicates"] == number


@pytest.mark.parametrize("point", ["before commit", "after commit"])
def test_a_study_whose_making_loses_the_connection_is_made_once(url, point):
    Losing.whole_url = url
    store = opened(url, Losing)
    make(store, "other").close()

    class Inserting(Losing):
        def insert_study(self, new):
            study = super().insert_study(new)
            self._lose("before commit")
            return study

    store.__class__ = Inserting
    store.lose_at = point
    with make(store) as study:
        assert study.ask().number == 0
    assert [study.name for study in store.studies()] == ["other", "toy"]
    assert store.lost == 1
    store.close()


def test_a_study_whose_making_loses_the_connection_again_and_again_is_not_there(url):
    Losing.whole_url = url
    store = opened(url, Losing)
    make(store, "other").close()

    class Always(Losing):
        def insert_study(self, new):
            study = super().insert_study(new)
            self.lose_at = "before commit"
            self._lose("before commit")
            return study

    store.__class__ = Always
    with raises(ConnectionLost):
        make(store)
    assert [study.name for study in store.studies()] == ["other"]
    store.close()


def test_a_connection_that_is_lost_again_and_again_is_an_error(losing):
    store, study = losing

    class Always(Losing):
        def append(self, *args, **kwargs):
            self.lose_at = "before insert"
            return super().append(*args, **kwargs)

    store.__class__ = Always
    with raises(ConnectionLost):
        study.ask()
    store.__class__ = Losing
    tell_some(study)
    assert study.policy.asked == 3


def test_where_the_server_does_not_come_back_the_doubt_is_said(url, monkeypatch):
    make(url).close()
    Losing.whole_url = url
    store = opened(url, Losing, busy_timeout=0.3)
    study = Study.open(store, "toy", **OWN)
    pull = study.ask(request_id="first")
    store.lose_at = "after commit"
    parameters = dict(store._parameters)
    store._parameters["port"] = "1"
    with raises(StorageUnreachable) as caught:
        study.tell(pull, 0.5, request_id="mine")
    assert not isinstance(caught.value, ConnectionLost)
    store._parameters = parameters
    # The same request again gets the first answer.
    event = study.tell(pull, 0.5, request_id="mine")
    assert [event.seq, len(list(study.events()))] == [2, 2]
    assert study.ask(request_id="first").id == pull.id
    store.close()


def test_a_server_that_is_away_says_nothing_about_the_log(url):
    make(url).close()
    store = opened(url, busy_timeout=0.3)
    study = Study.open(store, "toy", **OWN)
    tell_some(study)
    with reopened(url) as other:
        tell_some(other)
    store._parameters["port"] = "1"
    for call in (study.verify, study.ask, study.progress, study.history):
        end_sessions_of(url)
        with raises(StorageUnreachable):
            call()
    store.close()


def test_a_connection_that_is_lost_while_a_log_is_replayed_is_no_fault_of_the_log(losing, url):
    store, study = losing
    other = reopened(url)
    tell_some(other, 10)

    class Replaying(Losing):
        def steps(self, *args):
            self._lose("before replay")
            return super().steps(*args)

    store.__class__ = Replaying
    store.lose_at = "before replay"
    tell_some(study)
    assert (store.lost, study.policy.asked) == (1, 13)
    other.close()


def test_a_closed_store_is_not_opened_again(url):
    store = opened(url)
    store.close()
    with raises(StorageError):
        store.studies()
    with raises(StorageError):
        store.transact(lambda: None)


def test_the_password_is_nowhere_to_be_seen(url):
    with make(url) as study:
        shown = f"{study!r} {study._store.url} {study._store!r} {study._store._address!r}"
        assert "experimenter@" in shown
        assert not [part for part in PARTS_OF_PASSWORD if part in shown]
        assert PASSWORD in study._store._parameters["password"]


@pytest.mark.timeout(60)
def test_a_server_that_falls_silent_is_given_up_and_the_write_is_in_doubt_or_not_kept(url):
    make(url).close()
    with frozen_on_demand(url) as (address, freeze):
        store = opened(address, busy_timeout=0.3)
        study = Study.open(store, "toy", **OWN)
        pull = study.ask(request_id="first")
        freeze()
        with raises(StorageUnreachable):
            study.tell(pull, 0.5)
        with raises(StorageUnreachable):
            study.verify()
        freeze(over=True)
        assert study.tell(pull, 0.5).seq == 2
        assert study.ask(request_id="first").id == pull.id
        assert study.verify().ok
        store.close()


@pytest.mark.timeout(60)
def test_silence_during_a_commit_leaves_a_doubt_that_the_log_settles(url):
    make(url).close()
    with frozen_on_demand(url) as (address, freeze):

        class Silent(PostgreSQLStore):
            falls_silent = False

            def _commit(self):
                if self.falls_silent:
                    self.falls_silent = False
                    freeze()
                super()._commit()

        store = opened(address, Silent, busy_timeout=0.3)
        study = Study.open(store, "toy", **OWN)
        pull = study.ask()
        store.falls_silent = True
        with raises(StorageUnreachable):
            study.tell(pull, 0.5)
        freeze(over=True)
        # Whether it was kept or not: it counts once.
        study.tell(pull, 0.5)
        assert [event.kind for event in study.events()] == ["ask", "tell"]
        store.close()


@pytest.mark.timeout(60)
def test_long_work_of_the_server_is_no_silence_while_rows_come(url):
    store = opened(url, busy_timeout=0.3)
    rows = store._all("SELECT repeat('x', 20000), pg_sleep(0.05) FROM generate_series(1, 80)")
    assert len(rows) == 80
    store.close()


def test_tables_that_another_process_has_made_meanwhile_are_left_as_they_are(monkeypatch):
    found = iter([0, len(schema.STEPS)])
    monkeypatch.setattr(postgresql_schema, "_schema_of", lambda run, where: next(found))
    statements = []

    def run(statement, parameters):
        statements.append(statement)
        return []

    postgresql_schema.prepare(run, lambda: None, "here", "0.1.0", create=True)
    assert statements == ["SELECT pg_advisory_xact_lock(?)", "COMMIT"]
