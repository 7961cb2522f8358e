"""The paper's Figure 4: the budget, in two to ten dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairtrial.simulation import Simulation
from papers.linear.cache import BLOCK_BETTING, DELTA, SimulationCache, policy
from papers.linear.instances import DIMENSIONS, paper_instance
from papers.report import AGREES, Measured, Row, Section, Table, keeps_level

__all__ = ["GROWING", "dimension_runs", "dimensions", "dimensions_of"]

_RUNS = {
    "XY-oracle": (20, 4),
    BLOCK_BETTING: (60, 5),
    "XY-adaptive": (20, 4),
    "XY": (10, 2),
    "G": (10, 2),
}
"""Replications at every dimension, full and quick."""

GROWING = tuple(_RUNS)
"""The rules of the figure."""


def dimension_runs(cache: SimulationCache, name: str, dimension: int) -> Simulation:
    """Return runs of a rule on the paper's experiment in `dimension` dimensions."""
    instance = paper_instance(dimension)
    rule = policy("XYAdaptive" if name == "XY-adaptive" else name, instance)
    return cache.simulate(instance, rule, _RUNS[name])


def dimensions_of(cache: SimulationCache) -> Sequence[int]:
    """Return the dimensions to measure; if quick, only the ends and that of Figure 5."""
    return (2, 5, 10) if cache.quick else DIMENSIONS


def dimensions(cache: SimulationCache) -> Section:
    """Measure which rules need more pulls in more dimensions."""
    measured = dimensions_of(cache)
    return Section(
        "figure-4",
        "Figure 4: budgets as the dimension grows",
        "The paper's experiment at delta = .05, with proven levels: XY-oracle, XY and G test "
        "after 1.1^j pulls (level `static-checks`), XY-adaptive after every phase (`phase`). The "
        "bound holds for every rule. The shape agrees with the paper: only one direction "
        "matters, whatever the dimension, so the oracle's budget hardly grows. The budgets of "
        "rules that measure all directions grow with the number of directions.",
        (
            Table(tuple(_rows(cache, measured)), "Mean number of pulls"),
            Table(tuple(_claims(cache, measured)), "What is claimed"),
        ),
    )


def _rows(cache: SimulationCache, measured: Sequence[int]) -> Iterator[Row]:
    for dimension in measured:
        simulations = {name: dimension_runs(cache, name, dimension) for name in GROWING}
        wrong = sum(int(runs.wrong.sum()) for runs in simulations.values())
        number = sum(runs.replications for runs in simulations.values())
        yield {
            "d": dimension,
            "bound": round(paper_instance(dimension).complexity.lower_bound(DELTA)),
            **{name: Measured.of(runs.stopping_time) for name, runs in simulations.items()},
            "wrong": f"{wrong} of {number}",
            AGREES: keeps_level(wrong, number, DELTA),
        }


def _claims(cache: SimulationCache, measured: Sequence[int]) -> Iterator[Row]:
    """Yield the paper's claims about growth, and how much our budgets grew."""
    few, many = measured[0], measured[-1]
    growth = {
        name: _mean(cache, name, many) / _mean(cache, name, few)
        for name in ("XY-oracle", "XY", "G")
    }
    flat = growth["XY-oracle"] <= 2.0
    yield {
        "the paper says": "more dimensions have little impact on XY-oracle",
        "here": f"{growth['XY-oracle']:.1f} times as much for {many // few} times as many",
        AGREES: flat,
    }
    yield {
        "the paper says": "XY and G grow with the number of dimensions",
        "here": f"{growth['XY']:.1f} and {growth['G']:.1f} times as much",
        AGREES: min(growth["XY"], growth["G"]) >= 3.0,
    }
    ratio = _mean(cache, "G", many) / _mean(cache, "XY-adaptive", many)
    yield {
        "the paper says": "XY-adaptive beats XY and G by more, the more dimensions",
        "here": f"by {_mean(cache, 'G', few) / _mean(cache, 'XY-adaptive', few):.1f} at {few}, "
        f"by {ratio:.1f} at {many}",
        AGREES: ratio > _mean(cache, "G", few) / _mean(cache, "XY-adaptive", few),
    }


def _mean(cache: SimulationCache, name: str, dimension: int) -> float:
    return float(dimension_runs(cache, name, dimension).stopping_time.mean())
