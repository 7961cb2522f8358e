"""Which parameters of a paired race are accepted, together with its problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.validation import check_flag, check_instance, check_number
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = [
    "check_arms_from",
    "check_categories",
    "check_earlier",
    "check_judge",
    "check_margin",
    "check_overlap",
    "check_problem",
    "check_shuffle",
    "check_skips",
]

Rows = tuple[tuple[float, ...], ...]


def check_problem(problem: Problem) -> None:
    """Refuse a problem that a paired race does not answer."""
    check_instance("problem", problem, Problem)
    if problem.top != 1:
        raise InvalidArgument("problem", "must have top=1 for PairedRacing", problem)
    if problem.feedback != "full":
        raise InvalidArgument("problem", "must have feedback='full' for PairedRacing", problem)
    if problem.failure_value is not None or problem.failure == "outcome":
        raise InvalidArgument(
            "problem", "must leave failures to PairedRacing, which tries a lost pull again", problem
        )


def check_overlap(overlap: float, problem: Problem, n_blocks: int | None) -> float:
    """Return the share of an error that all blocks have in common, if they can share one."""
    share = check_number("overlap", overlap, low=0.0)
    if share and (problem.reward_range is not None or n_blocks is not None):
        raise InvalidArgument(
            "overlap",
            "must be 0 with a reward_range or n_blocks: the blocks then share no error",
            share,
        )
    return share


def check_shuffle(shuffle: bool, listed: int | None) -> bool:
    """Return whether to shuffle blocks, of which there must be a list."""
    if check_flag("shuffle", shuffle) and listed is None:
        raise InvalidArgument("shuffle", "needs n_blocks or max_blocks, to know the list", True)
    return shuffle


def check_arms_from(arms_from: Sequence[str] | None, problem: Problem) -> tuple[str, ...] | None:
    """Return where arms come from, one text for each."""
    if arms_from is None:
        return None
    arms = len(problem.arms)
    is_sequence = isinstance(arms_from, Sequence) and not isinstance(arms_from, str | bytes)
    if not is_sequence or len(arms_from) != arms:
        raise InvalidArgument("arms_from", f"must have {arms} entries", arms_from)
    return tuple(check_instance("arms_from", one, str) for one in arms_from)


def check_margin(margin: float | None, problem: Problem, listed: int | None) -> float | None:
    """Return a margin against the control of a problem, for a list of that many blocks."""
    if margin is None:
        return None
    if problem.control is None or problem.reward_range is None or listed is None:
        raise InvalidArgument(
            "margin",
            "needs a problem with control and reward_range, and n_blocks or max_blocks",
            margin,
        )
    low, high = problem.reward_range
    value = check_number("margin", margin, low=0.0)
    if value > high - low:
        raise InvalidArgument("margin", f"must be at most {high - low:g}, the range", margin)
    return value


def check_skips(skips: bool, margin: float | None) -> bool:
    """Return whether to leave out evaluations, for which there must be limits."""
    if check_flag("skips", skips) and margin is None:
        raise InvalidArgument("skips", "needs a margin: only limits leave something out", True)
    return skips


def check_categories(
    categories: Sequence[str] | None, margin: float | None, listed: int | None
) -> tuple[str, ...] | None:
    """Return the categories of blocks, one for each of the list, if there is a margin."""
    if categories is None:
        return None
    if margin is None:
        raise InvalidArgument("categories", "needs a margin", categories)
    is_list = isinstance(categories, Sequence) and not isinstance(categories, str)
    if not is_list or len(categories) != listed:
        accepted = f"must be a sequence of {listed} labels, one for each block"
        raise InvalidArgument("categories", accepted, categories)
    return tuple(check_instance("categories", one, str) for one in categories)


def check_earlier(
    given: Sequence[Sequence[float]] | None, problem: Problem, level: float
) -> Rows | None:
    """Return evidence of an earlier race that leaves an arm in the race at a level."""
    if given is None:
        return None
    arms = len(problem.arms)
    if problem.reward_range is None:
        raise InvalidArgument("earlier_evidence", "needs a problem with reward_range", given)
    evidence = _finite_table("earlier_evidence", given, (arms, arms))
    if (np.diagonal(evidence) >= level).all():
        raise InvalidArgument("earlier_evidence", "must leave an arm in the race", given)
    return tuple(tuple(row) for row in evidence.tolist())


def check_judge(
    judge: Sequence[Sequence[float]] | None, problem: Problem, n_blocks: int | None
) -> Rows | None:
    """Return a judge's scores, one row for each block, within the range of scores."""
    if judge is None:
        return None
    if None in (problem.reward_range, n_blocks):
        raise InvalidArgument("judge", "needs a reward_range and n_blocks")
    table = _finite_table("judge", judge, (n_blocks or 0, len(problem.arms)))
    low, high = problem.reward_range or (0.0, 0.0)
    if table.min() < low or table.max() > high:
        accepted = f"must lie in reward_range, [{low:g}, {high:g}], as scores do"
        raise InvalidArgument("judge", accepted, float(table.flat[abs(table).argmax()]))
    return tuple(tuple(row) for row in table.tolist())


def _finite_table(name: str, given: Any, shape: tuple[int, int]) -> NDArray[np.float64]:
    try:
        table = np.array(given, dtype=float)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.shape != shape or not np.isfinite(table).all():
        raise InvalidArgument(name, f"must have {shape[0]} rows of {shape[1]} finite numbers")
    return table
