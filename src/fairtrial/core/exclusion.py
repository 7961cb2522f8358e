"""Locks between the processes of one user on one machine, for work that only one should do.

All locks of an installation are bytes of one empty file in the folder for temporary files.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["alone", "try_alone"]

_PAUSE = 0.05
"""Seconds between two attempts to get a lock."""

_PLACES = 2**31 - 1
"""How many bytes of the file can be locked; Windows knows no more."""

_THREADS = threading.RLock()
"""A process has each lock only once, so its threads take turns."""


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Wait until no other process is in a context of that name.

    Without a folder for temporary files in which files can be locked, it waits for nobody.
    """
    with _THREADS:
        while not _lock(name):
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            _unlock(name)


@contextmanager
def try_alone(name: str) -> Iterator[bool]:
    """Yield whether no other process is in a context of that name."""
    is_alone = _lock(name)
    try:
        yield is_alone
    finally:
        if is_alone:
            _unlock(name)


def _lock(name: str) -> bool:
    """Take a lock if it is free; return whether it was, or whether files have no locks here."""
    try:
        file = _file()
    except OSError:
        return True
    try:
        if sys.platform == "win32":
            os.lseek(file, _place_of(name), os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place_of(name))
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


def _unlock(name: str) -> None:
    with suppress(OSError):
        file = _file()
        if sys.platform == "win32":
            os.lseek(file, _place_of(name), os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
        else:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, _place_of(name))


def _place_of(name: str) -> int:
    """Return the byte of a lock: that two names share one is unlikely, and only makes one wait."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % _PLACES


def _file() -> int:
    """Return the open file of all locks; other users and installations have files of their own."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    own = hashlib.sha256(__file__.encode()).hexdigest()[:16]
    return _opened(Path(tempfile.gettempdir()) / f"fairtrial-{user}-{own}.lock")


@functools.cache
def _opened(path: Path) -> int:
    """Open a file once: closing it would release all locks that the process has on it."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
