"""Pulls with and without predictions that are known before the arm: simulated, and on real data.

First, three arms in three groups with rewards 0 and 1, a margin against the control in every group,
and predictions that explain a stated share of the variance (R squared). The pulls should fall by
about that share. Second, normal rewards of known noise. Third, two measures, of which the
objective, or both, can be predicted. Fourth, how often the right answer is rejected if arms are
equal, with useful, useless and turned predictions. Fifth, rows of two real experiments, drawn with
replacement: a trial, where the first CD4 count predicts the one after 20 weeks, and an e-mail
campaign, where the spend of the year before hardly predicts visits. Their tables are read from the
folder in the environment variable FAIRTRIAL_DATA.
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
    GaussianEnvironment,
    GaussianPredictedEnvironment,
    PredictedEnvironment,
    Problem,
    ReplayEnvironment,
)

DELTA = 0.05
MEANS = [[0.3] * 3, [0.3] * 3, [0.38] * 3]
STATED: dict[str, Any] = {"control": "0", "margin": 0.08, "reward_range": (0, 1)}
DATA = Path(os.environ.get("FAIRTRIAL_DATA", "../shared/data"))


def run(*, quick: bool) -> None:
    """Print pulls and shares of rejections."""
    _simulated(runs=2 if quick else 60)
    _known_noise(runs=2 if quick else 40)
    _measures(runs=2 if quick else 40)
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


def _known_noise(*, runs: int) -> None:
    print(f"\nnormal rewards, three arms, one better by .5, a margin of .25, {runs} runs")
    means = [[0.0], [0.0], [0.5]]
    plain = Problem(3, 1, noise_std=1.0, control="0", margin=0.25)
    base = _pulls(GaussianEnvironment(plain, means), runs)
    print(f"{'no prediction':>16}: {_in_words(base)}", flush=True)
    for r_squared in (0.3, 0.5, 0.75):
        problem = plain.clone(prediction={"residual_std": float(np.sqrt(1.0 - r_squared))})
        found = _pulls(GaussianPredictedEnvironment(problem, means), runs)
        ratio = found.mean() / base.mean()
        print(f"{f'R squared {r_squared:g}':>16}: {_in_words(found)}; {ratio:.2f}", flush=True)


def _measures(*, runs: int) -> None:
    print(f"\nthree arms, two measures: sales, and returns of at most .3, {runs} runs")
    for name, returned in (("returns far from .3", 0.1), ("returns of .2", 0.2)):
        means = {"sold": [[0.3], [0.3], [0.42]], "returned": [[returned]] * 3}
        plain = Problem(
            3,
            1,
            measures={"sold": (0, 1), "returned": (0, 1)},
            objective="sold",
            ceilings={"returned": 0.3},
        )
        base = _pulls(BernoulliEnvironment(plain, means, arrivals=[1]), runs)
        print(f"{name}, no prediction: {_in_words(base)}", flush=True)
        for predicted in (["sold"], ["sold", "returned"]):
            problem = plain.clone(prediction=dict.fromkeys(predicted, (0, 1)))
            for r_squared in (0.5, 0.75):
                found = _pulls(PredictedEnvironment(problem, means, r_squared), runs)
                ratio = found.mean() / base.mean()
                said = f"R squared {r_squared:g} of {' and '.join(predicted)}"
                print(f"  {said}: {_in_words(found)}; {ratio:.2f}", flush=True)
    means = {"gain": [[0.0], [0.0], [0.5]], "pain": [[0.0]] * 3}
    plain = Problem(
        3,
        1,
        measures=["gain", "pain"],
        noise_std={"gain": 1.0, "pain": 1.0},
        objective="gain",
        ceilings={"pain": 0.5},
    )
    base = _pulls(GaussianEnvironment(plain, means), runs)
    print(f"normal measures, no prediction: {_in_words(base)}", flush=True)
    for r_squared in (0.5, 0.75):
        stated = {"gain": {"residual_std": float(np.sqrt(1.0 - r_squared))}}
        environment = GaussianPredictedEnvironment(plain.clone(prediction=stated), means)
        found = _pulls(environment, runs)
        ratio = found.mean() / base.mean()
        said = f"R squared {r_squared:g} of gain"
        print(f"  {said}: {_in_words(found)}; {ratio:.2f}", flush=True)


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
    """Print pulls on rows of real experiments, with and without their predictions."""
    for name, made in (("trial", _trial), ("e-mail", _campaign)):
        try:
            problem, table, columns = made()
        except OSError as error:
            print(f"\n{name}: not measured, because its table is not there: {error}")
            continue
        known = ReplayEnvironment(problem, table, **columns)
        explained = [_r_squared(*own) for own in zip(known.predictions, known.rows, strict=True)]
        print(f"\n{name}: R squared {np.mean(explained):.3f} within cells, {runs} runs")
        columns.pop("prediction")
        plain = ReplayEnvironment(
            problem.clone(prediction=None), table, **columns, arrivals=problem.shares
        )
        base, found = _pulls(plain, runs), _pulls(known, runs)
        print(f"  without: {_in_words(base)}")
        print(f"     with: {_in_words(found)}; {found.mean() / base.mean():.2f}", flush=True)


def _r_squared(predictions: np.ndarray[Any, Any], rewards: np.ndarray[Any, Any]) -> float:
    return float(np.corrcoef(predictions, rewards)[0, 1] ** 2)


def _table(path: str) -> dict[str, list[Any]]:
    with gzip.open(DATA / path, "rt") as file:
        head, *lines = file.read().splitlines()
    columns = zip(*(line.split(",") for line in lines), strict=True)
    return dict(zip(head.split(","), map(list, columns), strict=True))


def _numbers(cells: list[Any], low: float, high: float) -> list[float]:
    return [min(max(float(cell), low), high) for cell in cells]


def _campaign() -> tuple[Problem, dict[str, list[Any]], dict[str, Any]]:
    """Return visits after an e-mail; the prediction is the spend of the year before."""
    table = _table("hillstrom/hillstrom.csv.gz")
    table["visit"] = _numbers(table["visit"], 0, 1)
    table["history"] = _numbers(table["history"], 0, 1500)
    problem = Problem(
        ["no_mail", "womens_mail", "mens_mail"],
        {"0": 0.5, "1": 0.5},
        control="no_mail",
        margin=0.01,
        reward_range=(0, 1),
        prediction=(0, 1500),
    )
    columns = {"arm": "segment", "group": "newbie", "reward": "visit", "prediction": "history"}
    return problem, table, columns


def _trial() -> tuple[Problem, dict[str, list[Any]], dict[str, Any]]:
    """Return the CD4 count after 20 weeks of four treatments; the prediction is that before."""
    table = _table("actg175/actg175.csv.gz")
    for name in ("cd4_base", "cd4_week20"):
        table[name] = _numbers(table[name], 0, 1200)
    problem = Problem(
        ["zdv", "zdv_ddi", "zdv_ddc", "ddi"],
        {"naive": 0.414, "upto52w": 0.192, "over52w": 0.394},
        control="zdv",
        margin=50.0,
        reward_range=(0, 1200),
        prediction=(0, 1200),
    )
    columns = {"arm": "arm", "group": "stratum", "reward": "cd4_week20", "prediction": "cd4_base"}
    return problem, table, columns
