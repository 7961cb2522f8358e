"""Evidence on the limits of arms and its consequences; the rest is as for one measure."""

import math

import numpy as np

from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_plans import need_of_limit, needs_of_rivals
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.block_wealth import (
    decide,
    decide_separately,
    fill_wealth,
    settle_ledgers,
)
from fairtrial.subpopulations._kernels.measures.model import Floats, Model, has_limit
from fairtrial.subpopulations._kernels.measures.state import State, limit_ledger


@kernel
def limit_evidence(model: Model, state: State) -> Floats:
    """Return every arm's smallest limit ledger: the evidence that it keeps all its limits."""
    found = np.full(model.active.shape[0], math.inf)
    for k in range(found.size):
        for r in range(model.signs.size):
            if has_limit(model, k, r):
                found[k] = min(found[k], state.ledgers[limit_ledger(state, k, r)])
    return found


@kernel
def all_wealth(model: Model, state: State) -> Floats:
    """Return the log wealth against every answer, "none" last."""
    wealth = np.empty(model.active.shape[0] + 1)
    fill_wealth(state, limit_evidence(model, state), wealth)
    return wealth


@kernel
def none_is_possible(model: Model) -> bool:
    """Return whether every arm has a limit that it could break."""
    for k in range(model.active.shape[0]):
        has_any = False
        for r in range(model.signs.size):
            has_any = has_any or has_limit(model, k, r)
        if not has_any:
            return False
    return True


@kernel
def reject_answers(model: Model, rules: Rules, state: State) -> None:
    """Reject permanently every answer whose wealth has reached 1/delta; finish when one is left."""
    if rules.separately:
        settle_ledgers(rules, state)
        decide_separately(state, limit_evidence(model, state))
    else:
        decide(rules, state, all_wealth(model, state))


@kernel
def needs_of(model: Model, rules: Rules, state: State, leader: int, needs: Floats) -> None:
    """Fill what each item still needs in nats; negative if it is settled or absent.

    Items 0 .. K-1: the rival k. Items from K on: the limits of the leader.
    """
    arms = model.active.shape[0]
    least = needs_of_rivals(rules, state, leader, limit_evidence(model, state), needs)
    if leader < arms:
        for r in range(model.signs.size):
            if has_limit(model, leader, r):
                evidence = state.ledgers[limit_ledger(state, leader, r)]
                needs[arms + r] = need_of_limit(rules, least, evidence)
