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
_SECRET_OPTIONS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
_OTHER_FORMS = re.compile(
    # "host=... dbname=...", as libpq also accepts; "postgresql:..."; "user:password@host".
    r"(?:.*\s)?(?:host|hostaddr|port|dbname|user|password|service|sslmode)\s*=.*"
    r"|postgres(?:ql)?:.*"
    r"|[\w.%+-]+:[^/\\\s]*@.*",
    re.IGNORECASE | re.DOTALL,
)
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
            if option and not _is_secret(option.partition("=")[0])
        ]
        self.shown = f"postgresql://{user}{found['place']}{'?' * bool(options)}{'&'.join(options)}"
        """The address without a password."""

    def __repr__(self) -> str:
        return self.shown

    @staticmethod
    def begins(address: str) -> bool:
        """Return whether a text begins like an address of PostgreSQL."""
        return address.startswith(_SCHEMES)

    @staticmethod
    def is_meant(text: str) -> bool:
        """Return whether a text is another form of an address, perhaps with a password.

        Examples
        --------
        >>> ServerAddress.is_meant("host=db password=secret"), ServerAddress.is_meant("trial.db")
        (True, False)
        """
        return _OTHER_FORMS.fullmatch(text) is not None

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


def _is_secret(option: str) -> bool:
    return unquote(option).strip().lower() in _SECRET_OPTIONS


def without_passwords(address: str) -> str:
    """Return an address of any kind with possible passwords hidden.

    Examples
    --------
    >>> without_passwords("mysql://ana:secret@host/x?PASSWORD=secret&y=1")
    'mysql://***@host/x?PASSWORD=***&y=1'
    """
    hidden = re.sub(r"(:/*)[^\s]*@", r"\1***@", address)
    return re.sub(
        r"([\w%]+)(\s*=\s*)('[^']*'|[^&\s]*)",
        lambda found: f"{found[1]}{found[2]}***" if _is_secret(found[1]) else found[0],
        hidden,
    )
