"""Debian programs that tests need: installed once, by the process that comes first."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def install_once(package: str, is_there: Callable[[], bool], **environment: str) -> None:
    """Install a package as root if it is missing; print what went wrong."""
    with (Path(tempfile.gettempdir()) / f"fairtrial-installs-{package}").open("w") as lock:
        # Parallel test processes wait for the first one.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_there():
            return
        print(f"installing {package} (once)", file=sys.stderr)
        for command in (["update"], ["install", "-y", "--no-install-recommends", package]):
            done = subprocess.run(
                ["apt-get", "-q", *command],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                print(done.stdout, file=sys.stderr)
