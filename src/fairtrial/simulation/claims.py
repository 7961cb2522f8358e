"""What runs claimed, how often that was wrong, and how many pulls inferior arms got."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core import Problem
from fairtrial.core.family import FAMILIES, family_of
from fairtrial.core.scenario import Scenario
from fairtrial.simulation.proportions import Proportion
from fairtrial.simulation.results import Simulation

__all__ = [
    "Claim",
    "better_than_control",
    "claims_of",
    "control_of",
    "exposure_of",
    "false_claims",
    "harmful_answers",
    "kept_limits",
    "right_answers",
    "runs_with_claim",
]

Share = Callable[[int], Proportion]


@dataclass(frozen=True)
class Claim:
    """A sentence that a run can end with, and how often runs did.

    Parameters
    ----------
    arm : str
        The arm that it is about.
    kind : {"better within limits", "better", "best"}
        ``"better"``: the interval of the arm's difference from the control, which holds at all
        times, shows that it is better, whatever its limits. ``"better within limits"``: besides,
        each of its limits is shown to be kept; only if the problem has limits. ``"best"``: the arm
        was named as the answer.
    true : bool
        Whether the claim is true in the scenario. No arm is the best if the best arms are equal.
    made : Proportion
        Runs that made the claim: its power if it is true, its type I error if it is false.
    breaks_limit : bool
        Whether the arm breaks a limit in the scenario: then no claim of it has a power that counts.

    Examples
    --------
    >>> Claim("new", "better", True, Proportion.of(9, 10)).to_dict()["made"]["rate"]
    0.9
    """

    arm: str
    kind: str
    true: bool
    made: Proportion
    breaks_limit: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as JSON's own types."""
        made = self.made.to_dict()
        return {
            "arm": self.arm,
            "kind": self.kind,
            "true": self.true,
            "made": made,
            "breaks_limit": self.breaks_limit,
        }


def control_of(problem: Problem) -> str | None:
    """Return the arm that the problem names as its control, if it does."""
    found: str | None = problem.get_params().get("control")
    return found


def arms_of(problem: Problem) -> list[str]:
    """Return the labels of all arms, in order."""
    return list(dict.fromkeys(str(labels["arm"]) for labels in problem.action_labels))


def claims_of(scenario: Scenario, found: Simulation, share: Share) -> tuple[Claim, ...]:
    """Return the claims about each arm against the control; empty without a control."""
    rows = _claims(scenario, found)
    kept = kept_limits(scenario)
    return tuple(
        Claim(arm, kind, true, share(int(made.sum())), not kept.get(arm, True))
        for arm, kind, true, made in rows
    )


def false_claims(scenario: Scenario, found: Simulation, share: Share) -> Proportion | None:
    """Return the share of the runs with a wrong answer or any false claim; None without claims."""
    made = [made for *_, true, made in _claims(scenario, found) if not true]
    return share(int(np.any([found.wrong, *made], axis=0).sum())) if found.better.size else None


def runs_with_claim(
    scenario: Scenario, found: Simulation, kind: str, *, true: bool
) -> NDArray[np.bool_] | None:
    """Return by run whether it made a claim of this kind, of any arm of which it is true, or false.

    None if there is no such arm, or no such claim.
    """
    rows = _claims(scenario, found)
    made = [made for _, own, is_true, made in rows if own == kind and is_true == true]
    return np.any(made, axis=0) if made else None


def _claims(
    scenario: Scenario, found: Simulation
) -> Iterator[tuple[str, str, bool, NDArray[np.bool_]]]:
    """Yield arm, kind, truth, and by run whether it made the claim."""
    if not found.better.size:
        return
    control, better_in_truth = control_of(found.problem), better_than_control(scenario)
    right, kept, within = right_answers(scenario), kept_limits(scenario), found.within_limits
    for place, arm in enumerate(arms_of(found.problem)):
        if arm != control:
            better, is_better = found.better[:, place], better_in_truth[arm]
            if within.size:
                true = is_better and kept.get(arm, True)
                yield arm, "better within limits", true, better & within[:, place]
            yield arm, "better", is_better, better
            yield arm, "best", arm in right, found.decided & (found.answer == arm)


def right_answers(scenario: Scenario) -> set[object]:
    """Return the arms that are right answers; none if the best arms are equal."""
    truth = scenario.environment.truth
    return set() if truth.tied else {*truth.interchangeable} or {truth.best}


def _gains(scenario: Scenario) -> Mapping[str, float]:
    """Return by arm how good it is, with larger values for better arms."""
    problem = scenario.environment.problem
    if problem.family not in FAMILIES:
        return {}
    sign = 1.0 if problem.direction == "maximize" else -1.0
    values = family_of(problem.family).values(scenario.environment)
    return {arm: sign * value for arm, value in values.items()}


def better_than_control(scenario: Scenario) -> Mapping[str, bool]:
    """Return by arm whether it is better than the control; empty without a control."""
    control = control_of(scenario.environment.problem)
    if control is None:
        return {}
    gains = _gains(scenario)
    return {arm: gain > gains[control] for arm, gain in gains.items()}


def kept_limits(scenario: Scenario) -> Mapping[str, bool]:
    """Return by arm whether it keeps all limits; empty if the family is not known."""
    family = scenario.environment.problem.family
    return family_of(family).acceptable(scenario.environment) if family in FAMILIES else {}


def exposure_of(scenario: Scenario, found: Simulation) -> dict[str, float]:
    """Return the mean number of pulls on arms that are inferior in several senses.

    The keys are those senses, in words. A sense is left out if it does not apply.
    """
    problem, gains = found.problem, _gains(scenario)
    arms = [str(labels.get("arm")) for labels in problem.action_labels]
    if not {*arms} <= gains.keys():
        return {}
    kept = family_of(problem.family).acceptable(scenario.environment)
    senses = {"beyond a limit": {arm for arm, is_kept in kept.items() if not is_kept}}
    good = [gain for arm, gain in gains.items() if kept.get(arm, True)]
    if good:
        senses["worse than the best acceptable arm"] = _below(gains, max(good))
    control = control_of(problem)
    if control is not None:
        senses["worse than the control"] = _below(gains, gains[control])
    return {
        name: float(found.pulls[:, [arm in inferior for arm in arms]].sum(axis=1).mean())
        for name, inferior in senses.items()
    }


def harmful_answers(scenario: Scenario, found: Simulation, share: Share) -> Proportion | None:
    """Return how often runs named an arm that is beyond a limit; None if that is not known."""
    if found.problem.family not in FAMILIES:
        return None
    kept = family_of(found.problem.family).acceptable(scenario.environment)
    beyond = [arm for arm, is_kept in kept.items() if not is_kept]
    named = [answer in beyond for answer in found.answer[found.decided]]
    return share(sum(named)) if kept else None


def _below(gains: Mapping[str, float], base: float) -> set[str]:
    return {arm for arm, gain in gains.items() if gain < base}
