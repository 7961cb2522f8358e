"""Forms for carrying out a study by hand: ask, tell, give up, correct, unmask, stop."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from fairtrial.core import Problem
from fairtrial.core.mistakes import without_python
from fairtrial.core.wording import plural
from fairtrial.errors import (
    AlreadyTold,
    ConflictingOutcome,
    CorruptLog,
    FairtrialError,
    InvalidArgument,
    InvalidOutcome,
    StorageError,
    UnknownPull,
)
from fairtrial.presentation.words import count, number
from fairtrial.server.blinding import (
    Entered,
    entered,
    may_correct,
    require_correction,
    require_own,
    sees_arms,
    write_as,
    write_for,
)
from fairtrial.server.documents import to_text
from fairtrial.server.pages.fields import (
    Field,
    Fields,
    correction_fields,
    duration_of,
    field_name,
    number_typed,
    outcome_of,
    tell_fields,
    units,
)
from fairtrial.server.pages.guarded import PageRoute
from fairtrial.server.pages.observers import View
from fairtrial.server.pages.routes import shown, study_page, viewer_of
from fairtrial.server.pages.site import address
from fairtrial.server.pages.tabs import PULLS
from fairtrial.server.problems import Refusal
from fairtrial.server.routes.common import PullId, StudyName, key_of
from fairtrial.server.security.access import Caller
from fairtrial.server.service import Answer, Service, TheService
from fairtrial.study import Study
from fairtrial.study.conduct import Conduct, example
from fairtrial.study.log import PullRow, as_time
from fairtrial.study.numbers import numbers_of
from fairtrial.study.writes import (
    Amend,
    Ask,
    Checks,
    Close,
    Fail,
    Kit,
    Report,
    Stop,
    Tell,
    TellKnown,
    Unmask,
    UnmaskAll,
    Write,
)

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_MOST_SHOWN = 200
_MOST_ENTERED = 100
_PREDICTION = "prediction_"
"""The beginning of the names of fields with predictions."""

_REASON = "It is kept in the log and shown to its readers."
_STATES = {
    "open": "open: waiting for its result",
    "told": "has a result",
    "expired": "expired: its time is over; a late result is still accepted",
    "cancelled": "cancelled; a late result is still accepted",
    "lost": "given up; a late result is still accepted",
}
_NO_CACHE = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class Form:
    """A form about one pull.

    Parameters
    ----------
    name, title, explanation, button : str
        Its name in addresses, its title, what it does, and the label of its button.
    fields : Fields
        The fields of the form.
    danger : bool
        Whether pressing the button by mistake would do harm.
    """

    name: str
    title: str
    explanation: str
    button: str
    fields: Fields
    danger: bool = False


# ----------------------------------------------------------------------- what is shown


@routes.get("/studies/{study}/pulls")
async def show_pulls(
    request: Request, service: TheService, study: StudyName, done: str | None = None
) -> Response:
    """Return the open pulls and the form to ask for more."""
    viewer = await viewer_of(request, service, study)
    viewer.require("run", study)
    return await _pulls_page(request, service, viewer, study, said=done)


@routes.get("/studies/{study}/entered")
async def show_entered(
    request: Request, service: TheService, study: StudyName, after: int = -1
) -> Response:
    """Return all pulls with what was entered; without the scope ``read``, the user's own."""
    viewer = await viewer_of(request, service, study)
    viewer.require("run", study)

    def make(view: View) -> Response:
        opened = view.observer.study
        store, worker = opened.session.store, None if viewer.can("read") else viewer.actor
        begin = max(after, -1)
        rows = store.some_pulls(opened.session.id, None, worker, begin, _MOST_ENTERED + 1)
        page = rows[:_MOST_ENTERED]
        hidden = _Shown(opened, viewer)
        last = f"{address(study, 'entered')}?after={page[-1].number}" if page else ""
        return study_page(
            *(request, viewer, PULLS, view, [], "entered.html"),
            headers=_NO_CACHE,
            pulls=[
                _entered_line(row, seen, cells)
                for row, seen, cells in zip(
                    page, entered(opened, viewer, page), hidden.cells(page), strict=True
                )
            ],
            later=last if len(rows) > len(page) else "",
            is_first=begin < 0,
            columns=hidden.columns,
        )

    return await shown(request, service, viewer, study, make, may_be_known=False)


