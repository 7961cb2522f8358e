"""Bounds, splits and mean times next to those of an independent implementation."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fairtrial.confidence import Bound, FiniteLIL, NormalMixture, PolynomialStitching
from fairtrial.delayed._kernels.boxes import split_three, split_two
from papers.delayed.cache import RULES, SimulationCache
from papers.delayed.instances import Race, bounded, free
from papers.report import AGREES, Measured, Row, Section, Table

__all__ = ["MEAN_TIMES", "exact", "mean_times"]

_BOUNDS: tuple[tuple[str, Bound, tuple[float, float, float]], ...] = (
    ("LIL, two sides", FiniteLIL(), (3.674870134158567, 1.4575724542944464, 0.4781270812003565)),
    (
        "LIL, one side",
        FiniteLIL(one_sided=True),
        (3.461177069393983, 1.4042881042701842, 0.46190504197816845),
    ),
    (
        "stitching, one side",
        PolynomialStitching(),
        (2.933398411817317, 1.1329132326435272, 0.3805627890010029),
    ),
    (
        "mixture, two sides",
        NormalMixture(),
        (3.0378110214259526, 1.0350193676733173, 0.35934829268760443),
    ),
)
_PULLS = (1, 10, 100)
_LEVEL = 0.05

_SPLITS = (
    ((1, 1, 0.5, 0.25, 100), 0.326367, 3.752326977),
    ((3, 10, 0.5, 0.25, 100), 0.075761, 1.738283611),
    ((1, 99, 0.5, 0.25, 100), 0.037152, 2.594493313),
    ((10, 1, 0.5, 2.0, 10), 0.602833, 1.729087965),
)
"""Outcomes (with the one in flight), readings, both deviations, arms; share and radius."""

_SLOPE = 1.1 / 2.0

MEAN_TIMES: dict[tuple[Race, int], tuple[tuple[float, float], ...]] = {
    (bounded(10), 1): ((1011, 20), (833, 22), (559, 16), (490, 16), (374, 13), (371, 13)),
    (bounded(10), 10): ((134, 3), (99.7, 2.1), (70.2, 2.1), (9.1, 1.5), (4.2, 0.8), (4.0, 0.8)),
    (bounded(20), 1): (
        (4723, 113), (4433, 113), (2794, 82), (2596, 82), (1850, 75), (1751, 71),
    ),
    (bounded(20), 10): ((520, 11), (475, 11), (306, 8), (193, 9), (113, 8), (112, 8)),
    (free(10), 1): (
        (7759, 167), (7369, 169), (4424, 138), (4174, 135), (2647, 112), (2551, 107),
    ),
    (free(10), 10): ((859, 17), (781, 17), (474, 15), (317, 14), (170, 12), (171, 12)),
    (free(100), 1): (
        (18362, 354), (13501, 362), (9829, 255), (9626, 254), (8354, 229), (8095, 216),
    ),
    (free(100), 10): ((1938, 35), (1323, 37), (943, 27), (780, 25), (647, 24), (642, 22)),
}  # fmt: skip
"""Mean time of 100 runs of an independent program and its standard error, by rule."""


def exact() -> Section:
    """Compare the quantities that can be computed without randomness."""
    return Section(
        "exact",
        "Bounds and splits",
        "Radii of the mean of that many outcomes at level .05 and sigma 1. The second table has "
        "the share of delta that the published estimator gives to the readings of the pull in "
        "flight, and the resulting radius, which is the smallest of any share.",
        (Table(tuple(_bounds()), "Radii"), Table(tuple(_splits()), "Splits, delta .05")),
    )


def _bounds() -> Iterator[Row]:
    for name, bound, references in _BOUNDS:
        found = bound.radius(_PULLS, _LEVEL).tolist()
        close = [math.isclose(a, b, rel_tol=1e-9) for a, b in zip(found, references, strict=True)]
        columns = (f"{pulls} outcomes" for pulls in _PULLS)
        yield {"bound": name, **dict(zip(columns, found, strict=True)), AGREES: all(close)}


def base(number: float) -> float:
    """Return x with squared radius of the LIL proportional to ``x + ln(1/level)``."""
    one, other = (float(FiniteLIL().radius(number, level)) ** 2 for level in (0.1, 0.01))
    slope = (other - one) / math.log(10.0)
    return one / slope - math.log(10.0)


def share_and_radius(case: tuple[int, int, float, float, int]) -> tuple[float, float]:
    """Return the readings' share of delta = .05 at one point of a race, and the radius.

    Examples
    --------
    >>> share, radius = share_and_radius((1, 1, 0.5, 0.25, 100))
    >>> round(share, 6), round(radius, 9)
    (0.326367, 3.752326977)
    """
    outcomes, readings, sigma, report_sigma, arms = case
    full = 2.0 * sigma * math.sqrt(_SLOPE / outcomes)
    report = 2.0 * report_sigma * math.sqrt(_SLOPE / readings) / outcomes
    level = math.log(arms / _LEVEL)
    share, radius = split_two(full, base(outcomes), report, base(readings), 1.0, level)
    return float(share), float(radius)


def _splits() -> Iterator[Row]:
    for case, share, radius in _SPLITS:
        found = share_and_radius(case)
        yield {
            "outcomes": case[0],
            "readings": case[1],
            "sigma": f"{case[2]:g}, {case[3]:g}",
            "arms": case[4],
            "share of the readings": f"{found[0]:.6f}",
            "radius": round(found[1], 9),
            AGREES: abs(found[0] - share) < 2e-6 and abs(found[1] - radius) < 2e-9,
        }
    yield _biased_split()


def _biased_split() -> Row:
    """Return the row of the split into three, with biased readings and two known biases."""
    outcomes, readings, biases, sigma, report_sigma, arms = 3, 10, 2, 0.5, 0.25, 100
    scale = 2.0 * math.sqrt(_SLOPE)
    first, second, radius = split_three(
        scale * sigma / math.sqrt(outcomes),
        base(outcomes),
        scale * report_sigma / math.sqrt(readings) / outcomes,
        base(readings),
        scale * report_sigma / math.sqrt(biases) / outcomes,
        base(biases),
        1.0,
        math.log(arms / _LEVEL),
    )
    return {
        "outcomes": outcomes,
        "readings": readings,
        "sigma": f"{sigma:g}, {report_sigma:g}; biased, 2 known",
        "arms": arms,
        "share of the readings": f"{first:.6f} and {second:.6f}",
        "radius": round(float(radius), 9),
        AGREES: abs(first - 0.064219) < 2e-6 and abs(second - 0.153294) < 2e-6,
    }


def mean_times(cache: SimulationCache) -> Section:
    """Compare the mean times of all rules on the paper's instances with the reference."""
    return Section(
        "mean-times",
        "Mean times",
        "Steps until the top fifth of the arms is found (k = n / 5), delta .05, with standard "
        "errors; b pulls in flight. The reference is an independent program with its own noise. "
        "A row agrees if the means differ by at most four standard errors of the difference.",
        (
            *(_times_table(cache, race, parallel) for race, parallel in MEAN_TIMES),
            Table(
                tuple(_saved(cache)), "Time of the default divided by the time of the paper's rules"
            ),
        ),
    )


