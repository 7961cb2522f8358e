"""The pages of the service: a study while it runs, and forms to do it by hand."""

from __future__ import annotations

from fastapi import FastAPI

__all__ = ["add_pages"]


def add_pages(app: FastAPI) -> None:
    """Let the application of the service answer browsers, too."""
    from fairtrial.server.pages import forms, routes

    # The forms' own addresses come before the tabs, which take any name.
    app.include_router(forms.routes)
    app.include_router(routes.routes)