def _entered_line(row: PullRow, seen: Entered, cells: Sequence[str]) -> dict[str, Any]:
    return {
        "id": row.pull_id,
        "number": row.number,
        "cells": cells,
        "state": _STATES.get(row.state, row.state).partition(":")[0].partition(";")[0],
        "entered": "" if seen.values is None else _in_words(seen.values),
        "note": "corrected by somebody else" if seen.is_outdated else "",
    }


async def _pulls_page(
    request: Request,
    service: Service,
    viewer: Caller,
    study: str,
    *,
    ask: Fields | None = None,
    stop: Fields | None = None,
    close: Fields | None = None,
    unmask: Fields | None = None,
    status: int = 200,
    said: str | None = None,
) -> Response:
    def make(view: View) -> Response:
        opened = view.observer.study
        store, worker = opened.session.store, None if viewer.can("read") else viewer.actor
        rows = store.some_pulls(opened.session.id, "open", worker, -1, _MOST_SHOWN)
        labels = _Shown(opened, viewer, has_blocks=opened.session.has_blocks)
        return study_page(
            *(request, viewer, PULLS, view, [], "pulls.html"),
            status=status,
            headers=_NO_CACHE,
            done=_done(opened, viewer, said),
            stopped=opened.stopped,
            ask=ask or ask_fields(opened.checks),
            stop=stop or stop_fields(),
            close=close or (close_fields(opened) if viewer.can("admin") else None),
            may_stop=viewer.can("admin") and not opened.stopped,
            unmask=(unmask or Fields([reason_field()])) if _may_unmask(opened, viewer) else None,
            key=secrets.token_hex(16),
            pulls=[
                _pull_line(row, cells) for row, cells in zip(rows, labels.cells(rows), strict=True)
            ],
            total=store.count_open(opened.session.id, worker),
            columns=labels.columns,
        )

    return await shown(request, service, viewer, study, make, may_be_known=status == 200)


class _Shown:
    """What a table says about pulls: participants, labels, kits and blocks, as far as shown.

    Parameters
    ----------
    study, viewer : Study, Caller
        The study, and who looks at it.
    has_blocks : bool
        Whether there is a column for the block.
    """

    def __init__(self, study: Study, viewer: Caller, *, has_blocks: bool = False) -> None:
        self._study = study
        self._conduct = study.checks.conduct
        self._sees_arms = sees_arms(study, viewer)
        self._has_blocks = has_blocks and self._sees_arms

    @property
    def columns(self) -> list[str]:
        """The titles of the columns."""
        return [
            *(["Participant"] if self._conduct.participants else []),
            *(str(name).capitalize() for name in self._labels(0)),
            *(["Kits"] if self._conduct.masked else []),
            *(["Block"] if self._has_blocks else []),
        ]

    def _labels(self, action: int) -> dict[str, Any]:
        return self._conduct.shown_labels(self._study.problem, action, sees_arms=self._sees_arms)

    def cells(self, rows: Sequence[PullRow]) -> list[list[str]]:
        """Return the cells of each pull."""
        session = self._study.session
        numbers = numbers_of(session.store, session.id, self._conduct, rows)
        return [
            [
                *([own.participant or ""] if self._conduct.participants else []),
                *map(str, self._labels(row.action).values()),
                *([", ".join(own.kits)] if self._conduct.masked else []),
                *([str(row.tag)] if self._has_blocks else []),
            ]
            for row, own in zip(rows, numbers, strict=True)
        ]


