"""What can be written to a study, as values: each is checked here, and is carried out in one place.

A study that a store keeps carries a write out by `Writer`. A study that a service keeps sends the
write's JSON to the write's path, where the service makes the same value from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

from fairtrial.core import UNSOLICITED, Problem, Pull
from fairtrial.core.problem import Outcome
from fairtrial.core.validation import check_integer
from fairtrial.core.wording import choices
from fairtrial.errors import FairtrialError, InvalidArgument, NotSupported, UnknownPull
from fairtrial.study.arguments import (
    MOST_AT_ONCE,
    as_json,
    as_outcome,
    as_reading,
    check_lease,
    check_reason,
    check_texts,
    check_unit,
)
from fairtrial.study.conduct import Conduct
from fairtrial.study.log import Event, Lease
from fairtrial.study.pull import StudyPull
from fairtrial.study.result_tables import Correction, Mistake, ResultRow, ResultTable
from fairtrial.study.statements import is_encodable

__all__ = [
    "Amend",
    "AmendTable",
    "Ask",
    "Cancel",
    "Checks",
    "Close",
    "Extend",
    "Fail",
    "FailMany",
    "Kit",
    "Mask",
    "Report",
    "Sent",
    "Stop",
    "Supply",
    "Tell",
    "TellKnown",
    "TellMany",
    "TellManyKnown",
    "TellTable",
    "Unmask",
    "UnmaskAll",
    "Write",
    "Written",
]

_SENT_ID = re.compile(r"[\w-]{1,64}", re.ASCII)


class Written(NamedTuple):
    """What a write has done: its events, pulls and corrections, and the lease that it extended.

    `stopped` says, if no pulls were issued, whether the study has stopped, and `reason` why a
    running study gives none, if there is a special reason. `first_results` is the number of rows
    of a table of corrections that have a first result, which was not taken.
    """

    events: list[Event]
    pulls: list[StudyPull]
    corrections: list[Correction]
    stopped: bool = False
    lease: Lease | None = None
    reason: str = ""
    first_results: int = 0


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
    conduct : Conduct
        What requests for pulls must state; a service checks this itself.
    """

    name: str
    problem: Problem
    storage: str
    most: int = MOST_AT_ONCE
    is_remote: bool = False
    conduct: Conduct = field(default_factory=Conduct)

    def number(self, name: str, number: object) -> int:
        """Return the number of pulls or outcomes in one write; raise if it is invalid."""
        wanted = check_integer(name, number, low=0)
        if wanted > self.most:
            accepted = f"must be at most {self.most:,} in one call: make another for the rest"
            raise InvalidArgument(name, accepted, number)
        return wanted

    def who(self, **names: str | None) -> str | None:
        """Return the name of an actor or worker; raise if it is invalid."""
        ((name, given),) = names.items()
        if self.is_remote and given is not None:
            accepted = "must be left out: the service records the name of the token"
            raise InvalidArgument(name, accepted, given)
        check_texts(**names)
        return given

    def pull_id(self, pull: object) -> str:
        """Return the id of a pull of this study."""
        if isinstance(pull, str):
            # The id becomes a part of an address, or goes into a database.
            if _SENT_ID.fullmatch(pull) if self.is_remote else is_encodable(pull):
                return pull
            if self.is_remote:
                raise UnknownPull(f"pull {pull} was never issued by study {self.name!r}")
        if not isinstance(pull, StudyPull):
            said = (
                f"was not issued by study {self.name!r}: pass a pull from its ask, or the id of one"
            )
            raise UnknownPull.about(pull, said)
        owner = pull.study
        if owner is not None and (owner.name, owner.storage) != (self.name, self.storage):
            raise UnknownPull.about(
                pull, f"is a pull of study {owner.name!r}, not of {self.name!r}"
            )
        return pull.id

    def target(self, pull: Pull | str | Mapping[str, Any]) -> Pull | str:
        """Return the id of a pull, or the pull that stands for unsolicited data."""
        if isinstance(pull, str):
            return self.pull_id(pull)
        if isinstance(pull, Mapping):
            if not _are_keywords(pull, "self"):
                raise InvalidArgument("outcomes", "must have labels of the problem", pull)
            return self.problem.pull(**pull)
        is_own = not isinstance(pull, Pull) or isinstance(pull, StudyPull)
        if is_own or pull.number != UNSOLICITED:
            return self.pull_id(pull)
        known = 0 <= pull.action < self.problem.n_actions
        if not known or self.problem.labels(pull.action) != pull.labels:
            raise UnknownPull.about(pull, "is not one of this problem's actions")
        return pull


