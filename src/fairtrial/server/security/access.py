"""Identify callers by a token in a header or a session in a cookie, and check their rights."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import Request, Response

from fairtrial.errors import StudyError
from fairtrial.server.problems import Refusal
from fairtrial.server.readers import Readers
from fairtrial.server.security.rate import Rate
from fairtrial.server.settings import Settings
from fairtrial.server.writer import StudyWriter
from fairtrial.study import Store, Token
from fairtrial.study.log import as_time
from fairtrial.study.store import SessionRow
from fairtrial.study.tokens import Scope, Tokens, digest_of

__all__ = ["Access", "Caller"]

_FRESH_SECONDS = 1.0
"""Seconds for which a token is cached; a revoked token is refused at the latest after that."""
_MOST_KNOWN = 10_000
_UNKNOWN_PER_SECOND = 10.0
_SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller.

    Parameters
    ----------
    token : Token
        The caller's token.
    csrf_token : str or None
        The text that forms must contain if the caller is identified by a cookie, which browsers
        send automatically; None for other callers.
    """

    token: Token
    csrf_token: str | None = None

    @property
    def actor(self) -> str:
        """The caller's name in the log."""
        return self.token.name

    def can(self, scope: Scope, study: str | None = None) -> bool:
        """Return whether the caller has the scope, and access to the study if one is given."""
        return self.token.allows(scope) and (study is None or self.token.covers(study))

    def sees(self, study: str) -> bool:
        """Return whether the caller may see a study of that name; others do not exist for them."""
        return self.token.covers(study)

    def require(self, scope: Scope, study: str | None = None) -> None:
        """Raise if the caller may not do this.

        Raises
        ------
        Refusal
            404 if the caller may not see the study, as if it did not exist; 403 if the scope is
            missing.
        """
        if study is not None and not self.sees(study):
            text = f"there is no study {study!r}"
            raise Refusal(404, "study-not-found", text, reason="study")
        if not self.token.allows(scope):
            text = f"the token lacks the scope {scope!r}"
            raise Refusal(403, "access-refused", text, reason="scope")

    def require_all(self) -> None:
        """Raise if the caller may not see all studies, because totals reveal the others."""
        if self.token.studies is not None:
            text = "the token is for some studies only, and this is about all of them"
            raise Refusal(403, "access-refused", text, reason="study")

    def require_csrf(self, given: str | None) -> None:
        """Raise if a request that changes something may come from another site's page."""
        if self.csrf_token is None:
            return
        if given is None or not hmac.compare_digest(given.encode(), self.csrf_token.encode()):
            raise Refusal(
                403, "access-refused", "the form is not from this session: reload the page"
            )


