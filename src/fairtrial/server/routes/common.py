"""What all routes share: parameters, answers and declarations."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from fairtrial.server.blinding import seal
from fairtrial.server.documents import to_text
from fairtrial.server.problems import Refusal
from fairtrial.server.schemas import ProblemDocument
from fairtrial.server.security.access import Caller
from fairtrial.server.security.bodies import StrictRoute
from fairtrial.server.service import Answer, Key, Service, fingerprint
from fairtrial.study import Study
from fairtrial.study.store import StudyRow

__all__ = [
    "STATUSES",
    "After",
    "Limit",
    "PullId",
    "StudyName",
    "answered",
    "key_of",
    "not_modified",
    "router",
    "unchanged",
]

StudyName = Annotated[str, Path(description="A study's name.", min_length=1, max_length=200)]
PullId = Annotated[str, Path(description="A pull's id.", min_length=1, max_length=64)]
After = Annotated[
    str | None, Query(description="The cursor `next` of the previous page.", max_length=400)
]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Largest number of items on a page.")]

_PROBLEM = {
    "model": ProblemDocument,
    "content": {"application/problem+json": {}},
}
_TEXTS = {
    400: "The body is not strict JSON.",
    401: "A valid token is needed.",
    403: "The token lacks a scope.",
    404: "There is no such study or pull.",
    408: "The body did not arrive in time.",
    409: "It conflicts with what is on record.",
    410: "The pull was given up.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server does not accept that host name.",
    422: "A value is invalid; all mistakes are named.",
    429: "Too many requests.",
    500: "The storage cannot be used.",
    501: "A package is missing on the server.",
    503: "Busy: try again.",
    507: "The disk of the storage is full.",
}

STATUSES: dict[int | str, dict[str, Any]] = {
    status: {**_PROBLEM, "description": text} for status, text in _TEXTS.items()
}
"""The declared answers of routes that refuse a request, by status."""


def router(tag: str) -> APIRouter:
    """Return a router whose routes accept strict JSON."""
    return APIRouter(tags=[tag], route_class=StrictRoute, responses=STATUSES)


def answered(answer: Answer) -> Response:
    """Return the HTTP response to a request that wrote."""
    return Response(answer.body, answer.status, {"Cache-Control": "no-store"}, "application/json")


def key_of(request: Request, viewer: Caller, key: str | None, body: Any) -> Key | None:
    """Return the idempotency key of a request, or None; keys of different studies are distinct."""
    if key is None:
        return None
    study = request.path_params.get("study", "")
    return Key(viewer.actor, f"{key} {study}", fingerprint(request, body))


# ---------------------------------------------------------------------------- reading


def _etag(row: StudyRow, viewer: Caller) -> str:
    # What a caller sees also depends on the scope.
    state = f"{row.head_seq}-{row.duplicates}-{row.head_hash[:32]}"
    return f'"{state}r"' if viewer.can("read") else f'"{seal(state)}b"'


async def unchanged(
    request: Request, service: Service, viewer: Caller, study: str
) -> tuple[dict[str, str], Response | None]:
    """Return headers with the study's state, and a 304 answer if the caller already has it."""
    row = await service.readers.run(study, _row, viewer.actor)
    headers = {
        "ETag": _etag(row, viewer),
        "Cache-Control": "private, no-cache",
        "Vary": "Authorization, Cookie, Accept",
    }
    return headers, not_modified(request, headers)


def not_modified(request: Request, headers: dict[str, str]) -> Response | None:
    """Return a 304 answer if the caller already has this state, else None."""
    known = [
        tag.strip().removeprefix("W/")
        for tag in request.headers.get("if-none-match", "").split(",")
    ]
    return Response(status_code=304, headers=headers) if headers["ETag"] in known else None


def _row(study: Study) -> StudyRow:
    return study.session.row()


def document(content: Any, headers: dict[str, str]) -> Response:
    """Return a JSON response."""
    return Response(to_text(content), headers=headers, media_type="application/json")


def require_batch(service: Service, name: str, number: int) -> None:
    """Raise if a request contains, or asks for, more items than allowed.

    Raises
    ------
    Refusal
        With the status 413.
    """
    most = service.settings.batch_limit
    if number > most:
        text = f"{name} must be at most {most:,} in one request"
        raise Refusal(413, "batch-too-large", text, [(name, text)])
