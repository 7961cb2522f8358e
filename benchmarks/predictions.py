"""Pulls with and without predictions that are known before the arm: simulated, and on real data.

First, three arms in three groups with rewards 0 and 1, a margin against the control in every group,
and predictions that explain a stated share of the variance (R squared). The pulls should fall by
about that share. Second, how often the right answer is rejected if arms are equal, with useful,
useless and turned predictions. Third, rows of two real experiments, drawn with replacement: an
e-mail campaign, where the spend of the year before predicts visits, and a trial, where the first
CD4 count predicts the gain.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np

from fairtrial import simulate
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    PredictedEnvironment,
    Problem,
)

DELTA = 0.05
MEANS = [[0.3] * 3, [0.3] * 3, [0.38] * 3]
STATED: dict[str, Any] = {"control": "0", "margin": 0.08, "reward_range": (0, 1)}
DATA = Path(os.environ.get("FAIRTRIAL_DATA", "data"))


def run(*, quick: bool) -> None:
    """Print pulls and shares of rejections."""
    _simulated(runs=2 if quick else 60)
    _nulls(runs=5 if quick else 1_000)
    _recorded(runs=2 if quick else 40)


def _simulated(*, runs: int) -> None:
    print(f"\nthree arms, three groups, delta {DELTA}, {runs} runs: mean pulls (standard error)")
    plain = Problem(3, 3, **STATED)
    base = _pulls(BernoulliEnvironment(plain, MEANS, arrivals=[1, 1, 1]), runs)
    print(f"{'no prediction':>16}: {_in_words(base)}", flush=True)
    problem = Problem(3, 3, prediction=(0, 1), **STATED)
    for r_squared in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9):
        found = _pulls(PredictedEnvironment(problem, MEANS, r_squared), runs)
        ratio = found.mean() / base.mean()
        print(f"{f'R squared {r_squared:g}':>16}: {_in_words(found)}; {ratio:.2f}", flush=True)


def _pulls(environment: Any, runs: int) -> np.ndarray[Any, Any]:
    policy = BlockBetting(environment.problem, delta=DELTA)
    found = simulate(policy, environment, runs, seed=1, horizon=100_000, progress=False)
    if found.error_rate > 0.0:
        print(f"  wrong: {found.error_rate:.1%}")
    return np.asarray(found.stopping_time, dtype=float)


def _in_words(pulls: np.ndarray[Any, Any]) -> str:
    return f"{pulls.mean():>8,.0f} ({pulls.std() / np.sqrt(pulls.size):,.0f})"


def _nulls(*, runs: int) -> None:
    print(f"\ntwo equal arms, delta .1, {runs} runs of 600 pulls: either answer rejected")
    for name in ("useful", "useless", "turned round", "huge"):
        print(f"{name:>16}: {null_share(name, runs):.2%}", flush=True)


def null_share(name: str, runs: int, pulls: int = 600) -> float:
    """Return how often an answer is rejected although both arms are equally good."""
    problem = Problem(2, 1, floors=None, reward_range=(0, 1), prediction=(0, 1))
    rejected = 0
    for seed in range(runs):
        random = np.random.default_rng(seed)
        policy = BlockBetting(problem, delta=0.1, seed=seed)
        while policy.asked < pulls and not policy.stopped:
            chance = float(random.choice([0.05, 0.55]))
            stated = {
                "useful": chance,
                "useless": float(random.random()),
                "turned round": 1.0 - chance,
                "huge": 1e6 * (chance - 0.3),
            }
            pull = policy.ask(group="0", prediction=stated[name])
            policy.tell(pull, float(random.random() < chance))
        rejected += policy.stopped
    return rejected / runs


# ------------------------------------------------------------------------------ real data


def _recorded(*, runs: int) -> None:
    for name, read in (("e-mail", _campaign), ("trial", _trial)):
        try:
            problem, rows = read()
        except OSError as error:
            print(f"{name}: not measured, {error}")
            continue
        r_squared = np.mean([np.corrcoef(own.T)[0, 1] ** 2 for own in rows.values()])
        print(f"\n{name}: R squared within arms {r_squared:.2f}, {runs} runs")
        base = _replayed(problem.clone(prediction=None), rows, runs)
        found = _replayed(problem, rows, runs)
        print(f"  without: {_in_words(base)}")
        print(f"     with: {_in_words(found)}; {found.mean() / base.mean():.2f}", flush=True)


Rows = dict[tuple[str, str], np.ndarray[Any, Any]]


def _replayed(problem: Problem, rows: Rows, runs: int) -> np.ndarray[Any, Any]:
    """Return the pulls of runs on recorded rows.

    In a run the unit comes first. Its outcome under the arm is that of a row of this arm and group
    with nearly the same prediction, drawn at random.
    """
    found = []
    ordered = {cell: own[np.argsort(own[:, 1], kind="stable")] for cell, own in rows.items()}
    for seed in range(runs):
        random, policy = np.random.default_rng(seed), BlockBetting(problem, DELTA, seed=seed)
        while not policy.stopped and policy.asked < 200_000:
            group = problem.groups[int(random.choice(len(problem.groups), p=problem.shares))]
            place = random.random()
            pull = _asked(policy, group, ordered, place)
            own = ordered[pull.labels["arm"], group]
            policy.tell(pull, float(own[int(place * len(own)), 0]))
        found.append(policy.asked)
    return np.array(found, dtype=float)


def _asked(policy: BlockBetting, group: str, rows: Rows, place: float) -> Any:
    """Return the pull of a unit, whose prediction has this rank in its group."""
    if policy.problem.prediction is None:
        return policy.ask(group=group)
    own = rows[policy.problem.arms[0], group]
    return policy.ask(group=group, prediction=float(own[int(place * len(own)), 1]))


def _table(path: str) -> dict[str, list[str]]:
    with gzip.open(DATA / path, "rt") as file:
        head, *lines = file.read().splitlines()
    rows = [line.split(",") for line in lines]
    columns = zip(*rows, strict=True)
    return dict(zip(head.split(","), map(list, columns), strict=True))


def _campaign() -> tuple[Problem, Rows]:
    """Return visits after an e-mail, by whether a customer is new; the spend of a year before."""
    table = _table("hillstrom/hillstrom.csv.gz")
    problem = Problem(
        ["no_mail", "womens_mail", "mens_mail"],
        {"0": 0.5, "1": 0.5},
        control="no_mail",
        margin=0.01,
        reward_range=(0, 1),
        prediction=(0, 1500),
    )
    cells = table["segment"], table["newbie"]
    return problem, _by_cell(problem, cells, table["visit"], table["history"])


def _trial() -> tuple[Problem, Rows]:
    """Return the CD4 count of week 20 in a trial of four drugs; the count before."""
    table = _table("actg175/actg175.csv.gz")
    strata = {"naive": 0.414, "upto52w": 0.192, "over52w": 0.394}
    problem = Problem(
        ["zdv", "zdv_ddi", "zdv_ddc", "ddi"],
        strata,
        control="zdv",
        margin=50.0,
        reward_range=(0, 1200),
        prediction=(0, 1200),
    )
    cells = table["arm"], table["stratum"]
    return problem, _by_cell(problem, cells, table["cd4_week20"], table["cd4_base"])


def _by_cell(
    problem: Problem, cells: tuple[list[str], list[str]], rewards: list[str], known: list[str]
) -> Rows:
    low, high = problem.reward_range or (0.0, 1.0)
    found: dict[tuple[str, str], list[list[float]]] = {}
    for arm, group, reward, before in zip(*cells, rewards, known, strict=True):
        own = [min(max(float(reward), low), high), float(before)]
        found.setdefault((arm, group), []).append(own)
    return {cell: np.array(own) for cell, own in found.items()}
