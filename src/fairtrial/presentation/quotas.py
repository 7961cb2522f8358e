"""What figures of guaranteed shares need from a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from fairtrial.core import Problem
from fairtrial.errors import InvalidArgument
from fairtrial.presentation.sources import Floats

__all__ = ["AllocationRuns", "is_simulation", "measured", "quotas_of", "rounds", "violations"]


class AllocationRuns(Protocol):
    """Runs of a policy that guarantees shares to arms: a `Simulation`."""

    @property
    def problem(self) -> Any:
        """The problem."""

    @property
    def pulls(self) -> NDArray[Any]:
        """Numbers of pulls, by run and action."""

    @property
    def metrics(self) -> Mapping[str, NDArray[np.float64]]:
        """The family's numbers about each run."""


def is_simulation(source: object) -> TypeGuard[AllocationRuns]:
    """Return whether a source consists of many runs of one policy."""
    pulls = getattr(source, "pulls", None)
    return isinstance(pulls, np.ndarray) and pulls.ndim == 2 and hasattr(source, "problem")


def rounds(runs: AllocationRuns) -> float:
    """Return the number of rounds of a simulation's runs; a round can serve several arms."""
    return float(runs.pulls[0].sum()) / int(runs.problem.plays)


def measured(runs: AllocationRuns, measure: str) -> Floats:
    """Return the family's number with this name, for each run."""
    if measure not in runs.metrics:
        known = ", ".join(runs.metrics) or "nothing"
        raise InvalidArgument("simulations", f"must measure {measure!r}; this measures {known}")
    return np.asarray(runs.metrics[measure], dtype=np.float64)


def violations(runs: AllocationRuns) -> Floats:
    """Return for each run by how many pulls the arm that is furthest behind lacks its share."""
    owed = quotas_of(runs.problem) * rounds(runs)
    lacking: Floats = (owed - runs.pulls).max(axis=1)
    return lacking


def quotas_of(problem: Problem) -> Floats:
    """Return the shares that a problem guarantees."""
    shares = problem.guaranteed_shares
    if shares is None:
        raise InvalidArgument("source", "must be of a problem with guaranteed shares", problem)
    return np.array([float(share) for share in shares])
