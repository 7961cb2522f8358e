"""Cost of races with late results: complete runs, and live decisions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.measuring import heading, measure, show
from fairtrial import Policy
from fairtrial.core import run_policy
from fairtrial.delayed import (
    ASHA,
    BlockBetting,
    Hyperband,
    InformationRacing,
    MedianStopping,
    Problem,
    Racing,
    SequentialHalving,
    SimulatedEnvironment,
    SuccessiveHalving,
    SuccessiveRejects,
)

ARMS, SLOTS = 100, 10
LIVE_ARMS = 1_000
PULLS = 2_000

RULES: dict[str, tuple[Callable[..., Policy], str]] = {
    "race, outcomes only": (partial(Racing, variant="full"), "1"),
    "information, pairs": (InformationRacing, "3"),
    "race, proven": (Racing, "5"),
    "race, published": (partial(Racing, variant="partial"), "10"),
    "information, boxes": (partial(InformationRacing, test="box"), ""),
}

BUDGETS: dict[str, Callable[..., Policy]] = {
    "successive halving": SuccessiveHalving,
    "ASHA": ASHA,
    "Hyperband": partial(Hyperband, max_readings=81),
    "median stopping": partial(MedianStopping, budget=3 * ARMS),
    "sequential halving": partial(SequentialHalving, budget=10 * ARMS),
    "successive rejects": partial(SuccessiveRejects, budget=10 * ARMS),
}

PLAIN: dict[str, Callable[..., Policy]] = {
    "successive halving": SuccessiveHalving,
    "information, top two": partial(InformationRacing, sampling="top_two"),
}


def run(*, quick: bool) -> None:
    repetitions = 10 if quick else 40
    heading(f"a simulated race, {ARMS} arms, {SLOTS} in flight", "ms")
    environment = _free()
    for name, (make, target) in RULES.items():
        policy = make(environment.problem)
        _race(policy, environment)
        show(name, measure(partial(_race, policy, environment), repetitions), 1e3, target)
    heading("the same environment, rules with a budget", "ms")
    for name, make in BUDGETS.items():
        policy = make(environment.problem)
        _race(policy, environment)
        show(name, measure(partial(_race, policy, environment), repetitions), 1e3, "")
    heading("the same environment, rules in the plain loop", "ms")
    for name, make in PLAIN.items():
        policy = make(environment.problem)
        show(
            name,
            measure(partial(_plain_run, policy, environment), max(1, repetitions // 10)),
            1e3,
            "",
        )
    _show_block_betting(repetitions)
    heading(f"live, {LIVE_ARMS:,} arms", "us")
    for name, (make, _) in RULES.items():
        _live(name, partial(make, delta=1e-9), max(3, repetitions // 5))
    _live("successive halving", partial(SuccessiveHalving, pulls=10**4), max(3, repetitions // 5))


def _free() -> SimulatedEnvironment:
    """Return means one apart, with the best fifth wanted and readings at 99 steps."""
    means = np.random.default_rng(0).permutation(2.0 * ARMS - np.arange(ARMS))
    problem = Problem(ARMS, top=ARMS // 5, noise_std=0.5, feedback="unbiased", reading_std=0.25)
    return SimulatedEnvironment(problem, means, delay=100.0)


def _show_block_betting(repetitions: int) -> None:
    """Show the cost of block betting per pull: simulated, and live far from the end."""
    heading("block betting: a simulated pull, and a live ask + tell", "us")
    for arms, top in ((2, 1), (10, 3), (100, 1)):
        problem = Problem(arms, top=top, noise_std=1.0)
        template = BlockBetting(problem, delta=1e-300)
        environment = SimulatedEnvironment(problem, 0.01 * np.arange(arms), delay=1.0)
        works = {
            "simulated": partial(_simulated_pulls, template, environment),
            "live": partial(_live_pulls, template.clone(), np.random.default_rng(1)),
        }
        for how, work in works.items():
            timing = measure(work, repetitions).per(PULLS)
            show(f"{arms} arms, best {top}: {how}", timing, 1e6, "")


def _simulated_pulls(template: Policy, environment: SimulatedEnvironment) -> None:
    run = template.clone().compiled_run(environment, np.random.default_rng(1), PULLS, SLOTS)
    assert run is not None


def _live_pulls(policy: Policy, generator: np.random.Generator) -> None:
    for value in generator.integers(2, size=PULLS).tolist():
        policy.tell(policy.ask(), float(value))


def _race(template: Policy, environment: SimulatedEnvironment) -> None:
    run = template.clone().compiled_run(environment, np.random.default_rng(1), None, SLOTS)
    assert run is not None
    assert run.status == "decided"


def _plain_run(template: Policy, environment: SimulatedEnvironment) -> None:
    run = run_policy(template.clone(), environment, np.random.default_rng(1), parallel=SLOTS)
    assert run.status == "decided"


def _live(name: str, make: Callable[..., Policy], repetitions: int) -> None:
    """Show the cost of each method in a race that has started and is far from its end."""
    problem = Problem(LIVE_ARMS, top=50, noise_std=1.0, feedback="unbiased", reading_std=0.5)
    policy = make(problem)
    values = iter(np.random.default_rng(1).standard_normal(10**6).tolist())
    for pull in policy.ask(2 * LIVE_ARMS):
        policy.tell(pull, next(values))
    for verb, target in (("ask", ""), ("report", ""), ("tell", "1000")):
        pulls = policy.ask(LIVE_ARMS * repetitions)

        def work(verb: str = verb, waiting: list = pulls) -> None:
            for _ in range(LIVE_ARMS):
                if verb == "ask":
                    policy.ask()
                else:
                    getattr(policy, verb)(waiting.pop(), next(values))

        timing = measure(work, repetitions).per(LIVE_ARMS)
        show(f"{name}: {verb}", timing, 1e6, target)
