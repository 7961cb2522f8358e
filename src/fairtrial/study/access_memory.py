"""Tokens, sessions and answers, kept in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fairtrial.errors import StorageError
from fairtrial.study.store import AnswerRow, SessionRow, TokenRow

__all__ = ["AccessMemory"]


class AccessMemory:
    """The part of an in-memory store that records who may use the service and what it answered."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._undo: list[Callable[[], object]] | None = None
        self._tokens: list[TokenRow] = []
        self._sessions: dict[str, SessionRow] = {}
        self._answers: dict[tuple[str, str], AnswerRow] = {}
        self._notices: set[tuple[int, str]] = set()

    def _writing(self) -> list[Callable[[], object]]:
        """Return the list of steps that undo the current transaction."""
        if self._undo is None:
            raise StorageError("the store in memory is written to in transactions only")
        return self._undo

    def insert_token(self, new: TokenRow) -> TokenRow:
        """Record a token, within a transaction; its name and secret must be new."""
        undo = self._writing()
        if any(
            new.name == row.name or new.secret_sha256 == row.secret_sha256 for row in self._tokens
        ):
            raise StorageError(f"the store in memory has a token {new.name!r} already")
        made = new._replace(id=len(self._tokens) + 1)
        self._tokens.append(made)
        undo.append(self._tokens.pop)
        return made

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, the oldest first."""
        with self._lock:
            return list(self._tokens)

    def token(self, secret_sha256: str) -> TokenRow | None:
        """Return the token whose secret has this hash."""
        return next((row for row in self.tokens() if row.secret_sha256 == secret_sha256), None)

    def revoke_token(self, token_id: int, at: int) -> None:
        """Revoke a token, within a transaction."""
        self._replace_token(self._tokens[token_id - 1]._replace(revoked_at=at))

    def touch_token(self, token_id: int, at: int) -> None:
        """Record when a token was used, within a transaction."""
        self._replace_token(self._tokens[token_id - 1]._replace(last_used_at=at))

    def _replace_token(self, row: TokenRow) -> None:
        undo, before = self._writing(), self._tokens[row.id - 1]
        self._tokens[row.id - 1] = row
        undo.append(lambda: self._tokens.__setitem__(row.id - 1, before))

    def insert_session(self, new: SessionRow) -> None:
        """Record a browser's session, within a transaction."""
        undo = self._writing()
        self._sessions[new.secret_sha256] = new
        undo.append(lambda: self._sessions.pop(new.secret_sha256))

    def session(self, secret_sha256: str) -> tuple[SessionRow, TokenRow] | None:
        """Return the session whose secret has this hash, and its token."""
        with self._lock:
            found = self._sessions.get(secret_sha256)
            return None if found is None else (found, self._tokens[found.token_id - 1])

    def remove_session(self, secret_sha256: str) -> None:
        """End a session, within a transaction."""
        undo, found = self._writing(), self._sessions.pop(secret_sha256, None)
        if found is not None:
            undo.append(lambda: self._sessions.update({secret_sha256: found}))

    def answer(self, actor: str, key: str) -> AnswerRow | None:
        """Return the answer to the first request with this key, or None."""
        with self._lock:
            return self._answers.get((actor, key))

    def save_answer(self, answer: AnswerRow) -> None:
        """Keep an answer for requests with the same key, within a transaction."""
        undo, place = self._writing(), (answer.actor, answer.key)
        if place in self._answers:
            raise StorageError(f"the store in memory has an answer to {answer.key!r} already")
        self._answers[place] = answer
        undo.append(lambda: self._answers.pop(place))

    def drop_answers(self, before: int, sessions_before: int) -> None:
        """Delete old answers, and sessions that have ended by then, within a transaction."""
        undo, answers, sessions = self._writing(), self._answers, self._sessions
        self._answers = {key: row for key, row in answers.items() if row.at >= before}
        self._sessions = {
            key: row for key, row in sessions.items() if row.expires_at >= sessions_before
        }
        undo.append(lambda: self.__dict__.update(_answers=answers, _sessions=sessions))

    def save_notice(self, study_id: int, notice: str, at: int) -> None:
        """Record that a notice about a study was sent, within a transaction."""
        undo, told = self._writing(), (study_id, notice)
        if told not in self._notices:
            self._notices.add(told)
            undo.append(lambda: self._notices.remove(told))

    def notices(self, study_id: int) -> set[str]:
        """Return the notices about a study that were sent."""
        with self._lock:
            return {notice for number, notice in self._notices if number == study_id}
