"""The state of block betting on interventions: constants, data, ledgers and open blocks."""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.bets import Bets
from fairtrial.confidence.block_betting.blocks import Blocks
from fairtrial.confidence.block_betting.book import Book
from fairtrial.core.layout import Layout, opener

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

CELLS, COVARIATES, RATIOS = 0, 1, 2
"""What is known of the cells' law; `fairtrial.causal._functionals` defines the three cases."""


class Model(NamedTuple):
    """Functions of a cell, and what is known of the cells; indices of parts of cells are floats.

    A row of action a falls into cell x with probability ``actions[a, x]`` times the part of the law
    that all actions share. That part is 1 where the law is known, because `actions` then includes
    it.
    """

    actions: Annotated[Floats, "actions cells"]
    means: Annotated[Floats, "arms cells"]
    gaps: Annotated[Floats, "arms limits cells"]  # each must stay below the bound
    breakable: Annotated[Floats, "arms limits"]  # 1 where some outcomes break the limit
    mixtures: Annotated[Floats, "mixtures actions"]  # what a plan can mix, each affordable
    class_of: Annotated[Floats, "cells"]  # index of the cell's mean outcome
    stratum_of: Annotated[Floats, "cells"]  # index of its covariates
    group_of: Annotated[Floats, "strata"]  # index of its observed value
    group_shares: Annotated[Floats, "groups"]
    basis: Annotated[Floats, "functions cells"]  # functions with known totals
    totals: Annotated[Floats, "functions"]
    allocation: Annotated[Floats, "rows actions"]  # of a log that is read, if recorded


class Rules(NamedTuple):
    """The constants of the method, as in docs/explanation/fair-interventions.md.

    `threshold`: what the logarithm of an e-value has to reach, of all ledgers together as long as
    these are not tested `separately`. A block has `growth` times the rows
    so far, and at least `least`. `kappa` and `cost` control the plan, which is computed in `steps`
    steps. Means are shrunk to the overall mean with a weight of `mean_prior` rows, and variances to
    that of a fair coin with a weight of `variance_prior` rows. No bets are made while the weakest
    item has less than `pause` squared. No row can lose more than the part `cap` of a stake. If
    `carries` is set, the next block makes up for the rounding of this block's counts, which keeps a
    budget. If `pulls_again` is set, lost pulls are made again; otherwise they count as the worst
    row. `modes`: number of actions per arm, stored side by side.
    """

    knowledge: int
    bound: float
    threshold: float
    separately: bool
    initial_pulls: int
    growth: float
    least: float
    kappa: float
    cost: float
    steps: int
    mean_prior: float
    variance_prior: float
    pause: float
    cap: float
    carries: bool
    pulls_again: bool
    modes: int


class Constants(NamedTuple):
    """All values that never change."""

    model: Model
    rules: Rules


class State(NamedTuple):
    """All values that change: data, ledgers and open blocks.

    A block has a bet on each arm except its target, at the arm's number, followed by one on each
    limit of the target. If its target is "none", it has one bet on each arm.
    """

    counts: Annotated[Floats, "actions"]  # rows received
    totals: Annotated[Floats, "actions"]  # of their outcomes
    rows: Annotated[Floats, "cells"]
    sums: Annotated[Floats, "cells"]
    squares: Annotated[Floats, "cells"]
    shares: Annotated[Floats, "mixtures"]  # the plan from which the next one starts
    owed: Annotated[Floats, "actions"]  # rows planned so far but not made, if `carries`
    book: Book
    forecast: Annotated[Floats, "1"]  # rows still needed when the last block was planned
    leader: Annotated[Integers, "1"]
    answer: Annotated[Integers, "1"]
    finished: Annotated[Integers, "1"]
    blocks: Blocks
    target: Annotated[Integers, "slots"]  # an arm, or K for "none"
    bets: Bets
    slopes: Annotated[Floats, "slots bets cells"]  # a row's score is slope * outcome - offset
    offsets: Annotated[Floats, "slots bets cells"]
    ruins: Annotated[Floats, "slots bets"]  # the least score of a row, with its sign changed
    shifts: Annotated[Floats, "slots bets recorded"]  # part of `offsets` that no density scales
    densities: Annotated[Floats, "slots recorded"]  # used to compute slopes and offsets


CONSTANTS = Layout(Constants)
STATE = Layout(State)
opened = opener(CONSTANTS, STATE)
