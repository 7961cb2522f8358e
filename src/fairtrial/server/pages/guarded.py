"""Routes of pages, whose errors are pages too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.responses import RedirectResponse

from fairtrial.core.mistakes import without_python
from fairtrial.errors import FairtrialError
from fairtrial.server.pages.site import page
from fairtrial.server.problems import Refusal, as_refusal
from fairtrial.server.security.bodies import StrictRoute

__all__ = ["PageRoute", "login_address"]

_TITLES = {
    403: "Not allowed",
    404: "Not found",
    409: "Conflict",
    413: "Too large",
    422: "Not accepted",
    429: "Too many requests",
    503: "Busy",
}


class PageRoute(StrictRoute):
    """A route that answers with pages, even after an error."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return the function that answers a request."""
        answer = super().get_route_handler()

        async def shown(request: Request) -> Response:
            response: Response
            try:
                response = await answer(request)
            except Refusal as refusal:
                return _said(request, refusal)
            except RequestValidationError:
                return _said(request, Refusal(404, "not-found", "There is no such page."))
            except FairtrialError as error:
                return _said(request, _without_place(as_refusal(error)))
            return response

        return shown


def _said(request: Request, refusal: Refusal) -> Response:
    if refusal.status == 303:
        return RedirectResponse(refusal.headers["Location"], 303)
    title = _TITLES.get(refusal.status, "Something went wrong")
    headers = {"Cache-Control": "no-store", **refusal.headers}
    detail = without_python(refusal.detail, none="missing")
    detail = detail[:1].upper() + detail[1:]
    return page(request, "problem.html", None, refusal.status, headers, title=title, detail=detail)


def _without_place(refusal: Refusal) -> Refusal:
    """Return a refusal that does not reveal where the storage is."""
    if refusal.status < 500:
        return refusal
    detail = "The storage cannot be used now. Try again in a while; the server's log says why."
    return Refusal(refusal.status, refusal.slug, detail, headers=refusal.headers)


def login_address(request: Request) -> str:
    """Return the address of the login page, which leads back here; forms are not sent again."""
    wanted = request.url.path if request.method == "GET" else "/"
    if request.method == "GET":
        raw = request.scope.get("raw_path", b"").decode("ascii", "replace").partition("?")[0]
        wanted = raw or wanted
        if request.url.query:
            wanted += f"?{request.url.query}"
    return "/login" if wanted == "/" else f"/login?{urlencode({'next': wanted})}"
