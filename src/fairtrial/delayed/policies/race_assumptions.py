"""The assumptions of a race's guarantee, and what its results say against them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.recommendation import Guarantee
from fairtrial.core.wording import plural
from fairtrial.delayed._kernels.state import DONE
from fairtrial.delayed.policies.assumption_tests import (
    contradicts,
    log_evidence_against_errors,
    log_evidence_of_delays,
    log_evidence_of_losses,
    spread_of_results,
)
from fairtrial.delayed.policies.race_state import RaceState

__all__ = ["findings", "guarantee", "noise_assumption"]

Floats = NDArray[np.float64]

_SOURCE = "docs/explanation/delayed.md"

_TESTING = 6
"""Number of results, beyond each arm's first, that can show a noise three times too large."""


def guarantee(
    race: RaceState,
    name: str,
    proven: bool,
    assumptions: list[str],
    delta: float,
    amended: int,
    *,
    calibrated: bool = False,
) -> Guarantee:
    """Return a rule's guarantee, with the assumptions that all races share.

    Parameters
    ----------
    race : RaceState
        The race.
    name : str
        Name of the rule.
    proven : bool
        Whether the rule's proof covers the problem.
    assumptions : list of str
        The rule's own assumptions.
    delta : float
        Accepted probability of a wrong answer.
    amended : int
        Number of outcomes that were corrected after decisions.
    calibrated : bool
        Whether the rule's error rate was measured, if it has no proof.
    """
    problem = race.problem
    near = f", within {problem.tolerance:g}" if problem.tolerance else ""
    one = problem.top == 1
    wrong = "an arm that is not the best" if one else f"a set that is not the best {problem.top}"
    promise = Guarantee(
        name=name,
        proven=proven and _covers_failures(race),
        statement=f"the probability that this study ever gives {wrong}{near} is at most {delta:g}",
        assumptions=(*assumptions, *_common_assumptions(race)),
        source=_SOURCE,
        calibrated=calibrated,
    )
    for finding in findings(race):
        promise = promise.weakened(finding)
    promise = promise.weakened_by(
        amended, "correction", "came after decisions had used the outcomes"
    )
    if race.not_nested and race.uses_readings:
        promise = promise.weakened(
            f"{race.not_nested} readings differ from an earlier one with the same deviation, "
            "which nested errors cannot"
        )
    return promise


def noise_assumption(race: RaceState) -> str:
    """Return the assumption about the noise."""
    problem = race.problem
    if problem.reward_range is not None:
        low, high = problem.reward_range
        return f"every outcome lies in [{low:g}, {high:g}]"
    if problem.estimates_noise:
        return (
            "outcomes are about normal; deviations are estimated: calibrated by simulation, "
            "not proven"
        )
    noisy = "outcomes and errors of readings" if race.uses_readings else "outcomes"
    if problem.gaussian:
        return f"{noisy} are normal, at the stated deviations"
    return f"{noisy} are sub-Gaussian at the stated scales"


def _covers_failures(race: RaceState) -> bool:
    """Return whether the proof covers failures: not a value with normal noise or readings."""
    valued = race.problem.failure_value is not None
    return not (valued and (race.problem.gaussian or race.uses_readings))


def _common_assumptions(race: RaceState) -> list[str]:
    problem = race.problem
    if problem.delay_depends_on_outcome:
        common = ["delays may depend on outcomes: only runs of complete pulls count"]
    else:
        common = ["when results and readings arrive is independent of the outcome"]
    common.append("a pull is stopped only because of logged data")
    if problem.failure_value is not None:
        unforeseen = ", which normal noise and readings do not cover (not proven)"
        common.append(
            f"a pull that fails has the outcome {problem.failure_value:g}"
            f"{'' if _covers_failures(race) else unforeseen}"
        )
    if race.returned:
        common.append(
            f"{race.returned} pulls had failed when their outcomes came: whether they came does "
            "not depend on their values"
        )
    if unsolicited := race.unsolicited:
        common.append(
            f"{unsolicited} results were unsolicited: none was withheld because of its value"
        )
    if race.clipped:
        common.append(f"means are of clipped outcomes: {race.clipped} were clipped")
    return common


