"""Where studies are kept: from an address to a store."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC
from pathlib import Path
from typing import Literal, get_args

from fairtrial.core.validation import check_choice
from fairtrial.errors import InvalidArgument, StorageError
from fairtrial.study.log import as_time
from fairtrial.study.store import Store, StudyRow, StudySummary

__all__ = [
    "Durability",
    "Storage",
    "list_studies",
    "network_file_system",
    "open_store",
    "parse_storage",
]

Storage = str | os.PathLike[str] | Store
"""``"sqlite:///trial.db"``, a path, ``"memory://"``, or a store that is open already."""

Durability = Literal["full", "process"]
"""What an acknowledged event survives: a loss of power, or only the end of the process."""

_MOUNTS = Path("/proc/self/mounts")

_NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("afs", "beegfs", "ceph", "cifs", "davfs", "glusterfs", "lustre", "ncpfs"),
        *("nfs", "nfs4", "smb3", "smbfs"),
        *("fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)


def parse_storage(storage: str | os.PathLike[str]) -> Path | None:
    """Return the file that an address means; None for a store in memory.

    Examples
    --------
    >>> parse_storage("sqlite:///trial.db").name
    'trial.db'
    >>> parse_storage("memory://") is None
    True
    """
    accepted = 'must be "sqlite:///file.db", a path, or "memory://"'
    if not isinstance(storage, str | os.PathLike):
        raise InvalidArgument("storage", accepted, storage)
    address = os.fspath(storage)
    file = address.removeprefix("sqlite:///") if address.startswith("sqlite:///") else address
    if address == "memory://" or file == ":memory:":
        return None
    if "://" in file or not file or "\0" in file:
        raise InvalidArgument("storage", accepted, storage)
    return Path(file)


def open_store(storage: Storage, durability: Durability = "full", *, create: bool = True) -> Store:
    """Return the store at an address; with `create` it may be a new one.

    Raises
    ------
    StorageError
        If it cannot be used: missing, unreadable, of a newer schema, on a network drive.
    """
    check_choice("durability", durability, get_args(Durability))
    if isinstance(storage, Store):
        return storage
    path = parse_storage(storage)
    from fairtrial.study.sqlite import SQLiteStore

    if path is not None:
        require_usable(path, create=create)
    return SQLiteStore(path, durability, create=create)


def list_studies(storage: Storage) -> list[StudySummary]:
    """Return what a storage holds, the oldest study first.

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


def _summary(row: StudyRow) -> StudySummary:
    spec = json.loads(row.spec_json)
    return StudySummary(
        name=row.name,
        status=row.status,
        events=row.head_seq,
        family=spec["problem"]["family"],
        policy=spec["policy"]["name"],
        seed=int(row.seed),
        created_at=as_time(row.created_at).astimezone(UTC),
    )


# -------------------------------------------------------------------------- the file


def require_usable(path: Path, *, create: bool) -> None:
    """Raise if a database at this path could not work, or not safely."""
    if path.is_dir():
        raise StorageError(f"{path} is a folder; a storage is a file")
    if not path.parent.is_dir():
        raise StorageError(f"{path}: the folder {path.parent} does not exist")
    if not create and not path.exists():
        raise StorageError(f"{path}: there is no such file")
    kind = network_file_system(path)
    if kind is not None:
        raise StorageError(
            f"{path} is on a network drive ({kind}), where the locks that SQLite relies on do "
            "not hold between machines and studies get lost; use a local disk"
        )


def network_file_system(path: Path) -> str | None:
    """Return the kind of network file system that holds the path; None if none is known to.

    It is known where the system lists its mounts (Linux); elsewhere nothing is detected.
    """
    try:
        text = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    target = path.resolve()
    mounts = [line.split() for line in text.splitlines()]
    kinds = {Path(_unescaped(mount[1])): mount[2] for mount in mounts if len(mount) > 2}
    holder = next((folder for folder in target.parents if folder in kinds), None)
    kind = kinds.get(holder) if holder is not None else None
    return kind if kind in _NETWORK_FILE_SYSTEMS else None


def _unescaped(text: str) -> str:
    """Return a mount point with its octal escapes (``040`` is a blank) undone."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
