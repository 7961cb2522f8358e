"""The smallest effect that is found with a given number of pulls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairtrial.core import Environment, Policy
from fairtrial.core.documentation import documented_by
from fairtrial.core.keywords import named_arguments
from fairtrial.core.seeds import as_seed
from fairtrial.core.validation import check_integer, check_probability
from fairtrial.errors import InvalidArgument
from fairtrial.simulation._ends import ending_after
from fairtrial.simulation.proportions import Proportion
from fairtrial.simulation.replicate import check_pair, simulate
from fairtrial.simulation.scenarios import at_effect

__all__ = ["SmallestEffect", "smallest_effects"]

_LARGEST = 16.0
_SMALLEST = 1 / 64
_FINE = 1.001
_STEP = 1.4
_WIDER = 1.1
_CLOSE = 1.025
"""Effects that differ by less than this factor are treated as the same."""


@dataclass(frozen=True)
class SmallestEffect:
    """The smallest effect that is found with a given probability.

    Parameters
    ----------
    power : float
        The probability with which a right answer must be named.
    effect : float or None
        The effect, as a multiple of the assumed differences; None if no effect that was tried
        reached the power.
    lower, upper : float or None
        The interval that contains it, as precisely as this number of runs allows: the largest
        effect whose power is surely too small, and the smallest whose power is surely enough, each
        by an exact 95 % interval. None if no effect that was tried is sure.
    found : Proportion or None
        The runs at that effect that named a right answer.
    largest : float
        The largest effect that was tried.
    """

    power: float
    effect: float | None
    lower: float | None
    upper: float | None
    found: Proportion | None
    largest: float

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON's own types."""
        return {
            "power": self.power,
            "effect": self.effect,
            "lower": self.lower,
            "upper": self.upper,
            "found": None if self.found is None else self.found.to_dict(),
            "largest": self.largest,
        }


@documented_by(simulate)
@named_arguments
def smallest_effects(
    policy: Policy,
    environment: Environment,
    pulls: int,
    powers: Iterable[float] = (0.8, 0.9),
    replications: int = 400,
    seed: int | np.random.Generator | None = 0,
    *,
    control: str | None = None,
    parallel: int = 1,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> list[SmallestEffect]:
    """Return the smallest effects that are found with that many pulls.

    The effect is found by bisection, to within 2.5 %; every effect is simulated with the same
    seed.

    Parameters
    ----------
    environment : Environment
        The problem with the assumed means: an effect of 1. Its family must have scenarios.
    pulls : int
        Pulls after which a run ends undecided. A policy with a planned end aims at it.
    powers : iterable of float
        The probabilities with which a right answer must be named.
    replications : int
        Runs at every effect.
    control : str, optional
        The arm from which differences are counted, as in `default_scenarios`.

    Returns
    -------
    list of SmallestEffect
        One for each power.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.
    NotSupported
        If the environment has no scenarios.

    Examples
    --------
    >>> from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem
    >>> problem = Problem(["old", "new"], 1, floors=None, noise_std=1.0)
    >>> assumed = GaussianEnvironment(problem, [[0.0], [1.0]])
    >>> (found,) = smallest_effects(BlockBetting(problem), assumed, 100, [0.8], 100)
    >>> 0.4 < found.lower <= found.effect <= found.upper < 1.2
    True
    """
    check_pair(policy, environment)
    pulls = check_integer("pulls", pulls, low=1)
    replications = check_integer("replications", replications, low=2)
    if not isinstance(powers, Iterable):
        raise InvalidArgument("powers", "must be a sequence of probabilities", powers)
    wanted = [check_probability("powers", power) for power in powers]
    if environment.truth.tied:
        raise InvalidArgument("environment", "must have a best arm: these are equal", environment)
    number = as_seed(seed)
    ending = ending_after(pulls, policy)
    known: dict[float, Proportion] = {}

    def try_effect(effect: float) -> float:
        if effect not in known:
            found = simulate(
                ending,
                at_effect(environment, effect, control).environment,
                replications,
                seed=number,
                horizon=ending.horizon_for(pulls),
                executor=executor,
                workers=workers,
                parallel=parallel,
                progress=progress,
            )
            right = 0 if found.correct is None else int(found.correct.sum())
            known[effect] = Proportion.of(right, replications)
        return known[effect].rate

    largest = _largest_possible(lambda effect: at_effect(environment, effect, control))
    # All effects that were tried for one power also inform about the others.
    found = [_smallest(power, largest, try_effect) for power in wanted]
    for power, effect in zip(wanted, found, strict=True):
        if effect is not None:
            _go_until_sure(power, effect, largest, try_effect, known)
    return [
        _result(power, effect, largest, known) for power, effect in zip(wanted, found, strict=True)
    ]


def _largest_possible(build: Callable[[float], object]) -> float:
    """Return the largest effect, up to 16, whose means are possible for the rewards."""
    build(1.0)

    def is_possible(effect: float) -> bool:
        with suppress(InvalidArgument):
            build(effect)
            return True
        return False

    if is_possible(_LARGEST):
        return _LARGEST
    low, high = 1.0, _LARGEST
    while high / low > _FINE:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if is_possible(middle) else (low, middle)
    return low


def _smallest(power: float, largest: float, try_effect: Callable[[float], float]) -> float | None:
    low, high = _bracket(power, largest, try_effect)
    if high is None:
        return None
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if try_effect(middle) >= power else (middle, high)
    return high


def _go_until_sure(
    power: float,
    effect: float,
    largest: float,
    try_effect: Callable[[float], float],
    known: Mapping[float, Proportion],
) -> None:
    """Try larger effects until one surely has the power, and smaller ones until one lacks it."""
    larger = effect
    while larger < largest and not any(found.lower > power for found in known.values()):
        larger = min(larger * _WIDER, largest)
        try_effect(larger)
    smaller = effect
    while smaller > _SMALLEST and not any(found.upper < power for found in known.values()):
        smaller /= _WIDER
        try_effect(smaller)


def _bracket(
    power: float, largest: float, try_effect: Callable[[float], float]
) -> tuple[float, float | None]:
    """Return an effect that is too small, and one that is large enough, if there is one.

    The search starts at the assumed effect, because runs at small effects take longest.
    """
    effect = 1.0
    if try_effect(effect) >= power:
        while effect > _SMALLEST and try_effect(effect / _STEP) >= power:
            effect /= _STEP
        return effect / _STEP, effect
    while effect < largest:
        larger = min(effect * _STEP, largest)
        if try_effect(larger) >= power:
            return effect, larger
        effect = larger
    return effect, None


def _result(
    power: float, effect: float | None, largest: float, known: dict[float, Proportion]
) -> SmallestEffect:
    few = [size for size, found in known.items() if found.upper < power]
    enough = [size for size, found in known.items() if found.lower > power]
    return SmallestEffect(
        power=power,
        effect=effect,
        lower=max(few, default=None),
        upper=min(enough, default=None),
        found=None if effect is None else known[effect],
        largest=largest,
    )
