"""Which file systems support SQLite's locks: those on disks of this machine."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fairtrial.errors import StorageError

__all__ = ["OVERRIDE", "file_system", "require_local"]

OVERRIDE = "FAIRTRIAL_LOCAL_FILE_SYSTEMS"
"""Environment variable with further file systems known to be local, separated by commas."""

_MOUNTS = Path("/proc/self/mounts")

_LOCAL = frozenset(
    {
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "nilfs2", "bcachefs"),
        *("reiserfs", "tmpfs", "ramfs", "overlay", "aufs", "squashfs", "erofs", "iso9660", "udf"),
        *("ntfs", "ntfs3", "fuseblk", "exfat", "vfat", "msdos", "hfs", "hfsplus", "apfs", "ufs"),
        *("ecryptfs", "fuse.gocryptfs", "fuse.ext4", "fuse.fuse-overlayfs"),
    }
)
"""Kinds whose locks work between all processes, and that no other machine can write."""

_WINDOWS_KINDS = {0: "unknown", 1: "unknown", 4: "network"}


def require_local(path: Path) -> None:
    """Raise unless only this machine can write to the file system of a path.

    Raises
    ------
    StorageError
        Names the kind of file system, and how to declare it local.
    """
    kind = file_system(path)
    trusted = {name.strip() for name in os.environ.get(OVERRIDE, "").split(",")}
    if kind in _LOCAL or kind in trusted:
        return
    raise StorageError(
        f"{path} is on a file system of the kind {kind!r}, which is not known to be a disk of "
        "this machine: on network drives the locks that SQLite relies on do not hold between "
        "machines, and studies get lost; use a local disk, or set the environment variable "
        f"{OVERRIDE}={kind} if only this machine can write there"
    )


def file_system(path: Path) -> str:
    """Return the kind of file system that holds a path; "unknown" if it cannot be found out."""
    target = path.resolve()
    if sys.platform == "win32":
        return _of_windows_drive(target)
    mounts = dict(_listed() if sys.platform.startswith("linux") else _printed(_mount_command()))
    holder = next((folder for folder in target.parents if folder in mounts), None)
    return "unknown" if holder is None else mounts[holder]


def _listed() -> Iterator[tuple[Path, str]]:
    """Yield mount points and kinds as Linux lists them; the last of several mounts counts."""
    try:
        text = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    for line in text.splitlines():
        words = line.split()
        if len(words) > 2:
            yield Path(_unescaped(words[1])), words[2]


def _unescaped(text: str) -> str:
    """Return a mount point with its octal escapes (``040`` is a space) undone."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _mount_command() -> str:
    found = subprocess.run(["/sbin/mount"], capture_output=True, text=True, check=False)
    return found.stdout


def _printed(text: str) -> Iterator[tuple[Path, str]]:
    """Yield mount points and kinds as macOS and BSD print them, with what they call local.

    A line has the form ``/dev/disk3s1 on / (apfs, local, journaled)``.
    """
    for line in text.splitlines():
        found = re.fullmatch(r".*? on (.*) \(([^()]*)\)", line)
        if found is not None:
            kind, *options = found[2].split(", ")
            yield Path(found[1]), "apfs" if "local" in options else kind


def _of_windows_drive(path: Path) -> str:
    windows = ctypes.windll.kernel32  # type: ignore[attr-defined, unused-ignore]
    kind = int(windows.GetDriveTypeW(f"{path.anchor}"))
    return _WINDOWS_KINDS.get(kind, "ntfs")
