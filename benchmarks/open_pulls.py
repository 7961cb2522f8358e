"""What people who arrive and pulls that stay open cost, and whether hidden results mislead."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
)

RATES = np.array([[0.5, 0.5], [0.7, 0.65]])
MEANS = np.array([[0.0, 0.0], [0.4, 0.3]])
DELTA = 0.05
MOST_PULLS = 6_000
HELD = 25
"""The number of the pull that stays open: one of the initial pulls, or of the first blocks."""

NULLS = {
    "equal arms": (None, (0.5, 0.5 + 1e-6), 1, (1.0, 0.0)),
    "answer on its floor": (0.5, (0.5, 0.3), 0, (0.0, 1.0)),
    "all short of their floor": (0.5, (0.5 - 1e-6, 0.5 - 1e-6), 2, (1.0, 1.0)),
}
"""Floor, rates of two arms, right answer (2: none), and the results of each arm against it."""


def run(*, quick: bool) -> None:
    _arrivals(4 if quick else 300)
    _costs(4 if quick else 100)
    _errors(4 if quick else 400)


def _arrivals(runs: int) -> None:
    print(f"\npulls with a result at delta {DELTA}; means (se) and medians of {runs} runs")
    print("rewards     groups  in flight, delays        people arrive        the policy   medians")
    for is_ranged in (True, False):
        for share in (0.65, 0.95):
            for flight, delays in [(1, "equal"), (84, "equal"), (84, "exponential")]:
                _compare_arrivals(runs, flight, delays, share, is_ranged=is_ranged)


def _compare_arrivals(
    runs: int, flight: int, delays: str, share: float, *, is_ranged: bool
) -> None:
    rewards = "in a range" if is_ranged else "known noise"
    cells, medians = "", []
    for arrive in (True, False):
        told = np.array(
            [
                _told(seed, -1, flight, delays, arrive=arrive, share=share, is_ranged=is_ranged)
                for seed in range(runs)
            ]
        )
        medians.append(np.median(told))
        error = told.std() / np.sqrt(runs)
        cells += f"{told.mean():>8.0f} ({error:.0f}), {medians[-1]:.0f}"
    groups = f"{100 * share:.0f} : {100 - 100 * share:.0f}"
    ratio = medians[0] / medians[1]
    print(f"{rewards:<12}{groups}{flight:>5} {delays:<12}{cells}{ratio:>8.2f}", flush=True)


def _costs(runs: int) -> None:
    print(f"\npulls with a result at delta {DELTA}, two groups 65 : 35; means of {runs} runs (se)")
    print("in flight, delays   who chooses the group    all told    one open    ratio")
    for flight, delays in [(1, "equal"), (20, "equal"), (84, "equal"), (84, "exponential")]:
        for arrive in (True, False):
            told = np.array(
                [
                    [_told(seed, held, flight, delays, arrive=arrive) for held in (-1, HELD)]
                    for seed in range(runs)
                ]
            )
            means, errors = told.mean(axis=0), told.std(axis=0) / np.sqrt(runs)
            who = "people arrive" if arrive else "the policy"
            cells = "".join(
                f"{mean:>8.0f} ({e:.0f})" for mean, e in zip(means, errors, strict=True)
            )
            print(
                f"{flight:>9} {delays:<12}{who:>18}{cells}{means[1] / means[0]:>9.2f}", flush=True
            )


def _told(
    seed: int,
    held: int,
    flight: int,
    delays: str,
    *,
    arrive: bool,
    share: float = 0.65,
    is_ranged: bool = True,
) -> int:
    """Return the results at the stop; a result comes after about `flight` other pulls."""
    groups = {"x": share, "y": 1 - share}
    if is_ranged:
        problem = Problem(["a", "b"], groups, floors=None, reward_range=(0, 1))
        environment = BernoulliEnvironment(problem, RATES)
    else:
        problem = Problem(["a", "b"], groups, floors=None, noise_std=1.0)
        environment = GaussianEnvironment(problem, MEANS)
    policy, generator = BlockBetting(problem, delta=DELTA, seed=seed), np.random.default_rng(seed)
    people, on_the_way = _people(seed, share), []
    while not policy.stopped and policy.asked < MOST_PULLS:
        pull = policy.ask(group=next(people)) if arrive else policy.ask()
        delay = flight - 1 if delays == "equal" else generator.exponential(flight)
        result = environment.sample(pull, generator)
        if pull.number != held:
            heapq.heappush(on_the_way, (pull.number + delay, pull.number, pull, result))
        while on_the_way and on_the_way[0][0] < policy.asked and not policy.stopped:
            _, _, arrived, result = heapq.heappop(on_the_way)
            policy.tell(arrived, result)
    return policy.told


def _people(seed: int, share: float) -> Iterator[str]:
    generator = np.random.default_rng([seed, 1])
    while True:
        yield "x" if generator.random() < share else "y"


def _errors(runs: int) -> None:
    print(
        f"\nan adversary hides the worst tenth: right answer ever ruled out, delta .1, {runs} runs"
    )
    for name in NULLS:
        wrong = sum(_rules_out(name, seed) for seed in range(runs))
        print(f"{name:>26}{wrong / runs:>8.3f}", flush=True)


def _rules_out(name: str, seed: int, results: int = 600) -> bool:
    """Return whether the right answer is ever ruled out.

    Results against it are told first, the others once 20 pulls are open; a tenth never.
    """
    floor, rates, right, against = NULLS[name]
    problem = Problem(["a", "b"], 1, floors=floor, reward_range=(0, 1))
    policy, generator = BlockBetting(problem, delta=0.1, seed=seed), np.random.default_rng(seed)
    waiting, hidden = [], 0
    while policy.told < results and not policy.stopped:
        pull = policy.ask()
        result = float(generator.random() < rates[pull.action])
        if result == against[pull.action]:
            policy.tell(pull, result)
        elif hidden < 0.1 * policy.asked:
            hidden += 1
        else:
            waiting.append((pull, result))
            if len(waiting) == 20:
                policy.tell(*waiting.pop(0))
    answer = None if right == 2 else problem.arms[right]
    return answer not in (policy.recommend().candidates or ())
