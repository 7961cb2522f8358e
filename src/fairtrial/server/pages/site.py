"""How pages are made: templates, links, and files that never change under their address."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairtrial.presentation.words import clean, count
from fairtrial.server.security.access import Viewer
from fairtrial.version import __version__

__all__ = ["THEMES", "address", "asset", "fragment", "markup", "page", "static_address"]

THEMES = {"system": "As the device", "light": "Light", "dark": "Dark"}
"""Choices of colours, by what the cookie says."""

_FILES = {
    "report.css": ("fairtrial.report", "text/css"),
    "page.css": ("fairtrial.server.pages", "text/css"),
    "page.js": ("fairtrial.server.pages", "text/javascript"),
    "zoom.js": ("fairtrial.server.pages", "text/javascript"),
    "icon.svg": ("fairtrial.server.pages", "image/svg+xml"),
}
# Whoever comes to the same browser after a logout finds nothing by the button "Back".
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
    """Return the address of a file: another one as soon as its content is another."""
    stem, _, ending = name.rpartition(".")
    return f"/static/{stem}.{hashlib.sha256(_content(name)).hexdigest()[:12]}.{ending}"


def asset(given: str) -> Response | None:
    """Return a file by the last part of its address; None if there is none."""
    name = next((name for name in _FILES if static_address(name) == f"/static/{given}"), None)
    if name is None:
        return None
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_content(name), headers=headers, media_type=_FILES[name][1])


def markup(text: str) -> Markup:
    """Return what `fairtrial.report` has written as templates take it: escaped already."""
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
    """Return a part of a page, made of a template of its own."""
    return _environment().get_template(template).render(**content)


def page(
    request: Request,
    template: str,
    viewer: Viewer | None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **content: Any,
) -> Response:
    """Return a page made of a template.

    Parameters
    ----------
    request : Request
        It says which colours are wanted.
    template : str
        Name of the file.
    viewer : Viewer or None
        Who looks at it.
    status, headers
        HTTP's.
    **content
        What the template shows.
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
    return Response(text, status, known, "text/html")
