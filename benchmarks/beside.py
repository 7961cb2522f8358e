"""How often what is shown beside an answer is wrong while it is called proven.

    ./dev bench beside

Everything that is stated is true. Only when values come, or whether they come, depends on them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fairtrial import delayed, linear, subpopulations
from fairtrial.core import Policy, Pull

RUNS = 400

Attack = Callable[[int], bool]


def _is_welcome(pull: Pull, value: float) -> bool:
    """Return whether a value speaks for the second arm."""
    return (value > 0.0) == (pull.arm == "b")


def _misses(policy: Policy) -> bool:
    """Return whether an interval misses the true difference, 0, while the answer is proven."""
    found = policy.progress()  # type: ignore[attr-defined]
    guarantee = found.recommendation.guarantee
    return (
        bool(guarantee.proven)
        and found.intervals == "anytime"
        and any(
            one.lower is not None and not one.lower <= 0.0 <= one.upper for one in found.effects
        )
    )


def _with_measures(seed: int, initial_pulls: int) -> subpopulations.BlockBetting:
    problem = subpopulations.Problem(
        ["a", "b"],
        1,
        measures=["effect", "harm"],
        objective="effect",
        ceilings={"harm": 3.0},
        noise_std={"effect": 1.0, "harm": 1.0},
        control="a",
    )
    return subpopulations.BlockBetting(problem, initial_pulls=initial_pulls, seed=seed)


def _harm_first(seed: int, *, missing: bool) -> bool:
    """Tell the harm of unwelcome pulls first, and their effect afterwards or never."""
    policy, rng = _with_measures(seed, 60), np.random.default_rng(seed)
    held = []
    for pull in policy.ask(120):
        effect, harm = rng.normal(size=2).tolist()
        if _is_welcome(pull, effect) or (missing and rng.random() < 0.4):
            policy.tell(pull, {"effect": effect, "harm": harm})
        else:
            policy.report(pull, {"harm": harm})
            held.append((pull, effect))
    for pull, effect in held:
        policy.tell(pull, {"effect": None if missing else effect})
    return _misses(policy)


def _initial_losses(seed: int, make: Callable[[int], Any]) -> bool:
    """Lose most unwelcome results of the initial pulls."""
    policy, rng = make(seed), np.random.default_rng(seed)
    for number in range(140):
        if policy.stopped:
            break
        pull, value = policy.ask(), float(rng.normal())
        if number < 100 and not _is_welcome(pull, value) and rng.random() < 0.6:
            policy.fail(pull)
        else:
            policy.tell(pull, value)
    return _misses(policy)


def _of_subpopulations(seed: int) -> subpopulations.BlockBetting:
    problem = subpopulations.Problem(["a", "b"], 1, floors=None, noise_std=1.0, control="a")
    return subpopulations.BlockBetting(problem, initial_pulls=50, seed=seed)


def _of_delayed(seed: int) -> delayed.BlockBetting:
    problem = delayed.Problem(["a", "b"], noise_std=1.0, control="a")
    return delayed.BlockBetting(problem, initial_pulls=50, seed=seed)


def _slow_values(seed: int) -> bool:
    """Lose a fifth of the effects of each arm; those of one arm that come take longer."""
    policy, rng = _with_measures(seed, 60), np.random.default_rng(seed)
    alarm = False
    for pull in policy.ask(120):
        effect, harm = rng.normal(size=2).tolist()
        if rng.random() < 0.2:
            policy.tell(pull, {"effect": None, "harm": harm})
        elif pull.arm == "a":
            policy.tell(pull, {"effect": effect, "harm": harm})
        else:
            policy.report(pull, {"harm": harm})
        alarm = alarm or any("far more results" in text for text in policy.warnings())
    return alarm or any("far more results" in text for text in policy.warnings())


def _linear_delays(seed: int) -> bool:
    """Keep 200 pulls in flight whose unusual results come first; return if the label falls."""
    problem = linear.Problem([[1.0, float(x)] for x in range(5)], noise_std=1.0)
    policy, rng = linear.BlockBetting(problem, delta=1e-9, seed=seed), np.random.default_rng(seed)
    flying: list[tuple[float, int, Pull, float]] = []
    now = 0.0
    while policy.told < 600 and not policy.stopped:
        while len(flying) < 200:
            pull, value = policy.ask(), float(rng.normal())
            wait = 400.0 if abs(value) < 1.0 else 1.0
            heapq.heappush(flying, (now + wait, pull.number, pull, value))
            now += 1.0
        came, _, pull, value = heapq.heappop(flying)
        now = max(now, came)
        policy.tell(pull, value)
        if policy.told % 25 == 0 and not policy.guarantee.proven:
            return True
    return False


ATTACKS: dict[str, Attack] = {
    "effects: harm first, effect later": lambda seed: _harm_first(seed, missing=False),
    "effects: effect never, after its block": lambda seed: _harm_first(seed, missing=True),
    "effects: initial losses, subpopulations": lambda s: _initial_losses(s, _of_subpopulations),
    "effects: initial losses, delayed": lambda s: _initial_losses(s, _of_delayed),
    "losses: one arm's values take longer": _slow_values,
    "label: linear, 200 in flight": _linear_delays,
}


def run(*, quick: bool = False) -> None:
    """Print for each attack the share of runs in which it succeeds, and its standard error."""
    number = 40 if quick else RUNS
    print("\nwhat is shown beside an answer, attacked by delays and losses", flush=True)
    for name, attack in ATTACKS.items():
        share = sum(attack(seed) for seed in range(number)) / number
        error = math.sqrt(share * (1.0 - share) / number)
        print(f"{name:42} {share:6.3f} ({error:.3f}) of {number} runs", flush=True)


if __name__ == "__main__":
    run()