def _pull_line(row: PullRow, cells: Sequence[str]) -> dict[str, Any]:
    due = "no date" if row.lease_until is None else f"{as_time(row.lease_until):%Y-%m-%d %H:%M} UTC"
    return {
        "id": row.pull_id,
        "number": row.number,
        "cells": cells,
        "due": due,
        "worker": row.worker or "",
    }


@routes.get("/studies/{study}/pulls/{pull}")
async def show_pull(
    request: Request,
    service: TheService,
    study: StudyName,
    pull: PullId,
    done: str | None = None,
) -> Response:
    """Return one pull with its forms."""
    viewer = await viewer_of(request, service, study)
    viewer.require("run", study)
    return await _pull_page(request, service, viewer, study, pull, said=done)


async def _pull_page(
    request: Request,
    service: Service,
    viewer: Caller,
    study: str,
    pull: str,
    *,
    refused: Mapping[str, Fields] | None = None,
    status: int = 200,
    said: str | None = None,
) -> Response:
    def make(view: View) -> Response:
        opened = view.observer.study
        require_own(opened, viewer, pull)
        row = _row(opened, pull)
        [seen] = entered(opened, viewer, [row])
        forms = _forms_of(row, opened, viewer, seen, refused or {})
        return study_page(
            *(request, viewer, PULLS, view, [], "pull.html"),
            status=status,
            headers=_NO_CACHE,
            # Do not reload this page while somebody types; nothing else on it changes.
            state="",
            done=_done(opened, viewer, said),
            number=row.number,
            pull_id=pull,
            seen=row.value_seq,
            facts=_facts(opened, viewer, row, seen),
            forms_shown=forms,
            key=secrets.token_hex(16),
        )

    return await shown(request, service, viewer, study, make, may_be_known=False)


def _row(study: Study, pull: str) -> PullRow:
    row = study.session.store.pull(study.session.id, pull)
    if row is None:
        raise UnknownPull("this study never issued such a pull")
    return row


def _facts(study: Study, viewer: Caller, row: PullRow, seen: Entered) -> list[tuple[str, str]]:
    problem, conduct, unmasked = study.problem, study.checks.conduct, sees_arms(study, viewer)
    labels = conduct.shown_labels(problem, row.action, sees_arms=unmasked)
    facts = [(str(name).capitalize(), str(label)) for name, label in labels.items()]
    facts += [
        (str(name), number(value) if isinstance(value, float) else str(value))
        for name, value in (problem.conditions(row.action) if unmasked else {}).items()
    ]
    if study.session.has_blocks and unmasked:
        facts.append(("Block", str(row.tag)))
    facts.append(("State", _STATES.get(row.state, row.state)))
    if row.worker:
        facts.append(("Asked for by", row.worker))
    if row.state == "open" and row.lease_until is not None:
        facts.append(("Due", f"{as_time(row.lease_until):%Y-%m-%d %H:%M} UTC"))
    session = study.session
    [numbers] = numbers_of(session.store, session.id, conduct, [row])
    if numbers.participant is not None:
        facts.insert(0, ("Participant", numbers.participant))
    if numbers.kits:
        facts.append(("Kits", ", ".join(numbers.kits)))
    if seen.values is not None:
        facts.append((_kind_of_values(row, seen), _in_words(seen.values)))
    return facts


def _kind_of_values(row: PullRow, seen: Entered) -> str:
    if seen.is_outcome:
        return "Result"
    if seen.is_outdated:
        return "You entered (somebody has corrected the result since)"
    return "Entered so far" if row.told_seq is None else "You entered"


def _may_unmask(study: Study, viewer: Caller) -> bool:
    """Return whether there is an unmasking list that the user may open."""
    return (
        viewer.can("admin")
        and study.checks.conduct.masked
        and study.session.store.first(study.session.id, "mask") is not None
    )


def _in_words(values: Any) -> str:
    if isinstance(values, Mapping):
        return ", ".join(f"{name}: {_in_words(value)}" for name, value in values.items())
    if values is None:
        return "missing"
    return f"{values:g}" if isinstance(values, float) else str(values)


