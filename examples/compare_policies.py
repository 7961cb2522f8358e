"""Which policy needs the fewest results? Run each many times in one environment, on all cores.

Run it with ``python examples/compare_policies.py``. The environment is the paper's first
instance, E1: three arms, three groups, and no group mean may be below zero.
"""

from __future__ import annotations

import fairtrial as ft

MEANS = [[0.2, 0.6, 0.8], [0.4, 0.4, 0.3], [-0.2, 1.0, 1.5]]


def main(replications: int = 100, delta: float = 0.1) -> dict[str, ft.Simulation]:
    families = ft.subpopulations
    problem = families.Problem(3, 3, group_weights=[0.2, 0.3, 0.5], floors=0.0, noise_std=1.0)
    environment = families.GaussianEnvironment(problem, MEANS)
    bound = families.complexity(environment).lower_bound(delta)
    policies = {
        "BlockBetting (proven)": families.BlockBetting(problem, delta),
        "BalancedTracking (proven)": families.BalancedTracking(problem, delta),
        "BalancedTracking (heuristic stop)": families.BalancedTracking(
            problem, delta, stopping="stylised"
        ),
        "TrackAndStop (the paper's)": families.TrackAndStop(problem, delta, stopping="stylised"),
    }
    results = {}
    print(f"every rule needs at least {bound:.0f} results on average")
    for name, policy in policies.items():
        result = ft.simulate(policy, environment, replications, seed=0, lower_bound=bound)
        summary = result.summary()
        print(f"{name:36}{summary.stopping_time.mean:8.0f}{result.error_rate:8.3f} wrong")
        results[name] = result
    return results


if __name__ == "__main__":
    main()
