"""The paper's Figures 1 and 2: the time that readings save, also with its public code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from papers.delayed import _public_code as public
from papers.delayed.cache import Ratio, Runs, SimulationCache
from papers.delayed.instances import (
    ARMS,
    DELAYS,
    RELIABILITIES,
    Race,
    batteries,
    bounded,
    free,
)
from papers.report import AGREES, Row, Section, Table

__all__ = ["CURVES", "PARALLEL", "RATIOS", "ratios", "savings"]

PARALLEL = (1, 10)
"""Numbers of pulls in flight in the sequential and the parallel race."""

_BASELINE = "race, outcomes only"
_PUBLIC = "public code"
_CORRECTED = "race, published"
RATIOS = (_PUBLIC, _CORRECTED, "race, proven", "information")
"""Rules that are compared to a race on outcomes only."""

_RUNS = (40, 12)


@dataclass(frozen=True)
class Curve:
    """One figure of the paper: races that differ in one quantity.

    Parameters
    ----------
    name, title : str
        Its name in files, and its title in the tables.
    across : str
        The quantity that varies.
    make : callable
        Returns the race for a value of the quantity.
    values : (tuple of float, tuple of float)
        Its values, full and quick.
    """

    name: str
    title: str
    across: str
    make: Callable[[float], Race]
    values: tuple[tuple[float, ...], tuple[float, ...]]


CURVES = {
    curve.name: curve
    for curve in (
        Curve(
            "figure-1a",
            "Figure 1a: means in one range",
            "arms",
            lambda arms: bounded(int(arms)),
            (ARMS, ARMS[:2]),
        ),
        Curve(
            "figure-1b", "Figure 1b: means one apart", "arms", lambda arms: free(int(arms)),
            (ARMS, ARMS[:3]),
        ),
        Curve(
            "figure-1c",
            "Figure 1c: 100 arms, means one apart",
            "delay",
            lambda delay: free(100).with_delay(delay),
            (DELAYS, (10, 100)),
        ),
        Curve(
            "figure-2a",
            "Figure 2: lives that vary by 5 cycles",
            "forecast's deviation / life's",
            lambda reliability: batteries(5.0, reliability),
            (RELIABILITIES, RELIABILITIES[::4]),
        ),
        Curve(
            "figure-2b",
            "Figure 2: lives that vary by 20 cycles",
            "forecast's deviation / life's",
            lambda reliability: batteries(20.0, reliability),
            (RELIABILITIES, RELIABILITIES[::4]),
        ),
    )
}  # fmt: skip
"""The paper's figures, by name."""


def savings(cache: SimulationCache) -> Section:
    """Measure the time with readings as a share of the time without, and check the claims."""
    return Section(
        "savings",
        "Figures 1 and 2: the time saved by readings",
        "Mean time of a race with readings, divided by that of the same race on outcomes only, "
        "with the same outcomes for each pull, and with standard errors. b is the number of "
        "pulls in flight. `public code` is the race as in the public code of the paper's "
        "experiments, compared with its own race on outcomes only. Where outcomes should get the "
        "share of delta that the readings leave, this code gives them what the readings leave of "
        "1. `race, published` is the same estimator without that error. Neither is proven; "
        "`race, proven` and `information` are. Claims are judged by the estimator without the "
        "error. The solver experiment of section 5.3 is left out, because its program and its "
        "problems are not public.",
        (
            *(_table(cache, curve) for curve in CURVES.values()),
            Table(tuple(_claims(cache)), "What is claimed"),
        ),
    )


def ratios(cache: SimulationCache, curve: Curve, rule: str, parallel: int) -> dict[float, Ratio]:
    """Return the ratio of times by the quantity that varies in a figure."""
    return {
        value: _ratio(cache, curve.make(value), rule, parallel, "elapsed")
        for value in curve.values[cache.quick]
    }


def _ratio(cache: SimulationCache, race: Race, rule: str, parallel: int, what: str) -> Ratio:
    number = cache.number(*_RUNS)
    if rule == _PUBLIC:
        own, other = (
            cache.race_by_public_code(race, mode, parallel, number)
            for mode in (public.AS_RUN, public.FULL)
        )
    else:
        own, other = (cache.race(race, name, parallel, number) for name in (rule, _BASELINE))
    return Ratio.of(_column(own, what), _column(other, what))


def _column(runs: Runs, what: str) -> list[float]:
    values: list[float] = getattr(runs, what).tolist()
    return values


def _table(cache: SimulationCache, curve: Curve) -> Table:
    found = {
        (rule, parallel): ratios(cache, curve, rule, parallel)
        for parallel in PARALLEL
        for rule in RATIOS
    }
    rows: list[Row] = [
        {
            curve.across: value,
            "b": parallel,
            "runs": cache.number(*_RUNS),
            **{rule: found[rule, parallel][value].measured for rule in RATIOS},
        }
        for parallel in PARALLEL
        for value in curve.values[cache.quick]
    ]
    return Table(tuple(rows), curve.title, dict.fromkeys(RATIOS, 3))


