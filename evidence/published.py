"""The comparisons with five papers: how many agree, and which do not."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator
from typing import Any

from papers.__main__ import PAPERS
from papers.report import AGREES, Section

__all__ = ["PAPERS", "measure_paper"]


def measure_paper(name: str, skip: set[str], effort: float, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the comparisons of a paper, with few replications if the effort is below 10 s."""
    if "all" in skip:
        return
    started = time.process_time()
    quick = effort < 10.0
    paper = PAPERS[name]
    with contextlib.redirect_stdout(io.StringIO()):
        sections = list(paper.sections(paper.cache(quick, seed)))
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    yield {
        "case": "all",
        "title": paper.title,
        "quick": quick,
        "agree": sum(verdicts),
        "compared": len(verdicts),
        "disagree": [line for section in sections for line in _disagreeing(section)],
        "processor_seconds": time.process_time() - started,
    }


def _disagreeing(section: Section) -> Iterator[str]:
    """Yield the rows of a section that do not agree, as text."""
    for table in section.tables:
        for row in table.rows:
            if row.get(AGREES) is False:
                told = [f"{name} {_shown(cell)}" for name, cell in row.items() if name != AGREES]
                yield f"{section.title}: {', '.join(told)}"


def _shown(cell: object) -> str:
    """Return a cell as text, a number with four digits."""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
