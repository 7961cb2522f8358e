from typing import Any

import numpy as np
import pytest

from fairtrial.core import Environment, Problem, Truth
from fairtrial.core.environment import Reading, Trajectory
from fairtrial.testing import check_environment, check_problem
from tests.messages import raises


class Coin(Problem):
    """One coin; keeps the contract."""

    family = "coin"

    def __init__(self, name: str = "coin") -> None:
        self.name = name
        self._freeze()

    @property
    def action_labels(self) -> Any:
        return ({"arm": self.name},)


class NotFrozen(Coin):
    def _freeze(self) -> None:
        pass


class LosesItsName(Coin):
    def to_dict(self) -> dict[str, Any]:
        return {"family": "coin", "schema": 1}


class TakesNaN(Coin):
    def check_outcome(self, outcome: Any, name: str = "reward") -> Any:
        return outcome if outcome != outcome else super().check_outcome(outcome)


class TakesAnySchema(Coin):
    @classmethod
    def from_dict(cls, data: Any) -> Any:
        return super().from_dict({**data, "schema": 1})


def test_a_problem_that_keeps_the_contract_passes() -> None:
    check_problem(Coin("a coin"))


@pytest.mark.parametrize(
    "broken",
    [NotFrozen, LosesItsName, TakesNaN, TakesAnySchema],
)
def test_a_problem_that_breaks_the_contract_is_found_out(broken: type) -> None:
    with raises(AssertionError):
        check_problem(broken("another"))


class Tossed(Environment):
    """A fair coin; keeps the contract."""

    def __init__(self) -> None:
        self.problem = Coin()

    def sample(self, pull: Any, generator: np.random.Generator) -> float:
        return float(generator.random() < 0.5)

    @property
    def truth(self) -> Truth:
        return Truth("coin", ("coin",), np.array([0.5]))


class HasItsOwnChance(Tossed):
    chance = np.random.default_rng(0)

    def sample(self, pull: Any, generator: np.random.Generator) -> float:
        return float(self.chance.random())


class ReadsAfterTheOutcome(Tossed):
    def trajectory(self, pull: Any, generator: np.random.Generator) -> Trajectory:
        return Trajectory(1.0, 2.0, (Reading(3.0, 0.5),))


class GoesBackInTime(Tossed):
    def trajectory(self, pull: Any, generator: np.random.Generator) -> Trajectory:
        return Trajectory(1.0, -2.0)


class DeniesItsTruth(Tossed):
    @property
    def truth(self) -> Truth:
        return Truth("coin", (), np.array([0.5]))


def test_an_environment_that_keeps_the_contract_passes() -> None:
    check_environment(Tossed())


@pytest.mark.parametrize(
    "broken",
    [HasItsOwnChance, ReadsAfterTheOutcome, GoesBackInTime, DeniesItsTruth],
)
def test_an_environment_that_breaks_the_contract_is_found_out(broken: type) -> None:
    with raises(AssertionError):
        check_environment(broken())
