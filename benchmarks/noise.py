"""Effect of a wrong stated noise on answers, and how soon the results contradict it."""

from __future__ import annotations

import numpy as np

from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem

DELTA = 0.05
HARD = [[0.3, 0.3], [0.2, 0.2], [0.6, -0.1]]
"""Two arms with a difference of a tenth, and one that fails in one group by a tenth."""

SEPARATED = [[0.8, 0.8], [0.0, 0.0]]


def run(*, quick: bool) -> None:
    print(f"\na stated noise_std against the true one: BlockBetting, delta {DELTA}, by run")
    head = f"{'stated / true':>14}{'pulls':>8}{'wrong':>8}{'contradicted':>14}{'wrong, proven':>15}"
    for name, means in (("3 arms, 2 groups, gaps .1", HARD), ("2 arms, gap .8", SEPARATED)):
        print(f"{name}\n{head}")
        for share in (1 / 3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.5):
            _line(means, share, runs=60 if quick else 500)


def _line(means: list[list[float]], share: float, runs: int) -> None:
    problem = Problem(len(means), 2, floors=0.0, noise_std=share)
    environment = GaussianEnvironment(problem, means, std=1.0)
    template = BlockBetting(problem, delta=DELTA)
    pulls, wrong, contradicted, hidden = [], 0, 0, 0
    for seed in range(runs):
        policy = template.clone()
        policy.compiled_run(environment, np.random.default_rng(seed), 50_000)
        answer = policy.recommend()
        errs = answer.decided and answer.arm not in environment.truth.acceptable
        pulls.append(policy.told)
        wrong += errs
        contradicted += bool(policy.warnings())
        hidden += errs and policy.guarantee.proven
    rates = "".join(
        f"{count / runs:>{width}.3f}"
        for count, width in ((wrong, 8), (contradicted, 14), (hidden, 15))
    )
    print(f"{share:>14.2f}{np.mean(pulls):>8.0f}{rates}", flush=True)
