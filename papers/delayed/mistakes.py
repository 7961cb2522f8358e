"""The cost of the paper's mistakes: how often a bound or a race fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence import Bound, FiniteLIL, NormalMixture
from fairtrial.core import Policy
from fairtrial.delayed import InformationRacing, Problem, Racing, SimulatedEnvironment
from papers.delayed.cache import Ratio, Runs, SimulationCache, most_wrong
from papers.delayed.instances import bounded
from papers.delayed.reference import share_and_radius
from papers.report import AGREES, Row, Section, Table, share

__all__ = ["PrintedLIL", "mistakes"]

Floats = NDArray[np.float64]

_PATHS = (20_000, 1_000)
_LONGEST = 1_000
_CHUNK = 500


@dataclass(frozen=True, repr=False)
class PrintedLIL(Bound):
    """The paper's Lemma 1 as printed, without the factor 2 that a standard deviation needs."""

    name: ClassVar[str] = "finite LIL as printed"
    proven: ClassVar[bool] = False
    source: ClassVar[str] = "Grover et al. (2018), Lemma 1, as printed"

    @property
    def one_sided(self) -> bool:
        """Whether `level` covers only one side of the mean."""
        return False

    def _standard_radius(self, pulls: Floats, log_inverse_level: float) -> Floats:
        radius: Floats = 0.5 * FiniteLIL().radius(pulls, math.exp(-log_inverse_level))
        return radius


def mistakes(cache: SimulationCache) -> Section:
    """Measure the cost of the mistakes, each next to a reference."""
    return Section(
        "mistakes",
        "What the published mistakes cost",
        "Lemma 1 is printed without a factor of 2, so means leave the bound far more often than "
        "its level allows. Proposition 1 charges the noise of readings once, but it starts again "
        "with every pull: the probability that the readings of some pull leave their bound grows "
        "with the number of pulls. The split that minimises a box changes at every step: the "
        "shares of delta used at one time for readings and at another for outcomes sum to more "
        "than delta. These are breaches of the *argument*; the last tables show their effect on "
        "races. A row agrees if its share agrees with the reference's.",
        (
            Table(
                tuple(_lemma(cache)),
                "Slip 1: share of paths whose mean ever leaves the bound",
            ),
            Table(
                tuple(_readings(cache)),
                "Slip 3: share of races in which a pull's readings ever leave the bound",
            ),
            Table(tuple(_split()), "Slip 4: largest shares of delta in one race"),
            Table(tuple(_slower(cache)), "Slip 6: are races with readings never slower?"),
            Table(tuple(_close_arms(cache)), "Two arms .02 sigma apart: wrong answers"),
        ),
    )


# ------------------------------------------------------------------- slip 1: Lemma 1


def _lemma(cache: SimulationCache) -> Iterator[Row]:
    paths = cache.number(*_PATHS)
    cases = (
        ("as printed", PrintedLIL(), 0.05, 0.299),
        ("as printed", PrintedLIL(), 0.0005, 0.098),
        ("with the factor", FiniteLIL(), 0.05, 0.00035),
    )
    radii = [bound.radius(np.arange(1, _LONGEST + 1), level) for _, bound, level, _ in cases]
    left = ever_left(cache.seed, paths, _LONGEST, radii)
    for (name, _, level, reference), number in zip(cases, left, strict=True):
        yield {
            "bound": name,
            "level": level,
            "paths": paths,
            "left": share(number, paths),
            "reference": reference,
            AGREES: same_share(number, paths, reference, 20_000),
        }


def ever_left(seed: int, paths: int, length: int, radii: list[Floats]) -> list[int]:
    """Return for every sequence of radii how many paths' means ever leave it."""
    generator = np.random.default_rng([seed, 1])
    left = np.zeros(len(radii), dtype=np.int64)
    counts = np.arange(1, length + 1)
    for first in range(0, paths, _CHUNK):
        noise = generator.standard_normal((min(_CHUNK, paths - first), length))
        means = np.abs(noise.cumsum(axis=1) / counts)
        left += [int((means > radius).any(axis=1).sum()) for radius in radii]
    return [int(number) for number in left]


def same_share(number: int, runs: int, reference: float, reference_runs: int) -> bool:
    """Return whether two shares differ by at most four standard errors of their difference.

    A share that was rounded to two digits can be off by half a unit of the second digit.

    Examples
    --------
    >>> same_share(30, 100, 0.299, 20_000), same_share(60, 100, 0.299, 20_000)
    (True, False)
    """
    pooled = (number + reference * reference_runs) / (runs + reference_runs)
    spread = math.sqrt(pooled * (1.0 - pooled) * (1.0 / runs + 1.0 / reference_runs))
    rounding = 0.5 * 10.0 ** (math.floor(math.log10(reference)) - 1) if reference > 0 else 0.0
    return abs(number / runs - reference) <= 4.0 * spread + rounding


# --------------------------------------------------------- slip 3: readings of every pull

_PULLS = (1, 10, 100, 1000)
_BY_PULLS = {
    "LIL": (0.001, 0.006, 0.029, 0.26),
    "mixture": (0.014, 0.135, 0.73, 1.0),
}
_READINGS_OF_A_PULL = 99


