"""The state of block betting on several measures: constants, data, ledgers and open blocks."""

from typing import Annotated, NamedTuple

from fairtrial.confidence.block_betting.bets import Bets
from fairtrial.confidence.block_betting.blocks import Blocks
from fairtrial.confidence.block_betting.book import Book
from fairtrial.confidence.noise_kernels import NUMBERED_COLUMNS
from fairtrial.core.layout import Layout, opener
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures.model import Floats, Integers, Model

TARGET, RIVAL, CONTROL, OTHER = 0, 1, 2, 3
"""The roles of arms in a bet; the third exists only if limits refer to a control. A control that is
also the target or the rival has the role of that one. Arms whose rewards a bet does not use have
the last role; it exists only with predictions, because their predictions count."""

SLOPE, EXPECTED = 0, 1
"""What is frozen to guess a measure from its prediction; see `State.fits`."""

OFF, OFF_SQUARED, LOST, LOST_GUESS, LOST_SQUARED = 0, 1, 2, 3, 4
"""Sums over the pulls of a block, in the order of `GuessedResults`; see `State.adjusted`."""


class Constants(NamedTuple):
    """All values that never change; ranges and shift are in the model, not in the rules."""

    model: Model
    rules: Rules


class State(NamedTuple):
    """All values that change: data, ledgers and open blocks.

    A block has ``bets = arms + limits`` bets: one on each arm except the leader, followed by one on
    each limit of the leader. In a bet's roles, row 0 is the leader's arm and row 1 the rival's.
    With a planned end, the bet in the leader's own place is on the leader as the rival of the
    `runner_up`. A
    pull counts as received once every measure used by its block's bets is known or will never be
    known; its other values are added to its block whenever they come. Data on a pair of measures
    are from pulls that gave both.

    The last seven arrays exist only with predictions: ``roles//4`` is then 1, else 0.
    """

    counts: Annotated[Floats, "arms groups measures measures"]  # values of each, and of each pair
    sums: Annotated[Floats, "arms groups measures"]
    products: Annotated[Floats, "arms groups measures measures"]
    pulls: Annotated[Floats, "arms groups"]  # that gave a value
    shares: Annotated[Floats, "arms groups"]  # the plan from which the next one starts
    book: Book
    forecast: Annotated[Floats, "1"]  # pulls still needed when the last block was planned
    leader: Annotated[Integers, "1"]
    finished: Annotated[Integers, "1"]
    answer: Annotated[Integers, "1"]
    blocks: Blocks
    target: Annotated[Integers, "slots"]  # the block's leader
    runner_up: Annotated[Integers, "slots"]  # target of the bet on the leader; -1 for none
    bets: Bets
    constant: Annotated[Floats, "slots bets"]  # part of the effect
    coefficients: Annotated[Floats, "slots bets roles groups measures"]
    centres: Annotated[Floats, "slots bets roles groups measures"]
    values: Annotated[Floats, "slots actions measures"]  # sums of the values
    squares: Annotated[Floats, "slots actions measures"]  # sums of their squares
    pairs: Annotated[Floats, "slots actions measures measures"]  # numbers of values, and of pairs
    complete: Annotated[Floats, "slots actions"]  # pulls whose objective is known, as in `sums`
    absent: Annotated[Floats, "slots actions measures"]  # pulls that will never give it
    present: Annotated[Floats, "slots actions measures"]  # pulls that gave it
    awaited: Annotated[Floats, "slots measures"]  # received pulls that may still give it
    was_absent: Annotated[Floats, "actions measures"]  # `absent`, over settled blocks
    was_present: Annotated[Floats, "actions measures"]
    was_complete: Annotated[Floats, "actions"]  # `complete`, over settled blocks
    settled_values: Annotated[Floats, "actions measures"]  # `values`, over settled blocks
    settled_squares: Annotated[Floats, "actions measures"]  # `squares`, over settled blocks
    settled_pairs: Annotated[Floats, "actions measures measures"]  # `pairs`, over settled blocks
    known: Annotated[Floats, "slots actions measures 3"]  # number, sums and squares when opened
    known_complete: Annotated[Floats, "slots actions"]  # `was_complete` when opened
    is_late: Annotated[Integers, "1"]  # whether a value was awaited when its block was settled
    settled_noise: Annotated[Floats, f"actions*directions {NUMBERED_COLUMNS}"]
    in_noise: Annotated[Integers, "directions"]  # number of first blocks in `settled_noise`
    noise: Annotated[Floats, f"slots actions*directions {NUMBERED_COLUMNS}"]
    reach: Annotated[Floats, "predictions 2"]  # smallest and largest of each so far
    clip: Annotated[Floats, "slots predictions 2"]  # the ranges to which those of a block are cut
    fits: Annotated[Floats, "slots predictions groups 2"]  # by `SLOPE` and `EXPECTED`
    guess: Annotated[Floats, "slots roles//4*groups"]  # of an objective with mean predictions
    adjusted: Annotated[Floats, "slots roles//4*actions 5"]  # objectives minus their guesses
    settled_adjusted: Annotated[Floats, "roles//4*actions 5"]  # `adjusted`, over settled blocks
    known_adjusted: Annotated[Floats, "slots roles//4*actions"]  # its squares when opened


CONSTANTS = Layout(Constants)
STATE = Layout(State)
opened = opener(CONSTANTS, STATE)
