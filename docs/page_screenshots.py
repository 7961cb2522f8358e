"""Make the pictures of docs/how-to/read-the-page.md: `python docs/page_screenshots.py`.

It needs Debian's package `chromium` and takes about a minute.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.server.pages import browser, sites  # noqa: E402 - only now is it on the path

_IMAGES = ROOT / "docs" / "images"
_PULLS = 150
_SHOTS = (
    # name, who, address, width, height, colours
    ("page-decision", "board", "/studies/wards/decision", 1280, 1150, "light"),
    ("page-fairness", "board", "/studies/wards/fairness", 1280, 1150, "light"),
    (
        "page-zoom",
        "board",
        "/studies/wards/fairness?from=60&to=130#zoom-distance-from-the-limit",
        1280,
        680,
        "light",
    ),
    ("page-phone", "board", "/studies/wards/decision", 390, 1000, "dark"),
    ("page-recruitment", "clinic", "/studies/wards/recruitment", 1280, 800, "light"),
    ("page-pulls", "clinic", "/studies/wards/pulls", 1280, 1000, "light"),
)


def main() -> None:
    """Start a service with studies, look at it, and keep the pictures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        sites.running(Path(folder), _PULLS) as site,
        browser.started() as chromium,
    ):
        for name, who, address, width, height, colours in _SHOTS:
            look = {"viewport": {"width": width, "height": height}, "color_scheme": colours}
            with browser.opened(chromium, site, who=who, **look) as page:
                page.goto(address)
                page.screenshot(path=_IMAGES / f"{name}.png")
                print(f"docs/images/{name}.png")


if __name__ == "__main__":
    main()
