"""Routes of pulls: ask, tell, report, give up, correct, and list."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query, Response

from fairtrial.core import Pull
from fairtrial.core.keywords import refuse_unknown
from fairtrial.core.problem import Outcome
from fairtrial.errors import (
    FairtrialError,
    InvalidArgument,
    MistakesFound,
    NothingToAsk,
    UnknownPull,
)
from fairtrial.server.blinding import (
    event_for,
    may_see,
    mistakes_for,
    require_correction,
    require_own,
    require_own_events,
    require_room,
    require_untold,
)
from fairtrial.server.documents import pull_document, to_text
from fairtrial.server.problems import Refusal
from fairtrial.server.routes.common import (
    Limit,
    PullId,
    StudyName,
    TheCall,
    document,
    require_batch,
    router,
)
from fairtrial.server.schemas import (
    Amendment,
    Asks,
    AsksAnswer,
    EventAnswer,
    EventsAnswer,
    Heartbeat,
    Known,
    KnownOfMany,
    PullAnswer,
    PullsAnswer,
    Reading,
    Reason,
    Tells,
    Told,
    Value,
)
from fairtrial.server.security.access import Caller
from fairtrial.server.service import Answer, TheService, TheViewer
from fairtrial.study import Event, Study, StudyPull
from fairtrial.study.log import PullRow

routes = router("pulls")

State = Literal["open", "told", "expired", "cancelled", "lost", "all"]


@routes.post("/v1/studies/{study}/asks", response_model=AsksAnswer, summary="Ask for pulls")
async def ask(call: TheCall, body: Asks) -> Response:
    """Issue pulls; with `tell`, record an outcome first, in the same write."""
    call.viewer.require("run", call.study)
    require_batch(call.service, "n", body.n)
    asked = _names_of_a_context(body.context)

    def issue(opened: Study) -> Answer:
        _require_known(opened, asked)
        options = {
            "worker": call.viewer.actor,
            "lease": body.lease,
            "request_id": call.key,
            **asked,
        }
        if body.tell is None:
            require_room(call.service, opened, call.viewer, body.n)
            pulls = opened.ask(body.n, **options)
        else:
            require_own(opened, call.viewer, body.tell.pull)
            require_untold(opened, call.viewer, body.tell.pull)
            pulls = _tell_and_ask(call, body.tell, opened, body.n, options)
        rows = [_row(opened, pull.id) for pull in pulls]
        content = {
            "pulls": [_pull(call.viewer, opened, row) for row in rows],
            "stopped": opened.stopped,
        }
        return Answer(200, to_text(content))

    return await call.write(body, issue)


def _tell_and_ask(
    call: TheCall, told: Told, opened: Study, number: int, options: dict[str, Any]
) -> list[StudyPull]:
    """Record an outcome and issue pulls; only record it if there is no room for more pulls."""
    try:
        # The pull that is told makes room for another one.
        require_room(call.service, opened, call.viewer, number - 1)
    except NothingToAsk:
        who = {"actor": call.viewer.actor, "request_id": call.key}
        opened.tell(told.pull, told.value, **who)
        return []
    return opened.tell_and_ask(told.pull, told.value, number, **options)


def _require_known(study: Study, context: dict[str, Any]) -> None:
    """Raise if the policy's family does not know this context."""
    if not context:
        return
    try:
        refuse_unknown(study.policy.choose, context, "something that this study can be asked for")
    except InvalidArgument as error:
        raise error.within("context") from None


def _names_of_a_context(context: dict[str, Any]) -> dict[str, Any]:
    for name in context:
        if name in ("n", "worker", "lease", "request_id", "told") or not name.isidentifier():
            raise InvalidArgument("context", "must have names that the family accepts", name)
    return context


@routes.post("/v1/studies/{study}/tells", response_model=EventsAnswer, summary="Tell outcomes")
async def tell_many(call: TheCall, body: Tells) -> Response:
    """Record outcomes of pulls and unsolicited results: all of them or, after an error, none."""
    call.viewer.require("run", call.study)
    require_batch(call.service, "outcomes", len(body.outcomes))

    def tell(opened: Study) -> Answer:
        told = [each.pull for each in body.outcomes if isinstance(each, Told)]
        require_own(opened, call.viewer, *told)
        outcomes = _outcomes(opened, body)
        events = opened.tell_many(outcomes, actor=call.viewer.actor, request_id=call.key)
        require_own_events(call.viewer, events, call.key)
        documents = [event_for(call.viewer, event, opened) for event in events]
        return Answer(200, to_text({"events": documents}))

    return await call.write(body, tell)


