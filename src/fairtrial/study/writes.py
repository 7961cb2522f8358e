"""What can be written to a study, as values: each is checked here, and is carried out in one place.

A study that a store keeps carries a write out by `Writer`. A study that a service keeps sends the
write's JSON to the write's path, where the service makes the same value from it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

from fairtrial.core import UNSOLICITED, Problem, Pull
from fairtrial.core.problem import Outcome
from fairtrial.core.validation import check_integer
from fairtrial.errors import InvalidArgument, NotSupported, UnknownPull
from fairtrial.study.arguments import (
    MOST_AT_ONCE,
    as_json,
    as_outcome,
    as_reading,
    check_lease,
    check_reason,
    check_texts,
)
from fairtrial.study.log import Event
from fairtrial.study.pull import StudyPull
from fairtrial.study.pull_tables import Correction, ResultTable
from fairtrial.study.statements import is_encodable

__all__ = [
    "Amend",
    "AmendTable",
    "Ask",
    "Cancel",
    "Checks",
    "Extend",
    "Fail",
    "Report",
    "Sent",
    "Stop",
    "Tell",
    "TellKnown",
    "TellMany",
    "TellManyKnown",
    "TellTable",
    "Together",
    "Write",
    "Written",
]

_SENT_ID = re.compile(r"[\w-]{1,64}", re.ASCII)


class Written(NamedTuple):
    """What a write has done: its events, pulls and corrections.

    `stopped` says, if no pulls were issued, whether the study has stopped.
    """

    events: list[Event]
    pulls: list[StudyPull]
    corrections: list[Correction]
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Checks:
    """What the arguments of a study's writes are checked against.

    Parameters
    ----------
    name, problem, storage
        Those of the study.
    most : int
        Largest number of pulls or outcomes in one write.
    is_remote : bool
        Whether a service keeps the study.
    """

    name: str
    problem: Problem
    storage: str
    most: int = MOST_AT_ONCE
    is_remote: bool = False

    def number(self, name: str, number: object) -> int:
        """Return the number of pulls or outcomes in one write; raise if it is invalid."""
        wanted = check_integer(name, number, low=0)
        if wanted > self.most:
            accepted = f"must be at most {self.most:,} in one call: make another for the rest"
            raise InvalidArgument(name, accepted, number)
        return wanted

    def who(self, **names: str | None) -> None:
        """Raise if these are not valid names of actors or workers."""
        check_texts(**names)
        for name, given in names.items():
            if self.is_remote and given is not None:
                accepted = "must be left out: the service records the name of the token"
                raise InvalidArgument(name, accepted, given)

    def pull_id(self, pull: object) -> str:
        """Return the id of a pull of this study."""
        if isinstance(pull, str):
            # The id becomes a part of an address, or goes into a database.
            if _SENT_ID.fullmatch(pull) if self.is_remote else is_encodable(pull):
                return pull
            if self.is_remote:
                raise UnknownPull(f"pull {pull} was never issued by study {self.name!r}")
        if not isinstance(pull, StudyPull):
            raise UnknownPull(
                f"{pull!r} was not issued by study {self.name!r}: pass a pull from its ask, "
                "or the id of one"
            )
        owner = pull.study
        if owner is not None and (owner.name, owner.storage) != (self.name, self.storage):
            raise UnknownPull(f"{pull!r} is a pull of study {owner.name!r}, not of {self.name!r}")
        return pull.id

    def target(self, pull: Pull | str | Mapping[str, Any]) -> Pull | str:
        """Return the id of a pull, or the pull that stands for unsolicited data."""
        if isinstance(pull, str):
            return self.pull_id(pull)
        if isinstance(pull, Mapping):
            if not all(name.isidentifier() and name != "self" for name in pull):
                raise InvalidArgument("outcomes", "must have labels of the problem", pull)
            return self.problem.pull(**pull)
        is_own = not isinstance(pull, Pull) or isinstance(pull, StudyPull)
        if is_own or pull.number != UNSOLICITED:
            return self.pull_id(pull)
        known = 0 <= pull.action < self.problem.n_actions
        if not known or self.problem.labels(pull.action) != pull.labels:
            raise UnknownPull(f"{pull!r} is not one of this problem's actions")
        return pull


class Sent(NamedTuple):
    """A write as a service receives it: the body, the pull of the path, and who sent it."""

    body: Mapping[str, Any]
    actor: str | None = None
    key: str | None = None
    pull: str = ""


class Write(ABC):
    """A change of a study: all of its events are written, or none."""

    __slots__ = ()

    path: ClassVar[str] = ""
    """The path, below that of the study, to which a client of a service sends it."""

    @property
    def key(self) -> str | None:
        """The caller's own key, with which the write counts only once."""
        return None

    @property
    def pulls(self) -> tuple[str, ...]:
        """The ids of the pulls that it names, once it is checked or was sent."""
        pull = getattr(self, "pull", None)
        return (pull,) if isinstance(pull, str) else ()

    @abstractmethod
    def check(self, study: Checks) -> Self:
        """Return the write with its values as they are stored; raise if one is invalid."""

    def to_json(self) -> dict[str, Any]:
        """Return the body with which a client sends it, once it is checked."""
        raise NotSupported("a service takes these one by one: a table could be refused half-way")

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        """Return the write that a client sent, not yet checked."""
        raise NotSupported(f"a service takes no {cls.__name__} ({sent.pull})")


