"""What losses do to bets on several measures, and which target rules out others soonest.

An arm that leads by the few of its results that came could otherwise hold back all bets for ever.
"""

import numpy as np

from fairtrial.confidence.block_betting.book import fill_needs
from fairtrial.confidence.block_betting.hidden import (
    MOST_TRIED,
    fill_times,
    is_sooner,
    share_lost,
)
from fairtrial.confidence.block_betting.planned_end import NOBODY
from fairtrial.core.arithmetic import copy_into
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_losses import (
    Losses,
    with_all_results,
    without_losses,
)
from fairtrial.subpopulations._kernels.block_plans import mark_silent
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures.items import Work, fill_programmes, new_programmes
from fairtrial.subpopulations._kernels.measures.model import (
    BOUNDED,
    Floats,
    Model,
    Seen,
    derive,
    new_view,
)
from fairtrial.subpopulations._kernels.measures.plans import fill_present
from fairtrial.subpopulations._kernels.measures.state import State
from fairtrial.subpopulations._kernels.measures.views import (
    best_feasible,
    copy_view,
    count_wanted,
    share_missing,
)
from fairtrial.subpopulations._kernels.model import Booleans, divide


@kernel
def losses_so_far(model: Model, rules: Rules, state: State) -> Losses:
    """Return what the losses of settled blocks do; pulls stand for the precisions of all values."""
    issued = state.pulls.copy()
    per_result = np.ones(issued.shape)
    is_any = False
    groups = issued.shape[1]
    for cell in range(issued.size):
        if model.noise == BOUNDED:
            for m in range(model.objective.size):
                is_any = is_any or share_missing(model, state, cell, m) > 0.0
        elif not rules.pulls_again:
            share = share_lost(state.blocks.lost[cell], state.blocks.came[cell])
            is_any = is_any or share > 0.0
            issued[cell // groups, cell % groups] /= 1.0 - share
            per_result[cell // groups, cell % groups] /= 1.0 - share
    is_bounded = model.noise == BOUNDED
    return Losses(is_any, is_any and is_bounded, is_any and not is_bounded, issued, per_result)


@kernel
def find_target(
    model: Model,
    rules: Rules,
    state: State,
    seen: Seen,
    leader: int,
    losses: Losses,
    work: Work,
    passed: Booleans,
) -> int:
    """Return the answer that the next block compares with others.

    It is the leader or, if losses make it slow, an arm that rules out others sooner. Mark in
    `passed` the arms that are better by the estimates; on entry, it marks silent ones.
    """
    arms = seen.quality.size
    if not losses.are_any or leader == arms:
        return leader
    ideal = new_view(model)
    copy_view(seen, ideal)
    copy_into(ideal.lowest, seen.means)
    copy_into(ideal.highest, seen.means)
    derive(model, ideal, ideal)
    counted, none = with_all_results(losses), without_losses(losses)
    times, at_best, others = np.empty(arms + 1), np.empty(arms + 1), np.empty(arms + 1)
    _fill_times(model, rules, state, seen, leader, counted, work, times)
    _fill_times(model, rules, state, ideal, leader, none, work, at_best)
    tried = passed.copy()
    target = tried_last = leader
    for _ in range(MOST_TRIED - 1):
        tried[tried_last] = True
        tried_last = best_feasible(state, seen, tried)
        if tried_last == NOBODY:
            break
        _fill_times(model, rules, state, seen, tried_last, counted, work, others)
        if is_sooner(times, at_best, others, tried_last):
            target = tried_last
            copy_into(times, others)
            _fill_times(model, rules, state, ideal, target, none, work, at_best)
            copy_into(passed, tried)
    return target


@kernel
def _fill_times(
    model: Model,
    rules: Rules,
    state: State,
    seen: Seen,
    target: int,
    losses: Losses,
    work: Work,
    times: Floats,
) -> None:
    """Fill how many pulls a target needs to rule out each answer, if all cells get equally many."""
    programmes = new_programmes(model)
    fill_programmes(model, seen, target, seen.saved, programmes)
    needs = np.empty(times.size - 1 + model.signs.size)
    fill_needs(state.book, rules.threshold, rules.separately, target, needs)
    results = np.ones(state.pulls.shape)
    if losses.are_any:
        divide(results, results, losses.per_result)
    values = np.empty(needs.size)
    fill_present(programmes, target, results, losses, needs, work, values)
    silent = np.zeros(times.size - 1, dtype=np.bool_)
    counts = count_wanted(model, state)
    mark_silent(model.active, counts, state.book, model.noise == BOUNDED, silent)
    for k in range(silent.size):
        values[k] = 0.0 if silent[k] else values[k]
    fill_times(state.book, needs, values, rules.cost, target, times)
