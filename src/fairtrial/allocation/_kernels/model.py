"""Where everything stands in the arrays that the kernels work on.

`control` holds single integers; `book` has a row per quantity and a column per node, the arms
first and then the groups; `stats` has a row per quantity and a column per cell (context times
arms plus arm); `ring` holds the rounds of a sliding window; `settings` single floats.

Credits are integers over one denominator q for all shares and initial credits: a node with
numerator p has ``p t - base`` after t rounds, and its base grows by q with every pull, from the
negative of the credit that it started with. This is exact, so there is no drift to test for.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel as compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_OPTIONS: Any = {"error_model": "numpy", "_nrt": False}

kernel = compiled(**_OPTIONS)
"""Compiler of the family's kernels, which allocate nothing.

So they need no reference counts (`_nrt`): those are atomic, and would cost several times what a
decision costs.
"""

inlined = compiled(**_OPTIONS, forceinline=True)
"""The same for what every round calls: handing on five arrays costs more than the work."""

live = compiled(**_OPTIONS, nogil=False)
"""The same for single calls from Python, which keep the lock: they are shorter than its handover,
and threads that share a policy without a lock of their own do not meet half-changed arrays."""

live_inlined = compiled(**_OPTIONS, nogil=False, forceinline=True)
"""Both: what a simulated round calls as well."""

# Control: first what changes, then what the problem and the policy say.
(
    ROUND, ISSUED, FORCED, WORST, OVERDUE, FIRST, FREE_UNTIL, TIGHT_UNTIL, SLOT, PHASE,
    SLEPT, STREAM,
    N_RELEASE, N_READY,
    UNIT, TOLERANCE, PERIOD, ARMS, NODES, CARRY, SCHEDULER, LEARNER, PLAYS, LIMIT, EXHAUSTED,
    CONTEXTS, WINDOW, MASKS, QUEUES, EARLIER, PLAIN,
    IDLE_IF_NONE_READY, INDEXED, KEY0, KEY1,
) = range(35)  # fmt: skip
CONTROLS = 35
CHANGING = 12

# Book: first what is saved, then what the problem says, then what is rebuilt. ASLEEP counts the
# rounds that do not count for an arm alone: it slept, or its pull failed beside others.
(
    COUNT, BASE, ASLEEP, LAST, GAP, QUEUE, TAKEN, INITIAL,
    QUOTA, GROUP, MEMBER, BEGIN, END, OPENING,
    KEY, PLACE, RELEASE, READY, ALLOWED, NEXT, OWED, ORDER,
) = range(22)  # fmt: skip
PLANES = 22
SAVED = 8

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
