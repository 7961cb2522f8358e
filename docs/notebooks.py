"""Write the notebooks of the tutorials from their pages: `python docs/notebooks.py`.

A notebook has the text of its page, the code as cells, and the printed output below them. The tests
run the code of every page and compare what it prints, and compare the notebooks with the pages.
So the page on the site is the notebook as it is read; its first lines lead to the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FOLDER = DOCS / "notebooks"

PAGES = {
    "tutorial": "tutorial.md",
    "many-arms": "how-to/choose-among-many-arms.md",
    "late-results": "how-to/race-late-results.md",
    "fair-intervention": "how-to/find-a-fair-intervention.md",
    "guaranteed-shares": "how-to/guarantee-shares.md",
}
"""The page of each notebook."""

_CODE = re.compile(r"^```python\n(?P<code>.*?)^```\n", re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r'\s*^```text title="Output"\n(?P<output>.*?)^```\n', re.MULTILINE | re.DOTALL)
_DOWNLOAD = re.compile(r"^\[Download this page as a notebook\]\(.*\n\n", re.MULTILINE)
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")


def notebook_of(page: Path) -> dict[str, Any]:
    """Return a page as a notebook of format 4.5."""
    cells = list(_cells(page))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cells(page: Path) -> Iterator[dict[str, Any]]:
    text, begin = _DOWNLOAD.sub("", page.read_text(encoding="utf-8")), 0
    while code := _CODE.search(text, begin):
        before = text[begin : code.start()]
        if "<!-- no-run:" in before[before.rfind("\n\n") :]:
            # Code that nobody can run here stays text.
            before, code_cell = text[begin : code.end()], None
            begin = code.end()
        else:
            output = _OUTPUT.match(text, code.end())
            begin = output.end() if output else code.end()
            code_cell = _code_cell(code["code"], output["output"] if output else "")
        if before.strip():
            yield _text_cell(before, page)
        if code_cell:
            yield code_cell
    if text[begin:].strip():
        yield _text_cell(text[begin:], page)


def _code_cell(code: str, output: str) -> dict[str, Any]:
    printed = {"output_type": "stream", "name": "stdout", "text": _lines(output)}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [printed] if output else [],
        "source": _lines(code.rstrip("\n")),
    }


def _text_cell(text: str, page: Path) -> dict[str, Any]:
    def from_here(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target or target.startswith("#"):
            return link[0]
        file, mark, place = target.partition("#")
        return f"]({os.path.relpath(page.parent / file, FOLDER)}{mark}{place})"

    source = _LINK.sub(from_here, text.strip())
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(source)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def as_file(notebook: dict[str, Any]) -> str:
    """Return a notebook as the content of its file."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    for name, source in PAGES.items():
        file = FOLDER / f"{name}.ipynb"
        file.write_text(as_file(notebook_of(DOCS / source)), encoding="utf-8")
        print(file)
