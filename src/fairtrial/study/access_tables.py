"""Tokens, sessions and answers, kept in the tables of a database."""

# ruff: noqa: S608 - only the names of our own columns are written into statements

from __future__ import annotations

from fairtrial.study.statements import Statements, columns, places
from fairtrial.study.store import AnswerRow, SessionRow, TokenRow

__all__ = ["AccessTables"]

_SELECT_TOKEN = f"SELECT {columns(TokenRow)} FROM token"
_NEW_TOKEN = TokenRow._fields[1:]
_INSERT_TOKEN = (
    f"INSERT INTO token ({', '.join(_NEW_TOKEN)}) VALUES ({', '.join('?' for _ in _NEW_TOKEN)})"
)
_INSERT_SESSION = f"INSERT INTO session ({columns(SessionRow)}) VALUES ({places(SessionRow)})"
_INSERT_NOTICE = "INSERT INTO notice (study_id, notice, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"


class AccessTables(Statements):
    """The part of a database store that records who may use the service and what it answered."""

    def insert_token(self, new: TokenRow) -> TokenRow:
        """Record a token, within a transaction; its name and secret must be new."""
        self._change((_INSERT_TOKEN, [new[1:]]))
        made = self.token(new.secret_sha256)
        assert made is not None
        return made

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, the oldest first."""
        return [TokenRow(*row) for row in self._all(f"{_SELECT_TOKEN} ORDER BY id")]

    def token(self, secret_sha256: str) -> TokenRow | None:
        """Return the token whose secret has this hash."""
        row = self._one(f"{_SELECT_TOKEN} WHERE secret_sha256 = ?", (secret_sha256,))
        return None if row is None else TokenRow(*row)

    def revoke_token(self, token_id: int, at: int) -> None:
        """Revoke a token, within a transaction."""
        self._change(("UPDATE token SET revoked_at = ? WHERE id = ?", [(at, token_id)]))

    def touch_token(self, token_id: int, at: int) -> None:
        """Record when a token was used, within a transaction."""
        self._change(("UPDATE token SET last_used_at = ? WHERE id = ?", [(at, token_id)]))

    def insert_session(self, new: SessionRow) -> None:
        """Record a browser's session, within a transaction."""
        self._change((_INSERT_SESSION, [new]))

    def session(self, secret_sha256: str) -> tuple[SessionRow, TokenRow] | None:
        """Return the session whose secret has this hash, and its token."""
        statement = f"SELECT {columns(SessionRow)} FROM session WHERE secret_sha256 = ?"
        row = self._one(statement, (secret_sha256,))
        if row is None:
            return None
        session = SessionRow(*row)
        token = self._one(f"{_SELECT_TOKEN} WHERE id = ?", (session.token_id,))
        return session, TokenRow(*token)

    def remove_session(self, secret_sha256: str) -> None:
        """End a session, within a transaction."""
        self._change(("DELETE FROM session WHERE secret_sha256 = ?", [(secret_sha256,)]))

    def answer(self, actor: str, key: str) -> AnswerRow | None:
        """Return the answer to the first request with this key, or None."""
        statement = f"SELECT {columns(AnswerRow)} FROM idempotency WHERE actor = ? AND key = ?"
        row = self._one(statement, (actor, key))
        return None if row is None else AnswerRow(*row)

    def drop_answers(self, before: int, sessions_before: int) -> None:
        """Delete old answers, and sessions that have ended by then, within a transaction."""
        self._change(
            ("DELETE FROM idempotency WHERE at < ?", [(before,)]),
            ("DELETE FROM session WHERE expires_at < ?", [(sessions_before,)]),
        )

    def save_notice(self, study_id: int, notice: str, at: int) -> None:
        """Record that a notice about a study was sent, within a transaction."""
        self._change((_INSERT_NOTICE, [(study_id, notice, at)]))

    def notices(self, study_id: int) -> set[str]:
        """Return the notices about a study that were sent."""
        rows = self._all("SELECT notice FROM notice WHERE study_id = ?", (study_id,))
        return {str(notice) for (notice,) in rows}
