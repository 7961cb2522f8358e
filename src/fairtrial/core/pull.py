"""A pull: one requested observation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["UNSOLICITED", "Pull"]

UNSOLICITED = -1
"""The number of a pull that no policy requested: data that come by themselves."""


class Pull:
    """One requested observation: its number, its action, and the action's labels.

    Parameters
    ----------
    number : int
        Its position among all pulls that the policy has issued, from 0;
        `UNSOLICITED` for data that were not requested.
    action : int
        What to try: an integer in ``range(problem.n_actions)``.
    labels : mapping of str to object
        The action in the problem's own terms; each label is also an attribute.
    tag : int
        The policy's own note on the pull (a block, a slot); 0 if it needs none.
    propensity : float or None
        The probability of this arm, given everything known at the time and the group, if the policy
        drew it at random. None if nothing was drawn, and for a pull that a policy lists again.

    Examples
    --------
    >>> pull = Pull(0, 5, {"arm": "zdv_ddi", "group": "naive"})
    >>> pull.arm, pull.group
    ('zdv_ddi', 'naive')
    """

    __slots__ = ("action", "labels", "number", "propensity", "tag")

    def __init__(
        self,
        number: int,
        action: int,
        labels: Mapping[str, Any],
        tag: int = 0,
        propensity: float | None = None,
    ) -> None:
        self.number = number
        self.action = action
        self.labels = labels
        self.tag = tag
        self.propensity = propensity

    def __getattr__(self, name: str) -> Any:
        # Python calls this only if no slot has that name; labels is missing while unpickling.
        if name != "labels" and name in self.labels:
            return self.labels[name]
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __repr__(self) -> str:
        labels = ", ".join(f"{key}={value!r}" for key, value in self.labels.items())
        return f"{type(self).__name__}(number={self.number}, {labels})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pull):
            return NotImplemented
        return self.number == other.number and self.action == other.action

    def __hash__(self) -> int:
        return hash((self.number, self.action))
