"""An open study: its name and problem, and how the store knows its pulls."""

from __future__ import annotations

from collections.abc import Sequence

from fairtrial.core import Pull
from fairtrial.core.validation import check_instance
from fairtrial.errors import UnknownPull
from fairtrial.study.arguments import is_encodable
from fairtrial.study.base import BaseStudy
from fairtrial.study.log import PullRow
from fairtrial.study.pull import StudyPull
from fairtrial.study.session import Session

__all__ = ["Handle"]


class Handle(BaseStudy):
    """What every part of a study works with.

    Parameters
    ----------
    session : Session
        The study in use.
    """

    def __init__(self, session: Session) -> None:
        check_instance("session", session, Session)
        self.name = session.name
        self.problem = session.problem
        self.seed = session.seed
        self._session = session
        self._store = session.store

    @property
    def session(self) -> Session:
        """What the study works with: for programs that build upon studies, as the service does."""
        return self._session

    def close(self) -> None:
        """Keep a snapshot, so that the next opening is quick, and release the storage."""
        self._session.close()

    @property
    def storage(self) -> str:
        """The address of the storage; a password is left out."""
        return self._store.url

    @property
    def storage_software(self) -> str:
        """What keeps the study, with its version: ``"SQLite 3.45.1"``, say."""
        return self._store.software

    def __repr__(self) -> str:
        return f"Study(name={self.name!r}, storage={self.storage!r})"

    def _bound(self, rows: Sequence[PullRow]) -> list[StudyPull]:
        return [
            StudyPull(
                *(row.number, row.action, self.problem.labels(row.action), row.tag),
                *(row.pull_id, self, row.propensity),
            )
            for row in rows
        ]

    def _pull_id(self, pull: Pull | str) -> str:
        """Return the identity by which the store knows a pull."""
        if isinstance(pull, str) and is_encodable(pull):
            return pull
        if not isinstance(pull, StudyPull):
            raise UnknownPull(
                f"{pull!r} was not issued by study {self.name!r}: give what its ask returned, "
                "or the id of that"
            )
        owner = pull.study
        if isinstance(owner, Handle) and owner is not self and self._differs_from(owner):
            raise UnknownPull(f"{pull!r} is a pull of study {owner.name!r}, not of {self.name!r}")
        return pull.id

    def _differs_from(self, other: Handle) -> bool:
        """Return whether another handle is one of another study."""
        return (other.name, other._store.url) != (self.name, self._store.url)
