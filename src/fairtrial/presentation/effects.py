"""Differences between arms and the control, or the leader, in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairtrial.core.claims import arms_within_limits, is_gain
from fairtrial.core.recommendation import Effect, Progress
from fairtrial.core.wording import listed, said_of_closed_control
from fairtrial.presentation.closed import is_closed, marked
from fairtrial.presentation.counted import intervals_note
from fairtrial.presentation.limits import finite
from fairtrial.presentation.sources import answered
from fairtrial.presentation.words import count, ended, percent

__all__ = ["OVERALL", "Differences", "differences", "limited"]

OVERALL = "overall"
"""The place of comparisons of means over all groups."""

_MOST = 12


@dataclass(frozen=True)
class Differences:
    """The differences between the arms and one of them.

    Parameters
    ----------
    reference : str
        The arm that the others are compared with, marked if it is closed.
    overall : tuple of Effect
        Differences of overall means, the best first.
    by_group : tuple of Effect
        Differences for the same arms within each group, if there are several groups.
    note : str
        How to read the intervals.
    """

    reference: str
    overall: tuple[Effect, ...]
    by_group: tuple[Effect, ...]
    note: str

    @property
    def title(self) -> str:
        """The title of the table."""
        return f"Difference from {self.reference}"


def differences(progress: Progress, minimize: bool) -> Differences | None:
    """Return the differences between arms; None if the policy does not report them.

    Parameters
    ----------
    progress : Progress
        The experiment's progress.
    minimize : bool
        Whether smaller means are better.
    """
    known = [effect for effect in progress.effects if finite(effect.difference) is not None]
    if not known:
        return None
    sign = 1.0 if minimize else -1.0
    ranked = sorted(
        (effect for effect in known if effect.group is None),
        key=lambda effect: sign * (effect.difference or 0.0),
    )
    shown = ranked[:_MOST]
    arms = [effect.arm for effect in shown]
    by_group = [effect for effect in known if effect.group is not None and effect.arm in arms]
    by_group.sort(key=lambda effect: arms.index(effect.arm))
    reference = str(known[0].reference)
    better = [effect for effect in ranked if is_gain(effect, minimize)]
    note = _note(progress, len(ranked) - len(shown), reference, _claims(progress, better))
    return Differences(marked(progress, reference), tuple(shown), tuple(by_group), note)


def limited(progress: Progress) -> list[Effect]:
    """Return the differences that have a limit."""
    return [
        effect
        for effect in progress.effects
        if effect.lower_limit is not None or effect.upper_limit is not None
    ]


def _confidence(progress: Progress) -> float | None:
    """Return the confidence of each interval.

    It is that of an answer while all arms are open. Each arm that people close adds the error of
    one interval to that of the answer, and nothing to that of intervals.
    """
    confidence = progress.recommendation.confidence
    if confidence is None:
        return None
    return 1.0 - (1.0 - confidence) / (1 + len(progress.closed.get("arm", ())))


def _beside_decision(progress: Progress) -> str:
    """Return why an answer can be decided beside an interval that contains 0; empty if none does.

    Only overall differences between the answer and other arms are compared with 0.
    """
    if not progress.recommendation.decided:
        return ""
    best = answered(progress.recommendation)
    beside = (
        effect
        for effect in progress.effects
        if effect.group is None and (str(effect.arm) in best) != (str(effect.reference) in best)
    )
    if not any(_contains_0(effect) for effect in beside):
        return ""
    return (
        "An interval here contains 0 although the answer is decided. Both are right: the decision "
        "asks only which arm is the answer, and an interval must hold for every size of the "
        "difference, so it is wider. Quote the answer with its guarantee, and a difference only "
        "together with its interval."
    )


def _contains_0(effect: Effect) -> bool:
    lower, upper = finite(effect.lower), finite(effect.upper)
    return lower is not None and upper is not None and lower <= 0.0 <= upper


def _claims(progress: Progress, better: Sequence[Effect]) -> str:
    """Return which arms are shown to be better than the reference, and to keep every limit.

    These are the claims whose power and errors the report of a plan shows.
    """
    if not better or progress.intervals != "anytime":
        return ""
    kept = arms_within_limits(progress)
    reference, arms = better[0].reference, [str(effect.arm) for effect in better]
    said = f"Better than {reference}, by the whole interval: {_listed(progress, arms)}."
    if not kept:
        return said
    usable = [arm for arm in arms if kept.get(arm, True)]
    return f"{said} Of these, shown to keep every limit: {_listed(progress, usable)}."


def _listed(progress: Progress, arms: Sequence[str]) -> str:
    return listed([marked(progress, arm) for arm in arms]) or "none"


def _note(progress: Progress, hidden: int, reference: str, claims: str) -> str:
    notes = [intervals_note(progress) or "The intervals are approximate."]
    confidence = _confidence(progress)
    if progress.intervals == "anytime" and confidence is not None:
        held = f"{percent(confidence)} confidence"
        notes = [f"Each interval holds at all times with {held}, on its own."]
    notes.append(claims)
    notes.append(_beside_decision(progress))
    if is_closed(progress, reference):
        said = said_of_closed_control(reference)
        notes.insert(0, ended(said[0].upper() + said[1:]))
    if hidden:
        notes.append(
            f"Differences of {count(hidden)} more arms are not shown: the furthest behind."
        )
    return " ".join(filter(None, notes))
