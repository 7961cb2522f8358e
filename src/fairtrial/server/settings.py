"""The operator's choices for the service."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fairtrial.core.validation import check_integer, check_number
from fairtrial.errors import InvalidArgument
from fairtrial.study.arguments import MOST_PER_REQUEST

__all__ = ["LOOPBACK", "Settings"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names by which a machine refers to itself."""


_ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of the service, and the host names that it accepts.

    Parameters
    ----------
    hosts : tuple of str
        Host names that requests may use for the server, without the port:
        ``("trials.example.org",)``. The machine's names for itself are always accepted, and all
        others refused.
    root_path : str
        Path under which a proxy shows the service: ``"/trials"``. Links begin with it. Requests may
        come with it or without it.
    rate : float
        Requests per second that one token may make in the long run, with bursts of twice as many.
    queue : int
        Largest number of queued writes. One study can use half of it.
    open_pulls : int
        Largest number of open pulls of a study; one token can have half of them. Further asks are
        refused until some of them have results or are given up.
    body_limit : int
        Largest size of a request's body, in bytes.
    batch_limit : int
        Largest number of pulls, or outcomes, in one request.
    timeout : float
        Seconds after which a request is abandoned if it is not yet received or answered.
    longest_wait : float
        Longest time in seconds that a request can wait for an event.
    server_timeout : float
        Seconds to wait for a PostgreSQL server that restarts, does not answer, or has locked a
        study for another process; after that, the answer is 503.
    studies_in_memory : int
        Number of studies that the writer and the readers each keep open with their policies. The
        least recently used one is closed first.
    session_hours : float
        Hours after which a login expires.

    Raises
    ------
    InvalidArgument
        If a value is invalid.

    Examples
    --------
    >>> Settings(hosts=("trials.example.org",)).knows("TRIALS.example.org:8080")
    True
    """

    hosts: tuple[str, ...] = ()
    root_path: str = ""
    rate: float = 1_000.0
    queue: int = 2_000
    open_pulls: int = 20_000
    body_limit: int = 1 << 20
    batch_limit: int = MOST_PER_REQUEST
    timeout: float = 30.0
    longest_wait: float = 30.0
    server_timeout: float = 4.0
    studies_in_memory: int = 1_000
    session_hours: float = 12.0

    def __post_init__(self) -> None:
        if not isinstance(self.hosts, tuple) or not all(map(_is_host, self.hosts)):
            raise InvalidArgument("hosts", "must be names of hosts without a port", self.hosts)
        if not isinstance(self.root_path, str) or not _ROOT_PATH.fullmatch(self.root_path):
            accepted = "must be empty, or a path such as '/trials', without a slash at its end"
            raise InvalidArgument("root_path", accepted, self.root_path)
        for name in ("rate", "timeout", "longest_wait", "server_timeout", "session_hours"):
            check_number(name, getattr(self, name), low=0, open_low=True)
        for name in ("queue", "open_pulls", "body_limit", "batch_limit", "studies_in_memory"):
            check_integer(name, getattr(self, name), low=1)

    def knows(self, host: str) -> bool:
        """Return whether the value of a Host header names this server."""
        return _without_port(host).lower() in (*LOOPBACK, *map(str.lower, self.hosts))


def _is_host(host: object) -> bool:
    return (
        isinstance(host, str) and host != "" and host.isprintable() and host == _without_port(host)
    )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
