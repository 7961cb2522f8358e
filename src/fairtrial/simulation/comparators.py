"""The usual designs for the question whether arms are better than a control."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairtrial.confidence.group_sequential import Contrasts, GroupSequential, Shape
from fairtrial.core.family import FAMILIES, family_of
from fairtrial.core.scenario import Scenario
from fairtrial.simulation.claims import control_of, right_answers
from fairtrial.simulation.proportions import Proportion

__all__ = ["Comparator", "comparators_of"]

LOOKS = 5
POWER = 0.9
_RUNS = 10_000
_DESIGNS: tuple[tuple[str, Shape, int], ...] = (
    ("fixed size", "pocock", 1),
    ("O'Brien-Fleming, 5 looks", "obrien-fleming", LOOKS),
    ("Pocock, 5 looks", "pocock", LOOKS),
)


@dataclass(frozen=True)
class Comparator:
    """A usual design, planned for a power of 90 % with the assumed means, in one scenario.

    Parameters
    ----------
    name : str
        The design.
    most : int
        Most results that it needs.
    results : float
        Mean results until it ends.
    right : Proportion or None
        Simulated trials that named the right answer, the best arm that keeps all limits; None if
        that is none of the arms tested.
    any_better : Proportion or None
        Simulated trials that showed at least one better arm to be better than the control; None if
        no arm is better.
    harmful : Proportion
        Simulated trials that named an arm that is beyond a limit, which these designs do not test.
    wrong : Proportion
        Simulated trials that claimed of any arm, falsely, that it is better than the control.
    """

    name: str
    most: int
    results: float
    right: Proportion | None
    any_better: Proportion | None
    harmful: Proportion
    wrong: Proportion

    def to_dict(self) -> dict[str, Any]:
        """Return the comparator as JSON's own types."""
        return {
            "design": self.name,
            "most_results": self.most,
            "mean_results": self.results,
            "right": None if self.right is None else self.right.to_dict(),
            "any_better": None if self.any_better is None else self.any_better.to_dict(),
            "harmful": self.harmful.to_dict(),
            "wrong": self.wrong.to_dict(),
        }


def comparators_of(
    scenario: Scenario, assumed: Scenario, delta: float | None, level: float, seed: int
) -> tuple[Comparator, ...]:
    """Return the usual designs against the control in a scenario; empty if there are none.

    Their sizes are for the best acceptable arm in the scenario `assumed`, as a team would plan.
    """
    control = control_of(scenario.environment.problem)
    planned, true = _contrasts(assumed, control), _contrasts(scenario, control)
    best = assumed.environment.truth.best
    if delta is None or planned is None or true is None or best not in planned.arms:
        return ()
    return tuple(_compared(scenario, planned, best, delta, level, seed))


def _contrasts(scenario: Scenario, control: str | None) -> Contrasts | None:
    environment = scenario.environment
    family = environment.problem.family
    if control is None or family not in FAMILIES or not environment.keeps_assumptions:
        return None
    return family_of(family).contrasts(environment, control)


def _compared(
    scenario: Scenario,
    planned: Contrasts,
    best: str,
    delta: float,
    level: float,
    seed: int,
) -> Iterator[Comparator]:
    true = _contrasts(scenario, control_of(scenario.environment.problem))
    assert true is not None, "checked before"
    place = planned.arms.index(best)
    variance = planned.variances[0] + planned.variances[1 + place]
    better = np.array(true.differences) > 0.0
    right = [arm in right_answers(scenario) for arm in true.arms]
    kept = family_of(scenario.environment.problem.family).acceptable(scenario.environment)
    beyond = [not kept.get(arm, True) for arm in true.arms]
    for name, shape, looks in _DESIGNS:
        design = GroupSequential(len(planned.arms), delta, shape, looks)
        most = design.size(planned.differences[place], variance, POWER)
        if most is None:
            continue
        runs = design.simulate(true.differences, true.variances, most, _RUNS, seed)
        counts = (
            np.isin(runs.named, np.flatnonzero(right)),
            runs.claimed[:, better].any(axis=1),
            np.isin(runs.named, np.flatnonzero(beyond)),
            runs.claimed[:, ~better].any(axis=1),
        )
        named, some, harmful, wrong = (
            Proportion.of(int(each.sum()), _RUNS, level) for each in counts
        )
        yield Comparator(
            name,
            most,
            float(runs.results.mean()),
            right=named if any(right) else None,
            any_better=some if better.any() else None,
            harmful=harmful,
            wrong=wrong,
        )
