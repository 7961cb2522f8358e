"""Environments with almost tied answers: how often the true answer is rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from fairtrial.simulation import Simulation
from papers.linear.cache import SimulationCache, WatchedBlockBetting
from papers.linear.instances import Instance, hard_nulls
from papers.report import AGREES, Measured, Row, Section, Table, keeps_level, share

__all__ = ["nulls"]

_LEVEL = 0.1
_HORIZON = 3_000

_REFERENCES = {
    "normal": (0.0440, 0.0490, 0.0385, None),
    "coins": (0.0355, 0.0460, 0.0340, None),
}
"""The reference's shares in 2,000 runs of up to 20,000 pulls, in the same environments."""


def nulls(cache: SimulationCache) -> Section:
    """Measure how often the true answer is ever rejected if no test can find it."""
    return Section(
        "hard-nulls",
        "Hard nulls",
        "The gap between the two best arms is a millionth or less. The proof bounds, by delta = "
        ".1, the probability that block betting EVER rejects the true answer, whether or not the "
        "run stops. A row agrees if that share is at most delta + 3 sqrt(delta / runs) within "
        f"{_HORIZON:,} pulls; the runs of the reference were up to seven times as long.",
        (
            _table(cache, "Normal noise", "normal"),
            _table(cache, "Fair coins that add or take 1", "coins"),
        ),
    )


def _table(cache: SimulationCache, title: str, noise: Literal["normal", "coins"]) -> Table:
    columns = ("true answer ever rejected", "reference", "wrong", "undecided")
    return Table(tuple(_rows(cache, noise)), title, dict.fromkeys(columns, 4))


def _rows(cache: SimulationCache, noise: Literal["normal", "coins"]) -> Iterator[Row]:
    for instance, reference in zip(hard_nulls(noise), _REFERENCES[noise], strict=True):
        runs = _runs(cache, instance)
        number = runs.replications
        rejected = int(runs.metrics["watched_rejected"].sum())
        yield {
            "environment": instance.name,
            "runs": number,
            "true answer ever rejected": share(rejected, number),
            "reference": None if reference is None else Measured(reference),
            "wrong": share(int(runs.wrong.sum()), number),
            "undecided": share(int((~runs.decided).sum()), number),
            AGREES: keeps_level(rejected, number, _LEVEL),
        }


def _runs(cache: SimulationCache, instance: Instance) -> Simulation:
    rule = WatchedBlockBetting(instance.problem, instance.environment.truth.best, _LEVEL)
    return cache.simulate(instance, rule, (2000, 40), _HORIZON)
