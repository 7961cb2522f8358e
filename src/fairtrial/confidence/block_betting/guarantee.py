"""The guarantee of block betting, for every family."""

from __future__ import annotations

from dataclasses import replace

from fairtrial.core.recommendation import Guarantee

__all__ = ["promise", "promise_for_normal_noise"]


def promise(
    delta: float, reward_range: tuple[float, float] | None, scope: str, assumption: str
) -> Guarantee:
    """Return the guarantee of block betting, before losses and corrections.

    Parameters
    ----------
    delta : float
        Accepted probability of a wrong answer.
    reward_range : (float, float) or None
        Range of the rewards; None if the scale of their noise is known instead.
    scope : str
        When the guarantee holds, for example "whatever the true means are".
    assumption : str
        What the family assumes about the means.

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


def promise_for_normal_noise(stated: Guarantee) -> Guarantee:
    """Return the guarantee of bets that are proven for normal noise only.

    Parameters
    ----------
    stated : Guarantee
        The guarantee for noise of any shape at the stated scale.

    Examples
    --------
    >>> stated = promise(0.05, None, "whatever the true means are", "means stay")
    >>> promise_for_normal_noise(stated).name
    'block betting, proven for normal noise'
    """
    noise = (
        "the noise of each reward is normal with the stated standard deviation, whatever happened "
        "before"
    )
    return replace(
        stated,
        name="block betting, proven for normal noise",
        assumptions=(noise, *stated.assumptions[1:]),
        source="docs/explanation/planned-ends.md",
    )
