"""Files that hold personal data: private, written completely or not at all, and synced to disk."""

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
"""Permissions of new files: only their owner may read and write them."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file to write; it replaces `path` once it is complete and on disk.

    It is created beside `path` under a random name, readable only by its owner, and `path` is then
    readable only by its owner, too. After an error `path` is unchanged.

    Raises
    ------
    StorageError
        If the file cannot be written.
    """
    part: Path | None = None
    try:
        # mkstemp opens only a file that did not exist before, so it follows no planted link.
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
    """Create an empty file that only its owner can read; return False if the file exists."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE)
    except FileExistsError:
        return False
    os.close(descriptor)
    return True


def companion(path: Path, of: Path) -> int:
    """Return a descriptor of a file that has the same permissions as another file.

    The file is created if it does not exist. A link is not followed.
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
            # As SQLite does: files that root creates get the owner of the database.
            os.fchown(descriptor, model.st_uid, model.st_gid)
    return descriptor


def sync_folder(folder: Path) -> None:
    """Wait until the list of files in a folder is on disk; Windows cannot do this."""
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