@routes.post(
    "/v1/studies/{study}/known",
    response_model=EventsAnswer,
    summary="Tell the known measures of many pulls",
)
async def tell_many_known(call: TheCall, body: KnownOfMany) -> Response:
    """Record the known measures of several pulls: all of them or, after an error, none."""
    call.viewer.require("run", call.study)
    require_batch(call.service, "outcomes", len(body.outcomes))

    def tell(opened: Study) -> Answer:
        outcomes = [(told.pull, told.values) for told in body.outcomes]
        require_own(opened, call.viewer, *(pull for pull, _ in outcomes))
        for pull, _ in outcomes:
            require_untold(opened, call.viewer, pull)
        try:
            events = opened.tell_many_known(outcomes, actor=call.viewer.actor)
        except MistakesFound as error:
            raise mistakes_for(call.viewer, error) from None
        documents = [event_for(call.viewer, event, opened) for event in events]
        return Answer(200, to_text({"events": documents}))

    return await call.write(body, tell)


def _outcomes(study: Study, body: Tells) -> list[tuple[Pull | str, Outcome]]:
    """Return pulls and their outcomes; raise one error that names all mistakes."""
    outcomes: list[tuple[Pull | str, Outcome]] = []
    mistakes: list[tuple[str, str]] = []
    for place, told in enumerate(body.outcomes):
        try:
            outcomes.append((_pull_of(study, told), _checked(study, told.value)))
        except FairtrialError as error:
            mistakes.append((f"outcomes[{place}]", str(error)))
            first = error
    if len(mistakes) == 1:
        # Raise the same error as for a single outcome.
        raise first
    if mistakes:
        detail = "; ".join(f"{name}: {text}" for name, text in mistakes)
        raise Refusal(422, "invalid-outcome", detail[:2_000], mistakes)
    return outcomes


def _checked(study: Study, value: Any) -> Outcome:
    """Return an outcome that the problem accepts; the study itself checks measures."""
    checked: Outcome = value if study.problem.measures else study.problem.check_outcome(value)
    return checked


def _pull_of(study: Study, told: Any) -> Pull | str:
    if isinstance(told, Told):
        return told.pull
    labels = told.model_extra or {}
    if not all(name.isidentifier() and name != "self" for name in labels):
        raise InvalidArgument("outcomes", "must have labels of the problem", labels)
    return study.problem.pull(**labels)


# ------------------------------------------------------------------------ a single pull


@routes.post(
    "/v1/studies/{study}/pulls/{pull}/tell", response_model=EventAnswer, summary="Tell an outcome"
)
async def tell(call: TheCall, pull: PullId, body: Value) -> Response:
    """Record the outcome of a pull."""
    return await call.write_event(
        body,
        lambda opened: opened.tell(pull, body.value, request_id=call.key, actor=call.viewer.actor),
        pull,
    )


@routes.post(
    "/v1/studies/{study}/pulls/{pull}/known",
    response_model=EventsAnswer,
    summary="Tell the known measures",
)
async def tell_known(call: TheCall, pull: PullId, body: Known) -> Response:
    """Record the measures of a pull that are known; once all are, they are its outcome.

    The answer contains no event if everything was recorded before.
    """
    call.viewer.require("run", call.study)

    def tell(opened: Study) -> Answer:
        require_own(opened, call.viewer, pull)
        event = opened.tell_known(pull, body.values, actor=call.viewer.actor)
        events = [] if event is None else [event_for(call.viewer, event, opened)]
        return Answer(200, to_text({"events": events}))

    return await call.write(body, tell)


@routes.post(
    "/v1/studies/{study}/pulls/{pull}/report",
    response_model=EventAnswer,
    summary="Report a reading",
)
async def report(call: TheCall, pull: PullId, body: Reading) -> Response:
    """Record a partial reading of a pull, and return whether the pull should stop."""
    details = _names_of_details(body.model_extra or {})
    return await call.write_event(
        body,
        lambda opened: opened.report(
            pull, body.value, request_id=call.key, actor=call.viewer.actor, **details
        ),
        pull,
        says_whether_to_stop=True,
    )


def _names_of_details(details: dict[str, Any]) -> dict[str, Any]:
    for name in details:
        if name in ("self", "pull", "request_id", "actor") or not name.isidentifier():
            raise InvalidArgument("details", "must have names that the family accepts", name)
    return details


@routes.post(
    "/v1/studies/{study}/pulls/{pull}/fail", response_model=EventAnswer, summary="Give up a pull"
)
async def fail(call: TheCall, pull: PullId, body: Reason) -> Response:
    """Report a pull lost. If its result arrives anyway, it counts."""
    return await call.write_event(
        body,
        lambda opened: opened.fail(pull, body.reason, actor=call.viewer.actor),
        pull,
    )


@routes.post(
    "/v1/studies/{study}/pulls/{pull}/cancel", response_model=EventAnswer, summary="Cancel a pull"
)
async def cancel(call: TheCall, pull: PullId, body: Reason) -> Response:
    """Cancel a pull. If its result arrives anyway, it counts."""
    return await call.write_event(
        body,
        lambda opened: opened.cancel(pull, body.reason, actor=call.viewer.actor),
        pull,
    )


