"""Environments that are designed to break a rule: which rules break, and which do not."""

from __future__ import annotations

from collections.abc import Iterable

from fairtrial.simulation import Simulation
from fairtrial.subpopulations import BlockBetting
from papers.baics import instances as environments
from papers.baics.cache import (
    SimulationCache,
    WatchedBlockBetting,
    same_share,
    tracker,
)
from papers.baics.instances import THREE_EQUAL_ARMS, TRAP, Instance
from papers.report import AGREES, Measured, Row, Section, Table, keeps_level, share

__all__ = ["broken_rule", "hard_nulls"]

_TRAP_ROUNDS, _TIE_ROUNDS = 1_000, 3_000

_TRAP_ROWS: tuple[tuple[str, str, float | None], ...] = (
    ("balanced", "stylised", 0.31),
    ("T-a-SCS", "stylised", 0.29),
    ("round robin", "stylised", 0.29),
    ("balanced", "certified", 0.001),
    ("balanced", "kaufmann-koolen", 0.0),
    ("block betting", "block betting", None),
)
"""Sampling and stopping rule, and the reference's share of wrong answers in 1,000 runs."""

_TIE_ROWS: tuple[tuple[str, float], ...] = (("stylised", 0.012), ("certified", 0.0))
"""Stopping rule with balanced sampling, and the reference's share of stops in 500 runs."""


def broken_rule(cache: SimulationCache) -> Section:
    """Show that an environment breaks the stylised rule, but not the proven rules."""
    trap = [_trap_row(cache, *row) for row in _TRAP_ROWS]
    ties = [_tie_row(cache, *row) for row in _TIE_ROWS]
    return Section(
        "broken-rule",
        "Where the stylised rule exceeds its error probability",
        "On B the right arm is just above its floors in nine groups. The stylised threshold "
        "ignores that any of the nine can look bad by chance; its error rate is three times the "
        "delta of .1. The proven rules keep delta. For three equal arms, every answer is right "
        "and none can be proven, so a careful rule does not stop.",
        (
            Table(
                tuple(trap),
                f"B, delta .1: share wrong within {_TRAP_ROUNDS:,} rounds",
                _SHARE_DECIMALS,
            ),
            Table(
                tuple(ties),
                f"Three equal arms, delta .1: share stopped within {_TIE_ROUNDS:,} rounds",
                _SHARE_DECIMALS,
            ),
        ),
    )


_SHARE_DECIMALS = {"ours": 3, "reference": 3}


def _trap_row(cache: SimulationCache, sampling: str, stopping: str, reference: float | None) -> Row:
    policy = (
        BlockBetting(TRAP.problem, delta=0.1)
        if sampling == "block betting"
        else tracker(sampling, TRAP, 0.1, stopping)
    )
    runs = cache.simulate(TRAP, policy, (1000, 120), horizon=_TRAP_ROUNDS)
    number, wrong = runs.replications, int(runs.wrong.sum())
    kept = keeps_level(wrong, number, 0.1)
    return {
        "sampling": sampling,
        "stopping": stopping,
        "guarantee": policy.guarantee.label,
        "runs": number,
        "ours": share(wrong, number),
        "reference": None if reference is None else Measured(reference),
        "keeps delta": "yes" if kept else "no",
        AGREES: kept if reference is None else same_share(wrong, number, reference, 1000),
    }


def _tie_row(cache: SimulationCache, stopping: str, reference: float) -> Row:
    policy = tracker("balanced", THREE_EQUAL_ARMS, 0.1, stopping)
    runs = cache.simulate(THREE_EQUAL_ARMS, policy, (500, 50), horizon=_TIE_ROUNDS)
    stopped = int(runs.decided.sum())
    return {
        "sampling": "balanced",
        "stopping": stopping,
        "runs": runs.replications,
        "ours": share(stopped, runs.replications),
        "reference": Measured(reference),
        AGREES: same_share(stopped, runs.replications, reference, 500),
    }


# ------------------------------------------------------------------------------ hard nulls

_NULL_ROUNDS = 2_000

_NULL_REFERENCES = {
    "normal": {
        "B": 0.0315,
        "B with .01 -> 1e-6": 0.0430,
        "three equal arms": 0.0280,
    },
    "coins": {
        "B": 0.0280,
        "B with .01 -> 1e-6": 0.0395,
        "three equal arms": 0.0270,
    },
    "bounded": {
        "two arms, fair coins, gap 1e-6": 0.0285,
        "three arms x 2 groups, coins .05, tied": 0.0015,
    },
}
"""Shares from the reference, if its environment and rule are the same as ours."""


def hard_nulls(cache: SimulationCache) -> Section:
    """Measure how often the true answer is ever rejected if no test can find it."""
    tables = (
        _null_table(cache, "Known noise, normal", environments.hard_nulls("normal"), "normal"),
        _null_table(
            cache, "Known noise, fair coins of +1 and -1", environments.hard_nulls("coins"), "coins"
        ),
        _null_table(cache, "Rewards in [0, 1]", environments.bounded_nulls(), "bounded"),
    )
    return Section(
        "hard-nulls",
        "Hard nulls",
        "Environments in which the answer depends on a difference of a millionth. The proof "
        "bounds, by delta = .1, the probability that the true answer is EVER rejected, whether "
        "or not the run stops. A row agrees if that share is at most delta + 3 sqrt(delta / "
        f"runs) within {_NULL_ROUNDS:,} pulls; the runs of the reference were up to ten times as "
        "long.",
        tables,
    )


def _null_table(
    cache: SimulationCache, title: str, instances: Iterable[Instance], noise: str
) -> Table:
    references = _NULL_REFERENCES[noise]
    made = {instance.name: _null_runs(cache, instance) for instance in instances}
    rows = [_null_row(name, [runs], references.get(name)) for name, runs in made.items()]
    rows.append(_null_row("all of these", list(made.values()), None))
    columns = ("true answer ever rejected", "reference", "wrong", "undecided")
    return Table(tuple(rows), title, dict.fromkeys(columns, 4))


def _null_runs(cache: SimulationCache, instance: Instance) -> Simulation:
    policy = WatchedBlockBetting(instance.problem, delta=0.1)
    return cache.simulate(instance, policy, (1000, 30), horizon=_NULL_ROUNDS)


def _null_row(name: str, simulations: list[Simulation], reference: float | None) -> Row:
    number = sum(runs.replications for runs in simulations)
    rejected = sum(int(runs.metrics["true_answer_rejected"].sum()) for runs in simulations)
    wrong = sum(int(runs.wrong.sum()) for runs in simulations)
    undecided = sum(int((~runs.decided).sum()) for runs in simulations)
    return {
        "environment": name,
        "runs": number,
        "true answer ever rejected": share(rejected, number),
        "reference": None if reference is None else Measured(reference),
        "wrong": share(wrong, number),
        "undecided": share(undecided, number),
        AGREES: keeps_level(rejected, number, 0.1),
    }
