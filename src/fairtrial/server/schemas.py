"""The bodies of requests and answers, as shown in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
)

from fairtrial.study.arguments import LONGEST_UNIT, MOST_AT_ONCE

__all__ = [
    "Amendment",
    "Asks",
    "AsksAnswer",
    "Closing",
    "EventAnswer",
    "EventsAnswer",
    "Heartbeat",
    "Kit",
    "Known",
    "LeaseAnswer",
    "NewStudy",
    "ProblemDocument",
    "PullAnswer",
    "PullsAnswer",
    "Reading",
    "Reason",
    "StudiesAnswer",
    "StudyAnswer",
    "Supply",
    "TableAnswer",
    "TableToAmend",
    "TableToTell",
    "Tells",
    "Told",
    "Value",
]

_PullId = Annotated[StrictStr, Field(min_length=1, max_length=64, description="A pull's id.")]
_Number = StrictInt | StrictFloat
_Outcome = Annotated[
    _Number | dict[str, Any],
    Field(description="The outcome: a number, or named fields if the problem has them."),
]
_Reason = Annotated[StrictStr, Field(min_length=1, max_length=10_000, pattern=r"\S")]
_Lease = Annotated[
    _Number, Field(gt=0, le=3.2e9, description="Seconds after which the pull counts as lost.")
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewStudy(_Body):
    """A study to create."""

    name: Annotated[
        StrictStr, Field(min_length=1, max_length=200, description="Printable characters.")
    ]
    problem: Annotated[dict[str, Any], Field(description="Output of `Problem.to_dict()`.")]
    policy: Annotated[dict[str, Any], Field(description="Output of `Policy.to_dict()`.")]
    seed: Annotated[StrictInt, Field(ge=0, lt=2**128)] | None = None
    conduct: Annotated[
        dict[str, Any],
        Field(description="What requests must state: `require_group`, `participants`, `kits`."),
    ] = {}
    notes: Annotated[
        dict[str, Any], Field(description="What should be known about the study, by topic.")
    ] = {}


class Reason(_Body):
    """Why a pull is given up or the study stopped."""

    reason: _Reason


class Closing(_Body):
    """The arm or the group that is closed, and why."""

    arm: StrictStr | None = None
    group: StrictStr | None = None
    reason: _Reason


class Told(_Body):
    """The outcome of a pull."""

    pull: _PullId
    value: _Outcome


class _Unsolicited(BaseModel):
    """An unsolicited result: the labels of the action that was tried, and its value."""

    model_config = ConfigDict(extra="allow")

    value: _Outcome


def _kind_of_outcome(given: Any) -> str:
    """Return which of the two kinds an outcome is meant to be, so that errors concern only one."""
    has_pull = "pull" in given if isinstance(given, dict) else hasattr(given, "pull")
    return "told" if has_pull else "unsolicited"


class Tells(_Body):
    """Outcomes; all of them are recorded, or none."""

    outcomes: Annotated[
        list[
            Annotated[
                Annotated[Told, Tag("told")] | Annotated[_Unsolicited, Tag("unsolicited")],
                Discriminator(_kind_of_outcome),
            ]
        ],
        Field(min_length=1),
    ]


class Value(_Body):
    """An outcome."""

    value: _Outcome


class Asks(_Body):
    """The number of pulls wanted, and optionally an outcome to record in the same write."""

    n: Annotated[StrictInt, Field(ge=0)] = 1
    lease: _Lease | None = None
    context: Annotated[
        dict[str, Any], Field(description="What is known in advance, such as a group.")
    ] = {}
    tell: Told | None = None
    participant: StrictStr | None = None
    unit: (
        Annotated[
            StrictStr,
            Field(
                min_length=1,
                max_length=LONGEST_UNIT,
                description="Whom the pull is for, such as a visitor: only a keyed hash is stored, "
                "and asking again returns the same pull. With `n` 0 no new pull is issued.",
            ),
        ]
        | None
    ) = None


class Kit(_Body):
    """The number of a kit that was handed out; null if a masked study chooses one."""

    kit: StrictStr | None = None


class Supply(_Body):
    """How many kits to add to a masked study, for each arm."""

    number: Annotated[StrictInt, Field(ge=1, le=MOST_AT_ONCE)]


class Reading(BaseModel):
    """A partial reading of a pull; other members are details for the family."""

    model_config = ConfigDict(extra="allow")

    value: Annotated[
        _Number | dict[str, _Number],
        Field(description="The reading; with several measures those that are known, by name."),
    ]


class Known(_Body):
    """The measures of a pull that are known."""

    values: Annotated[
        _Number | dict[str, Any],
        Field(
            description="By name; null for one that will never be known. An outcome without "
            "measures is told."
        ),
    ]


class KnownOfPull(Known):
    """The known measures of one of several pulls."""

    pull: _PullId


class KnownOfMany(_Body):
    """The known measures of several pulls; all of them are recorded, or none."""

    outcomes: Annotated[list[KnownOfPull], Field(min_length=1)]


class Amendment(_Body):
    """A correction of an outcome that was told before."""

    value: _Outcome
    reason: _Reason


class _InTable(_Body):
    """Where a row of a table is."""

    place: Annotated[StrictInt, Field(ge=0, description="Its index among the rows of the table.")]
    line: Annotated[
        StrictStr, Field(max_length=200, description="Its name in messages, such as `line 3`.")
    ]


class TableRow(_InTable):
    """A row of a table that has a result."""

    pull: _PullId
    result: Annotated[
        _Outcome | None, Field(description="Null if the pull will have no outcome.")
    ] = None
    labels: Annotated[
        dict[str, StrictStr],
        Field(description="What the row states about the pull, to be compared with the log."),
    ] = {}
    participant: Annotated[StrictStr, Field(max_length=200)] | None = None


class TableMistake(_InTable):
    """A row of a table that cannot be read: the whole table is refused, with all its mistakes."""

    text: Annotated[StrictStr, Field(max_length=2_000, description="What is wrong with it.")]


class Table(_Body):
    """The results in a table."""

    name: Annotated[StrictStr, Field(min_length=1, max_length=255, description="Of the file.")]
    rows: list[TableRow]
    mistakes: list[TableMistake] = []


class TableToTell(_Body):
    """A table of results; all of them are recorded, or none."""

    table: Table


class TableToAmend(_Body):
    """A table of corrections; all of them are recorded, or none."""

    table: Table
    reason: _Reason
    preview: Annotated[
        StrictBool, Field(description="Whether to write nothing, and only to return them.")
    ] = False


class Heartbeat(_Body):
    """The new duration of a pull's lease, in seconds from now."""

    lease: _Lease


