"""Base class of the family's environments: their truth, and rows in batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import Rows
from fairtrial.causal._gaps import applied, contrasts, own_values
from fairtrial.causal._row_source import RowSource
from fairtrial.causal.problem import Problem
from fairtrial.core.environment import Environment, Truth

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class CausalTruth(Truth):
    """The truth of an environment: every arm's mean and gaps, and the best fair arm.

    `means` has shape (K,): mean outcome by arm. `details` holds ``means_by_value``, shape
    (K, values), ``gaps`` and ``fair``, shape (K,).

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> truth = chain(0.4, {"a": [[1, 0], [0, 1]], "b": [[0, 1]] * 2}, [0.1, 0.9], 0.2)[1].truth
    >>> truth.details["fair"], truth.means_by_value[0]
    (array([False,  True]), array([0.1, 0.9]))
    """

    @property
    def gaps(self) -> Mapping[tuple[str, str], Floats]:
        """Gap of every arm, shape (K,), by pair (counterfactual value, observed value)."""
        gaps: Mapping[tuple[str, str], Floats] = self.details["gaps"]
        return gaps

    @property
    def means_by_value(self) -> Floats:
        """Mean outcome by arm and value of the sensitive attribute, shape (K, values)."""
        means: Floats = self.details["means_by_value"]
        return means


def truth_of(
    problem: Problem, means: Floats, effects: Floats, shares: Floats, **details: Any
) -> CausalTruth:
    """Return the truth for means, shape (K,), and effects, shape (K, values, groups)."""
    found = applied(contrasts(problem, shares), effects)
    gaps = dict(zip(problem.pairs, found.T, strict=True))
    fair = problem.is_fair(found)
    quality = np.where(fair, problem.scaled(means), -np.inf)
    acceptable: tuple[str | None, ...] = (None,)
    if fair.any():
        good = np.flatnonzero(quality >= quality.max() - _ROUNDING)
        acceptable = tuple(problem.arm_labels[k] for k in good)
    return CausalTruth(
        best=acceptable[0],
        acceptable=acceptable,
        means=means,
        details={
            "means_by_value": own_values(problem, effects),
            "gaps": gaps,
            "fair": fair,
            **details,
        },
    )


class RowEnvironment(Environment):
    """An environment that can answer many pulls at once, with the same rows as one by one."""

    problem: Problem

    @abstractmethod
    def batch(self, actions: Integers, generator: np.random.Generator) -> Rows:
        """Return one row for each action, as the estimators see it."""

    @property
    def answers_in_batches(self) -> bool:
        """Whether `batch` returns the same rows as single pulls."""
        return True

    @property
    def row_source(self) -> RowSource | None:
        """The source from which compiled code draws the rows of `batch`; None if it cannot."""
        return None
