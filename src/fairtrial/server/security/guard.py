"""Checks that every request must pass, whatever its route: host, origin, size, time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairtrial.server.problems import Refusal
from fairtrial.server.settings import Settings
from fairtrial.server.telemetry import Telemetry, request_id_of

__all__ = ["KEEP_ALIVE", "SLASH", "Guard"]

KEEP_ALIVE = 60
"""Seconds for which a connection without a request stays open, as every answer announces."""

SLASH = "\x1f"
"""Replaces a slash within a part of a path; no name contains this character."""

_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            b"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With "no-referrer" browsers would send forms with the origin "null".
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"keep-alive", f"timeout={KEEP_ALIVE}".encode()),
)


class Guard:
    """Middleware that refuses requests no route should see, and adds security headers.

    Parameters
    ----------
    app : ASGI application
        The application to protect.
    settings : Settings
        The service's limits and host names.
    telemetry : Telemetry
        Counts refused requests.
    """

    def __init__(self, app: ASGIApp, settings: Settings, telemetry: Telemetry) -> None:
        self._app = app
        self._settings = settings
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send, self._settings)
        try:
            scope = self._checked(scope)
            async with asyncio.timeout(self._longest()) as limit:
                exchange.limit = limit
                await self._app(scope, exchange.receive, exchange.send)
        except TimeoutError:
            if not exchange.has_begun:
                await _too_slow(exchange).response()(scope, receive, exchange.send)
        except Refusal as refusal:
            if refusal.reason is not None:
                self._telemetry.refused(None, refusal.reason, request_id_of(scope))
            if not exchange.has_begun:
                await refusal.response()(scope, receive, exchange.send)

    def _longest(self) -> float:
        return self._settings.timeout + self._settings.longest_wait

    def _checked(self, scope: Scope) -> Scope:
        headers = scope["headers"]
        host = _only(headers, b"host")
        if host is None or not self._settings.knows(host):
            raise Refusal(
                421, "unknown-host", "this server is not known by that name", reason="host"
            )
        if scope["method"] not in _SAFE and not _is_same_origin(headers, host):
            text = "the request was sent by a page of another site"
            raise Refusal(403, "access-refused", text, reason="origin")
        length = _only(headers, b"content-length")
        if length is not None and _only(headers, b"transfer-encoding") is not None:
            # A proxy may use the length and take the rest for another client's request.
            text = "a request has either a Content-Length or a Transfer-Encoding"
            raise Refusal(400, "bad-request", text, headers={"Connection": "close"})
        if length is not None and length.isdigit() and int(length[:20]) > self._settings.body_limit:
            raise _too_large(self._settings.body_limit)
        raw = _without_root(_raw_path(scope), self._settings.root_path.encode())
        return {**scope, "path": _path(raw), "raw_path": raw}


class _Exchange:
    """A request and its answer, with counters that are updated as they proceed."""

    def __init__(self, receive: Receive, send: Send, settings: Settings) -> None:
        self._receive = receive
        self._send = send
        self._most = settings.body_limit
        self._root = settings.root_path
        self._received = 0
        self.has_all = False
        self.has_asked = False
        self.has_begun = False
        self.limit: asyncio.Timeout | None = None

    async def receive(self) -> Message:
        self.has_asked = True
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self.has_all = not message.get("more_body", False)
            if self._received > self._most:
                raise _too_large(self._most)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            if self.limit is not None and not self.limit.expired():
                # The answer may be long, and its reader slow.
                self.limit.reschedule(None)
            known = {name.lower() for name, _ in message["headers"]}
            more = [header for header in _HEADERS if header[0] not in known]
            own = [(name, self._located(name, value)) for name, value in message["headers"]]
            message = {**message, "headers": [*own, *more]}
        await self._send(message)

    def _located(self, name: bytes, value: bytes) -> bytes:
        """Return the value of a header; an address of our own begins with the root path."""
        root = self._root.encode()
        if not root or name.lower() != b"location" or not value.startswith(b"/"):
            return value
        return value if value.startswith(root + b"/") else root + value


def _too_large(most: int) -> Refusal:
    headers = {"Connection": "close"}
    return Refusal(413, "body-too-large", f"a body has at most {most:,} bytes", headers=headers)


def _too_slow(exchange: _Exchange) -> Refusal:
    if exchange.has_asked and not exchange.has_all:
        return Refusal(408, "body-too-slow", "the body did not arrive in time")
    return Refusal(
        503,
        # Not "busy", which promises that nothing was kept: a commit may be about to happen.
        "storage-unreachable",
        "there was no answer in time, and it is not known whether this request was kept: repeat "
        "it with the same Idempotency-Key, so that it counts only once",
        headers={"Retry-After": "5"},
    )


def _only(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """Return the value of a header; None if it is missing or occurs more than once."""
    found = [value for key, value in headers if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


def _is_same_origin(headers: Iterable[tuple[bytes, bytes]], host: str) -> bool:
    # Browsers send exactly one origin with each request that can change something.
    origins = [value.decode("latin-1") for key, value in headers if key == b"origin"]
    return all(_netloc(origin) == host.lower() for origin in origins) and len(origins) <= 1


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _raw_path(scope: Scope) -> bytes:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0]


def _without_root(raw: bytes, root: bytes) -> bytes:
    """Return a path without the root path, which the proxy may have removed or not."""
    return raw.removeprefix(root) or b"/" if raw == root or raw.startswith(root + b"/") else raw


def _path(raw: bytes) -> str:
    """Return the path with each part decoded separately, so that slashes in names do not split."""
    try:
        parts = [unquote_to_bytes(part).decode() for part in raw.split(b"/")]
    except UnicodeDecodeError:
        raise _unknown_path() from None
    if any(character < " " for part in parts for character in part):
        raise _unknown_path()
    return "/".join(part.replace("/", SLASH) for part in parts)


def _unknown_path() -> Refusal:
    return Refusal(404, "not-found", "Not Found")
