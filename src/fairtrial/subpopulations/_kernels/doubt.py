"""Doubt about estimates from few pulls, which a plan would otherwise never correct.

A rival beyond a limit can be ruled out by that limit or by its quality, and an infeasible arm by
any limit that it fails. A plan takes the way that is cheapest by the estimates, and makes no pulls
in cells that only the other ways need. If the first pulls of those cells were lucky, the plan would
never find out, however expensive its own way turns out to be. Cells with few pulls are therefore
planned for as if the other way were as cheap as it plausibly can be. The same applies to the cells
of a control: after unlucky first pulls, rivals would seem to keep up with it. As in upper
confidence bounds, doubt grows with the logarithm of the pulls made elsewhere.
"""

import math

from fairtrial.core.arithmetic import square, sum_of
from fairtrial.core.compilation import uncounted
from fairtrial.subpopulations._kernels.control_limits import is_short_of_control
from fairtrial.subpopulations._kernels.model import (
    CEILING,
    FLOOR,
    GROUP_DIFFERENCE,
    NO_CONTROL,
    Floats,
)
from fairtrial.subpopulations._kernels.pitfalls import Alternative, margin

DOUBT = math.sqrt(2.0)
"""Standard errors of doubt, per root of the logarithm of how few pulls there are."""

NEGLECT = 1.5
"""A cell is doubted if it has fewer pulls than the average cell's divided by this."""


@uncounted
def fair_count(active: Floats, counts: Floats) -> float:
    """Return the pulls below which a cell is doubted, from the average of useful cells."""
    return sum_of(counts) / max(1.0, sum_of(active)) / NEGLECT


@uncounted
def doubt_rival(
    alternative: Alternative,
    k: int,
    none_leads: bool,
    counts: Floats,
    fair: float,
    means: Floats,
    precisions: Floats,
    doubted: Floats,
) -> bool:
    """Move row k of `doubted`, a copy of the means, to where it is cheap to rule out.

    `alternative`: the conditions under which a rival is right; `fair`: the `fair_count` of these
    `counts`; `precisions`: those of the means. Return whether anything moved.
    """
    error = 0.0
    weights, limits = alternative.weights, alternative.limits
    outside = alternative.control != NO_CONTROL and is_short_of_control(k, means, alternative)
    for group in range(weights.size):
        outside = outside or margin(means[k, group], limits, k, group) < 0.0
        if weights[group] > 0.0 and precisions[k, group] > 0.0:
            error += square(weights[group]) / precisions[k, group]
    differs = False
    for group in range(weights.size):
        count = max(1.0, counts[k, group])
        weight = weights[group]
        by_limit = none_leads or weight == 0.0
        if count >= fair or precisions[k, group] <= 0.0 or not (by_limit or outside):
            continue
        reach = DOUBT * math.sqrt(math.log(fair / count))
        if by_limit:
            direction = _outwards(alternative, means, k, group)
            moved = direction * reach / math.sqrt(precisions[k, group])
        else:
            # The most likely way to a quality that is lower by `reach` standard errors.
            moved = -reach * weight / (precisions[k, group] * math.sqrt(error))
        doubted[k, group] += moved
        differs = differs or moved != 0.0
    return differs


@uncounted
def doubt_control(
    control: int, counts: Floats, fair: float, precisions: Floats, doubted: Floats
) -> bool:
    """Raise the control's means that are based on few pulls; return whether any moved."""
    differs = False
    for group in range(counts.shape[1]):
        count = max(1.0, counts[control, group])
        precision = precisions[control, group]
        if count < fair and precision > 0.0:
            doubted[group] += DOUBT * math.sqrt(math.log(fair / count) / precision)
            differs = True
    return differs


@uncounted
def _outwards(alternative: Alternative, means: Floats, k: int, group: int) -> float:
    """Return the direction of a cell's nearer limit: -1 lower limit, 1 ceiling, 0 none."""
    mean, limits = means[k, group], alternative.limits
    above = mean - limits[FLOOR, k, group]
    if alternative.control != NO_CONTROL:
        least = limits[GROUP_DIFFERENCE, k, group] + alternative.control_means[group]
        above = min(above, mean - least)
    below_ceiling = limits[CEILING, k, group] - mean
    if above == math.inf and below_ceiling == math.inf:
        return 0.0
    return -1.0 if above <= below_ceiling else 1.0
