"""How often a wrong answer on linear arms is labelled proven if the assumptions are false.

    python -m benchmarks.linear_checks

The noise is three times as large as stated, or the means do not depend on the features.
"""

from __future__ import annotations

import numpy as np

from fairtrial.core import Policy
from fairtrial.linear import BlockBetting, LinGapE, Problem


def outcome(policy: Policy, means: np.ndarray, noise: float, seed: int) -> tuple[bool, bool]:
    """Run a policy until it stops; return whether it is wrong, and labelled proven."""
    rng = np.random.default_rng(seed)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(means[pull.action] + noise * rng.normal()))
    found = policy.recommend()
    assert found.guarantee is not None
    return found.decided and found.arm != str(means.argmax()), found.guarantee.proven


def report(name: str, found: list[tuple[bool, bool]]) -> None:
    """Print one line."""
    wrong = sum(bad for bad, _ in found)
    both = sum(bad and proven for bad, proven in found)
    print(f"{name}: wrong {wrong} of {len(found)}, of these proven {both}", flush=True)


def main() -> None:
    """Print one line for every rule and environment."""
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7], [0.9, 0.2], [0.2, 0.9]])
    problem = Problem(features, noise_std=1.0)
    means = features @ [1.0, 0.6]
    rng = np.random.default_rng(7)
    bent = [(rng.normal(size=(50, 25)), 5.0 * rng.normal(size=50)) for _ in range(20)]
    for cls in (BlockBetting, LinGapE):
        runs = [outcome(cls(problem, max_pulls=20_000), means, 3.0, seed) for seed in range(200)]
        report(f"{cls.__name__}, noise three times the stated", runs)
        runs = [
            outcome(cls(Problem(rows, noise_std=1.0), max_pulls=3000), values, 1.0, seed)
            for seed, (rows, values) in enumerate(bent)
        ]
        report(f"{cls.__name__}, 50 means that 25 features do not explain", runs)


if __name__ == "__main__":
    main()
