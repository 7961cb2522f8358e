"""The usual designs: tests of arms against a control, and of the limits that they must keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fairtrial.confidence.group_sequential import GroupSequential, Shape
from fairtrial.confidence.intersection_union import Contrasts, LookResults, simulate, size
from fairtrial.core.family import FAMILIES, family_of
from fairtrial.core.scenario import Scenario
from fairtrial.simulation.claims import (
    better_than_control,
    control_of,
    kept_limits,
    right_answers,
)
from fairtrial.simulation.proportions import Proportion

__all__ = ["ASSUMPTIONS", "Comparator", "comparators_of"]

LOOKS = 5
POWER = 0.9
_RUNS = 10_000
_RUNS_FOR_SIZE = 40_000
_SEED_OF_SIZES = 20_270_104
"""The same means give the same sizes, whatever the seed of the simulated trials is."""

_DESIGNS: tuple[tuple[str, Shape, int], ...] = (
    ("fixed size", "pocock", 1),
    ("O'Brien-Fleming, 5 looks", "obrien-fleming", LOOKS),
    ("Pocock, 5 looks", "pocock", LOOKS),
)

BETTER_WITHIN_LIMITS = "better within limits"
BETTER = "better"
WITHIN_LIMITS = "within limits"

_QUESTIONS = {
    BETTER_WITHIN_LIMITS: (
        "The question of these designs is whether an arm is better than the control and keeps "
        "every limit: the policy can claim that as well, but its answer also says which of these "
        "arms is the best."
    ),
    BETTER: (
        "The question of these designs is only whether an arm is better than the control: unlike "
        "the policy, they do not show which arm is the best, and test no limits."
    ),
    WITHIN_LIMITS: (
        "Without a control, the question of this design is only which arms keep every limit: it "
        "names the one of them with the largest estimated mean, but unlike the policy it has no "
        "error probability for the claim that this arm is the best of them."
    ),
}

ASSUMPTIONS = (
    "All tests are one-sided, by the normal approximation, with the true variances as if they were "
    "known. Results are known at once, and none is missing. Every arm and the control get equal "
    "numbers, with the groups in the proportions in which they come; predictions are not used. The "
    "accepted error probability is divided among the arms (Bonferroni), and for each spent over "
    "the looks. It is not divided among limits, because an arm must pass all its tests at the same "
    "look: a false claim of an arm needs one particular test to be passed falsely "
    "(intersection-union test). Sizes are for a power of 90 % for the right arm with the assumed "
    "means: to make its claim if no other arm ends the trial before, or without a control to be "
    "named. With limits they are found by simulation: the power at them has a standard error of "
    "0.15 %, or 0.3 % without a control. All other figures are from 10,000 simulated trials in "
    "each scenario, so shares have a standard error of at most 0.5 %. A design is left out if no "
    "size has that power."
)
"""What the figures of the usual designs assume."""


@dataclass(frozen=True)
class Comparator:
    """A usual design, planned for a power of 90 % with the assumed means, in one scenario.

    Parameters
    ----------
    name : str
        The design.
    claim : {"better within limits", "better", "within limits"}
        What it shows of an arm: that it is better than the control and keeps all limits; that it is
        better, whatever its limits; or, without a control, that it keeps them.
    most : int
        Most results that it needs.
    results : float
        Mean results until it ends.
    right : Proportion or None
        Simulated trials that named the right answer, the best arm that keeps all limits; None if
        that is none of the arms tested.
    shown : Proportion or None
        Simulated trials that made the claim of at least one arm of which it is true; None if there
        is none.
    harmful : Proportion
        Simulated trials that named an arm that is beyond a limit.
    wrong : Proportion
        Simulated trials that made the claim falsely of any arm.
    """

    name: str
    claim: str
    most: int
    results: float
    right: Proportion | None
    shown: Proportion | None
    harmful: Proportion
    wrong: Proportion

    @property
    def question(self) -> str:
        """The question that the design answers, and how it differs from that of the policy."""
        return _QUESTIONS[self.claim]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparator as JSON's own types."""
        return {
            "design": self.name,
            "claim": self.claim,
            "question": self.question,
            "most_results": self.most,
            "mean_results": self.results,
            "right": None if self.right is None else self.right.to_dict(),
            "shown": None if self.shown is None else self.shown.to_dict(),
            "harmful": self.harmful.to_dict(),
            "wrong": self.wrong.to_dict(),
        }


