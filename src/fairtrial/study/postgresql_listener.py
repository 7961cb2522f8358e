"""A connection to PostgreSQL that listens for writes of other processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import psycopg

from fairtrial.study.postgresql_connection import connected

__all__ = ["NotificationListener"]

_SLICE = 0.5
"""Seconds that one thread listens for all threads; the others wait for it."""


class NotificationListener:
    """Counts the notifications of other connections, from the first time they are needed.

    Parameters
    ----------
    parameters : mapping
        The parameters of the connection.
    channel : str
        The channel of the notifications.
    patience : float
        Seconds that the server may take to answer.
    own : callable
        Returns the server's process number of the connection whose notifications do not count.
    """

    def __init__(
        self,
        parameters: Mapping[str, str],
        channel: str,
        patience: float,
        own: Callable[[], int],
    ) -> None:
        self._parameters = parameters
        self._channel = channel
        self._patience = patience
        self._own = own
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._heard = 0

    @property
    def heard(self) -> int:
        """How often a notification of others arrived, or may have been missed."""
        if self._connection is None:
            with self._lock:
                self._connect()
        return self._heard

    def listen(self, seconds: float) -> None:
        """Wait for the next notification, even our own, for at most that many seconds."""
        heard = self._heard
        if not self._lock.acquire(timeout=min(seconds, _SLICE)):
            return
        try:
            if self._heard != heard:
                return
            self._connect()
            if self._connection is None:
                time.sleep(min(seconds, _SLICE))
                return
            for note in self._connection.notifies(timeout=min(seconds, _SLICE), stop_after=1):
                if note.pid != self._own():
                    self._heard += 1
        except psycopg.Error:
            self._drop()
        finally:
            self._lock.release()

    def _connect(self) -> None:
        """Connect if possible; count once, because earlier notifications may have been missed."""
        if self._connection is not None:
            return
        with suppress(psycopg.Error):
            connection = connected(self._parameters, self._patience)
            connection.execute(f"LISTEN {self._channel}")
            self._connection = connection
            self._heard += 1

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close the connection."""
        with suppress(psycopg.Error):
            self._drop()
