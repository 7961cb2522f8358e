"""An open study: its name, its problem and the ids of its pulls."""

from __future__ import annotations

from collections.abc import Sequence

from fairtrial.core.validation import check_instance
from fairtrial.study.base import BaseStudy
from fairtrial.study.log import PullRow
from fairtrial.study.pull import StudyPull
from fairtrial.study.session import Session
from fairtrial.study.writes import Checks

__all__ = ["Handle"]


class Handle(BaseStudy):
    """The base of all parts of a study that is kept in a store.

    Parameters
    ----------
    session : Session
        The study in use.
    """

    def __init__(self, session: Session) -> None:
        check_instance("session", session, Session)
        checks = Checks(session.name, session.problem, session.store.url)
        super().__init__(checks, session.write)
        self.seed = session.seed
        self._session = session
        self._store = session.store

    @property
    def session(self) -> Session:
        """The underlying session, for programs built on studies, such as the service."""
        return self._session

    def close(self) -> None:
        """Save a snapshot, so that the next opening is quick, and release the storage."""
        self._session.close()

    @property
    def storage(self) -> str:
        """The address of the storage, without any password."""
        return self._store.url

    @property
    def storage_software(self) -> str:
        """The software that keeps the study and its version, such as ``"SQLite 3.45.1"``."""
        return self._store.software

    def __repr__(self) -> str:
        return f"Study(name={self.name!r}, storage={self.storage!r})"

    def _bound(self, rows: Sequence[PullRow]) -> list[StudyPull]:
        return self._bind(self._session.pulls_of(rows))