@dataclass(frozen=True, slots=True)
class Tell(Write):
    """The outcome of a pull; labels or ``problem.pull(...)`` stand for unsolicited data."""

    pull: Pull | str | Mapping[str, Any]
    value: Outcome
    actor: str | None = None
    request_id: str | None = None

    path = "pulls/{pull}/tell"

    @property
    def key(self) -> str | None:
        return self.request_id

    def check(self, study: Checks) -> Self:
        study.who(actor=self.actor)
        check_texts(request_id=self.request_id)
        value = as_outcome(study.problem, self.value)
        return type(self)(study.target(self.pull), value, self.actor, self.request_id)

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        return cls(sent.pull, sent.body["value"], sent.actor, sent.key)

    def to_item(self) -> dict[str, Any]:
        """Return it as one of several outcomes in a body."""
        if isinstance(self.pull, str):
            return {"pull": self.pull, "value": self.value}
        labels = self.pull.labels if isinstance(self.pull, Pull) else self.pull
        return {**labels, "value": self.value}

    @classmethod
    def from_item(cls, item: Mapping[str, Any], actor: str | None) -> Self:
        """Return one of several outcomes in a body."""
        labels = {name: label for name, label in item.items() if name != "value"}
        return cls(item.get("pull", labels), item["value"], actor)


@dataclass(frozen=True, slots=True)
class Ask(Write):
    """A request for up to `n` pulls; an outcome in `tell` is recorded first."""

    n: int
    actor: str | None = None
    lease: float | None = None
    request_id: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    tell: Tell | None = None

    path = "asks"

    @property
    def key(self) -> str | None:
        return self.request_id

    @property
    def pulls(self) -> tuple[str, ...]:
        return () if self.tell is None else self.tell.pulls

    def check(self, study: Checks) -> Self:
        n = study.number("n", self.n)
        study.who(worker=self.actor)
        check_texts(request_id=self.request_id)
        lease = None if self.lease is None else check_lease(self.lease)
        labels = study.problem.action_labels[0]
        # The log has labels as the problem knows them.
        own = {name: str(part) if name in labels else part for name, part in self.context.items()}
        context = as_json("context", own)
        tell = None if self.tell is None else self.tell.check(study)
        if tell is not None and study.is_remote:
            study.pull_id(tell.pull)
        return type(self)(n, self.actor, lease, self.request_id, context, tell)

    def to_json(self) -> dict[str, Any]:
        tell = None if self.tell is None else self.tell.to_item()
        return {"n": self.n, "lease": self.lease, "context": self.context, "tell": tell}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        body = sent.body
        tell = None if body["tell"] is None else Tell.from_item(body["tell"], sent.actor)
        return cls(body["n"], sent.actor, body["lease"], sent.key, body["context"], tell)


@dataclass(frozen=True, slots=True)
class Extend(Write):
    """A new lease of an open pull, for that many seconds from now."""

    pull: Pull | str
    lease: float

    path = "pulls/{pull}/heartbeat"

    def check(self, study: Checks) -> Self:
        return type(self)(study.pull_id(self.pull), check_lease(self.lease))

    def to_json(self) -> dict[str, Any]:
        return {"lease": self.lease}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        return cls(sent.pull, sent.body["lease"])


@dataclass(frozen=True, slots=True)
class TellKnown(Write):
    """The measures of a pull that are known; once all are, they are its outcome."""

    pull: Pull | str
    value: Outcome
    actor: str | None = None

    path = "pulls/{pull}/known"

    def check(self, study: Checks) -> Self:
        study.who(actor=self.actor)
        pull = study.pull_id(self.pull)
        return type(self)(pull, as_outcome(study.problem, self.value), self.actor)

    def to_json(self) -> dict[str, Any]:
        return {"values": self.value}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        return cls(sent.pull, sent.body["values"], sent.actor)


@dataclass(frozen=True, slots=True)
class Amend(Write):
    """A correction of an outcome, with its reason."""

    pull: Pull | str
    value: Outcome
    reason: str
    actor: str | None = None

    path = "pulls/{pull}/amend"

    def check(self, study: Checks) -> Self:
        study.who(actor=self.actor)
        check_reason(self.reason)
        pull = study.pull_id(self.pull)
        return type(self)(pull, as_outcome(study.problem, self.value), self.reason, self.actor)

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "reason": self.reason}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        return cls(sent.pull, sent.body["value"], sent.body["reason"], sent.actor)


