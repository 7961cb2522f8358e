"""What people have closed by hand, as it is marked in tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairtrial.core.recommendation import Progress

__all__ = ["CLOSED", "is_closed", "marked", "marked_labels"]

CLOSED = "closed"


def is_closed(progress: Progress, label: object, name: str = "arm") -> bool:
    """Return whether people have closed an arm, or what else `name` says."""
    return str(label) in progress.closed.get(name, ())


def marked(progress: Progress, label: object, name: str = "arm") -> str:
    """Return a label, marked if people have closed what it names.

    Examples
    --------
    >>> from fairtrial.core import Progress, Recommendation
    >>> progress = Progress(Recommendation(None, "running"), 0, 0, 0, closed={"arm": ("b",)})
    >>> marked(progress, "a"), marked(progress, "b"), marked(progress, "b", "group")
    ('a', 'b (closed)', 'b')
    """
    return f"{label} ({CLOSED})" if is_closed(progress, label, name) else str(label)


def marked_labels(progress: Progress, labels: Mapping[str, Any]) -> list[str]:
    """Return the labels of an action, each marked if it is closed."""
    return [marked(progress, label, name) for name, label in labels.items()]