class Sent(NamedTuple):
    """A write as a service receives it: the body, the pull of the path, and who sent it."""

    body: Mapping[str, Any]
    actor: str | None = None
    key: str | None = None
    pull: str = ""


class Write:
    """A change of a study: all of its events are written, or none.

    Each field is checked by its name, and has the same name in the body of a request. Who sent it,
    its key and its pull travel elsewhere.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[Mapping[str, Any]]

    path: ClassVar[str] = ""
    """The path, below that of the study, to which a client of a service sends it."""

    needs_flush: ClassVar[bool] = True
    """Whether it must survive a power failure."""

    @property
    def key(self) -> str | None:
        """The caller's own key, with which the write counts only once."""
        return getattr(self, "request_id", None)

    @property
    def pulls(self) -> tuple[str, ...]:
        """The ids of the pulls that it names, once it is checked or was sent."""
        pull = getattr(self, "pull", None)
        return (pull,) if isinstance(pull, str) else ()

    def check(self, study: Checks) -> Self:
        """Return the write with its values as they are stored; raise if one is invalid."""
        return type(self)(
            *[_CHECKS[name](study, getattr(self, name)) for name in self.__dataclass_fields__]
        )

    def to_json(self) -> dict[str, Any]:
        """Return the body with which a client sends it, once it is checked."""
        if not self.path:
            raise NotSupported("a service takes these one by one: some could be refused half-way")
        return {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name not in _ASIDE
        }

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        """Return the write that a client sent, not yet checked."""
        return cls(
            **{
                name: getattr(sent, _ASIDE[name]) if name in _ASIDE else sent.body[name]
                for name in cls.__dataclass_fields__
            }
        )


_ASIDE = {"pull": "pull", "actor": "actor", "worker": "actor", "request_id": "key"}
"""Fields that are not in the body, and what has them in `Sent`."""


@dataclass(frozen=True, slots=True)
class Tell(Write):
    """The outcome of a pull; labels or ``problem.pull(...)`` stand for unsolicited data."""

    pull: Pull | str | Mapping[str, Any]
    value: Outcome
    actor: str | None = None
    request_id: str | None = None

    path = "pulls/{pull}/tell"

    def check(self, study: Checks) -> Self:
        """Return the write with its values as they are stored; raise if one is invalid."""
        study.who(actor=self.actor)
        check_texts(request_id=self.request_id)
        value = as_outcome(study.problem, self.value)
        return type(self)(study.target(self.pull), value, self.actor, self.request_id)

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
    """A request for up to `n` pulls; an outcome in `tell` is recorded first.

    A `unit` gets one pull. If `n` is 0, only a pull that it already has is returned.
    """

    n: int
    worker: str | None = None
    lease: float | None = None
    request_id: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    tell: Tell | None = None
    participant: str | None = None
    unit: str | None = None

    path = "asks"

    @property
    def pulls(self) -> tuple[str, ...]:
        """The pull whose outcome is told."""
        return () if self.tell is None else self.tell.pulls

    def check(self, study: Checks) -> Self:
        """Return the request as it is carried out; an unsolicited outcome gets a key of its own."""
        if self.unit is not None:
            self._check_unit(study)
            if self.n == 0:
                # What the pull was asked with is known already.
                return type(self)(0, study.who(worker=self.worker), unit=self.unit)
        study.conduct.check_participant(self.participant, self.n)
        checked = Write.check(self, study)
        study.problem.check_ask(checked.n, checked.context)
        if checked.tell is None or self.request_id is None or isinstance(checked.tell.pull, str):
            return checked
        return replace(checked, tell=replace(checked.tell, request_id=f"{self.request_id}:tell"))

    def _check_unit(self, study: Checks) -> None:
        check_unit(self.unit)
        if study.number("n", self.n) > 1:
            raise InvalidArgument("n", "must be 1: each unit gets one pull", self.n)
        if self.tell is not None:
            raise InvalidArgument("unit", "must be left out in a request that tells an outcome")
        if self.participant is not None or study.conduct.participants is not None:
            accepted = "must be left out: the pulls of this study are for numbered participants"
            raise InvalidArgument("unit", accepted)

    def to_json(self) -> dict[str, Any]:
        """Return the body, in which the outcome names its pull."""
        tell = None if self.tell is None else self.tell.to_item()
        body = {"n": self.n, "lease": self.lease, "context": self.context, "tell": tell}
        return body | {"participant": self.participant, "unit": self.unit}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        """Return the write that a client sent, not yet checked."""
        body = sent.body
        tell = None if body["tell"] is None else Tell.from_item(body["tell"], sent.actor)
        asked = body["n"], sent.actor, body["lease"], sent.key, body["context"], tell
        return cls(*asked, body.get("participant"), body.get("unit"))


