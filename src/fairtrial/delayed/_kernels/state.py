"""The state of a race: the data of every pull and every arm, and how one event changes them.

Sums over an arm's pulls follow the order in which the pulls started, whatever the order of events,
so the same events give the same state, bit for bit. Pulls that can no longer change are folded into
running sums, so the cost of an event grows only with the arm's pulls in flight.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel as compiled
from fairtrial.core.records import Records

Floats = NDArray[np.float64]

_OPTIONS: Any = {"error_model": "numpy", "_nrt": False}

kernel = compiled(**_OPTIONS)
"""Compiler of the family's kernels, which allocate no memory.

They need no reference counts (`_nrt`), whose atomic updates cost more than most events.
"""

inlined = compiled(**_OPTIONS, forceinline=True)
"""As `kernel`, inlined in every caller: passing the state costs more than the work."""

# Rules: the first two use information, the others boxes.
PAIRWISE, INFORMATION_BOX, RACE_FULL, RACE_PARTIAL, RACE_PROVEN = range(5)
FULL, INCREMENTAL, UNBIASED, BIASED, REFINING = range(5)
UNIFORM, LUCB = range(2)

# The status of a pull, and of an arm.
OPEN, DONE, STOPPED = range(3)
SURVIVES, ACCEPTED, REJECTED = range(3)

_SMALLEST_STD = 1e-6


class Rules(NamedTuple):
    """Constants of a policy; the logarithms are of inverse error probabilities."""

    rule: int
    feedback: int
    complete_runs_only: int
    level: float
    top: int
    tolerance: float
    prior: float
    sampling: int
    per_arm: float
    intersect: int
    first_only: int
    target_std: float
    longest: float
    log_all: float
    log_outcome: float
    log_reading: float
    log_bias: float
    estimates_noise: int


class Control(NamedTuple):
    """Totals. No decisions are made while anything is in `halted`."""

    places: int
    survivors: int
    starts: int
    in_flight: int
    unwanted: int
    rows: int
    dirty: int
    upper_cut: float
    lower_cut: float
    results: int
    readings: int
    steps: float
    max_readings: int
    halted: int


class Pull(NamedTuple):
    """The data of a pull.

    `next`: row of the arm's next pull, -1 for none; `position`: number of the arm's pulls that
    started earlier; `in_sequence`: whether the pull is in the sequence that the proof uses.
    """

    arm: int
    next: int
    state: int
    outcome: float
    readings: int
    total: float
    precision: float
    weighted: float
    newest: float
    duration: float
    position: int
    number: int
    in_sequence: int
    bias: float
    has_bias: int
    log_charge: float


class Sums(NamedTuple):
    """Sums over an arm's pulls; each rule uses only its own."""

    # Information: weight and score of the mean alone; the weight if all pulls had completed; data
    # of pulls without outcome on mean + bias; data of completed pulls on the bias.
    information: float
    score: float
    hoped: float
    shifted: float
    shifted_score: float
    on_bias: float
    bias_score: float
    with_bias: float

    # If deviations are estimated: number of outcomes, their average, the sum of squares about it,
    # and the number of outcomes after the pulls in flight have completed.
    number: float
    average: float
    squares: float
    expected: float

    # For boxes: outcomes; pulls with data on the bias, these data and their weight; stopped pulls
    # that stay in the sequence.
    completed: float
    outcomes: float
    biased: float
    bias: float
    bias_weight: float
    kept: float
    kept_readings: float
    kept_radii: float


class Arm(NamedTuple):
    """The data of an arm.

    `first`, `last`: rows of its pulls; `front`: the first one that is not `folded` yet; `followed`:
    the pull in flight whose readings count, -1 for none; `has_passed`: whether other pulls have
    completed since then; `folded`: sums over the pulls that no longer change; `total`: over all.
    """

    noise: float
    reading_std: float
    duration: float
    started: int
    in_flight: int
    completed: int
    first: int
    last: int
    front: int
    estimate: float
    variance: float
    penalty: float
    lower: float
    upper: float
    potential: float
    status: int
    beaten_by: int
    beats: int
    followed: int
    has_passed: int
    folded: Sums
    total: Sums


class Rank(NamedTuple):
    """Derived data: the survivors in order, values to sort, and marks of arms."""

    survivor: int
    value: float
    leads: int


