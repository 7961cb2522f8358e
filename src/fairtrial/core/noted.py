"""The notes of a study that the analysis of a finished experiment makes."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "ABOUT_SEGMENTS",
    "MISSING_OUTCOMES",
    "PROBLEM_OF_TABLE",
    "SAMPLE_RATIO",
    "SEGMENT",
    "doubts_noted",
    "is_problem_of_table",
    "problems_of_table",
    "segments_noted",
]

PROBLEM_OF_TABLE = "problem of the table: "
"""How the topics of notes begin that say what a check of the table found."""

SAMPLE_RATIO = "sample ratio"
"""What the check of the units per arm is called."""

MISSING_OUTCOMES = "missing outcomes"
"""What the check of the missing outcomes per arm is called."""

SEGMENT = "segment "
"""How the topics of notes begin that state the difference between two arms in a segment."""

ABOUT_SEGMENTS = "effects by segment"
"""The topic of the note that says what the intervals of all segments promise."""


def is_problem_of_table(topic: str) -> bool:
    """Return whether a note says what a check of the table found."""
    return topic.startswith(PROBLEM_OF_TABLE)


def problems_of_table(notes: Mapping[str, str]) -> dict[str, str]:
    """Return what the checks of the table found, by topic.

    Examples
    --------
    >>> problems_of_table({"problem of the table: order": "sorted by arm", "Population": "adults"})
    {'order': 'sorted by arm'}
    """
    return {
        topic.removeprefix(PROBLEM_OF_TABLE): said
        for topic, said in notes.items()
        if is_problem_of_table(topic)
    }


def doubts_noted(notes: Mapping[str, str], *, ignores_losses: bool = False) -> tuple[str, ...]:
    """Return why no rule is right for the table: units are missing, or were assigned otherwise.

    If the analysis leaves out units without an outcome, arms that lack more outcomes than others
    are such a reason as well. The other problems of a table are possible without a wrong answer.

    Examples
    --------
    >>> doubts_noted({"problem of the table: order": "sorted by arm"})
    ()
    >>> doubts_noted({"problem of the table: sample ratio": "old 60 %, planned 50 %"})
    ('the units per arm contradict the planned shares',)
    """
    problems, found = problems_of_table(notes), []
    if SAMPLE_RATIO in problems:
        found.append("the units per arm contradict the planned shares")
    if ignores_losses and MISSING_OUTCOMES in problems:
        found.append("some arms lack more outcomes than chance explains")
    return tuple(found)


def segments_noted(notes: Mapping[str, str]) -> dict[str, str]:
    """Return the differences in segments, by what is compared where; empty if none were asked for.

    Examples
    --------
    >>> notes = {"segment device = phone: b minus a": "0.1 (0.0 to 0.2)", "effects by segment": "-"}
    >>> segments_noted(notes)
    {'device = phone: b minus a': '0.1 (0.0 to 0.2)'}
    """
    if ABOUT_SEGMENTS not in notes:
        return {}
    return {
        topic.removeprefix(SEGMENT): said
        for topic, said in notes.items()
        if topic.startswith(SEGMENT)
    }
