"""The wealth against every answer, and which answers it has ruled out."""

import math

import numpy as np

from fairtrial.confidence.block_betting.blocks import reject
from fairtrial.core.compilation import inlined, kernel
from fairtrial.subpopulations._kernels.block_state import (
    Rules,
    State,
    limit_ledger,
    own_ledger,
    pair_ledger,
)
from fairtrial.subpopulations._kernels.model import Floats, Model


@inlined
def cells_ledger(model: Model, state: State, j: int) -> float:
    """Return arm j's smallest limit ledger: the evidence that it keeps all its limits."""
    least = math.inf
    for end in range(model.limits.shape[0]):
        for group in range(model.weights.size):
            if abs(model.limits[end, j, group]) < math.inf:
                least = min(least, state.ledgers[limit_ledger(state, end, j, group)])
    return least


@inlined
def term(state: State, answer: int, target: int, cells: float) -> float:
    """Return what the target's blocks add to the log wealth against an answer; K means "none".

    `cells`: the target's limit evidence.
    """
    if answer == state.shares.shape[0]:
        return cells
    return min(state.ledgers[pair_ledger(state, answer, target)], cells)


@inlined
def fill_limit_evidence(model: Model, state: State, cells: Floats) -> None:
    """Fill every arm's `cells_ledger`."""
    for j in range(cells.size):
        cells[j] = cells_ledger(model, state, j)


@inlined
def fill_wealth(state: State, cells: Floats, wealth: Floats) -> None:
    """Fill the log wealth against every answer, "none" last, from every arm's limit evidence."""
    arms = cells.size
    for answer in range(arms + 1):
        wealth[answer] = 0.0 if answer == arms else state.ledgers[own_ledger(answer)]
        for j in range(arms):
            if j != answer:
                wealth[answer] += term(state, answer, j, cells[j])


@kernel
def all_wealth(model: Model, state: State) -> Floats:
    """Return the log wealth against every answer, "none" last."""
    arms = model.active.shape[0]
    cells = np.empty(arms)
    wealth = np.empty(arms + 1)
    fill_limit_evidence(model, state, cells)
    fill_wealth(state, cells, wealth)
    return wealth


@kernel
def none_is_possible(model: Model) -> bool:
    """Return whether every arm has a limit that it could fail."""
    arms = model.active.shape[0]
    limited = 0
    for k in range(arms):
        limited += 1 if _has_limits(model, k) else 0
    return limited == arms


@kernel
def _has_limits(model: Model, k: int) -> bool:
    """Return whether an arm has any limit."""
    for end in range(model.limits.shape[0]):
        for group in range(model.weights.size):
            if abs(model.limits[end, k, group]) < math.inf:
                return True
    return False


@kernel
def reject_answers(model: Model, rules: Rules, state: State) -> None:
    """Reject permanently every answer whose wealth has reached 1/delta; finish when one is left."""
    if rules.separately:
        settle_ledgers(rules, state)
        cells = np.empty(model.active.shape[0])
        fill_limit_evidence(model, state, cells)
        decide_separately(state, cells)
        return
    decide(rules, state, all_wealth(model, state))


@inlined
def decide(rules: Rules, state: State, wealth: Floats) -> None:
    """Reject permanently the answers that the wealth rules out; finish when one is left."""
    left, last = reject(state.rejected, wealth, rules.threshold)
    if left <= 1:
        state.finished[0] = 1
        # If the last two answers are rejected together, the leader stays.
        state.answer[0] = last if left else state.leader[0]


# ------------------------------------------------------------ ledgers tested separately


@inlined
def settle_ledgers(rules: Rules, state: State) -> None:
    """Settle permanently every ledger that has reached the threshold, by making it infinite."""
    for ledger in range(state.ledgers.size):
        if state.ledgers[ledger] >= rules.threshold:
            state.ledgers[ledger] = math.inf


@inlined
def decide_separately(state: State, cells: Floats) -> None:
    """Finish if the settled ledgers decide, given every arm's limit evidence."""
    arms = cells.size
    for turn in range(arms + 2):
        # The leader comes first, because one block can settle several answers.
        answer = state.leader[0] if turn == 0 else turn - 1
        if not state.rejected[answer] and evidence_for(state, cells, answer) == math.inf:
            state.finished[0] = 1
            state.answer[0] = answer
            return


@inlined
def against_rival(state: State, rival: int, target: int) -> float:
    """Return the evidence that a rival fails a limit, or is no better than the target.

    For the target K, "none", only the first counts.
    """
    found = state.ledgers[own_ledger(rival)]
    if target < state.shares.shape[0]:
        found = max(found, state.ledgers[pair_ledger(state, rival, target)])
    return found


@inlined
def evidence_for(state: State, cells: Floats, answer: int) -> float:
    """Return the smallest evidence that an answer needs if ledgers are tested separately.

    `cells`: every arm's limit evidence.
    """
    arms = cells.size
    least = math.inf if answer == arms else cells[answer]
    for rival in range(arms):
        if rival != answer:
            least = min(least, against_rival(state, rival, answer))
    return least
