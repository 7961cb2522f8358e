"""What block betting knows: its constants, data and wealth, and the open blocks."""

from typing import Annotated, NamedTuple

from fairtrial.confidence.block_betting.bets import Bets
from fairtrial.confidence.block_betting.blocks import Arrays, Blocks
from fairtrial.confidence.noise_kernels import COLUMNS
from fairtrial.core.compilation import kernel
from fairtrial.core.layout import Layout
from fairtrial.linear._kernels.limits import Limits
from fairtrial.linear._kernels.matrices import Floats, Integers
from fairtrial.linear._kernels.model import Model


class Rules(NamedTuple):
    """The constants of the method; `low` and `high` are the reward's range if it has one.

    With `pairwise` there is a wealth against every ordered pair, else against every candidate.
    """

    bounded: bool
    low: float
    high: float
    threshold: float
    initial_pulls: float  # of each arm of the start, or as many pulls of different arms
    growth: float
    kappa: float
    cost: float
    touch: float
    steps: int
    excess: float  # times what a block of the planned shares would leave of a target's variance
    tolerance: float
    top: int
    pairwise: bool
    misspecification: float  # what a value may differ by from the linear function
    shift: float  # what is taken off every reward, if the features hold a constant
    separately: bool  # whether every ledger is tested by itself: limits with a tolerance
    pause: float  # root of the least information on limits with which bets are made


class Constants(NamedTuple):
    """All that never changes."""

    model: Model
    rules: Rules
    limits: Limits


class State(NamedTuple):
    """Everything that changes: data, wealth, and the open blocks.

    Ledgers are the wealth itself: one for every candidate, or for every ordered pair of them.
    With rewards in a known range, a pull's weight in a bet is its row times `coefficients`.

    Where candidates have limits there is one more answer, "none", the last. The ledgers are then
    those of `limited_wealth`, and the effect of a bet is `directions` times theta, plus `constant`:
    first one against every other candidate, then one for every limit of the target.
    """

    counts: Annotated[Floats, "arms"]
    sums: Annotated[Floats, "arms"]
    squares: Annotated[Floats, "arms"]
    pending: Annotated[Floats, "arms"]  # pulls in flight
    lost: Annotated[Floats, "arms"]  # pulls without a result, for good or until it comes late
    shares: Annotated[Floats, "arms"]  # the plan that the next one starts from
    ledgers: Annotated[Floats, "ledgers"]  # see `ledger_of`
    record: Annotated[Floats, f"arms {COLUMNS}"]  # the spread of results, to test the noise
    early: Annotated[Floats, f"arms {COLUMNS}"]  # what it was when theta was first estimated
    forecast: Annotated[Floats, "1"]  # pulls still needed when the last block was planned
    rejected: Annotated[Integers, "answers"]
    chosen: Annotated[Integers, "answers"]  # the present leaders, or the answer
    finished: Annotated[Integers, "1"]
    hopeless: Annotated[Integers, "1"]  # whether there will be no answer
    estimable: Annotated[Integers, "1"]  # whether theta can be estimated, and `early` is noted
    blocks: Blocks  # their sums are of what rewards exceed the block's prediction by
    prediction: Annotated[Floats, "slots rank"]  # theta as estimated when the block was planned
    bets: Bets
    winner: Annotated[Integers, "slots bets"]
    rival: Annotated[Integers, "slots bets"]
    coefficients: Annotated[Floats, "slots bets width"]
    centres: Annotated[Floats, "slots bets width"]
    directions: Annotated[Floats, "slots aimed rank"]
    constant: Annotated[Floats, "slots aimed"]
    led: Annotated[Integers, "targets"]  # whether an answer was ever the target of a block


CONSTANTS = Layout(Constants)
STATE = Layout(State)
open_constants = CONSTANTS.open
open_state = STATE.open


@kernel(inline="always")
def opened(arrays: Arrays) -> tuple[Model, Rules, Limits, State]:
    """Return the model, the rules, the limits and the state that the arrays hold."""
    model, rules, limits = open_constants(arrays[0])
    return model, rules, limits, open_state(arrays[1], arrays[2])


@kernel
def ledger_of(state: State, winner: int, rival: int) -> int:
    """Return the ledger against "the rival is (also) right", as far as the winner tells.

    Not where candidates have limits.
    """
    candidates = state.rejected.size
    return rival if state.ledgers.size == candidates else winner * candidates + rival


@kernel
def wealth_of(state: State, winner: int, rival: int) -> float:
    """Return the log wealth against "the rival is (also) right", as far as the winner tells."""
    return state.ledgers[ledger_of(state, winner, rival)]