@dataclass(frozen=True, slots=True)
class Report(Write):
    """A reading of a pull, with details for the policy's family."""

    pull: Pull | str
    value: float | Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)
    actor: str | None = None
    request_id: str | None = None

    path = "pulls/{pull}/report"

    @property
    def key(self) -> str | None:
        return self.request_id

    def check(self, study: Checks) -> Self:
        study.who(actor=self.actor)
        check_texts(request_id=self.request_id)
        pull, value = study.pull_id(self.pull), as_reading(study.problem, self.value)
        details = as_json("details", self.details)
        return type(self)(pull, value, details, self.actor, self.request_id)

    def to_json(self) -> dict[str, Any]:
        return {**self.details, "value": self.value}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        details = {name: part for name, part in sent.body.items() if name != "value"}
        for name in details:
            if name in ("self", "pull", "request_id", "actor") or not name.isidentifier():
                raise InvalidArgument("details", "must have names that the family accepts", name)
        return cls(sent.pull, sent.body["value"], details, sent.actor, sent.key)


@dataclass(frozen=True, slots=True)
class Fail(Write):
    """The report that a pull will have no outcome, with the reason."""

    pull: Pull | str
    reason: str
    actor: str | None = None

    path = "pulls/{pull}/fail"

    def check(self, study: Checks) -> Self:
        study.who(actor=self.actor)
        check_reason(self.reason)
        return type(self)(study.pull_id(self.pull), self.reason, self.actor)

    def to_json(self) -> dict[str, Any]:
        return {"reason": self.reason}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        return cls(sent.pull, sent.body["reason"], sent.actor)


@dataclass(frozen=True, slots=True)
class Cancel(Fail):
    """The cancellation of a pull, with the reason."""

    path = "pulls/{pull}/cancel"


@dataclass(frozen=True, slots=True)
class Stop(Write):
    """The end of a study without an answer, with the reason."""

    reason: str
    actor: str | None = None

    path = "stop"

    def check(self, study: Checks) -> Self:
        study.who(actor=self.actor)
        check_reason(self.reason)
        return self

    def to_json(self) -> dict[str, Any]:
        return {"reason": self.reason}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        return cls(sent.body["reason"], sent.actor)


# ------------------------------------------------------------------- several in one


@dataclass(frozen=True, slots=True)
class Together(Write):
    """Several writes in one."""

    writes: Sequence[Write]

    @property
    def pulls(self) -> tuple[str, ...]:
        return tuple(pull for write in self.writes for pull in write.pulls)

    def check(self, study: Checks) -> Self:
        study.number("outcomes", len(self.writes))
        return replace(self, writes=[write.check(study) for write in self.writes])


@dataclass(frozen=True, slots=True)
class TellMany(Together):
    """Several outcomes."""

    writes: Sequence[Tell]
    request_id: str | None = None

    path = "tells"

    @property
    def key(self) -> str | None:
        return self.request_id

    def check(self, study: Checks) -> Self:
        check_texts(request_id=self.request_id)
        checked = Together.check(self, study)
        if self.request_id is None:
            return checked
        # Each unsolicited result has a key of its own.
        tells = [
            replace(tell, request_id=f"{self.request_id}:{place}")
            if isinstance(tell.pull, Pull)
            else tell
            for place, tell in enumerate(checked.writes)
        ]
        return replace(checked, writes=tells)

    def to_json(self) -> dict[str, Any]:
        return {"outcomes": [tell.to_item() for tell in self.writes]}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        outcomes = sent.body["outcomes"]
        return cls([Tell.from_item(item, sent.actor) for item in outcomes], sent.key)


@dataclass(frozen=True, slots=True)
class TellManyKnown(Together):
    """The known measures of several pulls; an error names all that are refused."""

    writes: Sequence[TellKnown]

    path = "known"

    def to_json(self) -> dict[str, Any]:
        return {"outcomes": [{"pull": tell.pull, **tell.to_json()} for tell in self.writes]}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        outcomes = sent.body["outcomes"]
        return cls([TellKnown(item["pull"], item["values"], sent.actor) for item in outcomes])


@dataclass(frozen=True, slots=True)
class TellTable(Write):
    """The results of a table; an error names all rows that are refused."""

    table: ResultTable
    actor: str | None = None

    def check(self, study: Checks) -> Self:
        study.who(actor=self.actor)
        return self


@dataclass(frozen=True, slots=True)
class AmendTable(Write):
    """The corrections of a table; a `preview` only returns them."""

    table: ResultTable
    reason: str
    actor: str | None = None
    preview: bool = False

    def check(self, study: Checks) -> Self:
        study.who(actor=self.actor)
        check_reason(self.reason)
        return self
