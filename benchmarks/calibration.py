"""Error rates of the calibrated test of `RacingSearchCV`, on recorded splits and on nulls.

Every question is recorded once, with all candidates on the same random splits. A race then draws
its splits from the recorded ones, with replacement. So its splits are independent, and the true
mean of a candidate is known: its mean over all recorded splits. Candidates with very different
means are easy to distinguish. So pairs are also made equal, by drawing some of the recorded splits
more often.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from benchmarks.recording import QUESTIONS, record
from fairtrial.confidence import StudentMixture
from fairtrial.delayed import PairedRacing, Problem
from fairtrial.delayed.policies.paired_evidence import StudentEvidence

DELTA = 0.05
SPLITS = 50
"""Default number of splits after which a search stops."""
LONG = 300
ROUNDING = 1e-9

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]


def run(*, quick: bool) -> None:
    races = 20 if quick else 1000
    _print_pairs(pairs=500 if quick else 20_000)
    print(
        f"\nlevel {DELTA:g}, at most {SPLITS} splits, in per cent; standard error at {DELTA:.0%}: "
        f"{_percent(_error(DELTA, races))}"
    )
    print(f"\n{'eight equal candidates':<40}{'a given one is dropped':>24}{'worst one':>11}")
    for name, draw in _equal_candidates().items():
        found = _races(draw, np.zeros(8), races, seed=0)
        by_candidate = np.mean([race.dropped for race in found], axis=0)
        print(f"{name:<40}{_percent(by_candidate.mean(), 24)}{_percent(by_candidate.max(), 11)}")
    print(f"\n{'':<38}{f'{races:,} races as recorded':^40}{'pairs made equal':^24}")
    print(
        f"{'recorded (candidates)':<38}{'fits each':>10}{'decided':>9}{'wrong':>7}{'dropped':>8}"
        f"{'any':>6}{'pairs':>8}{'called':>8}{'worst':>8}"
    )
    for name, question in QUESTIONS.items():
        table = record(question, 50 if quick else 600)
        means = table.mean(axis=0)
        found = _races(_resampled(table), means, races, seed=1)
        columns = _pair_columns(table, races)
        print(f"{f'{name} ({len(means)})':<38}{_race_columns(found)}{columns}", flush=True)


# --------------------------------------------------------------------------- whole races
_NO_TARGETS = np.empty((0, 2), dtype=np.intp)
"""Student's evidence compares all pairs, and needs no targets."""


@dataclass(frozen=True)
class Race:
    """The claims of one race, and which of them are false.

    Parameters
    ----------
    fits : float
        Mean number of fits per candidate.
    decided, wrong : bool
        Whether it gave an answer, and whether this is not the best candidate.
    dropped : ndarray of bool
        The candidates that it declared worse than another one.
    best_dropped, overclaimed : bool
        Whether the best candidate is among them, and whether the leader is worse than the best by
        more than the race claims.
    """

    fits: float
    decided: bool
    wrong: bool
    dropped: NDArray[np.bool_]
    best_dropped: bool
    overclaimed: bool

    @property
    def any_false(self) -> bool:
        """Return whether any claim is false."""
        return self.wrong or self.best_dropped or self.overclaimed


def _resampled(table: Floats) -> Draw:
    return lambda random, splits: table[random.integers(len(table), size=splits)]


def _races(draw: Draw, means: Floats, races: int, seed: int) -> list[Race]:
    random = np.random.default_rng(seed)
    tables = [draw(random, SPLITS) for _ in range(races)]
    for scores in tables[:3]:
        assert _raced(scores) == _raced_by_the_policy(scores)
    return [_race(scores, means) for scores in tables]


def _race(scores: Floats, means: Floats) -> Race:
    fits, left, shortfall = _raced(scores)
    leader = left[int(scores[: fits[left[0]], left].sum(axis=0).argmax())]
    lacks = means.max() - means[leader] - ROUNDING * abs(means).max()
    dropped = np.isin(np.arange(len(means)), left, invert=True)
    return Race(
        fits=float(np.mean(fits)),
        decided=len(left) == 1,
        wrong=len(left) == 1 and lacks > 0.0,
        dropped=dropped,
        best_dropped=bool(dropped[means.argmax()]),
        overclaimed=lacks > shortfall,
    )


