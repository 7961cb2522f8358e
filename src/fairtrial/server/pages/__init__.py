"""The pages of the service: a view of a running study, and forms to carry it out by hand."""

from __future__ import annotations

from fastapi import FastAPI

from fairtrial.server.pages import pulls, routes, submissions

__all__ = ["add_pages"]


def add_pages(app: FastAPI) -> None:
    """Add the pages for browsers to the service's application."""
    # The addresses of forms come first, because the route of tabs matches any name.
    for part in (pulls, submissions, routes):
        app.router.routes.extend(part.routes.routes)
