"""What an experiment shows of its arms against a control: better, and within every limit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fairtrial.core.recommendation import Effect, Estimate, Progress

__all__ = ["arms_within_limits", "is_gain"]


def arms_within_limits(progress: Progress) -> dict[str, bool]:
    """Return of every arm with a limit whether each of its limits is shown to be kept.

    An arm that is the answer keeps all of its limits. So an arm that breaks one is here with
    probability at most 2 delta: delta for the evidence about this limit, and delta for the answer.
    """
    found = progress.recommendation
    answer = str(found.arm) if found.decided and found.arm is not None else None
    shown: dict[str, bool] = {}
    for arm, is_kept in _limits_kept(progress):
        shown[arm] = shown.get(arm, True) and (is_kept or arm == answer)
    return shown


def _limits_kept(progress: Progress) -> Iterator[tuple[str, bool]]:
    """Yield each limited arm, and whether this limit is shown to be kept."""
    holds = progress.intervals == "anytime"
    for one in progress.measure_limits:
        ends = (one.bound, None) if one.kind == "floor" else (None, one.bound)
        is_kept = one.met_by_bets or _is_between(one.lower, one.upper, *ends)
        yield str(one.arm), holds and is_kept
    if progress.measure_limits:
        return
    limited: list[tuple[str, Estimate | Effect]] = [
        (str(one.labels.get("arm")), one) for one in (*progress.actions, *progress.arms)
    ]
    limited += [(str(one.arm), one) for one in progress.effects]
    for arm, each in limited:
        if each.lower_limit is not None or each.upper_limit is not None:
            limits = each.lower_limit, each.upper_limit
            yield arm, holds and _is_between(each.lower, each.upper, *limits)


def _is_between(
    lower: float | None, upper: float | None, least: float | None, most: float | None
) -> bool:
    """Return whether an interval is within its limits; None is no end, or no limit."""
    low, high = -math.inf if lower is None else lower, math.inf if upper is None else upper
    return (least is None or low >= least) and (most is None or high <= most)


def is_gain(effect: Effect, minimize: bool) -> bool:
    """Return whether an interval contains only differences in the good direction.

    Parameters
    ----------
    effect : Effect
        The difference, with its interval.
    minimize : bool
        Whether smaller means are better.

    Examples
    --------
    >>> rise = Effect("new", "old", None, 0.2, 0.1, 0.3)
    >>> is_gain(rise, minimize=False), is_gain(rise, minimize=True)
    (True, False)
    """
    if effect.lower is None or effect.upper is None:
        return False
    return effect.upper < 0.0 if minimize else effect.lower > 0.0
