"""The wealth against every answer, and which answers it has ruled out."""

import math

import numpy as np

from fairtrial.causal._kernels.betting_state import (
    Floats,
    Model,
    Rules,
    State,
    limit_ledger,
    own_ledger,
    pair_ledger,
)
from fairtrial.confidence.block_betting.blocks import reject
from fairtrial.core.compilation import inlined, kernel


@inlined
def limits_evidence(model: Model, state: State, target: int) -> float:
    """Return the smallest limit ledger of an arm: the evidence that it keeps all of its limits."""
    arms, limits = model.breakable.shape
    least = math.inf
    for limit in range(limits):
        if model.breakable[target, limit] > 0.0:
            least = min(least, state.ledgers[limit_ledger(arms, limits, target, limit)])
    return least


@inlined
def term(arms: int, state: State, answer: int, target: int, least: float) -> float:
    """Return what a target's blocks add to the wealth against an answer; K means "none".

    `least`: the target's `limits_evidence`.
    """
    if answer == arms:
        return least
    return min(state.ledgers[pair_ledger(arms, answer, target)], least)


@kernel
def all_wealth(model: Model, state: State) -> Floats:
    """Return the log wealth against every answer, "none" last."""
    arms = model.means.shape[0]
    wealth = np.zeros(arms + 1)
    for k in range(arms):
        wealth[k] = state.ledgers[own_ledger(k)]
    for target in range(arms):
        least = limits_evidence(model, state, target)
        for answer in range(arms + 1):
            if answer != target:
                wealth[answer] += term(arms, state, answer, target, least)
    return wealth


@kernel
def reject_answers(model: Model, rules: Rules, state: State) -> None:
    """Reject permanently every answer whose wealth has reached 1/delta; finish when one is left."""
    left, last = reject(state.rejected, all_wealth(model, state), rules.threshold)
    if left <= 1:
        state.finished[0] = 1
        # If the last two answers are rejected together, the leader stays.
        state.answer[0] = last if left else state.leader[0]
