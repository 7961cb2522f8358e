"""Tokens of the service: who may do what, with which studies, and until when."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, Self, get_args

from fairtrial.core.keywords import named_arguments
from fairtrial.errors import InvalidArgument, StudyExists, StudyNotFound
from fairtrial.study.arguments import check_name
from fairtrial.study.location import Storage, open_store
from fairtrial.study.log import as_time, canonical
from fairtrial.study.store import TokenRow

__all__ = ["SCOPES", "Scope", "Token", "Tokens", "digest_of"]

Scope = Literal["read", "run", "admin"]
"""`run` asks and tells but sees no results of others; `read` sees everything and writes nothing;
`admin` can do both, and can create and stop studies."""

SCOPES: tuple[Scope, ...] = get_args(Scope)

_SECRET = re.compile(r"ft_[A-Za-z0-9_-]{43}")
_LONGEST_LIST = 1_000
_USES_NOTED_EVERY = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Token:
    """A token's properties, without its secret text.

    Parameters
    ----------
    name : str
        Who uses it; recorded as the `actor` of events that are written with it.
    scopes : tuple of str
        A selection of ``"read"``, ``"run"`` and ``"admin"``.
    studies : tuple of str, or None
        Names of studies, or beginnings of names with a star: ``"heart-*"``; None for all studies.
    created_at : datetime
        When the token was created (UTC).
    expires_at, revoked_at, last_used_at : datetime or None
        The corresponding times, or None; `last_used_at` is accurate to the hour.

    Examples
    --------
    >>> token = Token("ward 3", ("run",), ("heart-*",), datetime(2026, 1, 1, tzinfo=UTC))
    >>> token.allows("run"), token.allows("read"), token.covers("heart-1"), token.covers("lung-1")
    (True, False, True, False)
    """

    name: str
    scopes: tuple[Scope, ...]
    studies: tuple[str, ...] | None
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    id: int = 0

    @classmethod
    def of(cls, row: TokenRow) -> Self:
        """Return the token that a row stores."""
        moments = (row.created_at, row.expires_at, row.revoked_at, row.last_used_at)
        created, expires, revoked, used = (None if at is None else as_time(at) for at in moments)
        assert created is not None
        return cls(
            name=row.name,
            scopes=tuple(json.loads(row.scopes)),
            studies=None if row.studies is None else tuple(json.loads(row.studies)),
            created_at=created,
            expires_at=expires,
            revoked_at=revoked,
            last_used_at=used,
            id=row.id,
        )

    def allows(self, scope: Scope) -> bool:
        """Return whether the token has the scope; admin includes all scopes."""
        return scope in self.scopes or "admin" in self.scopes

    def covers(self, study: str) -> bool:
        """Return whether the token covers a study of that name."""
        return self.studies is None or any(_fits(pattern, study) for pattern in self.studies)

    def is_valid(self, now: datetime) -> bool:
        """Return whether the token is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def is_use_news(self, now: datetime) -> bool:
        """Return whether a use at this time is worth recording."""
        return self.last_used_at is None or now - self.last_used_at >= _USES_NOTED_EVERY