@dataclass(frozen=True, slots=True)
class Kit(Write):
    """The number of a kit that was handed out for a pull; None if a masked study chooses it."""

    pull: Pull | str
    kit: str | None = None
    actor: str | None = None

    path = "pulls/{pull}/kit"


@dataclass(frozen=True, slots=True)
class Supply(Write):
    """More kits of a masked study: that many for each arm."""

    number: int
    actor: str | None = None
    request_id: str | None = None

    path = "supply"


@dataclass(frozen=True, slots=True)
class Mask(Write):
    """The fingerprint of the unmasking list that was made; the list itself is kept elsewhere."""

    list_sha256: str
    actor: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Raise: the list is made where the storage is."""
        raise NotSupported("the unmasking list is made where the storage is, not by a service")


@dataclass(frozen=True, slots=True)
class UnmaskAll(Write):
    """An access to the whole unmasking list, with its reason."""

    reason: str
    actor: str | None = None

    path = "unmask"

    def check(self, study: Checks) -> Self:
        """Return the write with its values as they are stored; raise if nobody is named."""
        _require_somebody(study, self.actor)
        return Write.check(self, study)


@dataclass(frozen=True, slots=True)
class Unmask(Write):
    """An access to what is behind the code of one pull, with its reason."""

    pull: Pull | str
    reason: str
    actor: str | None = None

    path = "pulls/{pull}/unmask"

    def check(self, study: Checks) -> Self:
        """Return the write with its values as they are stored; raise if nobody is named."""
        _require_somebody(study, self.actor)
        return Write.check(self, study)


def _require_somebody(study: Checks, actor: str | None) -> None:
    if actor is None and not study.is_remote:
        raise InvalidArgument("actor", "must name the person who unmasks: the log records it")


@dataclass(frozen=True, slots=True)
class Extend(Write):
    """A new lease of an open pull, for that many seconds from now; it is in no event.

    `worker` is who has the pull, if known. Once it was handed out to another worker, it is refused.
    """

    pull: Pull | str
    lease: float
    worker: str | None = None

    path = "pulls/{pull}/heartbeat"
    needs_flush = False

    def check(self, study: Checks) -> Self:
        """Return the write with its values as they are stored; raise if one is invalid."""
        checked = Write.check(self, study)
        if self.worker is None and isinstance(self.pull, StudyPull) and not study.is_remote:
            return replace(checked, worker=self.pull.worker)
        return checked


@dataclass(frozen=True, slots=True)
class TellKnown(Write):
    """The measures of a pull that are known; once all are, they are its outcome."""

    pull: Pull | str
    values: Outcome
    actor: str | None = None

    path = "pulls/{pull}/known"


@dataclass(frozen=True, slots=True)
class Amend(Write):
    """A correction of an outcome, with its reason."""

    pull: Pull | str
    value: Outcome
    reason: str
    actor: str | None = None

    path = "pulls/{pull}/amend"


@dataclass(frozen=True, slots=True)
class Report(Write):
    """A reading of a pull, with details for the policy's family."""

    pull: Pull | str
    reading: float | Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)
    actor: str | None = None
    request_id: str | None = None

    path = "pulls/{pull}/report"

    def to_json(self) -> dict[str, Any]:
        """Return the body: the details and the reading side by side."""
        return {**self.details, "value": self.reading}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        """Return the write that a client sent, not yet checked."""
        details = {name: part for name, part in sent.body.items() if name != "value"}
        return cls(sent.pull, sent.body["value"], details, sent.actor, sent.key)


