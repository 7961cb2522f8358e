"""What block betting knows: its constants, and the books of data, wealth and open blocks."""

from typing import NamedTuple

from fairtrial.confidence._betting import GRID
from fairtrial.confidence.noise_kernels import COLUMNS
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.matrices import Floats, Integers


class Rules(NamedTuple):
    """The constants of the method; `low` and `high` are the reward's range if it has one.

    With `pairwise` there is a wealth against every ordered pair, else against every candidate.
    """

    bounded: bool
    low: float
    high: float
    threshold: float
    start: float
    growth: float
    kappa: float
    cost: float
    touch: float
    steps: int
    slack: float
    tolerance: float
    top: int
    pairwise: bool
    misspecification: float  # what a value may differ by from the linear function
    shift: float  # what is taken off every reward, if the features hold a constant


NUMBER_OF_RULES = 16


@kernel
def open_rules(packed: Floats) -> Rules:
    """Return the constants by name; they are the last numbers of a packed problem."""
    at = packed.size - NUMBER_OF_RULES
    return Rules(
        packed[at] > 0.0,
        packed[at + 1],
        packed[at + 2],
        packed[at + 3],
        packed[at + 4],
        packed[at + 5],
        packed[at + 6],
        packed[at + 7],
        packed[at + 8],
        int(packed[at + 9]),
        packed[at + 10],
        packed[at + 11],
        int(packed[at + 12]),
        packed[at + 13] > 0.0,
        packed[at + 14],
        packed[at + 15],
    )


class Book(NamedTuple):
    """Everything that changes: data, wealth, and the open blocks in issue order.

    Shapes: K arms, M candidates, r coordinates, R blocks that can be open at once, B bets in a
    block. The wealth of candidate k is ``wealth[0, k]``; pairwise, ``wealth[i, k]`` is evidence
    that i is better than k.
    """

    counts: Floats  # (K,), as are the next four
    sums: Floats
    squares: Floats
    pending: Floats
    shares: Floats  # the plan that the next one starts from
    wealth: Floats  # (1, M) or (M, M)
    record: Floats  # (K, 4), the spread of every arm's results, for the test of the noise
    early: Floats  # (K, 4), what it was when theta could first be estimated
    forecast: Floats  # (1,), draws still needed when the last block was planned
    planned: Floats  # (R, K), as are the next three
    to_issue: Floats
    got: Floats
    block_sums: Floats  # of what rewards exceed the block's prediction by
    prediction: Floats  # (R, r), theta as it was estimated when the block was planned
    estimate: Floats  # (R, B), in its own standard errors; as are the next two
    variance: Floats  # of the estimate; 0 for no bet
    cash: Floats
    coefficients: Floats  # (R, B, r) for bounded rewards, as is the next: x'h per draw
    centres: Floats
    thetas: Floats  # (R, B, GRID) for bounded rewards, as are the next three
    stakes: Floats
    products: Floats
    logs: Floats
    rejected: Integers  # (M,)
    chosen: Integers  # (M,), the present leaders, or the answer
    control: Integers  # see the indices below
    waiting: Integers  # (R,), results outstanding
    unissued: Integers  # (R,), draws not yet issued
    number: Integers  # (R,), bets
    touched: Integers  # (R,), arms with draws
    support: Integers  # (R, K), those arms
    winner: Integers  # (R, B)
    rival: Integers  # (R, B)
    drawn: Integers  # (R, B), draws since the products were last turned into logs


FIRST, OPEN, FINISHED, BLOCKS, HOPELESS, WATCHED = range(6)
"""Entries of `control`: serial number of the oldest open block, number of open ones, whether
the race is over, blocks planned so far, whether there will be no answer, and whether `early` is
noted. A block lives in the slot of its serial number modulo the number of slots."""

CONTROLS = 6


@kernel
def _bets(candidates: int, rules: Rules) -> int:
    return max(1, rules.top * (candidates - rules.top))


@kernel
def sizes(packed: Floats, arms: int, candidates: int, rank: int, slots: int) -> tuple[int, int]:
    """Return the lengths of the two buffers that a book lives in."""
    rules = open_rules(packed)
    bets = _bets(candidates, rules)
    ledgers = candidates * candidates if rules.pairwise else candidates
    floats = (5 + 2 * COLUMNS) * arms + ledgers + 1 + slots * (4 * arms + rank + 3 * bets)
    if rules.bounded:
        floats += slots * bets * (2 * rank + 4 * GRID)
    return floats, 2 * candidates + CONTROLS + slots * (4 + arms + 3 * bets)


@kernel
def open_book(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, candidates: int, rank: int, slots: int,
) -> Book:  # fmt: skip
    """Return the named views of the two buffers."""
    rules = open_rules(packed)
    bets = _bets(candidates, rules)
    rows = candidates if rules.pairwise else 1
    data = floats[: 5 * arms].reshape((5, arms))
    at = 5 * arms
    wealth = floats[at : at + rows * candidates].reshape((rows, candidates))
    at += rows * candidates
    size = COLUMNS * arms
    records = floats[at : at + 2 * size].reshape((2, arms, COLUMNS))
    at += 2 * size
    forecast = floats[at : at + 1]
    at += 1
    size = slots * arms
    blocks = floats[at : at + 4 * size].reshape((4, slots, arms))
    at += 4 * size
    prediction = floats[at : at + slots * rank].reshape((slots, rank))
    at += slots * rank
    size = slots * bets
    scalars = floats[at : at + 3 * size].reshape((3, slots, bets))
    at += 3 * size
    width = rank if rules.bounded else 0
    size = slots * bets * width
    directions = floats[at : at + 2 * size].reshape((2, slots, bets, width))
    at += 2 * size
    width = GRID if rules.bounded else 0
    size = slots * bets * width
    points = floats[at : at + 4 * size].reshape((4, slots, bets, width))
    flags = integers[: 2 * candidates].reshape((2, candidates))
    at = 2 * candidates
    control = integers[at : at + CONTROLS]
    at += CONTROLS
    per_block = integers[at : at + 4 * slots].reshape((4, slots))
    at += 4 * slots
    support = integers[at : at + slots * arms].reshape((slots, arms))
    at += slots * arms
    per_bet = integers[at : at + 3 * slots * bets].reshape((3, slots, bets))
    return Book(
        data[0], data[1], data[2], data[3], data[4], wealth, records[0], records[1], forecast,
        blocks[0], blocks[1], blocks[2], blocks[3], prediction,
        scalars[0], scalars[1], scalars[2], directions[0], directions[1],
        points[0], points[1], points[2], points[3],
        flags[0], flags[1], control,
        per_block[0], per_block[1], per_block[2], per_block[3], support,
        per_bet[0], per_bet[1], per_bet[2],
    )  # fmt: skip


@kernel
def wealth_of(book: Book, winner: int, rival: int) -> float:
    """Return the log wealth against "the rival is (also) right", as far as the winner tells."""
    row = winner if book.wealth.shape[0] > 1 else 0
    return book.wealth[row, rival]
