"""Compare mean stopping times of the one-draw-at-a-time rules with the reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairtrial.confidence import GaussianMixture
from fairtrial.simulation import Simulation
from papers.baics.cache import (
    SimulationCache,
    Stopping,
    right_answers,
    same_share,
    tracker,
)
from papers.baics.instances import E1, E2, NONE_FEASIBLE, Instance
from papers.report import AGREES, Measured, Row, Section, Table, share

__all__ = [
    "PAPER_CAP",
    "STOPPING_RULES",
    "STOPPING_TIMES",
    "StoppingTimeRow",
    "capped",
    "stopping_times",
]

PAPER_CAP = 15_000
"""Rounds after which the paper stopped a run."""


@dataclass(frozen=True)
class StoppingTimeRow:
    """One mean stopping time from the reference, and its policy.

    Parameters
    ----------
    instance : Instance
        The environment.
    delta : float
        Accepted error probability.
    sampling, stopping : str or Threshold
        The policy's sampling and stopping rules.
    reference : Measured
        The reference's mean and its standard error.
    runs : tuple of int
        Numbers of our replications, full and quick.
    """

    instance: Instance
    delta: float
    sampling: str
    stopping: Stopping
    reference: Measured
    runs: tuple[int, int]

    def simulate(self, cache: SimulationCache) -> Simulation:
        """Return our runs."""
        policy = tracker(self.sampling, self.instance, self.delta, self.stopping)
        return cache.simulate(self.instance, policy, self.runs)


def _sampling(
    instance: Instance, delta: float, runs: tuple[int, int], **references: str
) -> Iterator[StoppingTimeRow]:
    """Yield rows of sampling rules, all with the paper's stopping rule."""
    for keyword, text in references.items():
        name = _SAMPLING[keyword]
        yield StoppingTimeRow(
            instance, delta, name, "stylised", Measured.parse(text), _spared(runs, name, "track")
        )


def _stopping(
    instance: Instance, delta: float, runs: tuple[int, int], **references: str
) -> Iterator[StoppingTimeRow]:
    """Yield rows of stopping rules, all under balanced sampling."""
    for keyword, text in references.items():
        rule = _STOPPING[keyword]
        number = _spared(runs, keyword, "kaufmann_koolen")
        yield StoppingTimeRow(instance, delta, "balanced", rule, Measured.parse(text), number)


