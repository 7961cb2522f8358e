"""The checks of a storage pass if it keeps its promises, and fail if it breaks one."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import psycopg
import pytest

from fairtrial.errors import InvalidArgument
from fairtrial.qualification import storage
from fairtrial.qualification.storage import require_empty, storage_checks
from fairtrial.study.audit import Verification
from fairtrial.study.study import Study
from tests.messages import raises

GUARD = storage._GUARD


def outcomes(checks):
    return {check.name.partition(": ")[2]: check.outcome for check in checks}


DURABLE = "results survive the sudden end of a process"
TWO = "two processes write to one study"
ALTERED = "verify finds an altered row"


def test_sqlite_passes_and_leaves_nothing_behind(tmp_path):
    checks = list(storage_checks(tmp_path, None))
    assert outcomes(checks) == {DURABLE: "passed", TWO: "passed", ALTERED: "passed"}
    assert [check.details for check in checks if "verify says: event" in check.details]
    assert not list(tmp_path.iterdir())


def test_postgresql_passes_and_its_database_is_empty_again(tmp_path, postgresql_url):
    require_empty(postgresql_url)
    checks = [
        check for check in storage_checks(tmp_path, postgresql_url) if "Postgre" in check.name
    ]
    assert outcomes(checks) == {DURABLE: "passed", TWO: "passed", ALTERED: "passed"}
    # The server of the tests does not flush; the record must not hide that.
    assert all("fsync = off" in check.details for check in checks)
    require_empty(postgresql_url)


def test_a_database_with_studies_is_refused_and_kept(postgresql_url):
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA fairtrial")
        with raises(InvalidArgument) as caught:
            require_empty(postgresql_url)
        assert caught.value.name == "database"
        assert "open/sesame" not in str(caught.value)
        connection.execute("DROP SCHEMA fairtrial")


@pytest.mark.parametrize("address", ["sqlite:///trial.db", "memory://", "mysql://a/b"])
def test_another_address_is_refused(address):
    with raises(InvalidArgument):
        require_empty(address)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "studies.db")


def change_file(path):
    return lambda texts: storage._change_file(path, texts)


def failure(check, path, change=None):
    with pytest.raises(storage.CheckFailed) as caught:
        check(path, change or change_file(path))
    return str(caught.value)


def test_a_lost_result_fails(path, monkeypatch):
    monkeypatch.setattr(
        storage, "_read", lambda lines, _process: {"no such pull": 0.5, **dict.fromkeys(lines)}
    )
    assert "not in the log" in failure(storage._check_durability, path)


def test_a_process_that_cannot_write_fails_and_its_error_is_told(path, monkeypatch):
    monkeypatch.setattr(storage, "_CHILD", "raise SystemExit('the disk is gone')")
    assert "the disk is gone" in failure(storage._check_durability, path)


def test_writers_that_answer_the_same_pull_fail(path, monkeypatch):
    monkeypatch.setattr(storage, "_read", lambda lines, _process: {"the same": len(list(lines))})
    assert "of 1 pulls" in failure(storage._check_two_writers, path)


def test_a_log_that_does_not_verify_fails(path, monkeypatch):
    bad = Verification(ok=False, events=1, first_difference="event 2 is missing")
    monkeypatch.setattr(Study, "verify", lambda *_: bad)
    assert "event 2 is missing" in failure(storage._check_two_writers, path)


def test_a_database_that_lets_results_be_changed_fails(path):
    def change(texts):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"DROP TRIGGER {GUARD}")
            connection.execute(texts[0])

    assert "plain statement" in failure(storage._check_altered_row, path, change)


def test_an_audit_that_finds_nothing_fails(path, monkeypatch):
    monkeypatch.setattr(Study, "verify", lambda *_: SimpleNamespace(ok=True, first_difference=None))
    assert "did not find it" in failure(storage._check_altered_row, path)
