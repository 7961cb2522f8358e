"""The state that the kernels work on: tables of arms and groups, of rewards, and single numbers.

Credits are integers over one denominator q for all shares and initial credits: a node with
numerator p has ``p t - offset`` after t rounds, and its offset grows by q with every pull, from the
negative of the credit that it started with. This is exact, so there is no drift to test for.
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
"""Compiler of the family's kernels, which allocate nothing.

So they need no reference counts (`_nrt`): those are atomic, and would cost several times what a
decision costs.
"""

inlined = compiled(**_OPTIONS, forceinline=True)
"""The same for what every round calls: handing on a state costs more than the work."""

live = compiled(**_OPTIONS, nogil=False)
"""The same for single calls from Python, which keep the lock: they are shorter than its handover,
and threads that share a policy without a lock of their own do not meet half-changed arrays."""

live_inlined = compiled(**_OPTIONS, nogil=False, forceinline=True)
"""Both: what a simulated round calls as well."""


class Control(NamedTuple):
    """Single numbers: what changes, then what the problem and the policy say.

    `worst`: the largest credit so far; `plays_done`: of the round at hand; `opening_arm`: where
    fixed opening pulls have come to; `waiting`, `due`: sizes of the heaps `release` and `ready`.
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
    """An arm or a group: what is counted, what the problem says, and what follows from both.

    `asleep` counts the rounds that do not count for an arm alone: it slept, or its pull failed
    beside others. `place`: in the heap `release`, or beyond all nodes in the heap `ready`. `member`
    and `order` belong to their place in the table.
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
    """The rewards of an arm in a context."""

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
    """A round of a sliding window: its cell, -1 for none, and its reward, NaN until it comes."""

    cell: int
    reward: float


class State(NamedTuple):
    """All that the kernels work on: arms come before groups among the nodes.

    `release`, `ready`: heaps of nodes. `allowed`: which arms may be pulled in this round.
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

# Learners, as their classes number them.
CUSTOM, UCB1, KLUCB, THOMPSON, EPSILON_GREEDY, GREEDY, ROUND_ROBIN, RANDOM, SLIDING = range(9)

# What a scheduler answers when no arm is forced: the learner is free; free among the allowed
# arms; or confined to the allowed arms because a quota is due.
FREE, MASKED, CONFINED, BEYOND_LIMIT = -1, -2, -3, -4

NOWHERE = -1
NEVER = 2**62
