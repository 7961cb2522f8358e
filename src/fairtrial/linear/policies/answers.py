"""What users call distinct candidates, and how an answer is put in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairtrial.core.fixed_confidence import Answers
from fairtrial.core.wording import is_best, or_within
from fairtrial.linear.problem import Problem

__all__ = ["NOTHING_YET", "STARTING", "DistinctCandidates"]

NOTHING_YET = "not every direction has been measured yet"
STARTING = "every direction has been measured, but not all of the first pulls have results yet"
"""Why there is no answer at first."""


class DistinctCandidates(Answers):
    """The best of the distinct candidates, by their numbers; the number after them is "no arm"."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def labels(self, candidates: Sequence[int]) -> list[Any]:
        """Return the labels of distinct candidates; None for "no arm", the number after them."""
        return [self.members([index])[0] for index in candidates]

    def members(self, candidates: Sequence[int]) -> list[Any]:
        """Return the labels of all candidates of some groups; None for "no arm"."""
        groups = self._problem.answer_groups
        found: list[str | None] = []
        for index in candidates:
            is_none = index == len(groups)
            found += [None] if is_none else [self._problem.answers[one] for one in groups[index]]
        return found

    def label(self, answer: Sequence[int]) -> Any:
        """Return the label of the answer, or a tuple of them where several are wanted."""
        labels = self.labels(answer)
        return labels[0] if self._problem.top == 1 else tuple(labels)

    @property
    def no_arm(self) -> str:
        """In words, why no arm leads."""
        return "no arm keeps all its limits"

    def finding(self, label: Any) -> str:
        """Return in words what there is enough evidence for."""
        problem = self._problem
        spare = problem.floor_tolerance
        if label is None:
            return self.no_arm + (f" by {spare:g}" if spare else "")
        if not problem.has_limits:
            return is_best(label, problem.tolerance)
        kept = "keeps all its limits" + (f" to within {spare:g}" if spare else "")
        return f"{label!r} is the best that {kept}{or_within(problem.tolerance, 'the best')}"
