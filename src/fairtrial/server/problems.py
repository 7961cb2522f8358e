"""Errors as documents (RFC 9457), with a type for every class of `fairtrial.errors`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from fairtrial import errors
from fairtrial.core.mistakes import without_python
from fairtrial.errors import FairtrialError, InvalidArgument, MistakesFound
from fairtrial.server.invalid_requests import mistakes_of
from fairtrial.server.telemetry import Telemetry, request_id_of

__all__ = ["Refusal", "add_problems", "as_refusal", "slug_of"]

_LOG = logging.getLogger("fairtrial.server")

_STATUSES: Mapping[type[Exception], int] = {
    errors.AccessRefused: 403,
    errors.ServiceBusy: 503,
    errors.StudyNotFound: 404,
    errors.UnknownPull: 404,
    errors.StudyExists: 409,
    errors.PullClosed: 410,
    errors.AlreadyTold: 409,
    errors.ExperimentFinished: 409,
    errors.NothingToAsk: 409,
    errors.MissingExtra: 501,
    errors.NotSupported: 422,
    errors.InvalidArgument: 422,
    errors.MistakesFound: 422,
    errors.StorageBusy: 503,
    errors.StorageUnreachable: 503,
    errors.StorageFull: 507,
    errors.StorageError: 500,
    errors.CorruptLog: 500,
}
"""Status for each class of errors; subclasses come before their base classes."""

_TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request timeout",
    409: "Conflict",
    410: "Gone",
    413: "Content too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Unprocessable content",
    429: "Too many requests",
    431: "Request header fields too large",
    501: "Not implemented",
    503: "Service unavailable",
    507: "Insufficient storage",
}


class Refusal(Exception):
    """A refused request, with the answer to send.

    Parameters
    ----------
    status : int
        HTTP status.
    slug : str
        The end of the problem's type.
    detail : str
        One sentence about what is wrong.
    mistakes : sequence of (name, message)
        Each of several mistakes.
    headers : mapping
        Further headers of the answer.
    members : mapping
        Further members of the problem document.
    reason : str, optional
        What to count it as in metrics, if it was refused because of who sent it.
    """

    def __init__(
        self,
        status: int,
        slug: str,
        detail: str,
        mistakes: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.mistakes = tuple(mistakes)
        self.headers = dict(headers or {})
        self.members = dict(members or {})
        self.reason = reason

    def response(self) -> Response:
        """Return the HTTP response."""
        document = {
            "type": f"urn:fairtrial:problem:{self.slug}",
            "title": _TITLES.get(self.status, "Error"),
            "status": self.status,
            "detail": _shown(self.detail),
            "errors": [
                {"name": _storable(name), "message": _shown(message)}
                for name, message in self.mistakes
            ],
            **self.members,
        }
        return Response(
            json.dumps(document),
            self.status,
            {"Cache-Control": "no-store", **self.headers},
            "application/problem+json",
        )


def slug_of(error: type[Exception]) -> str:
    """Return the end of a problem's type.

    Examples
    --------
    >>> slug_of(errors.ConflictingOutcome)
    'conflicting-outcome'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", error.__name__).lower()


_OF_THE_STORAGE: Mapping[type[Exception], str] = {
    errors.ServiceBusy: "",
    errors.StorageBusy: "the storage is busy; nothing of this request was kept: try again",
    errors.ConnectionLost: (
        "the connection to the storage was lost; nothing of this request was kept: try again"
    ),
    errors.StorageUnreachable: (
        "the storage cannot be reached, and it is not known whether this request was kept: repeat "
        "it with the same Idempotency-Key, so that it counts only once"
    ),
    errors.StorageFull: (
        "the disk of the storage is full; nothing of this request was kept: repeat it with the "
        "same Idempotency-Key once there is room"
    ),
    errors.StorageError: "the storage cannot be used; the server's log says why",
    errors.CorruptLog: "the study's log is damaged; the server's log says how",
}
"""Messages to callers about the storage; they reveal neither where it is nor who else uses it."""


def as_refusal(error: FairtrialError) -> Refusal:
    """Return the refusal that answers an error."""
    status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)
    text = _told(error)
    headers = {"Retry-After": "1"} if status == 503 else {}
    members: dict[str, Any] = {}
    mistakes: Sequence[tuple[str, str]] = ()
    if isinstance(error, InvalidArgument):
        mistakes = [(error.name, text)]
    elif isinstance(error, MistakesFound):
        mistakes = [(mistake.partition(":")[0], mistake) for mistake in error.mistakes]
        members["source"] = error.source
    return Refusal(status, slug_of(_public(type(error))), text, mistakes, headers, members)


def _told(error: FairtrialError) -> str:
    """Return the message for the caller; details about the storage go to the server's log only."""
    of_storage = (text for kind, text in _OF_THE_STORAGE.items() if isinstance(error, kind))
    text = next(of_storage, "")
    if text:
        _LOG.error(text.partition(";")[0], exc_info=error)
    return text or str(error)


def _public(kind: type[Exception]) -> type[Exception]:
    """Return the nearest class that clients know."""
    return next(base for base in kind.__mro__ if base.__name__ in errors.__all__)


def add_problems(app: FastAPI, telemetry: Telemetry) -> None:
    """Make an application answer every error with a problem document."""

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> Response:
        if error.reason is not None:
            actor = getattr(request.state, "actor", None)
            telemetry.refused(actor, error.reason, request_id_of(request.scope))
        return error.response()

    @app.exception_handler(FairtrialError)
    async def failed(_: Request, error: FairtrialError) -> Response:
        return as_refusal(error).response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _of_validation(error).response()

    @app.exception_handler(HTTPException)
    async def unrouted(_: Request, error: HTTPException) -> Response:
        slug = _TITLES.get(error.status_code, "Error").lower().replace(" ", "-")
        return Refusal(error.status_code, slug, str(error.detail), headers=error.headers).response()

    @app.exception_handler(Exception)
    async def unexpected(_: Request, _error: Exception) -> Response:
        return Refusal(500, "internal-error", "the server failed; its log says why").response()


def _of_validation(error: RequestValidationError) -> Refusal:
    mistakes = mistakes_of(error.errors())
    detail = "; ".join(f"{name} {message}" if name else message for name, message in mistakes)
    return Refusal(422, "invalid-request", detail[:2_000], mistakes[:100])


def _shown(text: str) -> str:
    """Return a message in the words of JSON, not of Python."""
    return _storable(without_python(text, none="null"))


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
