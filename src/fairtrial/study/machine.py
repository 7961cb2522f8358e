"""The machine and the software that write a study."""

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

from fairtrial.version import __version__

__all__ = ["boot", "environment"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PROCESSORS = Path("/proc/cpuinfo")


@cache
def boot() -> str:
    """Return text that identifies this machine since its last start, with the machine's name.

    Processes with the same text share a kernel, and hence file locks.
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
    """Return what can affect the last bits of a decision: software versions and the processor."""
    return {
        "fairtrial": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: _version(name) for name in ("numpy", "scipy", "numba")},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        # This variable selects OpenBLAS's kernels, and so affects the last bits.
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
