"""The other rules, each with its proven level, on the same environments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fairtrial.simulation import Simulation
from papers.linear.betting import block_betting_runs
from papers.linear.cache import (
    BLOCK_BETTING,
    DELTA,
    SimulationCache,
    difference,
    policy,
)
from papers.linear.instances import PAPER, Instance
from papers.report import AGREES, Measured, Row, Section, Table, keeps_level, share

__all__ = ["RULES", "compared", "rule_runs"]

_REFERENCE_RUNS = 20
_ERRORS = 3.0

_RUNS = {
    "LinGapE": (1000, 10),
    "FrankWolfeSampling": (1000, 10),
    "LazyTrackAndStop": (40, 4),
    "LinGame": (1000, 10),
    "Rage": (100, 6),
    "XYAdaptive": (40, 4),
    "XYOracle": (40, 4),
    "XYAllocation": (20, 4),
    "GAllocation": (20, 4),
}
"""Replications, full and quick: more if a run costs less."""

_RUNS_OF_PAPER = (8, 1)
"""Replications if a run takes hundreds of thousands of pulls, chosen one by one."""

_REFERENCES: Mapping[str, Mapping[str, str]] = {
    "soare:2:0.1": {
        "LinGapE": "1804 (258)",
        "FrankWolfeSampling": "1831 (262)",
        "LazyTrackAndStop": "1886 (276)",
        "LinGame": "2190 (351)",
        "Rage": "5211 (1166)",
        "XYAdaptive": "7723 (885)",
        "XYOracle": "1831 (262)",
        "XYAllocation": "4360 (528)",
        "GAllocation": "4360 (528)",
    },
    "soare:5:0.1": {
        "LinGapE": "2542 (278)",
        "FrankWolfeSampling": "2848 (290)",
        "LazyTrackAndStop": "3026 (270)",
        "LinGame": "4202 (328)",
        "Rage": "4548 (861)",
        "XYAdaptive": "6102 (379)",
        "XYOracle": "3537 (444)",
        "XYAllocation": "26547 (1829)",
        "GAllocation": "29440 (1974)",
    },
    "soare:10:0.1": {
        "LinGapE": "4681 (366)",
        "FrankWolfeSampling": "4672 (368)",
        "LazyTrackAndStop": "5134 (429)",
        "LinGame": "7033 (588)",
        "Rage": "6030 (877)",
        "XYAdaptive": "23987 (687)",
        "XYOracle": "6508 (407)",
        "XYAllocation": "111974 (4055)",
        "GAllocation": "119816 (6546)",
    },
    "soare:5:0.01": {
        "LinGapE": "317772 (27497)",
        "FrankWolfeSampling": "443303 (32876)",
        "LazyTrackAndStop": "691745 (40798)",
        "LinGame": "468862 (35534)",
        "Rage": "632626 (62264)",
    },
    "sphere:30:5:1": {
        "LinGapE": "1654 (159)",
        "FrankWolfeSampling": "1665 (174)",
        "LazyTrackAndStop": "1908 (168)",
        "LinGame": "1675 (139)",
        "Rage": "3748 (446)",
        "XYAdaptive": "6924 (516)",
        "XYOracle": "2358 (128)",
        "XYAllocation": "9881 (722)",
        "GAllocation": "8704 (741)",
    },
    "mab:8:0.5": {
        "LinGapE": "3271 (217)",
        "FrankWolfeSampling": "3070 (132)",
        "LazyTrackAndStop": "3074 (131)",
        "LinGame": "3730 (138)",
        "Rage": "2833 (255)",
        "XYAdaptive": "11689 (1)",
        "XYOracle": "3984 (152)",
        "XYAllocation": "5055 (260)",
        "GAllocation": "5055 (260)",
    },
}
"""The reference's mean number of pulls in 20 runs each, at delta .05."""

RULES = (BLOCK_BETTING, *_RUNS)
"""All compared rules."""


def rule_runs(cache: SimulationCache, instance: Instance, name: str) -> Simulation:
    """Return runs of a rule at delta .05."""
    if name == BLOCK_BETTING:
        return block_betting_runs(cache, instance, DELTA)
    one_by_one = name != "Rage"
    runs = _RUNS_OF_PAPER if instance is PAPER and one_by_one else _RUNS[name]
    return cache.simulate(instance, policy(name, instance), runs)


def known_rules(instance: Instance) -> tuple[str, ...]:
    """Return the rules to compare in an environment."""
    return (BLOCK_BETTING, *_REFERENCES[instance.name])


def compared(cache: SimulationCache) -> Section:
    """Compare the rules with the reference, with each other and with the bound."""
    return Section(
        "rules",
        "All rules, each with a proven level",
        "delta = .05, known noise. LinGapE, FrankWolfeSampling, LazyTrackAndStop, LinGame and "
        "the static shares (XYOracle, XYAllocation, GAllocation) stop by the mixture level, "
        "which holds for any sampling. Rage and XYAdaptive judge every phase by its own data "
        "(level `phase`). BlockBetting has its own level. A row agrees if the mean is within "
        "three standard errors of the reference (20 runs), and if the share of wrong runs is at "
        "most delta + 3 sqrt(delta / runs).",
        tuple(
            Table(tuple(_rows(cache, instance)), _title(instance), _DECIMALS)
            for instance in cache.environments
        ),
    )


_DECIMALS = {"of the bound": 1, "wrong": 4}


def _title(instance: Instance) -> str:
    bound = instance.complexity.lower_bound(DELTA)
    return f"{instance.name}: no rule needs fewer than {bound:,.0f} pulls on average"


def _rows(cache: SimulationCache, instance: Instance) -> Iterator[Row]:
    references = _REFERENCES[instance.name]
    bound = instance.complexity.lower_bound(DELTA)
    for name in known_rules(instance):
        runs = rule_runs(cache, instance, name)
        wrong = int(runs.wrong.sum())
        kept = keeps_level(wrong, runs.replications, DELTA)
        text = references.get(name)
        reference = None if text is None else Measured.parse(text)
        close = reference is None or _close(runs, reference)
        yield {
            "rule": name,
            "runs": runs.replications,
            "ours": Measured.of(runs.stopping_time),
            "reference": reference,
            "of the bound": float(runs.stopping_time.mean()) / bound,
            "wrong": share(wrong, runs.replications),
            AGREES: close and kept,
        }


def _close(runs: Simulation, reference: Measured) -> bool:
    ours = runs.stopping_time.astype(np.float64)
    return difference(ours, reference, _REFERENCE_RUNS) <= _ERRORS
