"""Compile every kernel once, so that parallel test processes find them in the cache."""

import numpy as np

from fairtrial import subpopulations


def main() -> None:
    """Ask, tell and simulate with one policy of each compiled path."""
    means = [[0.5, 0.4], [0.2, 0.3]]
    known = subpopulations.Problem(2, 2, noise_std=1.0)
    world = subpopulations.GaussianEnvironment(known, means)
    for cls in (subpopulations.BlockBetting, subpopulations.BalancedTracking):
        policy = cls(known, seed=0)
        pulls = policy.ask(2)
        policy.tell(pulls[0], 0.5)
        policy.fail(pulls[1])
        policy.amend(pulls[0], 0.5, 0.4)
        policy.progress()
        cls(known, seed=0).compiled_run(world, np.random.default_rng(0), 50)
    subpopulations.complexity(known, means)


if __name__ == "__main__":
    main()
