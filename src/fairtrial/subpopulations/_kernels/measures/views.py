"""The estimates that a plan uses: means and covariances, adjusted for losses and doubts."""

import math

from fairtrial.confidence.block_betting.book import CLOSED
from fairtrial.confidence.block_betting.planned_end import NOBODY
from fairtrial.core.arithmetic import copy_into, square, sum_of
from fairtrial.core.compilation import kernel, uncounted
from fairtrial.subpopulations._kernels.block_plans import PRIOR_PULLS, stays_away
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.doubt import DOUBT, fair_count
from fairtrial.subpopulations._kernels.measures.items import (
    Programmes,
    Work,
    along_limit,
    fill_programmes,
    item_value,
)
from fairtrial.subpopulations._kernels.measures.model import (
    BOUNDED,
    OBJECTIVE,
    Floats,
    Model,
    Seen,
    derive,
    has_limit,
    is_relative,
    part_in_limit,
)
from fairtrial.subpopulations._kernels.measures.predictions import (
    LARGEST_CORRELATION,
    adjust_estimates,
)
from fairtrial.subpopulations._kernels.measures.state import State
from fairtrial.subpopulations._kernels.model import Booleans


@uncounted
def summarise(model: Model, state: State, seen: Seen) -> None:
    """Fill the estimates from all data; covariances in known ranges are shrunk to fair coins."""
    arms, groups, measures = seen.means.shape
    for k in range(arms):
        for group in range(groups):
            for m in range(measures):
                count = state.counts[k, group, m, m]
                mean = state.sums[k, group, m] / max(count, 1e-300)
                if count == 0.0 and model.noise == BOUNDED:
                    mean = 0.5 * (model.low[m] + model.high[m])
                elif count == 0.0:
                    mean = _mean_of_others(state, group, m)
                seen.means[k, group, m] = mean
            if model.noise == BOUNDED:
                _estimate_covariances(model, state, seen, k, group)
            else:
                for m in range(measures):
                    for other in range(measures):
                        known = model.covariances[k, group, m, other]
                        seen.covariances[k, group, m, other] = known
    if model.predicted:
        adjust_estimates(model, state, seen)
    _see_losses(model, state, seen)
    derive(model, seen, seen)


@uncounted
def _mean_of_others(state: State, group: int, m: int) -> float:
    """Return the mean of the arms' means of a measure in a group; 0 if there are none."""
    total = number = 0.0
    for k in range(state.pulls.shape[0]):
        count = state.counts[k, group, m, m]
        if count > 0.0:
            total += state.sums[k, group, m] / count
            number += 1.0
    return total / max(1.0, number)


@uncounted
def _estimate_covariances(model: Model, state: State, seen: Seen, k: int, group: int) -> None:
    measures = model.objective.size
    for m in range(measures):
        for other in range(m + 1):
            count = state.counts[k, group, m, other]
            both = seen.means[k, group, m] * seen.means[k, group, other]
            found = state.products[k, group, m, other] - count * both
            if other == m:
                # As in the rule for one measure: less rounding error if means are far from zero.
                explained = square(state.sums[k, group, m]) / max(count, 1e-300)
                found = state.products[k, group, m, m] - explained
                found += PRIOR_PULLS * square(model.high[m] - model.low[m]) / 4.0
            found /= count + PRIOR_PULLS
            seen.covariances[k, group, m, other] = found
            seen.covariances[k, group, other, m] = found
    for m in range(measures):
        for other in range(m):
            own = seen.covariances[k, group, m, m] * seen.covariances[k, group, other, other]
            most = LARGEST_CORRELATION * math.sqrt(max(0.0, own))
            found = min(max(seen.covariances[k, group, m, other], -most), most)
            seen.covariances[k, group, m, other] = seen.covariances[k, group, other, m] = found


@uncounted
def _see_losses(model: Model, state: State, seen: Seen) -> None:
    """Fill the means as seen by bets that replace missing values by the worst ones."""
    arms, groups, measures = seen.means.shape
    for k in range(arms):
        for group in range(groups):
            for m in range(measures):
                mean = seen.means[k, group, m]
                share = share_missing(model, state, k * groups + group, m)
                seen.lowest[k, group, m] = mean
                seen.highest[k, group, m] = mean
                if share > 0.0:
                    seen.lowest[k, group, m] += share * (model.low[m] - mean)
                    seen.highest[k, group, m] += share * (model.high[m] - mean)


