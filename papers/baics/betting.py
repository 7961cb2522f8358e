"""Compare block betting, with known noise and with rewards in a range, with the reference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairtrial.simulation import Simulation
from fairtrial.subpopulations import BlockBetting
from papers.baics import instances as environments
from papers.baics.cache import SimulationCache
from papers.baics.instances import CLICKS, E1, E2, NONE_FEASIBLE, Instance
from papers.report import AGREES, Measured, Row, Section, Table, keeps_level, share

__all__ = [
    "FLOORS",
    "BlockBettingRow",
    "block_betting",
    "bounded_rewards",
    "grouped_rows",
    "plain_rows",
]


@dataclass(frozen=True)
class BlockBettingRow:
    """One mean stopping time of block betting in the reference.

    Parameters
    ----------
    instance : Instance
        The environment.
    delta : float
        Accepted error probability.
    reference : Measured
        The reference's mean and its standard error.
    runs : tuple of int
        Numbers of our replications, full and quick.
    horizon : int, optional
        Number of pulls after which a run is stopped.
    """

    instance: Instance
    delta: float
    reference: Measured
    runs: tuple[int, int]
    horizon: int | None = None

    def simulate(self, cache: SimulationCache) -> Simulation:
        """Return our runs."""
        policy = BlockBetting(self.instance.problem, delta=self.delta)
        return cache.simulate(self.instance, policy, self.runs, self.horizon)


def _rows(
    instance: Instance,
    runs: tuple[int, int],
    references: dict[float, str],
    horizon: int | None = None,
) -> Iterator[BlockBettingRow]:
    for delta, text in references.items():
        yield BlockBettingRow(instance, delta, Measured.parse(text), runs, horizon)


def _block_betting_row(cache: SimulationCache, row: BlockBettingRow) -> Row:
    runs = row.simulate(cache)
    number = runs.replications
    ours = Measured.of(runs.stopping_time)
    wrong = int(runs.wrong.sum())
    bound = row.instance.complexity().lower_bound(row.delta)
    return {
        "instance": row.instance.name,
        "delta": row.delta,
        "runs": number,
        "ours": ours,
        "median": round(float(np.median(runs.stopping_time))),
        "reference": row.reference,
        "times the bound": ours.mean / bound,
        "wrong": share(wrong, number),
        "undecided": share(int((~runs.decided).sum()), number),
        AGREES: ours.agrees_with(row.reference) and keeps_level(wrong, number, row.delta),
    }


_DECIMALS = {"times the bound": 2, "wrong": 4, "undecided": 4}


def _table(cache: SimulationCache, rows: Iterator[BlockBettingRow], title: str = "") -> Table:
    return Table(tuple(_block_betting_row(cache, row) for row in rows), title, _DECIMALS)


# ---------------------------------------------------------------------------- known noise

FLOORS = (
    *_rows(E1, (400, 40), {0.1: "955 (12)", 0.05: "1132 (14)", 0.01: "1486 (16)"}),
    *_rows(E2, (200, 12), {0.1: "8220 (259)", 0.05: "10325 (308)", 0.01: "13380 (317)"}),
    *_rows(NONE_FEASIBLE, (600, 100), {0.1: "127 (2)", 0.05: "149 (2)", 0.01: "193 (2)"}),
)
"""The paper's instances."""


def block_betting(cache: SimulationCache) -> Section:
    """Compare block betting with its reference on the paper's instances."""
    return Section(
        "block-betting",
        "Block betting, the default",
        "A sampling rule and a proven stop in one, for known noise. No rule whose error "
        "probability is at most delta can have a mean below the bound, T* kl(delta, 1 - delta). "
        "A row agrees if our mean agrees with the reference, and if the share of wrong runs is "
        "at most delta + 3 sqrt(delta / runs).",
        (_table(cache, iter(FLOORS)),),
    )


# ------------------------------------------------------------------------ rewards in a range