# --------------------------------------------------- what the results say against them


def findings(race: RaceState) -> list[str]:
    """Return the findings in the results that invalidate the proof, each as an assumption."""
    return [*_found_in_losses(race), *_found_in_results(race), *_found_in_readings(race)]


def _found_in_losses(race: RaceState) -> list[str]:
    if not race.lost:
        return []
    number = plural(len(race.lost), "pull")
    chance = f"{number} got lost, for reasons assumed to be unrelated to outcomes"
    if race.problem.failure != "independent":
        return [chance]
    if contradicts(log_evidence_of_losses(*_losses_by_arm(race))):
        return [f"{chance} (contradicted: some arms lose far more of them than others)"]
    return []


def _losses_by_arm(race: RaceState) -> tuple[Floats, Floats]:
    """Return how many pulls of each arm gave an outcome, and how many were lost.

    Only the pulls before the first one count that is in flight or was cancelled. Otherwise an arm
    whose outcomes take long would seem to lose more.
    """
    number, arms = len(race.problem.arms), race.pulls.arm[: race.rows]
    is_lost = np.zeros(race.rows, dtype=np.bool_)
    is_lost[[row for row in race.lost if row >= 0]] = True
    has_ended = is_lost | (race.pulls.state[: race.rows] == DONE)
    until = race.rows if has_ended.all() else int(has_ended.argmin())
    counts = [
        np.bincount(arms[:until][kind[:until]], minlength=number).astype(np.float64)
        for kind in (~is_lost, is_lost)
    ]
    return counts[0], counts[1]


def _found_in_results(race: RaceState) -> list[str]:
    problem = race.problem
    if not race.arrivals or problem.estimates_noise:
        return []
    came = np.array(race.arrivals)
    arms, number = race.pulls.arm[came[:, 0]], len(problem.arms)
    values = race.pulls.outcome[came[:, 0]] / race.arms.noise[arms]
    found = []
    if problem.reward_range is None:
        if spread_of_results(arms, values, number).contradicted:
            found.append("noise_std is as stated (contradicted: results spread far more widely)")
        elif race.survivors == 0 and len(arms) - len(set(arms.tolist())) < _TESTING:
            found.append(
                "noise_std is as stated: not tested, because too few results repeat an arm"
            )
    if problem.delay_depends_on_outcome:
        return found
    late, early = came[:, 1], came[:, 2]
    lateness = (late - early) / (late + early + 1.0)
    if contradicts(log_evidence_of_delays(arms, values, lateness, number)):
        return [
            *found,
            "when results arrive is independent of their values (contradicted: late ones differ)",
        ]
    return [*found, *_found_in_haste(race)]


def _found_in_haste(race: RaceState) -> list[str]:
    if not race.hasty:
        return []
    untested = race.untested_arms()
    hasty = [repr(race.problem.arms[arm]) for arm in race.hasty if untested[arm]]
    if not hasty:
        return []
    claim = "when results arrive is independent of their values: not tested, because most "
    return [f"{claim}overtaken pulls of {', '.join(hasty)} were still open"]


def _found_in_readings(race: RaceState) -> list[str]:
    problem, size = race.problem, min(len(race.errors), race.rows)
    if not size or (problem.feedback == "refining" and problem.errors == "unknown"):
        return []
    arms, pieces = race.pulls.arm[:size], problem.feedback == "incremental"
    known = (race.pulls.state[:size] == DONE) & ~np.isin(np.arange(size), race.valued)
    outcomes = race.pulls.outcome[:size] / race.arms.noise[arms]
    outcomes = np.where(known & (not pieces), outcomes, math.nan)
    errors, biased = race.errors[:size], problem.feedback == "biased"
    stated = "pieces spread" if pieces else "readings are as accurate"
    if contradicts(log_evidence_against_errors(errors, outcomes, arms, biased)):
        return [f"{stated} as stated (contradicted: they are far off)"]
    compared = pieces or (known & (errors[:, 0] > 0.0)).any()
    if race.survivors == 0 and not compared:
        untested = "not tested, because no reading could be compared with its outcome"
        return [f"readings are as accurate as stated: {untested}"]
    return []
