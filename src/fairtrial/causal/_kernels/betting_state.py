"""What block betting on interventions keeps: its constants, its data and ledgers, open blocks."""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.bets import Bets
from fairtrial.confidence.block_betting.blocks import Arrays, Blocks
from fairtrial.core.compilation import inlined, kernel
from fairtrial.core.layout import Layout

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

CELLS, COVARIATES, RATIOS = 0, 1, 2
"""What is known of the law of the cells: `fairtrial.causal._functionals` says what that means."""


class Model(NamedTuple):
    """Functions of a cell, and what is known of the cells; numbers of cells' parts are floats.

    A row of action a falls into cell x with probability ``actions[a, x]`` times the part of the
    law that is common to all actions: 1 where it is known, as it is in `actions` then.
    """

    actions: Annotated[Floats, "actions cells"]
    means: Annotated[Floats, "arms cells"]
    gaps: Annotated[Floats, "arms limits cells"]  # each must stay below the bound
    breakable: Annotated[Floats, "arms limits"]  # 1 where some outcomes break the limit
    mixtures: Annotated[Floats, "mixtures actions"]  # what a plan may mix, each affordable
    class_of: Annotated[Floats, "cells"]  # which mean outcome the cell has
    stratum_of: Annotated[Floats, "cells"]  # which covariates
    group_of: Annotated[Floats, "strata"]  # which observed value
    group_shares: Annotated[Floats, "groups"]
    basis: Annotated[Floats, "functions cells"]  # functions with known totals
    totals: Annotated[Floats, "functions"]
    allocation: Annotated[Floats, "rows actions"]  # of a log that is read, if it is recorded


class Rules(NamedTuple):
    """The constants of the method, as docs/explanation/fair-interventions.md has them.

    `threshold` is what the logarithm of an e-value has to reach. A block has `growth` times the
    rows so far, and at least `least`; `kappa` and `cost` shape the plan, which takes `steps` steps.
    Means shrink to the overall one by `mean_prior` rows, variances to a fair coin's by
    `variance_prior`. Nothing is bet while the weakest item has less than `pause` squared. No row
    takes more than the part `cap` of a stake. What a block's whole numbers differ from the plan by
    is made up for in the next if it `carries`: so a budget is kept. A lost pull is made again if
    `pulls_again`; else it counts as the worst row. Every arm has so many actions as there are
    `modes`, side by side.
    """

    knowledge: int
    bound: float
    threshold: float
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
    """All that never changes."""

    model: Model
    rules: Rules


class State(NamedTuple):
    """Everything that changes: data, ledgers, and the open blocks.

    A block has a bet on each arm but its target, at the arm's number, and then one on each limit of
    the target; with "none" for its target, one on each arm.
    """

    counts: Annotated[Floats, "actions"]  # rows that came
    totals: Annotated[Floats, "actions"]  # of their outcomes
    rows: Annotated[Floats, "cells"]
    sums: Annotated[Floats, "cells"]
    squares: Annotated[Floats, "cells"]
    shares: Annotated[Floats, "mixtures"]  # the plan that the next one starts from
    owed: Annotated[Floats, "actions"]  # rows planned so far and not made, if the plan carries
    ledgers: Annotated[Floats, "arms*(arms+1)+arms*limits"]  # see `own_ledger` and so on
    forecast: Annotated[Floats, "1"]  # rows still needed when the last block was planned
    rejected: Annotated[Integers, "arms+1"]  # whether each answer is, "none" last
    leader: Annotated[Integers, "1"]
    answer: Annotated[Integers, "1"]
    finished: Annotated[Integers, "1"]
    blocks: Blocks
    target: Annotated[Integers, "slots"]  # an arm, or K for "none"
    bets: Bets
    slopes: Annotated[Floats, "slots bets cells"]  # a row's score is slope * outcome - offset
    offsets: Annotated[Floats, "slots bets cells"]
    ruins: Annotated[Floats, "slots bets"]  # the least score of a row, with its sign changed
    shifts: Annotated[Floats, "slots bets recorded"]  # the part of `offsets` that no density scales
    densities: Annotated[Floats, "slots recorded"]  # by which slopes and offsets were computed


CONSTANTS = Layout(Constants)
STATE = Layout(State)
open_constants = CONSTANTS.open
open_state = STATE.open


@kernel(inline="always")
def opened(arrays: Arrays) -> tuple[Model, Rules, State]:
    """Return the model, the rules and the state that the arrays hold."""
    model, rules = open_constants(arrays[0])
    return model, rules, open_state(arrays[1], arrays[2])


@inlined
def own_ledger(k: int) -> int:
    """Return the ledger of "arm k is fair", from blocks whose target is "none"."""
    return k


@inlined
def pair_ledger(arms: int, k: int, target: int) -> int:
    """Return the ledger of "k is right, and the target is fair"."""
    return arms * (target + 1) + k


@inlined
def limit_ledger(arms: int, limits: int, target: int, limit: int) -> int:
    """Return the ledger of "the target breaks this limit"."""
    return arms * (arms + 1) + target * limits + limit
