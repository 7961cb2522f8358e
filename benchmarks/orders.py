"""A random order of pulls: its cost, the attack that it prevents, and unbiased estimates.

First, pulls until the stop. Then an attack on two equal arms: someone who knows the rest of a block
guesses the next arm, and picks patients who do .15 better if b is expected, and .15 worse if a is
expected. Last, the bias at the stop of the plain mean of the chosen arm, and of the mean weighted
by propensities.
"""

from __future__ import annotations

import numpy as np

from fairtrial import simulate
from fairtrial.subpopulations import BlockBetting, Problem
from papers.baics.instances import E1, NONE_FEASIBLE, trial

ORDERS: tuple[bool | str, ...] = (False, True, "bernoulli")
NAMES = {False: "fixed", True: "random", "bernoulli": "bernoulli"}
DELTA = 0.05
MOST_PULLS = 1_500
SHIFT = 0.15


def run(*, quick: bool) -> None:
    runs = 20 if quick else 1_000
    print(f"\npulls at delta {DELTA}: mean (standard error)")
    for name, instance in (("E1", E1), ("N", NONE_FEASIBLE), ("ACTG 175", trial("cd4", 0.0))):
        for order in ORDERS:
            environment = instance.environment
            policy = BlockBetting(environment.problem, delta=DELTA, randomize=order)
            found = simulate(policy, environment, runs, seed=1).stopping_time
            error = found.std() / np.sqrt(runs)
            print(f"{name:>10}{NAMES[order]:>11}{found.mean():>9,.0f} ({error:.0f})", flush=True)
    runs = 4 if quick else 200
    print(f"\nequal arms at delta {DELTA}: runs of {runs} that name b within {MOST_PULLS} pulls")
    for order in ORDERS:
        wrong = sum(_names_b(order, seed) for seed in range(runs))
        print(f"{NAMES[order]:>11}{wrong / runs:>9.1%}", flush=True)
    runs = 20 if quick else 2_000
    print("\nmean of the named arm at the stop, minus the true .55: mean (standard error)")
    plain, weighted = np.array([_bias(seed) for seed in range(runs)]).T
    for name, values in (("plain", plain), ("weighted", weighted)):
        error = np.nanstd(values) / np.sqrt(runs)
        print(f"{name:>10}{np.nanmean(values):>9.4f} ({error:.4f})", flush=True)


def _problem() -> Problem:
    return Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))


def _names_b(order: bool | str, seed: int) -> bool:
    policy = BlockBetting(_problem(), delta=DELTA, randomize=order, max_pulls=MOST_PULLS, seed=seed)
    generator = np.random.default_rng(seed)
    while not policy.stopped:
        expected = 0.5 + (SHIFT if _expects_b(policy) else -SHIFT)
        policy.tell(policy.ask(), float(generator.random() < expected))
    return policy.recommend().arm == "b"


def _expects_b(policy: BlockBetting) -> bool:
    """Return whether someone who knows the open block expects b next."""
    blocks = policy._blocks.state.blocks  # noqa: SLF001 - an attack looks where it should not
    slot = int(blocks.first[0]) % blocks.waiting.size
    known = blocks.shares[slot] if blocks.shares[slot].any() else blocks.to_issue[slot]
    return bool(known[1] > known[0])


def _bias(seed: int) -> tuple[float, float]:
    policy = BlockBetting(_problem(), delta=DELTA, seed=seed, max_pulls=20_000)
    generator = np.random.default_rng(seed)
    rows = []
    while not policy.stopped:
        pull = policy.ask()
        value = float(generator.random() < (0.55 if pull.arm == "a" else 0.45))
        policy.tell(pull, value)
        rows.append((pull.action, value, 1.0 / float(pull.propensity or np.nan)))
    arms, values, weights = np.array(rows).T
    named = arms == (0 if policy.recommend().arm == "a" else 1)
    truth = 0.55 if policy.recommend().arm == "a" else 0.45
    plain = values[named].mean() - truth
    return plain, np.average(values[named], weights=weights[named]) - truth
