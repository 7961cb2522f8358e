"""Items: what still has to be shown for a leader, and what pulls say about it.

A rival is right if it keeps its limits and is at least as good as the leader. Each of these
conditions is a row, linear in the means of at most three arms: the rival, the leader (row 0 only),
and the control (limits that refer to it). The nearest means that satisfy all rows are the solution
of a small quadratic programme with one multiplier per row. Row 0 is the objective, row r + 1 is
limit r.
"""

import math
from typing import NamedTuple

import numpy as np

from fairtrial.confidence.row_kernels import (
    ROUNDING,
    Scratch,
    new_scratch,
    solve_programme,
)
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel, uncounted
from fairtrial.subpopulations._kernels.measures.model import (
    NO_CONTROL,
    OBJECTIVE,
    Booleans,
    Floats,
    Integers,
    Model,
    Seen,
    end_group,
    end_measure,
    first_group,
    first_measure,
    has_limit,
    is_relative,
    part_in_limit,
    prediction_of,
    weight_in_limit,
)

ROLES = 4
"""Roles that arms can have in a bet."""


class Programmes(NamedTuple):
    """The programmes of all items for a leader: the parts that do not depend on pulls."""

    short: Floats
    """Shortfall of every arm in every row, shape (K, R + 1); minus infinity for none."""
    products: Floats
    """Covariances of a cell's rows for one pull, shape (K, L, n, n); see `place`."""
    place: Integers
    """Place of a row among those of a group, shape (R + 1, L); -1 if the group is not in it."""
    rows: Integers
    """The row at a place in a group, shape (L, n); -1 for none."""
    first: Integers
    """The first group of a row; `end` is the group after its last."""
    end: Integers
    own: Floats
    """Addition to row 0's variance by one pull of each of the leader's cells, shape (L,)."""
    distance: Floats
    """Shortfall of the leader in every limit."""
    spread: Floats
    """Variance of every limit of the leader for one pull of each cell, shape (R, L)."""
    beside: Floats
    """Addition to it by one pull of each of the control's cells, shape (R, L)."""
    at_control: Integers
    """Whether a row moves the means of the control, shape (R + 1,)."""
    control: int
    explained: Floats
    """Covariances of rows that predictions explain, as `products` of a group, shape (L, n, n).

    All pulls of a group estimate the mean predictions, which limits of single arms need. Empty
    without predictions.
    """


class Work(NamedTuple):
    """Work space to evaluate items; multipliers are kept until the next evaluation."""

    multipliers: Floats
    """Of every item and row; shape (items, R + 1). For a leader's limit: its own row only."""
    rows: Integers
    pull: Floats
    scratch: Scratch
    losses: Floats
    """The most that one pull can lose, by role and group."""


@kernel
def new_programmes(model: Model) -> Programmes:
    """Return empty programmes of the right size for a problem."""
    arms, groups = model.costs.shape
    limits = model.signs.size
    place = np.full((limits + 1, groups), -1)
    first, end = np.zeros(limits + 1, dtype=np.int64), np.full(limits + 1, groups)
    number = np.zeros(groups, dtype=np.int64)
    for row in range(limits + 1):
        if row > 0:
            first[row], end[row] = first_group(model, row - 1), end_group(model, row - 1)
        for group in range(first[row], end[row]):
            part = model.weights[group] if row == 0 else part_in_limit(model, row - 1, group)
            if part != 0.0:
                place[row, group] = number[group]
                number[group] += 1
    rows = np.full((groups, number.max()), -1)
    for row in range(limits + 1):
        for group in range(groups):
            if place[row, group] >= 0:
                rows[group, place[row, group]] = row
    return Programmes(
        np.empty((arms, limits + 1)),
        np.zeros((arms, groups, rows.shape[1], rows.shape[1])),
        place,
        rows,
        first,
        end,
        np.zeros(groups),
        np.empty(limits),
        np.zeros((limits, groups)),
        np.zeros((limits, groups)),
        np.zeros(limits + 1, dtype=np.int64),
        model.control,
        np.zeros((groups * min(1, model.predicted), rows.shape[1], rows.shape[1])),
    )


@kernel
def new_work(model: Model) -> Work:
    """Return work space for the items of a problem."""
    arms, groups = model.costs.shape
    limits = model.signs.size
    return Work(
        np.zeros((arms + limits, limits + 1)),
        np.empty(limits + 1, dtype=np.int64),
        np.empty(model.objective.size),
        new_scratch(limits + 1),
        np.zeros((ROLES, groups)),
    )