class Tokens:
    """The tokens of a storage.

    Parameters
    ----------
    storage : str, path or Store
        As for `Study.create`.
    create : bool
        Whether to create a storage that does not exist; without it, it is refused.

    Examples
    --------
    >>> with Tokens("memory://") as tokens:
    ...     token, secret = tokens.create("ward 3", ["run"], studies=["heart-*"])
    ...     found = tokens.find(secret)
    ...     revoked = tokens.revoke("ward 3")
    ...     found.name, tokens.find(secret), len(secret)
    ('ward 3', None, 46)
    """

    @named_arguments
    def __init__(self, storage: Storage, *, create: bool = True) -> None:
        self._store = open_store(storage, create=create)
        self._owns_store = self._store is not storage

    def close(self) -> None:
        """Release the storage."""
        if self._owns_store:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(
        self,
        name: str,
        scopes: Sequence[Scope],
        *,
        studies: Sequence[str] | None = None,
        expires_at: datetime | None = None,
    ) -> tuple[Token, str]:
        """Create a token.

        Parameters
        ----------
        name : str
            Who will use it. It must be new, even compared with revoked tokens, because the logs of
            studies identify people by it.
        scopes : sequence of {"read", "run", "admin"}
            What it allows; at least one.
        studies : sequence of str, optional
            Names of studies, or beginnings of names with a star; by default all studies.
        expires_at : datetime, optional
            A future time, with a time zone.

        Returns
        -------
        token : Token
            The token's recorded properties.
        secret : str
            The token's text. It is not stored: show it once.

        Raises
        ------
        InvalidArgument
            If an argument is invalid.
        StudyExists
            If a present or earlier token has the same name.
        """
        check_name(name)
        allowed, covered = _checked_scopes(scopes), _checked_studies(studies)
        secret = f"ft_{secrets.token_urlsafe(32)}"

        def insert() -> TokenRow:
            if any(row.name == name for row in self._store.tokens()):
                raise StudyExists(f"{self._store.url} has, or had, a token {name!r} already")
            now = self._store.now()
            new = TokenRow(
                *(0, name, digest_of(secret), canonical(allowed)),
                *(None if covered is None else canonical(covered), now),
                _checked_expiry(expires_at, now),
            )
            return self._store.insert_token(new)

        return Token.of(self._store.transact(insert)), secret

    def all(self) -> list[Token]:
        """Return all tokens, the oldest first, including those that are no longer valid."""
        return [Token.of(row) for row in self._store.tokens()]

    def revoke(self, name: str) -> Token:
        """Revoke a token; revoking it again changes nothing.

        Raises
        ------
        StudyNotFound
            If there is no token of that name.
        """

        def mark() -> TokenRow:
            row = self._named(name)
            if row.revoked_at is None:
                self._store.revoke_token(row.id, self._store.now())
            return self._named(name)

        return Token.of(self._store.transact(mark))

    def _named(self, name: str) -> TokenRow:
        row = next((row for row in self._store.tokens() if row.name == name), None)
        if row is None:
            raise StudyNotFound(f"{self._store.url} has no token {name!r}")
        return row

    def find(self, secret: str) -> Token | None:
        """Return the valid token with a secret text; None if there is none."""
        if not isinstance(secret, str) or not _SECRET.fullmatch(secret):
            return None
        digest = digest_of(secret)
        row = self._store.token(digest)
        if row is None or not hmac.compare_digest(row.secret_sha256, digest):
            return None
        token = Token.of(row)
        return token if token.is_valid(as_time(self._store.now())) else None

    def touch(self, token: Token) -> None:
        """Record that a token is being used; written at most once an hour."""
        now = self._store.now()
        if token.is_use_news(as_time(now)):
            self._store.transact(lambda: self._store.touch_token(token.id, now))


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret text of 256 random bits, which is stored in its place."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _fits(pattern: str, study: str) -> bool:
    if pattern.endswith("*"):
        return study.startswith(pattern[:-1])
    return study == pattern


def _checked_scopes(scopes: object) -> list[Scope]:
    given = list(scopes) if isinstance(scopes, Sequence) and not isinstance(scopes, str) else []
    if not given or any(scope not in SCOPES for scope in given):
        raise InvalidArgument("scopes", f"must be a list of {', '.join(SCOPES)}", scopes)
    return [scope for scope in SCOPES if scope in given]


def _checked_studies(studies: object) -> list[str] | None:
    if studies is None:
        return None
    fits = isinstance(studies, Sequence) and not isinstance(studies, str)
    given = list(studies) if fits else []  # type: ignore[call-overload]
    if not 0 < len(given) <= _LONGEST_LIST:
        accepted = f"must be a list of 1 to {_LONGEST_LIST:,} names of studies, or None for all"
        raise InvalidArgument("studies", accepted, studies)
    for name in given:
        try:
            check_name(name)
        except InvalidArgument as error:
            raise error.within("studies") from None
    return given


def _checked_expiry(expires_at: object, now: int) -> int | None:
    if expires_at is None:
        return None
    is_moment = isinstance(expires_at, datetime) and expires_at.tzinfo is not None
    at = (expires_at - _EPOCH) // timedelta(microseconds=1) if is_moment else 0  # type: ignore[operator]
    if at <= now:
        accepted = "must be a time in the future, with a time zone"
        raise InvalidArgument("expires_at", accepted, expires_at)
    return at