def _forms_of(
    row: PullRow, study: Study, viewer: Caller, seen: Entered, refused: Mapping[str, Fields]
) -> list[Form]:
    problem = study.problem
    known = list(seen.values or ()) if problem.measures else []
    tell = tell_fields(problem, [name for name in problem.outcome_fields if name not in known])
    conduct = study.checks.conduct
    corrections = [*correction_fields(problem, known), reason_field()]
    explanation = (
        "Enter the values that you have, and leave the others blank until you have them: each "
        "counts as soon as all are there, and is never lost."
        if len(problem.measures) > 1
        else "The outcome of the pull. It counts as soon as it is recorded, and is never lost."
    )
    every = {
        "tell": Form(
            "tell",
            "Tell the result",
            explanation,
            "Record the result",
            refused.get("tell") or Fields(tell),
        ),
        "report": Form(
            "report",
            "Report an early reading",
            "A value that is known before the result. It may show that the result is no longer "
            "needed.",
            "Record the reading",
            refused.get("report") or Fields(reading_fields()),
        ),
        "kit": Form(
            "kit",
            "Another kit" if conduct.masked else "Record a kit",
            "If the first one is broken or used up: the study chooses it."
            if conduct.masked
            else "The number of the kit that was handed out. Each kit belongs to one pull.",
            "Get another kit" if conduct.masked else "Record the kit",
            refused.get("kit") or kit_fields(conduct),
        ),
        "fail": Form(
            "fail",
            "There will be no result",
            "The pull was lost: the sample broke, the person left. If results are missing "
            "because of their values, the answer may be wrong; so say why.",
            "Give up the pull",
            refused.get("fail") or Fields([reason_field()]),
            danger=True,
        ),
        "amend": Form(
            "amend",
            "Correct the result",
            "The result that is on record was wrong. It stays in the log beside the correction.",
            "Record the correction",
            refused.get("amend") or Fields(corrections),
            danger=True,
        ),
        "unmask": Form(
            "unmask",
            "Unmask this pull",
            "In an emergency: see what is behind its code. The log keeps your name and the reason. "
            "You need the unmasking list, a file that is kept apart from this service.",
            "Record the access, and open the list",
            refused.get("unmask") or Fields([reason_field()]),
            danger=True,
        ),
    }
    if row.told_seq is not None:
        names = ["amend"] if may_correct(study, viewer, row, seen) else []
    else:
        names = ["tell"] if tell else []
        if row.state == "open":
            names += [*(["report"] if problem.has_readings else []), "fail"]
    names += ["kit"] if conduct.kits is not None else []
    names += ["unmask"] if _may_unmask(study, viewer) else []
    # Show the refused form even if the pull has changed meanwhile.
    return [every[name] for name in dict.fromkeys([*refused, *names])]


def ask_fields(study: Checks) -> Fields:
    """Return the fields of the form to ask for pulls."""
    required = study.conduct.require_group
    hint, blank = (
        ("Say who is here: this study is always asked for a group.", "Please choose")
        if required
        else (
            "If people come by themselves, say who is here. Otherwise let the study choose.",
            "Let the study choose",
        )
    )
    arrivals = [
        Field(
            f"context_{name}",
            f"{name.capitalize()} of the person here",
            hint,
            options=[("", blank), *((value, value) for value in shares)],
            required=required,
        )
        for name, shares in study.problem.stated_shares.items()
    ]
    number = Field("n", "How many pulls", "A whole number, at most 1,000.", "1", is_number=True)
    form = study.conduct.participants
    if form is not None:
        hint = f"A number such as {example(form)}: never a name or a date of birth."
        number = Field("participant", "Participant", hint)
    return Fields(
        [
            number,
            *arrivals,
            *_prediction_fields(study.problem),
            Field(
                "lease",
                "Fail pulls without a result after",
                "Leave it blank to wait for as long as it takes.",
                required=False,
                is_number=True,
            ),
            Field("unit", "Unit of that time", value="days", options=units(), required=False),
        ]
    )