@uncounted
def fill_programmes(
    model: Model, seen: Seen, leader: int, short: Floats, found: Programmes
) -> None:
    """Fill the programmes for a leader, K for none. `short`: shortfall in the limits, by arm."""
    arms, groups = seen.spread.shape
    for k in range(arms):
        found.short[k, 0] = -math.inf
        if leader < arms and k != leader:
            found.short[k, 0] = seen.worst[leader] - seen.best[k] + model.tolerance
        for r in range(model.signs.size):
            found.short[k, r + 1] = short[k, r]
        for group in range(groups):
            _fill_products(model, seen, k, group, found)
    for group in range(groups):
        found.own[group] = 0.0
        if leader == arms:
            continue
        for place in range(found.rows.shape[1]):
            row = found.rows[group, place]
            if row == 0:
                found.own[group] = found.products[leader, group, place, place]
            elif row > 0:
                found.spread[row - 1, group] = found.products[leader, group, place, place]
    if leader < arms:
        for r in range(model.signs.size):
            found.distance[r] = seen.failed[leader, r]
    if model.control != NO_CONTROL:
        _fill_control(model, leader, found)
    for group in range(found.explained.shape[0]):
        _fill_explained(model, seen, group, found)


@uncounted
def _fill_explained(model: Model, seen: Seen, group: int, found: Programmes) -> None:
    """Fill the covariances of a group's rows that predictions explain: 0 for differences."""
    for place in range(found.rows.shape[1]):
        for other_place in range(found.rows.shape[1]):
            found.explained[group, place, other_place] = 0.0
            row, other = found.rows[group, place], found.rows[group, other_place]
            p, q = _prediction_in_row(model, row), _prediction_in_row(model, other)
            if p >= 0 and q >= 0:
                both = part_in_limit(model, row - 1, group) * model.signs[row - 1]
                both *= part_in_limit(model, other - 1, group) * model.signs[other - 1]
                found.explained[group, place, other_place] = both * seen.explained[group, p, q]


@kernel(forceinline=True)
def _prediction_in_row(model: Model, row: int) -> int:
    """Return the prediction of the measure that a row limits for a single arm; -1 if none."""
    if row < 1 or is_relative(model, row - 1):
        return -1
    return prediction_of(model, int(model.measure_of[row - 1]))


@uncounted
def _fill_control(model: Model, leader: int, found: Programmes) -> None:
    """Fill what the control's means contribute to rows, and to the limits of a leader."""
    # In row 0 the leader's means count as in a limit the control's, with a minus.
    found.at_control[0] = 1 if leader == model.control else 0
    for r in range(model.signs.size):
        found.at_control[r + 1] = 1 if is_relative(model, r) else 0
        for group in range(model.weights.size):
            found.beside[r, group] = 0.0
            place = found.place[r + 1, group]
            if is_relative(model, r) and place >= 0:
                found.beside[r, group] = found.products[model.control, group, place, place]


@uncounted
def _fill_products(model: Model, seen: Seen, k: int, group: int, found: Programmes) -> None:
    """Fill the covariances of the rows of a cell."""
    for place in range(found.rows.shape[1]):
        row = found.rows[group, place]
        if row < 0:
            break
        for other_place in range(place + 1):
            other = found.rows[group, other_place]
            # Row 0, the objective, is at the first place.
            if row == 0:
                both = square(model.weights[group]) * seen.spread[k, group]
            else:
                both = part_in_limit(model, row - 1, group) * model.signs[row - 1]
                if other == 0:
                    along = along_limit(model, seen, k, group, row - 1, OBJECTIVE)
                    both *= model.weights[group] * along
                else:
                    own = int(model.measure_of[other - 1])
                    both *= part_in_limit(model, other - 1, group) * model.signs[other - 1]
                    both *= along_limit(model, seen, k, group, row - 1, own)
            found.products[k, group, place, other_place] = both
            found.products[k, group, other_place, place] = both


@kernel(forceinline=True)
def along_limit(model: Model, seen: Seen, k: int, group: int, r: int, m: int) -> float:
    """Return the covariance of the measure of limit r with measure m; each may be `OBJECTIVE`."""
    of = int(model.measure_of[r])
    if of == OBJECTIVE:
        return seen.spread[k, group] if m == OBJECTIVE else seen.pulled[k, group, m]
    return seen.pulled[k, group, of] if m == OBJECTIVE else seen.covariances[k, group, m, of]


# ----------------------------------------------------------------------------- values


