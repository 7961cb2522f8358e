"""What a prediction explains in the table of a pilot, and how many pulls it would save."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.cli.config import Configuration
from fairtrial.cli.planning import Plan, make_plan
from fairtrial.core.sheets import read_sheet
from fairtrial.errors import InvalidArgument

__all__ = ["Pilot", "Saved", "pulls_saved", "read_pilot", "to_dict", "with_r_squared"]

_NORMAL = 1.96
"""Quantile of the normal distribution for intervals of 95 %."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pilot:
    """What a column explains in a table.

    Parameters
    ----------
    column : str
        The column with the prediction.
    rows : int
        The rows with a prediction and an outcome.
    r_squared : float
        The share of the variance of outcomes within arms and groups that it explains, less what a
        column without any relation would seem to explain; 0 at least.
    lower, upper : float
        An approximate interval for the share, of 95 %.
    """

    column: str
    rows: int
    r_squared: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Saved:
    """What a prediction saves, by simulated runs.

    Parameters
    ----------
    pulls, without : float
        The mean number of pulls with the prediction of a pilot, and without.
    lower, upper : float
        An approximate interval of 95 % for the share that is saved: runs differ by chance.
    """

    pulls: float
    without: float
    lower: float
    upper: float

    @property
    def share(self) -> float:
        """The share of the pulls that the prediction saves; negative if it costs some."""
        return 1.0 - self.pulls / self.without


def read_pilot(path: Path, problem: Any, prediction: str, outcome: str) -> Pilot:
    """Return what a column explains in a table with one row for each unit.

    Arms and groups are compared within their own rows if the table has the columns ``arm`` and
    ``group``. Predictions are cut to the range that the problem states, as in a study.

    Raises
    ------
    InvalidArgument
        If a column is missing or is not one of numbers, too few rows have both, or several measures
        are predicted.
    """
    first, *others = problem.predictions.values()
    if others:
        accepted = (
            "needs a problem with one measure that is predicted: with several, state r_squared in "
            "[plan] for each"
        )
        raise InvalidArgument("--pilot", accepted)
    sheet = read_sheet(path)
    given = sheet.numbers(prediction), sheet.numbers(outcome)
    x, y = (np.array(column, dtype=np.float64) for column in given)
    names = [name for name in ("arm", "group") if sheet.has(name)]
    columns = [sheet.labels(name) for name in names]
    cells = list(zip(*columns, strict=True)) if names else [()] * len(x)
    both = ~(np.isnan(x) | np.isnan(y))
    x = np.clip(x[both], *first.range)
    x, n_cells = _centred(x, cells, both)
    y, _ = _centred(y[both], cells, both)
    freedom = len(x) - n_cells - 1
    if freedom < 2 or not x.any() or not y.any():
        accepted = "must have some more rows, whose predictions and outcomes differ within an arm"
        raise InvalidArgument("--pilot", accepted, path.name)
    plain = float((x @ y) ** 2 / ((x @ x) * (y @ y)))
    adjusted = max(0.0, 1.0 - (1.0 - plain) * (freedom + 1) / freedom)
    lower, upper = _interval(math.copysign(math.sqrt(min(plain, 1.0)), float(x @ y)), freedom)
    return Pilot(prediction, len(x), adjusted, lower, upper)


def _centred(values: Floats, cells: list[Any], used: NDArray[np.bool_]) -> tuple[Floats, int]:
    """Return values less the mean of their cell, and the number of cells."""
    places: dict[Any, int] = {}
    own = [cell for cell, is_used in zip(cells, used.tolist(), strict=True) if is_used]
    cell_of = np.array([places.setdefault(cell, len(places)) for cell in own], dtype=np.int64)
    sums = np.bincount(cell_of, values, len(places))
    means = sums / np.bincount(cell_of, minlength=len(places))
    return values - means[cell_of], len(places)


def _interval(correlation: float, freedom: int) -> tuple[float, float]:
    """Return the interval of a squared correlation, by Fisher's transformation."""
    if abs(correlation) >= 1.0:
        return 1.0, 1.0
    middle, reach = math.atanh(correlation), _NORMAL / math.sqrt(max(freedom - 1, 1))
    ends = math.tanh(middle - reach), math.tanh(middle + reach)
    squares = sorted(end**2 for end in ends)
    return (0.0 if ends[0] < 0.0 < ends[1] else squares[0]), squares[1]


def with_r_squared(configuration: Configuration, r_squared: float) -> Configuration:
    """Return the configuration with units whose predictions explain another share.

    Raises
    ------
    InvalidArgument
        If the file does not plan with assumed predictions.
    """
    planned: Any = configuration.planned
    if "r_squared" not in planned.get_params():
        accepted = "needs a problem with a prediction, and [plan] with means and r_squared"
        raise InvalidArgument("--pilot", accepted)
    # A share of 1 would leave nothing to simulate.
    return replace(configuration, assumed=planned.clone(r_squared=min(r_squared, 0.999)))


def pulls_saved(configuration: Configuration, delta: float | None, made: Plan) -> Saved:
    """Return what a plan with a prediction saves beside one without it."""
    plain = make_plan(with_r_squared(configuration, 0.0), delta)
    found = [np.asarray(one.simulation.stopping_time, dtype=np.float64) for one in (made, plain)]
    pulls, without = (float(one.mean()) for one in found)
    ratio = pulls / without
    # Of the logarithm of the ratio of two means (delta method).
    error = math.sqrt(sum(float(one.var()) / (one.size * float(one.mean()) ** 2) for one in found))
    ends = (1.0 - ratio * math.exp(sign * _NORMAL * error) for sign in (1, -1))
    return Saved(pulls, without, *ends)


def to_dict(pilot: Pilot, saved: Saved) -> Mapping[str, Any]:
    """Return both as JSON's own types."""
    return {
        "column": pilot.column,
        "rows": pilot.rows,
        "r_squared": pilot.r_squared,
        "lower": pilot.lower,
        "upper": pilot.upper,
        "pulls": saved.pulls,
        "pulls_without": saved.without,
        "saved": saved.share,
        "saved_lower": saved.lower,
        "saved_upper": saved.upper,
    }