def _prediction_fields(problem: Problem) -> list[Field]:
    """Return the fields for what is known of a unit before its arm, if the problem asks for it."""
    stated = getattr(problem, "predictions", {})
    return [
        Field(
            f"{_PREDICTION}{place}",
            f"Prediction of {name}" if problem.measures else "Prediction",
            "What was known of this unit before: a number.",
            required=own.missing == "refuse",
            is_number=True,
        )
        for place, (name, own) in enumerate(stated.items())
    ]


def _predictions_typed(fields: Fields, problem: Problem) -> dict[str, Any]:
    """Return the predictions in the form of a context; empty if there are none."""
    names = list(getattr(problem, "predictions", {}))
    typed = {name: number_typed(fields, f"{_PREDICTION}{at}") for at, name in enumerate(names)}
    known = {name: value for name, value in typed.items() if value is not None}
    if not known:
        return {}
    return {"prediction": known if problem.measures else next(iter(known.values()))}


def reason_field() -> Field:
    """Return the field for a reason."""
    return Field("reason", "Reason", _REASON, lines=2)


def kit_fields(conduct: Conduct) -> Fields:
    """Return the field for the number of a kit; a masked study chooses the kit by itself."""
    if conduct.masked:
        return Fields([])
    return Fields([Field("kit", "Kit", f"A number such as {example(conduct.kits or '')}.")])


def stop_fields() -> Fields:
    """Return the fields of the form to stop the study."""
    return Fields([reason_field()])


def close_fields(study: Study) -> Fields:
    """Return the fields of the form to close an arm or a group."""
    with study.session.replica_at_head() as (_, replica):
        closed = {(one.name, one.label) for one in replica.closings}
    parts = {
        "arm": list(map(str, study.problem.answer_labels)),
        "group": list(study.problem.stated_shares.get("group", ())),
    }
    options = [
        (f"{name}-{label}", f"{name} {label}")
        for name, labels in parts.items()
        for label in labels[:_MOST_SHOWN]
        if (name, label) not in closed
    ]
    return Fields(
        [Field("part", "What to close", options=[("", "Please choose"), *options]), reason_field()]
    )


def reading_fields() -> list[Field]:
    """Return the fields of the form to report a reading."""
    hint = "A whole number from 1; leave it blank for the next one."
    return [
        Field("value", "Reading", "A number, such as 0.5.", is_number=True),
        Field("stage", "Which reading it is", hint, required=False, is_number=True),
    ]


_DONE = {
    "ask": "pull asked for",
    "tell": "The result is recorded",
    "late_tell": "The late result is recorded",
    "report": "The reading is recorded",
    "kit": "The kit is recorded",
    "fail": "The pull is given up",
    "amend": "The correction is recorded",
    "stop": "The study is stopped",
    "close": "Nobody is asked for it any more",
}


def _done(study: Study, viewer: Caller, said: str | None) -> str:
    """Return what was done, read from the log so that a link cannot make the page lie."""
    if said is None:
        return ""
    if said == "none":
        return "The study has stopped, or has no pull to give before the next result."
    kind, _, rest = said.partition("-")
    if kind == "ask" and rest.isascii() and rest.isdigit() and len(rest) < 6:
        # A single pull is shown on its own page.
        where = "" if rest == "1" else ": see the open pulls below"
        return f"{plural(int(rest), 'pull')} asked for{where}."
    if kind == "event" and rest.isascii() and rest.isdigit() and len(rest) < 19:
        event = next(study.events(max(int(rest) - 1, 0)), None)
        if event is None or not (viewer.can("read") or event.actor == viewer.actor):
            return ""
        if event.seq == int(rest) and event.kind in _DONE:
            return f"{_DONE[event.kind]}, as event {count(event.seq)}."
    return ""


# ------------------------------------------------------------------------ what is sent