class Access:
    """Identifies callers, and logs users in and out.

    Parameters
    ----------
    readers, writer : Readers, StudyWriter
        Read and write the storage.
    settings : Settings
        The service's limits.
    clock : callable
        Returns seconds; never runs backwards.
    """

    def __init__(
        self,
        readers: Readers,
        writer: StudyWriter,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._readers = readers
        self._writer = writer
        self._settings = settings
        self._clock = clock
        self._rate = Rate(settings.rate)
        self._unknown = Rate(_UNKNOWN_PER_SECOND)
        self._known: OrderedDict[str, tuple[float, Token]] = OrderedDict()
        self._noting: set[asyncio.Task[None]] = set()

    # ---------------------------------------------------------------------- who asks

    async def viewer(self, request: Request) -> Caller:
        """Return the caller; repeated calls for the same request count only once.

        Raises
        ------
        Refusal
            401 if the caller is unknown; 429 after too many requests; 403 if a request with a
            session cookie changes something without the token of the session's forms.
        """
        known: Caller | None = getattr(request.state, "viewer", None)
        if known is not None:
            return known
        found = await self.find(request)
        if found is None:
            if not _shows_something(request):
                self._unknown.take(_address_of(request))
            raise Refusal(
                *(401, "access-refused", "a valid token is needed, as `Authorization: Bearer`"),
                headers={"WWW-Authenticate": "Bearer"},
                reason="unknown token" if "authorization" in request.headers else "no token",
            )
        if request.method not in _SAFE:
            found.require_csrf(request.headers.get("x-csrf-token"))
        request.state.viewer = found
        return found

    async def find(self, request: Request) -> Caller | None:
        """Return the caller, or None if unknown.

        Raises
        ------
        Refusal
            429 after too many wrong tokens or sessions from one address.
        """
        header = request.headers.get("authorization")
        viewer = await self._by_cookie(request) if header is None else await self._by_header(header)
        if viewer is not None:
            request.state.actor = viewer.actor
            _recognise(request, viewer.actor)
            self._rate.take(viewer.actor)
            self._note_use(viewer.token)
        elif _shows_something(request):
            self._unknown.take(_address_of(request))
        return viewer

    async def _by_header(self, header: str) -> Caller | None:
        kind, _, secret = header.partition(" ")
        token = await self.token(secret.strip()) if kind.lower() == "bearer" else None
        return None if token is None else Caller(token)

    async def token(self, secret: str) -> Token | None:
        """Return the valid token with a secret text, or None."""
        return await self._fresh(
            f"token {digest_of(secret)}", lambda store: Tokens(store).find(secret)
        )

    async def _by_cookie(self, request: Request) -> Caller | None:
        secret = request.cookies.get(_cookie_name(request))
        if secret is None:
            return None
        digest = digest_of(secret)
        token = await self._fresh(f"session {digest}", lambda store: _of_session(store, digest))
        return None if token is None else Caller(token, _csrf_token(secret))

    async def _fresh(self, key: str, find: Callable[[Store], Token | None]) -> Token | None:
        at, token = self._known.get(key, (0.0, None))
        if token is not None and self._clock() - at < _FRESH_SECONDS:
            return token if token.is_valid(datetime.now(UTC)) else None
        self._known.pop(key, None)
        token = await self._readers.run_on_store(find)
        if token is not None:
            self._known[key] = self._clock(), token
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return token

    def _note_use(self, token: Token) -> None:
        if not token.is_use_news(datetime.now(UTC)) or self._noting:
            return
        task = asyncio.ensure_future(self._touch(token))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _touch(self, token: Token) -> None:
        def touch(store: Store) -> None:
            now = store.now()
            if token.is_use_news(as_time(now)):
                store.touch_token(token.id, now)

        # Losing this note does no harm: the next use is recorded instead.
        with suppress(StudyError):
            await self._writer.run_on_store(touch)
            self._known.clear()

    # --------------------------------------------------------------------- in and out

    async def log_in(self, request: Request, response: Response, secret: str) -> Caller | None:
        """Start a browser session with a cookie; return None if the token is invalid."""
        token = await self.token(secret.strip())
        if token is None:
            self._unknown.take(_address_of(request))
            return None
        self._rate.take(token.name)
        key = secrets.token_urlsafe(32)
        seconds = round(self._settings.session_hours * 3600)

        def insert(store: Store) -> None:
            now = store.now()
            ends = now + seconds * 1_000_000
            store.insert_session(SessionRow(digest_of(key), token.id, now, ends))

        await self._writer.run_on_store(insert)
        response.set_cookie(
            _cookie_name(request),
            key,
            max_age=seconds,
            secure=_is_secure(request),
            httponly=True,
            samesite="strict",
        )
        return Caller(token, _csrf_token(key))

    async def log_out(self, request: Request, response: Response) -> None:
        """End a browser's session."""
        name = _cookie_name(request)
        secret = request.cookies.get(name)
        if secret is not None:
            digest = digest_of(secret)
            await self._writer.run_on_store(lambda store: store.remove_session(digest))
            self._known.pop(f"session {digest}", None)
        response.delete_cookie(name, secure=_is_secure(request), httponly=True, samesite="strict")


def _of_session(store: Store, digest: str) -> Token | None:
    found = store.session(digest)
    if found is None:
        return None
    session, row = found
    now, token = store.now(), Token.of(row)
    return token if now < session.expires_at and token.is_valid(as_time(now)) else None


def _shows_something(request: Request) -> bool:
    """Return whether a request holds a token or a session, which may be a guess."""
    return "authorization" in request.headers or _cookie_name(request) in request.cookies


def _address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def _recognise(request: Request, name: str) -> None:
    """Tell the connection that a valid token has come: then strangers cannot displace it."""
    recognise = request.scope.get("extensions", {}).get("fairtrial", {}).get("recognise")
    if recognise is not None:
        recognise(name)


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _cookie_name(request: Request) -> str:
    # Browsers only accept this prefix for cookies that this very host sets over HTTPS.
    return "__Host-fairtrial" if _is_secure(request) else "fairtrial"


def _csrf_token(secret: str) -> str:
    """Return the text in a session's forms; it cannot be guessed without the session's secret."""
    return hmac.new(secret.encode(), b"forms", hashlib.sha256).hexdigest()
