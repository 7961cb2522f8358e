"""Send requests to a service: each is repeated until it is answered, and counts once."""

from __future__ import annotations

import hashlib
import json
import random
import secrets
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from fairtrial.client.address import ServiceAddress
from fairtrial.client.problems import error_of
from fairtrial.core.files import replacing
from fairtrial.errors import ConnectionLost, StorageError, StorageUnreachable
from fairtrial.version import __version__

__all__ = ["Transport"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_TRY_AGAIN = frozenset({429, 502, 503, 504})
_NEVER_ARRIVED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_NOT_KNOWN = "it is not known whether the call was kept: check before you repeat it"
_SAFE = "!\"#$&'()*+,/:;<=>?@[\\]^`{|}"
"""Characters of a key that are not escaped: all visible ones except the escape character."""
_LONGEST_KEY = 200
_JSON = {"Accept": "application/json"}
_LINES = {"Accept": "application/x-ndjson"}


class Transport:
    """Sends requests to a service.

    A request without an answer, or for which the service was too busy, is repeated after random,
    growing pauses until `patience` seconds have passed. Every write has a key by which the service
    recognises repetitions, so it counts once however often it arrives.

    Parameters
    ----------
    address : ServiceAddress
        The address of the service.
    token : str
        Sent in a header with every request.
    timeout : float
        Seconds to wait for an answer before the request is repeated.
    patience : float
        Seconds after which a request is given up.
    verify : bool or ssl.SSLContext
        How to check the service's certificate.
    """

    def __init__(
        self,
        address: ServiceAddress,
        token: str,
        timeout: float,
        patience: float,
        verify: bool | ssl.SSLContext,
    ) -> None:
        self.url = address.url
        self._patience = patience
        self._timeout = timeout
        self._http = httpx.Client(
            base_url=address.url,
            headers={"Authorization": f"Bearer {token}", "User-Agent": f"fairtrial/{__version__}"},
            timeout=timeout,
            verify=verify,
            follow_redirects=False,
            # Ignore the environment's proxy if the connection is not encrypted: it could read it.
            trust_env=address.is_encrypted,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, wait: float = 0.0, **parameters: Any) -> Any:
        """Return a document; `wait` is how long the service may delay its answer, in seconds."""
        if wait:
            parameters["wait"] = wait
        timeout = self._timeout + wait
        options = {"params": _given(parameters), "headers": _JSON, "timeout": timeout}
        with self._sent("GET", path, **options) as response:
            return _parsed(response)

    def post(self, path: str, body: Mapping[str, Any], key: str | None = None) -> Any:
        """Send a write and return the content of the answer."""
        return self.post_with_status(path, body, key)[1]

    def post_with_status(
        self, path: str, body: Mapping[str, Any], key: str | None = None
    ) -> tuple[int, Any]:
        """Send a write and return the status and the content of the answer."""
        headers = {**_JSON, "Idempotency-Key": _as_header(key) if key else secrets.token_hex(16)}
        headers["Content-Type"] = "application/json"
        content = json.dumps(body, allow_nan=False).encode()
        with self._sent("POST", path, content=content, headers=headers) as response:
            return response.status_code, _parsed(response)

    def lines(self, path: str, **parameters: Any) -> Iterator[Any]:
        """Yield the documents of a stream, one per line.

        Raises
        ------
        StorageUnreachable
            If the stream breaks off.
        """
        with self._sent("GET", path, params=_given(parameters), headers=_LINES) as response:
            try:
                for line in response.iter_lines():
                    if line.strip():
                        yield json.loads(line)
            except (httpx.TransportError, ValueError) as error:
                raise StorageUnreachable(
                    f"{self.url}: the answer broke off: {_said(error)}"
                ) from None

    def download(self, path: str, target: Path, **parameters: Any) -> None:
        """Write a download to a file, which afterwards is either complete or unchanged."""
        with (
            self._sent("GET", path, params=_given(parameters)) as response,
            replacing(target) as part,
            part.open("wb") as stream,
        ):
            try:
                for block in response.iter_bytes():
                    stream.write(block)
            except httpx.TransportError as error:
                raise StorageUnreachable(
                    f"{self.url}: the answer broke off: {_said(error)}"
                ) from None

    @contextmanager
    def _sent(self, method: str, path: str, **options: Any) -> Iterator[httpx.Response]:
        """Yield a successful response whose content is still to be read."""
        response = self._answered(method, path, options)
        try:
            if response.status_code >= 300:
                response.read()
                raise error_of(response)
            yield response
        except httpx.TransportError as error:
            raise StorageUnreachable(f"{self.url}: the answer broke off: {_said(error)}") from None
        finally:
            response.close()

    def _answered(self, method: str, path: str, options: Mapping[str, Any]) -> httpx.Response:
        """Send a request, repeating it until there is an answer."""
        deadline = time.monotonic() + self._patience
        attempt, may_be_kept = 0, False
        while True:
            pause = _pause(attempt)
            try:
                response = self._once(method, path, options)
            except httpx.TransportError as error:
                self._require_trust(error)
                may_be_kept |= not isinstance(error, _NEVER_ARRIVED)
                if time.monotonic() + pause > deadline:
                    raise self._unreachable(error, method, may_be_kept) from None
            else:
                if response.status_code not in _TRY_AGAIN:
                    return response
                pause = max(pause, _retry_after(response))
                if time.monotonic() + pause > deadline:
                    if may_be_kept and method != "GET":
                        response.close()
                        raise self._in_doubt()
                    return response
                may_be_kept |= _may_be_kept(response)
                response.close()
            time.sleep(pause)
            attempt += 1

    def _require_trust(self, error: BaseException) -> None:
        """Raise if the service's certificate is not trusted, which repeating would not change."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise StorageUnreachable(
                    f"the service at {self.url} is not trusted, and nothing was sent to it: its "
                    f"certificate does not verify ({cause.verify_message}); pass `ca_file` if it "
                    "comes from an authority of your own"
                ) from None
            cause = cause.__cause__ or cause.__context__

    def _once(self, method: str, path: str, options: Mapping[str, Any]) -> httpx.Response:
        request = self._http.build_request(method, path, **options)
        try:
            response = self._http.send(request, stream=True)
        except RuntimeError:
            if not self._http.is_closed:
                raise
            raise StorageError(f"the connection to {self.url} is closed; connect again") from None
        # Read short answers here, so that the request is repeated if one breaks off.
        if response.headers.get("content-type", "").startswith("application/json"):
            try:
                response.read()
            except BaseException:
                response.close()
                raise
        return response

    def _in_doubt(self) -> StorageUnreachable:
        """Return the error for a call whose earlier attempts may have been kept."""
        return StorageUnreachable(
            f"the service at {self.url} gave no answer to an earlier attempt at this call, and was "
            f"too busy for the last one; {_NOT_KNOWN}"
        )

    def _unreachable(
        self, error: httpx.TransportError, method: str, may_be_kept: bool
    ) -> StorageUnreachable:
        if method == "GET":
            kept = ""
        elif may_be_kept:
            kept = f"; {_NOT_KNOWN}"
        else:
            kept = "; nothing of the call was kept, so try it again"
        return StorageUnreachable(
            f"the service at {self.url} cannot be reached: {_said(error)}{kept}"
        )


def _as_header(key: str) -> str:
    """Return a caller's key in a form for headers; different keys stay different.

    Examples
    --------
    >>> _as_header("visit-7"), _as_header("visit 7")
    ('visit-7', 'visit%207')
    """
    quoted = quote(key, safe=_SAFE)
    return quoted if len(quoted) <= _LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()


def _parsed(response: httpx.Response) -> Any:
    try:
        return json.loads(response.read())
    except (ValueError, RecursionError):
        raise StorageError(
            f"{response.request.url.copy_with(query=None)} did not answer with JSON: it is not a "
            "fairtrial service"
        ) from None


def _given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _pause(attempt: int) -> float:
    """Return the seconds before the next attempt: random, to spread the attempts of clients."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(attempt, 30))
    return random.uniform(longest / 2.0, longest)  # noqa: S311 - no secret


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds that the service asks the client to wait."""
    given = response.headers.get("retry-after", "")
    if given.isascii() and given.isdigit():
        return float(given[:9])
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def _may_be_kept(response: httpx.Response) -> bool:
    """Return whether a call may have been kept although the answer says busy or unreachable."""
    with suppress(httpx.TransportError):
        response.read()
        error = error_of(response)
        return isinstance(error, StorageUnreachable) and not isinstance(error, ConnectionLost)
    return True


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
