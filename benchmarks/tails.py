"""Lengths of runs of the subpopulation rules, and of the longest, with and without caution.

Plans depend on estimates. A plan that treats them as the truth can choose an expensive way to an
answer, because the first draws of some cells, which it then never draws again, were lucky. `before`
plans at the estimates alone; `after` is the actual policy. Tables that cannot be shipped are read
from the folder in the environment variable FAIRTRIAL_DATA, if it is set.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fairtrial import Policy
from fairtrial.core.tables import read_table
from fairtrial.subpopulations import (
    BalancedTracking,
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
)
from papers.baics.instances import CLICKS, E1, E2, NONE_FEASIBLE, email, trial

CellEnvironment = GaussianEnvironment | BernoulliEnvironment | ReplayEnvironment

DELTA = 0.1
MOST_PULLS = 300_000

# One arm fails a floor by .010 in one group, and is clearly worse overall.
SHARES = [0.229, 0.221, 0.229, 0.220, 0.040, 0.061]
LIFTS = [
    [0.08, 0.075, 0.07, 0.08, 0.1, 0.09],
    [0.0, 0.05, 0.045, 0.05, 0.05, 0.05],
    [0.0] * 6,
]
LEAST_LIFT = 0.01
UNMAILED = 0.12


class AtTheEstimates(BlockBetting):
    """Block betting that plans as if its estimates were the truth."""

    def _rules_of(self, problem: Problem):  # type: ignore[no-untyped-def]
        rules = super()._rules_of(problem)
        start = 10.0 if rules.bounded else 5.0
        return rules._replace(doubts=False, start=start, touch=2.0)


def run(*, quick: bool) -> None:
    print(f"\npulls at delta {DELTA}: mean (standard error), median, 99 % / median, largest, wrong")
    for name, environment, runs in _environments():
        runs = runs // 20 if quick else runs
        for what, policy in (("before", AtTheEstimates), ("after", BlockBetting)):
            _measure(f"{name}, {what}", policy(environment.problem, delta=DELTA), environment, runs)
    for name, environment in (
        ("ten arms, .5 and nine 0", _gaussian([[0.5]] + [[0.0]] * 9, floors=None)),
        ("E1", E1.environment),
        ("E2", E2.environment),
        ("N", NONE_FEASIBLE.environment),
    ):
        runs = 20 if quick else 1000 if name != "E2" else 400
        for what, guard in (("before", 0.0), ("after", None)):
            policy = BalancedTracking(
                environment.problem, delta=DELTA, stopping="stylised", exploration=guard
            )
            _measure(f"BalancedTracking, {name}, {what}", policy, environment, runs)


def _environments() -> Iterator[tuple[str, CellEnvironment, int]]:
    """Yield names, environments, and feasible numbers of runs."""
    yield "E1", E1.environment, 1000
    yield "E2", E2.environment, 1000
    yield "N", NONE_FEASIBLE.environment, 4000
    yield "trial A, CD4, floor 0", trial("cd4", 0.0).environment, 1000
    yield "trial, event-free, floor .78: none", trial("event_free", 0.78).environment, 1000
    yield CLICKS.name, CLICKS.environment, 400
    for arms, groups, seed in ((4, 4, 2), (5, 3, 3), (8, 8, 5)):
        means = np.random.default_rng(seed).normal(0.4, 0.5, (arms, groups))
        runs = 1000 if groups < 8 else 400
        yield f"random {arms} x {groups}", _gaussian(means.tolist()), runs
    mailed = np.array(LIFTS)
    problem = Problem(3, 6, SHARES, LEAST_LIFT, 0.3)
    yield "lock-in, normal noise .3", GaussianEnvironment(problem, mailed), 1000
    problem = Problem(3, 6, SHARES, LEAST_LIFT + UNMAILED, reward_range=(0, 1))
    yield "lock-in, coins", BernoulliEnvironment(problem, mailed + UNMAILED), 1000
    means = [[-0.05, -0.5, 0.5], [-0.5, -0.05, 0.5], [0.5, -0.05, -0.5]]
    yield "none, each far below one floor", _gaussian(means), 2000
    rates = np.random.default_rng(0).normal(0.45, 0.12, (200, 8))
    rates[0] = rates[0].clip(0.5, 1.0) + 0.12
    problem = Problem(200, 8, floors=0.2, reward_range=(0, 1))
    yield "200 x 8, coins", BernoulliEnvironment(problem, rates.clip(0.05, 0.95)), 40
    folder = os.environ.get("FAIRTRIAL_DATA")
    if folder:
        yield from _tables(Path(folder))


def _gaussian(means: Sequence[Sequence[float]], floors: float | None = 0.0) -> GaussianEnvironment:
    problem = Problem(len(means), len(means[0]), floors=floors, noise_std=1.0)
    return GaussianEnvironment(problem, means)


def _tables(folder: Path) -> Iterator[tuple[str, CellEnvironment, int]]:
    table = folder / "hillstrom" / "hillstrom.csv.gz"
    yield "e-mail, visits, floor base + .01", email(table).environment, 1000
    yield "e-mail, lift, floor .01", _lift(table), 1000
    yield "ligands, yield, floor .15", _ligands(folder / "arylation_ligands"), 100


def _lift(path: Path) -> ReplayEnvironment:
    """Return the e-mail campaign with visits relative to each group's rate without e-mail."""
    table = read_table(path, ["segment", "bought", "newbie", "visit"], text=["newbie"])
    pairs = zip(table["bought"], table["newbie"], strict=True)
    groups = np.array([f"{bought}/{new}" for bought, new in pairs])
    arms, visits = np.array(table["segment"]), np.array(table["visit"], dtype=float)
    sizes = {str(name): int((groups == name).sum()) for name in np.unique(groups)}
    lift = visits.copy()
    for name in sizes:
        lift[groups == name] -= visits[(groups == name) & (arms == "no_mail")].mean()
    problem = Problem(
        ["mens_mail", "womens_mail", "no_mail"], sizes, floors=0.01, reward_range=(-0.21, 1.0)
    )
    rows = {"arm": arms.tolist(), "group": groups.tolist(), "reward": lift.tolist()}
    return ReplayEnvironment(problem, rows)


