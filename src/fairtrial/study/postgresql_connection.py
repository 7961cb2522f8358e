"""Connections to PostgreSQL that time out when the server is silent."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

import psycopg

__all__ = ["Connection", "connected"]

_Answer = TypeVar("_Answer")


class Connection(psycopg.Connection[Any]):
    """A connection that is closed if the server owes an answer and stays silent too long.

    A server that is suspended, or whose disk hangs, keeps its connections open: neither the
    network nor the server itself would end the wait.
    """

    patience = float("inf")

    def wait(self, gen: Generator[Any, Any, _Answer], *args: Any, **options: Any) -> _Answer:
        """Wait for the server's answer.

        Raises
        ------
        psycopg.OperationalError
            If the server stays silent.
        """
        try:
            return super().wait(_impatient(gen, self.patience), *args, **options)
        except _Silence:
            self.close()
            raise


class _Silence(psycopg.OperationalError):
    """The server did not answer."""


def connected(parameters: Mapping[str, str], patience: float) -> Connection:
    """Return a new connection in autocommit mode that times out after `patience` seconds.

    Raises
    ------
    psycopg.OperationalError
        If no connection can be made in time.
    """
    # Libpq takes whole seconds, at least two.
    limits = {"connect_timeout": str(min(10, max(2, round(patience))))}
    connection = Connection.connect(**{**limits, **parameters}, autocommit=True)  # type: ignore[arg-type]
    connection.patience = patience
    return connection


def _impatient(
    waiting: Generator[Any, Any, _Answer], patience: float
) -> Generator[Any, Any, _Answer]:
    """Wrap a generator of psycopg, and raise if the server stays silent too long."""
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
