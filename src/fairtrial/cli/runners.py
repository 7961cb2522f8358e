"""Which processes run a study now: so that pulls left open by a dead one are taken up again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from fairtrial.study.location import parse_storage

try:
    import fcntl
except ImportError:  # no such locks on this system: whoever runs takes all open pulls
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from fairtrial.study import Study, StudyPull

__all__ = ["joined"]

# Bytes of the lock file: one is held while joining and leaving, one while running.
_GATE, _RUNNING = 0, 1


@contextmanager
def joined(study: Study, storage: str) -> Iterator[list[StudyPull]]:
    """Count as a runner of the study; give the pulls that others left open when they died.

    Open pulls are taken up again only if nobody else runs the study on this machine: they may
    be another runner's. The system drops the locks of a process that dies, however it dies.
    """
    file = parse_storage(storage)
    if file is None or fcntl is None:
        yield study.outstanding()
        return
    path = _lock_file(file, study.name)
    with _opened_at_the_gate(path) as stream:
        left_open = study.outstanding() if _lock_alone(stream) else []
        fcntl.lockf(stream, fcntl.LOCK_SH, 1, _RUNNING)
        fcntl.lockf(stream, fcntl.LOCK_UN, 1, _GATE)
        try:
            yield left_open
        finally:
            fcntl.lockf(stream, fcntl.LOCK_EX, 1, _GATE)
            if _lock_alone(stream):
                path.unlink(missing_ok=True)


def _lock_file(file: Path, name: str) -> Path:
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return file.with_name(f"{file.name}-{digest}.running")


def _opened_at_the_gate(path: Path) -> IO[bytes]:
    """Open the lock file and hold its gate: nobody else joins or leaves meanwhile."""
    while True:
        stream = path.open("a+b")
        fcntl.lockf(stream, fcntl.LOCK_EX, 1, _GATE)
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
