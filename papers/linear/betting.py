"""Compare block betting, the default, with its reference and with the bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairtrial.simulation import Simulation
from papers.linear.cache import BLOCK_BETTING, SimulationCache, difference, policy
from papers.linear.instances import COMMON, CROWDED, PAPER, Instance
from papers.report import AGREES, Measured, Row, Section, Table, keeps_level, share

__all__ = ["BET_ROWS", "BetRow", "block_betting", "block_betting_runs"]

_REFERENCE_RUNS = 200
_ERRORS = 4.0


@dataclass(frozen=True)
class BetRow:
    """One mean number of pulls of block betting in the reference.

    Parameters
    ----------
    instance : Instance
        The environment.
    delta : float
        Accepted probability of a wrong answer.
    reference : Measured
        The reference's mean of 200 runs, and its standard error.
    """

    instance: Instance
    delta: float
    reference: Measured


_REFERENCES = {
    "soare:2:0.1": ("798 (43)", "954 (47)", "1460 (60)"),
    "soare:5:0.1": ("917 (45)", "1083 (50)", "1512 (62)"),
    "soare:10:0.1": ("911 (46)", "1183 (49)", "1498 (54)"),
    "soare:5:0.01": ("86697 (4836)", "107966 (5134)", "147166 (6078)"),
    "sphere:30:5:1": ("552 (23)", "631 (25)", "804 (27)"),
    "mab:8:0.5": ("626 (18)", "699 (20)", "894 (20)"),
    "sphere:50:10:3": ("1023 (29)", "1091 (28)", "1383 (33)"),
    "sphere:50:4:4": ("2124 (99)", "2672 (109)", "3500 (116)"),
    "mab:50:1": ("907 (14)", "1023 (14)", "1277 (17)"),
}
"""Means at delta .1, .05 and .01."""

BET_ROWS = tuple(
    BetRow(instance, delta, Measured.parse(text))
    for instance in (*COMMON, *CROWDED)
    for delta, text in zip((0.1, 0.05, 0.01), _REFERENCES[instance.name], strict=True)
)


def block_betting_runs(cache: SimulationCache, instance: Instance, delta: float) -> Simulation:
    """Return runs of block betting, more of them if other rules are compared."""
    cheap = instance not in (PAPER, *CROWDED)
    runs = ((1000, 40) if delta == 0.05 else (400, 30)) if cheap else (200, 8)
    return cache.simulate(instance, policy(BLOCK_BETTING, instance, delta), runs)


def block_betting(cache: SimulationCache, rows: Sequence[BetRow] = BET_ROWS) -> Section:
    """Compare block betting with its reference, and with the bound that no rule can beat."""
    made = [(row, block_betting_runs(cache, row.instance, row.delta)) for row in rows]
    wrong = sum(int(runs.wrong.sum()) for _, runs in made)
    number = sum(runs.replications for _, runs in made)
    return Section(
        "block-betting",
        "Block betting, the default",
        "Mean number of pulls with its standard error; every pull is counted. `of T* "
        "ln(1/delta)` divides it by the information needed for certainty at level delta. `of the "
        "bound` divides it by T* kl(delta, 1 - delta), which is a lower bound for every rule "
        "whose error probability is at most delta, whatever the rule knows. A row agrees if the "
        "mean is within four standard errors of the reference (200 runs), and if the share of "
        f"wrong runs is at most delta + 3 sqrt(delta / runs). In all, {wrong:,} of {number:,} "
        "runs are wrong.",
        (Table(tuple(_rows(made)), decimals=_DECIMALS),),
    )


_DECIMALS = {"of T* ln(1/delta)": 2, "of the bound": 2, "wrong": 4}


def _rows(made: Sequence[tuple[BetRow, Simulation]]) -> Iterator[Row]:
    for row, runs in made:
        ours, wrong = Measured.of(runs.stopping_time), int(runs.wrong.sum())
        found = row.instance.complexity
        far = difference(runs.stopping_time.astype(np.float64), row.reference, _REFERENCE_RUNS)
        yield {
            "instance": row.instance.name,
            "delta": row.delta,
            "runs": runs.replications,
            "ours": ours,
            "reference": row.reference,
            "of T* ln(1/delta)": ours.mean / (found.value * math.log(1.0 / row.delta)),
            "of the bound": ours.mean / found.lower_bound(row.delta),
            "wrong": share(wrong, runs.replications),
            AGREES: far <= _ERRORS and keeps_level(wrong, runs.replications, row.delta),
        }
