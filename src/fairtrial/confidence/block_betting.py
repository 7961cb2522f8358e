"""What block betting has in common in every family: its promise, and its open blocks."""

from __future__ import annotations

import math
from typing import Any

from fairtrial.core.recommendation import Guarantee

__all__ = ["carry_over", "promise", "pulls_left"]


def promise(
    delta: float, reward_range: tuple[float, float] | None, scope: str, assumption: str
) -> Guarantee:
    """Return what block betting promises, before losses and corrections.

    Parameters
    ----------
    delta : float
        Probability of a wrong answer that is accepted.
    reward_range : (float, float) or None
        The rewards' range; without it their noise has a known scale.
    scope : str
        What the promise holds for: "however the arms differ".
    assumption : str
        What the family assumes of the means.

    Examples
    --------
    >>> promise(0.05, (0, 1), "however the arms differ", "means stay").assumptions[0]
    'every reward lies in [0, 1]'
    """
    if reward_range is None:
        name, page = "block betting", "block-betting"
        noise = "given the past, the noise of a reward is sub-Gaussian at the stated scale"
    else:
        name, page = "block betting for bounded rewards", "bounded-rewards"
        noise = f"every reward lies in [{reward_range[0]:g}, {reward_range[1]:g}]"
    return Guarantee(
        name=name,
        proven=True,
        statement=(
            f"the probability that this study ever gives a wrong answer is at most {delta:g}, "
            f"{scope}"
        ),
        assumptions=(noise, assumption),
        source=f"docs/explanation/{page}.md",
    )


def carry_over(old: Any, new: Any, first: int, number: int) -> None:
    """Copy a book into one with room for more open blocks.

    Arrays of the same shape are copied; of the others, which have a row for every block that
    can be open, the rows of blocks `first` to ``first + number - 1`` are.
    """
    for name in old._fields:
        before, after = getattr(old, name), getattr(new, name)
        if before.shape == after.shape:
            after[...] = before
            continue
        for serial in range(first, first + number):
            after[serial % len(after)] = before[serial % len(before)]


def pulls_left(forecast: float, waiting: float) -> float | None:
    """Return the forecast of the pulls left: no fewer than open blocks still wait for."""
    return max(forecast, waiting) if math.isfinite(forecast) else None
