"""Widths of anytime intervals for differences in an analysed experiment, beside usual intervals.

The fixed interval holds at one planned look. The asymptotic anytime interval (Waudby-Smith and
others, 2024, "Time-uniform central limit theory and asymptotic confidence sequences", Theorem 2.2,
tuned for this number of rows) holds at all looks, if there are many results. "Half the range" takes
half of the range as the standard deviation of a result.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

import fairtrial as ft
from fairtrial.confidence.effects import Spread, difference_from_sums

Floats = NDArray[np.float64]

_LEVEL = 0.05


def run(*, quick: bool) -> None:
    """Print half the width of each interval for conversions and for revenue."""
    rows = 4_000 if quick else 40_000
    print(f"\nhalf the width of intervals for a difference, {rows:,} rows, confidence 95 %")
    print(f"{'outcome':<34}{'fixed':>9}{'asymptotic':>12}{'half range':>12}{'fairtrial':>11}")
    cases: dict[str, tuple[float, Callable[[np.random.Generator], Floats]]] = {
        f"0 or 1, {rate:.0%}": (1.0, partial(_conversions, rows, rate)) for rate in (0.5, 0.1, 0.02)
    }
    for top in (100.0, 1_000.0):
        cases[f"revenue of 1 % up to {top:,.0f}"] = (top, partial(_revenue, rows, top))
    for name, (top, draw) in cases.items():
        _show(name, top, draw)


def _show(name: str, top: float, draw: Callable[[np.random.Generator], Floats]) -> None:
    generator = np.random.default_rng(7)
    values = draw(generator)
    arm = generator.integers(0, 2, values.size)
    own = [values[arm == number] for number in (0, 1)]
    error = math.sqrt(sum(one.var() / one.size for one in own))
    problem = ft.subpopulations.Problem(
        ["a", "b"], 1, floors=None, reward_range=(0.0, top), control="a"
    )
    table = {"arm": [problem.arms[number] for number in arm], "value": values}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ft.analyse(problem, table, _LEVEL, order="as given", outcome="value") as study:
            (effect,) = study.progress().effects
    counts, sums = (np.array(list(map(measure, own))) for measure in (len, np.sum))
    spread = Spread(np.full(2, top / 2), (0.0, top))
    wide = difference_from_sums(counts, sums, np.array([-1.0, 1.0]), spread, _LEVEL)
    assert wide is not None
    assert effect.upper is not None
    assert effect.lower is not None
    halves = (
        NormalDist().inv_cdf(1 - _LEVEL / 2) * error,
        _asymptotic(values.size) * error,
        (wide.upper - wide.lower) / 2,
        (effect.upper - effect.lower) / 2,
    )
    print(
        f"{name:<34}"
        + "".join(f"{half:>{size}.4g}" for half, size in zip(halves, (9, 12, 12, 11), strict=True))
    )


def _asymptotic(rows: int) -> float:
    """Return half the width of the asymptotic anytime interval, in standard errors."""
    # The tuning for `rows` results, as in section 2 of the paper.
    double = -2 * math.log(_LEVEL) + math.log(-2 * math.log(_LEVEL) + 1)
    rho = math.sqrt(double / rows)
    known = rows * rho**2 + 1
    return math.sqrt(2 * known / (rows * rho**2) * math.log(math.sqrt(known) / _LEVEL))


def _conversions(rows: int, rate: float, generator: np.random.Generator) -> Floats:
    return (generator.random(rows) < rate).astype(np.float64)


def _revenue(rows: int, top: float, generator: np.random.Generator) -> Floats:
    spent = np.minimum(top, generator.lognormal(3.0, 1.0, rows))
    return np.where(generator.random(rows) < 0.01, spent, 0.0)
