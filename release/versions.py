"""The version in all its places, and what must be done before it can be published."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import yaml

__all__ = ["later_steps", "missing", "versions"]

_VERSION = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.MULTILINE)
_HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\] - (?P<date>.+)$", re.MULTILINE)
_RELATIVE_LINK = re.compile(r"\]\((?!https?://|#|mailto:)(?P<target>[^)\s]+)\)")
_FIRST_STEP_BY_HAND = 5
"""The step of the recipe that follows `./dev release`."""


def versions(root: Path) -> dict[str, str]:
    """Return the version by the file that states it.

    Parameters
    ----------
    root : Path
        Folder of the repository.

    Returns
    -------
    dict of str
        The version that each file states; empty where a file states none.
    """
    citation, recipe = _yaml(root / "CITATION.cff"), _yaml(root / "recipe/recipe.yaml")
    heading = _HEADING.search(_text(root / "CHANGELOG.md"))
    stated = _VERSION.search(_text(root / "src/fairtrial/version.py"))
    return {
        "src/fairtrial/version.py": stated["version"] if stated else "",
        "CITATION.cff": str(citation.get("version", "")),
        "recipe/recipe.yaml": str(recipe["context"]["version"]),
        "CHANGELOG.md": heading["version"] if heading else "",
    }


def missing(root: Path) -> list[str]:
    """Return what must be done before this version can be published; empty if nothing.

    Parameters
    ----------
    root : Path
        Folder of the repository.

    Returns
    -------
    list of str
        A sentence for each thing, without a full stop.
    """
    changes = _text(root / "CHANGELOG.md")
    heading = _HEADING.search(changes)
    day = heading["date"].strip() if heading else ""
    found = []
    if not _is_day(day):
        found.append("CHANGELOG.md: the heading of the version has no date, YYYY-MM-DD")
    if "## Unreleased" in changes:
        found.append("CHANGELOG.md: entries under 'Unreleased' belong under the version")
    if str(_yaml(root / "CITATION.cff").get("date-released", "")) != day:
        found.append("CITATION.cff: date-released is not the date in CHANGELOG.md")
    if not tomllib.loads(_text(root / "pyproject.toml"))["project"].get("urls"):
        found.append("pyproject.toml: [project.urls] is missing, because there is no host yet")
    relative = len(_RELATIVE_LINK.findall(_text(root / "README.md")))
    if relative:
        found.append(f"README.md: {relative} links are relative, and lead nowhere at PyPI")
    return found


def later_steps(root: Path) -> str:
    """Return the steps of the recipe that people do after the build.

    Parameters
    ----------
    root : Path
        Folder of the repository.

    Returns
    -------
    str
        The end of CONTRIBUTING.md, as it is there.
    """
    recipe = _text(root / "CONTRIBUTING.md").partition("\n## Release\n")[2]
    return recipe[recipe.index(f"\n{_FIRST_STEP_BY_HAND}. ") :].strip()


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _yaml(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(_text(file))
    return loaded
