"""What block betting on the best k keeps: its constants, its data and ledgers, the open blocks."""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.bets import Bets
from fairtrial.confidence.block_betting.blocks import Arrays, Blocks
from fairtrial.confidence.noise_kernels import NUMBERED_COLUMNS
from fairtrial.core.compilation import kernel
from fairtrial.core.layout import Layout

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Rules(NamedTuple):
    """The constants of the method; see docs/explanation/block-betting.md.

    An outcome counts as its distance from `origin` in units of `unit`: there more is better, and
    `bounded` outcomes lie in [0, 1]. With a `tolerance` every pair is tested on its own, at the
    `threshold` for all pairs.
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
    steps: int
    pause: float


class Constants(NamedTuple):
    """All that never changes."""

    variances: Annotated[Floats, "arms"]  # stated ones
    rules: Rules


class Wealth(NamedTuple):
    """The evidence against all sets of k arms; it belongs to the target that was last paid."""

    target: Annotated[Floats, "arms"]  # one for an arm inside; -1 everywhere before there is any
    order: Annotated[Floats, "arms"]  # each arm's place, when that target was first bet on
    ledgers: Annotated[Floats, "arms arms"]  # against any set with an arm j and without an arm b
    own: Annotated[Floats, "1"]  # against the target itself


class Plans(NamedTuple):
    """What is frozen of open blocks; each has a bet for every arm outside and every arm inside."""

    inside: Annotated[Floats, "slots arms"]  # one for an arm of the block's target
    place: Annotated[Floats, "slots arms"]  # see `find_places`
    position: Annotated[Floats, "slots arms"]  # of an arm among those of its side
    earlier: Annotated[Floats, "slots arms"]  # outcomes before the block was planned
    estimate: Annotated[Floats, "slots arms"]  # their mean
    spread: Annotated[Floats, "slots arms"]  # and variance
    centres: Annotated[Floats, "slots bets"]  # of the arm inside


class State(NamedTuple):
    """Everything that changes: data, ledgers, and the open blocks."""

    counts: Annotated[Floats, "arms"]
    means: Annotated[Floats, "arms"]
    squares: Annotated[Floats, "arms"]  # sums of squares about the means
    pending: Annotated[Floats, "arms"]  # pulls in flight
    shares: Annotated[Floats, "arms"]  # the plan that the next one starts from
    losses: Annotated[Floats, "arms"]  # lost pulls that were in bets
    settled_sums: Annotated[Floats, "arms"]  # of the results of settled blocks
    wealth: Wealth
    forecast: Annotated[Floats, "1"]  # pulls still needed when the last block was planned
    settled_noise: Annotated[Floats, f"tested {NUMBERED_COLUMNS}"]
    finished: Annotated[Integers, "1"]
    blocks: Blocks
    plans: Plans
    noise: Annotated[Floats, f"slots tested {NUMBERED_COLUMNS}"]
    bets: Bets


CONSTANTS = Layout(Constants)
STATE = Layout(State)
open_constants = CONSTANTS.open
open_state = STATE.open


@kernel(inline="always")
def opened(arrays: Arrays) -> tuple[Floats, Rules, State]:
    """Return the stated variances, the rules and the state that the arrays hold."""
    variances, rules = open_constants(arrays[0])
    return variances, rules, open_state(arrays[1], arrays[2])
