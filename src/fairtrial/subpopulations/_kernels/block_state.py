"""The state of block betting: constants, data, ledgers and open blocks."""

from typing import Annotated, NamedTuple

from fairtrial.confidence.block_betting.bets import Bets
from fairtrial.confidence.block_betting.blocks import Blocks
from fairtrial.confidence.block_betting.book import Book
from fairtrial.confidence.noise_kernels import NUMBERED_COLUMNS
from fairtrial.core.layout import Layout, opener
from fairtrial.subpopulations._kernels.model import Floats, Integers, Model
from fairtrial.subpopulations._kernels.pitfalls import Alternative


class Rules(NamedTuple):
    """The constants of the method, as in docs/explanation/block-betting.md.

    `low` and `high` are the reward's range if it is `bounded`. `shift` is subtracted from rewards,
    limits and range. `threshold`: what the logarithm of an e-value has to reach, ln(1/delta), or
    ln(K/delta) if every ledger is tested `separately`, as a tolerance requires. A block has
    `growth` times the pulls so far, and at least `touch` per cell that matters. `kappa` and `cost`
    control the plan. If `doubts` is set, the plan uses means moved by `doubt`. No bets are placed
    while the leader's weakest item has less than `pause` squared. If `pulls_again` is set, a lost
    pull is made again. Otherwise it counts as the worst value, or, under known noise, not at all.
    `max_pulls`: the planned end, infinite if there is none. `normal`: whether its bets may assume
    normal noise. `exact`: whether all rewards are 0 or 1, and its bets on the two arms use that.
    """

    bounded: bool
    low: float
    high: float
    threshold: float
    initial_pulls: float
    growth: float
    kappa: float
    cost: float
    touch: float
    doubts: bool
    pause: float
    pulls_again: bool
    shift: float
    separately: bool
    max_pulls: float
    normal: bool
    exact: bool


class Constants(NamedTuple):
    """All values that never change."""

    model: Model
    rules: Rules


class State(NamedTuple):
    """All values that change: data, ledgers and open blocks.

    A block has ``bets = arms + groups`` bets, or ``arms + 2 groups`` if cells have ceilings: one on
    each arm except the leader, followed by one on each limit of the leader, floors first. In the
    last two axes of a bet, row 0 is the leader's arm and row 1 the rival's. If limits refer to a
    control, there are ``arms + 3 groups + 1`` bets, and row 2 is the control's. With a planned end,
    the bet in the leader's own place is on the leader as the rival of the `runner_up`.
    """

    counts: Annotated[Floats, "arms groups"]
    sums: Annotated[Floats, "arms groups"]
    squares: Annotated[Floats, "arms groups"]
    shares: Annotated[Floats, "arms groups"]  # the plan from which the next one starts
    book: Book  # limit number ``end * groups + group`` is an end of a group's mean
    forecast: Annotated[Floats, "1"]  # pulls still needed when the last block was planned
    leader: Annotated[Integers, "1"]
    finished: Annotated[Integers, "1"]
    answer: Annotated[Integers, "1"]
    blocks: Blocks
    target: Annotated[Integers, "slots"]  # the block's leader
    runner_up: Annotated[Integers, "slots"]  # target of the bet on the leader; -1 for none
    bets: Bets
    rival: Annotated[Integers, "slots bets"]
    constant: Annotated[Floats, "slots bets"]  # part of the effect
    coefficients: Annotated[Floats, "slots bets roles groups"]
    centres: Annotated[Floats, "slots bets roles groups"]
    settled_noise: Annotated[Floats, f"tested {NUMBERED_COLUMNS}"]
    noise: Annotated[Floats, f"slots tested {NUMBERED_COLUMNS}"]


class Estimates(NamedTuple):
    """The estimates that a plan or a bet uses."""

    means: Floats
    """Shape (K, L)."""
    control_means: Floats
    """Of the control, as compared with rivals; shape (L,)."""
    variances: Floats
    """Of one pull, shape (K, L)."""


class View(NamedTuple):
    """What bets on a target are expected to see, or what a block is planned for."""

    alternative: Alternative
    """When a rival is right: by the limits that bets use, and the control means of `seen`."""
    seen: Estimates
    precisions: Floats
    """Of the means, by the results so far."""


CONSTANTS = Layout(Constants)
STATE = Layout(State)
opened = opener(CONSTANTS, STATE)
