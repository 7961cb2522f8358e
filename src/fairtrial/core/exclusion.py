"""Locks between the processes of one user on one machine, for work that only one should do."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["alone", "try_alone"]

_PAUSE = 0.05
"""Seconds between two attempts to get a lock."""

_THREADS = threading.RLock()
"""A process has each lock only once, so its threads take turns."""


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Wait until no other process is in a context of that name.

    Without a folder for temporary files in which files can be locked, it waits for nobody.
    """
    with _THREADS, _opened(name) as file:
        while file is not None and not _lock(file):
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            if file is not None:
                _unlock(file)


@contextmanager
def try_alone(name: str) -> Iterator[bool]:
    """Yield whether no other process is in a context of that name."""
    with _opened(name) as file:
        is_alone = file is None or _lock(file)
        try:
            yield is_alone
        finally:
            if file is not None and is_alone:
                _unlock(file)


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes] | None]:
    """Open the file of a lock; other users and other installations have files of their own.

    Each lock has a file to itself, because closing a file releases all locks that a process has
    on it.
    """
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    own = hashlib.sha256(f"{__file__}\n{name}".encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"fairtrial-{user}-{own}.lock"
    try:
        file = path.open("a+b")
    except OSError:
        yield None
        return
    with file:
        yield file


def _lock(file: IO[bytes]) -> bool:
    """Take a lock if it is free; return whether it was, or whether files have no locks here."""
    try:
        if sys.platform == "win32":
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


def _unlock(file: IO[bytes]) -> None:
    with suppress(OSError):
        if sys.platform == "win32":
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            fcntl.lockf(file, fcntl.LOCK_UN)
