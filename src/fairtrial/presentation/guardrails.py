"""Limits of measures, where one pull measures several things: what is shown of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.cuts import cut_of_arms
from fairtrial.presentation.effects import OVERALL
from fairtrial.presentation.limits import Standing, finite
from fairtrial.presentation.sources import named

__all__ = ["EVIDENCE", "TITLE", "Guardrail", "guardrails"]

TITLE = "Limits of measures"

EVIDENCE = (
    "The evidence that a limit is kept is what a stake of 1 has become in bets that gain nothing "
    "on average if it is missed. Bets are made on the limits of arms that led."
)


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A limit of a measure, and how an arm stands to it.

    Parameters
    ----------
    arm, measure, where : str
        The arm, what is limited, and the group or "overall".
    kind : {"floor", "ceiling"}
        Whether the bound is a lower or an upper one.
    bound : float
        The limit.
    estimate : float or None
        The mean so far; None if nothing is known of it.
    log_wealth : float or None
        The logarithm of the e-value against "the limit is missed"; None if nothing was bet.
    standing : Standing
        How the arm stands to the limit.
    """

    arm: str
    measure: str
    where: str
    kind: str
    bound: float
    estimate: float | None
    log_wealth: float | None
    standing: Standing


def guardrails(progress: Progress, minimize: bool) -> list[Guardrail]:
    """Return all limits of measures, those of the most important arm first.

    Examples
    --------
    >>> from fairtrial.core.recommendation import Estimate, Recommendation
    >>> said = {"arm": "high", "measure": "harmed", "group": None, "kind": "ceiling",
    ...         "bound": 0.3, "estimate": 0.4, "log_evidence": 0.0, "standing": "not settled"}
    >>> progress = Progress(Recommendation(None, "running"), 9, 9, 0,
    ...                     arms=(Estimate({"arm": "high"}, 9),), details={"limits": [said]})
    >>> [(one.where, one.standing.value) for one in guardrails(progress, minimize=False)]
    [('overall', 'missed so far, not settled')]
    """
    rows: Sequence[Mapping[str, object]] = progress.details.get("limits", ())
    answer = named(progress.recommendation)
    found = [_guardrail(row, str(row["arm"]) in answer) for row in rows]
    place = {arm: index for index, arm in enumerate(cut_of_arms(progress, minimize).ranked)}
    return sorted(found, key=lambda one: place.get(one.arm, len(place)))


def _guardrail(row: Mapping[str, object], is_answer: bool) -> Guardrail:
    estimate, bound = _float(row["estimate"]), float(str(row["bound"]))
    return Guardrail(
        str(row["arm"]),
        str(row["measure"]),
        OVERALL if row["group"] is None else str(row["group"]),
        str(row["kind"]),
        bound,
        estimate,
        # Before the first bet an e-value is 1, which says nothing.
        _float(row["log_evidence"]) or None,
        _standing(row, estimate, bound, is_answer),
    )


def _float(value: object) -> float | None:
    return finite(float(value)) if isinstance(value, int | float) else None


def _standing(
    row: Mapping[str, object], estimate: float | None, bound: float, is_answer: bool
) -> Standing:
    if is_answer:
        return Standing.DECIDED
    if row["standing"] == "kept":
        return Standing.KEPT
    if estimate is None:
        return Standing.UNKNOWN
    keeps = estimate >= bound if row["kind"] == "floor" else estimate <= bound
    return Standing.LIKELY_KEPT if keeps else Standing.LIKELY_BROKEN
