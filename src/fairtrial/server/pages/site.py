"""Make pages: templates, links, and static files whose addresses contain their hashes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairtrial.presentation.words import clean, count
from fairtrial.server.security.access import Caller
from fairtrial.version import __version__

__all__ = ["THEMES", "address", "asset", "fragment", "markup", "page", "static_address"]

THEMES = {"system": "As the device", "light": "Light", "dark": "Dark"}
"""Choices of colours, by the value of the cookie."""

_FILES = {
    "report.css": ("fairtrial.report", "text/css"),
    "page.css": ("fairtrial.server.pages", "text/css"),
    "page.js": ("fairtrial.server.pages", "text/javascript"),
    "unmask.js": ("fairtrial.server.pages", "text/javascript"),
    "zoom.js": ("fairtrial.server.pages", "text/javascript"),
    "icon.svg": ("fairtrial.server.pages", "image/svg+xml"),
}
_LINK = re.compile(r'((?:href|src|action)=")/(?!/)')
"""The beginning of a link to another page of the service."""
# After a logout, the browser's "Back" button must show nothing to the next user.
_HEADERS = {"Cache-Control": "no-store", "Vary": "Authorization, Cookie"}


def address(study: str, *parts: str) -> str:
    """Return the address of a page of a study.

    Examples
    --------
    >>> address("a/b", "decision")
    '/studies/a%2Fb/decision'
    """
    return "/".join(["/studies", *(quote(part, safe="") for part in (study, *parts))])


@cache
def _content(name: str) -> bytes:
    package, _ = _FILES[name]
    folder = files(package) if package == "fairtrial.report" else files(package) / "static"
    return folder.joinpath(name).read_bytes()


@cache
def static_address(name: str) -> str:
    """Return the address of a file; it changes whenever the content does."""
    stem, _, ending = name.rpartition(".")
    return f"/static/{stem}.{hashlib.sha256(_content(name)).hexdigest()[:12]}.{ending}"


def asset(given: str) -> Response | None:
    """Return a file by the last part of its address; None if there is no such file."""
    name = next((name for name in _FILES if static_address(name) == f"/static/{given}"), None)
    if name is None:
        return None
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_content(name), headers=headers, media_type=_FILES[name][1])


def markup(text: str) -> Markup:
    """Mark text from `fairtrial.report` as already escaped, for templates."""
    return Markup(text)  # noqa: S704 - the report's elements escape whatever is no element


@cache
def _environment() -> Environment:
    loader = PackageLoader("fairtrial.server.pages", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"clean": clean, "count": count}
    environment.globals |= {
        "address": address,
        "static": static_address,
        "themes": THEMES,
        "version": __version__,
    }
    return environment


def fragment(template: str, **content: Any) -> str:
    """Return a part of a page, rendered from its own template."""
    return _environment().get_template(template).render(**content)


def page(
    request: Request,
    template: str,
    viewer: Caller | None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **content: Any,
) -> Response:
    """Return a page, rendered from a template.

    Parameters
    ----------
    request : Request
        The request, with the choice of colours.
    template : str
        File name of the template.
    viewer : Caller or None
        The user who views the page.
    status, headers
        Status and headers of the HTTP response.
    **content
        Values for the template.
    """
    chosen = request.cookies.get("theme", "system")
    text = (
        _environment()
        .get_template(template)
        .render(
            theme=chosen if chosen in THEMES else "system",
            viewer=viewer,
            here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            **content,
        )
    )
    known = {**_HEADERS, **(headers or {})}
    root = request.app.state.service.settings.root_path
    if root:
        # Text of users holds no quotation marks, so this finds only our own links.
        text = _LINK.sub(rf"\1{root}/", text)
    return Response(text, status, known, "text/html")
