"""Races over a recorded benchmark: evaluations and wrong winners, of ours and of other rules.

Set FAIRTRIAL_ALPACA_EVAL to a table with the columns item, category and one per candidate, with
scores from 0 to 1; an empty cell counts as 0. Without it, an artificial table takes its place.
FAIRTRIAL_ALPACA_JUDGE can name such a table with scores of a cheap judge for some candidates.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from fairtrial.delayed import PairedRacing, Problem
from fairtrial.races import race

Floats = NDArray[np.float64]
Rule = Callable[[Floats, float], tuple[int, int | None]]

DELTA = 0.05


def run(*, quick: bool) -> None:
    table, categories = _table()
    ranks = np.argsort(-table.mean(axis=0), kind="stable")
    close = table[:, ranks[3:11]]
    questions = {
        f"all {table.shape[1]}": (table, 0.0),
        "the best ten": (table[:, ranks[:10]], 0.0),
        "ranks 4 to 11": (close, 0.0),
        "ranks 4 to 11, tolerance .02": (close, 0.02),
    }
    print("\nmean evaluations until the end, and wrong winners, over random orders")
    print(f"{'candidates':<30}{'of':>8}" + "".join(f"{name:>18}" for name in RULES))
    orders = 4 if quick else 200
    for name, (scores, tolerance) in questions.items():
        _compare(name, scores, tolerance, orders)
    _compare_equals(close, orders)
    _compare_limits(close, categories, 1 if quick else 20)
    _compare_judges(2 if quick else 20)
    if os.environ.get("FAIRTRIAL_ALPACA_EVAL") and os.environ.get("FAIRTRIAL_ALPACA_JUDGE"):
        _compare_recorded_judge(2 if quick else 20)
    print(f"\nseconds of CPU for a race of all candidates: {_seconds(table):.3f}")
    print(f"seconds for 200 scores of 0.1 seconds each, 16 at a time: {_concurrent():.2f}")


def _table() -> tuple[Floats, list[str]]:
    """Return scores by item and candidate, and the category of each item."""
    path = os.environ.get("FAIRTRIAL_ALPACA_EVAL")
    if path is not None:
        columns = pd.read_csv(path)
        scores = columns.drop(columns=["item", "category"]).fillna(0.0)
        return scores.to_numpy(dtype=np.float64), columns["category"].astype(str).tolist()
    generator = np.random.default_rng(0)
    means = np.linspace(0.15, 0.6, 14) ** 1.5
    hardness = generator.normal(0.0, 0.2, (400, 1))
    scores = np.clip(means + hardness + generator.normal(0.0, 0.25, (400, 14)), 0.0, 1.0)
    return scores, [str(at % 5) for at in range(len(scores))]


def _compare(name: str, scores: Floats, tolerance: float, orders: int) -> None:
    means = scores.mean(axis=0)
    cells = []
    for rule in RULES.values():
        spent, wrong = [], 0
        for seed in range(orders):
            generator = np.random.default_rng(seed)
            rows, columns = (generator.permutation(size) for size in scores.shape)
            evaluations, winner = rule(scores[np.ix_(rows, columns)], tolerance)
            spent.append(evaluations)
            wrong += winner is not None and means[columns[winner]] < means.max() - tolerance - 1e-12
        cells.append(f"{np.mean(spent):>11,.0f} {wrong / orders:>6.1%}")
    print(f"{name:<30}{scores.size:>8,}" + "".join(cells), flush=True)


def _compare_equals(scores: Floats, orders: int) -> None:
    """Race candidates that are equal on the whole: a winner before the last item is an error."""
    cells = []
    for rule in RULES.values():
        spent, wrong = [], 0
        for seed in range(orders):
            generator = np.random.default_rng(seed)
            equal = np.column_stack([generator.permutation(scores[:, 0]) for _ in range(4)])
            evaluations, winner = rule(equal, 0.0)
            spent.append(evaluations)
            wrong += winner is not None and evaluations < equal.size - len(equal)
        cells.append(f"{np.mean(spent):>11,.0f} {wrong / orders:>6.1%}")
    print(f"{'four equal ones':<30}{4 * len(scores):>8,}" + "".join(cells), flush=True)


def _compare_limits(scores: Floats, categories: list[str], orders: int) -> None:
    """Race eight close candidates with limits by category against one of them.

    A winner is wrong if it breaks a limit, or is worse by more than the tolerance than the best of
    those that keep theirs.
    """
    labels = np.array(categories)
    print("\nlimits by category: evaluations and wrong winners, then without skipping anything")
    for control, margin in ((1, 0.01), (1, 0.05), (7, 0.02), (7, 0.05)):
        means = np.where(_are_kept(scores, labels, control, margin), scores.mean(axis=0), -np.inf)
        for tolerance in (0.0, 0.02):
            cells = ""
            for skips in (True, False):
                spent, wrong = [], 0
                for seed in range(orders):
                    order = np.random.default_rng(seed).permutation(len(scores))
                    winner, told = _limited(
                        scores[order], labels[order], control, margin, tolerance, skips=skips
                    )
                    spent.append(told)
                    wrong += winner is not None and means[winner] < means.max() - tolerance - 1e-12
                cells += f"{np.mean(spent):>11,.0f} {wrong / orders:>6.1%}"
            question = f"control {control + 4}, margin {margin:g}, tolerance {tolerance:g}"
            best = f"rank {int(means.argmax()) + 4}"
            print(f"{question:<42}{scores.size:>8,}{cells}  {best}", flush=True)


def _compare_judges(orders: int) -> None:
    """Print the evaluations of races with judges that repeat a score with some probability."""
    print("\nfour artificial candidates, 600 items, tolerance .02: evaluations with a judge")
    for agreement in (None, 0.0, 0.5, 0.8, 0.95):
        drawn = [_judged_scores(agreement or 0.0, seed) for seed in range(orders)]
        raced = [
            _judged(scores, None if agreement is None else judge, 0.02, seed)
            for seed, (scores, judge) in enumerate(drawn)
        ]
        _print_judged("" if agreement is None else "judge", raced)


def _compare_recorded_judge(orders: int) -> None:
    """Print the evaluations with and without a recorded judge, of the candidates that it judged."""
    scores, judge = (
        pd.read_csv(os.environ[name])
        for name in ("FAIRTRIAL_ALPACA_EVAL", "FAIRTRIAL_ALPACA_JUDGE")
    )
    judged = judge.drop(columns=["item", "category"])
    table = scores[judged.columns].fillna(0.0).to_numpy(dtype=np.float64)
    # What the judge could not decide is in the middle.
    guesses = judged.where(judged >= 0.0, 0.5).to_numpy(dtype=np.float64)
    ranks = np.argsort(-table.mean(axis=0), kind="stable")
    questions = {"all": (ranks, 0.0), "ranks 4 to 11": (ranks[3:11], 0.0)}
    questions["ranks 4 to 11, tolerance .02"] = (ranks[3:11], 0.02)
    for name, (columns, tolerance) in questions.items():
        print(f"\n{name}, of the {len(ranks)} that a recorded judge judged")
        for given in (None, guesses[:, columns]):
            raced = [_judged(table[:, columns], given, tolerance, seed) for seed in range(orders)]
            _print_judged("" if given is None else "judge", raced)


def _judged(scores: Floats, judge: Floats | None, tolerance: float, seed: int) -> PairedRacing:
    problem = Problem(scores.shape[1], reward_range=(0, 1), tolerance=tolerance)
    policy = PairedRacing(problem, n_blocks=len(scores), shuffle=True, seed=seed, judge=judge)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(scores[pull.tag, pull.action]))
    return policy


def _print_judged(name: str, raced: list[PairedRacing]) -> None:
    explained = np.mean([policy.explained_by_judge or 0.0 for policy in raced])
    share = f"{name} explains {explained:.0%}" if name else "no judge"
    print(f"  {share:<20}{np.mean([policy.told for policy in raced]):>8.0f}")


def _judged_scores(agreement: float, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    latent = rng.normal(0.0, 0.7, (600, 1)) + rng.normal(0.0, 1.0, (600, 4))
    thresholds = [np.quantile(latent[:, k], 1.0 - m) for k, m in enumerate((0.7, 0.63, 0.6, 0.55))]
    scores = (latent > thresholds).astype(np.float64)
    guesses = (rng.random(scores.shape) < 0.5).astype(np.float64)
    return scores, np.where(rng.random(scores.shape) < agreement, scores, guesses)


def _concurrent() -> float:
    """Return the seconds of 200 evaluations by a coroutine function that waits for 0.1 seconds."""

    async def score(candidate: str, item: int) -> float:
        await asyncio.sleep(0.1)
        return float((item * 37 + len(candidate)) % 100 < 50)

    started = time.perf_counter()
    race(["a", "bb"], range(400), score, reward_range=(0, 1), parallel=16, max_evaluations=200)
    return time.perf_counter() - started


def _are_kept(
    scores: Floats, labels: NDArray[Any], control: int, margin: float
) -> NDArray[np.bool_]:
    gaps = scores - scores[:, [control]] + margin
    least = np.min([gaps[labels == label].mean(axis=0) for label in np.unique(labels)], axis=0)
    return np.asarray(least >= -1e-12)


def _limited(
    scores: Floats,
    labels: NDArray[Any],
    control: int,
    margin: float,
    tolerance: float,
    *,
    skips: bool,
) -> tuple[int | None, int]:
    arms = [str(at) for at in range(scores.shape[1])]
    problem = Problem(arms, reward_range=(0.0, 1.0), control=arms[control], tolerance=tolerance)
    policy = PairedRacing(
        problem,
        DELTA,
        n_blocks=len(scores),
        margin=margin,
        categories=labels.tolist(),
        skips=skips,
    )
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, scores[pull.tag, pull.action])
    answer = policy.recommend().arm
    return None if answer is None else int(answer), policy.told


def _seconds(scores: Floats) -> float:
    began = time.process_time()
    for seed in range(5):
        _paired(scores[np.random.default_rng(seed).permutation(len(scores))], 0.0)
    return (time.process_time() - began) / 5


# ------------------------------------------------------------------------------- the rules


def _paired(scores: Floats, tolerance: float) -> tuple[int, int | None]:
    problem = Problem(scores.shape[1], reward_range=(0.0, 1.0), tolerance=tolerance)
    policy = PairedRacing(problem, DELTA, n_blocks=len(scores))
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, scores[pull.tag, pull.action])
    return policy.told, policy.leader


def _fixed(scores: Floats, tolerance: float) -> tuple[int, int | None]:
    """Evaluate everything, and name a winner if a z test against each rival allows it."""
    leader = int(scores.mean(axis=0).argmax())
    differences = np.delete(scores[:, [leader]] - scores, leader, axis=1) + tolerance
    errors = differences.std(axis=0, ddof=1) / math.sqrt(len(scores))
    levels = stats.norm.sf(differences.mean(axis=0) / np.maximum(errors, 1e-12))
    is_certain = bool((levels * differences.shape[1] <= DELTA).all())
    return scores.size, leader if is_certain else None


def _likelihood_ratio(scores: Floats, tolerance: float) -> tuple[int, int | None]:
    """Evaluate all candidates on each item until a GLR with plug-in variances passes."""
    sums, squares = scores.cumsum(axis=0), (scores**2).cumsum(axis=0)
    for count in range(10, len(scores) + 1):
        means = sums[count - 1] / count
        variances = np.maximum(squares[count - 1] / count - means**2, 1e-9)
        leader = int(means.argmax())
        gaps = np.delete(means[leader] - means, leader) + tolerance
        ratio = count * gaps**2 / (2.0 * (variances[leader] + np.delete(variances, leader)))
        if ratio.min() > math.log((1.0 + math.log(count * scores.shape[1])) / DELTA):
            return count * scores.shape[1], leader
    return scores.size, None


def _halving(scores: Floats, _tolerance: float) -> tuple[int, int | None]:
    """Keep the better half after each round; the rounds have equal numbers of evaluations."""
    left, start, spent = np.arange(scores.shape[1]), 0, 0
    rounds = math.ceil(math.log2(len(left)))
    per_round = scores.size // 4 // rounds
    while len(left) > 1:
        stop = min(len(scores), start + max(1, per_round // len(left)))
        spent += (stop - start) * len(left)
        order = np.argsort(-scores[:stop, left].mean(axis=0), kind="stable")
        left, start = left[order[: math.ceil(len(left) / 2)]], stop
    return spent, int(left[0])


def _wilcoxon(scores: Floats, _tolerance: float) -> tuple[int, int | None]:
    """Try candidates one by one; drop one that is worse than the best so far, at level .1.

    This is the rule of Optuna's `WilcoxonPruner` with its defaults.
    """
    best, spent = 0, len(scores)
    for arm in range(1, scores.shape[1]):
        spent_here = len(scores)
        for count in range(2, len(scores) + 1):
            differences = scores[:count, arm] - scores[:count, best]
            is_behind = differences.sum() < 0.0
            if is_behind and _signed_rank_level(differences) < 0.1:
                spent_here = count
                break
        spent += spent_here
        if spent_here == len(scores) and scores[:, arm].sum() > scores[:, best].sum():
            best = arm
    return spent, best


def _signed_rank_level(differences: Floats) -> float:
    """Return the one-sided level of Wilcoxon's test, by its normal approximation."""
    ranks = stats.rankdata(abs(differences))
    positive = float(ranks[differences > 0].sum() + ranks[differences == 0].sum() / 2.0)
    variance = float((ranks[differences != 0] ** 2).sum()) / 4.0
    if variance == 0.0:
        return 1.0
    return float(stats.norm.cdf((positive - ranks.sum() / 2.0) / math.sqrt(variance)))


RULES: dict[str, Rule] = {
    "PairedRacing": _paired,
    "fixed test": _fixed,
    "GLR": _likelihood_ratio,
    "halving": _halving,
    "Wilcoxon": _wilcoxon,
}
