"""A race with more candidates than an earlier one: what is known from it, and what counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.wording import listed
from fairtrial.delayed import PairedRacing
from fairtrial.errors import InvalidArgument, StudyNotFound
from fairtrial.races.served import opened
from fairtrial.study import Study

if TYPE_CHECKING:
    from fairtrial.study.location import Storage

__all__ = ["Earlier", "earlier_race", "recorded_rule"]

_SAME = ("direction", "tolerance", "reward_range", "control")


class Earlier(NamedTuple):
    """An earlier race on the same items.

    Parameters
    ----------
    scores : ndarray of shape (items, candidates)
        Its scores, by the candidates of the new race; NaN if unknown.
    evidence : list of list of float, or None
        What it found, as the new race counts it. None if it is not proven: then only its scores
        are used.
    """

    scores: NDArray[np.float64]
    evidence: list[list[float]] | None


def earlier_race(storage: Storage, name: str, new: PairedRacing) -> Earlier:
    """Return what is known from an earlier race.

    Parameters
    ----------
    storage : Storage
        The storage of both races.
    name : str
        The name of the earlier race.
    new : PairedRacing
        The rule of the new race.

    Raises
    ------
    InvalidArgument
        If it is no race on the same items, with the same candidates, scores and limits.
    """
    with _opened(storage, name) as study:
        before = study.policy
        if not isinstance(before, PairedRacing):
            raise InvalidArgument("extends", "must name a race", name)
        _check_same(name, before, new)
        labels: Sequence[str] = new.problem.arms
        scores = np.full((len(before.listed_scores), len(labels)), np.nan)
        scores[:, [labels.index(label) for label in before.problem.arms]] = before.listed_scores
        is_proven = before.problem.reward_range is not None
        return Earlier(scores, before.carried_evidence(labels) if is_proven else None)


def _opened(storage: Storage, name: str) -> Study:
    try:
        return opened(storage, name)
    except StudyNotFound as error:
        accepted = f"must name a race in the same storage ({error})"
        raise InvalidArgument("extends", accepted, name) from None


def _check_same(name: str, before: PairedRacing, new: PairedRacing) -> None:
    old_problem, problem = before.problem, new.problem
    accepted = {
        "must name a race about 'these items', as the new one is": (
            before.n_blocks is not None and new.n_blocks is not None
        ),
        "must name a race on the same items": before.blocks_from == new.blocks_from,
        "must name a race with the same margin and categories": (
            (before.margin, before.categories) == (new.margin, new.categories)
        ),
        f"must name a race with the same {listed(_SAME)}": all(
            getattr(old_problem, field) == getattr(problem, field) for field in _SAME
        ),
    }
    for text, is_met in accepted.items():
        if not is_met:
            raise InvalidArgument("extends", text, name)
    now = dict(zip(problem.arms, new.arms_from or (), strict=True))
    old = dict(zip(old_problem.arms, before.arms_from or (), strict=True))
    if others := [repr(label) for label, content in old.items() if now.get(label) != content]:
        text = f"must name a race whose candidates are all here, unchanged, not {listed(others)}"
        raise InvalidArgument("extends", text, name)


def recorded_rule(storage: Storage, name: str) -> PairedRacing | None:
    """Return the rule with which an existing race began; None if there is none."""
    try:
        with opened(storage, name) as study:
            policy = study.policy
    except StudyNotFound:
        return None
    return policy if isinstance(policy, PairedRacing) else None
