"""Widths of anytime intervals for differences and means, beside usual intervals.

The fixed interval holds at one planned look. The asymptotic anytime interval (Waudby-Smith and
others, 2024, "Time-uniform central limit theory and asymptotic confidence sequences", Theorem 2.2,
tuned for this number of rows) holds at all looks, if there are many results. "Half the range" takes
half of the range as the standard deviation of a result. Differences are those of an analysed
experiment; means those of one arm while a study runs, of its rewards or of a measure that is not
the objective. Of overall means, the interval that is shown is compared with the weighted sum of
those of the G groups, each at the same level d or at d/G, and with what both have in common if each
has half of the error.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fairtrial as ft
from fairtrial.confidence.bounds import NormalMixture
from fairtrial.confidence.effects import Spread, difference_from_sums

Floats = NDArray[np.float64]

_LEVEL = 0.05


def run(*, quick: bool) -> None:
    """Print half the width of each interval for conversions and for revenue."""
    rows = 4_000 if quick else 40_000
    print(f"\nhalf the width of intervals for a difference, {rows:,} rows, confidence 95 %")
    print(f"{'outcome':<34}{'fixed':>9}{'asymptotic':>12}{'half range':>12}{'fairtrial':>11}")
    cases: dict[str, tuple[float, Callable[[np.random.Generator], Floats]]] = {
        f"0 or 1, {rate:.0%}": (1.0, partial(_conversions, rows, rate)) for rate in (0.5, 0.1, 0.02)
    }
    for top in (100.0, 1_000.0):
        cases[f"revenue of 1 % up to {top:,.0f}"] = (top, partial(_revenue, rows, top))
    for name, (top, draw) in cases.items():
        _show(name, top, draw)
    _show_means(quick=quick)
    _show_overall_means(quick=quick)


def _show(name: str, top: float, draw: Callable[[np.random.Generator], Floats]) -> None:
    generator = np.random.default_rng(7)
    values = draw(generator)
    arm = generator.integers(0, 2, values.size)
    own = [values[arm == number] for number in (0, 1)]
    error = math.sqrt(sum(one.var() / one.size for one in own))
    problem = ft.subpopulations.Problem(
        ["a", "b"], 1, floors=None, reward_range=(0.0, top), control="a"
    )
    table = {"arm": [problem.arms[number] for number in arm], "value": values}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ft.analyse(problem, table, _LEVEL, order="as given", outcome="value") as study:
            (effect,) = study.progress().effects
    counts, sums = (np.array(list(map(measure, own))) for measure in (len, np.sum))
    spread = Spread(np.full(2, top / 2), (0.0, top))
    wide = difference_from_sums(counts, sums, np.array([-1.0, 1.0]), spread, _LEVEL)
    assert wide is not None
    assert effect.upper is not None
    assert effect.lower is not None
    halves = (
        NormalDist().inv_cdf(1 - _LEVEL / 2) * error,
        _asymptotic(values.size) * error,
        (wide.upper - wide.lower) / 2,
        (effect.upper - effect.lower) / 2,
    )
    print(
        f"{name:<34}"
        + "".join(f"{half:>{size}.4g}" for half, size in zip(halves, (9, 12, 12, 11), strict=True))
    )


def _asymptotic(rows: int) -> float:
    """Return half the width of the asymptotic anytime interval, in standard errors."""
    # The tuning for `rows` results, as in section 2 of the paper.
    double = -2 * math.log(_LEVEL) + math.log(-2 * math.log(_LEVEL) + 1)
    rho = math.sqrt(double / rows)
    known = rows * rho**2 + 1
    return math.sqrt(2 * known / (rows * rho**2) * math.log(math.sqrt(known) / _LEVEL))


def _conversions(rows: int, rate: float, generator: np.random.Generator) -> Floats:
    return (generator.random(rows) < rate).astype(np.float64)


def _revenue(rows: int, top: float, generator: np.random.Generator) -> Floats:
    spent = np.minimum(top, generator.lognormal(3.0, 1.0, rows))
    return np.where(generator.random(rows) < 0.01, spent, 0.0)


# ------------------------------------------------------------------ means of a running study


class _Live(NamedTuple):
    """Outcomes of both arms of a running study: their range, how they are drawn, what they are."""

    top: float
    draw: Callable[[np.random.Generator], float]
    is_measure: bool = False
    family: Any = ft.subpopulations


_LIVE: dict[str, _Live] = {
    "0 or 1, 50 %": _Live(1.0, lambda rng: float(rng.random() < 0.5)),
    "0 or 1, 4 %": _Live(1.0, lambda rng: float(rng.random() < 0.04)),
    "0 or 1, 4 %, delayed": _Live(1.0, lambda rng: float(rng.random() < 0.04), family=ft.delayed),
    "0 or 1, 50 %, linear": _Live(1.0, lambda rng: float(rng.random() < 0.5), family=ft.linear),
    "0 or 1, 4 %, linear": _Live(1.0, lambda rng: float(rng.random() < 0.04), family=ft.linear),
    "revenue of 1 % up to 1,000, linear": _Live(
        1_000.0, lambda rng: float(_revenue(1, 1_000.0, rng)[0]), family=ft.linear
    ),
    "revenue of 1 % up to 1,000": _Live(1_000.0, lambda rng: float(_revenue(1, 1_000.0, rng)[0])),
    "harm of 4 %, a measure": _Live(1.0, lambda rng: float(rng.random() < 0.04), is_measure=True),
    "load time up to 10, a measure": _Live(
        10.0, lambda rng: min(10.0, rng.gamma(4.0, 0.5)), is_measure=True
    ),
}


def _show_means(*, quick: bool) -> None:
    """Print half the width of each interval of a mean while a study runs."""
    looks = (40, 400, 4_000) if quick else (40, 400, 4_000, 40_000)
    print("\nhalf the width of intervals for the mean of one arm of two, confidence 95 %")
    columns = ("results", "fixed", "asymptotic", "half range", "live", "analysed")
    print(f"{'outcome':<35}" + "".join(f"{name:>12}" for name in columns))
    for name, case in _LIVE.items():
        told: list[tuple[str, float]] = []
        policy, generator = _policy(case), np.random.default_rng(7)
        for look in looks:
            while len(told) < look and not policy.stopped:
                pull = policy.ask()
                told.append((pull.arm, case.draw(generator)))
                policy.tell(pull, _outcome(case, told[-1][1], generator))
            if len(told) == look:
                _show_mean(name, case, policy.progress(), told)


def _policy(case: _Live) -> Any:
    if case.is_measure:
        problem = ft.subpopulations.Problem(
            ["a", "b"],
            1,
            measures={"other": (0, 1), "own": (0, case.top)},
            objective="other",
            ceilings={"own": 0.9 * case.top},
        )
    else:
        problem = _problem(case)
    return case.family.BlockBetting(problem, delta=_LEVEL, seed=1)


def _problem(case: _Live) -> Any:
    """Return the problem of two arms with one reward."""
    if case.family is ft.linear:
        return ft.linear.Problem([[1, 0], [1, 1]], arms=["a", "b"], reward_range=(0, case.top))
    if case.family is ft.delayed:
        return ft.delayed.Problem(["a", "b"], reward_range=(0, case.top))
    return ft.subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, case.top))


def _outcome(case: _Live, value: float, generator: np.random.Generator) -> Any:
    if case.is_measure:
        return {"other": float(generator.random() < 0.5), "own": value}
    return value


def _show_mean(name: str, case: _Live, progress: Any, told: list[tuple[str, float]]) -> None:
    (shown,) = (
        one
        for one in progress.actions
        if one.labels["arm"] == "a" and one.labels.get("measure", "own") == "own"
    )
    own = np.array([value for arm, value in told if arm == "a"])[: shown.counted]
    error = own.std() / math.sqrt(max(1, own.size))
    # In `delayed` and `linear`, the intervals of all arms hold together.
    level = _LEVEL / (1 if case.family is ft.subpopulations else 2)
    mixture = NormalMixture().radius(max(1, own.size), level, case.top / 2)
    halves = (
        NormalDist().inv_cdf(1 - level / 2) * error,
        _asymptotic(own.size) * error,
        _half(own.mean() - mixture, own.mean() + mixture, case.top),
        _half(shown.lower, shown.upper, case.top),
        _analysed_half(case, told),
    )
    print(f"{name:<35}{own.size:>12,}" + "".join(f"{half:>12.4g}" for half in halves), flush=True)


def _half(lower: Any, upper: Any, top: float) -> float:
    return (min(top, float(upper)) - max(0.0, float(lower))) / 2


def _analysed_half(case: _Live, told: list[tuple[str, float]]) -> float:
    """Return half the width for the same arm in the analysis of all results as a table."""
    is_linear = case.family is ft.linear
    problem = _problem(case if is_linear else case._replace(family=ft.subpopulations))
    table = {"arm": [arm for arm, _ in told], "value": [value for _, value in told]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ft.analyse(problem, table, _LEVEL, order="as given", outcome="value") as study:
            first = study.progress().actions[0]
    return _half(first.lower, first.upper, case.top)


# ------------------------------------------------------------------ means over several groups


def _show_overall_means(*, quick: bool) -> None:
    """Print the widths of intervals of overall means: as shown, and by those of the groups."""
    studies, looks = (2, (60, 200)) if quick else (20, (60, 100, 200, 400, 2_000))
    columns = ("results", "shown", "sum, d", "sum, d/G", "in common")
    print(
        f"\nmedian width for an overall mean of one arm of two, confidence 95 %, {studies} studies"
    )
    print(f"{'outcome':<35}" + "".join(f"{name:>12}" for name in columns))
    for groups, rate in ((2, 0.03), (2, 0.2), (2, 0.5), (5, 0.2)):
        found = [_overall_widths(groups, rate, looks, seed) for seed in range(studies)]
        for look, widths in zip(looks, np.nanmedian(found, axis=0), strict=True):
            numbers = "".join(f"{width:>12.3f}" for width in widths)
            print(f"{f'0 or 1, {rate:.0%}, {groups} groups':<35}{look:>12,}{numbers}")


def _overall_widths(groups: int, rate: float, looks: tuple[int, ...], seed: int) -> Floats:
    """Return the widths at every look, shape (looks, 4); NaN before the first interval."""
    weights = np.full(groups, 1.0 / groups)
    problem = ft.subpopulations.Problem(
        ["a", "b"],
        dict(zip(map(str, range(groups)), weights.tolist(), strict=True)),
        measures={"cured": (0, 1), "harmed": (0, 1)},
        objective="cured",
    )
    # It must not stop before the last look.
    policy = ft.subpopulations.BlockBetting(problem, delta=1e-9, seed=seed)
    generator, found = np.random.default_rng(seed), np.full((len(looks), 4), np.nan)
    for place, look in enumerate(looks):
        while policy.told < look:
            values = (generator.random(2) < rate).astype(np.float64).tolist()
            policy.tell(policy.ask(), dict(zip(problem.measures, values, strict=True)))
        means = policy._measure_in_range(1)  # noqa: SLF001 - at other levels than its own
        if means is not None:
            found[place] = _widths_of(means, weights)
    return found


def _widths_of(means: Any, weights: Floats) -> list[float]:
    """Return the widths of the interval of an overall mean, and of what could be shown instead."""
    groups = weights.size
    target = np.zeros((1, means.results.counts.shape[1]))
    target[0, :groups] = weights

    def own(level: float) -> Floats:
        found = means.of(target, level)
        return np.concatenate([found.lower, found.upper])

    def by_groups(level: float) -> Floats:
        found = means.of_each(level)
        return np.array([found.lower[:groups] @ weights, found.upper[:groups] @ weights])

    half, others = own(_LEVEL / 2), by_groups(_LEVEL / 2 / groups)
    common = np.array([max(half[0], others[0]), min(half[1], others[1])])
    shown = own(_LEVEL), by_groups(_LEVEL), by_groups(_LEVEL / groups), common
    return [float(upper - lower) for lower, upper in shown]
