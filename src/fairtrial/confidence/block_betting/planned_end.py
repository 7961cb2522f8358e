"""Bets for an experiment whose last pull is known in advance.

Without an end, a stake is spread over all effects that may be true. With an end, it is placed on
the one effect for which the ledger just gets what it lacks by then. A point is a mixture, so this
needs no further proof. How much is still to come is a forecast: if it is wrong, that costs power,
not validity. Documentation: docs/explanation/planned-ends.md.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.bets import NO_BET, Bets
from fairtrial.confidence.block_betting.blocks import Blocks
from fairtrial.confidence.block_betting.book import fill_needs
from fairtrial.core.arithmetic import sum_of
from fairtrial.core.compilation import counted, inlined, kernel, uncounted

Floats = NDArray[np.float64]

NOBODY = -1
"""The runner-up of a block that does not bet on its own target."""

LAST_BLOCK = 1.5
"""With fewer pulls left than this many blocks, the next block takes all of them."""


class End(NamedTuple):
    """What the bets of a block know about the planned end; without one, nothing."""

    is_planned: bool
    is_normal: bool  # whether the noise is known to be normal
    needs: Floats  # by bet: what its ledger lacks, in nats
    ahead: float  # later pulls of the experiment, per pull of the block


@inlined
def pulls_until_end(rules: Any, blocks: Blocks) -> float:
    """Return the pulls that no block has yet; infinity without a planned end.

    Pulls outside of blocks count as well.
    """
    return rules.max_pulls - blocks.pulls[0]


@kernel
def no_end() -> End:
    """Return what bets know if no end is planned."""
    return End(False, False, np.empty(0), math.inf)


@kernel(inline="always")
def end_after(rules: Any, state: Any, slot: int, target: int, runner_up: int, needs: Floats) -> End:
    """Return what the bets of the newest block know about the planned end, if there is one.

    `target`, `runner_up`: those of the block. `needs`: what each item lacks, for that target; in
    the target's own place, what the bet on it lacks is entered.
    """
    if runner_up != NOBODY:
        needs[target] = _need_of_runner_up(rules, state, target, runner_up, needs.size)
    return end_with(rules, state.blocks, slot, needs)


@counted
def _need_of_runner_up(rules: Any, state: Any, target: int, runner_up: int, items: int) -> float:
    """Return what evidence against the target lacks if the runner-up is right."""
    needs = np.empty(items)
    fill_needs(state.book, rules.threshold, rules.separately, runner_up, needs)
    return needs[target]


@kernel(inline="always")
def end_with(rules: Any, blocks: Blocks, slot: int, lacking: Floats) -> End:
    """Return what the bets of the newest block know about the end; `lacking`: by bet."""
    ahead = max(0.0, pulls_until_end(rules, blocks)) / max(1.0, sum_of(blocks.planned[slot]))
    return End(rules.max_pulls < math.inf, rules.normal, lacking, ahead)


@inlined
def must_bet_now(end: End, none_leads: bool) -> bool:
    """Return whether a planned end leaves no time to wait for more information.

    A wrong leader is bet on itself; "none" is not, so it may wait until the last block.
    """
    return end.is_planned and (end.ahead == 0.0 or not none_leads)


@inlined
def target_of(state: Any, slot: int, bet: int) -> int:
    """Return the target of a bet: that of its block, or the runner-up if the bet is on that one."""
    target = state.target[slot]
    return state.runner_up[slot] if bet == target else target


@inlined
def is_lacking(end: End, bet: int) -> bool:
    """Return whether a bet's ledger lacks evidence; without a planned end every ledger may."""
    return not end.is_planned or end.needs[bet] > 0.0


@inlined
def leaves_tie(state: Any, slot: int, rival: int, end: End) -> bool:
    """Return whether no bet on a rival was found although an arm is the block's target.

    A rival whose estimates tie with the target's leaves no direction to bet in. With a planned end,
    such a block must not go to waste.
    """
    is_arm = state.target[slot] < state.book.stated.shape[0]
    return end.is_planned and is_arm and state.bets.ledger[slot, rival] == NO_BET


