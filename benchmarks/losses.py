"""Cost of lost results for block betting on rewards in a range, by the lost share."""

from __future__ import annotations

import numpy as np

from fairtrial.subpopulations import BlockBetting, Problem
from papers.baics.instances import trial

SHARES = (0.0, 0.01, 0.02, 0.03, 0.05)
DELTA = 0.1
MOST_PULLS = 30_000

SHOP_DELTA = 0.05
SHOP = (
    *(("informative", share) for share in (0.0, 0.001, 0.003, 0.005)),
    *(("ignorable", share) for share in (0.0, 0.03)),
)
MOST_VISITS = 200_000
TOGETHER = 200
"""Visits whose results are told together."""


def run(*, quick: bool) -> None:
    runs = 4 if quick else 40
    print(f"\npulls asked for at delta {DELTA}, ACTG 175, with results lost at random")
    print(f"{'lost':>6}{'losses':>14}{'mean':>9}{'median':>9}{'undecided':>11}{'wrong':>7}")
    for share in SHARES:
        for losses in ("informative", "ignorable"):
            asked = [_play(losses, share, seed) for seed in range(runs)]
            pulls = np.array([pulls for pulls, _ in asked])
            open_ = sum(answer is None for _, answer in asked)
            wrong = sum(answer not in (None, "zdv_ddi") for _, answer in asked)
            print(
                f"{share:>6.0%}{losses:>14}{pulls.mean():>9,.0f}{np.median(pulls):>9,.0f}"
                f"{open_:>11}{wrong:>7}",
                flush=True,
            )
    _run_shop(4 if quick else 50)


def _run_shop(runs: int) -> None:
    """Print what results of a shop that are never told cost: conversion of 4 % against 5 %."""
    print(f"\npulls asked for at delta {SHOP_DELTA}, conversion 4 % and 5 %, {runs} runs")
    print(f"{'lost':>6}{'losses':>14}{'mean':>9}{'median':>9}{'undecided':>11}{'wrong':>7}")
    for losses, share in SHOP:
        asked = [_play_shop(losses, share, seed) for seed in range(runs)]
        pulls = np.array([pulls for pulls, _ in asked])
        open_ = sum(answer is None for _, answer in asked)
        wrong = sum(answer not in (None, "new") for _, answer in asked)
        print(
            f"{share:>6.1%}{losses:>14}{pulls.mean():>9,.0f}{np.median(pulls):>9,.0f}"
            f"{open_:>11}{wrong:>7}",
            flush=True,
        )


def _play_shop(losses: str, share: float, seed: int) -> tuple[int, str | None]:
    problem = Problem(["old", "new"], ["all"], reward_range=(0, 1))
    policy = BlockBetting(problem, delta=SHOP_DELTA, losses=losses, seed=seed)
    generator = np.random.default_rng(seed)
    chance = {"old": 0.04, "new": 0.05}
    while not policy.stopped and policy.asked < MOST_VISITS:
        for pull in policy.ask(TOGETHER):
            if generator.random() < share:
                policy.fail(pull)
            else:
                policy.tell(pull, float(generator.random() < chance[pull.arm]))
    return policy.asked, policy.recommend().arm


def _play(losses: str, share: float, seed: int) -> tuple[int, str | None]:
    environment = trial("cd4", 0.0).environment
    policy = BlockBetting(environment.problem, delta=DELTA, losses=losses, seed=seed)
    generator = np.random.default_rng(seed)
    while not policy.stopped and policy.asked < MOST_PULLS:
        pull = policy.ask()
        if generator.random() < share:
            policy.fail(pull)
        else:
            policy.tell(pull, environment.sample(pull, generator))
    return policy.asked, policy.recommend().arm
