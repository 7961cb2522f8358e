"""Files that hold people's data: private, whole or not there at all, and on the disk."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairtrial.errors import StorageError

__all__ = ["companion", "create_private", "replacing", "sync_folder"]

PRIVATE = 0o600
"""Permissions of new files: their owner may read and write them, nobody else."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file to write to, which takes the place of `path` once it is whole and on the disk.

    It lies beside `path` under a random name, readable by its owner only; so is `path` then.
    After an error `path` is what it was before.

    Raises
    ------
    StorageError
        If it cannot be written.
    """
    part: Path | None = None
    try:
        # mkstemp opens what was not there before, so it follows no link that somebody laid.
        descriptor, name = tempfile.mkstemp(
            prefix=f".{path.name[:100]}.", suffix=path.suffix, dir=path.parent
        )
        os.close(descriptor)
        part = Path(name)
        yield part
        _sync(part)
        part.replace(path)
        sync_folder(path.parent)
    except StorageError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{path} cannot be written: {reason}") from error
    finally:
        if part is not None:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def create_private(path: Path) -> bool:
    """Make an empty file that only its owner may read; return False if there is a file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE)
    except FileExistsError:
        return False
    os.close(descriptor)
    return True


def companion(path: Path, of: Path) -> int:
    """Return a descriptor of a file that may be read and written by those who may the other one.

    It is made if it is not there. A link is not followed.
    """
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
    with suppress(FileNotFoundError):
        return os.open(path, flags)
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, PRIVATE)
    except FileExistsError:
        return os.open(path, flags)
    if hasattr(os, "fchmod"):
        model = of.stat()
        os.fchmod(descriptor, stat.S_IMODE(model.st_mode))
        with suppress(OSError):
            # As SQLite does: what root writes belongs to whom the database belongs.
            os.fchown(descriptor, model.st_uid, model.st_gid)
    return descriptor


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows which files a folder has; Windows has no means to."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