@uncounted(error_model="numpy")
def item_value(programmes: Programmes, item: int, leader: int, pulls: Floats, work: Work) -> float:
    """Return the information on an item from pulls of every cell; fill its multipliers."""
    if item >= pulls.shape[0]:
        return _limit_value(programmes, item, leader, pulls, work)
    return _rival_value(programmes, item, leader, pulls, work)


@uncounted(error_model="numpy")
def _limit_value(
    programmes: Programmes, item: int, leader: int, pulls: Floats, work: Work
) -> float:
    """Return the information on "the leader is exactly on a limit"."""
    r = item - pulls.shape[0]
    variance = variance_of_limit(programmes, r, leader, pulls)
    distance = abs(programmes.distance[r])
    multiplier = distance / variance if 0.0 < variance < math.inf else 0.0
    work.multipliers[item, r + 1] = multiplier
    return multiplier * distance


@uncounted(error_model="numpy")
def variance_of_limit(programmes: Programmes, r: int, leader: int, pulls: Floats) -> float:
    """Return the variance of the estimate of the leader's value in limit r, given pulls."""
    variance = 0.0
    for group in range(pulls.shape[1]):
        if programmes.spread[r, group] > 0.0:
            variance += programmes.spread[r, group] / pulls[leader, group]
    if programmes.control != NO_CONTROL:
        for group in range(pulls.shape[1]):
            if programmes.beside[r, group] > 0.0:
                variance += programmes.beside[r, group] / pulls[programmes.control, group]
    return variance + _explained(programmes, r + 1, r + 1, pulls)


@uncounted(error_model="numpy")
def _explained(programmes: Programmes, row: int, other: int, pulls: Floats) -> float:
    """Return what predictions add to the covariance of the estimates of two rows.

    A difference within a group needs no mean of the predictions; a limit of one arm does.
    """
    found = 0.0
    for group in range(programmes.explained.shape[0]):
        place, other_place = programmes.place[row, group], programmes.place[other, group]
        if place >= 0 and other_place >= 0:
            both = programmes.explained[group, place, other_place]
            if both != 0.0:
                found += both / pulls_in_group(pulls, group)
    return found


@uncounted(error_model="numpy")
def pulls_in_group(pulls: Floats, group: int) -> float:
    """Return the pulls of all arms in a group."""
    found = 0.0
    for k in range(pulls.shape[0]):
        found += pulls[k, group]
    return found


@uncounted(error_model="numpy")
def _rival_value(programmes: Programmes, k: int, leader: int, pulls: Floats, work: Work) -> float:
    """Return the weighted distance to "k keeps its limits, and is at least as good as the leader".

    Rows that use a cell without pulls are left out. The programme starts with the rows that do not
    hold; others are added until all hold.
    """
    multipliers, scratch = work.multipliers, work.scratch
    number = 0
    for row in range(multipliers.shape[1]):
        multipliers[k, row] = 0.0
        if programmes.short[k, row] > 0.0:
            number = _add_row(programmes, k, leader, pulls, work, row, number)
    value = 0.0
    tried = 0
    while number > tried:
        tried = number
        value = solve_programme(scratch, number)
        for place in range(tried):
            multipliers[k, work.rows[place]] = scratch.multipliers[place]
        for row in range(multipliers.shape[1]):
            if _is_broken(programmes, k, leader, pulls, work, row, tried):
                number = _add_row(programmes, k, leader, pulls, work, row, number)
    return value


@uncounted(error_model="numpy")
def _is_broken(
    programmes: Programmes, k: int, leader: int, pulls: Floats, work: Work, row: int, number: int
) -> bool:
    """Return whether a row outside the programme does not hold at its solution."""
    short = programmes.short[k, row]
    raised = 0.0
    is_in = short == -math.inf
    for place in range(number):
        other = work.rows[place]
        is_in = is_in or other == row
        if work.scratch.multipliers[place] > 0.0:
            both = _product(programmes, k, leader, pulls, row, other)
            raised += work.scratch.multipliers[place] * both
    return not is_in and short - raised > ROUNDING * (abs(short) + abs(raised))


@uncounted(error_model="numpy")
def _add_row(
    programmes: Programmes, k: int, leader: int, pulls: Floats, work: Work, row: int, number: int
) -> int:
    """Add a row to the programme if all of its cells have pulls; return the number of rows."""
    work.rows[number] = row
    work.scratch.short[number] = programmes.short[k, row]
    own = math.inf
    for place in range(number + 1):
        own = _product(programmes, k, leader, pulls, row, work.rows[place])
        work.scratch.matrix[number, place] = work.scratch.matrix[place, number] = own
    return number + 1 if own < math.inf else number


