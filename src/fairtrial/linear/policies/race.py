"""What a policy asks of the state of its rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.policy import Choice
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.linear.environments import ArmEnvironment

__all__ = ["Race", "state_in"]

Floats = NDArray[np.float64]


class Race(ABC):
    """The state of a rule that samples and stops: what comes in, what is next, and how it stands.

    Candidates are the distinct ones of the reduced problem; rewards are maximised, in units of the
    noise.

    Attributes
    ----------
    initial_pulls : int
        Pulls of every arm of the basis that come before everything else.
    """

    fields: ClassVar[tuple[str, ...]]
    """Attributes that have to be saved."""

    initial_pulls: int

    follows_results: ClassVar[bool] = True
    """Whether the next pull depends on earlier results, so that these foretell it."""

    # ---------------------------------------------------------------- what happens

    @abstractmethod
    def choose(self) -> Choice:
        """Return the next pull; None if results are needed first."""

    @abstractmethod
    def learn(self, pull: Pull, reward: float, in_flight: bool, was_lost: bool) -> None:
        """Take a reward of a pull in flight, of a lost one, or of one that nobody asked for."""

    @abstractmethod
    def lose(self, pull: Pull) -> None:
        """Take note that a pull will have no result."""

    @abstractmethod
    def amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward."""

    @abstractmethod
    def run(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> None:
        """Go on, one pull after the other, to the stop or until there are that many results."""

    # --------------------------------------------------------------- how it stands

    @property
    @abstractmethod
    def found_best(self) -> bool:
        """Whether the best of the distinct candidates is found."""

    @property
    @abstractmethod
    def hopeless(self) -> bool:
        """Whether misspecified means can hide which is the best."""

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
        """The record of all rewards by arm, and what it was when theta could first be estimated."""

    @property
    @abstractmethod
    def leaders(self) -> Sequence[int]:
        """The answer once it is found; before, those among which the best by the data lead."""

    @property
    @abstractmethod
    def live(self) -> Sequence[int]:
        """The candidates that are not ruled out."""

    @property
    @abstractmethod
    def confidence_set(self) -> Sequence[int] | None:
        """Candidates among which the best is at all times; None if the rule has no such set."""

    @property
    @abstractmethod
    def promise(self) -> Guarantee:
        """The guarantee before there are any data."""

    @abstractmethod
    def weakened(self, promise: Guarantee, lost: int) -> Guarantee:
        """Return a guarantee, weakened by what the rule leaves out: that many pulls are lost."""

    @property
    def evidence(self) -> tuple[float | None, float | None]:
        """Evidence for the leader, and what it is held against."""
        return None, None

    @property
    def noise_variance(self) -> float:
        """Variance of a reward in units of the stated one; infinite while it is unknown."""
        return 1.0

    @property
    def phase(self) -> int | None:
        """The phase, if there are phases."""
        return None

    @property
    def survivors(self) -> Sequence[int] | None:
        """Candidates that a rule which eliminates for good has left."""
        return None

    @property
    def metrics(self) -> dict[str, float]:
        """What is noted of a run besides its result."""
        return {}


def state_in(race: type[Race]) -> tuple[str, ...]:
    """Return the names of the state of a policy whose race is of this class."""
    return ("_amended", *(f"_race.{field}" for field in race.fields))