@dataclass(frozen=True, slots=True)
class Fail(Write):
    """The report that a pull will have no outcome, with the reason."""

    pull: Pull | str
    reason: str
    actor: str | None = None

    path = "pulls/{pull}/fail"


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


@dataclass(frozen=True, slots=True)
class Close(Write):
    """The end of an arm or of a group, with the reason: nobody is asked for it any more."""

    arm: str | None
    group: str | None
    reason: str
    actor: str | None = None

    path = "close"

    @property
    def part(self) -> tuple[str, str]:
        """What is closed: ``"arm"`` or ``"group"``, and its label."""
        return ("group", str(self.group)) if self.arm is None else ("arm", self.arm)

    def check(self, study: Checks) -> Self:
        """Return the write with its values as they are stored; raise if one is invalid."""
        if (self.arm is None) == (self.group is None):
            raise InvalidArgument("arm, group", "must be one of the two", (self.arm, self.group))
        name, label = self.part
        groups = study.problem.stated_shares.get("group", {})
        known = list(study.problem.answer_labels if name == "arm" else groups)
        if label not in known:
            raise InvalidArgument(name, f"must be one of {choices(known, label)}", label)
        return Write.check(self, study)


# ------------------------------------------------------------------- several in one


class _Many(Write):
    """Several writes of one kind."""

    __slots__ = ()
    kind: ClassVar[type[Write]]
    writes: Sequence[Write]

    @property
    def pulls(self) -> tuple[str, ...]:
        """The ids of all pulls that they name."""
        return tuple(pull for write in self.writes for pull in write.pulls)

    def check(self, study: Checks) -> Self:
        """Return the writes with their values as they are stored; raise if one is invalid."""
        for write in self.writes:
            if type(write) is not self.kind:
                raise InvalidArgument("writes", f"must each be a {self.kind.__name__}", write)
        return Write.check(self, study)


@dataclass(frozen=True, slots=True)
class TellMany(_Many):
    """Several outcomes."""

    writes: Sequence[Tell]
    request_id: str | None = None

    kind = Tell
    path = "tells"

    def check(self, study: Checks) -> Self:
        """Return the outcomes as they are stored; each unsolicited one gets a key of its own."""
        checked = _Many.check(self, study)
        if self.request_id is None:
            return checked
        tells = [
            replace(tell, request_id=f"{self.request_id}:{place}")
            if isinstance(tell.pull, Pull)
            else tell
            for place, tell in enumerate(checked.writes)
        ]
        return replace(checked, writes=tells)

    def to_json(self) -> dict[str, Any]:
        """Return the body: the outcomes, each with its pull or its labels."""
        return {"outcomes": [tell.to_item() for tell in self.writes]}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        """Return the write that a client sent, not yet checked."""
        outcomes = sent.body["outcomes"]
        return cls([Tell.from_item(item, sent.actor) for item in outcomes], sent.key)


@dataclass(frozen=True, slots=True)
class TellManyKnown(_Many):
    """The known measures of several pulls; an error names all that are refused."""

    writes: Sequence[TellKnown]

    kind = TellKnown
    path = "known"

    def to_json(self) -> dict[str, Any]:
        """Return the body: the known measures, each with its pull."""
        return {"outcomes": [{"pull": tell.pull, **tell.to_json()} for tell in self.writes]}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        """Return the write that a client sent, not yet checked."""
        outcomes = sent.body["outcomes"]
        return cls([TellKnown(item["pull"], item["values"], sent.actor) for item in outcomes])


@dataclass(frozen=True, slots=True)
class FailMany(_Many):
    """The reports that several pulls will have no outcome."""

    writes: Sequence[Fail]

    kind = Fail


@dataclass(frozen=True, slots=True)
class TellTable(Write):
    """The results of a table; an error names all rows that are refused."""

    table: ResultTable
    actor: str | None = None

    path = "tell_table"

    def to_json(self) -> dict[str, Any]:
        """Return the body: the table."""
        return {"table": self.table.to_json()}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        """Return the write that a client sent, not yet checked."""
        return cls(ResultTable.from_json(sent.body["table"]), sent.actor)


