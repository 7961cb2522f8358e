"""What one part measured, with everything that is needed to measure it again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

__all__ = ["RESULTS", "Record", "file_of", "here", "read_all", "sources"]

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "evidence" / "results"
_MEASURED = ("src", "papers", "evidence")
"""The folders that a figure depends on."""

Case = dict[str, Any]
"""The figures of one case, by name; a case without figures says why in `missing`."""


@dataclass(frozen=True)
class Record:
    """The cases of one part, and where they come from.

    Parameters
    ----------
    part : str
        Name of the part, such as ``"policies/linear.Rage"``.
    effort : float
        Seconds of processor time that each case was given.
    seed : int
        Source of all randomness.
    commit, sources : str
        The commit, and a checksum of the files that the figures depend on.
    date : str
        Day of the measurement.
    machine : dict
        Processor, cores, versions, and how many processes were running or waiting at the start.
    cases : list of dict
        The figures.
    processor_seconds : float, optional
        Processor time of the whole measurement, with the processes that it started.
    """

    part: str
    effort: float
    seed: int
    commit: str
    sources: str
    date: str
    machine: dict[str, Any]
    cases: list[Case] = field(default_factory=list)
    processor_seconds: float | None = None

    @property
    def command(self) -> str:
        """The command that measures this part."""
        return f"./dev evidence {self.part} --effort {self.effort:g} --seed {self.seed}"

    def write(self, folder: Path = RESULTS) -> None:
        """Write the record into its file."""
        file = file_of(self.part, folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"command": self.command, **asdict(self)}, indent=1, allow_nan=False)
        # A stop in the middle must not leave half a file.
        partial = file.with_suffix(".part")
        partial.write_text(f"{text}\n", encoding="utf-8")
        partial.replace(file)

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return the record of a file."""
        document = json.loads(file.read_text(encoding="utf-8"))
        document.pop("command")
        return cls(**document)


def file_of(part: str, folder: Path = RESULTS) -> Path:
    """Return the file that holds the record of a part.

    Examples
    --------
    >>> file_of("policies/linear.Rage", Path("results")).as_posix()
    'results/policies/linear.Rage.json'
    """
    return folder / f"{part}.json"


def read_all(folder: Path = RESULTS) -> dict[str, Record]:
    """Return all records by the names of their parts, in alphabetical order."""
    records = [Record.read(file) for file in sorted(folder.rglob("*.json"))]
    return {record.part: record for record in records}


def here() -> dict[str, Any]:
    """Return what is known of this machine and its libraries."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("numpy", "scipy", "numba")},
        "load": round(os.getloadavg()[0], 1),
    }


def new_record(part: str, effort: float, seed: int) -> Record:
    """Return a record of this moment, without cases."""
    today = datetime.now(UTC).date().isoformat()
    return Record(part, effort, seed, commit(), sources(), today, here())


@cache
def commit() -> str:
    """Return the commit of this run."""
    return _git("rev-parse", "HEAD")


@cache
def sources() -> str:
    """Return a checksum of all files that figures depend on, committed or not; "" without git."""
    trees = [_git("rev-parse", f"HEAD:{folder}") for folder in _MEASURED]
    changes = _git("status", "--porcelain", "--", *_MEASURED)
    return f"{''.join(tree[:8] for tree in trees)}{'+' if changes else ''}"


def _git(*arguments: str) -> str:
    """Return what git prints; nothing where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - the developer's own git
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
