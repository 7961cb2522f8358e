"""The scenarios that an experiment is planned for: the assumed means, smaller effects, and none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fairtrial.core import Environment
from fairtrial.core.family import FAMILIES, Family, family_of
from fairtrial.core.keywords import named_arguments
from fairtrial.core.scenario import Scenario
from fairtrial.core.validation import check_instance, check_number
from fairtrial.errors import NotSupported

__all__ = ["Scenario", "at_effect", "default_scenarios"]

_ROUNDING = 1e-12

_WHY = {
    "null": "There is no difference: naming an arm is an error",
    "half": "The differences are half as large as assumed",
    "full": "The means are as assumed",
}


@named_arguments
def default_scenarios(environment: Environment, control: str | None = None) -> tuple[Scenario, ...]:
    """Return the scenarios that a study protocol should cover, from the assumed means.

    Parameters
    ----------
    environment : Environment
        The problem with the assumed means; its family must have scenarios (`subpopulations`,
        `linear`, `delayed`).
    control : str, optional
        The arm from which differences are counted; by default the worst arm, in `subpopulations`
        the worst acceptable arm.

    Returns
    -------
    tuple of Scenario
        *null*: all arms have the control's means; *half*: all differences from it are half as
        large; *full*: the assumed means. In `subpopulations`, if arms have limits, also *one group
        harmed*: the best arm is just beyond a limit in one group; and *none acceptable*: every
        arm is beyond a limit. A scenario is left out if the rewards' range makes it impossible or
        it has the means of an earlier one.

    Raises
    ------
    InvalidArgument
        If `control` is not an arm.
    NotSupported
        If the environment has no scenarios.

    Examples
    --------
    >>> from fairtrial.subpopulations import BernoulliEnvironment, Problem
    >>> problem = Problem(["old", "new"], ["x", "y"], floors=0.2, reward_range=(0, 1))
    >>> environment = BernoulliEnvironment(problem, [[0.3, 0.3], [0.5, 0.4]])
    >>> for scenario in default_scenarios(environment):
    ...     print(scenario.name, scenario.environment.means.round(3).tolist())
    null [[0.3, 0.3], [0.3, 0.3]]
    half [[0.3, 0.3], [0.4, 0.35]]
    full [[0.3, 0.3], [0.5, 0.4]]
    one group harmed [[0.3, 0.3], [0.5, 0.18]]
    none acceptable [[0.1, 0.3], [0.5, 0.0]]
    """
    family, build = _family_of(environment)
    found = [
        Scenario("full", environment, _WHY["full"]),
        Scenario("half", build(environment, 0.5, control), _WHY["half"]),
        Scenario("null", build(environment, 0.0, control), _WHY["null"]),
    ]
    different = list(_different([*found, *family.harms(environment)]))
    return (*[s for s in found[::-1] if s in different], *[s for s in different if s not in found])


def _different(scenarios: list[Scenario]) -> Iterator[Scenario]:
    """Yield the scenarios whose means differ from those of all earlier ones."""
    seen: list[np.ndarray] = []
    for scenario in scenarios:
        means = scenario.environment.truth.means
        rounding = _ROUNDING * float(np.abs(means).max())
        if not any(np.allclose(means, one, rtol=0.0, atol=rounding) for one in seen):
            seen.append(means)
            yield scenario


@named_arguments
def at_effect(environment: Environment, effect: float, control: str | None = None) -> Scenario:
    """Return the scenario in which all differences from the control are multiplied by `effect`.

    Parameters
    ----------
    environment : Environment
        The problem with the assumed means: an effect of 1.
    effect : float
        At least 0. The means must stay possible: probabilities, or inside the range.
    control : str, optional
        The arm from which differences are counted, as in `default_scenarios`.

    Raises
    ------
    InvalidArgument
        If `control` is not an arm, or the means are not possible.
    NotSupported
        If the environment has no scenarios.

    Examples
    --------
    >>> from fairtrial.linear import GaussianEnvironment, Problem
    >>> problem = Problem([[1, 0], [0, 1]], arms=["a", "b"], noise_std=1.0)
    >>> at_effect(GaussianEnvironment(problem, [1.0, 3.0]), 0.5).environment.truth.means.tolist()
    [1.0, 2.0]
    """
    size = check_number("effect", effect, low=0.0)
    _, build = _family_of(environment)
    why = f"The differences are {size:g} times as large as assumed"
    return Scenario(f"effect {size:g}", build(environment, size, control), why)


def _family_of(
    environment: Environment,
) -> tuple[Family, Callable[[Environment, float, str | None], Environment]]:
    name = check_instance("environment", environment, Environment).problem.family
    family = family_of(name) if name in FAMILIES else None
    if family is None or not family.offers(Family.at_effect):
        raise NotSupported(f"the family {name!r} has no scenarios")
    return family, family.at_effect
