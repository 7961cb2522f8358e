"""Shares of the pulls compared with what each arm is owed, taken from a policy's progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fairtrial.core.progress_parts import ShareOfPulls
from fairtrial.core.recommendation import Progress
from fairtrial.presentation.cuts import cut_by
from fairtrial.presentation.sources import arm_of
from fairtrial.presentation.words import count, number

__all__ = [
    "BEHIND",
    "Share",
    "carried_note",
    "earlier_note",
    "largest_shortfall",
    "pulls_in",
    "shares_of",
    "shown_shares",
]

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Share:
    """The share of the rounds of an arm, or of a group of arms together.

    Parameters
    ----------
    arm : str
        Label of the arm or group.
    pulls : int
        Number of pulls issued.
    share, quota : float
        The actual share, and the guaranteed one.
    owed : float
        The share owed so far: the quota, adjusted by the credit with which the arm began.
    behind : float or None
        Number of pulls owed minus pulls issued; negative if the arm is ahead.
    carried : bool
        Whether the owed share differs from the quota.
    joint : bool
        Whether it is a group, whose pulls are those of its arms.
    """

    arm: str
    pulls: int
    share: float
    quota: float
    owed: float
    behind: float | None = None
    carried: bool = False
    joint: bool = False


def shares_of(progress: Progress) -> list[Share]:
    """Return the shares of all arms, then of all groups, if a policy guarantees them."""
    shares = progress.shares or _from_estimates(progress)
    rounds = _rounds(shares)
    return [_share(one, rounds) for one in shares]


def _from_estimates(progress: Progress) -> tuple[ShareOfPulls, ...]:
    """Return the shares of a policy that only reports what is estimated for each arm."""
    total, arms = sum(arm.pulls for arm in progress.arms), progress.arms
    if progress.quantity != "share" or any(arm.lower_limit is None for arm in arms):
        return ()
    return tuple(
        ShareOfPulls(
            arm_of(arm.labels),
            arm.pulls,
            arm.pulls / max(total, 1) if arm.mean is None else arm.mean,
            arm.lower_limit or 0.0,
        )
        for arm in arms
    )


def _rounds(shares: Sequence[ShareOfPulls]) -> float:
    """Return the number of rounds: all pulls of arms, divided by the sum of their shares."""
    arms = [one for one in shares if not one.joint]
    total = sum(one.share for one in arms)
    return sum(one.pulls for one in arms) / total if total > 0 else 0.0


def pulls_in(shares: Sequence[Share]) -> int:
    """Return the total number of pulls behind the shares."""
    return sum(one.pulls for one in shares if not one.joint)


def _share(one: ShareOfPulls, rounds: float) -> Share:
    quota = one.guaranteed
    name = f"{one.label} (together)" if one.joint else str(one.label)
    plain = Share(name, one.pulls, one.share, quota, quota, one.behind, joint=one.joint)
    if one.behind is None or not rounds:
        return plain
    due = one.pulls + one.behind
    if abs(due - quota * rounds) <= _ROUNDING * max(1.0, rounds):
        return plain
    return replace(plain, owed=max(0.0, due / rounds), carried=True)


BEHIND = "Pulls behind: pulls that an arm is owed and has not had; negative if it is ahead."


def shown_shares(shares: Sequence[Share]) -> tuple[list[Share], str]:
    """Return the shares nearest to what is owed, or furthest below it, and a note on the rest."""
    rank = {one.arm: one.share - one.owed for one in shares}
    cut = cut_by(rank, "those nearest to what they are owed, or most below it")
    return [one for one in shares if one.arm in cut.arms], cut.note


def carried_note(shares: Sequence[Share]) -> str:
    """Return what "owed" means if it differs from the quota; otherwise empty."""
    if not any(one.carried for one in shares):
        return ""
    return (
        "Owed is the guaranteed share of the rounds that count for the arm, not of those in which "
        "it slept or its pull failed. Pulls that it was ahead or behind when it began are counted."
    )


def largest_shortfall(progress: Progress) -> str:
    """Return how far any arm or group was ever behind; empty if the policy does not say.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> running = Recommendation(None, "running")
    >>> largest_shortfall(Progress(running, 20, 20, 0, largest_shortfall=0.75))
    'No arm was ever more than 0.75 pulls behind its share.'
    """
    most = progress.largest_shortfall
    if most is None:
        return ""
    who = "No arm and no group" if any(one.joint for one in progress.shares) else "No arm"
    return f"{who} was ever more than {number(max(most, 0.0))} pulls behind its share."


def earlier_note(progress: Progress) -> str:
    """Return a note on results that do not belong to the shares' pulls; empty if there are none."""
    if progress.quantity != "share":
        return ""
    own = sum(arm.pulls for arm in progress.arms) - progress.outstanding
    earlier = sum(action.pulls for action in progress.actions) - own
    if earlier <= 0:
        return ""
    return (
        f"{count(earlier)} of the results behind the means do not count for the shares: they came "
        "before this epoch, or were unsolicited."
    )
