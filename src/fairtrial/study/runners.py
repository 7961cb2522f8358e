"""Find out which drivers run a study, so that pulls left open by a dead one are carried out."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

from fairtrial.errors import StorageError
from fairtrial.study.location import parse_storage
from fairtrial.study.pull import StudyPull
from fairtrial.study.study import Study

try:
    import fcntl
except ImportError:  # this system has no such locks: every runner takes all open pulls
    fcntl = None  # type: ignore[assignment]

__all__ = ["Runner", "SharedStore", "driver_name", "joined"]

# Bytes of the lock file: one is locked while joining or leaving, the other while running.
_GATE, _RUNNING = 0, 1
_MARK = "driver "

# A process counts once, however many runners it has. The key includes the process number, because
# a forked process inherits the counter but not the locks.
_HERE: Counter[tuple[object, ...]] = Counter()
_PRESENT: dict[tuple[object, ...], SharedStore] = {}
_DOOR = threading.Lock()


def driver_name() -> str:
    """Return the name that this process records as the worker of its pulls."""
    return f"{_MARK}{os.getpid()} on {socket.gethostname()[:100]}"


@contextmanager
def joined(study: Study) -> Iterator[Runner]:
    """Register as a runner of the study as long as the context lasts."""
    runner = Runner(study)
    try:
        yield runner
    finally:
        runner.leave()


class Runner:
    """One of the runners of a study: on this machine, or through one server.

    Open pulls are carried out again only if there is no other runner, because they might be
    another runner's. Pulls that were requested under a worker's own name are left to that worker.
    When a process dies, the operating system or the server releases its locks.

    Parameters
    ----------
    study : Study
        The study.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._key = _key(study)
        with _DOOR:
            if not _HERE[self._key]:
                _enter(self._key, study)
            _HERE[self._key] += 1

    def left_open(self) -> list[StudyPull]:
        """Return the open pulls if there is no other runner that could be working on them."""
        with _DOOR, _others_kept_out(self._key) as no_others:
            is_alone = _HERE[self._key] == 1 and no_others
            return _anonymous(self._study) if is_alone else []

    def leave(self) -> None:
        """Unregister this runner."""
        with _DOOR:
            _HERE[self._key] -= 1
            if not _HERE[self._key]:
                del _HERE[self._key]
                present = _PRESENT.pop(self._key, None)
                if present is not None:
                    present.leave(self._study.name)


def _key(study: Study) -> tuple[object, ...]:
    file = _file(study)
    place: object = id(study._store) if file is None else str(file)  # noqa: SLF001
    return os.getpid(), place, study.name


def _file(study: Study) -> Path | None:
    """Return the file of the study, if other processes can open it."""
    with suppress(ValueError):
        place = parse_storage(study._store.url)  # noqa: SLF001
        return place if isinstance(place, Path) else None
    return None


def _anonymous(study: Study) -> list[StudyPull]:
    """Return the open pulls that were not requested under a worker's own name."""
    rows = study._store.open_pulls(study._session.id)  # noqa: SLF001
    return study._bound(  # noqa: SLF001
        [row for row in rows if row.worker is None or row.worker.startswith(_MARK)]
    )


# ------------------------------------------------------------------------ other processes


@runtime_checkable
class SharedStore(Protocol):
    """A store that knows which processes run a study."""

    def enter(self, name: str) -> None:
        """Register this process as one that runs the study, as long as it is connected."""

    def alone(self, name: str) -> AbstractContextManager[bool]:
        """Yield whether no other process runs it; while the context lasts, none can join."""

    def leave(self, name: str) -> None:
        """Unregister this process as one that runs the study."""


def _enter(key: tuple[object, ...], study: Study) -> None:
    """Let other processes that can open the study know that this one runs it."""
    store, file = study._store, _file(study)  # noqa: SLF001
    present: SharedStore
    if isinstance(store, SharedStore):
        present = store
    elif file is not None and fcntl is not None:
        present = _LockFile(file)
    else:
        return
    present.enter(study.name)
    _PRESENT[key] = present


@contextmanager
def _others_kept_out(key: tuple[object, ...]) -> Iterator[bool]:
    """Yield whether no other process runs the study; meanwhile none can join or leave."""
    present = _PRESENT.get(key)
    if present is None:
        yield True
        return
    with present.alone(str(key[-1])) as no_others:
        yield no_others


class _LockFile:
    """Registration as a runner of one study, through locks on a file beside the study's file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._path: Path
        self._stream: IO[bytes]

    def enter(self, name: str) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        self._path = self._file.with_name(f"{self._file.name}-{digest}.running")
        self._stream = _opened_at_the_gate(self._path)
        fcntl.lockf(self._stream, fcntl.LOCK_SH, 1, _RUNNING)
        fcntl.lockf(self._stream, fcntl.LOCK_UN, 1, _GATE)

    @contextmanager
    def alone(self, _: str) -> Iterator[bool]:
        fcntl.lockf(self._stream, fcntl.LOCK_EX, 1, _GATE)
        try:
            yield _lock_alone(self._stream)
        finally:
            fcntl.lockf(self._stream, fcntl.LOCK_SH, 1, _RUNNING)
            fcntl.lockf(self._stream, fcntl.LOCK_UN, 1, _GATE)

    def leave(self, _: str) -> None:
        """Release the locks; the last process to leave removes the file."""
        with self._stream as stream:
            fcntl.lockf(stream, fcntl.LOCK_EX, 1, _GATE)
            if _lock_alone(stream):
                self._path.unlink(missing_ok=True)


def _opened_at_the_gate(path: Path) -> IO[bytes]:
    """Open the lock file and lock its gate, so that no other process joins or leaves meanwhile."""
    while True:
        try:
            stream = path.open("a+b")
            fcntl.lockf(stream, fcntl.LOCK_EX, 1, _GATE)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError(
                f"{path}, with the locks of the study's runners, cannot be opened: {reason}"
            ) from error
        # The last runner removes the file, so ours may have been deleted after it was opened.
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(stream.fileno())):
                return stream
        stream.close()


def _lock_alone(stream: IO[bytes]) -> bool:
    """Try to become the only runner; return whether this succeeded."""
    try:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _RUNNING)
    except (BlockingIOError, PermissionError):
        return False
    return True