@routes.post(
    "/v1/studies/{study}/pulls/{pull}/amend",
    response_model=EventAnswer,
    summary="Correct an outcome",
)
async def amend(call: TheCall, pull: PullId, body: Amendment) -> Response:
    """Correct an outcome that was told before; the reason is recorded.

    Without the scope ``read``, callers can only correct results that they told themselves.
    """

    def correct(opened: Study) -> Event:
        require_correction(opened, call.viewer, pull)
        return opened.amend(pull, body.value, body.reason, actor=call.viewer.actor)

    return await call.write_event(body, correct, pull)


@routes.post(
    "/v1/studies/{study}/pulls/{pull}/heartbeat",
    response_model=EventAnswer,
    summary="Extend a lease",
)
async def heartbeat(call: TheCall, pull: PullId, body: Heartbeat) -> Response:
    """Renew the lease of a pull, starting now, and return whether the pull should stop."""
    return await call.write_event(
        body,
        lambda opened: opened.extend(pull, body.lease),
        pull,
        says_whether_to_stop=True,
    )


def _pull(viewer: Caller, study: Study, row: PullRow) -> dict[str, Any]:
    return pull_document(
        row,
        study.problem,
        unblinded=viewer.can("read"),
        has_blocks=study.session.has_blocks,
    )


# ----------------------------------------------------------------------------- reading


@routes.get("/v1/studies/{study}/pulls", response_model=PullsAnswer, summary="List pulls")
async def list_pulls(
    service: TheService,
    viewer: TheViewer,
    study: StudyName,
    state: State = "open",
    after: Annotated[int, Query(ge=-1, description="The cursor `next`.")] = -1,
    limit: Limit = 100,
) -> Response:
    """Return pulls by number.

    Without the scope ``read``, only the caller's own open pulls are listed: lists of other than
    open pulls are refused.
    """
    _require_run_or_read(viewer, study)
    if state != "open":
        viewer.require("read", study)

    worker = None if viewer.can("read") else viewer.actor

    def find(opened: Study) -> dict[str, Any]:
        # In the order of their numbers; unsolicited results have none.
        page = opened.session.store.some_pulls(
            opened.session.id, None if state == "all" else state, worker, after, limit + 1
        )
        more = page[limit - 1].number if len(page) > limit else None
        return {
            "pulls": [_pull(viewer, opened, row) for row in page[:limit]],
            "next": None if more is None else str(more),
        }

    if state == "open":
        found = await service.readers.run(study, find, viewer.actor)
    else:
        found = await service.readers.run_long(study, find, viewer.actor)
    return document(found, {"Cache-Control": "no-store"})


@routes.get("/v1/studies/{study}/pulls/{pull}", response_model=PullAnswer, summary="Show a pull")
async def show_pull(
    service: TheService, viewer: TheViewer, study: StudyName, pull: PullId
) -> Response:
    """Return a pull, with its outcome if the caller may see results or told it."""
    _require_run_or_read(viewer, study)

    def find(opened: Study) -> dict[str, Any]:
        require_own(opened, viewer, pull)
        row = _row(opened, pull)
        content = _pull(viewer, opened, row)
        told = _told(opened, row)
        if told is not None and may_see(viewer, told, opened):
            content["outcome"] = told.outcome
        return {**content, "should_stop": opened.should_stop(pull)}

    found = await service.readers.run(study, find, viewer.actor)
    return document(found, {"Cache-Control": "no-store"})


@routes.get(
    "/v1/studies/{study}/to_cancel",
    response_model=PullsAnswer,
    summary="List pulls that are no longer needed",
)
async def to_cancel(service: TheService, viewer: TheViewer, study: StudyName) -> Response:
    """Return the open pulls whose outcomes are no longer needed: the caller's own, or all."""
    viewer.require("run", study)

    def find(opened: Study) -> dict[str, Any]:
        found = (_row(opened, pull.id) for pull in opened.to_cancel())
        rows = [row for row in found if viewer.can("read") or row.worker == viewer.actor]
        return {"pulls": [_pull(viewer, opened, row) for row in rows], "next": None}

    found = await service.readers.run(study, find, viewer.actor)
    return document(found, {"Cache-Control": "no-store"})


def _require_run_or_read(viewer: Caller, study: str) -> None:
    viewer.require("read" if viewer.can("read") else "run", study)


def _row(study: Study, pull_id: str) -> PullRow:
    row = study.session.store.pull(study.session.id, pull_id)
    if row is None:
        raise UnknownPull(f"pull {pull_id} was never issued by study {study.name!r}")
    return row


def _told(study: Study, row: PullRow) -> Event | None:
    """Return the event with the outcome on record (the last correction, if any), or None."""
    if row.value_seq is None:
        return None
    return next(study.events(after=row.value_seq - 1))
