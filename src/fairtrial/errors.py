"""Every error that fairtrial raises on purpose, as one small family.

All derive from `FairtrialError`. Bad arguments are also `ValueError`, look-ups
that fail are also `LookupError`, so that callers who know nothing of this
module still catch what they expect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

__all__ = [
    "AccessRefused",
    "AlreadyTold",
    "ConfigurationError",
    "ConflictingOutcome",
    "ConnectionLost",
    "CorruptLog",
    "ExperimentFinished",
    "FairtrialError",
    "InvalidArgument",
    "InvalidOutcome",
    "InvalidTable",
    "MissingExtra",
    "MistakesFound",
    "NotSupported",
    "NothingToAsk",
    "PullClosed",
    "ServiceBusy",
    "SourceError",
    "StorageBusy",
    "StorageError",
    "StorageFull",
    "StorageUnreachable",
    "StudyError",
    "StudyExists",
    "StudyNotFound",
    "TooFewUnits",
    "UnknownPull",
]


class FairtrialError(Exception):
    """Base of every error that fairtrial raises on purpose."""


class InvalidArgument(FairtrialError, ValueError):
    """An argument has a value that is not accepted.

    Parameters
    ----------
    name : str
        The argument's name as the caller wrote it.
    accepted : str
        What is accepted, to be read after the name: ``"must be in (0, 1)"``.
    given : object, optional
        What was given.

    Examples
    --------
    >>> print(InvalidArgument("delta", "must be in (0, 1)", 2.0))
    delta must be in (0, 1); got 2.0
    """

    _NOT_GIVEN = object()

    def __init__(self, name: str, accepted: str, given: object = _NOT_GIVEN) -> None:
        self.name = name
        self.accepted = accepted
        self._arguments = (name, accepted) if given is self._NOT_GIVEN else (name, accepted, given)
        self.given = None if given is self._NOT_GIVEN else given
        shown = "" if given is self._NOT_GIVEN else f"; got {_short(given)}"
        super().__init__(f"{name} {accepted}{shown}")

    def within(self, whole: str) -> InvalidArgument:
        """Return the same error as one of an argument that has this one as a part.

        Examples
        --------
        >>> print(InvalidArgument("epsilon", "must be positive", -1).within("learner"))
        learner.epsilon must be positive; got -1
        """
        name, *rest = self._arguments
        return type(self)(f"{whole}.{name}", *rest)

    def __reduce__(self) -> tuple[type[InvalidArgument], tuple[object, ...]]:
        return type(self), self._arguments


class InvalidOutcome(InvalidArgument):
    """A reward, reading or record is refused; nothing was changed by it."""


class TooFewUnits(InvalidArgument):
    """The units of a finished experiment cannot tell the mean of every arm.

    Parameters
    ----------
    name, accepted : str
        As for `InvalidArgument`.
    absent : sequence of int
        The actions that have no unit but need one.
    undetermined : str, optional
        An arm whose mean does not follow from the units of the other arms either.
    """

    def __init__(
        self,
        name: str,
        accepted: str,
        absent: Sequence[int] = (),
        undetermined: str | None = None,
    ) -> None:
        super().__init__(name, accepted)
        self.absent = tuple(absent)
        self.undetermined = undetermined

    def __reduce__(self) -> tuple[type[TooFewUnits], tuple[object, ...]]:
        return type(self), (self.name, self.accepted, self.absent, self.undetermined)


class NotSupported(FairtrialError, NotImplementedError):
    """The policy, problem or environment does not offer what was asked of it."""


class MissingExtra(FairtrialError, ImportError):
    """A package of an optional extra is needed and is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        self.purpose = purpose
        self.extra = extra
        super().__init__(f"{purpose} needs the extra '{extra}': pip install 'fairtrial[{extra}]'")

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return type(self), (self.purpose, self.extra)


class ExperimentFinished(FairtrialError, RuntimeError):
    """A pull was asked of a policy that has stopped."""


class NothingToAsk(FairtrialError, RuntimeError):
    """No pull can be given out now; one may be possible after the next result."""


