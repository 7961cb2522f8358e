"""Exact quantities: H, T*, the values of the designs, and Figure 4 by formula."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairtrial.linear import g_optimal_design, xy_optimal_design
from papers.linear.cache import DELTA
from papers.linear.instances import (
    COMMON,
    CROWDED,
    DIMENSIONS,
    Instance,
    paper_instance,
)
from papers.report import AGREES, Row, Section, Table

__all__ = ["complexities", "equal_shares"]

_HARDNESS = {
    "soare:2:0.01": 10100.0825,
    "soare:5:0.01": 10100.83625,
    "soare:10:0.01": 10102.0925,
    "soare:2:0.1": 110.0750,
    "soare:5:0.1": 110.8625014,
    "soare:10:0.1": 112.1746,
    "sphere:30:5:1": 50.4210,
    "mab:8:0.5": 53.1660,
    "sphere:50:10:3": 65.6,
    "sphere:50:4:4": 215.75,
    "mab:50:1": 64.0,
}
"""H according to the reference."""

_ROUGH = {"sphere:50:10:3": 0.026, "sphere:50:4:4": 0.026}
"""Precision of H where it follows from T*, which is known to four digits."""

_RATIOS = (1.98, 2.97, 3.96, 4.95, 5.94, 6.93, 7.92, 8.91, 9.90)
"""Reference: H with equal shares of the axes, divided by H, for 2 to 10 dimensions."""


def complexities() -> Section:
    """Compare the exact quantities with the reference."""
    extra = (paper_instance(2), paper_instance(10))
    return Section(
        "complexity",
        "Complexity and designs",
        "H is the paper's equation 6; T* = 2 H for noise of variance 1. No rule whose error "
        "probability is at most delta needs fewer than T* kl(delta, 1 - delta) pulls on average. "
        "`G` and `XY` are the values of the optimal designs that do not use theta; G is exactly "
        "the dimension. soare:d:w is the paper's experiment in d dimensions with angle w; the "
        "paper uses w = .01.",
        (
            Table(tuple(map(_row, (*COMMON, *extra, *CROWDED))), decimals=_DECIMALS),
            Table(tuple(_growth()), "Figure 4 by formula: H in d dimensions, angle .01", _GROWTH),
        ),
    )


_DECIMALS = {"H": 4, "reference": 4, "bound at .05": 1, "G": 4, "XY": 4}
_GROWTH = {"XY-oracle": 2, "XY and G": 2, "ratio": 2, "reference": 2}


def _row(instance: Instance) -> Row:
    found, reference = instance.complexity, _HARDNESS[instance.name]
    tolerance = _ROUGH.get(instance.name, 1e-6 * reference)
    return {
        "instance": instance.name,
        "H": found.hardness,
        "reference": reference,
        "bound at .05": found.lower_bound(DELTA),
        "G": g_optimal_design(instance.problem, tol=1e-6).value,
        "XY": xy_optimal_design(instance.problem, tol=1e-4).value,
        AGREES: abs(found.hardness - reference) <= tolerance,
    }


def equal_shares(dimension: int) -> np.ndarray:
    """Return the G- and XY-optimal shares of the paper's arms: equal shares of the axes."""
    return np.append(np.full(dimension, 1.0 / dimension), 0.0)


def _growth() -> Iterator[Row]:
    for dimension, reference in zip(DIMENSIONS, _RATIOS, strict=True):
        instance = paper_instance(dimension)
        oracle = instance.complexity.hardness
        static = instance.hardness_at(equal_shares(dimension))
        yield {
            "d": dimension,
            "XY-oracle": oracle,
            "XY and G": static,
            "ratio": static / oracle,
            "reference": reference,
            AGREES: abs(static / oracle / reference - 1.0) <= 0.01,
        }
