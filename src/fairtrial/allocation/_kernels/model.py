"""The state that the kernels work on: tables of nodes and rewards, and a set of single numbers.

All shares and initial credits are integers over one common denominator q. The credit of a node with
numerator p is ``p t - offset`` after t rounds. The offset starts at the negative of the initial
credit and grows by q with each pull. This arithmetic is exact, so errors cannot accumulate.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel as compiled
from fairtrial.core.records import Records

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_OPTIONS: Any = {"error_model": "numpy", "_nrt": False}

kernel = compiled(**_OPTIONS)
"""Compiler of the family's kernels, which allocate no memory.

They need no reference counts (`_nrt`), whose atomic updates would cost several times as much as a
decision.
"""

inlined = compiled(**_OPTIONS, forceinline=True)
"""As `kernel`, inlined in every caller: passing the state costs more than the work of a round."""

live = compiled(**_OPTIONS, nogil=False)
"""As `kernel`, for single calls from Python; these keep the interpreter lock.

The calls are shorter than handing over the lock. Threads that share a policy need a lock of their
own all the same: in the interpreter, others can run in the middle of a kernel.
"""

live_inlined = compiled(**_OPTIONS, nogil=False, forceinline=True)
"""As `live`, and also inlined because simulated rounds call it."""


class Control(NamedTuple):
    """Single numbers: first those that change, then those set by the problem and the policy.

    `worst`: the largest credit so far; `plays_done`: plays made in the current round;
    `opening_arm`: the arm whose opening pulls are being made; `waiting`, `due`: sizes of the heaps
    `release` and `ready`.
    """

    rounds: int
    issued: int
    forced: int
    worst: int
    overdue: int
    first_untried: int
    free_until: int
    tight_until: int
    plays_done: int
    opening_arm: int
    has_slept: int
    stream: int
    waiting: int
    due: int

    unit: int
    tolerance: int
    period: int
    arms: int
    nodes: int
    carry: int
    scheduler: int
    learner: int
    plays: int
    limit: int
    is_exhausted: int
    contexts: int
    window: int
    confines: int
    has_queues: int
    earlier_rounds: int
    is_plain: int
    idle_if_none_ready: int
    is_indexed: int
    key0: int
    key1: int
    setting: float
    eta: float
    price: float


class Node(NamedTuple):
    """An arm or a group: its counts, its part of the problem, and values derived from both.

    `asleep`: rounds that do not count for this arm alone, because it slept or because its pull
    failed in a round with other pulls; `place`: position in the heap `release`; in the heap
    `ready`, that position plus the number of nodes. `member` and `order` belong to the row of the
    table, not to the node.
    """

    pulls: int
    offset: int
    asleep: int
    last_round: int
    longest_gap: int
    queue: int
    taken_in: int
    initial: int
    quota: int
    group: int
    member: int
    first_member: int
    end_of_members: int
    opening: int
    key: int
    place: int
    next_due: int
    owed: int
    order: int


class Cell(NamedTuple):
    """The reward statistics of an arm in a context."""

    issued: float
    told: float
    total: float
    estimate: float
    width: float
    wins: float
    recent_issued: float
    recent_told: float
    recent_total: float


class Round(NamedTuple):
    """A round of a sliding window: its cell (-1 for none) and its reward (NaN until it arrives)."""

    cell: int
    reward: float


class State(NamedTuple):
    """All that the kernels work on; arms come before groups among the nodes.

    `release`, `ready`: heaps of nodes; `allowed`: the arms that may be pulled in this round.
    """

    control: Annotated[Any, Control]
    nodes: Annotated[Any, Node, "nodes"]
    release: Annotated[Any, int, "nodes"]
    ready: Annotated[Any, int, "nodes"]
    allowed: Annotated[Any, int, "nodes"]
    cells: Annotated[Any, Cell, "cells"]
    window: Annotated[Any, Round, "rounds"]


STATE = Records(State, live_inlined)
open_state = STATE.open

# Schedulers.
NONE, DUE, LARGEST, LAZY, QUEUED, OPENING_FIRST = range(6)

# Learners, numbered as in their classes.
CUSTOM, UCB1, KLUCB, THOMPSON, EPSILON_GREEDY, GREEDY, ROUND_ROBIN, RANDOM, SLIDING = range(9)

# A scheduler's answers when it forces no arm: the learner may choose any arm, any allowed arm, or
# only an arm that makes a due pull. BEYOND_LIMIT: no more pulls are possible.
FREE, MASKED, CONFINED, BEYOND_LIMIT = -1, -2, -3, -4

NOWHERE = -1
NEVER = 2**62