class _OfPull(FairtrialError):
    """Base of errors about one pull.

    Attributes
    ----------
    labels : mapping of str to object, or None
        The labels of the pull if the message shows them: people from whom arms are masked must not
        see it.
    """

    labels: Mapping[str, Any] | None = None

    @classmethod
    def about(cls, pull: Any, said: str) -> Self:
        """Return the error with a message that begins with the pull."""
        error = cls(f"{pull!r} {said}")
        error.labels = getattr(pull, "labels", None)
        return error


class UnknownPull(_OfPull, LookupError):
    """The pull was never issued here."""


class AlreadyTold(_OfPull, RuntimeError):
    """The pull's outcome was told before."""


class PullClosed(AlreadyTold):
    """The pull is no longer open: its lease has run out, or it was cancelled or reported lost."""


class ConflictingOutcome(AlreadyTold):
    """The pull's outcome was told before with another value.

    Attributes
    ----------
    pull : str or None
        The pull's id in a study.
    told_by : str or None
        Who told it first, if that is known.
    """

    pull: str | None = None
    told_by: str | None = None


class StudyError(FairtrialError):
    """Base of the errors of a durable study."""


class StudyExists(StudyError, ValueError):
    """A study of that name exists already with another specification."""


class StudyNotFound(StudyError, LookupError):
    """The storage holds no study of that name."""


class StorageError(StudyError, OSError):
    """The storage cannot be used: unreadable, read-only, full, or of a newer schema."""


class StorageBusy(StorageError):
    """Another process held the storage for longer than the time-out."""


class StorageFull(StorageError):
    """The disk of the storage is full; nothing of the call was kept."""


class StorageUnreachable(StorageError):
    """The server of the storage cannot be reached; the message says whether the call was kept."""


class ConnectionLost(StorageUnreachable):
    """The connection to the storage was lost; nothing of the call was kept, so try it again."""


class ServiceBusy(StorageBusy):
    """The service has more requests than it takes, of everybody or of this token; try later."""


class AccessRefused(StudyError, PermissionError):
    """The service does not know the token, or the token does not allow what was asked."""


class CorruptLog(StudyError):
    """The event log contradicts itself; the message names the first event that does."""


class SourceError(FairtrialError, RuntimeError):
    """A source of rewards failed, hung, or gave something that is not a reward."""


class MistakesFound(FairtrialError, ValueError):
    """Something that was read has mistakes; all of them are listed.

    Parameters
    ----------
    mistakes : sequence of str
        One line a mistake, each beginning with where it is.
    source : str
        The file, or whatever else was read.
    """

    def __init__(self, mistakes: Sequence[str], source: str) -> None:
        self.mistakes = tuple(mistakes)
        self.source = source
        count = "1 mistake" if len(self.mistakes) == 1 else f"{len(self.mistakes)} mistakes"
        super().__init__("\n".join([f"{source}: {count}", *(f"  {m}" for m in self.mistakes)]))

    @property
    def places(self) -> tuple[str, ...]:
        """Where each mistake is: a key path, or a line of a table.

        Examples
        --------
        >>> ConfigurationError(["policy.delta: must be in (0, 1)"]).places
        ('policy.delta',)
        """
        return tuple(mistake.partition(": ")[0] for mistake in self.mistakes)

    def __reduce__(self) -> tuple[type[MistakesFound], tuple[object, ...]]:
        return type(self), (self.mistakes, self.source)


class ConfigurationError(MistakesFound):
    """A configuration has mistakes; each line begins with a key path."""

    def __init__(self, mistakes: Sequence[str], source: str = "configuration") -> None:
        super().__init__(mistakes, source)


class InvalidTable(MistakesFound):
    """A table has mistakes; each line begins with that of the table. Nothing of it was taken."""


def _short(value: object, limit: int = 120) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever was given, the error about it must be told
        return f"an object of type {type(value).__name__} that cannot be shown"
    return text if len(text) <= limit else text[: limit - 3] + "..."
