"""How hard a question about several measures is: the parts of `complexity` for measures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.wording import IGNORES_PREDICTIONS
from fairtrial.subpopulations._kernels.measures.model import Model
from fairtrial.subpopulations._kernels.measures.planning import cuts_at, fluid_start
from fairtrial.subpopulations.environments import CellEnvironment, PredictedVariances
from fairtrial.subpopulations.policies.measured_blocks import Units, model_of_measures
from fairtrial.subpopulations.policies.recorded_predictions import with_measures
from fairtrial.subpopulations.problem import Problem

__all__ = [
    "MeasuredInstance",
    "assumed_of_predictions",
    "assumptions_of_measures",
    "measured_instance",
    "why_undecidable",
]

Floats = NDArray[np.float64]

_LEAST_PART = 1e-9
_LEAST_STD = 1e-7
_ROUNDING = 1e-10


class MeasuredInstance(NamedTuple):
    """Problem, means and covariances in units of the largest standard deviation of each measure.

    With predictions, covariances are those of what they leave, and `explained` is what they
    explain, by group, shape (L, P, P). `totals`: the sums that the shares of the cost have, over
    all cells (one entry) or in each group.
    """

    model: Model
    means: Floats
    covariances: Floats
    explained: Floats
    best: int
    totals: Floats

    @property
    def leader(self) -> int:
        """The answer in the form that kernels use: K means "none"."""
        return len(self.means) if self.best < 0 else self.best

    def start(self, steps: int) -> Floats:
        """Return good shares, found in that many steps."""
        return np.asarray(fluid_start(*self[:4], self.leader, self.totals, steps))

    def cuts(self, shares: Floats, factor: float) -> tuple[float, Floats]:
        """Return F, and the gradients of all items up to `factor` times F."""
        information, cuts = cuts_at(*self[:4], self.leader, shares, factor)
        return float(information), np.asarray(cuts)

    @property
    def least(self) -> float:
        """The part of even shares to mix in: rows without a share have no derivative."""
        return _LEAST_PART


def measured_instance(environment: CellEnvironment, totals: Floats) -> MeasuredInstance:
    """Return the instance to plan for, from an environment with several measures.

    A reward that is predicted is a measure, the only one.
    """
    predicted = environment.predicted_variances
    problem = with_measures(environment.problem) if predicted else environment.problem
    means = environment.cell_means.reshape(*problem.shape, -1)
    stds = np.sqrt(np.diagonal(environment.cell_covariances, axis1=2, axis2=3))
    unit = stds.max(axis=(0, 1))
    unit = np.where(unit > 0.0, unit, 1.0)
    objective = float(np.abs(np.asarray(problem.objective_weights) * unit).max())
    units = Units(np.zeros_like(unit), unit, objective)
    covariances = predicted.left if predicted else environment.cell_covariances
    covariances = covariances / np.outer(unit, unit)
    # A measure that does not vary is treated as one that hardly varies.
    variances = np.diagonal(covariances, axis1=2, axis2=3)
    lacking = np.maximum(_LEAST_STD**2 - variances, 0.0)
    covariances = covariances + lacking[..., np.newaxis] * np.eye(len(unit))
    named = environment.truth.best
    best = -1 if named is None else problem.arms.index(named)
    model = model_of_measures(problem, units)
    explained = np.zeros((problem.shape[1], 0, 0))
    found = MeasuredInstance(model, means / unit, covariances, explained, best, totals)
    return _with_predictions(found, predicted, unit) if predicted else found


def _with_predictions(
    instance: MeasuredInstance, predicted: PredictedVariances, unit: Floats
) -> MeasuredInstance:
    """Return an instance with the predictions as further measures, which nothing asks for."""
    model, places = instance.model, predicted.places
    number, groups = len(places), model.weights.size
    more = [(0, number)]

    def wider(array: Floats) -> Floats:
        return np.pad(array, [*[(0, 0)] * (array.ndim - 1), *more])

    both = [(0, 0), (0, 0), *more, *more]
    return instance._replace(
        model=model._replace(
            objective=wider(model.objective),
            low=wider(model.low),
            high=wider(model.high),
            covariances=np.pad(model.covariances, both),
            scales=wider(model.scales),
            directions=wider(model.directions),
            predicts=np.array(places, dtype=np.float64),
            slopes=np.full(number, np.nan),
            known_means=np.full((number, groups), np.nan),
            predicted=number,
        ),
        means=wider(instance.means),
        covariances=np.pad(instance.covariances, both),
        explained=predicted.explained / np.outer(unit[places], unit[places]),
    )


def assumed_of_predictions(environment: CellEnvironment) -> str:
    """Return in words what the bound assumes about predictions; empty without any."""
    if not environment.problem.predictions:
        return ""
    if environment.predicted_variances is None:
        return f"; {IGNORES_PREDICTIONS}"
    return "; predictions of known slope, which leave the variance that the plan states"


def assumptions_of_measures(environment: CellEnvironment) -> str:
    """Return in words what the bound assumes about the measures of a pull."""
    off_diagonal = environment.cell_covariances * (1.0 - np.eye(len(environment.problem.measures)))
    is_independent = (np.abs(off_diagonal) <= _ROUNDING * environment.cell_covariances.max()).all()
    depend = "no correlation" if is_independent else "this covariance"
    assumed = f"jointly normal measures with these means and standard deviations and {depend}"
    if environment.problem.measure_ranges is None:
        return assumed
    return (
        f"{assumed}; for measures in a range, which are not normal, it is a yardstick and no bound"
    )


def why_undecidable(environment: CellEnvironment) -> str:
    """Return why no number of pulls suffices (the answer is on a limit, or a tie), or nothing."""
    problem, truth = environment.problem, environment.truth
    if truth.best is None:
        return ""
    best, means = problem.arms.index(truth.best), environment.cell_means
    for row in problem.limit_rows:
        if not np.isfinite(row.bounds[best]):
            continue
        distance = row.distances(means, problem.shares)[best]
        size = max(row.sizes(means, problem.shares)[best], abs(row.bounds[best]))
        if abs(distance) <= _ROUNDING * size:
            kind = "floor" if row.is_floor else "ceiling"
            if row.control is not None:
                kind = f"limit against {problem.arms[row.control]!r}"
            where = "overall" if row.group is None else f"in group {problem.groups[row.group]!r}"
            return (
                f"the mean of {problem.name_of(row)!r} of the best arm {truth.best!r} is "
                f"exactly on its {kind} {where}"
            )
    return _tie(problem, means, best)


def _tie(problem: Problem, means: Floats, best: int) -> str:
    quality = problem.sign * problem.quality(means)
    near = quality[best] + problem.tolerance - quality <= _ROUNDING * np.abs(quality).max()
    tied = problem.feasible(means) & near
    tied[best] = False
    if not tied.any():
        return ""
    rival = problem.arms[int(np.argmax(tied))]
    return f"the arms {problem.arms[best]!r} and {rival!r} tie for best"