@routes.post("/studies/{study}/forms/ask")
async def ask(request: Request, service: TheService, study: StudyName) -> Response:
    """Issue pulls."""
    form = await _Sent.of(request, service, study)
    checks = await _checks(service, study, form.viewer)
    fields = ask_fields(checks).filled(form.given)
    participant = next((one.value.strip() for one in fields if one.name == "participant"), None)
    wanted = 1
    if participant is None:
        wanted = _whole_number(fields, "n", 1, service.settings.batch_limit) or 1
    lease = duration_of(fields)
    context = {
        one.name.removeprefix("context_"): one.value
        for one in fields
        if one.name.startswith("context_") and one.value
    } | _predictions_typed(fields, checks.problem)

    def issue(opened: Study) -> Answer:
        asked = wanted, form.viewer.actor, lease, form.key, context
        write = Ask(*asked, participant=participant)
        pulls = write_for(service, opened, form.viewer, write).pulls
        if len(pulls) == 1:
            return Answer(303, address(study, "pulls", pulls[0].id) + "?done=ask-1")
        return Answer(
            303, address(study, "pulls") + f"?done={f'ask-{len(pulls)}' if pulls else 'none'}"
        )

    async def again(refused: Fields, status: int) -> Response:
        return await _pulls_page(request, service, form.viewer, study, ask=refused, status=status)

    return await _carried_out(form, fields, issue, again)


@routes.post("/studies/{study}/forms/tell")
async def tell(request: Request, service: TheService, study: StudyName) -> Response:
    """Record the outcome of a pull."""
    form = await _Sent.of(request, service, study)
    problem = await _problem(service, study, form.viewer)
    shown = list(filter(form.has_field, problem.outcome_fields))
    fields = Fields(tell_fields(problem, shown)).filled(form.given)
    outcome = outcome_of(problem, fields)
    write: Write = Tell(form.pull, outcome, form.viewer.actor)
    if problem.measures:
        write = TellKnown(form.pull, outcome, form.viewer.actor)
    return await _on_pull(form, "tell", fields, write)


@routes.post("/studies/{study}/forms/report")
async def report(request: Request, service: TheService, study: StudyName) -> Response:
    """Record a reading of a pull."""
    form = await _Sent.of(request, service, study)
    fields = Fields(reading_fields()).filled(form.given)
    value = number_typed(fields, "value")
    stage = _whole_number(fields, "stage", 1, 1_000_000) if fields["stage"] else None
    details = {} if stage is None else {"stage": stage}
    write = Report(form.pull, value or 0.0, details, form.viewer.actor, form.key)
    return await _on_pull(form, "report", fields, write)


@routes.post("/studies/{study}/forms/kit")
async def kit(request: Request, service: TheService, study: StudyName) -> Response:
    """Record a kit of a pull."""
    form = await _Sent.of(request, service, study)
    checks = await _checks(service, study, form.viewer)
    fields = kit_fields(checks.conduct).filled(form.given)
    number = None if checks.conduct.masked else fields["kit"]
    write = Kit(form.pull, number, form.viewer.actor)
    return await _on_pull(form, "kit", fields, write)


@routes.post("/studies/{study}/forms/fail")
async def fail(request: Request, service: TheService, study: StudyName) -> Response:
    """Give up a pull."""
    form = await _Sent.of(request, service, study)
    fields = Fields([reason_field()]).filled(form.given)
    write = Fail(form.pull, fields["reason"], form.viewer.actor)
    return await _on_pull(form, "fail", fields, write)


@routes.post("/studies/{study}/forms/amend")
async def amend(request: Request, service: TheService, study: StudyName) -> Response:
    """Correct an outcome."""
    form = await _Sent.of(request, service, study)
    problem = await _problem(service, study, form.viewer)
    shown = list(filter(form.has_field, problem.outcome_fields))
    fields = Fields([*correction_fields(problem, shown), reason_field()]).filled(form.given)
    outcome = outcome_of(problem, fields)

    write = Amend(form.pull, outcome, fields["reason"], form.viewer.actor)

    def require(opened: Study) -> None:
        require_correction(opened, form.viewer, write)
        _require_seen(form, _row(opened, form.pull))

    return await _on_pull(form, "amend", fields, write, require)


