"""A program of a user, which a type checker sees with the installed package."""

from __future__ import annotations

import fairtrial as ft


def decide() -> str | None:
    """Return the confidence in words."""
    problem = ft.subpopulations.Problem(["a", "b"], ["x"], floors=0.0, reward_range=(0, 1))
    policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
    pull = policy.ask()
    policy.tell(pull, 0.5)
    answer = policy.recommend()
    # The checker must know the types of the package: it complains if this is no mistake.
    wrong: int = answer.guarantee  # type: ignore[assignment]
    del wrong
    return None if answer.confidence is None else f"{answer.confidence:.2f}"
