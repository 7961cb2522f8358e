"""PgBouncer between a study and its PostgreSQL server, for the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.debian import install_once
from tests.postgresql import PASSWORD, USER, free_port

_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = scram-sha-256
auth_file = {folder}/users.txt
logfile = {folder}/log
unix_socket_dir =
pool_mode = {mode}
"""
_STARTS_WITHIN = 20.0


@contextmanager
def pooled(url: str, folder: Path, mode: str) -> Iterator[str]:
    """Yield the address of a database behind a pooler, which runs until the context ends."""
    program, port, server = _installed(), free_port(), url.rpartition(":")[2].partition("/")[0]
    (folder / "users.txt").write_text(f'"{USER}" "{PASSWORD}"\n')
    settings = folder / "pgbouncer.ini"
    settings.write_text(_SETTINGS.format(server=server, port=port, folder=folder, mode=mode))
    # PgBouncer refuses to run as root.
    owner = "nobody" if os.geteuid() == 0 else None
    if owner is not None:
        for place in (folder, *folder.iterdir()):
            shutil.chown(place, owner)
    process = subprocess.Popen([program, "--quiet", settings.name], cwd=folder, user=owner)
    try:
        _wait_for(port)
        yield url.replace(f":{server}/", f":{port}/")
    finally:
        process.terminate()
        process.wait()


def _installed() -> str:
    """Return the program; install it as root on Debian, or skip the test."""

    def found() -> str | None:
        return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")

    if found() is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            pytest.skip("PgBouncer is not installed, and only root can install it")
        # The run level tells Debian not to start it by itself.
        install_once("pgbouncer", lambda: found() is not None, RUNLEVEL="1")
    program = found()
    if program is None:
        pytest.fail("apt-get did not install pgbouncer")
    return program


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
