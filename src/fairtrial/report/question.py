"""The section on the question, as the problem states it."""

from __future__ import annotations

from fairtrial.core.problem import Problem
from fairtrial.report.html import Markup, bdi, section, table

__all__ = ["question"]


def question(problem: Problem) -> Markup | None:
    """Return the section on the question; None if the problem does not state one."""
    words = problem.in_words()
    if not words:
        return None
    rows = [(topic, bdi(said)) for topic, said in words.items()]
    return section("The question", table("What was asked", ("What", "As stated"), rows))
