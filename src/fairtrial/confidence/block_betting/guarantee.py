"""What block betting promises in every family."""

from __future__ import annotations

from fairtrial.core.recommendation import Guarantee

__all__ = ["promise"]


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
        What the promise holds for: "whatever the true means are".
    assumption : str
        What the family assumes of the means.

    Examples
    --------
    >>> promise(0.05, (0, 1), "whatever the true means are", "means stay").assumptions[0]
    'every reward lies in [0, 1]'
    """
    if reward_range is None:
        name, page = "block betting", "block-betting"
        noise = (
            "the noise of each reward is sub-Gaussian at the stated scale, whatever happened before"
        )
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
