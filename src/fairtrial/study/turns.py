"""Turns at writing a file: first come, first served, and the present holder is known."""

from __future__ import annotations

import errno
import os
import random
import socket
import struct
import sys
import threading
import time
import weakref
from pathlib import Path

from fairtrial.core.files import companion
from fairtrial.errors import StorageBusy, StorageError, StorageFull

__all__ = ["Turns"]

_LINE = 128
"""Length in bytes of the line that says whose turn it is."""
_CHECK_EVERY = 64
"""Number of turns after which to check that the file still exists, in addition to after waits."""


class Turns:
    """A lock that the processes of one machine get in the order in which they asked for it.

    SQLite's own lock has no queue, and file locks are not handed over: a process that has just
    released one may get it again before the next process wakes up, so others can wait for seconds.
    On Linux, each process therefore draws a ticket, and waits for the ticket before it: it keeps
    the byte of its ticket locked until its turn has come. On other systems, a process tries again
    after short random times. When a process ends for any reason, its ticket and turn are released.

    Parameters
    ----------
    database : Path
        The file to be written. The lock file beside it is never removed.
    timeout : float
        Seconds to wait for a turn before raising `StorageBusy`.
    """

    def __init__(self, database: Path, timeout: float) -> None:
        self._database = database
        self._path = database.with_name(f"{database.name}-lock")
        self._timeout = timeout
        self._holder = f"{os.getpid()} {socket.gethostname()}\n".encode()[:_LINE].ljust(_LINE)
        self._taken = 0
        self._is_waiting = False
        self._descriptor = self._opened()
        _all.add(self)

    def _opened(self) -> int:
        try:
            return companion(self._path, self._database)
        except OSError as error:
            kind = StorageFull if error.errno == errno.ENOSPC else StorageError
            raise kind(
                f"{self._path}, by which processes take turns at writing, cannot be opened: "
                f"{error.strerror}"
            ) from error

    def take(self) -> None:
        """Wait for this process's turn.

        Raises
        ------
        StorageBusy
            If another process keeps the turn longer than the timeout; the message names it.
        """
        deadline = time.monotonic() + self._timeout
        self._stop_waiting()
        while True:
            if _is_waited_for(self._descriptor) or not _lock(self._descriptor):
                self._wait(deadline)
            elif self._taken % _CHECK_EVERY:
                break
            if self._is_current():
                break
            # The lock file was removed, so later processes would lock another one.
            self._open_again()
        self._taken += 1
        _write_at(self._descriptor, self._holder)

    def give_back(self) -> None:
        """Release the turn for the next process; does nothing if it was not taken."""
        self._stop_waiting()
        _unlock(self._descriptor)

    def close(self) -> None:
        """Release the turn for good."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    @property
    def holder(self) -> str:
        """The present or last holder of the turn, in words."""
        try:
            process, host = self._path.read_text(encoding="utf-8", errors="replace").split()[:2]
        except (OSError, ValueError):
            return "another process"
        return f"process {process} on {host}"

    def _is_current(self) -> bool:
        try:
            there = os.stat(self._path)  # noqa: PTH116 - in every write, and three times as fast
            return os.path.samestat(os.fstat(self._descriptor), there)
        except FileNotFoundError:
            return False

    def _wait(self, deadline: float) -> None:
        # An interrupt can come at any moment, even just after the turn has come. While this is
        # set, releasing the turn also leaves the queue.
        self._is_waiting = True
        self._open_again()
        if not _came_in_time(self._descriptor, deadline):
            self._stop_waiting()
            raise StorageBusy(
                f"{self._database} was locked by another process for {self._timeout:g} s, "
                f"{self.holder}; nothing of this call was kept: try again, or end that process "
                "if it is stuck"
            )
        self._is_waiting = False

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self._open_again()
            self._is_waiting = False

    def _open_again(self) -> None:
        old, self._descriptor = self._descriptor, self._opened()
        os.close(old)


# --------------------------------------------------------------------------- waiting


class _PlaceInQueue(threading.Thread):
    """A place in the operating system's queue, which can be left at any time.

    Waiting in the queue cannot be interrupted, so a thread does it, with its own descriptor of the
    same open file. The turn is released once both descriptors are closed or either one unlocks it:
    a caller that closes its descriptor abandons the thread, which passes the turn on when it comes.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(name="fairtrial-turn", daemon=True)
        self._descriptor = os.dup(descriptor)
        # Not an `Event`, because one that is interrupted while waiting can stay locked for ever.
        self._has_come = threading.Lock()
        self._has_come.acquire()
        _all.add(self)

    def run(self) -> None:
        _queue(self._descriptor)
        self._has_come.release()
        self.close()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def wait(self, seconds: float) -> bool:
        """Return whether the turn came in time."""
        return self._has_come.acquire(timeout=max(seconds, 0))


def _came_in_time(descriptor: int, deadline: float) -> bool:
    """Wait until the descriptor is locked; return whether this happened in time."""
    if not _HAS_QUEUE:
        return _try_again_and_again(descriptor, deadline)
    place = _PlaceInQueue(descriptor)
    place.start()
    return place.wait(deadline - time.monotonic())


def _try_again_and_again(descriptor: int, deadline: float) -> bool:
    while not _lock(descriptor):
        if time.monotonic() >= deadline:
            return False
        time.sleep(random.uniform(0.0005, 0.005))  # noqa: S311
    return True


# ------------------------------------------------------------------ operating systems

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        os.lseek(descriptor, _LINE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LINE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        except OSError:
            return

    def _write_at(descriptor: int, line: bytes) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, line)
else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _write_at(descriptor: int, line: bytes) -> None:
        os.pwrite(descriptor, line, 0)


if sys.platform == "linux":
    _HAS_QUEUE = True
    # Bytes far beyond the end of the file: one for drawing tickets, then one for each ticket.
    _DRAW = 1 << 40
    _TICKETS = 1 << 41

    def _is_waited_for(descriptor: int) -> bool:
        """Return whether any process holds a ticket."""
        asked = _range(fcntl.F_WRLCK, _TICKETS, 0)
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
        return int(struct.unpack_from("h", found)[0]) != fcntl.F_UNLCK

    def _queue(descriptor: int) -> None:
        """Wait for the turn, behind all processes that wait already."""

        def lock(kind: int, byte: int) -> None:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, _range(kind, byte, 1))

        lock(fcntl.F_WRLCK, _DRAW)
        drawn = int.from_bytes(os.pread(descriptor, 8, _LINE), "little") + 1
        lock(fcntl.F_WRLCK, _TICKETS + drawn)
        os.pwrite(descriptor, drawn.to_bytes(8, "little"), _LINE)
        lock(fcntl.F_UNLCK, _DRAW)
        lock(fcntl.F_RDLCK, _TICKETS + drawn - 1)
        lock(fcntl.F_UNLCK, _TICKETS + drawn - 1)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        lock(fcntl.F_UNLCK, _TICKETS + drawn)

    def _range(kind: int, byte: int, length: int) -> bytes:
        return struct.pack("hhqqi", kind, os.SEEK_SET, byte, length, 0)
else:
    _HAS_QUEUE = False

    def _is_waited_for(descriptor: int) -> bool:  # noqa: ARG001 - elsewhere there is no queue
        return False

    def _queue(descriptor: int) -> None:
        raise NotImplementedError(f"a queue for {descriptor}")


_all: weakref.WeakSet[Turns | _PlaceInQueue] = weakref.WeakSet()


def _let_go_after_fork() -> None:
    # A child process shares the lock with its parent, and would keep it if the parent is killed.
    for one in list(_all):
        one.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_after_fork)