_PLAIN = (
    ("1589 (39)", "2533 (45)", "1654 (39)", "2594 (48)"),
    ("474 (11)", "780 (16)", "789 (24)", "1311 (30)"),
    ("2541 (49)", "4326 (70)", "3763 (93)", "5928 (110)"),
    ("690 (10)", "1092 (13)", "554 (13)", "830 (16)"),
    ("1000 (29)", "1636 (36)", "1283 (38)", "2076 (45)"),
    ("1157 (23)", "1883 (30)", "932 (28)", "1545 (35)"),
)
"""Plain environments in order: by the range at delta .1, .01; by known noise at .1, .01."""

_EMAIL_MEANS = {0.1: "10637 (882)", 0.05: "11761 (806)", 0.01: "15223 (1099)"}
_EMAIL_MEDIANS = {0.1: 7048, 0.05: 9092, 0.01: 11208}
_EMAIL_RUNS = 200


def grouped_rows() -> Iterator[BlockBettingRow]:
    """Yield the rows of environments with groups and floors."""
    yield from _rows(
        environments.trial("cd4", 0.0),
        (500, 20),
        {0.1: "1212 (19)", 0.05: "1456 (23)", 0.01: "1883 (27)"},
    )
    yield from _rows(
        environments.trial("event_free", 0.75),
        (150, 5),
        {0.1: "35746 (2218)", 0.05: "42930 (2692)", 0.01: "56176 (2718)"},
        horizon=200_000,
    )
    yield from _rows(
        environments.trial("event_free", 0.78),
        (150, 8),
        {0.1: "6555 (267)", 0.05: "7309 (272)", 0.01: "9871 (380)"},
    )
    yield from _rows(
        CLICKS, (150, 5), {0.1: "23831 (833)", 0.05: "29415 (942)", 0.01: "37357 (960)"}
    )


def plain_rows(*, noise_known: bool) -> Iterator[BlockBettingRow]:
    """Yield the rows of plain arms, for a rule that knows the range or the largest noise."""
    for instance, (at_10, at_1, known_at_10, known_at_1) in zip(
        environments.plain_environments(), _PLAIN, strict=True
    ):
        if noise_known:
            known = environments.with_noise_known(instance)
            yield from _rows(known, (300, 12), {0.1: known_at_10, 0.01: known_at_1})
        else:
            yield from _rows(instance, (300, 12), {0.1: at_10, 0.01: at_1})


def bounded_rewards(cache: SimulationCache, email: Instance | None) -> Section:
    """Compare block betting on rewards in a known range with its reference."""
    tables = [
        _table(cache, grouped_rows(), "Groups and floors; real patients, drawn with replacement"),
        _table(cache, plain_rows(noise_known=False), "Plain arms, rewards in [0, 1]"),
        _table(
            cache,
            plain_rows(noise_known=True),
            "The same plain arms, with the largest true standard deviation given (not proven)",
        ),
    ]
    if email is not None:
        tables.append(_email_table(cache, email))
    return Section(
        "bounded-rewards",
        "Block betting on rewards in a known range",
        "Only the range of the rewards is known. The bound is that for normal rewards with the "
        "true standard deviations. Rows agree as above.",
        tuple(tables),
    )


def _email_table(cache: SimulationCache, instance: Instance) -> Table:
    rows = _rows(instance, (200, 20), _EMAIL_MEANS)
    return Table(
        tuple(_email_row(cache, row) for row in rows),
        "E-mail campaign; medians are compared because the upper tail is heavy",
        _DECIMALS,
    )


def _email_row(cache: SimulationCache, row: BlockBettingRow) -> Row:
    cells = _block_betting_row(cache, row)
    runs = row.simulate(cache)
    theirs = _EMAIL_MEDIANS[row.delta]
    # The standard error of a median is 1 / (2 sqrt(runs)) in probability: allow four, for both.
    reach = 2.0 * math.sqrt(1.0 / runs.replications + 1.0 / _EMAIL_RUNS)
    low, high = np.quantile(runs.stopping_time, [max(0.0, 0.5 - reach), min(1.0, 0.5 + reach)])
    del cells[AGREES]
    return {**cells, "reference median": theirs, AGREES: bool(low <= theirs <= high)}
