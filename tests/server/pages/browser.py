"""Debian's Chromium for the tests: installed if necessary, started, and strictly checked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.debian import install_once

_PROGRAM = Path("/usr/bin/chromium")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def installed() -> Path:
    """Return the program; install it as root on Debian, and the library that its driver needs.

    For other users without them the test is skipped, because only root can install them.
    """
    for package, is_there in (("chromium", _PROGRAM.exists), ("libatomic1", _has_libatomic)):
        if is_there():
            continue
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            pytest.skip(f"{package} is not installed, and only root can install it")
        install_once(package, is_there)
        if not is_there():
            pytest.fail(f"apt-get did not install {package}")
    return _PROGRAM


def _has_libatomic() -> bool:
    """Return whether the library is installed without which Playwright's Node.js ends at once."""
    return find_library("atomic") is not None


@contextmanager
def started() -> Iterator[Browser]:
    """Yield a browser that runs until the context ends."""
    program = installed()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, site: Any, *, who: str | None = "chief", **options: Any
) -> Iterator[Page]:
    """Yield a new window, logged in as a user; every fault in it is noticed.

    Any message on its console, an error of a script, or a request to elsewhere fails the test.
    """
    context = browser.new_context(base_url=site.url, **options)
    if who is not None:
        context.add_cookies([{"name": "fairtrial", "value": site.cookie(who), "url": site.url}])
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith(site.url) else said.append(f"request to {request.url}")
        ),
    )
    try:
        yield page
        # Statuses that a test expects are also reported on the console.
        assert [one for one in said if "the server responded with a status of" not in one] == []
    finally:
        context.close()
