"""Write your own policy in plain Python; the same class runs in studies and in simulations.

Run it with ``python examples/own_policy.py``. The rule is successive elimination: try the arms
in turn, and stop once there is enough evidence that all arms but one are not the best.
"""

from __future__ import annotations

import numpy as np

import fairtrial as ft


class SuccessiveElimination(ft.Policy):
    """Try all arms that can still be the best in turn; for one group and no floors."""

    state_fields = ("counts", "sums")

    def __init__(self, problem, delta=0.05, seed=None):
        super().__init__(problem, seed)
        self.delta = delta
        self.counts = np.zeros(problem.n_actions)
        self.sums = np.zeros(problem.n_actions)

    def live(self):
        """Return the arms that can still be the best."""
        level, sigma = self.delta / self.counts.size, self.problem.scale.ravel()
        radius = ft.confidence.NormalMixture().radius(self.counts, level, sigma)
        means = self.sums / np.maximum(self.counts, 1)
        return np.flatnonzero(means + radius >= (means - radius).max())

    def choose(self):
        """Return the next arm in turn."""
        live = self.live()
        return live[self.asked % live.size]

    def learn(self, pull, outcome):
        """Learn one result."""
        self.counts[pull.action] += 1
        self.sums[pull.action] += outcome

    @property
    def stopped(self):
        """Whether only one arm can still be the best."""
        return self.live().size == 1

    def recommend(self):
        """Return the best arm so far; it is the answer if no other arm is left."""
        leader = self.problem.arms[np.argmax(self.sums / np.maximum(self.counts, 1))]
        if self.stopped:
            return ft.Recommendation(leader, "decided", leader, confidence=1 - self.delta)
        return ft.Recommendation(None, "running", leader)


def main(replications: int = 20) -> ft.Simulation:
    problem = ft.subpopulations.Problem(
        ["red", "green", "blue"], ["everybody"], floors=None, noise_std=1.0
    )
    environment = ft.subpopulations.GaussianEnvironment(problem, [[0.0], [1.5], [0.5]])
    policy = SuccessiveElimination(problem, delta=0.05)

    # In a simulation:
    bound = ft.subpopulations.complexity(environment).lower_bound(0.05)
    result = ft.simulate(policy, environment, replications, seed=0, lower_bound=bound)
    print(result.summary())

    # In a study, which records the run and audits its decisions:
    generator = np.random.default_rng(0)
    with ft.Study.create(problem, policy, storage="memory://", name="colours", seed=1) as study:
        while study.status == "running":
            pull = study.ask()
            study.tell(pull, environment.sample(pull, generator))
        print(study.recommend().arm, study.verify().ok)
    return result


if __name__ == "__main__":
    main()