def _readings(cache: SimulationCache) -> Iterator[Row]:
    pulls = cache.number(100_000, 5_000)
    bounds: dict[str, Bound] = {"LIL": FiniteLIL(), "mixture": NormalMixture()}
    counts = np.arange(1, _READINGS_OF_A_PULL + 1)
    radii = [bound.radius(counts, 0.05) for bound in bounds.values()]
    left = ever_left(cache.seed, pulls, _READINGS_OF_A_PULL, radii)
    for name, number in zip(bounds, left, strict=True):
        rate = number / pulls
        yield {
            "bound, level .05": name,
            "pulls": pulls,
            "one pull": share(number, pulls),
            **{f"some of {f}": f"{1.0 - (1.0 - rate) ** f:.3f}" for f in _PULLS[1:]},
            "reference": " / ".join(f"{value:g}" for value in _BY_PULLS[name]),
            AGREES: _grows_as(number, pulls, _BY_PULLS[name]),
        }


def _grows_as(number: int, pulls: int, references: tuple[float, ...]) -> bool:
    """Return whether the probability by number of pulls is within four errors of the reference."""
    rate = number / pulls
    error = math.sqrt(max(number, 1)) / pulls
    low, high = max(rate - 4.0 * error, 0.0), rate + 4.0 * error
    return all(
        1.0 - (1.0 - low) ** f - 0.01 <= reference <= 1.0 - (1.0 - high) ** f + 0.01
        for f, reference in zip(_PULLS, references, strict=True)
    )


# ------------------------------------------------------------------- slip 4: the split


def _split() -> Iterator[Row]:
    for name, sigma, report_sigma, arms, readings in (
        ("free, n 100", 0.5, 0.25, 100, 99),
        ("bounded, n 10", 0.03, 0.03, 10, 49),
    ):
        shares = [
            share_and_radius((outcomes, count, sigma, report_sigma, arms))[0]
            for outcomes in range(1, 21)
            for count in range(1, readings + 1)
        ]
        total = max(shares) + 1.0 - min(shares)
        yield {
            "race": name,
            "to readings, at most": round(max(shares), 3),
            "to outcomes, at most": round(1.0 - min(shares), 3),
            "sum": round(total, 3),
            AGREES: total > 1.0,
        }


# ------------------------------------------------------------------- slip 6: never slower


def _slower(cache: SimulationCache) -> Iterator[Row]:
    race, number = bounded(20), cache.number(200, 16)
    for parallel in (1, 10):
        full = cache.race(race, "race, outcomes only", parallel, number)
        runs = cache.race(race, "race, published", parallel, number)
        slower = int((runs.elapsed > full.elapsed).sum())
        yield _slower_row("as in Figure 1", "race, published", parallel, runs, full, slower == 0)
    useless = Problem(20, top=4, noise_std=0.03, feedback="unbiased", reading_std=30.0)
    environment = SimulatedEnvironment(useless, race.means, delay=50.0)
    full = cache.simulate(
        Racing(useless, variant="full", bound=NormalMixture()), environment, number
    )
    runs = cache.simulate(Racing(useless), environment, number)
    cost = Ratio.of(runs.elapsed, full.elapsed).mean
    yield _slower_row("useless", "race, proven", 1, runs, full, cost <= 1.02)


def _slower_row(
    readings: str, rule: str, parallel: int, runs: Runs, full: Runs, agrees: bool
) -> Row:
    return {
        "readings": readings,
        "rule": rule,
        "b": parallel,
        "runs": runs.number,
        "slower runs": int((runs.elapsed > full.elapsed).sum()),
        "time / outcomes only": Ratio.of(runs.elapsed, full.elapsed).text,
        AGREES: agrees,
    }


# ----------------------------------------------------------------- races between close arms

_CLOSE = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.5)
_STEPS, _STEPS_OF_A_PULL = 1_600, 10
_REFERENCE_RUNS = 500

_CLOSE_RULES: dict[str, tuple[Callable[[], Policy], int]] = {
    "race, outcomes only": (lambda: Racing(_CLOSE, variant="full"), 0),
    "race, outcomes only, printed bound": (
        lambda: Racing(_CLOSE, variant="full", bound=PrintedLIL()),
        5,
    ),
    "race, published, printed bound": (
        lambda: Racing(_CLOSE, variant="partial", bound=PrintedLIL()),
        5,
    ),
    "race, proven": (lambda: Racing(_CLOSE), 0),
    "information on outcomes only": (lambda: InformationRacing(_CLOSE, use_partial=False), 2),
    "information, boxes": (
        lambda: InformationRacing(_CLOSE, test="box", sampling="uniform"),
        0,
    ),
    "information, pairs": (lambda: InformationRacing(_CLOSE, sampling="uniform"), 2),
    "information": (lambda: InformationRacing(_CLOSE), 2),
    "information, pulls cut after 2 readings": (lambda: InformationRacing(_CLOSE, truncate=2), 2),
}
"""Rules, and numbers of wrong answers in 500 runs of the reference."""


def _close_arms(cache: SimulationCache) -> Iterator[Row]:
    number = cache.number(2_000, 60)
    environment = SimulatedEnvironment(_CLOSE, [0.0, 0.02], delay=float(_STEPS_OF_A_PULL))
    for name, (make, reference) in _CLOSE_RULES.items():
        policy = make()
        runs = cache.simulate(policy, environment, number, horizon=_STEPS // _STEPS_OF_A_PULL)
        wrong = int(runs.wrong.sum())
        yield {
            "rule": name,
            "guarantee": policy.guarantee.label,
            "runs": number,
            "wrong": share(wrong, number),
            "undecided": share(int((~runs.decided).sum()), number),
            "reference": f"{reference} of {_REFERENCE_RUNS}",
            AGREES: wrong <= most_wrong(number, 0.05),
        }
