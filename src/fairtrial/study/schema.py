"""The database's tables, and the numbered steps that upgrade every older schema."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from fairtrial.errors import StorageError

__all__ = ["APPLICATION_ID", "STEPS", "missing_triggers", "prepare"]

APPLICATION_ID = 0x46547269
"""Marks a database as ours (``PRAGMA application_id``): "FTri"."""

_FIRST = (
    """CREATE TABLE meta (
        key TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE study (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        spec_json TEXT NOT NULL,
        spec_sha256 TEXT NOT NULL,
        seed TEXT NOT NULL,
        policy_version INTEGER NOT NULL,
        created_with TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        status TEXT NOT NULL,
        head_seq INTEGER NOT NULL,
        head_hash TEXT NOT NULL,
        duplicates INTEGER NOT NULL
    )""",
    """CREATE TABLE event (
        study_id INTEGER NOT NULL REFERENCES study (id),
        seq INTEGER NOT NULL,
        kind TEXT NOT NULL,
        pull_id TEXT,
        number INTEGER,
        action INTEGER,
        tag INTEGER,
        value REAL,
        stage INTEGER,
        lease_until INTEGER,
        at INTEGER NOT NULL,
        actor TEXT,
        request_id TEXT,
        body TEXT,
        hash TEXT NOT NULL,
        PRIMARY KEY (study_id, seq)
    ) WITHOUT ROWID""",
    """CREATE UNIQUE INDEX event_request ON event (study_id, request_id)
        WHERE request_id IS NOT NULL""",
    """CREATE INDEX event_rare ON event (study_id, kind)
        WHERE kind NOT IN ('ask', 'report', 'tell')""",
    """CREATE TABLE pull (
        study_id INTEGER NOT NULL REFERENCES study (id),
        pull_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        action INTEGER NOT NULL,
        tag INTEGER NOT NULL,
        state TEXT NOT NULL,
        lease_until INTEGER,
        worker TEXT,
        context TEXT,
        asked_seq INTEGER NOT NULL,
        told_seq INTEGER,
        value_seq INTEGER,
        closed_seq INTEGER,
        PRIMARY KEY (study_id, pull_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX pull_open ON pull (study_id, number) WHERE state = 'open'",
    """CREATE INDEX pull_lease ON pull (study_id, lease_until)
        WHERE state = 'open' AND lease_until IS NOT NULL""",
    """CREATE TABLE snapshot (
        study_id INTEGER NOT NULL REFERENCES study (id),
        seq INTEGER NOT NULL,
        policy TEXT NOT NULL,
        policy_version INTEGER NOT NULL,
        state BLOB NOT NULL,
        sha256 TEXT NOT NULL,
        PRIMARY KEY (study_id, seq)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
        BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END""",
    """CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event
        BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END""",
    # INSERT OR REPLACE removes a row without firing the trigger on DELETE.
    """CREATE TRIGGER event_is_never_replaced BEFORE INSERT ON event
        WHEN EXISTS (SELECT 1 FROM event WHERE study_id = NEW.study_id AND seq = NEW.seq)
        BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END""",
    """CREATE TRIGGER study_is_never_changed
        BEFORE UPDATE OF id, name, spec_json, spec_sha256, seed, policy_version, created_with,
        created_at ON study
        BEGIN SELECT RAISE(ABORT, 'the specification of a study is immutable'); END""",
    """CREATE TRIGGER study_is_never_removed BEFORE DELETE ON study
        BEGIN SELECT RAISE(ABORT, 'a study is never removed'); END""",
)

_SECOND = (
    # Where the chain of hashes starts: see `log.origin`.
    "ALTER TABLE study ADD COLUMN chain INTEGER NOT NULL DEFAULT 1",
    # The machine that wrote last, and the software that wrote the last events.
    "ALTER TABLE study ADD COLUMN machine TEXT",
    "ALTER TABLE study ADD COLUMN environment TEXT",
    "DROP TRIGGER study_is_never_changed",
    """CREATE TRIGGER study_is_never_changed
        BEFORE UPDATE OF id, name, spec_json, spec_sha256, seed, policy_version, created_with,
        created_at, chain ON study
        BEGIN SELECT RAISE(ABORT, 'the specification of a study is immutable'); END""",
)

_THIRD = (
    # The secret behind the random numbers of a randomised study; null if its policy draws none.
    "ALTER TABLE study ADD COLUMN secret TEXT",
    "ALTER TABLE pull ADD COLUMN propensity REAL",
    "DROP TRIGGER study_is_never_changed",
    """CREATE TRIGGER study_is_never_changed
        BEFORE UPDATE OF id, name, spec_json, spec_sha256, seed, policy_version, created_with,
        created_at, chain, secret ON study
        BEGIN SELECT RAISE(ABORT, 'the specification of a study is immutable'); END""",
)

_FOURTH = (
    # Statistics of processes that decide by themselves: see `shared_statistics`.
    """CREATE TABLE statistic (
        study_id INTEGER NOT NULL REFERENCES study (id),
        process TEXT NOT NULL,
        body TEXT NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (study_id, process)
    ) WITHOUT ROWID""",
    # Who may use the service; only the hash of each secret is kept.
    """CREATE TABLE token (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        secret_sha256 TEXT NOT NULL UNIQUE,
        scopes TEXT NOT NULL,
        studies TEXT,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        revoked_at INTEGER,
        last_used_at INTEGER
    )""",
    """CREATE TABLE session (
        secret_sha256 TEXT PRIMARY KEY,
        token_id INTEGER NOT NULL REFERENCES token (id),
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL
    ) WITHOUT ROWID""",
    # The answers to the first requests with an idempotency key.
    """CREATE TABLE idempotency (
        actor TEXT NOT NULL,
        key TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        status INTEGER NOT NULL,
        body TEXT NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (actor, key)
    ) WITHOUT ROWID""",
    "CREATE INDEX idempotency_age ON idempotency (at)",
    # The notices about a study that webhooks have sent.
    """CREATE TABLE notice (
        study_id INTEGER NOT NULL REFERENCES study (id),
        notice TEXT NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (study_id, notice)
    ) WITHOUT ROWID""",
)

_FIFTH = (
    # How often leases were extended: these are no events, so the head of the log does not show it.
    "ALTER TABLE study ADD COLUMN lease_changes INTEGER NOT NULL DEFAULT 0",
)

STEPS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH)
"""Step n upgrades schema n to schema n + 1. A released step is never edited."""


def prepare(connection: sqlite3.Connection, path: Path | None, version: str) -> None:
    """Upgrade a database to the newest schema, creating its tables if necessary.

    Parameters
    ----------
    connection : sqlite3.Connection
        A connection in autocommit mode.
    path : Path or None
        The database's file, for messages and for the backup that is made before a change.
    version : str
        This package's version, recorded in a new database.

    Raises
    ------
    StorageError
        If the database belongs to another program or has a newer schema.
    """
    if _schema_at_once(connection, path) == len(STEPS):
        return
    if path is not None:
        _require_write_ahead_log(connection, path)
    connection.execute("BEGIN IMMEDIATE")
    try:
        _advance(connection, path, version)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _schema_at_once(connection: sqlite3.Connection, path: Path | None) -> int:
    """Return the schema, read in one transaction because another process may be upgrading it."""
    connection.execute("BEGIN")
    try:
        return _schema_of(connection, path)
    finally:
        connection.execute("ROLLBACK")


def _schema_of(connection: sqlite3.Connection, path: Path | None) -> int:
    """Return the database's schema number; 0 if it is empty."""
    schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if owner != APPLICATION_ID and (owner or schema or tables):
        raise StorageError(f"{path} is a database of another program; choose another file")
    if schema > len(STEPS):
        raise StorageError(
            f"{path} has schema {schema}, and this version of fairtrial reads schemas up to "
            f"{len(STEPS)}: it was written by a newer version"
        )
    return schema


def _require_write_ahead_log(connection: sqlite3.Connection, path: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StorageError(f"{path}: SQLite cannot keep a write-ahead log here (it says {mode!r})")


def _advance(connection: sqlite3.Connection, path: Path | None, version: str) -> None:
    # Another process may have upgraded it while this one waited for the lock.
    schema = _schema_of(connection, path)
    if path is not None and 0 < schema < len(STEPS):
        _copy_aside(path, schema)
    for step in STEPS[schema:]:
        for statement in step:
            connection.execute(statement)
    if schema == 0:
        connection.execute("INSERT INTO meta VALUES ('created_with', ?)", (version,))
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('schema', ?)", (str(len(STEPS)),))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(STEPS)}")


def missing_triggers(connection: sqlite3.Connection) -> list[str]:
    """Return the triggers that protect the log but are missing or altered."""
    wanted: dict[str, str] = {}
    for statement in (part for step in STEPS for part in step):
        words = statement.split()
        if words[:2] == ["CREATE", "TRIGGER"]:
            wanted[words[2]] = " ".join(words)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    found = {name: " ".join(sql.split()) for name, sql in rows.fetchall()}
    return [name for name, text in wanted.items() if found.get(name) != text]


def _copy_aside(path: Path, schema: int) -> None:
    """Save a copy beside the file, under an unused name."""
    base = path.with_name(f"{path.name}.schema-{schema}.bak")
    copy, number = base, 1
    while copy.exists():
        number += 1
        copy = base.with_name(f"{base.name}.{number}")
    # Use a separate connection: SQLite cannot back up a connection that is about to write.
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
