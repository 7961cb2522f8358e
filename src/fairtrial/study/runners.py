"""Which drivers run a study now: so that pulls left open by a dead one are taken up again."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from fairtrial.errors import StorageError
from fairtrial.study.location import parse_storage

try:
    import fcntl
except ImportError:  # no such locks on this system: whoever runs takes all open pulls
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from fairtrial.study.pull import StudyPull
    from fairtrial.study.study import Study

__all__ = ["Runner", "driver_name", "joined"]

# Bytes of the lock file: one is held while joining and leaving, one while running.
_GATE, _RUNNING = 0, 1
_MARK = "driver "

# A process has one lock on a file, however often it takes it: it counts its own runners, by
# its number too, for a fork inherits the counter and no lock.
_HERE: Counter[tuple[object, ...]] = Counter()
_STREAMS: dict[tuple[object, ...], IO[bytes]] = {}
_DOOR = threading.Lock()


def driver_name() -> str:
    """Return what this process writes down as the worker of its pulls."""
    return f"{_MARK}{os.getpid()} on {socket.gethostname()[:100]}"


@contextmanager
def joined(study: Study) -> Iterator[Runner]:
    """Count as a runner of the study as long as the context lasts."""
    runner = Runner(study)
    try:
        yield runner
    finally:
        runner.leave()


class Runner:
    """One of those who run a study on this machine.

    Open pulls are taken up again only if nobody else runs the study here: they may be another
    runner's. Those that somebody asked for under a name of their own are left to them. The
    system drops the locks of a process that dies, however it dies.

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
                _enter(self._key, _file(study), study.name)
            _HERE[self._key] += 1

    def left_open(self) -> list[StudyPull]:
        """Return the pulls in flight, if there is no other runner whose they could be."""
        with _DOOR, _gate_closed(self._key) as stream:
            is_alone = _HERE[self._key] == 1 and (stream is None or _lock_alone(stream))
            if stream is not None:
                fcntl.lockf(stream, fcntl.LOCK_SH, 1, _RUNNING)
            return _anonymous(self._study) if is_alone else []

    def leave(self) -> None:
        """Run it no longer."""
        with _DOOR:
            _HERE[self._key] -= 1
            if not _HERE[self._key]:
                del _HERE[self._key]
                _leave(self._key)


def _key(study: Study) -> tuple[object, ...]:
    file = _file(study)
    place: object = id(study._store) if file is None else str(file)  # noqa: SLF001
    return os.getpid(), place, study.name


def _file(study: Study) -> Path | None:
    """Return the file that holds the study, if it is one that other processes can open."""
    with suppress(ValueError):
        place = parse_storage(study._store.url)  # noqa: SLF001
        return place if isinstance(place, Path) else None
    return None


def _anonymous(study: Study) -> list[StudyPull]:
    """Return the pulls in flight that nobody has put a name of their own to."""
    rows = study._store.open_pulls(study._session.id)  # noqa: SLF001
    return study._bound(  # noqa: SLF001
        [row for row in rows if row.worker is None or row.worker.startswith(_MARK)]
    )


# ------------------------------------------------------------------------ other processes


def _enter(key: tuple[object, ...], file: Path | None, name: str) -> None:
    """Let other processes know that this one runs the study."""
    if file is None or fcntl is None:
        return
    stream = _STREAMS[key] = _opened_at_the_gate(_lock_file(file, name))
    fcntl.lockf(stream, fcntl.LOCK_SH, 1, _RUNNING)
    fcntl.lockf(stream, fcntl.LOCK_UN, 1, _GATE)


@contextmanager
def _gate_closed(key: tuple[object, ...]) -> Iterator[IO[bytes] | None]:
    """Give the lock file, if there is one, while no other process joins or leaves."""
    stream = _STREAMS.get(key)
    if stream is None:
        yield None
        return
    fcntl.lockf(stream, fcntl.LOCK_EX, 1, _GATE)
    try:
        yield stream
    finally:
        fcntl.lockf(stream, fcntl.LOCK_UN, 1, _GATE)


def _leave(key: tuple[object, ...]) -> None:
    """Drop the locks; the last to leave removes the file."""
    stream = _STREAMS.pop(key, None)
    if stream is None:
        return
    with stream:
        fcntl.lockf(stream, fcntl.LOCK_EX, 1, _GATE)
        if _lock_alone(stream):
            Path(stream.name).unlink(missing_ok=True)


def _lock_file(file: Path, name: str) -> Path:
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return file.with_name(f"{file.name}-{digest}.running")


def _opened_at_the_gate(path: Path) -> IO[bytes]:
    """Open the lock file and hold its gate: nobody else joins or leaves meanwhile."""
    while True:
        try:
            stream = path.open("a+b")
            fcntl.lockf(stream, fcntl.LOCK_EX, 1, _GATE)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError(
                f"{path}, with the locks of the study's runners, cannot be opened: {reason}"
            ) from error
        # The last runner removes the file: ours may be the one that is no longer there.
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(stream.fileno())):
                return stream
        stream.close()


def _lock_alone(stream: IO[bytes]) -> bool:
    """Try to be the only runner, and return whether that is so."""
    try:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _RUNNING)
    except (BlockingIOError, PermissionError):
        return False
    return True
