"""On which machine, and with what, a study is written."""

from __future__ import annotations

import os
import platform
import socket
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["boot", "environment"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PROCESSORS = Path("/proc/cpuinfo")


@cache
def boot() -> str:
    """Return what tells this start of this machine from all others, and the machine's name.

    Processes with the same one share a kernel, and so the locks of files.
    """
    return f"{_boot_id()} {socket.gethostname()}"


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="utf-8").strip()
    except OSError:
        pass
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if found.returncode == 0:
            return found.stdout.strip().lower()
    return f"{uuid.getnode():012x}"


@cache
def environment() -> Mapping[str, str]:
    """Return what the last bits of a decision may depend on: versions and the processor."""
    from fairtrial import __version__

    return {
        "fairtrial": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: _version(name) for name in ("numpy", "scipy", "numba")},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        # It changes which of OpenBLAS's kernels is used, and so the last bits.
        **{name: os.environ[name] for name in ("OPENBLAS_CORETYPE",) if name in os.environ},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _processor() -> str:
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")
