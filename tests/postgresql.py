"""A PostgreSQL server for the tests: installed if necessary, started, restarted, stopped."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from tests.debian import install_once

USER = "experimenter"
PASSWORD = "open/sesame@ß#1"
"""It needs escapes in an address; no message may contain any part of it."""

_PROGRAMS = "/usr/lib/postgresql/*/bin/postgres"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "16MB",
    # No test cuts the power: what is written survives the end of the server.
    "fsync": "off",
    "full_page_writes": "off",
}


def installed() -> Path:
    """Return the folder with the server's programs; install them as root on Debian.

    For other users without the programs the test is skipped, because only root can install them.
    """
    found = _found()
    if found is not None:
        return found
    if os.geteuid() != 0:
        pytest.skip(f"PostgreSQL's server is not in {_PROGRAMS}, and only root can install it")
    install()
    found = _found()
    if found is None:
        pytest.fail(f"PostgreSQL's server is not in {_PROGRAMS}, and was not put there by apt-get")
    return found


def _found() -> Path | None:
    root, pattern = Path("/"), _PROGRAMS.removeprefix("/")
    versions = sorted(root.glob(pattern), key=lambda program: int(program.parts[4]))
    return versions[-1].parent if versions else None


def install() -> None:
    """Install the server as root on Debian, if it is missing; otherwise change nothing."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    # The run level tells Debian not to start a server by itself.
    install_once("postgresql", lambda: _found() is not None, RUNLEVEL="1")


class Server:
    """A server on a free port of the loopback interface, with its data in a temporary folder.

    Parameters
    ----------
    folder : Path
        An empty folder only for the server: it will belong to the user that runs the server.
    **settings : str
        Settings that differ from those of the tests.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self._settings = _SETTINGS | settings
        self.programs = installed()
        self._folder = folder
        # PostgreSQL refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._guard = self._guarded()
        self._numbers = count(1)
        self._secret = folder / "password"
        self._secret.write_text(PASSWORD)
        self._run(
            *("initdb", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"),
            *("--auth=scram-sha-256", "--username=postgres", f"--pwfile={self._secret}"),
        )
        self.port = free_port()
        self.start()
        with self.administrator() as connection:
            quoted = PASSWORD.replace("'", "''")
            connection.execute(f"CREATE ROLE {USER} LOGIN CREATEDB PASSWORD '{quoted}'")

    def _guarded(self) -> subprocess.Popen[bytes]:
        """Start a process that stops the server and removes its folder, even if this one is killed.

        It waits for the end of its input, which comes when this process closes it or ends.
        """
        script = 'cat; "$0" stop -w -m immediate -D "$1/data"; rm -rf "$1"'
        return subprocess.Popen(
            ["sh", "-c", script, self.programs / "pg_ctl", self._folder],
            user=self._user,
            group=self._user,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """Stop the server and remove its folder."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.programs / program, "-D", self._folder / "data", *arguments],
            user=self._user,
            group=self._user,
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program} failed:\n{done.stdout}\n{self._log()}"

    def _log(self) -> str:
        file = self._folder / "log"
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        settings = " ".join(f"-c {name}='{value}'" for name, value in self._settings.items())
        log = self._folder / "log"
        self._run("pg_ctl", "start", "-w", "-l", str(log), "-o", f"-p {self.port} {settings}")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: "fast" ends its sessions, "immediate" is a crash."""
        self._run("pg_ctl", "stop", "-w", "-m", mode)

    def restart(self, mode: str = "fast") -> None:
        """Stop the server and start it again on the same port."""
        self.stop(mode)
        self.start()

    def administrator(self, database: str = "postgres") -> psycopg.Connection:
        """Return a connection with all privileges."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=PASSWORD,
            dbname=database,
            autocommit=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        """Return environment variables with which PostgreSQL's own programs find the server."""
        place = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port)}
        return {**place, "PGUSER": USER, "PGPASSWORD": PASSWORD}

    def url(self, database: str, user: str = USER, password: str = PASSWORD) -> str:
        """Return the address of a database."""
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    @contextmanager
    def database(self, name: str | None = None, **options: str) -> Iterator[str]:
        """Yield the address of an empty database.

        At the end it is removed, with all roles that were created meanwhile: roles belong to the
        server, so that the next test would meet them.
        """
        name = name or f"trials_{next(self._numbers)}"
        extra = " ".join(f"{key} {value}" for key, value in options.items())
        with self.administrator() as connection:
            older = _roles(connection)
            connection.execute(f"CREATE DATABASE {name} OWNER {USER} {extra}")
        try:
            yield self.url(name)
        finally:
            # A new connection: the server may have been restarted.
            with self.administrator() as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
                for role in _roles(connection) - older:
                    connection.execute(f"DROP ROLE {role}")


def _roles(connection: psycopg.Connection) -> set[str]:
    return {role for (role,) in connection.execute("SELECT rolname FROM pg_roles")}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as place:
        return int(place.getsockname()[1])


@contextmanager
def running(**settings: str) -> Iterator[Server]:
    """Yield a server that runs until the context ends."""
    server = Server(Path(tempfile.mkdtemp(prefix="fairtrial-postgresql-")), **settings)
    try:
        yield server
    finally:
        server.close()