@uncounted
def share_missing(model: Model, state: State, cell: int, m: int) -> float:
    """Return the share of a cell's pulls that never give a measure, as counted by bets."""
    missing = state.was_absent[cell, m]
    if missing == 0.0 or model.noise != BOUNDED:
        return 0.0
    return missing / (missing + max(1.0, state.was_present[cell, m]))


@kernel
def can_plan(model: Model, state: State) -> bool:
    """Return whether every cell that matters has results, or need not be waited for.

    With known noise, this applies to every measure that the objective or a limit uses. With known
    ranges, the range is enough for a measure without values.
    """
    arms, groups = model.active.shape
    counts = count_wanted(model, state)
    for k in range(arms):
        for group in range(groups):
            if model.active[k, group] == 0.0 or state.book.rejected[k] == CLOSED:
                continue
            cell = k * groups + group
            if counts[k, group] > 0.0 or sum_of(state.was_absent[cell]) > 0.0:
                continue
            if not stays_away(state.blocks, state.pulls, cell):
                return False
    return True


@kernel
def count_wanted(model: Model, state: State) -> Floats:
    """Return how often each cell gave its rarest measure that matters; pulls for known ranges."""
    counts = state.pulls.copy()
    arms, groups = counts.shape
    for k in range(arms):
        for group in range(groups):
            for m in range(model.objective.size):
                if model.noise != BOUNDED and is_wanted(model, k, group, m):
                    counts[k, group] = min(counts[k, group], state.counts[k, group, m, m])
    return counts


@uncounted
def is_wanted(model: Model, k: int, group: int, m: int) -> bool:
    """Return whether the objective or a limit uses a measure of a cell."""
    found = model.objective[m] != 0.0 and model.weights[group] > 0.0
    for r in range(model.signs.size):
        of = int(model.measure_of[r])
        is_of_it = of == m or (of == OBJECTIVE and model.objective[m] != 0.0)
        is_of_it = is_of_it and part_in_limit(model, r, group) != 0.0
        concerns = has_limit(model, k, r) or (is_relative(model, r) and k == model.control)
        found = found or (is_of_it and concerns)
    return found


# ----------------------------------------------------------------------------- the leader


@uncounted
def find_leader(
    model: Model,
    state: State,
    seen: Seen,
    programmes: Programmes,
    work: Work,
    passed: Booleans,
) -> int:
    """Return the best live answer by the estimates, without arms that are `passed` over.

    It is the best feasible arm; if there is none, "none"; if that is rejected, the least infeasible
    arm.
    """
    arms = seen.quality.size
    best = best_feasible(state, seen, passed)
    if best != NOBODY:
        return best
    if not state.book.rejected[arms]:
        return arms
    least = math.inf
    fill_programmes(model, seen, arms, seen.short, programmes)
    for k in range(arms):
        if not (passed[k] or state.book.rejected[k]):
            short = item_value(programmes, k, arms, state.pulls, work)
            if short < least:
                least = short
                best = k
    return best


@kernel
def find_runner_up(rules: Rules, state: State, seen: Seen, target: int, passed: Booleans) -> int:
    """Return the arm for which a block bets on its target, too; only a planned end needs one.

    Arms that were `passed` over in the search for the target do not count.
    """
    if rules.max_pulls == math.inf or target == seen.quality.size:
        return NOBODY
    others = passed.copy()
    others[target] = True
    return best_feasible(state, seen, others)


@uncounted
def best_feasible(state: State, seen: Seen, passed: Booleans) -> int:
    """Return the best arm that keeps its limits by the estimates, or `NOBODY`.

    Arms that are ruled out or `passed` over do not count.
    """
    best = NOBODY
    for k in range(seen.quality.size):
        if passed[k] or state.book.rejected[k] or _breaks_a_limit(seen, k):
            continue
        if best == NOBODY or seen.quality[k] > seen.quality[best]:
            best = k
    return best


