"""The state of block betting: constants, data, wealth and open blocks."""

from typing import Annotated, NamedTuple

from fairtrial.confidence.block_betting.bets import Bets
from fairtrial.confidence.block_betting.blocks import Blocks
from fairtrial.confidence.block_betting.book import Book
from fairtrial.confidence.noise_kernels import NUMBERED_COLUMNS
from fairtrial.core.compilation import kernel
from fairtrial.core.layout import Layout, opener
from fairtrial.linear._kernels.limits import Limits
from fairtrial.linear._kernels.matrices import Floats, Integers
from fairtrial.linear._kernels.model import Model


class Rules(NamedTuple):
    """The constants of the method; `low` and `high` are the rewards' range, if there is one.

    If `pairwise` is set, there is a wealth against every ordered pair, else against every
    candidate.
    """

    bounded: bool
    low: float
    high: float
    threshold: float
    initial_pulls: float  # of each start arm, or that many pulls of different arms
    growth: float
    kappa: float
    cost: float
    touch: float
    steps: int
    excess: float  # multiple of a target's planned variance that a block may leave
    tolerance: float
    top: int
    pairwise: bool
    misspecification: float  # largest difference of a value from the linear function
    shift: float  # subtracted from every reward, if the features include a constant
    separately: bool  # whether each ledger is tested alone: limits with a tolerance
    pause: float  # root of the smallest information on limits for which bets are placed
    max_pulls: float  # the planned end; infinite if there is none
    normal: bool  # whether its bets may assume normal noise


class Constants(NamedTuple):
    """All values that never change."""

    model: Model
    rules: Rules
    limits: Limits


class State(NamedTuple):
    """All values that change: data, wealth and open blocks.

    Ledgers hold the wealth itself: one for every candidate, or one for every ordered pair. With
    rewards in a known range, a pull's weight in a bet is its row times `coefficients`.

    If candidates have limits, the last answer is "none", and `book` is used as a whole. The effect
    of a bet is `directions` times theta plus `constant`: first one bet against every other
    candidate, then one for every limit of the target.
    """

    counts: Annotated[Floats, "arms"]
    sums: Annotated[Floats, "arms"]
    squares: Annotated[Floats, "arms"]
    pending: Annotated[Floats, "arms"]  # pulls in flight
    lost: Annotated[Floats, "arms"]  # pulls reported lost, unless a late result came
    opened: Annotated[Floats, "arms"]  # pulls issued before the first block
    opening_counts: Annotated[Floats, "arms"]  # their results
    opening_sums: Annotated[Floats, "arms"]  # sums of these
    shares: Annotated[Floats, "arms"]  # the plan from which the next one starts
    book: Book  # without limits, only `ledgers` (see `ledger_of`) and `rejected`
    record: Annotated[Floats, f"arms {NUMBERED_COLUMNS}"]  # the tested results, see `testing`
    early: Annotated[Floats, f"arms {NUMBERED_COLUMNS}"]  # those of them that come first
    held: Annotated[Floats, f"arms {NUMBERED_COLUMNS}"]  # results that wait for initial pulls
    noise: Annotated[Floats, f"slots arms {NUMBERED_COLUMNS}"]  # results of open blocks
    forecast: Annotated[Floats, "1"]  # pulls still needed when the last block was planned
    chosen: Annotated[Integers, "answers"]  # the current leaders, or the answer
    finished: Annotated[Integers, "1"]
    hopeless: Annotated[Integers, "1"]  # whether there never will be an answer
    estimable: Annotated[Integers, "1"]  # whether theta can be estimated
    initial: Annotated[Integers, "1"]  # pulls issued before the first block
    initial_open: Annotated[Integers, "1"]  # those of them in flight
    initial_tested: Annotated[Integers, "1"]  # first pulls whose results are in `record`
    blocks_tested: Annotated[Integers, "1"]  # first blocks whose results are in `record`
    has_early: Annotated[Integers, "1"]  # whether `early` is set
    blocks: Blocks  # their sums are of rewards minus the block's prediction
    prediction: Annotated[Floats, "slots rank"]  # estimate of theta when the block was planned
    bets: Bets
    winner: Annotated[Integers, "slots bets"]
    rival: Annotated[Integers, "slots bets"]
    coefficients: Annotated[Floats, "slots bets width"]
    centres: Annotated[Floats, "slots bets width"]
    directions: Annotated[Floats, "slots aimed rank"]
    constant: Annotated[Floats, "slots aimed"]


CONSTANTS = Layout(Constants)
STATE = Layout(State)
opened = opener(CONSTANTS, STATE)


@kernel
def ledger_of(state: State, winner: int, rival: int) -> int:
    """Return the ledger against "the rival is (also) right", as far as the winner shows it.

    Not for candidates with limits.
    """
    candidates = state.book.rejected.size
    return rival if state.book.ledgers.size == candidates else winner * candidates + rival


@kernel
def wealth_of(state: State, winner: int, rival: int) -> float:
    """Return the log wealth against "the rival is (also) right", as far as the winner shows it."""
    return state.book.ledgers[ledger_of(state, winner, rival)]
