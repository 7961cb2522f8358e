"""Possible truths to consider when an experiment is planned."""

from __future__ import annotations

from dataclasses import dataclass

from fairtrial.core.environment import Environment
from fairtrial.core.validation import check_instance
from fairtrial.errors import InvalidArgument

__all__ = ["Scenario"]

_LONGEST_NAME = 100


@dataclass(frozen=True, eq=False)
class Scenario:
    """An environment to plan for, with a name and a reason for considering it.

    Parameters
    ----------
    name : str
        Its name in tables and figures.
    environment : Environment
        The environment that is true in this scenario.
    why : str
        Why a reader should want to see it, in a sentence.

    Examples
    --------
    >>> from fairtrial.subpopulations import GaussianEnvironment, Problem
    >>> problem = Problem(["a", "b"], 1, noise_std=1.0)
    >>> Scenario("equal", GaussianEnvironment(problem, [[1.0], [1.0]])).environment.truth.tied
    True
    """

    name: str
    environment: Environment
    why: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name.strip()) <= _LONGEST_NAME:
            accepted = f"must be a text of 1 to {_LONGEST_NAME} characters"
            raise InvalidArgument("name", accepted, self.name)
        check_instance("environment", self.environment, Environment)
        check_instance("why", self.why, str)
