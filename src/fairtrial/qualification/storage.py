"""Checks of a storage: what was acknowledged survives, writers do not collide, changes are found.

The checks write to a storage of their own, which they remove at the end: a file in a temporary
folder, or the tables of an empty database in PostgreSQL.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from fairtrial.errors import InvalidArgument, MissingExtra, StudyError
from fairtrial.qualification.checks import Check, CheckFailed, carried_out
from fairtrial.study import Study
from fairtrial.study.location import parse_storage
from fairtrial.study.server_address import ServerAddress
from fairtrial.subpopulations import BlockBetting, Problem

__all__ = ["require_empty", "storage_checks", "write_results"]

Change = Callable[[Sequence[str]], None]
"""Changes a database by SQL, as its administrator could."""

_PULLS = 20
_PATIENCE = 60.0
_CHILD = "from fairtrial.qualification.storage import write_results; write_results()"

_UPDATE = "UPDATE event SET value = value + 0.25 WHERE kind = 'tell' AND seq = {seq}"
_GUARD = "event_is_never_changed"


def storage_checks(folder: Path, database: str | None) -> Iterator[Check]:
    """Check SQLite in a temporary folder inside `folder`, and PostgreSQL if it is given.

    Parameters
    ----------
    folder : Path
        A folder on the disk that will hold the studies.
    database : str or None
        The address of an empty database in PostgreSQL; see `require_empty`.
    """
    with tempfile.TemporaryDirectory(prefix="qualification-", dir=folder) as place:
        path = Path(place) / "studies.db"
        yield from _checks("SQLite", str(path), lambda texts: _change_file(path, texts))
    if database is not None:
        try:
            yield from _checks(
                "PostgreSQL", database, lambda texts: _change_database(database, texts)
            )
        finally:
            with _administrator(database) as connection:
                connection.execute("DROP SCHEMA IF EXISTS fairtrial CASCADE")


def _checks(kind: str, storage: str, change: Change) -> Iterator[Check]:
    for name, check in (
        ("results survive the sudden end of a process", _check_durability),
        ("two processes write to one study", _check_two_writers),
        ("verify finds an altered row", _check_altered_row),
    ):
        yield carried_out("operation", f"{kind}: {name}", lambda: check(storage, change))  # noqa: B023


# -------------------------------------------------------------------------- the checks


def _check_durability(storage: str, _change: Change) -> str:
    name = "durability"
    said = _create(storage, name)
    with _writer(storage, name, None) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(_PULLS)]
        process.kill()
        told = _read([*acknowledged, *process.stdout], process)
    n_events = _require_told(storage, name, told)
    return (
        f"a process was killed after {len(told)} acknowledged results; all are in the log of "
        f"{n_events} events, which verifies{said}"
    )


def _check_two_writers(storage: str, _change: Change) -> str:
    name = "two writers"
    said = _create(storage, name)
    with _writer(storage, name, _PULLS) as first, _writer(storage, name, _PULLS) as second:
        told: dict[str, float] = {}
        for process in (first, second):
            told |= _read(process.stdout or (), process)
    if len(told) != 2 * _PULLS:
        raise CheckFailed(f"two processes told {2 * _PULLS} results of {len(told)} pulls")
    n_events = _require_told(storage, name, told)
    return (
        f"two processes told {_PULLS} results each at the same time; all are in the log of "
        f"{n_events} events, which verifies{said}"
    )


def _check_altered_row(storage: str, change: Change) -> str:
    name = "altered row"
    said = _create(storage, name)
    with Study.open(storage, name) as study:
        for _ in range(_PULLS):
            study.tell(study.ask(), 0.5)
        altered = [event.seq for event in study.events() if event.kind == "tell"][_PULLS // 2]
    update = _UPDATE.format(seq=altered)
    try:
        change([update])
    except Exception:  # noqa: BLE001 - each database has its own errors
        refused = True
    else:
        refused = False
    if not refused:
        raise CheckFailed("the database let a recorded result be changed by a plain statement")
    change(["guard off", update, "guard on"])
    found = _difference(storage, name)
    if found is None:
        raise CheckFailed(f"the value of event {altered} was changed, and verify did not find it")
    if str(altered) not in found:
        raise CheckFailed(f"the value of event {altered} was changed, and verify says: {found}")
    return (
        "the database refuses to change a recorded result; after its trigger was switched off and "
        f"one value was changed, verify says: {found}{said}"
    )


def _create(storage: str, name: str) -> str:
    """Create a study; return the warnings of the storage, as the end of a sentence."""
    problem = Problem(["a", "b"], ["x", "y"], floors=0.2, reward_range=(0, 1))
    policy = BlockBetting(problem, delta=0.001)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Study.create(problem, policy, storage=storage, name=name, seed=1).close()
    return "".join(f". Warning: {warning.message}" for warning in caught)


def _require_told(storage: str, name: str, told: dict[str, float]) -> int:
    """Return the number of events; fail if results are missing or the log does not verify."""
    with Study.open(storage, name) as study:
        logged = {event.pull_id: event.value for event in study.events() if event.kind == "tell"}
        found, n_events = study.verify(), study.n_events
    lost = [pull for pull, value in told.items() if logged.get(pull) != value]
    if lost:
        raise CheckFailed(f"{len(lost)} of {len(told)} acknowledged results are not in the log")
    if not found.ok:
        raise CheckFailed(f"the log does not verify: {found.first_difference}")
    return n_events


def _difference(storage: str, name: str) -> str | None:
    """Return what is wrong with a study; None if it opens and verifies."""
    try:
        with Study.open(storage, name) as study:
            return study.verify().first_difference
    except StudyError as error:
        return str(error)


# ------------------------------------------------------------------ another process


@contextmanager
def _writer(storage: str, name: str, pulls: int | None) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that tells results, and prints each one that was acknowledged."""
    # -P: modules in the current folder must not take the place of installed ones.
    process = subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-P", "-c", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = threading.Timer(_PATIENCE, process.kill)
    limit.start()
    try:
        assert process.stdin is not None
        # By a pipe, because others may see arguments, and an address may contain a password.
        process.stdin.write(json.dumps({"storage": storage, "name": name, "pulls": pulls}) + "\n")
        process.stdin.flush()
        yield process
    finally:
        limit.cancel()
        process.kill()
        process.communicate()


