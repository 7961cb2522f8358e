"""What block betting keeps: its constants, its data and ledgers, and the open blocks."""

from typing import NamedTuple

from fairtrial.confidence._betting import GRID
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.indices import CONTROL
from fairtrial.subpopulations._kernels.model import Floats, Integers

NO_BET, LIMITS_OF_RIVAL, PAIR, CELL_OF_LEADER = range(4)
"""Ledgers a bet can pay into: D[k], P[k, b], C[e, b, l] for the end e of cell l of b."""


class Rules(NamedTuple):
    """The constants of the method, as docs/explanation/block-betting.md has them.

    `low` and `high` are the reward's range if it is `bounded`; rewards come less `shift`, limits
    and range as well. `threshold` is ln(1/delta), `start` the initial draws of a cell. A block has
    `growth` times the draws so far, and at least `touch` for every cell that matters; `kappa` and
    `cost` shape the plan, which takes `steps` steps at most, and ends before if it is within the
    factor `precision` of what any plan could reach. It is made at means that `doubt` has moved if
    it `doubts`. Nothing is bet while the leader's weakest item has less than `pause` squared. A
    lost draw is drawn again if `redraws`; else it counts as the worst value, or for known noise
    as none.
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
    precision: float
    doubts: bool
    pause: float
    redraws: bool
    shift: float


NUMBER_OF_RULES = 15


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
        packed[at + 11] > 0.0,
        packed[at + 12],
        packed[at + 13] > 0.0,
        packed[at + 14],
    )


class Book(NamedTuple):
    """Everything that changes: data, ledgers, and the open blocks in issue order.

    Shapes: K arms, L groups, R blocks that can be open at once, B = K + L bets a block, or
    K + 2 L where cells have ceilings. Row 0 of a bet's last two axes is the leader's arm, row 1
    the rival's.
    """

    counts: Floats  # (K, L), as are the next two
    sums: Floats
    squares: Floats
    shares: Floats  # (K, L), the plan that the next one starts from
    came: Floats  # (K, L), draws of blocks that are settled: with a result, and (next) lost
    lost: Floats
    limits_of: Floats  # (K,), ledger D
    pairs: Floats  # (K, K), ledger P[k, j]
    cells: Floats  # (2, K, L), ledger C[e, j, l]
    forecast: Floats  # (1,), draws still needed when the last block was planned
    planned: Floats  # (R, K, L), as are the next four
    to_issue: Floats
    got: Floats
    block_sums: Floats
    missed: Floats  # draws that were lost
    coefficients: Floats  # (R, B, 2, L), as is the next
    centres: Floats
    estimate: Floats  # (R, B), as are the next three
    variance: Floats
    constant: Floats
    cash: Floats
    thetas: Floats  # (R, B, GRID), as are the next three
    stakes: Floats
    products: Floats
    logs: Floats
    rejected: Integers  # (K + 1,), the last is the answer "none"
    control: Integers  # see `indices`
    waiting: Integers  # (R,), results outstanding
    target: Integers  # (R,), the leader that was bet on
    ledger: Integers  # (R, B)
    rival: Integers  # (R, B)
    drawn: Integers  # (R, B), draws since the products were last turned into logs


@kernel
def sizes(arms: int, groups: int, slots: int, bets: int) -> tuple[int, int]:
    """Return the lengths of the two buffers that a book lives in; `bets` are those of a block."""
    cells = arms * groups
    floats = 8 * cells + arms + arms * arms + 1 + 5 * slots * cells
    floats += slots * bets * (4 * groups + 4 + 4 * GRID)
    return floats, arms + 1 + CONTROL + slots * (2 + 3 * bets)


@kernel
def slots_in(integers: Integers, arms: int, bets: int) -> int:
    """Return how many blocks can be open at once, from the length of a book's integers."""
    return (integers.size - (arms + 1) - CONTROL) // (2 + 3 * bets)


@kernel
def open_book(floats: Floats, integers: Integers, arms: int, groups: int, bets: int) -> Book:
    """Return the named views of the two buffers; `bets` are those of a block."""
    cells = arms * groups
    slots = slots_in(integers, arms, bets)
    at = 0
    data = floats[at : at + 6 * cells].reshape((6, arms, groups))
    at += 6 * cells
    limits_of = floats[at : at + arms]
    at += arms
    pairs = floats[at : at + arms * arms].reshape((arms, arms))
    at += arms * arms
    cell_ledger = floats[at : at + 2 * cells].reshape((2, arms, groups))
    at += 2 * cells
    forecast = floats[at : at + 1]
    at += 1
    size = slots * cells
    blocks = floats[at : at + 5 * size].reshape((5, slots, arms, groups))
    at += 5 * size
    size = slots * bets * 2 * groups
    direction = floats[at : at + 2 * size].reshape((2, slots, bets, 2, groups))
    at += 2 * size
    size = slots * bets
    scalars = floats[at : at + 4 * size].reshape((4, slots, bets))
    at += 4 * size
    size = slots * bets * GRID
    points = floats[at : at + 4 * size].reshape((4, slots, bets, GRID))
    rejected = integers[: arms + 1]
    at = arms + 1
    control = integers[at : at + CONTROL]
    at += CONTROL
    per_block = integers[at : at + 2 * slots].reshape((2, slots))
    at += 2 * slots
    size = slots * bets
    per_bet = integers[at : at + 3 * size].reshape((3, slots, bets))
    return Book(
        data[0], data[1], data[2], data[3], data[4], data[5],
        limits_of, pairs, cell_ledger, forecast,
        blocks[0], blocks[1], blocks[2], blocks[3], blocks[4], direction[0], direction[1],
        scalars[0], scalars[1], scalars[2], scalars[3],
        points[0], points[1], points[2], points[3],
        rejected, control, per_block[0], per_block[1], per_bet[0], per_bet[1], per_bet[2],
    )  # fmt: skip
