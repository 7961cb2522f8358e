"""The paper's Figure 4: how far an arm is behind its share; LFG; integer tolerances."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from fairtrial.allocation import (
    UCB1,
    FairLearn,
    FairUCB,
    HorizonFairUCB,
    LearningWithFairness,
    UnconstrainedLearner,
)
from fairtrial.core import Policy
from fairtrial.simulation import Simulation
from papers.fair_mab.cache import (
    SimulationCache,
    agrees,
    behind,
    half_width,
)
from papers.fair_mab.instances import TWO
from papers.report import AGREES, Measured, Row, Section, Table

__all__ = ["ETAS", "lfg_curve", "violations"]

_RUNS = (1_000, 200)
_REFERENCE_RUNS = 1_000

ETAS = (10, 100, 1_000)
_LATER = (200, 2_000, 20_000)
_LEVELS = {10: (-1.8, -1.5, -1.3), 100: (11.0, 20.5, 23.7), 1_000: (24.5, 198.0, 278.0)}
"""The reference's mean number of pulls behind at the rounds of `_LATER`, by eta."""


@dataclass(frozen=True)
class _Line:
    """A line of the reference: r-regret, largest violation, in whole pulls, violating runs."""

    policy: Policy
    name: str
    regret: Measured
    violation: float
    floored: int
    share: float


def _lines() -> tuple[_Line, ...]:
    strict = TWO.problem()

    def lfg(eta: float) -> Policy:
        return LearningWithFairness(strict, eta)

    return (
        _Line(FairUCB(strict), "Fair-UCB (largest)", half_width(0.140, 0.036), 0.50, 0, 0),
        _Line(FairLearn(strict, UCB1()), "due", half_width(0.144, 0.039), 0.50, 0, 0),
        _Line(FairLearn(strict, UCB1(), "lazy"), "lazy", half_width(0.075, 0.024), 0.897, 0, 0),
        _Line(
            FairLearn(strict, UCB1(), carry=1), "due, carry 1", half_width(0.761, 0.054), 0.50, 0, 0
        ),
        _Line(
            HorizonFairUCB(strict, TWO.horizon), "T-fair-UCB", half_width(0.114, 0.035), 25, 25, 1
        ),
        _Line(
            UnconstrainedLearner(strict, UCB1()),
            "UCB1, no quotas",
            half_width(-8.73, 0.22),
            24.6,
            48,
            1,
        ),
        _Line(lfg(1), "LFG, eta 1", half_width(6.10, 0.02), 0.50, 0, 0),
        _Line(lfg(3), "LFG, eta 3", half_width(3.76, 0.06), 0.50, 0, 0),
        _Line(lfg(10), "LFG, eta 10", half_width(1.83, 0.06), 0.68, 3, 0.17),
        _Line(lfg(30), "LFG, eta 30", half_width(0.19, 0.08), 3.2, 12, 0.80),
        _Line(lfg(100), "LFG, eta 100", half_width(-3.39, 0.14), 12.6, 29, 0.995),
    )


def violations(cache: SimulationCache) -> Section:
    """Compare violations with the reference, and show where LFG levels off."""
    return Section(
        "violations",
        "Figure 4: the fairness guarantee",
        "With Fair-UCB, no arm is ever a whole pull behind, in any run; the same holds for every "
        "scheduler of FairLearn. The paper says that LFG's violation rises and then goes to "
        "zero. In fact it levels off at about eta times the gap; only its *rate*, violation over "
        "t, goes to zero. T-fair-UCB keeps the quotas only at the end: before that, an arm is up "
        "to r T pulls behind. A negative r-regret is what an unfair policy saves.",
        (
            Table(tuple(_row(cache, line) for line in _lines()), "Instance 2, T = 200"),
            Table(tuple(_level_rows(cache)), "LFG on instance 2: mean pulls behind at round t"),
            Table(tuple(_half_rows()), "Why tolerances are whole numbers: shares .24, .24, .24, 0"),
        ),
    )


def _row(cache: SimulationCache, line: _Line) -> Row:
    runs = cache.simulate(line.policy, TWO.environment(), _RUNS, TWO.horizon)
    regret = runs.metrics["r_regret"]
    worst = runs.metrics["floored_violation"]
    violating = float((worst > 0).mean())
    # Four standard errors of a difference of two shares, and at least half a percent.
    margin = 0.005 + 4 * math.sqrt(line.share * (1 - line.share) * (1 / worst.size + 1e-3))
    return {
        "policy": line.name,
        "runs": runs.replications,
        "r-regret": Measured.of(regret),
        "reference": line.regret,
        "mean largest violation": round(float(runs.metrics["violation"].mean()), 3),
        "reference violation": line.violation,
        "most pulls behind": int(worst.max()),
        "reference most": line.floored,
        "runs in violation": violating,
        AGREES: agrees(regret, line.regret, _REFERENCE_RUNS)
        and abs(violating - line.share) <= margin,
    }


# ------------------------------------------------------------------------------------- LFG


def lfg_curve(cache: SimulationCache, eta: int) -> list[Simulation]:
    """Return LFG's runs on instance 2, cut at each of the later rounds."""
    return cache.curve(LearningWithFairness(TWO.problem(), eta), TWO, (200, 100), _LATER)


def _level_rows(cache: SimulationCache) -> Iterator[Row]:
    for eta in ETAS:
        curve = lfg_curve(cache, eta)
        found = [behind(runs) for runs in curve]
        yield {
            "eta": eta,
            "runs": curve[0].replications,
            **{f"t = {t:,}": Measured.of(one) for t, one in zip(_LATER, found, strict=True)},
            "reference": " / ".join(f"{level:g}" for level in _LEVELS[eta]),
            "violation / t at the end": round(float(found[-1].mean()) / _LATER[-1], 5),
            AGREES: all(
                agrees(one, Measured(level, 0.05 * abs(level)), one.size)
                for one, level in zip(found, _LEVELS[eta], strict=True)
            ),
        }


# ------------------------------------------------------------------------- whole tolerances

_QUARTERS = (Fraction(24, 100),) * 3 + (Fraction(0),)


def _half_rows() -> Iterator[Row]:
    for unfairness_tolerance in (Fraction(0), Fraction(1, 2), Fraction(1)):
        worst = worst_of_largest(_QUARTERS, unfairness_tolerance, rounds=100)
        yield {
            "unfairness_tolerance": str(unfairness_tolerance),
            "worst floor(r t) - N": worst,
            "kept": "yes" if worst <= unfairness_tolerance else "no",
            AGREES: (worst <= unfairness_tolerance) == (unfairness_tolerance.denominator == 1),
        }


def worst_of_largest(
    shares: tuple[Fraction, ...], unfairness_tolerance: Fraction, rounds: int
) -> int:
    """Return how far an arm is ever behind if the largest credit above the tolerance is forced.

    The learner always chooses the last arm. A policy refuses tolerances that are not integers; this
    is the printed rule, only for this example.

    Examples
    --------
    >>> worst_of_largest((Fraction(24, 100),) * 3 + (Fraction(0),), Fraction(1, 2), 5)
    1
    """
    pulls = [0] * len(shares)
    worst = 0
    for t in range(1, rounds + 1):
        owed = [share * (t - 1) - n for share, n in zip(shares, pulls, strict=True)]
        leading = max(range(len(shares)), key=owed.__getitem__)
        pulls[leading if owed[leading] > unfairness_tolerance else -1] += 1
        lacking = (int(share * t) - n for share, n in zip(shares, pulls, strict=True))
        worst = max(worst, *lacking)
    return worst