@inlined
def aim_bet(bets: Bets, slot: int, bet: int, block_variance: float, end: End) -> None:
    """Aim a bet at the planned end, unless the estimated effect is larger than it need be.

    With normal noise, every bet is one for the end. The bet's estimate is already stored.
    `block_variance`: variance of the block's effect.
    """
    if not end.is_planned:
        return
    precision = bets.variance[slot, bet] / block_variance
    if end.is_normal:
        bets.need[slot, bet] = end.needs[bet]
        bets.later[slot, bet] = precision * end.ahead
        return
    effect = math.sqrt(2.0 * end.needs[bet] / (precision * (1.0 + end.ahead)))
    if bets.estimate[slot, bet] <= effect < math.inf:
        bets.aim[slot, bet] = effect


@inlined
def size_until_end(size: float, left: float) -> float:
    """Return the pulls of the next block: all that are left, if these are few."""
    return left if left < LAST_BLOCK * size else size


def chance_by_end(
    need: float,
    pulls: float,
    forecast: float | None,
    past: float = math.inf,
    *,
    is_normal: bool = False,
) -> float:
    """Return the chance that aimed bets bring a ledger what it lacks by the planned end.

    The score is a Brownian motion, and the bet pays enough as soon as it crosses a line (Siegmund
    1985, equation 3.15). The chance is averaged over the drifts that the past pulls leave possible.
    Later changes of the aim are left out.

    With normal noise, the line is a level; otherwise it rises.

    Parameters
    ----------
    need : float
        What the ledger lacks, in nats.
    pulls : float
        Pulls until the end.
    forecast : float or None
        Pulls after which the ledger has what it lacks, on average; None for never.
    past : float
        Pulls that the forecast is estimated from; infinite if it is known.

    Examples
    --------
    >>> round(chance_by_end(3.0, pulls=100, forecast=100.0), 2)
    0.64
    >>> round(chance_by_end(3.0, pulls=100, forecast=10.0, past=10), 2)
    0.96
    >>> chance_by_end(0.0, pulls=0, forecast=None)
    1.0
    """
    if need <= 0.0:
        return 1.0
    if pulls <= 0.0:
        return 0.0
    standard = NormalDist()
    aim = math.sqrt(2.0 * need)
    drift = 0.0 if forecast is None else aim * math.sqrt(pulls / max(forecast, 1.0))
    if is_normal:
        begin, slope = -standard.inv_cdf(max(0.5 * math.exp(-need), 1e-300)), 0.0
    else:
        begin, slope = 0.5 * aim, 0.5 * aim
    # The drift is normal with this variance; both parts of the chance have a closed mean.
    doubt = pulls / max(past, 1.0)
    spread = math.sqrt(1.0 + doubt)
    ends_above = standard.cdf((drift - slope - begin) / spread)
    # The product of a large factor and a small one is a probability.
    growth = 2.0 * begin * (drift - slope + begin * doubt)
    rare = _log_normal_cdf((slope - drift - begin * (1.0 + 2.0 * doubt)) / spread)
    crossed_before = math.exp(min(0.0, growth + rare))
    return min(1.0, ends_above + crossed_before)


def _log_normal_cdf(x: float) -> float:
    """Return the logarithm of the standard normal distribution function, to three digits."""
    if x > -30.0:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
    return -0.5 * x * x - math.log(-x * math.sqrt(2.0 * math.pi))


@uncounted
def fit_to_end(planned: Floats, size: float, left: float) -> None:
    """Let a block, by cell, not exceed the pulls that are left, or have exactly those of the end.

    Its largest cells give or take pulls. `size`: the pulls that it should have.
    """
    pulls = planned.reshape(planned.size)
    excess = sum_of(pulls) - left
    if excess < 0.0 and size < left:
        return
    while excess != 0.0:
        largest = 0
        for cell in range(pulls.size):
            if pulls[cell] > pulls[largest]:
                largest = cell
        by = 1.0 if excess > 0.0 else -1.0
        pulls[largest] -= by
        excess -= by