def comparators_of(
    scenario: Scenario, assumed: Scenario, delta: float | None, level: float, seed: int
) -> tuple[Comparator, ...]:
    """Return the usual designs in a scenario; empty if there are none.

    Their sizes are for the best acceptable arm in the scenario `assumed`, as a team would plan.
    Designs with limits come first.
    """
    planned, true = _contrasts(assumed), _contrasts(scenario)
    truth = assumed.environment.truth
    if delta is None or planned is None or true is None or truth.best not in planned.arms:
        return ()
    found = []
    for claim, own in _claims(planned):
        tested = true.without_limits() if claim == BETTER else true
        if own.has_control or not truth.tied:
            trials = _simulated(own, tested, own.arms.index(truth.best), delta, seed)
            found += [_judged(scenario, claim, one, true.arms, level) for one in trials]
    return tuple(found)


def _contrasts(scenario: Scenario) -> Contrasts | None:
    environment = scenario.environment
    family = environment.problem.family
    if family not in FAMILIES or not environment.keeps_assumptions:
        return None
    return family_of(family).contrasts(environment, control_of(environment.problem))


def _claims(planned: Contrasts) -> Iterator[tuple[str, Contrasts]]:
    """Yield what can be shown of arms, with the tests that show it."""
    if planned.has_limits:
        yield (BETTER_WITHIN_LIMITS if planned.has_control else WITHIN_LIMITS), planned
    if planned.has_control:
        yield BETTER, planned.without_limits()


class _Trials(NamedTuple):
    """Simulated trials of a design."""

    name: str
    most: int
    runs: LookResults


def _simulated(
    planned: Contrasts, true: Contrasts, place: int, delta: float, seed: int
) -> Iterator[_Trials]:
    """Yield what each design does if it is planned for an arm, and if something else is true."""
    # Without a control there is no claim of the best arm that could end a trial early.
    designs = _DESIGNS if planned.has_control else _DESIGNS[:1]
    runs = _RUNS_FOR_SIZE if planned.has_control else _RUNS
    for name, shape, looks in designs:
        design = GroupSequential(len(planned.arms), delta, shape, looks)
        most = size(design, planned, place, POWER, runs, _SEED_OF_SIZES)
        if most is not None:
            yield _Trials(name, most, simulate(design, true, most, _RUNS, seed))


def _judged(
    scenario: Scenario, claim: str, trials: _Trials, arms: tuple[str, ...], level: float
) -> Comparator:
    """Return how often the simulated trials of a design were right and wrong."""
    kept, better = kept_limits(scenario), better_than_control(scenario)
    right = np.array([arm in right_answers(scenario) for arm in arms])
    beyond = np.array([not kept.get(arm, True) for arm in arms])
    holds = np.ones(len(arms), np.bool_)
    if claim != WITHIN_LIMITS:
        holds &= [better[arm] for arm in arms]
    if claim != BETTER:
        holds &= ~beyond
    runs = trials.runs

    def share(found: ArrayLike) -> Proportion:
        return Proportion.of(int(np.sum(found)), _RUNS, level)

    return Comparator(
        trials.name,
        claim,
        trials.most,
        float(runs.results.mean()),
        right=share(np.isin(runs.named, np.flatnonzero(right))) if right.any() else None,
        shown=share(runs.claimed[:, holds].any(axis=1)) if holds.any() else None,
        harmful=share(np.isin(runs.named, np.flatnonzero(beyond))),
        wrong=share(runs.claimed[:, ~holds].any(axis=1)),
    )
