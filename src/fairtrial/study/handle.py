"""An open study: its name, its problem and the ids of its pulls."""

from __future__ import annotations

from collections.abc import Sequence

from fairtrial.core import Pull
from fairtrial.core.validation import check_instance
from fairtrial.errors import UnknownPull
from fairtrial.study.base import BaseStudy
from fairtrial.study.log import PullRow
from fairtrial.study.pull import StudyPull
from fairtrial.study.session import Session
from fairtrial.study.statements import is_encodable

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
        self.name = session.name
        self.problem = session.problem
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
        has_blocks = self._session.has_blocks
        return [
            StudyPull(
                *(row.number, row.action, self.problem.labels(row.action), row.tag),
                *(row.pull_id, self, row.propensity, row.tag if has_blocks else None),
            )
            for row in rows
        ]

    def _pull_id(self, pull: Pull | str) -> str:
        """Return the id of a pull in the store."""
        if isinstance(pull, str) and is_encodable(pull):
            return pull
        if not isinstance(pull, StudyPull):
            raise UnknownPull(
                f"{pull!r} was not issued by study {self.name!r}: pass a pull from its ask, "
                "or the id of one"
            )
        owner = pull.study
        if isinstance(owner, Handle) and owner is not self and self._differs_from(owner):
            raise UnknownPull(f"{pull!r} is a pull of study {owner.name!r}, not of {self.name!r}")
        return pull.id

    def _differs_from(self, other: Handle) -> bool:
        """Return whether another handle belongs to a different study."""
        return (other.name, other._store.url) != (self.name, self._store.url)