def _saved(cache: SimulationCache) -> Iterator[Row]:
    """Return ratios of times on the same noise, with 95 % intervals."""
    for race, parallel in MEAN_TIMES:
        by_rule = {
            rule: cache.ratio(race, "information", rule, parallel, cache.number(100, 12))
            for rule in ("race, outcomes only", "race, published", "race, proven")
        }
        yield {
            "race": race.name,
            "b": parallel,
            **{f"over {rule}": ratio.text for rule, ratio in by_rule.items()},
            AGREES: all(ratio.interval[1] < 1.0 for ratio in by_rule.values()),
        }


def _times_table(cache: SimulationCache, race: Race, parallel: int) -> Table:
    rows = [
        _times_row(cache, race, parallel, rule, Measured(*reference))
        for rule, reference in zip(RULES, MEAN_TIMES[race, parallel], strict=True)
    ]
    return Table(tuple(rows), f"{race.name}, b = {parallel}")


def _times_row(
    cache: SimulationCache, race: Race, parallel: int, rule: str, reference: Measured
) -> Row:
    runs = cache.race(race, rule, parallel, cache.number(100, 12))
    # A few runs estimate their own spread badly; then use the reference's.
    own = Measured.of(runs.elapsed)
    error = max(own.error or 0.0, (reference.error or 0.0) * math.sqrt(100 / runs.number))
    return {
        "rule": rule,
        "runs": runs.number,
        "steps": own,
        "reference": reference,
        "wrong": int(runs.wrong.sum()),
        AGREES: Measured(own.mean, error).agrees_with(reference),
    }
