"""Recorded learning curves: which classifier wins, the cost, and the error rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence import NormalMixture
from fairtrial.core import Policy
from fairtrial.delayed import InformationRacing, Problem, Racing
from papers.delayed.cache import SimulationCache, most_wrong
from papers.delayed.instances import TASKS, Curves, curves
from papers.report import AGREES, Measured, Row, Section, Table, share

__all__ = ["Contest", "contests", "halve", "learning"]

Floats = NDArray[np.float64]

_RUNS = (300, 16)
_DELTA = 0.05
_BEST = {
    "letter": "ExtraTreesClassifier",
    "mfeat-factors": "LinearDiscriminantAnalysis",
    "mfeat-fourier": "SVC_poly",
}


@dataclass(frozen=True, eq=False)
class Contest:
    """Results of one method of finding the best classifier, one entry per replay.

    Parameters
    ----------
    seconds : ndarray of float
        Training time.
    correct : ndarray of bool
        Whether the best classifier was found.
    label : str
        Label of the rule's guarantee.
    judged : bool
        Whether the guarantee's assumptions hold here.
    """

    seconds: Floats
    correct: NDArray[np.bool_]
    label: str
    judged: bool = False


@dataclass(frozen=True)
class _Race:
    """A rule, and the kind of reading that it assumes early accuracies to be."""

    rule: Callable[[Problem], Policy]
    feedback: str
    valid: bool = False

    def reading_std(self, task: Curves) -> Floats | None:
        if self.feedback == "full":
            return None
        if self.feedback == "refining":
            return task.early_errors
        return np.full(len(task.arms), 0.02)


_RACES = {
    "information, outcomes": _Race(InformationRacing, "full", valid=True),
    "race, outcomes": _Race(
        lambda problem: Racing(problem, variant="full", bound=NormalMixture()), "full", valid=True
    ),
    "early as refining": _Race(InformationRacing, "refining"),
    "early as biased": _Race(InformationRacing, "biased"),
    "early as unbiased": _Race(InformationRacing, "unbiased"),
}
_PROVEN = "information, outcomes"
_HALVING, _EQUALLY = "successive halving", "all equally often"


def learning(cache: SimulationCache) -> Section:
    """Race 20 classifiers on recorded curves, and compare the cost with other methods."""
    return Section(
        "learning-curves",
        "Real learning curves",
        "20 classifiers, three tasks, 125 splits each with real accuracies and training times; a "
        "pull draws a split, delta = .05, one pull at a time. An early accuracy is too low, by "
        "an amount that differs between arms and sizes, and it hardly correlates with the last "
        "accuracy of its split. It is therefore none of the kinds of readings for which rules "
        "are proven. Only the races on last accuracies have a valid guarantee here (for noise as "
        "in the records). The others show the effect of a wrong kind of feedback, whatever "
        "guarantee they state. Successive halving keeps the better half of the arms at each "
        "size, on as many splits as the mean seconds of the first race allow. It has no "
        "guarantee; nor has training all arms equally often for those seconds.",
        (
            Table(tuple(_nature()), "Early accuracies compared with the last"),
            *(_contest_table(cache, curves(task)) for task in TASKS),
        ),
    )


def _nature() -> Iterator[Row]:
    for name in TASKS:
        task = curves(name)
        for label, size in (("first", 0), ("last but one", -2)):
            short = np.array([(value[:, -1] - value[:, size]).mean() for value, _ in task.points])
            yield {
                "task": name,
                "size": label,
                "lost, least of the arms": round(float(short.min()), 3),
                "median": round(float(np.median(short)), 3),
                "most": round(float(short.max()), 3),
                "correlation with the last, within arms": round(_within(task, size), 2),
                "arms in another place": _moved(task, size),
            }


def _within(task: Curves, size: int) -> float:
    """Return the correlation, pooled within arms, of an early and the last accuracy."""
    early, last = (
        np.concatenate([value[:, at] - value[:, at].mean() for value, _ in task.points])
        for at in (size, -1)
    )
    return float(np.corrcoef(early, last)[0, 1])


def _moved(task: Curves, size: int) -> int:
    early = np.array([value[:, size].mean() for value, _ in task.points])
    return int((np.argsort(np.argsort(early)) != np.argsort(np.argsort(task.means))).sum())


def contests(cache: SimulationCache, task: Curves) -> dict[str, Contest]:
    """Return the results of all methods of finding a task's best classifier."""
    return cache.once(("contests", task.name), lambda: _contests(cache, task))


