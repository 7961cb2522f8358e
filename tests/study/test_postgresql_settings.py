"""Whatever a server, a database, a role, an address or a pooler sets: the same is kept and read."""

import time

import psycopg
import pytest

from fairtrial.errors import ConnectionLost, StorageBusy
from fairtrial.study import Study
from fairtrial.study.postgresql import PostgreSQLStore
from fairtrial.study.server_address import ServerAddress
from fairtrial.study.sqlite import SQLiteStore
from fairtrial.study.store import Snapshot
from tests import effort
from tests.messages import raises
from tests.postgresql import USER
from tests.study.toys import OWN, Serving, ToyProblem

# No binary fraction, the smallest one, one with 17 digits, and a large one.
FRACTIONS = (0.1, 5e-324, 1 / 3, 0.1 + 0.2, 1.7976931348623157e308, -1e-300)

SETTINGS = {
    "extra_float_digits": "0",
    "bytea_output": "escape",
    "DateStyle": "German",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Pacific/Chatham",
    "standard_conforming_strings": "off",
    "client_encoding": "LATIN1",
    "search_path": "public, pg_catalog",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "synchronous_commit": "off",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "lock_timeout": "1ms",
    "row_security": "off",
    "lc_messages": "C",
    "plan_cache_mode": "force_generic_plan",
}


def prefer(server, url, setting, value, *, role=False):
    """Set a default of the database, or of the role in this database."""
    name = url.rpartition("/")[2]
    whom = f"ROLE {USER} IN DATABASE {name}" if role else f"DATABASE {name}"
    with server.administrator() as connection:
        connection.execute(f"ALTER {whom} SET {setting} = {value if ',' in value else repr(value)}")


def write_some(study):
    for fraction in FRACTIONS:
        study.tell(study.ask(worker="Zoë 😀 \\'"), fraction)


def make(storage, **more):
    problem = ToyProblem(["a", "ß \\ ' 😀"])
    more = {"durability": "process", **more}
    return Study.create(problem, Serving(problem), storage=storage, name="臨床", seed=7, **more)


def opened(storage, **more):
    return Study.open(storage, "臨床", **OWN, durability="process", **more)


def require_whole(storage):
    with opened(storage) as study:
        found = study.verify()
        assert found.ok, found.first_difference
        told = [event.value for event in study.events() if event.kind == "tell"]
        assert told[: len(FRACTIONS)] == list(FRACTIONS)


@pytest.mark.parametrize(("setting", "role"), effort.pairs(sorted(SETTINGS), [False, True]))
def test_no_default_of_a_database_or_role_changes_what_is_kept_or_read(
    postgresql_server, postgresql_url, setting, role
):
    prefer(postgresql_server, postgresql_url, setting, SETTINGS[setting], role=role)
    with make(postgresql_url) as study:
        write_some(study)
        study.snapshot()
    require_whole(postgresql_url)


@pytest.mark.parametrize("setting", sorted(SETTINGS))
def test_a_default_that_changes_later_does_not_alter_an_older_log(
    postgresql_server, postgresql_url, setting
):
    with make(postgresql_url) as study:
        write_some(study)
    prefer(postgresql_server, postgresql_url, setting, SETTINGS[setting])
    require_whole(postgresql_url)


def test_an_address_cannot_change_what_is_kept_or_read(postgresql_url):
    options = "client_encoding=LATIN1&options=-c%20extra_float_digits%3D0%20-c%20search_path%3Dx"
    url = f"{postgresql_url}?{options}"
    with make(url) as study:
        write_some(study)
    require_whole(url)


class Pooled(PostgreSQLStore):
    """A store behind a pooler that resets sessions before each statement outside a transaction."""

    def _run(self, statement, parameters=(), **options):
        if not self._is_writing:
            self._connection.execute("RESET ALL")
            # Tables are still found; this is all that such a pooler must keep.
            self._connection.execute("SET search_path = fairtrial")
            self._connection.execute("SET extra_float_digits = 0")
            self._connection.execute("SET bytea_output = 'escape'")
            self._connection.execute("SET synchronous_commit = off")
        return super()._run(statement, parameters, **options)


