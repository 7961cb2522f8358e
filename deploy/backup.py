"""Back up a storage while it is in use, and check the copy.

    python deploy/backup.py STORAGE FOLDER

STORAGE is sqlite:///FILE or postgresql://... (its password comes from PGPASSWORD or ~/.pgpass).
The copy shows the storage at one moment, and only its owner can read it; its name is printed. An
SQLite copy is audited at once: every log in it is replayed. To audit a dump of PostgreSQL, restore
it into another database, as docs/how-to/scale-out.md describes.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from fairtrial.study import Study, list_studies


def main(storage: str, folder: str) -> None:
    """Make the copy and print its name."""
    os.umask(0o077)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    if storage.startswith("sqlite:///"):
        copy = place / f"studies-{moment}.db"
        _finish(copy, lambda part: copy_file(Path(storage.removeprefix("sqlite:///")), part))
        audit(f"sqlite:///{copy}")
    elif storage.startswith(("postgresql://", "postgres://")):
        copy = place / f"studies-{moment}.dump"
        _finish(copy, lambda part: dump(storage, part))
    else:
        sys.exit("STORAGE must begin with sqlite:/// or postgresql://")
    print(copy)


def copy_file(source: Path, target: Path) -> None:
    """Copy an SQLite file as it is at one moment, even if it is written meanwhile."""
    # Read-only, so that a mistyped name does not create a database.
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)


def dump(storage: str, target: Path) -> None:
    """Dump fairtrial's tables from PostgreSQL as they are at one moment."""
    what = ["--format=custom", "--schema=fairtrial", f"--file={target}", f"--dbname={storage}"]
    subprocess.run(["pg_dump", *what], check=True)
    subprocess.run(["pg_restore", "--list", str(target)], check=True, stdout=subprocess.DEVNULL)


def audit(storage: str) -> None:
    """Replay every log of a copy; exit with status 1 if one does not verify."""
    for each in list_studies(storage):
        with Study.open(storage, each.name) as study:
            found = study.verify()
            print(f"{each.name}: head {study.head_hash}", file=sys.stderr)
        if not found.ok:
            sys.exit(f"{each.name}: {found}")


def _finish(copy: Path, make: Callable[[Path], None]) -> None:
    """Make the copy, and give it its name once it is complete and on the disk."""
    part = copy.with_name(f"{copy.name}.part")
    make(part)
    descriptor = os.open(part, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    part.rename(copy)
    folder = os.open(copy.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
