"""Locks between the processes of one user on one machine, for work that only one should do."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["alone", "try_alone"]

_PAUSE = 0.05
"""Seconds between two attempts to get a lock."""

_POSITIONS = 2**30
"""A lock is a byte of one file; its position follows from its name."""

_THREADS = threading.RLock()
"""A process has each lock only once, so its threads take turns."""


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Wait until no other process is in a context of that name.

    Without a folder for temporary files that can be written, it waits for nobody.
    """
    with _THREADS, _opened() as file:
        position = _position_of(name)
        while file is not None and not _lock(file, position):
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            if file is not None:
                _unlock(file, position)


@contextmanager
def try_alone(name: str) -> Iterator[bool]:
    """Yield whether no other process is in a context of that name."""
    with _opened() as file:
        position = _position_of(name)
        is_alone = file is None or _lock(file, position)
        try:
            yield is_alone
        finally:
            if file is not None and is_alone:
                _unlock(file, position)


@contextmanager
def _opened() -> Iterator[IO[bytes] | None]:
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    path = Path(tempfile.gettempdir()) / f"fairtrial-{user}.lock"
    try:
        file = path.open("a+b")
    except OSError:
        yield None
        return
    with file:
        yield file


def _position_of(name: str) -> int:
    """Return the position of a lock; other installations have locks of their own."""
    digest = hashlib.sha256(f"{__file__}\n{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") % _POSITIONS


def _lock(file: IO[bytes], position: int) -> bool:
    """Take a lock if it is free; return whether it was."""
    try:
        if sys.platform == "win32":
            file.seek(position)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, position)
    except OSError:
        return False
    return True


def _unlock(file: IO[bytes], position: int) -> None:
    if sys.platform == "win32":
        file.seek(position)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, position)