@pytest.mark.filterwarnings("ignore:.*fsync = off")
def test_a_pooler_that_resets_sessions_changes_nothing_and_weakens_no_write(postgresql_url):
    store = Pooled(ServerAddress(postgresql_url), "full")
    seen = []
    with make(store) as study:
        write_some(study)
        study.snapshot()
        store.transact(
            lambda: seen.extend(
                store._one(
                    "SELECT current_setting('synchronous_commit'), current_setting('search_path'), "
                    "current_setting('lock_timeout')"
                )
            )
        )
    assert seen == ["on", "fairtrial", "30s"]
    require_whole(store)
    store.close()


def test_bytes_and_fractions_are_read_as_they_were_written(postgresql_server, postgresql_url):
    prefer(postgresql_server, postgresql_url, "bytea_output", "escape")
    prefer(postgresql_server, postgresql_url, "extra_float_digits", "-15")
    store = PostgreSQLStore(ServerAddress(postgresql_url), "process")
    make(store).close()
    state = bytes(range(256))
    store.save_snapshot(1, Snapshot(99, "Serving", 1, state, "ab"))
    [found] = [one for one in store.snapshots(1) if one.seq == 99]
    assert found.state == state
    store.close()


# ------------------------------------------------------------------ limits of time


def test_a_limit_on_statements_that_ends_a_wait_is_said_to_be_passing(
    postgresql_server, postgresql_url
):
    make(postgresql_url).close()
    prefer(postgresql_server, postgresql_url, "statement_timeout", "200ms")
    with opened(postgresql_url) as study, psycopg.connect(postgresql_url) as other:
        other.execute("SELECT * FROM fairtrial.study FOR UPDATE")
        with raises(StorageBusy):
            study.ask()
        other.rollback()
        study.tell(study.ask(), 0.1)
        assert study.verify().ok


def test_a_limit_on_idle_transactions_leaves_whole_writes(postgresql_server, postgresql_url):
    make(postgresql_url).close()
    prefer(postgresql_server, postgresql_url, "idle_in_transaction_session_timeout", "50ms")
    store = PostgreSQLStore(ServerAddress(postgresql_url), "process")

    def slow():
        store.find_study("臨床")
        time.sleep(0.3)
        store.find_study("臨床")

    with raises(ConnectionLost):
        store.transact(slow)
    with opened(store) as study:
        study.tell(study.ask(), 0.1)
        assert study.verify().ok
    store.close()


def test_a_limit_on_idle_sessions_is_met_by_new_connections(postgresql_server, postgresql_url):
    make(postgresql_url).close()
    prefer(postgresql_server, postgresql_url, "idle_session_timeout", "400ms")
    # On a busy machine, opening waits longer between two statements than one might think.
    with opened(postgresql_url) as study:
        for _ in range(2):
            time.sleep(0.6)
            study.tell(study.ask(), 0.1)
        time.sleep(0.6)
        assert study.verify().ok


@pytest.mark.filterwarnings("ignore:.*full_page_writes = off")
def test_a_server_that_may_tear_pages_is_named_where_flushes_are_promised(postgresql_url):
    # The server of the tests has both turned off.
    with make(postgresql_url, durability="full") as study:
        pass
    with (
        Study.open(postgresql_url, "臨床", **OWN) as study,
        pytest.warns(RuntimeWarning, match="full_page_writes = off"),
    ):
        study.ask()


# ---------------------------------------------------------------------------- SQLite


@pytest.mark.parametrize(
    "pragma",
    ["synchronous = OFF", "journal_mode = DELETE", "auto_vacuum = FULL", "secure_delete = ON"],
)
def test_what_another_program_sets_in_a_file_changes_nothing(tmp_path, pragma):
    path = tmp_path / "trial.db"
    store = SQLiteStore(path, "full")
    with make(store) as study:
        write_some(study)
    store._connection.execute(f"PRAGMA {pragma}").fetchall()
    store.close()
    store = SQLiteStore(path, "full")
    assert store._one("PRAGMA synchronous") == (2,)
    require_whole(store)
    store.close()