def _require_seen(form: _Sent, row: PullRow) -> None:
    """Raise if the result was corrected after the page with the form was made."""
    if str(form.given.get("seen", "")) != str(row.value_seq):
        text = (
            "the result has been corrected meanwhile: check its value above before you correct it"
        )
        raise Refusal(409, "conflicting-outcome", text)


@routes.post("/studies/{study}/forms/stop")
async def stop(request: Request, service: TheService, study: StudyName) -> Response:
    """Stop a study."""
    form = await _Sent.of(request, service, study, scope="admin")
    fields = stop_fields().filled(form.given)

    def end(opened: Study) -> Answer:
        write = Stop(fields["reason"], form.viewer.actor)
        event = write_for(service, opened, form.viewer, write).events[0]
        return Answer(303, address(study, "pulls") + f"?done=event-{event.seq}")

    async def again(refused: Fields, status: int) -> Response:
        return await _pulls_page(request, service, form.viewer, study, stop=refused, status=status)

    return await _carried_out(form, fields, end, again)


@routes.post("/studies/{study}/forms/close")
async def close(request: Request, service: TheService, study: StudyName) -> Response:
    """Close an arm or a group of a study."""
    form = await _Sent.of(request, service, study, scope="admin")
    offered = await service.readers.run(study, close_fields, form.viewer.actor)
    fields = offered.filled(form.given)
    name, _, label = fields["part"].partition("-")

    def end(opened: Study) -> Answer:
        arm, group = (label, None) if name == "arm" else (None, label)
        write = Close(arm, group, fields["reason"], form.viewer.actor)
        event = write_for(service, opened, form.viewer, write).events[0]
        return Answer(303, address(study, "pulls") + f"?done=event-{event.seq}")

    async def again(refused: Fields, status: int) -> Response:
        return await _pulls_page(request, service, form.viewer, study, close=refused, status=status)

    return await _carried_out(form, fields, end, again)


@routes.post("/studies/{study}/forms/unmask")
async def unmask(request: Request, service: TheService, study: StudyName) -> Response:
    """Record an access to the unmasking list, and return the page that opens it in the browser."""
    form = await _Sent.of(request, service, study, scope="admin")
    fields = Fields([reason_field()]).filled(form.given)

    def open_list(opened: Study) -> Answer:
        named = fields["reason"], form.viewer.actor
        if form.pull:
            require_own(opened, form.viewer, form.pull)
            _row(opened, form.pull)
        write = Unmask(form.pull, *named) if form.pull else UnmaskAll(*named)
        [event] = write_for(service, opened, form.viewer, write).events
        keys = opened.session.unmasked(event)["keys"]
        return Answer(200, to_text({"event": event.seq, "keys": keys}))

    async def again(refused: Fields, status: int) -> Response:
        if not form.pull:
            return await _pulls_page(
                request, service, form.viewer, study, unmask=refused, status=status
            )
        return await _pull_page(
            *(request, service, form.viewer, study, form.pull),
            refused={"unmask": refused},
            status=status,
        )

    async def show(answer: Answer) -> Response:
        back = address(study, "pulls", *([form.pull] if form.pull else []))
        content = json.loads(answer.body) | {"back": back, "state": ""}

        def make(view: View) -> Response:
            return study_page(
                *(request, form.viewer, PULLS, view, [], "unmasked.html"),
                headers=_NO_CACHE,
                **content,
            )

        return await shown(request, service, form.viewer, study, make, may_be_known=False)

    return await _carried_out(form, fields, open_list, again, show)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A submitted form, from a user who may submit it."""

    request: Request
    service: Service
    viewer: Caller
    study: str
    given: Mapping[str, Any]

    @classmethod
    async def of(cls, request: Request, service: Service, study: str, scope: str = "run") -> _Sent:
        viewer = await viewer_of(request, service, study)
        form = await request.form(max_fields=100, max_files=0)
        viewer.require_csrf(str(form.get("csrf", "")))
        viewer.require("admin" if scope == "admin" else "run", study)
        return cls(request, service, viewer, study, form)

    def has_field(self, name: str) -> bool:
        """Return whether the form had a field for this part of an outcome."""
        return field_name(name) in self.given

    @property
    def pull(self) -> str:
        return str(self.given.get("pull", ""))

    @property
    def key(self) -> str | None:
        """The form's own key: submitting it twice has the effect of once."""
        key = str(self.given.get("key", ""))
        return key if key.isascii() and key.isalnum() and len(key) <= 64 else None


