"""Addresses of services, and the rules for sending them a token."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

from fairtrial.errors import InvalidArgument

__all__ = ["ServiceAddress", "is_loopback", "is_service", "parse_address"]

_ACCEPTED = "must be the address of a service, such as https://trials.example.org"


class ServiceAddress(NamedTuple):
    """A checked address without a trailing slash, and whether the connection is encrypted."""

    url: str
    is_encrypted: bool


def is_service(storage: object) -> bool:
    """Return whether an address belongs to a service, instead of a file or database.

    Examples
    --------
    >>> is_service("https://trials.example.org"), is_service("sqlite:///trial.db")
    (True, False)
    """
    return isinstance(storage, str) and storage.lower().startswith(("http://", "https://"))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by a name or address that never leaves it.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("192.0.2.7")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_address(url: object, *, allow_plain: bool = False) -> ServiceAddress:
    """Return the address of a service; raise if it is invalid or not safe.

    Parameters
    ----------
    url : str
        ``https://host``, optionally with a port and a path; ``http://`` only for this machine.
    allow_plain : bool
        Whether to accept ``http://`` to another machine, although anyone in between can read the
        token.

    Raises
    ------
    InvalidArgument
        If it is not such an address.

    Examples
    --------
    >>> parse_address("http://127.0.0.1:8765/").url
    'http://127.0.0.1:8765'
    >>> parse_address("http://192.0.2.7")
    Traceback (most recent call last):
        ...
    fairtrial.errors.InvalidArgument: url must begin with https://, because http:// sends the \
token and the results unencrypted to 192.0.2.7; use https://, or pass allow_plain=True if the \
network between is yours
    """
    if not isinstance(url, str) or not is_service(url):
        raise InvalidArgument("url", _ACCEPTED, url)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidArgument("url", _ACCEPTED, url) from None
    if parts.username is not None or parts.password is not None:
        # The message must not reveal the password that was given.
        raise InvalidArgument("url", "must not contain a name or password: use a token")
    if not host or not url.isprintable() or parts.query or parts.fragment:
        raise InvalidArgument("url", _ACCEPTED, url)
    is_encrypted = parts.scheme == "https"
    if not is_encrypted and not allow_plain and not is_loopback(host):
        raise InvalidArgument(
            "url",
            "must begin with https://, because http:// sends the token and the results "
            f"unencrypted to {host}; use https://, or pass allow_plain=True if the network "
            "between is yours",
        )
    return ServiceAddress(url.rstrip("/"), is_encrypted)
