"""Self-contained HTML pages, and writing them to files."""

from __future__ import annotations

from importlib.resources import files
from os import PathLike
from pathlib import Path

from fairtrial.core.files import replacing
from fairtrial.errors import InvalidArgument, StorageError
from fairtrial.report.html import Markup, bdi, element
from fairtrial.version import __version__

__all__ = ["document", "write_document"]


def document(title: str, *sections: Markup | None) -> str:
    """Return a complete page with its own style, no scripts and no network requests."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    style = Markup(files("fairtrial.report").joinpath("report.css").read_text(encoding="utf-8"))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(style)),
    )
    main = element("main", element("h1", bdi(title)), *sections)
    footer = element("footer", f"Written by fairtrial {__version__}.")
    body = element("html", head, element("body", main, footer), lang="en")
    return f"<!doctype html>\n{body}\n"


def write_document(path: str | Path, page: str) -> Path:
    """Write a page to a file, completely or not at all, and return the file.

    Raises
    ------
    InvalidArgument
        If the file cannot be written.
    """
    if not isinstance(path, str | PathLike):
        raise InvalidArgument("path", "must be the path of a file", path)
    file = Path(path)
    try:
        # It may contain data about people, so only its owner may read it, as with a study.
        with replacing(file) as part:
            part.write_text(page, encoding="utf-8", newline="\n")
    except StorageError as error:
        reason = f"must be a file that can be written ({getattr(error.__cause__, 'strerror', '')})"
        raise InvalidArgument("path", reason, str(path)) from error
    return file
