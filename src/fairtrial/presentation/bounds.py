"""Limits on values other than means, such as gaps that must stay below a bound."""

from __future__ import annotations

from dataclasses import dataclass

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.cuts import cut_of_arms
from fairtrial.presentation.guardrails import EVIDENCE
from fairtrial.presentation.limits import Standing, Standings, finite
from fairtrial.presentation.words import number

__all__ = [
    "Bounded",
    "bounded_values",
    "explanation_of_bounds",
    "meaning_of_bounds",
    "title_of_bounds",
]

_MEANINGS = {
    "counterfactual gap": (
        "A gap is the change in the mean of people with one value of a sensitive feature, if they "
        "had another value and everything else stayed the same."
    )
}


@dataclass(frozen=True, slots=True)
class Bounded:
    """A value of an arm whose absolute value must stay below a bound.

    Parameters
    ----------
    arm, kind, of : str
        The arm, the kind of value, and what it belongs to.
    value : float or None
        The estimate; None if nothing is known.
    bound : float
        The bound on its absolute value.
    log_wealth : float or None
        The logarithm of the e-value against "the limit is missed"; None without bets.
    standing : Standing
        Whether the value is within its bound.
    """

    arm: str
    kind: str
    of: str
    value: float | None
    bound: float
    log_wealth: float | None
    standing: Standing

    @property
    def distance(self) -> float | None:
        """How far the value is within its bound; negative if beyond it."""
        return None if self.value is None else self.bound - abs(self.value)


def bounded_values(progress: Progress, minimize: bool) -> list[Bounded]:
    """Return all such values that a policy reports, those of the most important arm first."""
    standings = Standings.by(progress)
    found = [
        Bounded(
            str(one.arm),
            one.kind,
            one.of,
            finite(one.value),
            one.bound,
            finite(one.log_wealth),
            standings.of_value(one),
        )
        for one in progress.value_limits
    ]
    ranked = cut_of_arms(progress, minimize).ranked
    place = {arm: index for index, arm in enumerate(ranked)}
    return sorted(
        (one for one in found if one.arm in place),
        key=lambda one: place[one.arm],
    )


def title_of_bounds(values: list[Bounded]) -> str:
    """Return the title of a table of such values.

    Examples
    --------
    >>> one = Bounded("a", "counterfactual gap", "m | f", 0.1, 0.2, None, Standing.LIKELY_KEPT)
    >>> title_of_bounds([one]).replace(number(-0.2), "-0.2")
    'Counterfactual gaps, to be between -0.2 and 0.2'
    """
    kind, bound = values[0].kind, values[0].bound
    return f"{kind.capitalize()}s, to be between {number(-bound)} and {number(bound)}"


def explanation_of_bounds(values: list[Bounded]) -> str:
    """Return an explanation of the evidence for limits; empty if there is none."""
    return EVIDENCE if any(one.log_wealth is not None for one in values) else ""


def meaning_of_bounds(values: list[Bounded]) -> str:
    """Return the meaning of such a value; empty if its name is enough."""
    return _MEANINGS.get(values[0].kind, "")
