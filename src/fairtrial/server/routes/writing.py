"""Routes that write to a study: one implementation for every kind of `Write`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.routing import BaseRoute, Match
from starlette.types import Message, Receive, Scope, Send

from fairtrial.core.keywords import refuse_unknown
from fairtrial.errors import FairtrialError, InvalidArgument
from fairtrial.server.blinding import (
    correction_for,
    event_for,
    require_own,
    should_stop,
    write_as,
    write_for,
)
from fairtrial.server.documents import lease_document, to_text
from fairtrial.server.problems import Refusal
from fairtrial.server.routes.common import (
    PullId,
    StudyName,
    answered,
    key_of,
    require_batch,
    router,
)
from fairtrial.server.routes.pulls import document_for, row_of
from fairtrial.server.schemas import (
    Amendment,
    Asks,
    AsksAnswer,
    Closing,
    EventAnswer,
    EventsAnswer,
    Heartbeat,
    Known,
    KnownOfMany,
    LeaseAnswer,
    Reading,
    Reason,
    TableAnswer,
    TableToAmend,
    TableToTell,
    Tells,
    Value,
)
from fairtrial.server.schemas import Kit as KitNumber
from fairtrial.server.schemas import Supply as NumberOfKits
from fairtrial.server.security.access import Caller
from fairtrial.server.security.bodies import read_json
from fairtrial.server.service import (
    Answer,
    IdempotencyKey,
    KeyText,
    Service,
    TheService,
    TheViewer,
    service_of,
)
from fairtrial.study import Study
from fairtrial.study.tokens import Scope as TokenScope
from fairtrial.study.writes import (
    Amend,
    AmendTable,
    Ask,
    Cancel,
    Close,
    Extend,
    Fail,
    Kit,
    Report,
    Sent,
    Stop,
    Supply,
    Tell,
    TellKnown,
    TellMany,
    TellManyKnown,
    TellTable,
    Unmask,
    UnmaskAll,
    Write,
    Written,
)

__all__ = ["add_direct_routes", "routes"]

routes = router("pulls")


@dataclass(frozen=True, slots=True)
class _Verb:
    """A kind of write as a route: its body and its answer, and how they are documented."""

    write: type[Write]
    name: str
    body: type[BaseModel]
    answer: type[BaseModel]
    summary: str
    text: str
    scope: TokenScope = "run"
    says_whether_to_stop: bool = False
    unmasks: bool = False

    @property
    def path(self) -> str:
        return f"/v1/studies/{{study}}/{self.write.path}"

    @property
    def takes_pull(self) -> bool:
        return "{pull}" in self.write.path


_VERBS = (
    _Verb(
        *(Ask, "ask", Asks, AsksAnswer, "Ask for pulls"),
        "Issue pulls; with `tell`, record an outcome first, in the same write.",
    ),
    _Verb(
        *(TellMany, "tell_many", Tells, EventsAnswer, "Tell outcomes"),
        "Record outcomes of pulls and unsolicited results: all of them or, after an error, none.",
    ),
    _Verb(
        *(TellManyKnown, "tell_many_known", KnownOfMany, EventsAnswer),
        "Tell the known measures of many pulls",
        "Record the known measures of several pulls: all of them or, after an error, none.",
    ),
    _Verb(
        *(TellTable, "tell_table", TableToTell, EventsAnswer, "Tell the results of a table"),
        "Record the results of a table, and which pulls will have none: all of them or, after an "
        "error that names all rows with mistakes, none.",
    ),
    _Verb(
        *(AmendTable, "amend_table", TableToAmend, TableAnswer, "Correct results by a table"),
        "Correct the results that a table states differently: all of them or, after an error that "
        "names all rows with mistakes, none.\n\n"
        "Without the scope ``read``, callers can only correct results that they told themselves.",
    ),
    _Verb(
        *(Tell, "tell", Value, EventAnswer, "Tell an outcome"),
        "Record the outcome of a pull.",
    ),
    _Verb(
        *(TellKnown, "tell_known", Known, EventsAnswer, "Tell the known measures"),
        "Record the measures of a pull that are known; once all are, they are its outcome.\n\n"
        "The answer contains no event if everything was recorded before.",
    ),
    _Verb(
        *(Report, "report", Reading, EventAnswer, "Report a reading"),
        "Record a partial reading of a pull, and return whether the pull should stop.",
        says_whether_to_stop=True,
    ),
    _Verb(
        *(Fail, "fail", Reason, EventAnswer, "Give up a pull"),
        "Report a pull lost. If its result arrives anyway, it counts.",
    ),
    _Verb(
        *(Cancel, "cancel", Reason, EventAnswer, "Cancel a pull"),
        "Cancel a pull. If its result arrives anyway, it counts.",
    ),
    _Verb(
        *(Amend, "amend", Amendment, EventAnswer, "Correct an outcome"),
        "Correct an outcome that was told before; the reason is recorded.\n\n"
        "Without the scope ``read``, callers can only correct results that they told themselves.",
    ),
    _Verb(
        *(Kit, "record_kit", KitNumber, EventAnswer, "Record a kit"),
        "Record the number of a kit that was handed out for a pull.",
    ),
    _Verb(
        *(Extend, "heartbeat", Heartbeat, LeaseAnswer, "Extend a lease"),
        "Renew the lease of a pull, starting now, and return whether the pull should stop.\n\n"
        "No event records this. An `Idempotency-Key` changes nothing: repeating it does no harm.",
        says_whether_to_stop=True,
    ),
    _Verb(
        *(Stop, "stop_study", Reason, EventAnswer, "Stop a study"),
        "Stop a study without an answer; results of open pulls still count when they arrive.",
        scope="admin",
    ),
    _Verb(
        *(Close, "close_part", Closing, EventAnswer, "Close an arm or a group"),
        "Ask nobody any more for an arm, which is then no answer, or for a group.",
        scope="admin",
    ),
    _Verb(
        *(Supply, "add_kits", NumberOfKits, EventAnswer, "Add kits"),
        "Add kits to a masked study; the answer has their numbers by arm.",
        scope="admin",
    ),
    _Verb(
        *(Unmask, "unmask_pull", Reason, EventAnswer, "Unmask a pull"),
        "Record an access to the unmasking list, and return the key of this pull's code.",
        scope="admin",
        unmasks=True,
    ),
    _Verb(
        *(UnmaskAll, "unmask", Reason, EventAnswer, "Unmask all codes"),
        "Record an access to the unmasking list, and return the keys of all codes.",
        scope="admin",
        unmasks=True,
    ),
)


@dataclass(frozen=True, slots=True)
class _Call:
    """A request that writes to a study: the caller and the idempotency key."""

    request: Request
    service: Service
    viewer: Caller
    study: str
    key: str | None

    async def answer(self, verb: _Verb, given: BaseModel, pull: str = "") -> Response:
        """Carry out a write; for a repeated request, return the first answer."""
        self.viewer.require(verb.scope, self.study)
        body = given.model_dump()
        write = verb.write.from_json(Sent(body, self.viewer.actor, self.key, pull))
        if isinstance(write, Ask):
            require_batch(self.service, "n", write.n)
        elif isinstance(write, TellMany | TellManyKnown):
            require_batch(self.service, "outcomes", len(write.writes))
        elif isinstance(write, TellTable | AmendTable):
            require_batch(self.service, "rows", len(write.table.rows) + len(write.table.mistakes))

        def carry_out(opened: Study) -> Answer:
            if isinstance(write, Ask):
                _require_known(opened, write.context)
            elif isinstance(write, TellMany):
                require_own(opened, self.viewer, *write.pulls)
                _require_valid(opened, write)
            done = write_for(self.service, opened, self.viewer, write)
            return Answer(200, to_text(self._content(verb, opened, done, pull)))

        if (
            verb.unmasks
            or isinstance(write, Extend)
            or (isinstance(write, AmendTable) and write.preview)
            or (isinstance(write, Ask) and write.unit is not None)
        ):
            # The unit is the key. The answer is not kept: its fingerprint would betray the unit.
            # Nor is one with keys to the unmasking list kept, and each access is recorded. A lease
            # can be extended again, and a preview writes nothing.
            key = None
        else:
            key = key_of(self.request, self.viewer, self.key, body)
        return answered(
            await write_as(
                *(self.service, self.viewer, self.study, carry_out, key, self.key),
                needs_flush=write.needs_flush,
            )
        )

    def _content(self, verb: _Verb, study: Study, done: Written, pull: str) -> dict[str, Any]:
        if verb.answer is AsksAnswer:
            rows = [row_of(study, issued.id) for issued in done.pulls]
            pulls = [document_for(self.viewer, study, row) for row in rows]
            why = {"reason": done.reason} if done.reason else {}
            return {"pulls": pulls, "stopped": study.stopped, **why}
        if done.lease is not None:
            return {
                **lease_document(done.lease),
                "should_stop": should_stop(study, self.viewer, pull),
            }
        events = [event_for(self.viewer, event, study) for event in done.events]
        if verb.answer is EventsAnswer:
            return {"events": events}
        if verb.answer is TableAnswer:
            corrections = [correction_for(self.viewer, one) for one in done.corrections]
            return {
                "events": events,
                "corrections": corrections,
                "first_results": done.first_results,
            }
        if verb.says_whether_to_stop:
            events[0]["should_stop"] = should_stop(study, self.viewer, pull)
        if verb.unmasks:
            # What opens the list is in no event.
            events[0]["body"] |= study.session.unmasked(done.events[0])
        return events[0]


async def _call(
    request: Request,
    service: TheService,
    viewer: TheViewer,
    study: StudyName,
    key: IdempotencyKey = None,
) -> _Call:
    return _Call(request, service, viewer, study, key)


_TheCall = Annotated[_Call, Depends(_call)]


def _endpoint(verb: _Verb) -> Callable[..., Awaitable[Response]]:
    """Return the function of a route, with the parameters that FastAPI reads from it."""

    async def write(call: _TheCall, body: BaseModel) -> Response:
        return await call.answer(verb, body)

    async def write_to_pull(call: _TheCall, body: BaseModel, pull: PullId) -> Response:
        return await call.answer(verb, body, pull)

    endpoint: Callable[..., Awaitable[Response]] = write_to_pull if verb.takes_pull else write
    # FastAPI reads from here what a body must have.
    endpoint.__annotations__["body"] = verb.body
    return endpoint


for _verb in _VERBS:
    routes.add_api_route(
        _verb.path,
        _endpoint(_verb),
        methods=["POST"],
        response_model=_verb.answer,
        name=_verb.name,
        summary=_verb.summary,
        description=_verb.text,
    )


# ----------------------------------------------------------------------------- checks


def _require_known(study: Study, context: Mapping[str, Any]) -> None:
    """Raise if the policy's family does not know this context."""
    if not context:
        return
    try:
        refuse_unknown(
            study.policy.choose, dict(context), "something that this study can be asked for"
        )
    except InvalidArgument as error:
        raise error.within("context") from None


