"""A pull of a study; it can be sent anywhere, and its outcome can come back at any time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from fairtrial.core import Pull
from fairtrial.errors import NotSupported
from fairtrial.study.log import Event

if TYPE_CHECKING:
    from fairtrial.study.numbers import Asked

__all__ = ["MASKED", "Issuer", "StudyPull"]

MASKED = -1
"""The action of a pull whose arm the caller must not see."""


class Issuer(Protocol):
    """The methods that a pull needs of the study that issued it."""

    name: str

    @property
    def storage(self) -> str:
        """The address of the study's storage or service."""

    def report(self, pull: Pull | str, value: float | Mapping[str, float], **details: Any) -> Event:
        """Report a partial reading of a pull."""

    def should_stop(self, pull: Pull | str) -> bool:
        """Return whether a pull's outcome is no longer needed."""


class StudyPull(Pull):
    """A pull with a unique id, by which any process can tell its outcome.

    A copy in another process is not connected to the study: tell the outcome by its `id`.

    Parameters
    ----------
    number, action, labels, tag, propensity
        As for `Pull`.
    id : str
        128 random bits as hexadecimal digits.
    study : Study or None
        The study that issued it.
    block : int or None
        Pulls with the same number must be measured under the same circumstances; None if the policy
        does not compare results in this way.
    worker : str or None
        The worker to whom it was issued.

    Attributes
    ----------
    kits : tuple of str
        The kits that a masked study chose for it.
    asked : Asked or None
        When it was asked for and for whom, in a list from a service; otherwise None.
    """

    __slots__ = ("asked", "block", "id", "kits", "study", "worker")

    def __init__(
        self,
        number: int,
        action: int,
        labels: Mapping[str, Any],
        tag: int,
        id: str,  # noqa: A002 - a pull's id, as users write it
        study: Issuer | None = None,
        propensity: float | None = None,
        block: int | None = None,
        worker: str | None = None,
    ) -> None:
        super().__init__(number, action, labels, tag, propensity)
        self.id = id
        self.study = study
        self.block = block
        self.worker = worker
        self.kits: tuple[str, ...] = ()
        self.asked: Asked | None = None

    def report(self, value: float | Mapping[str, float], **details: Any) -> Event:
        """Report a partial reading of this pull: see `Study.report`."""
        return self._bound.report(self, value, **details)

    def should_stop(self) -> bool:
        """Return whether this pull's outcome is no longer needed: see `Study.should_stop`."""
        return self._bound.should_stop(self)

    @property
    def _bound(self) -> Issuer:
        if self.study is None:
            raise NotSupported(f"{self!r} is a copy without its study; call the study's method")
        return self.study

    def __reduce__(self) -> tuple[Any, ...]:
        labels = dict(self.labels)
        own = self.number, self.action, labels, self.tag, self.id, None, self.propensity
        return type(self), (*own, self.block, self.worker)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StudyPull):
            return self.id == other.id
        return super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()
