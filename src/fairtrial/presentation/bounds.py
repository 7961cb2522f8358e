"""Limits on values other than means, such as gaps that must stay below a bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.cuts import cut_of_arms
from fairtrial.presentation.guardrails import EVIDENCE
from fairtrial.presentation.limits import Standing, finite
from fairtrial.presentation.sources import named
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
    rows = progress.details.get("bounds", ())
    if not isinstance(rows, list | tuple):
        return []
    answer = named(progress.recommendation)
    found = [_bounded(row, answer) for row in rows if isinstance(row, Mapping)]
    ranked = cut_of_arms(progress, minimize).ranked
    place = {arm: index for index, arm in enumerate(ranked)}
    return sorted(
        (one for one in found if one.arm in place),
        key=lambda one: place[one.arm],
    )


def _bounded(row: Mapping[str, object], answer: frozenset[str]) -> Bounded:
    value, bound = finite(_float(row["value"])), float(str(row["bound"]))
    arm, certain = str(row["arm"]), bool(row.get("certain", False))
    return Bounded(
        arm,
        str(row["kind"]),
        str(row["of"]),
        value,
        bound,
        finite(_float(row.get("log_wealth"))),
        _standing(value, bound, certain, arm in answer),
    )


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _standing(value: float | None, bound: float, certain: bool, is_answer: bool) -> Standing:
    if certain:
        return Standing.KEPT
    if is_answer:
        return Standing.DECIDED
    if value is None:
        return Standing.UNKNOWN
    return Standing.LIKELY_KEPT if abs(value) < bound else Standing.LIKELY_BROKEN


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