async def _checks(service: Service, study: str, viewer: Caller) -> Checks:
    return await service.readers.run(study, lambda opened: opened.checks, viewer.actor)


async def _problem(service: Service, study: str, viewer: Caller) -> Problem:
    return (await _checks(service, study, viewer)).problem


async def _on_pull(
    form: _Sent,
    name: str,
    fields: Fields,
    write: Write,
    require: Callable[[Study], None] = lambda _: None,
) -> Response:
    """Carry out a write about a pull if `require` does not raise."""

    def carry_out(opened: Study) -> Answer:
        require_own(opened, form.viewer, form.pull)
        _row(opened, form.pull)
        require(opened)
        events = write_for(form.service, opened, form.viewer, write).events
        where = address(form.study, "pulls", form.pull)
        # There is no event if all values were told before.
        return Answer(303, f"{where}?done=event-{events[0].seq}" if events else where)

    async def again(refused: Fields, status: int) -> Response:
        return await _pull_page(
            *(form.request, form.service, form.viewer, form.study, form.pull),
            refused={name: refused},
            status=status,
        )

    return await _carried_out(form, fields, carry_out, again)


async def _carried_out(
    form: _Sent,
    fields: Fields,
    operation: Callable[[Study], Answer],
    again: Callable[[Fields, int], Any],
    show: Callable[[Answer], Any] | None = None,
) -> Response:
    """Carry out a submitted form, or show it again with its mistakes.

    Then go to the address in the answer; or `show` an answer that must not be kept.
    """
    if fields.errors:
        response: Response = await again(fields, 422)
        return response
    typed = {one.name: one.value for one in fields} | {"pull": form.pull}
    key = None if show else key_of(form.request, form.viewer, form.key, typed)
    try:
        answer = await write_as(form.service, form.viewer, form.study, operation, key, form.key)
    except UnknownPull:
        raise
    except (Refusal, FairtrialError) as error:
        status = error.status if isinstance(error, Refusal) else 422
        if status in (404, 503) or isinstance(error, StorageError | CorruptLog):
            raise
        _place(fields, error)
        refused: Response = await again(fields, status)
        return refused
    if show is not None:
        found: Response = await show(answer)
        return found
    return RedirectResponse(answer.body, answer.status)


def _place(fields: Fields, error: Exception) -> None:
    """Attach an error to the field that it concerns."""
    text = without_python(str(error), none="missing")
    text = f"{text[:1].upper()}{text[1:]}"
    names = [one.name for one in fields]
    if isinstance(error, ConflictingOutcome | AlreadyTold):
        fields.refuse("", text)
    elif isinstance(error, InvalidOutcome):
        named = [f"outcome_{error.name}", "value", *names]
        fields.refuse(next((name for name in named if name in names), ""), text)
    elif isinstance(error, InvalidArgument):
        fields.refuse(error.name, text)
    else:
        fields.refuse("", text)


def _whole_number(fields: Fields, name: str, low: int, high: int) -> int | None:
    value = number_typed(fields, name)
    if value is not None and low <= value <= high and value.is_integer():
        return int(value)
    if value is not None:
        fields.refuse(name, f"This must be a whole number from {low} to {high:,}.")
    return None
