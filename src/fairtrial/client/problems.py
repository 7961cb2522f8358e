"""Convert problem documents (RFC 9457) of a service into the errors that a local study raises."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import httpx

from fairtrial import errors
from fairtrial.errors import (
    AccessRefused,
    FairtrialError,
    InvalidArgument,
    MistakesFound,
    ServiceBusy,
    StorageError,
    StorageFull,
    StorageUnreachable,
    StudyNotFound,
)

__all__ = ["error_of"]

_TYPE = "urn:fairtrial:problem:"
_SHOWN = 200

_BY_STATUS: Mapping[int, type[FairtrialError]] = {
    400: InvalidArgument,
    401: AccessRefused,
    403: AccessRefused,
    404: StudyNotFound,
    413: InvalidArgument,
    422: InvalidArgument,
    429: ServiceBusy,
    502: StorageUnreachable,
    503: StorageUnreachable,
    504: StorageUnreachable,
    507: StorageFull,
}


def _slug(name: str) -> str:
    """Return a class name in the form used in the type of a problem.

    Examples
    --------
    >>> _slug("ConflictingOutcome")
    'conflicting-outcome'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


_BY_SLUG: Mapping[str, type[FairtrialError]] = {
    _slug(name): getattr(errors, name) for name in errors.__all__
}


def error_of(response: httpx.Response) -> FairtrialError:
    """Return the error for an answer: of the same class and with the same text as a local one.

    An answer that is not a problem document comes from an intermediary or another program; the
    error says so.
    """
    document = _document(response)
    if document is None:
        return _foreign(response)
    slug = str(document.get("type", "")).removeprefix(_TYPE)
    cls = _BY_SLUG.get(slug) or _BY_STATUS.get(response.status_code, StorageError)
    detail = str(document.get("detail") or document.get("title") or slug)
    return _made(cls, detail, document)


def _document(response: httpx.Response) -> dict[str, Any] | None:
    if "json" not in response.headers.get("content-type", ""):
        return None
    try:
        document = json.loads(response.content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "type" in document else None


def _foreign(response: httpx.Response) -> FairtrialError:
    cls = _BY_STATUS.get(response.status_code, StorageError)
    if not issubclass(cls, StorageError | AccessRefused):
        cls = StorageError
    said = response.text[:_SHOWN].strip()
    return cls(
        f"{response.request.url.copy_with(query=None)} answered {response.status_code} "
        f"{response.reason_phrase}, but not as a fairtrial service does"
        + (f": {said!r}" if said else "")
    )


def _made(cls: type[FairtrialError], detail: str, document: Mapping[str, Any]) -> FairtrialError:
    """Return an error of a class with exactly this text, whatever its constructor requires."""
    if issubclass(cls, InvalidArgument):
        name = _name_of(document)
        if name is None or not detail.startswith(f"{name} "):
            name = detail.partition(" ")[0]
        return cls(name, detail.removeprefix(f"{name} "))
    error = cls.__new__(cls)
    Exception.__init__(error, detail)
    if isinstance(error, MistakesFound):
        error.mistakes = tuple(str(item.get("message", "")) for item in _items(document))
        error.source = str(document.get("source", "the request"))
    return error


def _items(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    items = document.get("errors")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _name_of(document: Mapping[str, Any]) -> str | None:
    items = _items(document)
    return str(items[0].get("name", "")) if len(items) == 1 else None