def _raced(scores: Floats) -> tuple[list[int], list[int], float]:
    """Race on splits in their order; return fits by candidate, survivors and the shortfall.

    This does the same as `PairedRacing` without a tolerance, but one split at a time, which is ten
    times faster.
    """
    test, level = StudentEvidence(0.0), math.log(1.0 / DELTA)
    fits = np.zeros(scores.shape[1], dtype=int)
    left = np.arange(scores.shape[1])
    for count in range(1, len(scores) + 1):
        fits[left] = count
        leader, rivals = _leader_and_rivals(scores[:count], left)
        better, _ = test.against(scores[:count], _NO_TARGETS, leader, rivals)
        left = np.sort([leader, *rivals[better < level]])
        if len(left) == 1:
            return fits.tolist(), left.tolist(), 0.0
    leader, rivals = _leader_and_rivals(scores, left)
    shortfall = float(test.shortfalls(scores, _NO_TARGETS, leader, rivals, level).max())
    return fits.tolist(), left.tolist(), shortfall


def _leader_and_rivals(scores: Floats, left: NDArray[np.intp]) -> tuple[int, NDArray[np.intp]]:
    at = int(scores[:, left].sum(axis=0).argmax())
    return int(left[at]), np.delete(left, at)


def _raced_by_the_policy(scores: Floats) -> tuple[list[int], list[int], float | None]:
    problem = Problem(scores.shape[1], noise_std="estimated")
    policy = PairedRacing(problem, DELTA, max_blocks=len(scores))
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, scores[pull.tag, pull.action])
    fits = [estimate.pulls for estimate in policy.progress().arms]
    left = [arm for arm, state in enumerate(policy.states) if state == "undecided"]
    return fits, left, policy.shortfall


def _equal_candidates() -> dict[str, Draw]:
    """Return scores of eight equal candidates with independent noise."""
    return {
        "normal noise": lambda random, n: random.normal(size=(n, 8)),
        "t with 3 degrees of freedom": lambda random, n: random.standard_t(3, size=(n, 8)),
        "accuracy on 10 rows": lambda random, n: random.binomial(10, 0.9, (n, 8)) / 10,
        "accuracy on 100 rows": lambda random, n: random.binomial(100, 0.9, (n, 8)) / 100,
    }


def _race_columns(races: Sequence[Race]) -> str:
    shares = [
        np.mean([getattr(race, what) for race in races])
        for what in ("decided", "wrong", "best_dropped", "any_false")
    ]
    fits = np.mean([race.fits for race in races])
    return f"{fits:>10.1f}{shares[0]:>9.0%}" + "".join(map(_percent, shares[1:], (7, 8, 6)))


# ------------------------------------------------------------- recorded pairs, made equal


def _pair_columns(table: Floats, races: int) -> str:
    """Return the number of pairs, and the mean and worst rate of calling one of a pair better.

    The worst pair is found on fewer races, and then measured on other races.
    """
    pairs = _equal_pairs(table)
    if not pairs:
        return f"{0:>8}"
    shares = [_called_of(pair, min(races, 300), seed=1) for pair in pairs]
    worst = _called_of(pairs[int(np.argmax(shares))], 5 * races, seed=2)
    return f"{len(pairs):>8}{_percent(float(np.mean(shares)), 8)}{_percent(worst, 8)}"


def _equal_pairs(table: Floats) -> list[tuple[Floats, Floats]]:
    """Return differences of two recorded candidates, and weights that make their mean 0.

    Splits on which one candidate is good are drawn more often, by exponential tilting, so values
    keep their steps and their skewness. Pairs for which this leaves less than half of the splits
    are left out, because they are not close to equal.
    """
    found = []
    for one, other in itertools.permutations(range(table.shape[1]), 2):
        differences = table[:, one] - table[:, other]
        weights = _tilted(differences)
        if weights is not None and 1.0 / (weights**2).sum() >= len(table) / 2:
            found.append((differences, weights))
    return found