# ---------------------------------------------------------------------------- answers


class PullAnswer(BaseModel):
    """A pull. `outcome` is only present if the caller may see it, `should_stop` for single pulls.

    `asked_at` is present for single pulls and in lists of pulls by state.

    `entered` is present for single pulls, and in lists of other than open pulls: the outcome, or
    those of its measures that are known; without the scope ``read``, what the caller entered.

    Pulls with the same `block` must be measured under the same circumstances; it is null if the
    policy does not compare results in this way. Without the scope ``read``, `propensity` is null,
    and so is `tag` if the pull was drawn at random. In a masked study, `action`, `tag` and `block`
    are null without it, and `labels` has no arm.
    """

    id: str
    number: int
    labels: dict[str, Any]
    action: int | None
    tag: int | None
    block: int | None
    state: Literal["open", "told", "expired", "cancelled", "lost"]
    propensity: float | None
    lease_until: str | None
    worker: str | None
    asked_at: str | None = None
    outcome: Any = None
    entered: Any = None
    participant: str | None = None
    kits: list[str] | None = None
    should_stop: bool | None = None


class CorrectionAnswer(BaseModel):
    """A result that a table corrects. Without the scope ``read``, only the measures given."""

    pull: str
    before: float | dict[str, Any]
    after: float | dict[str, Any]
    participant: str | None


class PullsAnswer(BaseModel):
    """Pulls, and the cursor of the next page."""

    pulls: list[PullAnswer]
    next: str | None = None


class AsksAnswer(BaseModel):
    """The issued pulls; empty if none can be issued now.

    `reason` then says why, if more than the next result is needed.
    """

    pulls: list[PullAnswer]
    stopped: bool
    reason: str | None = None


class EventAnswer(BaseModel):
    """An event of the log. Without the scope ``read``, it omits everything that would unblind."""

    seq: int
    kind: str
    at: str
    pull: str | None
    number: int | None
    action: int | None
    tag: int | None
    value: float | None
    stage: int | None
    lease_until: str | None
    actor: str | None
    request_id: str | None
    reason: str | None
    body: dict[str, Any]
    hash: str | None
    should_stop: bool | None = None


class TableAnswer(BaseModel):
    """What a table of corrections has changed.

    `first_results` is the number of rows with a first result, which are left to be told.
    """

    events: list[EventAnswer]
    corrections: list[CorrectionAnswer]
    first_results: int


class LeaseAnswer(BaseModel):
    """A pull and when its new lease ends; `should_stop` if its outcome is no longer needed."""

    pull: str
    number: int
    lease_until: str
    should_stop: bool


class EventsAnswer(BaseModel):
    """Events, and the number after which the next page begins."""

    events: list[EventAnswer]
    next: int | None = None


class StudyAnswer(BaseModel):
    """A study. Without the scope ``read``, it omits everything that would unblind."""

    name: str
    status: Literal["running", "decided", "undecided", "stopped"]
    stopped: bool
    events: int
    family: str
    policy: str
    seed: int | None
    created_at: str
    head_seq: int | None = None
    head_hash: str | None = None
    problem: dict[str, Any] | None = None
    conduct: dict[str, Any] | None = None
    notes: dict[str, str] | None = None
    policy_spec: dict[str, Any] | None = None
    storage_software: str | None = None


class StudiesAnswer(BaseModel):
    """Studies by name, and the cursor of the next page."""

    studies: list[StudyAnswer]
    next: str | None


class _Mistake(BaseModel):
    name: str
    message: str


class ProblemDocument(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[_Mistake]