def _contests(cache: SimulationCache, task: Curves) -> dict[str, Contest]:
    number = cache.number(*_RUNS)
    found = {name: _race(cache, task, race, number) for name, race in _RACES.items()}
    budget = float(found[_PROVEN].seconds.mean())
    generator = np.random.default_rng([cache.seed, 7])
    for name, play in ((_HALVING, halve), (_EQUALLY, _equally)):
        splits = _affordable(play, task, budget, generator)
        played = [play(task, splits, generator) for _ in range(number)]
        found[name] = Contest(
            np.array([seconds for _, seconds in played]),
            np.array([task.arms[arm] == _BEST[task.name] for arm, _ in played]),
            "none",
        )
    return found


def _race(cache: SimulationCache, task: Curves, race: _Race, number: int) -> Contest:
    environment = task.environment(race.feedback, race.reading_std(task))
    policy = race.rule(environment.problem)
    runs = cache.simulate(policy, environment, number)
    return Contest(runs.elapsed, runs.decided & ~runs.wrong, policy.guarantee.label, race.valid)


def _contest_table(cache: SimulationCache, task: Curves) -> Table:
    found = contests(cache, task)
    rows: list[Row] = [_contest_row(task, name, contest) for name, contest in found.items()]
    gap = np.sort(task.means)[-1] - np.sort(task.means)[-2]
    title = (
        f"{task.name}: the best is {_BEST[task.name]}, by {gap:.4f}; training everything takes "
        f"{task.everything:,.0f} s"
    )
    return Table(tuple(rows), title)


def _contest_row(task: Curves, name: str, contest: Contest) -> Row:
    number = contest.correct.size
    wrong = number - int(contest.correct.sum())
    return {
        "by": name,
        "guarantee": contest.label,
        "it holds here": "yes" if contest.judged else "no",
        "replays": number,
        "seconds": Measured.of(contest.seconds),
        "of everything": f"{100.0 * contest.seconds.mean() / task.everything:.2f} %",
        "wrong": share(wrong, number),
        AGREES: wrong <= most_wrong(number, _DELTA) if contest.judged else None,
    }


# ----------------------------------------------------------- without a guarantee, on a budget

_Player = Callable[[Curves, int, np.random.Generator], tuple[int, float]]


def halve(task: Curves, splits: int, generator: np.random.Generator) -> tuple[int, float]:
    """Return the choice of successive halving, and its training time in seconds.

    Every arm is trained on the same number of random splits; at each size, the better half
    continues.

    Source: Jamieson, Talwalkar (2016), "Non-stochastic best arm identification and
    hyperparameter optimization".
    """
    drawn = [_drawn(points, splits, generator) for points in task.points]
    sizes = drawn[0][0].shape[1]
    left, seconds = list(range(len(drawn))), 0.0
    for size in range(sizes):
        before = size - 1
        seconds += sum(
            float((drawn[arm][1][:, size] - (drawn[arm][1][:, before] if size else 0.0)).sum())
            for arm in left
        )
        left.sort(key=lambda arm, at=size: -float(drawn[arm][0][:, at].mean()))  # type: ignore[misc]
        keep = 1 if size == sizes - 1 else max(1, math.ceil(len(left) / 2))
        left = left[:keep]
    return left[0], seconds


def _equally(task: Curves, splits: int, generator: np.random.Generator) -> tuple[int, float]:
    """Return the arm with the best mean of last accuracies, and the training time in seconds."""
    drawn = [_drawn(points, splits, generator) for points in task.points]
    means = [float(value[:, -1].mean()) for value, _ in drawn]
    return int(np.argmax(means)), float(sum(elapsed[:, -1].sum() for _, elapsed in drawn))


def _drawn(
    points: tuple[Floats, Floats], splits: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    values, elapsed = points
    chosen = generator.integers(len(values), size=splits)
    return values[chosen], elapsed[chosen]


def _affordable(play: _Player, task: Curves, budget: float, generator: np.random.Generator) -> int:
    """Return the number of splits that the budget pays for, at least one."""
    cost = float(np.mean([play(task, 4, generator)[1] for _ in range(8)])) / 4.0
    return max(1, round(budget / cost))
