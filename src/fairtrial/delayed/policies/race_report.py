"""The report of a race: its answer, its estimates, and the state of every arm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.progress_parts import AnswerStatus, ArmStatus, Parts
from fairtrial.core.recommendation import Estimate
from fairtrial.delayed._kernels.state import ACCEPTED, DONE, REJECTED, SURVIVES
from fairtrial.delayed.policies.race_state import RaceState

__all__ = ["best_arms", "candidates", "details", "estimates", "parts", "settled"]

Floats = NDArray[np.float64]

_STATES = ("undecided", "accepted", "rejected")


def best_arms(race: RaceState) -> tuple[str, ...]:
    """Return the answer, or the current best arms before it is known, the best first."""
    accepted, survives = race.arms.status == ACCEPTED, race.arms.status == SURVIVES
    known = np.isfinite(race.arms.variance)
    means = np.where(known, race.arms.estimate, -math.inf)
    # Accepted arms come first, then the others by mean; arms with equal means keep their order.
    order = np.lexsort((-means, ~accepted, ~(accepted | survives)))[: race.problem.top]
    best = sorted(order.tolist(), key=lambda arm: (-means[arm], arm))
    return tuple(race.problem.arms[arm] for arm in best)


def candidates(race: RaceState) -> tuple[str, ...]:
    """Return the arms that can still be among the best k, in the order of the problem."""
    kept = race.arms.status != REJECTED
    return tuple(arm for arm, stays in zip(race.problem.arms, kept, strict=True) if stays)


def estimates(race: RaceState, lower: Floats, upper: Floats) -> tuple[Estimate, ...]:
    """Return an estimate of every arm's mean; `lower` and `upper` are in the race's unit.

    If intervals of different times have no common part, one of them has failed, which their error
    allows. The latest one is then shown.
    """
    latest, is_empty = np.sqrt(race.arms.variance), lower > upper
    lower = race.unit * np.where(is_empty, race.arms.estimate - latest, lower)
    upper = race.unit * np.where(is_empty, race.arms.estimate + latest, upper)
    if race.problem.sign < 0:
        lower, upper = -upper, -lower
    known = np.isfinite(race.arms.variance)
    means = race.outward * np.where(known, race.arms.estimate, _means_so_far(race))
    means = np.where(known, np.clip(means, lower, upper), means)
    counted = _counted(race)
    return tuple(
        Estimate(
            labels,
            int(race.arms.completed[arm]),
            mean=_finite(means[arm]),
            lower=_finite(lower[arm]),
            upper=_finite(upper[arm]),
            counted=None if counted is None else int(counted[arm]),
        )
        for arm, labels in enumerate(race.problem.action_labels)
    )


def settled(race: RaceState) -> int | None:
    """Return how many results count; None if all do."""
    if not race.has_turns:
        return None
    counts = race.counted_rows()
    counts[race.valued] = False
    return int(counts.sum())


def _counted(race: RaceState) -> NDArray[np.int64] | None:
    """Return how many results of each arm count; None if all do."""
    if not race.has_turns:
        return None
    arms = race.pulls.arm[: race.rows][race.counted_rows()]
    return np.bincount(arms, minlength=len(race.problem.arms))


def _means_so_far(race: RaceState) -> Floats:
    """Return the means of all outcomes, also of those that do not count yet; NaN without any."""
    done, arms = race.pulls.state[: race.rows] == DONE, len(race.problem.arms)
    at, outcomes = race.pulls.arm[: race.rows][done], race.pulls.outcome[: race.rows][done]
    with np.errstate(invalid="ignore"):
        return np.asarray(
            np.bincount(at, outcomes, minlength=arms) / np.bincount(at, minlength=arms)
        )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def parts(race: RaceState) -> Parts:
    """Return the state of every arm, and the number of readings."""
    arms, status = race.problem.arms, race.arms.status.tolist()
    return {
        "arm_states": tuple(
            ArmStatus(arm, _STATES[code]) for arm, code in zip(arms, status, strict=True)
        ),
        "answers": tuple(
            AnswerStatus(arm, code == REJECTED, code == ACCEPTED, worse_than=tuple(better))
            for arm, code, better in zip(arms, status, _declared_better(race), strict=True)
        ),
        "readings": int(race.control.readings[0]),
    }


def details(race: RaceState) -> Mapping[str, Any]:
    """Return how readings were used."""
    return {
        "duplicates": race.duplicates,
        "truncate": None if race.truncate_at == math.inf else int(race.truncate_at),
    }


def _declared_better(race: RaceState) -> list[list[str]]:
    """Return for every arm the arms that were declared better; only with pairwise tests."""
    arms = race.problem.arms
    if race.declared.shape != (len(arms), len(arms)):
        return [[] for _ in arms]
    return [
        [arms[better] for better in np.flatnonzero(worse)[: race.problem.top].tolist()]
        for worse in race.declared.T
    ]
