"""Pulls until the best k arms are known from outcomes: block betting, races, the bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial import Policy
from fairtrial import subpopulations as by_group
from fairtrial.delayed import (
    BlockBetting,
    InformationRacing,
    Problem,
    SimulatedEnvironment,
    complexity,
)

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, float], float]

DELTA = 0.05
MOST = 20_000


def accuracy(std: float, generator: np.random.Generator, mean: float) -> float:
    """Return a random score around a mean, in [0, 1]."""
    return float(np.clip(mean + std * generator.normal(), 0.0, 1.0))


def coin(generator: np.random.Generator, mean: float) -> float:
    """Return 0 or 1."""
    return float(generator.random() < mean)


INSTANCES: dict[str, tuple[list[float], Draw, float | None, int]] = {
    "accuracies, sd .02": ([0.90, 0.88, 0.87, 0.85, 0.80], partial(accuracy, 0.02), 0.02, 1),
    "accuracies, sd .03": ([0.90, 0.89, 0.87, 0.85, 0.80], partial(accuracy, 0.03), 0.03, 1),
    "coins .9 .8 .7": ([0.9, 0.8, 0.7], coin, None, 1),
    "coins .5 .4 .4 .3 .3": ([0.5, 0.4, 0.4, 0.3, 0.3], coin, None, 1),
    "best 2 of 6 coins": ([0.8, 0.7, 0.5, 0.45, 0.4, 0.3], coin, None, 2),
    "best 3 of 8, sd .05": ([0.9, 0.88, 0.86, 0.82, 0.8, 0.8, 0.75, 0.7],
                            partial(accuracy, 0.05), 0.05, 3),
}  # fmt: skip


def run(*, quick: bool) -> None:
    _show_pulls(quick)
    _show_nulls(quick)


def _show_pulls(quick: bool) -> None:
    runs = 3 if quick else 20
    print(f"\npulls until the best k are known, delta {DELTA:g}, {runs} runs (at most {MOST:,})")
    for name, (means, draw, std, top) in INSTANCES.items():
        print(f"{name}, best {top}", flush=True)
        for rule, make in _rules(means, std, top).items():
            number = runs if "half the range" not in rule else min(runs, 2)
            _show(rule, [_play(make(), means, draw, seed, top) for seed in range(number)])
        stds = np.array([np.sqrt(mean * (1 - mean)) if std is None else std for mean in means])
        problem = Problem(len(means), top=top, noise_std=stds)
        bound = complexity(SimulatedEnvironment(problem, means)).lower_bound(DELTA)
        print(f"  {'bound for the true noise, whatever the rule':<44}{bound:>8,.0f}")


def _rules(means: list[float], std: float | None, top: int) -> dict[str, Callable[[], Policy]]:
    number = len(means)
    bounded = Problem(number, top=top, reward_range=(0, 1))
    known = np.sqrt(np.multiply(means, np.subtract(1, means))) if std is None else std
    rules: dict[str, Callable[[], Policy]] = {
        "block betting, range": partial(BlockBetting, bounded),
        "block betting, true deviations": partial(
            BlockBetting, Problem(number, top=top, noise_std=known)
        ),
        "race, true deviations": partial(
            InformationRacing, Problem(number, top=top, noise_std=known), max_pulls=MOST
        ),
        "race, range (half the range as deviation)": partial(
            InformationRacing, bounded, max_pulls=MOST
        ),
    }
    if top == 1:
        plain = by_group.Problem(
            [str(arm) for arm in range(number)], ["all"], floors=None, reward_range=(0, 1)
        )
        rules["block betting of subpopulations, one group"] = partial(by_group.BlockBetting, plain)
    return rules


def _play(
    policy: Any, means: list[float], draw: Draw, seed: int, top: int
) -> tuple[int, bool, bool]:
    """Return the pulls of a run, whether it was decided, and whether its answer was wrong."""
    generator = np.random.default_rng([seed, 3])
    while not policy.stopped and policy.told < MOST:
        pull = policy.ask()
        policy.tell(pull, draw(generator, means[pull.action if top > 1 else int(pull.arm)]))
    answer = policy.recommend()
    best = {str(arm) for arm in np.argsort(means)[::-1][:top]}
    given = set(answer.arm) if isinstance(answer.arm, tuple) else {answer.arm}
    return policy.told, answer.decided, answer.decided and given != best


def _show(rule: str, runs: list[tuple[int, bool, bool]]) -> None:
    pulls = np.array([run[0] for run in runs], dtype=np.float64)
    decided, wrong = sum(run[1] for run in runs), sum(run[2] for run in runs)
    error = pulls.std(ddof=1) / np.sqrt(len(runs))
    print(
        f"  {rule:<44}{pulls.mean():>8,.0f} ({error:,.0f}), decided {decided} of {len(runs)}, "
        f"wrong {wrong}"
    )


# ---------------------------------------------------------------------------- hard nulls

NULL_DELTA = 0.1


def coins(generator: np.random.Generator, means: Floats, counts: Floats) -> list[Floats]:
    """Return draws of 0 and 1, arm by arm."""
    return [
        (generator.random(int(count)) < mean).astype(np.float64)
        for mean, count in zip(means, counts, strict=True)
    ]


def normals(generator: np.random.Generator, means: Floats, counts: Floats) -> list[Floats]:
    """Return draws with unit noise, arm by arm."""
    return [
        mean + generator.normal(size=int(count)) for mean, count in zip(means, counts, strict=True)
    ]


NULLS: dict[str, tuple[list[float], int, Callable[..., list[Floats]], float]] = {
    "best 1 of 2 coins, gap 1e-6": ([0.5 + 1e-6, 0.5], 1, coins, 0.0),
    "best 1 of 2, rare losses": ([0.98 + 1e-6, 0.98], 1, coins, 0.0),
    "best 2 of 4 equal coins": ([0.5] * 4, 2, coins, 0.0),
    "best 3 of 6, border tied": ([0.8, 0.7, 0.5, 0.5, 0.3, 0.2], 3, coins, 0.0),
    "best 3 of 8 equal, noise known": ([0.0] * 8, 3, normals, 0.0),
    "best 2 of 5, border tied, noise known": ([1.0, 0.0, 0.0, 0.0, -1.0], 2, normals, 0.0),
    "best 2 of 5, gap just over a tolerance": ([0.7, 0.6, 0.4999, 0.3, 0.3], 2, coins, 0.1),
    "best 2 of 4, known noise, tolerance": ([1.0, 0.5, -0.5001, -1.0], 2, normals, 1.0),
}
"""Means, k, draws and tolerance. With a tolerance, an answer is wrong if one of its arms is more
than the tolerance below the k-th best."""


def _show_nulls(quick: bool) -> None:
    runs, most = (100, 600) if quick else (2_000, 1_500)
    print(f"\nhard nulls, delta {NULL_DELTA:g}, {runs:,} runs of at most {most:,} pulls")
    print(f"  {'':<44}{'wrong':>8}{'ever rejected':>15}{'undecided':>11}")
    for name, (means, top, draw, tolerance) in NULLS.items():
        found = np.array(
            [play_null(np.array(means), top, draw, tolerance, seed, most) for seed in range(runs)]
        )
        wrong, rejected, undecided = found.mean(axis=0)
        print(f"  {name:<44}{wrong:>8.4f}{rejected:>15.4f}{undecided:>11.3f}", flush=True)


def play_null(
    means: Floats, top: int, draw: Callable[..., list[Floats]], tolerance: float, seed: int,
    most: int, delta: float = NULL_DELTA, *, planned_end: bool = False,
) -> tuple[bool, bool, bool]:  # fmt: skip
    """Return whether a run is wrong, whether it ever rejects the right set, and is undecided."""
    from fairtrial.delayed._kernels import blocks
    from fairtrial.delayed._kernels.top_sets import wealth_against

    # ruff: noqa: SLF001  # the kernels of a policy: its own methods take longer than they
    number, generator = means.size, np.random.default_rng([seed, top, 7])
    noise: dict[str, Any] = {"reward_range": (0, 1)} if draw is not normals else {"noise_std": 1.0}
    problem = Problem(number, top=top, tolerance=tolerance, **noise)
    end = {"max_pulls": most, "planned_end": True} if planned_end else {}
    policy = BlockBetting(problem, delta, **end)
    arrays, state, right = policy._blocks.arrays, policy._blocks.state, np.zeros(number)
    right[np.argsort(-means, kind="stable")[:top]] = 1.0
    pulls, rejected = 0, False
    while not state.finished[0] and pulls < most:
        issued = [blocks.ask(arrays, 0.0)]
        planned = state.blocks.planned[state.blocks.first[0] % len(state.blocks.planned)]
        issued += [blocks.ask(arrays, 0.0) for _ in range(int(planned.sum()) - 1)]
        values = [iter(own) for own in draw(generator, means, planned)]
        for arm, tag in issued:
            blocks.tell(arrays, arm, tag, next(values[arm]), pulls)
            pulls += 1
        if tolerance == 0.0:
            rejected |= wealth_against(state.wealth, right) == np.inf
    finished = bool(state.finished[0])
    given = means[state.wealth.target > 0.0] if finished else means[right > 0.0]
    worst = np.sort(means)[-top] - tolerance
    wrong = bool(finished and (given < worst).any())
    return wrong, rejected or wrong, not finished
