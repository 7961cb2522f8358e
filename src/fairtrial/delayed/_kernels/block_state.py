"""The state of block betting on the best k: constants, data, ledgers and open blocks."""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.bets import Bets
from fairtrial.confidence.block_betting.blocks import Blocks
from fairtrial.confidence.noise_kernels import NUMBERED_COLUMNS
from fairtrial.core.layout import Layout, opener

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Rules(NamedTuple):
    """The constants of the method; see docs/explanation/block-betting.md.

    Outcomes are converted to distances from `origin` in units of `unit`, so that larger is better
    and `bounded` outcomes lie in [0, 1]. With a `tolerance`, every pair is tested separately at the
    `threshold` for all pairs. `max_pulls`: the planned end, infinite if there is none. `normal`:
    whether its bets may assume normal noise.
    """

    bounded: bool
    origin: float
    unit: float
    tolerance: float
    threshold: float
    top: int
    initial_pulls: float
    growth: float
    touch: float
    kappa: float
    cost: float
    pause: float
    max_pulls: float
    normal: bool


class Constants(NamedTuple):
    """All values that never change."""

    variances: Annotated[Floats, "arms"]  # stated variances
    rules: Rules


class Wealth(NamedTuple):
    """The evidence against all sets of k arms; it belongs to the target of the last paid block."""

    target: Annotated[Floats, "arms"]  # 1 for an arm inside; -1 everywhere before the first
    order: Annotated[Floats, "arms"]  # each arm's place when that target was first bet on
    ledgers: Annotated[Floats, "arms arms"]  # against any set with arm j, without arm b
    own: Annotated[Floats, "1"]  # against the target itself


class Plans(NamedTuple):
    """The frozen plans of open blocks; each has a bet for every pair of arms outside and inside.

    With a planned end, the last bet is on the target itself, as the rival of the best arm outside.
    """

    inside: Annotated[Floats, "slots arms"]  # 1 for an arm of the block's target
    place: Annotated[Floats, "slots arms"]  # see `find_places`
    position: Annotated[Floats, "slots arms"]  # of an arm among the arms on its side
    earlier: Annotated[Floats, "slots arms"]  # outcomes before the block was planned
    estimate: Annotated[Floats, "slots arms"]  # their mean
    spread: Annotated[Floats, "slots arms"]  # their variance
    centres: Annotated[Floats, "slots bets"]  # of the arm inside


class State(NamedTuple):
    """All values that change: data, ledgers and open blocks."""

    counts: Annotated[Floats, "arms"]
    means: Annotated[Floats, "arms"]
    squares: Annotated[Floats, "arms"]  # sums of squares about the means
    pending: Annotated[Floats, "arms"]  # pulls in flight
    shares: Annotated[Floats, "arms"]  # the plan from which the next one starts
    losses: Annotated[Floats, "arms"]  # lost pulls, without those that no bet needed any more
    live_came: Annotated[Floats, "arms"]  # results of settled blocks that needed the arm
    live_lost: Annotated[Floats, "arms"]  # lost pulls of these blocks
    wealth: Wealth
    forecast: Annotated[Floats, "1"]  # pulls still needed when the last block was planned
    settled_noise: Annotated[Floats, f"tested {NUMBERED_COLUMNS}"]
    finished: Annotated[Integers, "1"]
    blocks: Blocks
    plans: Plans
    live: Annotated[Floats, "slots arms"]  # 1 for arms that bets needed until the block was settled
    noise: Annotated[Floats, f"slots tested {NUMBERED_COLUMNS}"]
    bets: Bets


CONSTANTS = Layout(Constants)
STATE = Layout(State)
opened = opener(CONSTANTS, STATE)
