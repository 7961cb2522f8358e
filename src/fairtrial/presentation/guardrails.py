"""Limits of measures, for problems in which one pull measures several things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fairtrial.core.progress_parts import MeasureLimit
from fairtrial.core.recommendation import Progress
from fairtrial.core.wording import beside_in_words
from fairtrial.presentation.cuts import cut_of_arms
from fairtrial.presentation.effects import OVERALL
from fairtrial.presentation.limits import Standing, Standings, finite
from fairtrial.presentation.words import decimals

__all__ = [
    "EVIDENCE",
    "TITLE",
    "TITLE_BESIDE",
    "Guardrail",
    "by_reference",
    "guardrails",
    "guardrails_of_arm",
    "places_of_measures",
]

TITLE = "Limits of measures"
TITLE_BESIDE = "Limits of measures against the control"

EVIDENCE = (
    "The evidence that a limit is kept is what a stake of 1 has become in bets that gain nothing "
    "on average if it is missed. Bets are made on the limits of arms that led. A limit is met if "
    "this evidence has become large enough, or if the interval of the mean is within the limit."
)


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A limit of a measure, and whether an arm meets it.

    Parameters
    ----------
    arm, measure, where : str
        The arm, the limited measure, and the group or "overall".
    kind : {"floor", "ceiling"}
        Whether it is a lower or an upper limit.
    bound : float
        The limit.
    estimate : float or None
        The mean so far; None if unknown.
    log_evidence : float or None
        The logarithm of the e-value against "the limit is missed"; 0 before the first bet, None if
        unknown.
    standing : Standing
        Whether the arm meets the limit.
    control : str or None
        The arm that the limit refers to. Bound and estimate are then differences from its mean.
    needed : float or None
        The log evidence that settles the limit; None if unknown.
    """

    arm: str
    measure: str
    where: str
    kind: str
    bound: float
    estimate: float | None
    log_evidence: float | None
    standing: Standing
    control: str | None = None
    needed: float | None = None

    @property
    def log_wealth(self) -> float | None:
        """The evidence; None before the first bet, because an e-value of 1 says nothing."""
        return self.log_evidence or None

    @property
    def distance(self) -> float | None:
        """How far the mean is on the right side of the limit, in the measure's units."""
        if self.estimate is None:
            return None
        return finite(
            self.estimate - self.bound if self.kind == "floor" else self.bound - self.estimate
        )

    def limit(self, written: Callable[[float], str]) -> str:
        """Return the limit in words, with its number as `written` writes it."""
        if self.control is not None:
            return beside_in_words(self.kind, self.bound, self.control, written)
        return f"{'at least' if self.kind == 'floor' else 'at most'} {written(self.bound)}"


def guardrails(progress: Progress, minimize: bool) -> list[Guardrail]:
    """Return all limits of measures, those of the most important arm first.

    Examples
    --------
    >>> from fairtrial.core import Estimate, MeasureLimit, Recommendation
    >>> said = MeasureLimit("high", "harmed", None, "ceiling", 0.3, estimate=0.4)
    >>> progress = Progress(Recommendation(None, "running"), 9, 9, 0,
    ...                     arms=(Estimate({"arm": "high"}, 9),), measure_limits=(said,))
    >>> [(one.where, one.standing.value) for one in guardrails(progress, minimize=False)]
    [('overall', 'missed so far, not settled')]
    """
    found = _guardrails(progress, progress.measure_limits)
    place = {arm: index for index, arm in enumerate(cut_of_arms(progress, minimize).ranked)}
    return sorted(found, key=lambda one: place.get(one.arm, len(place)))


def guardrails_of_arm(progress: Progress, arm: str) -> list[Guardrail]:
    """Return the limits of one arm, always in the order of the problem."""
    return _guardrails(progress, [one for one in progress.measure_limits if str(one.arm) == arm])


def by_reference(limits: Sequence[Guardrail]) -> list[tuple[str, str, list[Guardrail]]]:
    """Return limits of means, then those against the control, if there are any.

    Each kind has its title, and the name of what is limited.
    """
    own = [one for one in limits if one.control is None]
    beside = [one for one in limits if one.control is not None]
    kinds = [(TITLE, "mean", own), (TITLE_BESIDE, "difference", beside)]
    return [kind for kind in kinds if kind[2]]


def places_of_measures(limits: Iterable[Guardrail]) -> dict[str, int]:
    """Return for each measure the number of decimals to show, as measures have different units.

    Examples
    --------
    >>> about = {"arm": "a", "where": "x", "kind": "ceiling", "log_evidence": None}
    >>> sold = Guardrail(measure="sold", bound=0.05, estimate=0.1, standing=Standing.FREE, **about)
    >>> load = Guardrail(measure="load", bound=400.0, estimate=1e3, standing=Standing.FREE, **about)
    >>> places_of_measures([sold, load])
    {'sold': 3, 'load': 0}
    """
    found: dict[str, list[float | None]] = {}
    for one in limits:
        found.setdefault(one.measure, []).extend((one.estimate, one.bound))
    return {measure: decimals(values, 3) for measure, values in found.items()}


def _guardrails(progress: Progress, limits: Iterable[MeasureLimit]) -> list[Guardrail]:
    standings = Standings.by(progress)
    return [
        Guardrail(
            str(one.arm),
            str(one.measure),
            OVERALL if one.group is None else str(one.group),
            one.kind,
            one.bound,
            finite(one.estimate),
            finite(one.log_evidence),
            standings.of_measure(one),
            None if one.control is None else str(one.control),
            finite(one.needed),
        )
        for one in limits
    ]
