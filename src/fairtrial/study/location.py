"""Find the store at an address."""

from __future__ import annotations

import os
from datetime import UTC
from pathlib import Path
from typing import Literal, get_args

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_choice
from fairtrial.errors import InvalidArgument, MissingExtra, StorageError
from fairtrial.study.file_systems import require_local
from fairtrial.study.head_file import HeadFile
from fairtrial.study.log import as_time
from fairtrial.study.memory import MemoryStore
from fairtrial.study.server_address import ServerAddress, without_passwords
from fairtrial.study.specification import family_and_policy
from fairtrial.study.sqlite import SQLiteStore
from fairtrial.study.store import Store, StudyRow, StudySummary

__all__ = [
    "Durability",
    "Storage",
    "accept_loss",
    "list_studies",
    "open_store",
    "parse_storage",
]

Storage = str | os.PathLike[str] | Store
"""``"sqlite:///trial.db"``, a path, ``"postgresql://host/database"``, ``"memory://"``, or an open
store."""

Durability = Literal["full", "process"]
"""What acknowledged events survive: a power failure, or only the end of the process."""


def parse_storage(storage: str | os.PathLike[str]) -> Path | ServerAddress | None:
    """Return the file or database at an address; None for a store in memory.

    Examples
    --------
    >>> parse_storage("sqlite:///trial.db").name
    'trial.db'
    >>> parse_storage("postgresql://ana:secret@db.example/trials")
    postgresql://ana@db.example/trials
    >>> parse_storage("memory://") is None
    True
    """
    accepted = (
        'must be "sqlite:///file.db", a path, "postgresql://user@host/database", or "memory://"'
    )
    if not isinstance(storage, str | os.PathLike):
        raise InvalidArgument("storage", accepted, storage)
    address = os.fspath(storage)
    if ServerAddress.begins(address):
        return ServerAddress(address)
    file = address.removeprefix("sqlite:///") if address.startswith("sqlite:///") else address
    if address == "memory://" or file == ":memory:":
        return None
    if "://" in file or not file or "\0" in file or ServerAddress.is_meant(file):
        raise InvalidArgument("storage", accepted, without_passwords(address))
    return Path(file)


def open_store(
    storage: Storage,
    durability: Durability = "full",
    *,
    create: bool = True,
    server_timeout: float = 30.0,
) -> Store:
    """Return the store at an address; `create` allows a new one.

    If a database server restarts, does not answer or is locked by another process, wait up to
    `server_timeout` seconds.

    Raises
    ------
    StorageError
        If it cannot be used: missing, unreadable, with a newer schema, or on a network drive.
    MissingExtra
        If it is in PostgreSQL and psycopg is not installed.
    """
    check_choice("durability", durability, get_args(Durability))
    if isinstance(storage, Store):
        return storage
    place = parse_storage(storage)
    if place is None:
        return MemoryStore()
    if isinstance(place, ServerAddress):
        try:
            from fairtrial.study.postgresql import PostgreSQLStore  # noqa: PLC0415 - optional
        except ImportError:
            raise MissingExtra("a study in PostgreSQL", "postgres") from None
        return PostgreSQLStore(place, durability, create=create, busy_timeout=server_timeout)
    try:
        require_usable(place, create=create)
    except StorageError:
        raise
    except (OSError, ValueError) as error:  # too long a name, a text that no path can be
        reason = getattr(error, "strerror", None) or str(error)
        raise StorageError(f"{place}: {reason}") from None
    return SQLiteStore(place, durability, create=create)


@named_arguments
def list_studies(storage: Storage) -> list[StudySummary]:
    """Return summaries of the studies in a storage, the oldest first.

    Examples
    --------
    >>> list_studies("memory://")
    []
    """
    in_memory = not isinstance(storage, Store) and parse_storage(storage) is None
    store = open_store(storage, create=in_memory)
    try:
        return [_summary(row) for row in store.studies()]
    finally:
        if store is not storage:
            store.close()


@named_arguments
def accept_loss(storage: str | os.PathLike[str]) -> list[tuple[str, int, int]]:
    """Continue with what is left of studies whose logs have lost their end.

    Such a storage is refused otherwise, because acknowledged events are missing. Calling this
    function states that the loss is known and there is no backup.

    Parameters
    ----------
    storage : str or path
        A file; none of its studies may be in use.

    Returns
    -------
    list of (name, acknowledged, left)
        For each study that has lost events: the number of the last acknowledged event, and of the
        last event left. The name is empty if the whole study is lost.
    """
    path = parse_storage(storage)
    if not isinstance(path, Path):
        raise InvalidArgument("storage", "must be a file", path or storage)
    require_usable(path, create=False)
    noted = HeadFile(path.absolute()).read() or {}
    store = SQLiteStore(path, create=False, accept_loss=True)
    try:
        left = {row.id: row for row in store.studies()}
        store.accept_loss()
    finally:
        store.close()
    lost = []
    for study_id, head in noted.items():
        row = left.get(study_id)
        if row is None or row.head_seq < head.seq:
            lost.append(("" if row is None else row.name, head.seq, row.head_seq if row else 0))
    return lost


def _summary(row: StudyRow) -> StudySummary:
    family, policy = family_and_policy(row.spec_json)
    return StudySummary(
        name=row.name,
        status=row.status,
        events=row.head_seq,
        family=family,
        policy=policy,
        seed=int(row.seed),
        created_at=as_time(row.created_at).astimezone(UTC),
    )


# -------------------------------------------------------------------------- the file


def require_usable(path: Path, *, create: bool) -> None:
    """Raise if a database at this path would not work, or not safely."""
    if path.is_dir():
        raise StorageError(f"{path} is a folder; a storage is a file")
    if not path.parent.is_dir():
        raise StorageError(f"{path}: the folder {path.parent} does not exist")
    if not create and not path.exists():
        raise StorageError(f"{path}: there is no such file")
    require_local(path)
