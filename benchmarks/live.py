"""Cost of a live decision: one ask and its tell, through the public methods."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.measuring import heading, measure, show
from fairtrial import Policy
from fairtrial.subpopulations import BalancedTracking, BlockBetting, RoundRobin
from papers.baics.instances import E1, trial

PAIRS = 2_000


def run(*, quick: bool) -> None:
    heading("live ask + tell", "us")
    patients = trial("cd4", 0.0).problem
    policies: list[tuple[str, Policy, str]] = [
        ("BlockBetting, E1", BlockBetting(E1.problem, delta=1e-300), "10"),
        ("BlockBetting, trial (rewards in a range)", BlockBetting(patients, delta=1e-300), "10"),
        ("BalancedTracking, E1, certified", BalancedTracking(E1.problem, delta=1e-300), "20"),
        ("BalancedTracking, E1, certified, tested", BalancedTracking(E1.problem, delta=1e-9), ""),
        ("RoundRobin, E1, certified", RoundRobin(E1.problem, delta=1e-300), ""),
    ]
    rewards = np.clip(0.1 + 0.5 * np.random.default_rng(1).standard_normal(PAIRS), -1.0, 1.0)
    for what, policy, target in policies:
        work = partial(_pairs, policy, rewards.tolist())
        work()
        show(what, measure(work, 3 if quick else 9).per(PAIRS), 1e6, target)


def _pairs(template: Policy, rewards: list[float]) -> None:
    policy = template.clone()
    for reward in rewards:
        policy.tell(policy.ask(), reward)
