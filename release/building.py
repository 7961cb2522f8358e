"""Build the wheel and the source distribution of a commit, the same bytes every time."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

__all__ = ["build", "checksum", "is_clean", "unpack_commit"]


def is_clean(root: Path) -> bool:
    """Return whether the commit has everything that is in the folder and not ignored."""
    return not _git(root, "status", "--porcelain")


def unpack_commit(root: Path, folder: Path) -> list[str]:
    """Write the files of the last commit into a folder, and return their names.

    Parameters
    ----------
    root : Path
        Folder of the repository.
    folder : Path
        An empty folder.

    Returns
    -------
    list of str
        The names, from the folder on.
    """
    with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", "HEAD"))) as files:
        files.extractall(folder, filter="data")
        return [one.name for one in files if one.isfile()]


def build(root: Path, source: Path, folder: Path) -> list[Path]:
    """Build both distributions, then both again: the wheel from the source distribution.

    Parameters
    ----------
    root : Path
        Folder of the repository, which tells the time of the commit.
    source : Path
        The files of the commit.
    folder : Path
        Where to put the distributions; emptied first.

    Returns
    -------
    list of Path
        The source distribution and the wheel.

    Raises
    ------
    ValueError
        If both builds differ in any byte.
    """
    time = _git(root, "log", "-1", "--format=%ct").decode().strip()
    made = _build(source, folder, time)
    with tempfile.TemporaryDirectory() as place:
        elsewhere = Path(place) / "elsewhere"
        shutil.copytree(source, elsewhere)
        again, _ = _build(elsewhere, Path(place) / "first", time)
        with tarfile.open(again) as files:
            files.extractall(Path(place) / "unpacked", filter="data")
        (unpacked,) = (Path(place) / "unpacked").iterdir()
        # The source distribution of a source distribution would list its metadata twice.
        _, wheel = _build(unpacked, Path(place) / "second", time)
        for first, second in zip(made, (again, wheel), strict=True):
            if checksum(first) != checksum(second):
                raise ValueError(f"{first.name} differs if it is built again")
    return made


def checksum(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _build(source: Path, folder: Path, time: str) -> list[Path]:
    if folder.exists():
        shutil.rmtree(folder)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": time},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return [*folder.glob("*.tar.gz"), *folder.glob("*.whl")]


def _git(root: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
