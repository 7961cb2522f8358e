"""What happens when a form about pulls is submitted: ask, tell, give up, correct, unmask, stop."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from fairtrial.core import Problem
from fairtrial.core.mistakes import without_python
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
from fairtrial.server.blinding import require_correction, require_own, write_as, write_for
from fairtrial.server.documents import to_text
from fairtrial.server.pages.fields import (
    Fields,
    correction_fields,
    duration_of,
    field_name,
    number_typed,
    outcome_of,
    tell_fields,
)
from fairtrial.server.pages.forms import (
    ask_fields,
    close_fields,
    kit_fields,
    predictions_typed,
    reading_fields,
    reason_field,
    stop_fields,
)
from fairtrial.server.pages.guarded import PageRoute
from fairtrial.server.pages.observers import View
from fairtrial.server.pages.pulls import NO_CACHE, pull_page, pulls_page, row_of, version_of
from fairtrial.server.pages.routes import shown, study_page, viewer_of
from fairtrial.server.pages.site import address
from fairtrial.server.pages.tabs import PULLS
from fairtrial.server.problems import Refusal
from fairtrial.server.routes.common import StudyName, key_of
from fairtrial.server.security.access import Caller
from fairtrial.server.service import Answer, Service, TheService
from fairtrial.study import Study
from fairtrial.study.log import PullRow
from fairtrial.study.writer import participant_key
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


@routes.post("/studies/{study}/forms/ask")
async def ask(request: Request, service: TheService, study: StudyName) -> Response:
    """Issue pulls."""
    form = await _Sent.of(request, service, study)
    checks = await _checks(service, study, form.viewer)
    fields = ask_fields(checks).filled(form.given)
    participant = next((one.value.strip() for one in fields if one.name == "participant"), None)
    wanted, lease = 1, None
    if participant is None:
        wanted = _whole_number(fields, "n", 1, service.settings.batch_limit) or 1
        lease = duration_of(fields)
    context = {
        one.name.removeprefix("context_"): one.value
        for one in fields
        if one.name.startswith("context_") and one.value
    } | predictions_typed(fields, checks.problem)

    def issue(opened: Study) -> Answer:
        known = participant and opened.session.pull_with_key(participant_key(participant))
        asked = wanted, form.viewer.actor, lease, form.key, context
        write = Ask(*asked, participant=participant)
        pulls = write_for(service, opened, form.viewer, write).pulls
        if len(pulls) == 1:
            done = "again" if known else "ask-1"
            return Answer(303, address(study, "pulls", pulls[0].id) + f"?done={done}")
        group = quote(context.get("group", ""), safe="")
        done = f"ask-{len(pulls)}" if pulls else f"none-{group}"
        return Answer(303, f"{address(study, 'pulls')}?done={done}")

    async def again(refused: Fields, status: int) -> Response:
        return await pulls_page(
            *(request, service, form.viewer, study), refused={"ask": refused}, status=status
        )

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
        _require_seen(form, opened, row_of(opened, form.pull))

    return await _on_pull(form, "amend", fields, write, require)


def _require_seen(form: _Sent, study: Study, row: PullRow) -> None:
    """Raise if the result was corrected after the page with the form was made."""
    if str(form.given.get("seen", "")) != version_of(study, row):
        text = (
            "the result has been corrected meanwhile: check its value above before you correct it"
        )
        raise Refusal(409, "conflicting-outcome", text)


@routes.post("/studies/{study}/forms/stop")
async def stop(request: Request, service: TheService, study: StudyName) -> Response:
    """Stop a study."""
    form = await _Sent.of(request, service, study, scope="admin")
    fields = stop_fields().filled(form.given)
    return await _on_study(form, "stop", fields, Stop(fields["reason"], form.viewer.actor))


@routes.post("/studies/{study}/forms/close")
async def close(request: Request, service: TheService, study: StudyName) -> Response:
    """Close an arm or a group of a study."""
    form = await _Sent.of(request, service, study, scope="admin")
    offered = await service.readers.run(study, close_fields, form.viewer.actor)
    fields = offered.filled(form.given)
    name, _, label = fields["part"].partition("-")
    arm, group = (label, None) if name == "arm" else (None, label)
    write = Close(arm, group, fields["reason"], form.viewer.actor)
    return await _on_study(form, "close", fields, write)


@routes.post("/studies/{study}/forms/unmask")
async def unmask(request: Request, service: TheService, study: StudyName) -> Response:
    """Record an access to the unmasking list, and return the page that opens it in the browser."""
    form = await _Sent.of(request, service, study, scope="admin")
    fields = Fields([reason_field()]).filled(form.given)

    def open_list(opened: Study) -> Answer:
        named = fields["reason"], form.viewer.actor
        if form.pull:
            require_own(opened, form.viewer, form.pull)
            row_of(opened, form.pull)
        write = Unmask(form.pull, *named) if form.pull else UnmaskAll(*named)
        [event] = write_for(service, opened, form.viewer, write).events
        keys = opened.session.unmasked(event)["keys"]
        return Answer(200, to_text({"event": event.seq, "keys": keys}))

    async def again(refused: Fields, status: int) -> Response:
        if not form.pull:
            return await pulls_page(
                *(request, service, form.viewer, study),
                refused={"unmask": refused},
                status=status,
            )
        return await pull_page(
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
                headers=NO_CACHE,
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


async def _on_study(form: _Sent, name: str, fields: Fields, write: Write) -> Response:
    """Carry out a write about the whole study."""

    def carry_out(opened: Study) -> Answer:
        event = write_for(form.service, opened, form.viewer, write).events[0]
        return Answer(303, address(form.study, "pulls") + f"?done=event-{event.seq}")

    async def again(refused: Fields, status: int) -> Response:
        where = form.request, form.service, form.viewer, form.study
        return await pulls_page(*where, refused={name: refused}, status=status)

    return await _carried_out(form, fields, carry_out, again)


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
        row_of(opened, form.pull)
        require(opened)
        events = write_for(form.service, opened, form.viewer, write).events
        where = address(form.study, "pulls", form.pull)
        # There is no event if all values were told before.
        return Answer(303, f"{where}?done=event-{events[0].seq}" if events else where)

    async def again(refused: Fields, status: int) -> Response:
        return await pull_page(
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
        # Errors about a measure are about its part of an outcome, or of a reading.
        measure = error.name.removeprefix("outcome: ").removeprefix("reading: ")
        named = [field_name(measure), "value", *names]
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
