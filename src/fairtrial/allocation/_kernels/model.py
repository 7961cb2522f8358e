"""Where everything stands in the arrays that the kernels work on.

`control` holds single integers; `book` has a row per quantity and a column per node, the arms
first and then the groups; `stats` has a row per quantity and a column per cell (context times
arms plus arm); `ring` holds the rounds of a sliding window; `settings` single floats.

Credits are integers over one denominator q for all shares and initial credits: a node with
numerator p has ``p t - base`` after t rounds, and its base grows by q with every pull, from the
negative of the credit that it started with. This is exact, so there is no drift to test for.
"""

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_OPTIONS: Any = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}

kernel = nb.njit(**_OPTIONS)
"""Compiler of the family's kernels, which allocate nothing.

So they need no reference counts (`_nrt`): those are atomic, and would cost several times what a
decision costs.
"""

inlined = nb.njit(**_OPTIONS, forceinline=True)
"""The same for what every round calls: handing on five arrays costs more than the work."""

# Control: first what changes, then what the problem and the policy say.
(
    ROUND, ISSUED, FORCED, WORST, OVERDUE, FIRST, FREE_UNTIL, TIGHT_UNTIL, SLOT, PHASE,
    SLEPT, STREAM,
    N_RELEASE, N_READY,
    UNIT, TOLERANCE, TOTAL, ARMS, NODES, CARRY, SCHEDULER, LEARNER, PLAYS, LIMIT, EXHAUSTED,
    CONTEXTS, WINDOW, MASKS, QUEUES, EARLIER, PERIOD,
    IDLE_IF_NONE_READY, INDEXED, PLAIN, KEY0, KEY1,
) = range(36)  # fmt: skip
CONTROLS = 36
CHANGING = 12

# Book: first what is saved, then what the problem says, then what is rebuilt.
(
    COUNT, BASE, ASLEEP, LAST, GAP, QUEUE, TAKEN,
    QUOTA, INITIAL, GROUP, MEMBER, BEGIN, END, OPENING,
    KEY, PLACE, RELEASE, READY, ALLOWED, NEXT, OWED, ORDER,
) = range(22)  # fmt: skip
PLANES = 22
SAVED = 7

# Statistics by cell.
CELL_ISSUED, TOLD, SUM, MEAN, WIDTH, WINS, RECENT_ISSUED, RECENT_TOLD, RECENT_SUM = range(9)
STATISTICS = 9

# Settings.
FIRST_SETTING, ETA, PRICE = range(3)
SETTINGS = 3

# Schedulers.
NONE, DUE, LARGEST, LAZY, QUEUED, OPENING_FIRST = range(6)

# Learners, as their classes number them.
CUSTOM, UCB1, KLUCB, THOMPSON, EPSILON_GREEDY, GREEDY, ROUND_ROBIN, RANDOM, SLIDING = range(9)

# What a scheduler answers when no arm is forced: the learner is free; free among the allowed
# arms; or confined to the allowed arms because a quota is due.
FREE, MASKED, CONFINED, BEYOND_LIMIT = -1, -2, -3, -4

NOWHERE = -1
NEVER = 2**62