class Race(NamedTuple):
    """All that the kernels work on.

    `declared[i, j]`: whether arm i was found better than j; `nothing`: sums over no pulls; `radii`,
    shape (2, counts): two coefficients by number of outcomes, see `boxes.radius`.
    """

    rules: Annotated[Any, Rules]
    control: Annotated[Any, Control]
    nothing: Annotated[Any, Sums]
    arms: Annotated[Any, Arm, "arms"]
    order: Annotated[Any, Rank, "arms"]
    declared: Annotated[Any, bool, "pairs pairs"]
    pulls: Annotated[Any, Pull, "rows"]
    radii: Floats


RACE = Records(Race, kernel)
open_race = RACE.open


@inlined
def sigma_of(race: Race, arm: int) -> float:
    """Return the scale of an arm's outcomes."""
    return race.arms[arm].noise


@inlined
def reading_std_of(race: Race, arm: int) -> float:
    """Return the scale of an arm's readings around their outcome."""
    return race.arms[arm].reading_std


@kernel
def list_survivors(race: Race) -> None:
    """List the surviving arms."""
    arms, order = race.arms, race.order
    size = 0
    for arm in range(arms.shape[0]):
        if arms[arm].status == SURVIVES:
            order[size].survivor = arm
            size += 1


@kernel
def open_pull(race: Race, arm: int, number: float, duration: float) -> int:
    """Record the start of a pull of an arm; return its row."""
    control, own = race.control[0], race.arms[arm]
    row = control.rows
    pull = race.pulls[row]
    pull.arm, pull.number, pull.position = arm, int(number), own.started
    pull.next, pull.state, pull.newest = -1, OPEN, -np.inf
    pull.duration = duration
    pull.log_charge = math.log((own.started + 1.0) * (own.started + 2.0))
    if own.last >= 0:
        race.pulls[own.last].next = row
    else:
        own.first = row
    own.last = row
    if own.front < 0:
        own.front = row
    own.started += 1
    own.in_flight += 1
    control.rows += 1
    control.starts += 1
    control.in_flight += 1
    control.steps += max(1.0, np.ceil(duration))
    if own.status != SURVIVES:
        control.unwanted += 1
    return row


@kernel
def release(race: Race, row: int) -> None:
    """Record that a pull is no longer in flight."""
    arm = race.arms[race.pulls[row].arm]
    arm.in_flight -= 1
    race.control[0].in_flight -= 1
    if arm.status != SURVIVES:
        race.control[0].unwanted -= 1


@kernel
def forget_readings(race: Race, row: int) -> None:
    """Clear the sums of a pull's readings, so that they can be added in the right order."""
    pull = race.pulls[row]
    pull.readings, pull.newest = 0, -np.inf
    pull.total = pull.precision = pull.weighted = 0.0


@inlined
def add_reading(race: Race, row: int, stage: float, value: float, std: float) -> bool:
    """Add a reading to its pull; return whether it counts. A negative `std` means the arm's own."""
    pull, rules, control = race.pulls[row], race.rules[0], race.control[0]
    arm, kind = pull.arm, rules.feedback
    if kind == INCREMENTAL:
        pull.readings += 1
        pull.total += value
    else:
        own = reading_std_of(race, arm) if std < 0.0 else std
        precision = 1.0 / square(max(own, _SMALLEST_STD * sigma_of(race, arm)))
        if kind == REFINING:
            if stage < pull.newest:
                return False
            if rules.first_only and (pull.readings > 0 or own > rules.target_std):
                return False
            pull.total = pull.precision = pull.weighted = 0.0
        pull.readings += 1
        pull.total += value
        pull.precision += precision
        pull.weighted += value * precision
    pull.newest = max(pull.newest, stage)
    control.max_readings = max(control.max_readings, pull.readings)
    return True


@kernel
def kth_largest(order: Any, size: int, k: int) -> float:
    """Return the k-th largest of the first `size` values (k from 1), reordering them."""
    low, high, wanted = 0, size - 1, k - 1
    while low < high:
        pivot = order[(low + high) // 2].value
        i, j = low, high
        while i <= j:
            while order[i].value > pivot:
                i += 1
            while order[j].value < pivot:
                j -= 1
            if i <= j:
                value = order[i].value
                order[i].value = order[j].value
                order[j].value = value
                i += 1
                j -= 1
        if wanted <= j:
            high = j
        elif wanted >= i:
            low = i
        else:
            return order[wanted].value
    return order[wanted].value
