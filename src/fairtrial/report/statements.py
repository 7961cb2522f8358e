"""What the problem asks and what the policy guarantees, in words."""

from __future__ import annotations

from collections.abc import Mapping

from fairtrial.core.noted import ABOUT_SEGMENTS, SEGMENT, is_problem_of_table, segments_noted
from fairtrial.core.problem import Problem
from fairtrial.core.recommendation import Guarantee
from fairtrial.presentation.words import UNNAMED, ended
from fairtrial.report.html import Markup, bdi, bullets, element, section, table

__all__ = ["guarantee_in_words", "notes_table", "question", "question_table"]

_KINDS = {
    "proven": "Proven",
    "calibrated": "Calibrated, not proven: its errors were measured",
    "heuristic": "Heuristic, not proven",
}


def question(problem: Problem, notes: Mapping[str, str] | None = None) -> Markup | None:
    """Return the section on the question; None if there is none, and there are no notes."""
    noted = notes_table("Noted when the study was created", _without_own_place(notes or {}))
    tables = [found for found in (question_table(problem), noted) if found]
    return section("The question", *tables) if tables else None


def _without_own_place(notes: Mapping[str, str]) -> dict[str, str]:
    """Return the notes that no other section shows: not problems of a table, and not segments."""
    segments = {SEGMENT + name for name in segments_noted(notes)}
    return {
        topic: said
        for topic, said in notes.items()
        if not is_problem_of_table(topic) and topic not in segments and topic != ABOUT_SEGMENTS
    }


def notes_table(caption: str, notes: Mapping[str, str]) -> Markup | None:
    """Return text by topic; None if there is none."""
    rows = [(bdi(topic), bdi(said)) for topic, said in notes.items()]
    return table(caption, ("What", "As stated"), rows) if rows else None


def question_table(problem: Problem) -> Markup | None:
    """Return what a problem asks; None if it does not say so."""
    rows = [(topic, bdi(said)) for topic, said in problem.in_words().items()]
    return table("What was asked", ("What", "As stated"), rows) if rows else None


def guarantee_in_words(guarantee: Guarantee | None) -> list[Markup]:
    """Return the guarantee's statement with its label, its assumptions and its source."""
    if guarantee is None:
        return [element("p", "The policy claims no guarantee.")]
    kind = _KINDS[guarantee.label]
    name = "" if guarantee.name == UNNAMED else f" ({guarantee.name})"
    parts = [element("p", element("strong", kind), f"{name}: {ended(guarantee.statement)}")]
    if guarantee.assumptions:
        parts += [element("p", "It assumes:"), bullets(map(ended, guarantee.assumptions))]
    if guarantee.source:
        parts.append(element("p", f"Source: {ended(guarantee.source)}"))
    return parts