@uncounted
def _breaks_a_limit(seen: Seen, k: int) -> bool:
    found = False
    for r in range(seen.short.shape[1]):
        found = found or seen.short[k, r] > 0.0
    return found


# --------------------------------------------------------------------------------- doubts


@kernel
def copy_view(seen: Seen, copy: Seen) -> None:
    """Copy estimates, without what follows from means and covariances."""
    copy_into(copy.means, seen.means)
    copy_into(copy.lowest, seen.lowest)
    copy_into(copy.highest, seen.highest)
    copy_into(copy.covariances, seen.covariances)
    copy_into(copy.slopes, seen.slopes)
    copy_into(copy.expected, seen.expected)
    copy_into(copy.explained, seen.explained)


@uncounted
def doubt(model: Model, state: State, leader: int, seen: Seen, moved: Seen) -> bool:
    """Fill the next plan's estimates, with doubts as in `doubt.py`; return whether they differ."""
    arms = seen.quality.size
    copy_view(seen, moved)
    fair = fair_count(model.active, state.pulls)
    differs = False
    for k in range(arms):
        if k != leader and not state.book.rejected[k]:
            differs = _doubt_rival(model, state, k, leader == arms, seen, fair, moved) or differs
    # A control that is doubted as a rival is not doubted as the arm that limits refer to.
    derive(model, moved, seen)
    return differs


@uncounted
def _doubt_rival(
    model: Model, state: State, k: int, none_leads: bool, seen: Seen, fair: float, moved: Seen
) -> bool:
    """Move an arm's means to where it is cheap to rule out; return whether any moved."""
    groups = model.weights.size
    error = 0.0
    outside = False
    for r in range(model.signs.size):
        outside = outside or seen.saved[k, r] > 0.0
    for group in range(groups):
        if model.weights[group] > 0.0 and state.pulls[k, group] > 0.0:
            error += square(model.weights[group]) * seen.spread[k, group] / state.pulls[k, group]
    differs = False
    for group in range(groups):
        count = state.pulls[k, group]
        if max(1.0, count) >= fair or count == 0.0:
            continue
        reach = DOUBT * math.sqrt(math.log(fair / max(1.0, count)))
        q = model.weights[group]
        if none_leads or q == 0.0:
            r = _nearest_limit(model, seen, k, group)
            if r >= 0:
                spread = along_limit(model, seen, k, group, r, int(model.measure_of[r]))
                scale = -reach * model.signs[r] / math.sqrt(spread * count)
                differs = _move(model, seen, k, group, r, scale, moved) or differs
        elif outside and error > 0.0:
            scale = -reach * q / (count * math.sqrt(error))
            for m in range(model.objective.size):
                by = scale * seen.pulled[k, group, m]
                differs = _move_measure(model, k, group, m, by, moved) or differs
    return differs


@uncounted
def _nearest_limit(model: Model, seen: Seen, k: int, group: int) -> int:
    """Return a cell's nearest limit in units of standard deviations; -1 if it has none."""
    best = -1
    least = math.inf
    for r in range(model.signs.size):
        part = part_in_limit(model, r, group)
        variance = along_limit(model, seen, k, group, r, int(model.measure_of[r]))
        if part == 0.0 or not has_limit(model, k, r) or variance <= 0.0:
            continue
        away = -seen.saved[k, r] / math.sqrt(variance)
        if away < least:
            least = away
            best = r
    return best


@uncounted
def _move(model: Model, seen: Seen, k: int, group: int, r: int, scale: float, moved: Seen) -> bool:
    """Move a cell's means as is most likely if the mean in limit r moves."""
    differs = False
    for m in range(model.objective.size):
        by = scale * along_limit(model, seen, k, group, r, m)
        differs = _move_measure(model, k, group, m, by, moved) or differs
    return differs


@uncounted
def _move_measure(model: Model, k: int, group: int, m: int, by: float, moved: Seen) -> bool:
    before = moved.means[k, group, m]
    after = before + by
    if model.noise == BOUNDED:
        after = min(max(after, model.low[m]), model.high[m])
    moved.means[k, group, m] = after
    moved.lowest[k, group, m] += after - before
    moved.highest[k, group, m] += after - before
    return after != before
