"""Parse the bodies of requests as strict JSON, so that no two parsers read them differently."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from fairtrial.core.nesting import is_deeper
from fairtrial.server.problems import Refusal
from fairtrial.server.security.guard import SLASH

__all__ = ["StrictRoute", "parse_json", "read_json"]

_DEEPEST = 32
_SHOWN = 40
_MOST_PARTS = 1_000
"""Number of parts that a body, or a part of it, can always have, however small the batch limit."""


class StrictRoute(APIRoute):
    """A route that accepts only strict JSON, and slashes within the names in its path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request matches the route, with the parameters of its path."""
        match, child = super().matches(scope)
        if match != Match.NONE:
            found = child["path_params"].items()
            child["path_params"] = {
                name: value.replace(SLASH, "/") if isinstance(value, str) else value
                for name, value in found
            }
        return match, child

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return the function that answers a request."""
        answer = super().get_route_handler()
        takes_body = self.body_field is not None

        async def strictly(request: Request) -> Response:
            if takes_body:
                service = request.app.state.service
                # Authenticate first: nothing that a stranger sends is read.
                await service.access.viewer(request)
                _require_json(request)
                request = _StrictRequest(request.scope, request.receive)
                # Read it here, because FastAPI would report mistakes in it differently.
                if await request.body():
                    _require_few_parts(await request.json(), service.settings.batch_limit)
            response: Response = await answer(request)
            return response

        return strictly


class _StrictRequest(Request):
    _strict: Any = None
    """The content once it is parsed; null is parsed again."""

    async def json(self) -> Any:
        if self._strict is None:
            self._strict = parse_json(await self.body())
        return self._strict


def read_json(request: Request, content: bytes, batch_limit: int) -> Any:
    """Return the content of a request's body, which must be JSON.

    Raises
    ------
    Refusal
        If it is not declared as JSON, is not JSON (see `parse_json`), or has too many parts.
    """
    _require_json(request)
    data = parse_json(content)
    _require_few_parts(data, batch_limit)
    return data


def _require_json(request: Request) -> None:
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if kind.strip().lower() != "application/json" or charset not in ("", "utf-8"):
        raise Refusal(415, "unsupported-media-type", "a body must be application/json, in UTF-8")


def parse_json(body: bytes) -> Any:
    """Return the content of a JSON text.

    Raises
    ------
    Refusal
        If it is not JSON, is too deeply nested, or contains something that parsers treat
        differently: a repeated name, a number that is not finite, an unpaired surrogate.

    Examples
    --------
    >>> parse_json(b'{"value": 0.5}')
    {'value': 0.5}
    """
    try:
        text = body.decode()
        _require_flat(text)
        data = json.loads(
            text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite
        )
        if "\\u" in text:
            json.dumps(data, ensure_ascii=False).encode()
    except _Mistake as mistake:
        raise _invalid(str(mistake)) from None
    except UnicodeError:
        raise _invalid("it contains text that is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise _invalid(str(error)) from None
    return data


def _require_few_parts(data: Any, batch_limit: int) -> None:
    """Raise if a body has more parts than a request may have, before examining each part.

    Examining them would delay all other requests.
    """
    most = max(batch_limit, _MOST_PARTS)
    parts = [("the body", data), *(data.items() if isinstance(data, dict) else ())]
    for name, part in parts:
        if isinstance(part, dict | list) and len(part) > most:
            text = f"{name[:_SHOWN]} must have at most {most:,} parts"
            raise Refusal(413, "batch-too-large", text, [(name[:_SHOWN], text)])


class _Mistake(Exception):
    """Something that parsers treat differently, or that takes them too long."""


def _require_flat(text: str) -> None:
    if is_deeper(text, _DEEPEST):
        raise _Mistake(f"it is nested more than {_DEEPEST} deep")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise _Mistake(f"the name {twice[:_SHOWN]!r} comes twice in an object")
    return made


def _no_number(text: str) -> Any:
    raise _Mistake(f"{text} is not a number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Mistake(f"the number {text[:_SHOWN]} is too large")
    return value


def _invalid(reason: str) -> Refusal:
    detail = f"the body is not strict JSON: {reason[:200]}"
    return Refusal(400, "invalid-json", detail, [("body", detail)])
