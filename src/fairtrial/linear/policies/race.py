"""The interface of a rule's state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.means import Settled
from fairtrial.core.policy import Choice
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.linear.environments import ArmEnvironment

__all__ = ["Race", "Standing", "state_in"]

Floats = NDArray[np.float64]


class Standing(ABC):
    """How a rule stands: its data, its evidence, and the candidates that are left.

    Candidates are the distinct ones of the reduced problem; rewards are maximised, in units of the
    noise.

    Attributes
    ----------
    initial_pulls : int
        Pulls of every arm of the basis that come before all others.
    """

    initial_pulls: int

    keeps_set: ClassVar[bool] = False
    """Whether the confidence set is still its own once the best is found, and not the answer."""

    has_range: bool = False
    """Whether intervals also come from blocks of results in a range, at half of the level."""

    @property
    @abstractmethod
    def found_best(self) -> bool:
        """Whether the best of the distinct candidates is found."""

    @property
    @abstractmethod
    def hopeless(self) -> bool:
        """Whether misspecified means can hide the best."""

    @property
    @abstractmethod
    def counts(self) -> Floats:
        """Results by arm, shape (K,)."""

    @property
    @abstractmethod
    def sums(self) -> Floats:
        """Sums of rewards by arm, shape (K,)."""

    @property
    @abstractmethod
    def records(self) -> tuple[Floats, Floats]:
        """The records of rewards by arm: now, and when theta could first be estimated."""

    @property
    @abstractmethod
    def leaders(self) -> Sequence[int]:
        """The answer once it is found; before that, the candidates with the best data."""

    @property
    @abstractmethod
    def live(self) -> Sequence[int]:
        """The candidates that are not ruled out."""

    @property
    @abstractmethod
    def confidence_set(self) -> Sequence[int] | None:
        """Candidates that include the best at all times; None if the rule has no such set."""

    @property
    def evidence(self) -> tuple[float | None, float | None]:
        """Evidence for the leader, and the value that it must exceed."""
        return None, None

    @property
    def noise_variance(self) -> float:
        """Variance of a reward relative to the stated one; infinite while it is unknown."""
        return 1.0

    @property
    def settled(self) -> Settled | None:
        """The results by arm that estimates count; None if all."""
        return None

    @property
    def initial_counts(self) -> Floats | None:
        """The initial pulls of every arm, shape (K,); None if they are those of the basis."""
        return None

    @property
    def is_estimable(self) -> bool | None:
        """Whether the results so far measure every direction; None if the rule does not test it."""
        return None


class Race(Standing):
    """The state of a rule that samples and stops: its data, next pull, and current answer."""

    fields: ClassVar[tuple[str, ...]]
    """Attributes that must be saved."""

    follows_results: ClassVar[bool] = True
    """Whether the next pull depends on earlier results, so that they predict it."""

    # ---------------------------------------------------------------- events

    @abstractmethod
    def choose(self) -> Choice:
        """Return the next pull; None if results are needed first."""

    @abstractmethod
    def learn(self, pull: Pull, reward: float, in_flight: bool, was_lost: bool) -> None:
        """Take a reward of a pull in flight, of a lost one, or of an unsolicited one."""

    @abstractmethod
    def lose(self, pull: Pull) -> None:
        """Handle a pull that will have no result."""

    @abstractmethod
    def amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward."""

    @abstractmethod
    def run(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> None:
        """Continue, pull after pull, until the stop or until there are that many results."""

    @property
    @abstractmethod
    def promise(self) -> Guarantee:
        """The guarantee before there are any data."""

    @abstractmethod
    def weakened(self, promise: Guarantee, lost: int) -> Guarantee:
        """Return a guarantee, weakened by what the rule leaves out, such as `lost` lost pulls."""

    @property
    def phase(self) -> int | None:
        """The current phase, if there are phases."""
        return None

    @property
    def survivors(self) -> Sequence[int] | None:
        """The remaining candidates of a rule that eliminates for good."""
        return None

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of a run besides its result."""
        return {}


def state_in(race: type[Race]) -> tuple[str, ...]:
    """Return the names of the state fields of a policy whose race has this class."""
    return ("_amended", *(f"_race.{field}" for field in race.fields))
