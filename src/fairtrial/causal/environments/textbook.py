"""The textbook problem S -> V -> Y with its environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairtrial.causal.environments.network import NetworkEnvironment
from fairtrial.causal.model import CausalModel
from fairtrial.causal.problem import Problem
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_array, check_number
from fairtrial.errors import InvalidArgument

__all__ = ["chain"]


@named_arguments
def chain(
    p_sensitive: float | ArrayLike | Mapping[str, float],
    arms: Mapping[str, ArrayLike] | ArrayLike,
    reward: ArrayLike,
    fairness_bound: float,
    **options: Any,
) -> tuple[Problem, NetworkEnvironment]:
    """Return the textbook problem S -> V -> Y with an outcome of 0 or 1, and its environment.

    Parameters
    ----------
    p_sensitive : float, array-like of shape (values,), or mapping of str to float
        Distribution of S. A single number is the probability of the first of two values, ``"s"``
        and ``"s'"``.
    arms : mapping of str to array-like of shape (values, states), or one array for all
        P(V | S) of every arm; an array of shape (K, values, states) names the arms "0", ...
    reward : array-like of shape (states,)
        P(Y = 1 | V).
    fairness_bound : float
        Upper bound that the gaps must stay below.
    **options
        Other arguments of `Problem`: costs, mean_budget, direction.

    Returns
    -------
    (Problem, NetworkEnvironment)

    Examples
    --------
    >>> problem, environment = chain(
    ...     0.4,
    ...     {"now": [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]], "new": [[0.2, 0.3, 0.5], [0.1, 0.3, 0.6]]},
    ...     reward=[0.1, 0.1, 0.9],
    ...     fairness_bound=0.2,
    ... )
    >>> environment.truth.means.round(3), environment.truth.best
    (array([0.308, 0.548]), 'new')
    """
    shares = _shares(p_sensitive)
    good = check_array("reward", reward, (None,))
    if ((good < 0) | (good > 1)).any():
        raise InvalidArgument("reward", "must be probabilities", reward)
    if not isinstance(arms, Mapping):
        tables = check_array("arms", arms, (None, len(shares), len(good)))
        arms = {str(k): table for k, table in enumerate(tables)}
    model = CausalModel(
        [("S", "V"), ("V", "Y")],
        states={"S": list(shares), "V": len(good), "Y": ["0", "1"]},
        tables={"S": list(shares.values()), "Y": np.column_stack([1 - good, good])},
    )
    problem = Problem(model, "S", "V", "Y", arms, fairness_bound, (0.0, 1.0), **options)
    return problem, NetworkEnvironment(problem)


def _shares(given: Any) -> dict[str, float]:
    if isinstance(given, Mapping):
        return {
            str(label): check_number(f"p_sensitive[{label}]", share, low=0.0, high=1.0)
            for label, share in given.items()
        }
    if np.ndim(given) == 0:
        share = check_number("p_sensitive", given, low=0.0, high=1.0)
        return {"s": share, "s'": 1.0 - share}
    return {
        str(place): float(share)
        for place, share in enumerate(check_array("p_sensitive", given, (None,)))
    }
