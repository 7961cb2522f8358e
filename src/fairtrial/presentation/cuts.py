"""Which arms and groups to show if there are too many: one rule for charts, tables and pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairtrial.core.recommendation import Estimate, Progress
from fairtrial.presentation.alternatives import Alternative, alternatives, ruled_out
from fairtrial.presentation.limits import finite
from fairtrial.presentation.sources import answered, arm_of
from fairtrial.presentation.words import count

__all__ = [
    "MOST_ARMS",
    "MOST_GROUPS",
    "Cut",
    "cut_by",
    "cut_of",
    "cut_of_arms",
    "groups_by",
    "shown_alternatives",
]

MOST_ARMS = 24
"""Largest number of arms shown; a note gives the number of the others."""
MOST_GROUPS = 14
"""Largest number of groups in a chart: with a panel for all of them, three rows of five."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The arms that are shown, and a note on the others.

    Parameters
    ----------
    arms : tuple of str
        In their original order if all are shown, otherwise as in `ranked`.
    ranked : tuple of str
        The same arms, the most important ones first.
    note : str
        How many are not shown, and why; empty if all are shown.
    """

    arms: tuple[str, ...]
    ranked: tuple[str, ...]
    note: str = ""

    def keep(self, estimates: Iterable[Estimate]) -> tuple[Estimate, ...]:
        """Return the estimates of the shown arms, in the order of `arms`."""
        return _in_order(self.arms, estimates) if self.note else tuple(estimates)

    def rank(self, estimates: Iterable[Estimate]) -> tuple[Estimate, ...]:
        """Return the estimates of the shown arms, in the order of `ranked`."""
        return _in_order(self.ranked, estimates)

    def apply(self, progress: Progress) -> Progress:
        """Return a progress reduced to the estimates of the shown arms."""
        if not self.note:
            return progress
        return replace(progress, actions=self.keep(progress.actions), arms=self.keep(progress.arms))


def cut_by(rank: Mapping[str, Any], why: str, others: str = "") -> Cut:
    """Return the arms with the smallest ranks, at most `MOST_ARMS`.

    Parameters
    ----------
    rank : mapping of str to object
        The sort keys of the arms, in the arms' original order.
    why, others : str
        Which arms are shown, and a remark on the others.

    Examples
    --------
    >>> cut_by({"a": 2.0, "b": 1.0}, "the smallest").ranked
    ('b', 'a')
    >>> cut_by({str(number): -number for number in range(100)}, "the largest").note
    'Showing 24 of 100 arms: the largest.'
    """
    ranked = tuple(sorted(rank, key=lambda arm: rank[arm]))
    if len(ranked) <= MOST_ARMS:
        return Cut(tuple(rank), ranked)
    shown = ranked[:MOST_ARMS]
    note = f"Showing {MOST_ARMS} of {count(len(ranked))} arms: {why}.{others and ' '}{others}"
    return Cut(shown, shown, note)


def groups_by(rank: Mapping[str, Any], why: str) -> tuple[tuple[str, ...], str]:
    """Return the groups with the smallest ranks, at most `MOST_GROUPS`, and a note on them.

    Examples
    --------
    >>> groups_by({"x": 2.0, "y": 1.0}, "the smallest")
    (('x', 'y'), '')
    >>> groups_by({str(number): -number for number in range(40)}, "the largest")[1]
    'Showing 14 of 40 groups: the largest.'
    """
    if len(rank) <= MOST_GROUPS:
        return tuple(rank), ""
    shown = tuple(sorted(rank, key=lambda group: rank[group])[:MOST_GROUPS])
    return shown, f"Showing {MOST_GROUPS} of {count(len(rank))} groups: {why}."


def cut_of(progress: Progress, minimize: bool, estimates: Sequence[Estimate] | None = None) -> Cut:
    """Return the cut with the answer or leader first, then the best means, not ruled out first.

    If means are predictions, arms with results of their own come before those without.

    Parameters
    ----------
    progress : Progress
        The progress with the estimates.
    minimize : bool
        Whether smaller means are better.
    estimates : sequence of Estimate, optional
        The estimates whose arms to rank; by default those of the actions.
    """
    given = progress.actions if estimates is None else estimates
    means, measured = _means(progress, given), _measured_arms(given)
    best, out = answered(progress.recommendation), ruled_out(progress) & means.keys()
    sign = 1.0 if minimize else -1.0
    rank = {
        arm: (
            *(arm not in best, mean is None and arm not in measured, arm in out),
            *(arm not in measured, sign * (mean or 0.0)),
        )
        for arm, mean in means.items()
    }
    first = "answer" if progress.recommendation.decided else "leader"
    open_first = ", those not ruled out first" if out and out | best < means.keys() else ""
    hidden = frozenset(sorted(rank, key=lambda arm: rank[arm])[MOST_ARMS:])
    rest = f"{count(len(hidden))} are left out; progress() and --json list all."
    if not any(one.predicted for one in given):
        why = f"the {first}, then the best by mean{open_first}"
        return cut_by(rank, why, " ".join(filter(None, (_fate(hidden, out), rest))))
    left = (_left_out(hidden, measured), _fate(hidden, out), rest)
    measured_first = ", then those with results" if measured else ""
    why = f"the {first}{measured_first}, then the best by prediction{open_first}"
    return cut_by(rank, why, " ".join(filter(None, left)))


def cut_of_arms(progress: Progress, minimize: bool) -> Cut:
    """Return the cut of the possible answers: arms with their own estimates, or the actions."""
    own = progress.arms if progress.quantity == "mean" else ()
    return cut_of(progress, minimize, own or progress.actions)


def shown_alternatives(progress: Progress, minimize: bool) -> tuple[list[Alternative], str]:
    """Return the possible answers to show, the best first, and a note on the others."""
    cut = cut_of_arms(progress, minimize)
    hidden = {arm_of(one.labels) for one in (*progress.arms, *progress.actions)} - set(cut.arms)
    places = {arm: place for place, arm in enumerate(cut.ranked)}
    kept = [one for one in alternatives(progress) if one.answer not in hidden]
    # Answers that are not arms come last.
    return sorted(kept, key=lambda one: places.get(one.answer, len(places))), cut.note


def _measured_arms(estimates: Iterable[Estimate]) -> frozenset[str]:
    """Return the arms with results of their own beside a prediction."""
    return frozenset(arm_of(one.labels) for one in estimates if one.own_mean is not None)


def _left_out(hidden: frozenset[str], measured: frozenset[str]) -> str:
    if not measured:
        return ""
    shown = len(measured - hidden)
    return f"Shown are {count(shown)} of the {count(len(measured))} arms with results."


def _fate(hidden: frozenset[str], out: frozenset[str]) -> str:
    if not hidden & out:
        return ""
    how_many = "All" if hidden <= out else count(len(hidden & out))
    return f"{how_many} of the {count(len(hidden))} others are ruled out."


def _means(progress: Progress, estimates: Sequence[Estimate]) -> dict[str, float | None]:
    """Return a mean for each arm: its overall mean, or the mean of all its results."""
    overall = progress.arms if progress.quantity == "mean" else ()
    known = {arm_of(one.labels): _ranking_mean(one) for one in overall}
    found: dict[str, list[tuple[float, int]]] = {}
    for one in estimates:
        mean = _ranking_mean(one)
        results = found.setdefault(arm_of(one.labels), [])
        if mean is not None:
            results.append((mean, max(one.pulls, 1)))
    return {arm: known.get(arm, _pooled(results)) for arm, results in found.items()}


def _ranking_mean(one: Estimate) -> float | None:
    # Until the model can predict, an arm's own results rank it.
    return finite(one.own_mean if one.mean is None else one.mean)


def _pooled(results: Sequence[tuple[float, int]]) -> float | None:
    if not results:
        return None
    return sum(mean * number for mean, number in results) / sum(number for _, number in results)


def _in_order(arms: Sequence[str], estimates: Iterable[Estimate]) -> tuple[Estimate, ...]:
    places = {arm: place for place, arm in enumerate(arms)}
    kept = [one for one in estimates if arm_of(one.labels) in places]
    return tuple(sorted(kept, key=lambda one: places[arm_of(one.labels)]))
