"""Epochs: shares, arms and groups change, but credits, rewards and pulls in flight are kept."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fairtrial.allocation.policies.initial_values import MOST_CREDIT, Credits, Rewards, nodes
from fairtrial.allocation.policies.state import AllocationState
from fairtrial.allocation.problem import Problem
from fairtrial.core.policy import State

__all__ = ["carried_over", "credits_for", "rewards_for"]

Integers = NDArray[np.int64]


def credits_for(state: AllocationState, problem: Problem) -> Credits:
    """Return the credits of all arms and groups of the next problem, within the allowed limits."""
    rounds, unit = state.rounds, state.parts
    rows = zip(
        nodes(state.problem), state.nodes.quota.tolist(), state.nodes.offset.tolist(), strict=True
    )
    owed = {node: Fraction(quota * rounds - base, unit) for node, quota, base in rows}
    highest = Fraction(min(problem.unfairness_tolerance, MOST_CREDIT))
    least = Fraction(-MOST_CREDIT)
    kept = (owed.get(node, Fraction(0)) for node in nodes(problem))
    return tuple(max(least, min(credit, highest)) for credit in kept)


def rewards_for(state: AllocationState, problem: Problem) -> Rewards | None:
    """Return the rewards of the arms that stay; None if no reward has arrived."""
    known = state.rewards()
    if not known.any():
        return None
    return tuple(
        (float(row[0, place]), float(row[1, place])) if place is not None else (0.0, 0.0)
        for row in known
        for place in map(state.places.get, problem.arms)
    )


def carried_over(saved: State, before: Problem, after: Problem, contexts: int) -> State:
    """Return the state that the next epoch keeps: the pull counter and the pulls in flight."""
    places = {arm: place for place, arm in enumerate(after.arms)}

    def known(rows: Integers) -> Integers:
        there = (
            (number, places.get(before.arms[action], -1), tag)
            for number, action, tag in rows.tolist()
            if tag < contexts
        )
        kept = [row for row in there if row[1] >= 0]
        return np.array(kept, dtype=np.int64).reshape(len(kept), 3)

    return {
        "asked": saved["asked"],
        "told": saved["told"],
        "_state.first": saved["asked"],
        "outstanding": known(saved["outstanding"]),
        "lost": known(saved["lost"]),
    }
