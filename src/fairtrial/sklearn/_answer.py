"""Statements about a search's answer: how far it may be from the best, in numbers and words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from fairtrial.core.recommendation import Guarantee
from fairtrial.core.wording import plural
from fairtrial.delayed import InformationRacing, PairedRacing

__all__ = [
    "Race",
    "all_failed",
    "bound_in_words",
    "departures_of",
    "leader_of",
    "promise_of",
    "shortfall_of",
]

Race = PairedRacing | InformationRacing

_OF_STEPS = "a running fit gains as much as whole fits do, with their deviations (not proven)"
_OF_DATA = "the mean is over splits of these data; it says nothing about new data"
_OF_NEW_DATA = "the mean is over new data from the same source, with as many rows to train on"


def leader_of(race: Race) -> int | None:
    """Return the number of the best candidate so far; None if all are withdrawn."""
    leader = race.recommend().leader
    if leader is None:
        return None
    return race.problem.arms.index(leader[0] if isinstance(leader, tuple) else leader)


def shortfall_of(race: Race, leader: int) -> float:
    """Return how much worse than the best candidate the leader may be, as far as known."""
    tolerance = float(race.problem.tolerance)
    if race.recommend().decided:
        return tolerance
    if isinstance(race, PairedRacing):
        return tolerance if race.shortfall is None else race.shortfall
    arms = race.progress().arms
    highest = max(_end(arm.upper, math.inf) for at, arm in enumerate(arms) if at != leader)
    return max(tolerance, highest - _end(arms[leader].lower, -math.inf))


def _end(limit: float | None, unknown: float) -> float:
    return unknown if limit is None else limit


def bound_in_words(shortfall: float, delta: float) -> str:
    """Return in words what is known about the best candidate so far.

    Examples
    --------
    >>> bound_in_words(0.02, 0.05)
    'the probability that the best so far falls short of the best by more than 0.02 is at most 0.05'
    """
    if math.isinf(shortfall):
        return "nothing is known yet about how far the best so far falls short of the best"
    return (
        "the probability that the best so far falls short of the best by more than "
        f"{shortfall:.3g} is at most {delta:g}"
    )


def promise_of(race: Race, shortfall: float, delta: float, by_steps: bool) -> Guarantee:
    """Return the promise about the answer, decided or not."""
    promise = race.guarantee
    if not race.recommend().decided:
        promise = replace(promise, statement=bound_in_words(shortfall, delta))
    if by_steps:
        promise = replace(promise, calibrated=False).assuming(_OF_STEPS)
    is_new = isinstance(race, PairedRacing) and race.overlap > 0.0
    return promise.assuming(_OF_NEW_DATA if is_new else _OF_DATA)


def departures_of(race: Race) -> list[tuple[int | None, str]]:
    """Return after how many splits every candidate left the race (None if not), and why."""
    if isinstance(race, PairedRacing):
        return [_departure_in_words(race, arm) for arm in range(len(race.problem.arms))]
    states = [one.status for one in race.progress().arm_states]
    pulls = [estimate.pulls for estimate in race.progress().arms]
    return [
        (tried, "worse than the best") if state == "rejected" else (None, "")
        for tried, state in zip(pulls, states, strict=True)
    ]


def _departure_in_words(race: PairedRacing, arm: int) -> tuple[int | None, str]:
    left = race.departures[arm]
    if left is None:
        return None, ""
    if left.leader is None or left.behind is None:
        return left.blocks, "a fit failed, or its score was not a number"
    than = f"candidate {race.problem.arms.index(left.leader)}"
    splits = plural(left.blocks, "split")
    if race.states[arm] == "rejected":
        return left.blocks, f"worse than {than} by {left.behind:.3g} on average over {splits}"
    tolerance = race.problem.tolerance
    return left.blocks, f"better than {than} by at most {tolerance:g}, after {splits}"


def all_failed(last: Any) -> Exception:
    """Return why the last candidate could not be fitted, if none can."""
    if not isinstance(last, Exception):
        return ValueError("no candidate is left: the last one had a score that is not a number")
    last.add_note("no candidate is left in the race; this is the last failure")
    return last