def _claims(cache: SimulationCache) -> Iterator[Row]:
    for claim in (
        *_few_arms(cache),
        *_many_arms(cache),
        *_delays(cache),
        *_batteries(cache),
    ):
        said, by_slip, ours, holds = claim
        yield {"the paper says": said, _PUBLIC: by_slip, _CORRECTED: ours, AGREES: holds}


Claim = tuple[str, str, str, bool]


def _few_arms(cache: SimulationCache) -> Iterator[Claim]:
    for parallel, published in zip(PARALLEL, (0.75, 0.60), strict=True):
        lowest = {
            rule: _lowest(ratios(cache, CURVES["figure-1a"], rule, parallel))
            for rule in (_PUBLIC, _CORRECTED)
        }
        yield (
            f"bounded means, few arms: down to {published:.2f} (b = {parallel})",
            lowest[_PUBLIC].text,
            lowest[_CORRECTED].text,
            _reaches(lowest[_CORRECTED], published),
        )


def _many_arms(cache: SimulationCache) -> Iterator[Claim]:
    for name, said, grows in (
        ("figure-1a", "bounded means: less is saved with many arms", True),
        ("figure-1b", "means one apart: more is saved with many arms", False),
    ):
        for parallel in PARALLEL:
            ends = {
                rule: _ends(ratios(cache, CURVES[name], rule, parallel))
                for rule in (_PUBLIC, _CORRECTED)
            }
            first, last = ends[_CORRECTED]
            yield (
                f"{said} (b = {parallel})",
                _from_to(ends[_PUBLIC]),
                _from_to(ends[_CORRECTED]),
                _clearly_below(first, last) if grows else _clearly_below(last, first),
            )


def _delays(cache: SimulationCache) -> Iterator[Claim]:
    for parallel, published in zip(PARALLEL, (0.59, 0.57), strict=True):
        found = {
            rule: ratios(cache, CURVES["figure-1c"], rule, parallel)
            for rule in (_PUBLIC, _CORRECTED)
        }
        lowest = {rule: _lowest(by_delay) for rule, by_delay in found.items()}
        yield (
            f"any delay: down to {published} (b = {parallel})",
            lowest[_PUBLIC].text,
            lowest[_CORRECTED].text,
            _reaches(lowest[_CORRECTED], published),
        )
    ends = {rule: _ends(by_delay) for rule, by_delay in found.items()}
    first, last = ends[_CORRECTED]
    yield (
        "longer delays: more is saved (b = 10)",
        _from_to(ends[_PUBLIC]),
        _from_to(ends[_CORRECTED]),
        _clearly_below(last, first),
    )


def _batteries(cache: SimulationCache) -> Iterator[Claim]:
    for name in ("figure-2a", "figure-2b"):
        curve = CURVES[name]
        about = curve.title.partition(": ")[2]
        found = {rule: ratios(cache, curve, rule, 1) for rule in (_PUBLIC, _CORRECTED)}
        lowest = {rule: _lowest(by_deviation) for rule, by_deviation in found.items()}
        yield (
            f"batteries: down to 0.65 ({about}, b = 1)",
            lowest[_PUBLIC].text,
            lowest[_CORRECTED].text,
            _reaches(lowest[_CORRECTED], 0.65),
        )
        first, last = _ends(found[_CORRECTED])
        yield (
            f"batteries: poor forecasts save less ({about}, b = 1)",
            _from_to(_ends(found[_PUBLIC])),
            _from_to((first, last)),
            _clearly_below(first, last),
        )
    cells = {
        rule: _ratio(cache, batteries(5.0, RELIABILITIES[0]), rule, 1, "pulls")
        for rule in (_PUBLIC, _CORRECTED)
    }
    yield (
        "batteries: up to 35 % fewer *experiments* (lives that vary by 5 cycles, b = 1)",
        cells[_PUBLIC].text,
        cells[_CORRECTED].text,
        _reaches(cells[_CORRECTED], 0.65),
    )


def _lowest(found: Mapping[float, Ratio]) -> Ratio:
    return min(found.values(), key=lambda ratio: ratio.mean)


def _ends(found: Mapping[float, Ratio]) -> tuple[Ratio, Ratio]:
    """Return the ratios at the smallest and at the largest value."""
    return found[min(found)], found[max(found)]


def _from_to(ends: tuple[Ratio, Ratio]) -> str:
    return f"from {ends[0].mean:.2f} to {ends[1].mean:.2f}"


def _reaches(ratio: Ratio, published: float) -> bool:
    """Return whether a ratio is as low as published, up to three standard errors plus .005."""
    return ratio.mean - 3.0 * ratio.error <= published + 0.005


def _clearly_below(one: Ratio, other: Ratio) -> bool:
    spread = math.hypot(one.error, other.error)
    return other.mean - one.mean > 3.0 * spread
