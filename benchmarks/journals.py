"""Speed of a study's writes in SQLite, by driver, journal and way of checkpointing.

    python benchmarks/journals.py [--writes N] [--rounds N] [--folder PATH]

Each write is that of a fused `tell` and `ask`: two events, two pulls and the head. The cases
alternate, round by round. It prints the median rounds, in writes per second. `apsw` is measured if
it is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import secrets
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fairtrial.study.schema import STEPS

EVENT = f"INSERT INTO event VALUES ({', '.join('?' * 15)})"
PULL = f"INSERT OR REPLACE INTO pull VALUES ({', '.join('?' * 13)})"
HEAD = "UPDATE study SET head_seq = ?, head_hash = ? WHERE id = 1"
CHECKPOINT_EVERY = 400
"""Number of events after which the write-ahead log is moved to the file."""


def standard(path: Path) -> Any:
    return sqlite3.connect(path, isolation_level=None)


def bundled(path: Path) -> Any:
    import apsw

    return apsw.Connection(str(path))


class Case:
    """A database with one way of writing."""

    def __init__(self, path: Path, connect: Callable[[Path], Any], journal: str, sync: str) -> None:
        own = journal == "OWN"
        self.db = connect(path)
        mode = "WAL" if own else journal
        self.db.execute(f"PRAGMA journal_mode = {mode}").fetchall()
        self.db.execute(f"PRAGMA synchronous = {sync}")
        self.db.execute("PRAGMA cache_size = -16000")
        for statement in (part for step in STEPS[:1] for part in step):
            self.db.execute(statement)
        self.db.execute("INSERT INTO study VALUES (1,'a','{}','','1',1,'1',0,'running',0,'',0)")
        if own:
            self.db.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        self.lock = os.open(f"{path}-lock", os.O_CREAT | os.O_RDWR, 0o600) if own else None
        self.seq = 0

    def write(self) -> None:
        """Write two events, like a fused call."""
        if self.lock is not None:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.db.execute("BEGIN IMMEDIATE")
        rows = [self._event(), self._event()]
        self.db.executemany(EVENT, rows)
        self.db.executemany(PULL, [self._pull(row) for row in rows])
        self.db.execute(HEAD, (self.seq, "0" * 64))
        self.db.execute("COMMIT")
        if self.lock is not None:
            if self.seq % CHECKPOINT_EVERY < 2:
                self.db.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
            fcntl.flock(self.lock, fcntl.LOCK_UN)

    def _event(self) -> tuple[Any, ...]:
        self.seq += 1
        key = secrets.token_hex(16)
        named = (1, self.seq, "tell", key, self.seq, 1, 0, 0.5, None, None, self.seq)
        return (*named, None, None, None, "0" * 64)

    def _pull(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return (1, row[3], row[4], 1, 0, "told", None, None, None, row[1], row[1], row[1], None)


def cases(folder: Path, sync: str) -> Iterator[tuple[str, Case]]:
    drivers: list[tuple[str, Any]] = [(f"sqlite3 {sqlite3.sqlite_version}", standard)]
    try:
        import apsw

        drivers.append((f"apsw {apsw.sqlite_lib_version()}", bundled))
    except ImportError:
        pass
    for name, connect in drivers:
        for journal, title in {
            "WAL": "write-ahead log, SQLite's own checkpoints",
            "OWN": "write-ahead log, checkpoints in our own turn",
            "PERSIST": "rollback journal",
        }.items():
            case = Case(folder / f"{name}-{journal}-{sync}.db", connect, journal, sync)
            yield f"{name}, {title}", case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writes", type=int, default=1_000, help="writes a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=None, help="where to write (a temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for title, sync in (("process", "NORMAL"), ("full", "FULL")):
            print(f'durability="{title}"')
            compare(list(cases(Path(folder), sync)), options.writes, options.rounds)


def compare(found: list[tuple[str, Case]], writes: int, rounds: int) -> None:
    wall: dict[str, list[float]] = {name: [] for name, _ in found}
    cpu: dict[str, list[float]] = {name: [] for name, _ in found}
    for _ in range(rounds):
        for name, case in found:
            start, start_cpu = time.perf_counter(), time.process_time()
            for _ in range(writes):
                case.write()
            wall[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - start_cpu)
    for name, _ in found:
        rate = writes / statistics.median(wall[name])
        micro = statistics.median(cpu[name]) / writes * 1e6
        print(f"  {name:<66}{rate:8,.0f} writes/s{micro:8.0f} us of CPU", flush=True)


if __name__ == "__main__":
    main()
