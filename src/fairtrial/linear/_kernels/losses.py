"""What lost pulls hide of an effect that is to be shown."""

import math
from typing import NamedTuple

import numpy as np

from fairtrial.confidence.block_betting.hidden import MOST_WASTED, share_lost
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.limits import Metric, length_of
from fairtrial.linear._kernels.matrices import Floats, dot, multiply
from fairtrial.linear._kernels.model import Model
from fairtrial.linear._kernels.planning import clipped
from fairtrial.linear._kernels.state import Rules, State


class Losses(NamedTuple):
    """What is known of losses when a block is planned."""

    shares: Floats  # of each arm's pulls; empty if none is lost
    counts: Floats  # results of every arm
    issued: Metric  # the precision that estimates would have if no pull were lost


@kernel
def shares_lost(state: State) -> Floats:
    """Return each arm's share of lost pulls; nothing if there are none."""
    found = np.empty(state.lost.size)
    is_any = False
    for k in range(found.size):
        found[k] = share_lost(state.lost[k], state.counts[k])
        is_any = is_any or found[k] > 0.0
    return found if is_any else np.empty(0)


@kernel
def is_hidden(
    model: Model,
    rules: Rules,
    losses: Losses,
    metric: Metric,
    direction: Floats,
    constant: float,
) -> bool:
    """Return whether losses hide an effect: more data with the same losses cannot show it."""
    if losses.shares.size == 0:
        return False
    if not rules.bounded:
        variance = length_of(metric, direction)
        return variance >= MOST_WASTED * length_of(losses.issued, direction)
    hidden = hidden_by_losses(model, rules, losses, metric, losses.counts, direction)
    return dot(direction, metric.theta) + constant - hidden <= 0.0


@kernel
def hidden_by_losses(
    model: Model,
    rules: Rules,
    losses: Losses,
    metric: Metric,
    pulls: Floats,
    direction: Floats,
) -> float:
    """Return how much smaller bets see the effect in a direction than it is estimated.

    With rewards in a range, they count a lost pull as its worst value: the lowest where the arm has
    a positive weight, the highest where it has a negative one. With a known noise, they leave lost
    pulls out.

    `metric`: of the `pulls` of every arm that measure the direction.
    """
    total = 0.0
    if losses.shares.size == 0 or not rules.bounded:
        return total
    weights = _weights(metric, direction)
    for k in range(pulls.size):
        share = losses.shares[k]
        if share > 0.0 and pulls[k] > 0.0:
            weight = dot(model.arms[k], weights)
            worst = rules.low if weight > 0.0 else rules.high
            mean = clipped(rules, dot(model.arms[k], metric.theta))
            total += pulls[k] * share * weight * (mean - worst)
    return total


@kernel
def _weights(metric: Metric, direction: Floats) -> Floats:
    """Return the vector whose product with an arm's row is the weight of each of its pulls."""
    whitened = np.empty(direction.size)
    weights = np.zeros(direction.size)
    multiply(metric.root, direction, whitened)
    for i in range(direction.size):
        for j in range(direction.size):
            weights[j] += metric.root[i, j] * whitened[i]
    return weights


@kernel
def model_after_losses(model: Model, losses: Losses) -> Model:
    """Return the model to plan with: the more pulls of an arm are lost, the less it measures."""
    arms = model.arms.copy()
    for k in range(losses.shares.size):
        for i in range(arms.shape[1]):
            arms[k, i] *= math.sqrt(1.0 - losses.shares[k])
    return Model(arms, model.candidates, model.rest, model.start, model.opening, model.deviations)
