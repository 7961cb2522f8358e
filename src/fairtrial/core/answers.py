"""What users call an answer, and how it is put in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["Answers"]


class Answers(ABC):
    """The answers to a problem, as users know them.

    A policy has answers in a form of its own, an index say. Users see labels.
    """

    def label(self, answer: Any) -> Any:
        """Return what users call an answer: a label, a tuple of labels, or None for "no arm"."""
        return answer

    @property
    def no_arm(self) -> str:
        """In words, why no arm leads, if "no arm" can be an answer."""
        return "no arm will do"

    @abstractmethod
    def finding(self, label: Any) -> str:
        """Return in words what there is enough evidence for: "'a' is the best"."""