def _tilted(differences: Floats) -> Floats | None:
    """Return weights proportional to exp(a difference), such that the mean is 0."""
    if not differences.min() < 0.0 < differences.max():
        return None
    scaled = differences / differences.std()

    def weights(tilt: float) -> Floats:
        raw = np.exp(tilt * scaled - (tilt * scaled).max())
        return raw / raw.sum()

    if weights(-5.0) @ scaled > 0.0 or weights(5.0) @ scaled < 0.0:
        return None
    return weights(brentq(lambda tilt: weights(tilt) @ scaled, -5.0, 5.0))


def _called_of(pair: tuple[Floats, Floats], races: int, seed: int) -> float:
    """Return how often the first candidate of an equal pair is declared better."""
    differences, weights = pair
    random = np.random.default_rng(seed)
    drawn = random.choice(differences, size=(races, SPLITS), p=weights)
    return float(np.isfinite(_first_called(drawn)).mean())


# --------------------------------------------------------------- differences with mean 0


def _print_pairs(pairs: int) -> None:
    """Print how often one of two equal candidates is declared better than the other."""
    print(
        f"\ntwo equal candidates, {pairs:,} pairs: one given candidate is called better, per cent"
    )
    print(f"{'differences':<52}{f'{SPLITS} splits':>12}{f'{LONG} splits':>12}{'+-':>7}")
    for name, draw in _differences().items():
        called = _first_called(draw(np.random.default_rng(0), (pairs, LONG)))
        short, long = np.mean(called <= SPLITS), np.mean(called <= LONG)
        print(
            f"{name:<52}{_percent(short, 12)}{_percent(long, 12)}{_percent(_error(long, pairs), 7)}"
        )


def _differences() -> dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]]:
    """Return differences with mean 0."""
    return {
        "normal": lambda random, shape: random.normal(size=shape),
        "t with 3 degrees of freedom": lambda random, shape: random.standard_t(3, size=shape),
        "accuracies on 10 rows, 5 % of them differ": _of_accuracies(10, 0.05),
        "accuracies on 30 rows, 1 % of them differ": _of_accuracies(30, 0.01),
        "accuracies on 150 rows, 10 % of them differ": _of_accuracies(150, 0.1),
        "exponential, large gains are rare": lambda random, shape: random.exponential(1, shape) - 1,
        "exponential, large losses are rare": lambda random, shape: (
            1 - random.exponential(1, shape)
        ),
        "a loss on every 5th split": _of_rare_losses(5),
        "a loss on every 20th split": _of_rare_losses(20),
    }


def _of_accuracies(
    rows: int, differ: float
) -> Callable[[np.random.Generator, tuple[int, int]], Floats]:
    def draw(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
        different = random.binomial(rows, differ, shape)
        return (2.0 * random.binomial(different, 0.5) - different) / rows

    return draw


def _of_rare_losses(every: int) -> Callable[[np.random.Generator, tuple[int, int]], Floats]:
    def draw(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
        gain = 0.02 + 0.002 * random.normal(size=shape)
        return gain - np.where(random.random(shape) < 1 / every, 0.02 * every, 0.0)

    return draw


def _first_called(differences: Floats) -> Floats:
    """Return the number of splits after which every row has enough evidence; infinite if never."""
    test, level = StudentMixture(), math.log(1.0 / DELTA)
    sums = np.cumsum(differences, axis=1)
    squares = np.cumsum(differences**2, axis=1)
    first = np.full(len(differences), np.inf)
    for count in range(1, differences.shape[1] + 1):
        mean = sums[:, count - 1] / count
        about = np.maximum(0.0, squares[:, count - 1] - count * mean**2)
        called = test.log_evidence(count, mean, about) >= level
        first = np.where(called, np.minimum(first, count), first)
    return first


def _error(share: float, runs: int) -> float:
    return math.sqrt(share * (1.0 - share) / runs)


def _percent(share: float, width: int = 0) -> str:
    return f"{100 * share:>{width}.1f}"