@uncounted(error_model="numpy")
def _product(
    programmes: Programmes, k: int, leader: int, pulls: Floats, row: int, other: int
) -> float:
    """Return the covariance of the estimates of two rows; infinite without pulls."""
    found = 0.0
    first = max(programmes.first[row], programmes.first[other])
    for group in range(first, min(programmes.end[row], programmes.end[other])):
        both = _product_in(programmes, k, row, other, group)
        if both != 0.0:
            found += both / pulls[k, group]
        if row == 0 and other == 0 and programmes.own[group] > 0.0:
            found += programmes.own[group] / pulls[leader, group]
    if _share_control(programmes, row, other):
        for group in range(first, min(programmes.end[row], programmes.end[other])):
            both = _product_in(programmes, programmes.control, row, other, group)
            if both != 0.0:
                found += both / pulls[programmes.control, group]
    return found + _explained(programmes, row, other, pulls)


@uncounted(error_model="numpy")
def _share_control(programmes: Programmes, row: int, other: int) -> bool:
    """Return whether two rows share means of the control; `own` has those of row 0 with itself."""
    if programmes.control == NO_CONTROL or row + other == 0:
        return False
    return programmes.at_control[row] > 0 and programmes.at_control[other] > 0


@uncounted(error_model="numpy")
def _product_in(programmes: Programmes, k: int, row: int, other: int, group: int) -> float:
    """Return the covariance of two rows for a pull of one cell."""
    place, other_place = programmes.place[row, group], programmes.place[other, group]
    if place < 0 or other_place < 0:
        return 0.0
    return programmes.products[k, group, place, other_place]


# ------------------------------------------------------------- directions and derivatives


@uncounted
def pull_on(model: Model, multipliers: Floats, item: int, group: int, pull: Floats) -> bool:
    """Fill how a rival's rows move the means of its cell; return whether they do."""
    moves = False
    scale = multipliers[item, 0] * model.weights[group]
    for m in range(pull.size):
        pull[m] = scale * model.objective[m]
        moves = moves or pull[m] != 0.0
    for r in range(model.signs.size):
        moves = _add_limit(model, multipliers, item, r, group, pull) or moves
    return moves


@uncounted
def pull_beside(model: Model, multipliers: Floats, item: int, group: int, pull: Floats) -> bool:
    """Fill how a rival's limits against the control move its means, with the opposite sign.

    Return whether they do.
    """
    moves = False
    for m in range(pull.size):
        pull[m] = 0.0
    for r in range(model.signs.size):
        if is_relative(model, r):
            moves = _add_limit(model, multipliers, item, r, group, pull) or moves
    return moves


@uncounted
def _add_limit(
    model: Model, multipliers: Floats, item: int, r: int, group: int, pull: Floats
) -> bool:
    """Add how limit r moves the means of a rival's cell; return whether it does."""
    multiplier, part = multipliers[item, r + 1], part_in_limit(model, r, group)
    if multiplier <= 0.0 or part == 0.0:
        return False
    for m in range(first_measure(model, r), end_measure(model, r)):
        pull[m] += multiplier * part * weight_in_limit(model, r, m)
    return True


@uncounted(error_model="numpy")
def item_gradient(
    programmes: Programmes, item: int, leader: int, pulls: Floats, work: Work, gradient: Floats
) -> None:
    """Fill an item's derivatives by the pulls; `item_value` must have filled its multipliers."""
    arms, groups = pulls.shape
    multipliers = work.multipliers
    for k in range(arms):
        for group in range(groups):
            gradient[k, group] = 0.0
    for group in range(programmes.explained.shape[0]):
        moved = _moved_by_predictions(programmes, multipliers, item, group)
        if moved > 0.0:
            moved /= square(pulls_in_group(pulls, group))
            for k in range(arms):
                gradient[k, group] = moved
    if item >= arms:
        r = item - arms
        for group in range(groups):
            spread = programmes.spread[r, group]
            if spread > 0.0 and multipliers[item, r + 1] > 0.0:
                moved = multipliers[item, r + 1] / pulls[leader, group]
                gradient[leader, group] += square(moved) * spread
            if programmes.beside[r, group] > 0.0 and multipliers[item, r + 1] > 0.0:
                moved = multipliers[item, r + 1] / pulls[programmes.control, group]
                gradient[programmes.control, group] += square(moved) * programmes.beside[r, group]
        return
    for row in range(multipliers.shape[1]):
        if multipliers[item, row] == 0.0:
            continue
        for other in range(multipliers.shape[1]):
            both = multipliers[item, row] * multipliers[item, other]
            if both != 0.0:
                first = max(programmes.first[row], programmes.first[other])
                for group in range(first, min(programmes.end[row], programmes.end[other])):
                    product = _product_in(programmes, item, row, other, group)
                    if product != 0.0:
                        gradient[item, group] += both * product / square(pulls[item, group])
                if _share_control(programmes, row, other):
                    control = programmes.control
                    for group in range(first, min(programmes.end[row], programmes.end[other])):
                        product = _product_in(programmes, control, row, other, group)
                        if product != 0.0:
                            share = both * product / square(pulls[control, group])
                            gradient[control, group] += share
    if multipliers[item, 0] > 0.0:
        for group in range(groups):
            if programmes.own[group] > 0.0:
                moved = multipliers[item, 0] / pulls[leader, group]
                gradient[leader, group] += square(moved) * programmes.own[group]


