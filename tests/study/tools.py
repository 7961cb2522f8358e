"""Tools for tests of studies: a clock, and slow, obvious versions of what a study does."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
import traceback

import numpy as np
import psycopg

from fairtrial.core import Pull
from fairtrial.study.sqlite import SQLiteStore

PATIENCE = 600.0


def wait_until(condition) -> None:
    """Wait until a condition is true, however slow the machine is."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class Failing:
    """Makes a store fail at a chosen point of the next write."""

    fail_at: str | None = None

    def _hit(self, point: str) -> None:
        if self.fail_at == point:
            self.fail_at = None
            raise Fault(point)

    def read_study(self, study_id):
        study = super().read_study(study_id)
        if self._is_writing:
            self._hit("after begin")
        return study

    def append(self, *args, **kwargs):
        self._hit("before insert")
        row = super().append(*args, **kwargs)
        self._hit("before commit")
        return row

    def _write_down(self):
        super()._write_down()
        self._hit("after insert")


class FailingStore(Failing, SQLiteStore):
    """A store in a file that fails."""


class Fault(Exception):
    """An unexpected error."""


def connect(path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


COLUMNS = (
    *("seq", "kind", "pull_id", "number", "action", "tag", "value", "stage", "lease_until"),
    *("at", "actor", "request_id", "body"),
)


def query(path, statement) -> list[tuple]:
    """Return the result of a statement in a database of SQLite."""
    connection = connect(path)
    rows = connection.execute(statement).fetchall()
    connection.close()
    return rows


def server_query(url, statement) -> list[tuple]:
    """Return the result of a statement in a database of PostgreSQL."""
    with psycopg.connect(url, options="-c search_path=fairtrial") as connection:
        return connection.execute(statement).fetchall()


def end_sessions_of(url) -> None:
    """Let the server end all other sessions of a database."""
    server_query(
        url,
        # A process of the server itself, such as autovacuum, may not be ended.
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'",
    )


def chain(path, study_id=1) -> list[str]:
    """Return the hashes that the rows of a file should have, from their description alone."""
    return chain_of(lambda statement: query(path, statement), study_id)


def chain_of(rows_of, study_id=1) -> list[str]:
    """Return the same for any database: `rows_of` gives the rows of a query."""
    made_of = "spec_json, policy_version, created_with, created_at"
    [(text, *made)] = rows_of(f"SELECT {made_of} FROM study WHERE id = {study_id}")
    spec = hashlib.sha256(text.encode()).hexdigest()
    start = spec + json.dumps(made, separators=(",", ":"))
    previous = hashlib.sha256(start.encode()).hexdigest()
    hashes = []
    events = f"SELECT {', '.join(COLUMNS)} FROM event WHERE study_id = {study_id} ORDER BY seq"
    for row in rows_of(events):
        record = json.dumps(list(row), separators=(",", ":"))
        previous = hashlib.sha256((previous + record).encode()).hexdigest()
        hashes.append(previous)
    return hashes


def replayed(study):
    """Return a fresh policy that was driven through the log, event by event, by hand."""
    policy = type(study.policy)(study.problem, **study.policy.get_params(), seed=study.seed)
    pulls = {}
    for event in study.events():
        body = event.body
        pull = pulls.get(event.pull_id)
        if event.kind == "ask":
            pulls[event.pull_id] = policy.ask(**body.get("context", {}))
            assert pulls[event.pull_id].action == event.action
        elif event.kind == "wait":
            assert policy.ask(1, **body.get("context", {})) == []
        elif event.kind == "time":
            policy.pass_time(body["seconds"])
        elif event.kind == "unsolicited":
            labels = study.problem.labels(event.action)
            pulls[event.pull_id] = Pull(-1, event.action, labels)
            policy.tell(pulls[event.pull_id], event.outcome)
        elif event.kind in ("tell", "late_tell"):
            policy.tell(pull, event.outcome)
        elif event.kind == "report":
            stage = {} if event.stage is None else {"stage": event.stage}
            policy.report(pull, event.value, **stage, **body.get("details", {}))
        elif event.kind == "amend":
            policy.amend(pull, body["old"], event.outcome)
        elif event.kind == "expire":
            policy.fail(pull, "expired")
        elif event.kind == "cancel":
            policy.fail(pull, "cancelled")
        elif event.kind == "fail":
            policy.fail(pull, body["reason"])
        else:
            assert event.kind in ("extend", "reissue", "stop")
    return policy


def same_state(left, right) -> bool:
    mine, theirs = left.get_state(), right.get_state()
    return mine.keys() == theirs.keys() and all(
        np.array_equal(mine[name], theirs[name]) for name in mine
    )


def as_ordinary_user(check) -> None:
    """Run a check in a process without root's right to write anywhere, if this one has it."""
    if os.geteuid() != 0:
        check()
        return
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            check()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - whatever it is, the parent shall hear of it
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the check failed as an ordinary user"
