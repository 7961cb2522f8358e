"""A connection to a service, to find and create studies."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

from fairtrial.client.address import parse_address
from fairtrial.client.documents import summary_of
from fairtrial.client.remote_study import RemoteStudy, study_path
from fairtrial.client.tokens import read_token
from fairtrial.client.transport import Transport
from fairtrial.core import Policy, Problem
from fairtrial.core.keywords import named_arguments
from fairtrial.core.seeds import Seed, as_seed
from fairtrial.core.validation import check_number
from fairtrial.errors import InvalidArgument, StudyExists
from fairtrial.study import StudySummary
from fairtrial.study.arguments import check_name, check_template
from fairtrial.study.conduct import Conduct
from fairtrial.study.specification import checked_notes

__all__ = ["Connection", "connect"]

_NEW = 201


@named_arguments
def connect(
    url: str,
    token: str | None = None,
    *,
    token_file: str | os.PathLike[str] | None = None,
    timeout: float = 30.0,
    patience: float = 60.0,
    ca_file: str | os.PathLike[str] | None = None,
    allow_plain: bool = False,
) -> Connection:
    """Connect to a service that keeps studies.

    This sends nothing; the first request does.

    Parameters
    ----------
    url : str
        ``https://host``, optionally with a port and a path; ``http://`` only for this machine.
    token : str, optional
        The text that `fairtrial token create` printed. By default it is read from `token_file` or
        else from the environment variable ``FAIRTRIAL_TOKEN``.
    token_file : str or path, optional
        A file with the token that only its owner can read.
    timeout : float
        Seconds to wait for an answer before a request is sent again.
    patience : float
        Seconds after which a request is given up. Until then it is repeated after connection
        errors and while the service is busy; it only counts once, however often it arrives.
    ca_file : str or path, optional
        A file (PEM) with certificates of your own authority, to check the service's certificate.
    allow_plain : bool
        Whether to accept ``http://`` to another machine, although anyone in between can read the
        token and the results.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, or there is no token.
    MissingExtra
        If httpx is not installed.

    Examples
    --------
    >>> connect("http://127.0.0.1:8765", token="ft_" + 43 * "x")
    Connection('http://127.0.0.1:8765')
    """
    transport = Transport(
        parse_address(url, allow_plain=allow_plain),
        read_token(token, token_file),
        check_number("timeout", timeout, low=0.0, open_low=True),
        check_number("patience", patience, low=0.0),
        True if ca_file is None else _authority(ca_file),
    )
    return Connection(transport)


def _authority(ca_file: str | os.PathLike[str]) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=os.fspath(ca_file))
    except (OSError, ValueError, TypeError) as error:
        accepted = f"must be a file of certificates (PEM): {error}"
        raise InvalidArgument("ca_file", accepted, ca_file) from None


class Connection:
    """A service as seen with one token; use `connect` to get one.

    Several threads can use it. Close it, or use it in a ``with`` statement.

    Parameters
    ----------
    transport : Transport
        Sends the requests.

    Examples
    --------
    >>> with connect("http://127.0.0.1:8765", token="ft_" + 43 * "x") as connection:
    ...     connection.url
    'http://127.0.0.1:8765'
    """

    @named_arguments
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._transport.url

    def __repr__(self) -> str:
        return f"Connection({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, and with it all studies that were opened through it."""
        self._transport.close()

    def studies(self) -> list[StudySummary]:
        """Return the studies that the token may see, the oldest first.

        Raises
        ------
        AccessRefused
            If the service does not accept the token.
        StorageUnreachable
            If the service does not answer.
        """
        return [summary_of(document) for document in self._pages()]

    def _pages(self) -> Iterator[dict[str, Any]]:
        after = None
        while True:
            page = self._transport.get("/v1/studies", after=after)
            yield from page["studies"]
            after = page["next"]
            if after is None:
                return

    def study(self, name: str) -> RemoteStudy:
        """Open a study.

        Raises
        ------
        StudyNotFound
            If the token may see no study of that name.
        AccessRefused
            If the service does not accept the token.
        StorageUnreachable
            If the service does not answer.
        """
        check_name(name)
        return RemoteStudy(self._transport, self._transport.get(study_path(name)))

    def create(
        self,
        problem: Problem,
        policy: Policy,
        *,
        name: str,
        seed: Seed = None,
        exist_ok: bool = False,
        require_group: bool = False,
        participants: str | None = None,
        kits: str | None = None,
        masked: bool = False,
        notes: Mapping[str, str] | None = None,
    ) -> RemoteStudy:
        """Create a study; the token needs the scope ``admin``.

        Parameters
        ----------
        problem, policy, name, seed, exist_ok, require_group, participants, kits, masked, notes
            As for `Study.create`. The service has no classes of your own: policy, problem and
            their parts must be classes of fairtrial.

        Raises
        ------
        StudyExists
            If the name is taken by a study with another specification or, without `exist_ok`, by
            any study.
        InvalidArgument
            If an argument is invalid, or the policy is for another problem.
        NotSupported
            If the policy cannot be converted to data.
        AccessRefused
            If the service does not accept the token, or it lacks the scope.
        """
        check_name(name)
        check_template(problem, policy)
        body = {
            "name": name,
            "problem": problem.to_dict(),
            "policy": policy.to_dict(),
            "seed": None if seed is None else as_seed(seed),
            "conduct": Conduct.of(
                problem,
                {
                    "require_group": require_group,
                    "participants": participants,
                    "kits": kits,
                    "masked": masked,
                },
            ).to_dict(),
            "notes": checked_notes(notes or {}),
        }
        status, document = self._transport.post_with_status("/v1/studies", body)
        if status != _NEW and not exist_ok:
            raise StudyExists(
                f"{self.url} has a study {name!r} with this specification already; continue it "
                f"with connection.study({name!r}), or pass exist_ok=True"
            )
        with suppress(KeyError):
            return RemoteStudy(self._transport, document)
        return self.study(name)