def _ligands(folder: Path) -> ReplayEnvironment:
    """Return 24 ligands on eight classes of substrates; the fourth class fails with every ligand.

    Measured yields are up to 110 %.
    """
    columns = ["ligand", "electrophile", "yield_pct"]
    table = read_table(folder / "arylation_ligands.csv", columns)
    classes = sorted(set(table["electrophile"]))
    floors = [None if name.endswith("4") else 0.15 for name in classes]
    problem = Problem(sorted(set(table["ligand"])), classes, floors=floors, reward_range=(0, 1.2))
    yields = np.array(table["yield_pct"], dtype=float) / 100.0
    rows = {"arm": table["ligand"], "group": table["electrophile"], "reward": yields.tolist()}
    return ReplayEnvironment(problem, rows)


def _measure(name: str, template: Policy, environment: CellEnvironment, runs: int) -> None:
    pulls, wrong, open_ = np.empty(runs), 0, 0
    for seed in range(runs):
        policy = template.clone()
        made = policy.compiled_run(environment, np.random.default_rng(seed), MOST_PULLS)
        assert made is not None
        pulls[seed] = made.stopping_time
        open_ += made.status != "decided"
        wrong += made.status == "decided" and made.answer not in environment.truth.acceptable
    median = float(np.median(pulls))
    print(
        f"{name:<48}{pulls.mean():>9,.0f} ({pulls.std() / math.sqrt(runs):,.0f})"
        f"{median:>9,.0f}{np.quantile(pulls, 0.99) / median:>7.2f}{pulls.max():>10,.0f}"
        f"{wrong:>4} of {runs}" + (f", {open_} undecided" if open_ else ""),
        flush=True,
    )
