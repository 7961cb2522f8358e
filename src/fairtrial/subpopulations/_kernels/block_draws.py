"""All results of a block in one step, for simulations in which their order does not matter.

Nothing that a policy does depends on the order of a block's results: counts, bets and their stakes
are frozen before, and results enter as sums and products. The results of a cell are independent
with one distribution, so their order and that of the cells can be left out:

- Normal results: their mean and the sum of squares about it are independent; the mean is normal
  with the variance divided by n, the sum of squares is chi-square with n - 1 degrees of freedom
  (Cochran), and with the first result, which the test of the noise needs, drawn on its own the
  same holds for the n - 1 others.
- Results 0 or 1: all sums and products are functions of the number of ones, which is binomial.
- All other results are drawn one by one, without coins.
"""

import math

import numpy as np

from fairtrial.confidence.block_betting.bets import GRID, Bets
from fairtrial.confidence.noise_kernels import COUNT, FIRST, MEAN, NUMBER, SPREAD, add_summary
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import inlined, uncounted
from fairtrial.core.draw_kernels import BERNOULLI, GAUSSIAN, draw
from fairtrial.core.draws import Source
from fairtrial.subpopulations._kernels.block_bets import (
    multiply_bets,
    part_in_bet,
    result_moves_bets,
)
from fairtrial.subpopulations._kernels.block_state import Rules, State
from fairtrial.subpopulations._kernels.model import Floats, Model

SUMMARY = NUMBER + 1
"""Numbers of a summary of a cell's results: those of a record for the test of the noise."""


@uncounted
def draw_block(
    model: Model,
    rules: Rules,
    state: State,
    source: Source,
    sign: float,
    generator: np.random.Generator,
    number: int,
    summary: Floats,
) -> None:
    """Draw all results of the oldest open block, none of whose pulls was issued; move its bets.

    `number`: that of the block's first pull. `summary`: work space of the size `SUMMARY`.
    """
    blocks = state.blocks
    slot = blocks.first[0] % blocks.waiting.size
    groups = model.weights.size
    for index in range(blocks.width[slot]):
        cell = blocks.support[slot, index]
        pulls = blocks.planned[slot, cell]
        with_first = state.settled_noise.size > 0 and state.settled_noise[cell, COUNT] == 0.0
        for column in range(summary.size):
            summary[column] = 0.0
        if source.kind == GAUSSIAN:
            _draw_normal(source, sign, cell, generator, int(pulls), with_first, summary)
        elif source.kind == BERNOULLI:
            ones = _draw_ones(source, sign, cell, generator, int(pulls), summary)
            if result_moves_bets(rules):
                _multiply_alike(model, state, slot, cell, sign - rules.shift, ones)
                _multiply_alike(model, state, slot, cell, -rules.shift, pulls - ones)
        else:
            for _ in range(int(pulls)):
                reward = reward_from(source, sign, cell, generator)
                _add_result(summary, reward)
                if result_moves_bets(rules):
                    multiply_bets(model, rules, state, slot, cell, reward - rules.shift)
        summary[MEAN] -= rules.shift
        sums = pulls * summary[MEAN]
        squares = summary[SPREAD] + pulls * square(summary[MEAN])
        k, group = cell // groups, cell % groups
        state.counts[k, group] += pulls
        state.sums[k, group] += sums
        state.squares[k, group] += squares
        blocks.results[slot, cell] = pulls
        blocks.sums[slot, cell] = sums
        blocks.squares[slot, cell] = squares
        blocks.to_issue[slot, cell] = 0.0
        if state.settled_noise.size:
            _record(state.noise[slot, cell], summary, float(number), model.variances[k, group])
    blocks.unissued[slot] = 0
    blocks.waiting[slot] = 0


@inlined
def reward_from(source: Source, sign: float, cell: int, generator: np.random.Generator) -> float:
    """Draw one reward of a cell, turned so that larger is better."""
    return sign * draw(source.kind, source.first, source.second, source.starts, cell, generator)


@inlined
def _draw_normal(
    source: Source,
    sign: float,
    cell: int,
    generator: np.random.Generator,
    pulls: int,
    with_first: bool,
    summary: Floats,
) -> None:
    """Fill the summary of normal results, by their mean and the sum of squares about it."""
    mean = sign * source.first[cell]
    deviation = abs(sign) * source.second[cell]
    if with_first:
        _add_result(summary, mean + deviation * generator.standard_normal())
        pulls -= 1
    if pulls == 0:
        return
    own = mean + deviation * generator.standard_normal() / math.sqrt(pulls)
    spread = 0.0
    if pulls > 1:
        spread = square(deviation) * generator.chisquare(pulls - 1)
    add_summary(summary, float(pulls), own, spread)


@inlined
def _draw_ones(
    source: Source,
    sign: float,
    cell: int,
    generator: np.random.Generator,
    pulls: int,
    summary: Floats,
) -> float:
    """Fill the summary of results 0 or 1, which needs only the number of ones; return it.

    The first result is drawn on its own.
    """
    chance = source.first[cell]
    first = 1.0 if generator.random() < chance else 0.0
    _add_result(summary, sign * first)
    others = float(generator.binomial(pulls - 1, chance)) if pulls > 1 else 0.0
    if others > 0.0:
        add_summary(summary, others, sign, 0.0)
    if pulls - 1 - others > 0.0:
        add_summary(summary, pulls - 1 - others, 0.0, 0.0)
    return first + others


@inlined
def _add_result(summary: Floats, value: float) -> None:
    """Add one result."""
    if summary[COUNT] == 0.0:
        summary[FIRST] = value
    add_summary(summary, 1.0, value, 0.0)


@inlined
def _record(row: Floats, summary: Floats, number: float, variance: float) -> None:
    """Fill a cell's record for the test of the noise, in units of the stated noise."""
    unit = math.sqrt(variance)
    row[COUNT] = summary[COUNT]
    row[MEAN] = summary[MEAN] / unit
    row[SPREAD] = summary[SPREAD] / variance
    row[FIRST] = summary[FIRST] / unit
    row[NUMBER] = number


@inlined
def _multiply_alike(
    model: Model, state: State, slot: int, cell: int, value: float, number: float
) -> None:
    """Multiply the factors of that many equal results into every bet that uses their cell."""
    if number == 0.0:
        return
    for bet in range(state.bets.number[slot]):
        weight, centre = part_in_bet(model, state, slot, bet, cell)
        if weight != 0.0:
            _multiply_power(state.bets, slot, bet, weight * (value - centre), number)


@inlined
def _multiply_power(bets: Bets, slot: int, bet: int, step: float, number: float) -> None:
    """Multiply that many equal factors into a bet."""
    for point in range(GRID):
        factor = 1.0 + bets.thetas[slot, bet, point] * step
        bets.logs[slot, bet, point] += number * math.log(factor)
