"""Connections to PostgreSQL that give a silent server up."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

import psycopg

__all__ = ["Connection", "connected"]

_Answer = TypeVar("_Answer")


class Connection(psycopg.Connection[Any]):
    """A connection that is closed if the server says nothing for some seconds while it should.

    A server that is stopped, or whose disk hangs, still keeps its connections: neither the network
    nor the server itself would end the wait.
    """

    patience = float("inf")

    def wait(self, gen: Generator[Any, Any, _Answer], *args: Any, **options: Any) -> _Answer:
        """Wait for the server.

        Raises
        ------
        psycopg.OperationalError
            If it says nothing.
        """
        try:
            return super().wait(_impatient(gen, self.patience), *args, **options)
        except _Silence:
            self.close()
            raise


class _Silence(psycopg.OperationalError):
    """The server did not answer."""


def connected(parameters: Mapping[str, str], patience: float) -> Connection:
    """Return a new connection in autocommit mode, whose server may be silent for so many seconds.

    Raises
    ------
    psycopg.OperationalError
        If none can be made in time.
    """
    # Libpq takes whole seconds, and no less than two.
    limits = {"connect_timeout": str(min(10, max(2, round(patience))))}
    connection = Connection.connect(**{**limits, **parameters}, autocommit=True)  # type: ignore[arg-type]
    connection.patience = patience
    return connection


def _impatient(
    waiting: Generator[Any, Any, _Answer], patience: float
) -> Generator[Any, Any, _Answer]:
    """Do what a generator of psycopg does, which is asked now and then whether it goes on."""
    try:
        wanted = next(waiting)
        heard = time.monotonic()
        while True:
            ready = yield wanted
            now = time.monotonic()
            if ready:
                heard = now
            elif now - heard > patience:
                raise _Silence(f"the server has not answered for {patience:g} s")
            wanted = waiting.send(ready)
    except StopIteration as end:
        answer: _Answer = end.value
        return answer