@uncounted
def _moved_by_predictions(
    programmes: Programmes, multipliers: Floats, item: int, group: int
) -> float:
    """Return the variance that predictions of a group explain of an item's weighted rows."""
    found = 0.0
    for place in range(programmes.rows.shape[1]):
        row = programmes.rows[group, place]
        if row < 0 or multipliers[item, row] == 0.0:
            continue
        for other_place in range(programmes.rows.shape[1]):
            other = programmes.rows[group, other_place]
            if other >= 0:
                both = multipliers[item, row] * multipliers[item, other]
                found += both * programmes.explained[group, place, other_place]
    return found


# ---------------------------------------------------------------------- cells of an item


@uncounted
def mark_useful_cells(model: Model, seen: Seen, item: int, leader: int, useful: Floats) -> None:
    """Mark with a one the cells that an item can use."""
    arms, groups = useful.shape
    if item >= arms:
        _mark_limit(model, item - arms, leader, useful)
        return
    for r in range(model.signs.size):
        # A limit over all groups, or against the control, can become binding once another is kept.
        is_coupled = model.group_of[r] < 0.0 and leader == arms
        is_coupled = (is_coupled or is_relative(model, r)) and has_limit(model, item, r)
        if seen.saved[item, r] > 0.0 or is_coupled:
            _mark_limit(model, r, item, useful)
    if leader < arms:
        for group in range(groups):
            if model.weights[group] > 0.0:
                useful[leader, group] = useful[item, group] = 1.0


@uncounted
def _mark_limit(model: Model, r: int, k: int, useful: Floats) -> None:
    """Mark the cells of an arm's limit r."""
    for group in range(useful.shape[1]):
        if part_in_limit(model, r, group) != 0.0:
            useful[k, group] = 1.0
            if is_relative(model, r):
                useful[model.control, group] = 1.0


@uncounted
def mark_cells_in_use(
    model: Model, multipliers: Floats, item: int, leader: int, support: Booleans
) -> bool:
    """Mark the cells of rows with a multiplier; return whether there are any.

    A bet uses a row only if all of its cells have pulls, even if the rows of a cell cancel out.
    """
    arms, groups = support.shape
    found = False
    k = leader if item >= arms else item
    for row in range(multipliers.shape[1]):
        if multipliers[item, row] == 0.0:
            continue
        found = True
        for group in range(groups):
            if row == 0 and model.weights[group] > 0.0:
                support[k, group] = support[leader, group] = True
            elif row > 0 and part_in_limit(model, row - 1, group) != 0.0:
                support[k, group] = True
                if is_relative(model, row - 1):
                    support[model.control, group] = True
    return found


@uncounted
def mark_cells_of(model: Model, item: int, leader: int, support: Booleans) -> None:
    """Mark every cell of an item whose mean is exactly on its border.

    There the item prefers no cell, and unmarked cells would stay unmarked forever.
    """
    arms, groups = support.shape
    for group in range(groups):
        q = model.weights[group]
        if item >= arms:
            if part_in_limit(model, item - arms, group) != 0.0:
                support[leader, group] = True
                if is_relative(model, item - arms):
                    support[model.control, group] = True
            continue
        if q > 0.0 and leader < arms:
            support[leader, group] = True
        has_part = q > 0.0
        for r in range(model.signs.size):
            if has_limit(model, item, r) and part_in_limit(model, r, group) != 0.0:
                has_part = True
                if is_relative(model, r):
                    support[model.control, group] = True
        if has_part:
            support[item, group] = True
