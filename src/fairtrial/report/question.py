"""The section on the question: what was asked, as the problem states it."""

from __future__ import annotations

from fairtrial.core.problem import Problem
from fairtrial.report.html import Markup, bdi, section, table

__all__ = ["question"]


def question(problem: Problem) -> Markup | None:
    """Return the section; nothing of a problem that does not say what it asks."""
    words = problem.in_words()
    if not words:
        return None
    rows = [(topic, bdi(said)) for topic, said in words.items()]
    return section("The question", table("What was asked", ("What", "As stated"), rows))