def _spared(runs: tuple[int, int], name: str, slow: str) -> tuple[int, int]:
    """Return fewer runs for a rule that is ten times slower than the others."""
    return (runs[0] // 2, max(6, runs[1] // 3)) if name == slow else runs


_SAMPLING = {
    "balanced": "balanced",
    "forced": "balanced, forced exploration",
    "paper": "T-a-SCS",
    "track": "track",
    "static": "static w*",
    "plain": "T-a-S",
    "uniform": "uniform",
    "round_robin": "round robin",
}

_STOPPING: dict[str, Stopping] = {
    "certified": "certified",
    "kappa_40": GaussianMixture(kappa=40.0),
    "kappa_10": GaussianMixture(kappa=10.0),
    "kaufmann_koolen": "kaufmann-koolen",
}

STOPPING_TIMES = (
    *_sampling(
        E1,
        0.1,
        (300, 40),
        balanced="730 (11)",
        paper="1077 (16)",
        track="796 (37)",
        static="1235 (24)",
        forced="755 (16)",
        plain="3454 (93)",
        uniform="4455 (151)",
        round_robin="2627 (50)",
    ),
    *_sampling(
        E1,
        0.01,
        (300, 15),
        balanced="1190 (14)",
        paper="1648 (29)",
        track="1254 (40)",
        static="1903 (29)",
    ),
    *_sampling(
        E1,
        1e-4,
        (300, 15),
        balanced="2072 (19)",
        paper="2658 (38)",
        track="2221 (60)",
        static="2901 (35)",
    ),
    *_sampling(
        E2,
        0.1,
        (300, 20),
        balanced="6929 (362)",
        paper="7753 (421)",
        track="7496 (953)",
        static="12358 (420)",
    ),
    *_sampling(E2, 0.01, (200, 8), balanced="12199 (443)"),
    *_sampling(E2, 1e-4, (200, 8), balanced="20248 (781)"),
    *_sampling(NONE_FEASIBLE, 0.1, (600, 40), balanced="104 (1.7)", paper="134 (2.1)"),
)

STOPPING_RULES = (
    *_stopping(
        E1,
        0.1,
        (300, 15),
        certified="2619 (42)",
        kappa_40="2171 (48)",
        kappa_10="2656 (59)",
        kaufmann_koolen="7765 (76)",
    ),
    *_stopping(
        E1,
        0.01,
        (300, 15),
        certified="3078 (53)",
        kappa_40="2710 (53)",
        kappa_10="3298 (65)",
        kaufmann_koolen="8368 (80)",
    ),
    *_stopping(E1, 1e-4, (300, 15), certified="4200 (58)", kappa_40="3787 (62)"),
    *_stopping(E2, 0.1, (150, 6), certified="23993 (902)", kaufmann_koolen="85332 (2410)"),
    *_stopping(NONE_FEASIBLE, 0.1, (600, 40), certified="178 (3)", kappa_40="177 (3)"),
)

_RIGHT = {
    ("E1", "balanced"): (0.997, 1000),
    ("E1", "T-a-SCS"): (1.000, 500),
    ("E2", "balanced"): (0.976, 500),
    ("E2", "T-a-SCS"): (0.990, 300),
}
"""Shares of right answers in the reference at delta .1, and its number of runs."""

_UNFINISHED = (("T-a-S", 0.70), ("uniform", 0.40))
"""Shares of the reference's 60 runs on E2 that 15,000 rounds did not finish."""


def stopping_times(cache: SimulationCache) -> Section:
    """Compare mean stopping times with the reference."""
    sampling = [_stopping_time_row(cache, row) for row in STOPPING_TIMES]
    stopping = [_stopping_time_row(cache, row) for row in STOPPING_RULES]
    right = [
        _right_row(cache, row, *_RIGHT[key])
        for row in STOPPING_TIMES
        if row.delta == 0.1 and (key := (row.instance.name, row.sampling)) in _RIGHT
    ]
    unfinished = [_unfinished_row(cache, name, share) for name, share in _UNFINISHED]
    return Section(
        "stopping-times",
        "Mean stopping times",
        "Mean number of pulls, including initial pulls, with its standard error. A row agrees if "
        "our mean and the reference differ by at most four standard errors of their difference. "
        "The stylised rule is the paper's, with the factor 1/2, and a heuristic; certified and "
        "Kaufmann-Koolen are proven.",
        (
            Table(tuple(sampling), "Sampling rules, stylised stopping", _TIMES_DECIMALS),
            Table(tuple(stopping), "Stopping rules, balanced sampling", _TIMES_DECIMALS),
            Table(tuple(right), "Share of right answers, stylised stopping", _SHARE_DECIMALS),
            Table(
                tuple(unfinished),
                f"Share of runs on E2 that do not finish within {PAPER_CAP:,} rounds",
                _SHARE_DECIMALS,
            ),
        ),
    )


_TIMES_DECIMALS = {"times the bound": 2}
_SHARE_DECIMALS = {"ours": 3, "reference": 3}


def _stopping_time_row(cache: SimulationCache, row: StoppingTimeRow) -> Row:
    runs = row.simulate(cache)
    ours = Measured.of(runs.stopping_time)
    bound = row.instance.complexity().lower_bound(row.delta)
    return {
        "instance": row.instance.name,
        "delta": row.delta,
        "sampling": row.sampling,
        "stopping": _name_of(row.stopping),
        "runs": runs.replications,
        "ours": ours,
        "reference": row.reference,
        "times the bound": ours.mean / bound,
        AGREES: ours.agrees_with(row.reference),
    }


def _name_of(stopping: Stopping) -> str:
    if isinstance(stopping, GaussianMixture):
        return f"certified, kappa = {stopping.kappa:g}"
    return str(stopping)


def _right_row(cache: SimulationCache, row: StoppingTimeRow, reference: float, theirs: int) -> Row:
    runs = row.simulate(cache)
    hits = right_answers(runs)
    return {
        "instance": row.instance.name,
        "delta": row.delta,
        "sampling": row.sampling,
        "runs": runs.replications,
        "ours": share(hits, runs.replications),
        "reference": Measured(reference),
        AGREES: same_share(hits, runs.replications, reference, theirs),
    }


def capped(cache: SimulationCache, sampling: str, stopping: Stopping) -> Simulation:
    """Return runs on E2 that are stopped after as many rounds as in the paper."""
    policy = tracker(sampling, E2, 0.1, stopping)
    return cache.simulate(E2, policy, (300, 20), horizon=PAPER_CAP)


def _unfinished_row(cache: SimulationCache, sampling: str, reference: float) -> Row:
    runs = capped(cache, sampling, "stylised")
    unfinished = int((~runs.decided).sum())
    return {
        "sampling": sampling,
        "runs": runs.replications,
        "ours": share(unfinished, runs.replications),
        "reference": Measured(reference),
        AGREES: same_share(unfinished, runs.replications, reference, 60),
    }
