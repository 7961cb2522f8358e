"""Patients arrive by themselves: the group is given, and only the treatment is chosen.

Run it with ``python examples/passive_arrivals.py``. Some outcomes never arrive: such a pull is
reported as failed, and the guarantee for rewards in a known range still holds.
"""

from __future__ import annotations

import numpy as np

import fairtrial as ft

MEANS = [[0.30, 0.20], [0.70, 0.60], [0.80, 0.25]]
ARRIVING = {"young": 0.7, "old": 0.3}
LOST = 0.05


def main(seed: int = 1) -> ft.Recommendation:
    problem = ft.subpopulations.Problem(
        arms=["old drug", "new drug", "mixture"],
        groups=["young", "old"],
        floors=0.4,
        reward_range=(0, 1),
    )
    policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
    environment = ft.subpopulations.BernoulliEnvironment(problem, MEANS)
    generator = np.random.default_rng(seed)
    with ft.Study.create(problem, policy, storage="memory://", name="clinic", seed=seed) as study:
        while study.status == "running":
            group = generator.choice(list(ARRIVING), p=list(ARRIVING.values()))
            pull = study.ask(group=str(group))
            if generator.random() < LOST:
                study.fail(pull, "did not come back")
            else:
                study.tell(pull, environment.sample(pull, generator))
        answer, health = study.recommend(), study.health()
    print(f"answer: {answer.arm} ({answer.guarantee.label}); lost: {health['lost']}")
    return answer


if __name__ == "__main__":
    main()
