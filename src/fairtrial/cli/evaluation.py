"""The behaviour of a file's experiment in several scenarios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairtrial.cli.config import Configuration
from fairtrial.cli.output import say
from fairtrial.cli.planning import HORIZON_OF_TIES, accrued
from fairtrial.core import Policy
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import (
    Characteristics,
    OperatingCharacteristics,
    Scenario,
    at_effect,
    default_scenarios,
    operating_characteristics,
    simulate,
)
from fairtrial.simulation.operating import ROWS_ARE_MOVED, Interrupted
from fairtrial.version import __version__

__all__ = ["REPLICATIONS", "Evaluation", "evaluate", "policy_of", "usual_horizon"]

REPLICATIONS = 400
_EFFECTS = {"null": 0.0, "half": 0.5, "full": 1.0}
_BETWEEN = (0.25, 0.75, 1.25, 1.5)
_PILOT_RUNS = 100
_PILOT_SHARE = 0.95
_LONGEST_PILOT = 20_000


@dataclass(frozen=True)
class Evaluation:
    """Operating characteristics of a file's experiment.

    Parameters
    ----------
    found : OperatingCharacteristics
        The results in the scenarios: the default ones, and those of the file.
    curve : tuple of (float, Characteristics)
        Results by the size of the effect, in order.
    configuration : Configuration
        The file.
    interrupted : bool
        Whether some scenarios are missing, because the user interrupted the simulation.
    """

    found: OperatingCharacteristics
    curve: tuple[tuple[float, Characteristics], ...]
    configuration: Configuration
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON's own types."""
        configuration = self.configuration
        return {
            "version": __version__,
            "study": configuration.study.name,
            "protocol": configuration.protocol.in_words,
            "interrupted": self.interrupted,
            "problem": configuration.problem.to_dict(),
            **self.found.to_dict(),
            "effects": [{"effect": effect, **row.to_dict()} for effect, row in self.curve],
            "configuration": configuration.text,
        }


def evaluate(
    configuration: Configuration,
    *,
    seed: int,
    replications: int | None = None,
    keep: Path | None = None,
) -> Evaluation:
    """Return the policy's results in every scenario, with each number of pulls that is planned.

    If the file has no `max_pulls`, it is the number of pulls with which 95 % of 100 runs decide
    when the means are as assumed. Finished runs are kept in the folder `keep`, if one is given.

    Raises
    ------
    NotSupported
        If the problem's family has no scenarios.
    """
    policy, plan = policy_of(configuration), configuration.plan
    scenarios = _scenarios(configuration)
    budgets = plan.budgets or [usual_horizon(configuration, policy, seed)]
    runs = _Runs(configuration, policy, seed, keep)
    number = replications or plan.replications or REPLICATIONS
    found, interrupted = runs.of(scenarios, budgets, number)
    known = _known_effects(configuration, found)
    more: list[tuple[float, Characteristics]] = []
    between = _effects_between(configuration) if len(known) > 1 and not interrupted else {}
    if between:
        try:
            rows, interrupted = runs.of(list(between.values()), budgets[-1:], max(number // 2, 1))
            more = list(zip(between, rows, strict=False))  # fewer rows if it was interrupted
        except KeyboardInterrupt:
            interrupted = True
    curve = sorted([*known, *more], key=lambda pair: pair[0])
    # Two values around an assumed mean are simulated as rows, but no table contains them.
    said = f"{configuration.about} {ROWS_ARE_MOVED}" if configuration.about else None
    return Evaluation(replace(found, about=said), tuple(curve), configuration, interrupted)


@dataclass(frozen=True)
class _Runs:
    """Runs scenarios with the settings of a file."""

    configuration: Configuration
    policy: Policy
    seed: int
    keep: Path | None = None

    def of(
        self, scenarios: Sequence[Scenario], max_pulls: Sequence[int], replications: int
    ) -> tuple[OperatingCharacteristics, bool]:
        """Return the policy's results in these scenarios, and whether some are missing.

        Announce the amount of work. After an interruption (Ctrl-C) the finished scenarios are kept.
        """
        number = plural(len(scenarios), "scenario")
        say(f"Simulating {plural(replications, 'run')} in each of {number} ...", err=True)
        plan = self.configuration.plan
        call = partial(
            operating_characteristics,
            self.policy,
            scenarios,
            max_pulls,
            replications,
            self.seed,
            pulls_per_day=plan.pulls_per_day,
            parallel=plan.parallel,
            delay_days=plan.days_to_result,
            looks=plan.look_days,
            keep=self.keep,
        )
        try:
            return call(), False
        except Interrupted as error:
            return error.finished, True


def _known_effects(
    configuration: Configuration, found: OperatingCharacteristics
) -> list[tuple[float, Characteristics]]:
    """Return the results of the default scenarios by effect, with the most pulls."""
    most = max(row.max_pulls for row in found)
    own = {scenario.name for scenario in configuration.scenarios}
    effects = {name: effect for name, effect in _EFFECTS.items() if name not in own}
    return [
        (effects[row.scenario.name], row)
        for row in found
        if row.max_pulls == most and row.scenario.name in effects
    ]


def _effects_between(configuration: Configuration) -> dict[float, Scenario]:
    """Return scenarios for effects that no default scenario has, if they are possible."""
    found = {}
    for effect in _BETWEEN:
        with suppress(InvalidArgument):  # no reward in the range has that mean
            found[effect] = at_effect(configuration.planned, effect, configuration.plan.control)
    return found


def policy_of(configuration: Configuration) -> Policy:
    """Return the policy with the delta that is planned for."""
    delta = configuration.plan.delta
    return configuration.policy if delta is None else configuration.policy.clone(delta=delta)


def _scenarios(configuration: Configuration) -> list[Scenario]:
    """Return the default scenarios and the file's, which replace those with the same name."""
    usual = default_scenarios(configuration.planned, configuration.plan.control)
    found = {scenario.name: scenario for scenario in (*usual, *configuration.scenarios)}
    return list(found.values())


def usual_horizon(configuration: Configuration, policy: Policy, seed: int) -> int:
    """Return the pulls after which runs end if the file sets no limit, and announce them."""
    given: int | None = policy.get_params().get("max_pulls")
    if given is not None:
        return given
    if configuration.planned.truth.tied:
        said = f"A run ends after {plural(HORIZON_OF_TIES, 'pull')}: the assumed means are equal"
        say(said, err=True)
        return HORIZON_OF_TIES
    pilot = simulate(
        policy,
        accrued(configuration),
        _PILOT_RUNS,
        seed=seed,
        horizon=_LONGEST_PILOT,
        parallel=configuration.plan.in_flight,
    )
    needed = float(np.quantile(pilot.stopping_time, _PILOT_SHARE))
    most: int = max(min(_rounded_up(needed), _LONGEST_PILOT), policy.problem.n_actions)
    because = "plan.max_pulls is not given"
    if most < _LONGEST_PILOT:
        share = f"{100 * _PILOT_SHARE:g} % of {_PILOT_RUNS} runs"
        because += f"; {share} decide by then if the means are as assumed"
    say(f"A run ends after {plural(most, 'pull')}: {because}", err=True)
    return most


def _rounded_up(value: float) -> int:
    """Return a number that is not smaller and has two significant digits."""
    unit = int(10 ** max(math.floor(math.log10(max(value, 1.0))) - 1, 0))
    return unit * math.ceil(value / unit)
