"""Initial values of an epoch: credits and rewards from before its first round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import isfinite, lcm
from typing import Any

import numpy as np

from fairtrial.allocation.problem import MAX_DENOMINATOR, Problem
from fairtrial.core.validation import as_exact
from fairtrial.errors import InvalidArgument

__all__ = [
    "MOST_CREDIT",
    "Credits",
    "Rewards",
    "given_credits",
    "given_rewards",
    "in_parts",
    "nodes",
    "parts_of_a_pull",
]

Credits = tuple[Fraction, ...]
"""By arm, then by group."""

Rewards = tuple[tuple[float, float], ...]
"""Number of rewards and their sum, by context and arm."""

_MOST_REWARDS = 2**40

MOST_CREDIT = 2**63 // (4 * MAX_DENOMINATOR)
"""Largest initial credit or debt of an arm, in pulls, that can be counted in 64 bits."""


def nodes(problem: Problem) -> Iterator[tuple[str, str]]:
    """Yield everything that has a credit: kind and label of every arm, then of every group."""
    yield from (("arm", arm) for arm in problem.arms)
    yield from (("group", group) for group in problem.groups or {})


def given_credits(problem: Problem, value: Any) -> Credits | None:
    """Return the credits of all arms and groups; 0 for those that are not named.

    Raises
    ------
    InvalidArgument
        If a credit is not an exact number, or is more than the tolerance.
    """
    if value is None:
        return None
    labels = [label for _, label in nodes(problem)]
    if isinstance(value, Mapping):
        rows = _by_label(labels, value)
    else:
        rows = _in_order(len(problem.arms), labels, value)
    return tuple(_as_credit(problem, label, row) for label, row in zip(labels, rows, strict=True))


def _by_label(labels: Sequence[str], value: Mapping[Any, Any]) -> list[Any]:
    given = {str(label): credit for label, credit in value.items()}
    unknown = sorted(set(given) - set(labels))
    if unknown:
        accepted = f"must name arms or groups of {labels}"
        raise InvalidArgument("initial_credits", accepted, unknown)
    return [given.get(label, 0) for label in labels]


def _in_order(arms: int, labels: Sequence[str], value: Any) -> list[Any]:
    sizes = sorted({arms, len(labels)})
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence | np.ndarray)
        or len(value) not in sizes
    ):
        wanted = " or ".join(map(str, sizes))
        raise InvalidArgument(
            "initial_credits", f"must be a mapping by label, or {wanted} credits", value
        )
    return [*value, *([0] * (len(labels) - len(value)))]


def _as_credit(problem: Problem, label: str, value: object) -> Fraction:
    name = f"initial_credits[{label}]"
    accepted = "must be a number of pulls: a fraction, a text such as '-3/2', an integer or a float"
    credit = as_exact(name, value, accepted)
    if credit > problem.unfairness_tolerance:
        most = problem.unfairness_tolerance
        accepted = f"must be at most the unfairness tolerance, {most}: no rule can promise more"
        raise InvalidArgument(name, accepted, value)
    if abs(credit) > MOST_CREDIT:
        accepted = f"must be from {-MOST_CREDIT} to {MOST_CREDIT}, to be counted in 64 bits"
        raise InvalidArgument(name, accepted, value)
    return credit


def parts_of_a_pull(problem: Problem, owed: Credits | None) -> int:
    """Return the common denominator q of all shares, and of the credits unless it is too large."""
    wanted = problem.denominator
    for credit in owed or ():
        wanted = lcm(wanted, credit.denominator)
        if wanted > MAX_DENOMINATOR:
            return problem.denominator
    return wanted


def in_parts(
    problem: Problem, owed: Credits | None, denominator: int, quotas: Sequence[int]
) -> list[int]:
    """Return credits in units of 1/q pulls, rounded down to whole units.

    Rounding does not change the number of whole pulls owed: with integers p and t,
    ``floor(c + p t / q)`` equals ``floor((floor(c q) + p t) / q)``. With several plays per round,
    credits are rounded down further, to a multiple of the arm's share: an arm's windows have to
    begin at whole rounds.
    """
    if owed is None:
        return [0] * len(quotas)
    units = [int(credit * denominator // 1) for credit in owed]
    if problem.plays > 1:
        pairs = zip(units, quotas, strict=True)
        units = [quota * (unit // quota) if quota else 0 for unit, quota in pairs]
    return units


def given_rewards(problem: Problem, contexts: int, value: Any) -> Rewards | None:
    """Return number and sum of the rewards of every cell; 0 for arms that are not named.

    Raises
    ------
    InvalidArgument
        If an entry is not a pair of numbers, or is impossible with rewards in the range.
    """
    if value is None:
        return None
    labels = [arm for _, arm in product(range(contexts), problem.arms)]
    if isinstance(value, Mapping):
        rows = _rewards_by_label(problem, contexts, value)
    elif isinstance(value, Sequence | np.ndarray) and len(value) == len(labels):
        rows = list(value)
    else:
        accepted = f"must be {len(labels)} pairs (number, sum), one for each arm in each context"
        raise InvalidArgument("initial_rewards", accepted, value)
    return tuple(_as_rewards(problem, arm, row) for arm, row in zip(labels, rows, strict=True))


def _rewards_by_label(problem: Problem, contexts: int, value: Mapping[Any, Any]) -> list[Any]:
    given = {str(arm): pair for arm, pair in value.items()}
    unknown = sorted(set(given) - set(problem.arms))
    if unknown or contexts > 1:
        accepted = f"must name arms of {list(problem.arms)}"
        if contexts > 1:
            accepted = "must be a list of pairs (number, sum), by context and arm"
        raise InvalidArgument("initial_rewards", accepted, unknown or value)
    return [given.get(arm, (0, 0)) for arm in problem.arms]


def _as_rewards(problem: Problem, arm: str, value: Any) -> tuple[float, float]:
    name = f"initial_rewards[{arm}]"
    try:
        number, total = (float(part) for part in value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, "must be two numbers: how many, and their sum", value) from None
    low, high = problem.reward_range
    rounding = 1e-9 * max(1.0, abs(low), abs(high)) * max(1.0, number)
    inside = low * number - rounding <= total <= high * number + rounding
    if not (isfinite(number) and isfinite(total) and 0 <= number <= _MOST_REWARDS and inside):
        accepted = (
            f"must be a number, at most {_MOST_REWARDS}, and a sum of rewards that are in "
            f"[{low:g}, {high:g}]"
        )
        raise InvalidArgument(name, accepted, value)
    return number, total