@dataclass(frozen=True, slots=True)
class AmendTable(Write):
    """The corrections of a table; a `preview` only returns them."""

    table: ResultTable
    reason: str
    actor: str | None = None
    preview: bool = False

    path = "amend_table"

    def to_json(self) -> dict[str, Any]:
        """Return the body: the table, the reason, and whether it is a preview."""
        return {"table": self.table.to_json(), "reason": self.reason, "preview": self.preview}

    @classmethod
    def from_json(cls, sent: Sent) -> Self:
        """Return the write that a client sent, not yet checked."""
        body = sent.body
        table = ResultTable.from_json(body["table"])
        return cls(table, body["reason"], sent.actor, body["preview"])


# ----------------------------------------------------------------- checks of fields


def _key(_: Checks, key: str | None) -> str | None:
    check_texts(request_id=key)
    return key


def _lease(_: Checks, lease: float | None) -> float | None:
    return None if lease is None else check_lease(lease)


def _are_keywords(given: Mapping[Any, Any], *reserved: str) -> bool:
    """Return whether the names can be arguments of a method that has the reserved ones itself."""
    return all(
        isinstance(name, str) and name.isidentifier() and name not in reserved for name in given
    )


def _keywords(argument: str, given: object, *reserved: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not _are_keywords(given, *reserved):
        raise InvalidArgument(argument, "must have names that the family accepts", given)
    return given


def _context(study: Checks, context: Mapping[str, Any]) -> dict[str, Any]:
    _keywords("context", context, "self", "n", "worker", "lease", "request_id")
    labels = study.problem.action_labels[0]
    # The log has labels as the problem knows them.
    own = {name: str(part) if name in labels else part for name, part in context.items()}
    study.conduct.check_context(study.problem, own)
    return as_json("context", own)


def _tell(study: Checks, tell: Tell | None) -> Tell | None:
    if tell is not None and study.is_remote:
        study.pull_id(tell.pull)
    return None if tell is None else tell.check(study)


def _writes(study: Checks, writes: Sequence[Write]) -> list[Write]:
    study.number("outcomes", len(writes))
    return [write.check(study) for write in writes]


def _table(study: Checks, table: ResultTable) -> ResultTable:
    """Return the table with its values as they are stored; rows with invalid ones are mistakes."""
    if len(table.rows) > study.most:
        accepted = f"must have at most {study.most:,} results: split it"
        raise InvalidArgument("path", accepted, table.name)
    check_reason(table.reason)
    rows: list[ResultRow] = []
    mistakes = list(table.mistakes)
    for row in table.rows:
        try:
            result = None if row.result is None else as_outcome(study.problem, row.result)
            rows.append(replace(row, pull_id=study.pull_id(row.pull_id), result=result))
        except FairtrialError as error:
            mistakes.append(Mistake(row.spot, str(error)))
    return replace(table, rows=tuple(rows), mistakes=tuple(mistakes))


_CHECKS: Mapping[str, Callable[[Checks, Any], Any]] = {
    "n": lambda study, n: study.number("n", n),
    "pull": Checks.pull_id,
    "value": lambda study, value: as_outcome(study.problem, value),
    "values": lambda study, values: as_outcome(study.problem, values),
    "reading": lambda study, reading: as_reading(study.problem, reading),
    "details": lambda _, details: as_json(
        "details", _keywords("details", details, "self", "pull", "value", "request_id", "actor")
    ),
    "context": _context,
    "lease": _lease,
    "arm": lambda _, arm: arm,
    "participant": lambda _, participant: participant,
    "unit": lambda _, unit: unit,
    "kit": lambda study, kit: study.conduct.check_kit(kit),
    "number": lambda study, number: check_integer("number", number, low=1, high=study.most),
    "list_sha256": lambda _, digest: digest,
    "group": lambda _, group: group,
    "reason": lambda _, reason: check_reason(reason),
    "actor": lambda study, actor: study.who(actor=actor),
    "worker": lambda study, worker: study.who(worker=worker),
    "request_id": _key,
    "tell": _tell,
    "writes": _writes,
    "table": _table,
    "preview": lambda _, preview: preview,
}
