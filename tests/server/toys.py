"""A policy in plain Python that starts at once: pull number n is of arm n mod 4."""

from typing import Any

from fairtrial.core import Policy, Problem, Pull, Recommendation

ARMS = 4


class FourArms(Problem):
    """Four arms and nothing else."""

    family = "four arms"

    def __init__(self) -> None:
        self.arms = tuple(map(str, range(ARMS)))
        self._rows = tuple({"arm": arm} for arm in self.arms)
        self._freeze()

    @property
    def action_labels(self) -> tuple[dict[str, str], ...]:
        return self._rows


class InTurn(Policy):
    """Pulls the arms in turn, forever, and adds up their rewards."""

    state_fields = ("sums",)
    endless = True

    def __init__(self, problem: Problem, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.sums = [0.0] * problem.n_actions

    def choose(self, **context: Any) -> int:
        return self.asked % self.problem.n_actions

    def learn(self, pull: Pull, outcome: float) -> None:
        self.sums[pull.action] += outcome

    @property
    def stopped(self) -> bool:
        return False

    def recommend(self) -> Recommendation:
        return Recommendation(None, "running", leader=str(self.sums.index(max(self.sums))))


OWN: dict[str, Any] = {"policies": [InTurn], "problems": [FourArms]}
