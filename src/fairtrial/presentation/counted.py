"""Which results means, differences and evidence count, and how far intervals can be relied on."""

from __future__ import annotations

from collections.abc import Iterable

from fairtrial.core.recommendation import Estimate, Progress
from fairtrial.presentation.words import count, plural

__all__ = [
    "MEAN_OF_ALL",
    "counted_note",
    "gives_mean_of_all",
    "intervals_note",
    "name_of_mean",
    "some_do_not_count",
]

MEAN_OF_ALL = "mean of all"
"""Name of the plain mean of all results, beside that of the results that count."""


def counted_note(progress: Progress) -> str:
    """Return how many results count, and what the others wait for; empty if all count.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> means = (Estimate({"arm": "a"}, 87, mean=0.5, counted=52),)
    >>> progress = Progress(Recommendation(None, "running"), 90, 87, 3, settled=52, actions=means)
    >>> counted_note(progress).split(":")[0]
    '52 of 87 results count for means, differences and evidence'
    """
    settled = progress.settled
    of_all = ""
    if gives_mean_of_all(progress.actions):
        of_all = f" The {MEAN_OF_ALL} is that of all results so far, and has no guarantee."
    if settled is None and some_do_not_count(progress.actions):
        return f"Means and their intervals are those of the results that are counted.{of_all}"
    if settled is None or settled >= progress.told:
        return ""
    verb = "counts" if settled == 1 else "count"
    some = f"{count(settled)} of {plural(progress.told, 'result')} {verb}"
    if not some_do_not_count(progress.actions):
        return (
            f"{some} for the evidence: those of complete blocks, until the decision. Means and "
            "differences count all results."
        )
    note = (
        f"{some} for means, differences and evidence: those whose turn has come, in the order of "
        "pulls or of complete blocks. The others wait for earlier pulls, came after the decision, "
        "or belong to no block; plans use them, and who leads may depend on them."
    )
    note += of_all
    if any(_lacks_interval(one) for one in progress.actions):
        note += " A mean without an interval is that of results that do not count yet."
    if any(one.own_mean is not None and one.counted == 0 for one in progress.actions):
        note += " An own mean of an arm none of whose results counts yet is that of all of them."
    return note


def _lacks_interval(one: Estimate) -> bool:
    """Return whether a mean has no interval because not all of its results count."""
    waits = one.counted is not None and one.counted < one.pulls
    return waits and one.mean is not None and one.lower is None and one.upper is None


def intervals_note(progress: Progress) -> str:
    """Return why intervals, or means without any, are approximate; empty if they are not.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> about = {"intervals": "approximate", "why_approximate": "2 pulls got lost"}
    >>> intervals_note(Progress(Recommendation(None, "running"), 9, 7, 0, **about))
    'Intervals are approximate and settle no limit. The reason: 2 pulls got lost.'
    """
    if progress.intervals == "none" and any(one.mean is not None for one in progress.actions):
        return "Means are approximate: this rule gives no intervals for them."
    if progress.intervals != "approximate" or not progress.why_approximate:
        return ""
    return f"Intervals are approximate and settle no limit. The reason: {progress.why_approximate}."


def name_of_mean(estimates: Iterable[Estimate]) -> str:
    """Return what the means of these estimates are called.

    Examples
    --------
    >>> name_of_mean([Estimate({"arm": "a"}, 0, 71.0, predicted=True)])
    'predicted'
    """
    return "predicted" if any(one.predicted for one in estimates) else "mean"


def gives_mean_of_all(estimates: Iterable[Estimate]) -> bool:
    """Return whether the mean of all results must be shown beside that of those that count."""
    every = list(estimates)
    return some_do_not_count(every) and any(one.mean_of_all is not None for one in every)


def some_do_not_count(estimates: Iterable[Estimate]) -> bool:
    """Return whether some results of these estimates do not count."""
    return any(one.counted is not None and one.counted < one.pulls for one in estimates)
