"""The settings of a PostgreSQL session that decide what is read and written.

A server, a database, a role, the address or a connection pooler can change each of them. They are
set for the session, and again for every transaction that writes, because a pooler that shares
connections may have reset them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

from fairtrial.errors import StorageError
from fairtrial.study.postgresql_schema import NAMESPACE

__all__ = ["SessionSettings"]

_FIXED = {
    "search_path": NAMESPACE,
    # Every digit of a fraction; with fewer, a hash computed from it differs.
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    # The definitions of triggers are compared as texts.
    "quote_all_identifiers": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
}
_OF_CONNECTIONS = {
    # The locks of a machine that disappears are released after about 25 seconds.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
_SYNCHRONOUS = {"full": "on", "process": "off"}
_FLUSHING = ("fsync", "full_page_writes")
"""Settings of the server without which a commit may not survive a power failure."""


class SessionSettings:
    """Sets up sessions, and begins transactions, so that every server reads and writes the same.

    Parameters
    ----------
    where : str
        The name of the database in messages.
    durability : {"full", "process"}
        Whether commits wait for a flush.
    busy_timeout : float
        Seconds to wait for a lock.

    Attributes
    ----------
    not_flushed : list of str
        Settings of the server that break the promise of ``"full"``.
    begin : str
        The statements that begin a transaction with these settings.
    """

    def __init__(self, where: str, durability: str, busy_timeout: float) -> None:
        self._where = where
        self._durability = durability
        self._settings = {**_FIXED, "lock_timeout": f"{round(busy_timeout * 1000)}ms"}
        self.not_flushed: list[str] = []
        self.begin = _beginning(self._settings)

    def apply(self, connection: psycopg.Connection[Any]) -> None:
        """Set the parameters of a new session, and check those of the server.

        Raises
        ------
        StorageError
            If the database cannot hold every text.
        """
        [(encoding, synchronous, *flushing)] = connection.execute(
            "SELECT current_setting('server_encoding'), current_setting('synchronous_commit'), "
            "current_setting('fsync'), current_setting('full_page_writes')"
        )
        if encoding != "UTF8":
            raise StorageError(
                f"{self._where}: the database's encoding is {encoding}, and names may be in any "
                "script: create it with the encoding UTF8"
            )
        # An administrator may choose more than "on"; anything less would break "full".
        if self._durability == "process" or synchronous == "off":
            synchronous = _SYNCHRONOUS[self._durability]
        if self._durability == "full":
            self.not_flushed = [
                name for name, value in zip(_FLUSHING, flushing, strict=True) if value == "off"
            ]
        self._settings["synchronous_commit"] = synchronous
        self.begin = _beginning(self._settings)
        for item in {**self._settings, **_OF_CONNECTIONS}.items():
            connection.execute("SELECT set_config(%s, %s, false)", item)


def _beginning(settings: Mapping[str, str]) -> str:
    local = (f"SET LOCAL {name} = '{value}'" for name, value in settings.items())
    return "; ".join(("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", *local))
