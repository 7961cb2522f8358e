"""The wealth against every answer if candidates have limits, and what it rules out.

There are three kinds of ledgers: against a candidate keeping its limits, against a candidate being
as good as a target, and against a target breaking one of its limits. The bets of a block share its
pulls. If the target of a block is a candidate, all evidence of the block against a rival therefore
goes into the ledger of the pair. No two ledgers of a block are ever multiplied against the same
answer.
"""

import math

import numpy as np

from fairtrial.confidence.block_betting.blocks import reject
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.limits import Limits
from fairtrial.linear._kernels.matrices import Floats
from fairtrial.linear._kernels.model import Model
from fairtrial.linear._kernels.state import Rules, State


@kernel
def own_ledger(k: int) -> int:
    """Return the ledger against candidate k keeping its limits."""
    return k


@kernel
def pair_ledger(limits: Limits, rival: int, target: int) -> int:
    """Return the ledger against the rival being right, for a target that keeps its limits."""
    candidates = limits.excluded.size
    return candidates + rival * candidates + target


@kernel
def limit_ledger(limits: Limits, target: int, r: int) -> int:
    """Return the ledger against the target breaking its limit r."""
    candidates, number = limits.stated.shape
    return candidates + candidates * candidates + target * number + r


@kernel
def start_with_limits(model: Model, limits: Limits, rules: Rules, state: State) -> None:
    """Rule out what cannot be right at any theta: candidates that break a limit, or "none"."""
    candidates = limits.excluded.size
    if rules.tolerance > 0.0:
        _settle_twins(model, limits, state)
    none_is_possible = True
    for k in range(candidates):
        if limits.excluded[k]:
            state.ledgers[own_ledger(k)] = math.inf
            state.rejected[k] = 1
        elif limits_ledger(limits, state, k) == math.inf:
            none_is_possible = False
    if not none_is_possible:
        state.rejected[candidates] = 1
    conclude_with_limits(limits, rules, state)


@kernel
def _settle_twins(model: Model, limits: Limits, state: State) -> None:
    """Settle the pairs of equal candidates: with a tolerance, neither is better than the other."""
    candidates, rank = model.candidates.shape
    for j in range(candidates):
        for k in range(candidates):
            same = j != k
            for i in range(rank):
                same = same and model.candidates[j, i] == model.candidates[k, i]
                if not same:
                    break
            if same and model.rest[j, 0] == model.rest[k, 0]:
                state.ledgers[pair_ledger(limits, k, j)] = math.inf


@kernel
def limits_ledger(limits: Limits, state: State, j: int) -> float:
    """Return the evidence that j keeps all its limits: the smallest of their ledgers."""
    if limits.excluded[j]:
        return 0.0
    least = math.inf
    for r in range(limits.stated.shape[1]):
        if limits.stated[j, r] > -math.inf:
            least = min(least, state.ledgers[limit_ledger(limits, j, r)])
    return least


@kernel
def term(limits: Limits, state: State, answer: int, target: int, kept: float) -> float:
    """Return what the target's blocks add to the log wealth against an answer.

    `kept`: the target's `limits_ledger`. The number of candidates stands for "none".
    """
    if answer == limits.excluded.size:
        return kept
    return min(state.ledgers[pair_ledger(limits, answer, target)], kept)


@kernel
def fill_wealth(limits: Limits, state: State, kept: Floats, wealth: Floats) -> None:
    """Fill every candidate's `limits_ledger`, and the log wealth against every answer."""
    candidates = limits.excluded.size
    for j in range(candidates):
        kept[j] = limits_ledger(limits, state, j)
    for answer in range(candidates + 1):
        wealth[answer] = 0.0 if answer == candidates else state.ledgers[own_ledger(answer)]
    for j in range(candidates):
        # All ledgers of an answer that was never a target are zero.
        if state.led[j]:
            for answer in range(candidates + 1):
                if answer != j:
                    wealth[answer] += term(limits, state, answer, j, kept[j])


@kernel
def wealth_with_limits(limits: Limits, state: State) -> Floats:
    """Return the log wealth against every answer, "none" last."""
    wealth = np.empty(limits.excluded.size + 1)
    fill_wealth(limits, state, np.empty(limits.excluded.size), wealth)
    return wealth


@kernel
def conclude_with_limits(limits: Limits, rules: Rules, state: State) -> None:
    """Reject permanently every answer that the wealth rules out; finish when one is left."""
    if rules.separately:
        _settle_ledgers(limits, rules, state)
        return
    left, last = reject(state.rejected, wealth_with_limits(limits, state), rules.threshold)
    if left <= 1:
        # If the last two answers are rejected together, the leader stays.
        finish_with(state, last if left else -1)


@kernel
def finish_with(state: State, answer: int) -> None:
    """Finish with an answer; -1 means the leader."""
    state.finished[0] = 1
    if answer >= 0:
        for k in range(state.chosen.size):
            state.chosen[k] = 1 if k == answer else 0


@kernel
def chosen_answer(state: State) -> int:
    """Return the current leader or the answer; -1 before there is one."""
    for k in range(state.chosen.size):
        if state.chosen[k]:
            return k
    return -1


# ------------------------------------------------------------ ledgers tested separately


@kernel
def _settle_ledgers(limits: Limits, rules: Rules, state: State) -> None:
    """Settle permanently every ledger that has reached the threshold; finish if that decides.

    A settled ledger is infinite.
    """
    for ledger in range(state.ledgers.size):
        if state.ledgers[ledger] >= rules.threshold:
            state.ledgers[ledger] = math.inf
    answers = state.rejected.size
    for turn in range(-1, answers):
        # The leader comes first, because one block can settle several answers.
        answer = chosen_answer(state) if turn < 0 else turn
        if answer < 0 or state.rejected[answer]:
            continue
        if evidence_for(limits, state, answer) == math.inf:
            finish_with(state, answer)
            return


@kernel
def against_rival(limits: Limits, state: State, rival: int, target: int) -> float:
    """Return the evidence that a rival breaks a limit, or is no better than the target.

    For the target "none", only the first counts.
    """
    found = state.ledgers[own_ledger(rival)]
    if target < limits.excluded.size:
        found = max(found, state.ledgers[pair_ledger(limits, rival, target)])
    return found


@kernel
def evidence_for(limits: Limits, state: State, answer: int) -> float:
    """Return the smallest evidence that an answer needs if ledgers are tested separately."""
    candidates = limits.excluded.size
    least = math.inf if answer == candidates else limits_ledger(limits, state, answer)
    for rival in range(candidates):
        if rival != answer:
            least = min(least, against_rival(limits, state, rival, answer))
    return least


@kernel
def evidence_with_limits(limits: Limits, rules: Rules, state: State, leader: int) -> float:
    """Return the smallest evidence that separates the leader from other answers."""
    if rules.separately:
        return evidence_for(limits, state, leader)
    least = math.inf
    wealth = wealth_with_limits(limits, state)
    for answer in range(wealth.size):
        if answer != leader and not state.rejected[answer]:
            least = min(least, wealth[answer])
    return least
