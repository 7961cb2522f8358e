"""The address of a PostgreSQL database, shown without its password."""

from __future__ import annotations

import re
from urllib.parse import unquote

from fairtrial.errors import InvalidArgument

__all__ = ["ServerAddress", "without_passwords"]

_SCHEMES = ("postgresql:/", "postgres:/")
_FORM = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    r"(?P<place>[^@?#]*)(?:\?(?P<options>[^@#]*))?"
)
_SECRET_OPTIONS = frozenset({"password", "sslpassword"})
_ACCEPTED = (
    'must be "postgresql://user:password@host:port/database", where characters such as @ : / ? # '
    "in user and password are percent-encoded"
)


class ServerAddress:
    """The address of a PostgreSQL database.

    Parameters
    ----------
    address : str
        A connection URI, as defined by libpq, PostgreSQL's own client library. Missing parts come
        from the environment (``PGPASSWORD``, ``PGHOST``) or from ``~/.pgpass``.

    Raises
    ------
    InvalidArgument
        If it is not such a URI. The message does not repeat it, as it may contain a password.

    Examples
    --------
    >>> ServerAddress("postgresql://ana:secret@db.example/trials?sslmode=require")
    postgresql://ana@db.example/trials?sslmode=require
    """

    def __init__(self, address: str) -> None:
        found = _FORM.fullmatch(address)
        if found is None or "\0" in address:
            raise InvalidArgument("storage", _ACCEPTED)
        self._address = address
        user = "" if found["user"] is None else f"{found['user']}@"
        options = [
            option
            for option in (found["options"] or "").split("&")
            if option and unquote(option.partition("=")[0]) not in _SECRET_OPTIONS
        ]
        self.shown = f"postgresql://{user}{found['place']}{'?' * bool(options)}{'&'.join(options)}"
        """The address without a password."""

    def __repr__(self) -> str:
        return self.shown

    @staticmethod
    def begins(address: str) -> bool:
        """Return whether a text begins like an address of PostgreSQL."""
        return address.startswith(_SCHEMES)

    def parameters(self) -> dict[str, str]:
        """Return libpq's parameters in the address, including the password.

        Raises
        ------
        InvalidArgument
            If libpq does not understand it.
        """
        from psycopg import ProgrammingError  # noqa: PLC0415 - optional
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - optional

        try:
            return {name: str(value) for name, value in conninfo_to_dict(self._address).items()}
        except ProgrammingError:
            # Libpq's message, and the exception's context, would repeat parts of the address.
            accepted = "must have a host, port and options that PostgreSQL knows"
            raise InvalidArgument("storage", accepted, self.shown) from None


def without_passwords(address: str) -> str:
    """Return an address of any kind with possible passwords hidden.

    Examples
    --------
    >>> without_passwords("mysql://ana:secret@host/x?password=secret&y=1")
    'mysql://***@host/x?password=***&y=1'
    """
    hidden = re.sub(r"(:/+).*@", r"\1***@", address)
    return re.sub(r"(password=)[^&]*", r"\1***", hidden)