def _require_valid(study: Study, write: TellMany) -> None:
    """Raise one error that names all outcomes that are refused."""
    mistakes: list[tuple[str, FairtrialError]] = []
    for place, tell in enumerate(write.writes):
        try:
            tell.check(study.checks)
        except FairtrialError as error:
            mistakes.append((f"outcomes[{place}]", error))
    if len(mistakes) == 1:
        # Raise the same error as for a single outcome.
        raise mistakes[0][1]
    if mistakes:
        named = [(name, str(error)) for name, error in mistakes]
        detail = "; ".join(f"{name}: {text}" for name, text in named)
        raise Refusal(422, "invalid-outcome", detail[:2_000], named)


# --------------------------------------------------------------------- a faster path

_STUDY: TypeAdapter[str] = TypeAdapter(StudyName)
_PULL: TypeAdapter[str] = TypeAdapter(PullId)
_KEY: TypeAdapter[str | None] = TypeAdapter(KeyText)


def add_direct_routes(app: FastAPI) -> None:
    """Send requests that write directly to what answers them.

    FastAPI still documents these routes, and answers invalid requests.
    """
    app.router.routes[:0] = [
        _Direct(route, verb) for route, verb in zip(routes.routes, _VERBS, strict=True)
    ]


class _Direct(BaseRoute):
    """A route that does only what is necessary for a valid request.

    For each request, FastAPI analyses again what a function takes and prepares features that our
    routes never use. This takes several times as long as everything else.

    Parameters
    ----------
    route : APIRoute
        FastAPI's version of the route.
    verb : _Verb
        What it writes.
    """

    def __init__(self, route: Any, verb: _Verb) -> None:
        self._usual = route
        self._verb = verb

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request matches the route, with the parameters of its path."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return Match.NONE, {}
        match, child = self._usual.matches(scope)
        return (match, child) if match == Match.FULL else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; pass it to FastAPI if it is invalid."""
        request = Request(scope, receive)
        service = service_of(request)
        # Authenticate first: nothing that a stranger sends is read.
        viewer = await service.access.viewer(request)
        content = await request.body()
        path, key = request.path_params, request.headers.get("idempotency-key")
        try:
            study = _STUDY.validate_python(path["study"])
            pull = _PULL.validate_python(path["pull"]) if self._verb.takes_pull else ""
            given = read_json(request, content, service.settings.batch_limit)
            body = self._verb.body.model_validate(given)
            checked_key = None if key is None else _KEY.validate_python(key)
        except ValidationError:
            # FastAPI's answer says what is wrong.
            await self._usual.handle(scope, _Again(content, receive), send)
            return
        call = _Call(request, service, viewer, study, checked_key)
        response = await call.answer(self._verb, body, pull)
        await response(scope, receive, send)


class _Again:
    """Provides a body that has already been received once more."""

    def __init__(self, content: bytes, receive: Receive) -> None:
        self._content: bytes | None = content
        self._receive = receive

    async def __call__(self) -> Message:
        if self._content is None:
            return await self._receive()
        content, self._content = self._content, None
        return {"type": "http.request", "body": content, "more_body": False}