def write_results() -> None:
    """Tell results to the study that standard input names; print every acknowledged one."""
    order = json.loads(sys.stdin.readline())
    with Study.open(order["storage"], order["name"]) as study:
        done = 0
        while done != order["pulls"]:
            pull = study.ask()
            value = done % 8 / 8
            study.tell(pull, value)
            sys.stdout.write(json.dumps([pull.id, value]) + "\n")
            sys.stdout.flush()
            done += 1


def _read(lines: Iterable[str], process: subprocess.Popen[str]) -> dict[str, float]:
    """Return the results in complete lines."""
    told = dict(json.loads(line) for line in lines if line.endswith("\n"))
    if not told:
        assert process.stderr is not None
        reason = process.stderr.read().strip()
        raise CheckFailed(f"the process that writes ended without a result: {reason}")
    return told


# ------------------------------------------------------------- changes by statements


def _change_file(path: Path, texts: Sequence[str]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT sql FROM sqlite_master WHERE name = ?"
        [(guard,)] = connection.execute(query, (_GUARD,)).fetchall()
        orders = {"guard off": f"DROP TRIGGER {_GUARD}", "guard on": guard}
        for text in texts:
            connection.execute(orders.get(text, text))
        connection.commit()


def _change_database(address: str, texts: Sequence[str]) -> None:
    orders = {
        "guard off": f"ALTER TABLE event DISABLE TRIGGER {_GUARD}",
        "guard on": f"ALTER TABLE event ENABLE TRIGGER {_GUARD}",
    }
    with _administrator(address) as connection:
        connection.execute("SET search_path = fairtrial")
        for text in texts:
            connection.execute(orders.get(text, text))


@contextmanager
def _administrator(address: str) -> Iterator[Any]:
    try:
        from fairtrial.study.postgresql_connection import connected  # noqa: PLC0415 - optional
    except ImportError:
        raise MissingExtra("a study in PostgreSQL", "postgres") from None
    with closing(connected(ServerAddress(address).parameters(), _PATIENCE)) as connection:
        yield connection


def require_empty(database: str) -> None:
    """Raise unless this is the address of a database in PostgreSQL without studies.

    The checks create the schema ``fairtrial`` there, alter an event on purpose, and remove the
    schema: nobody's studies may be in it.

    Raises
    ------
    InvalidArgument
        If it is another address, or the database has a schema ``fairtrial``.
    """
    place = parse_storage(database)
    if not isinstance(place, ServerAddress):
        accepted = "must be the address of an empty database: postgresql://user@host/database"
        raise InvalidArgument("database", accepted, place)
    with _administrator(database) as connection:
        query = "SELECT to_regnamespace('fairtrial') IS NOT NULL"
        [(exists,)] = connection.execute(query).fetchall()
    if exists:
        accepted = (
            "must be a database without studies, because the check alters and removes what it "
            "writes: this one has a schema 'fairtrial'"
        )
        raise InvalidArgument("database", accepted, place)
