"""What policies call: one decision, one reward, one void, or a whole simulated run."""

import math

import numpy as np

from fairtrial.allocation._kernels.counting import count_pull, void_pull
from fairtrial.allocation._kernels.draws import draw_awake, draw_context, segment_of
from fairtrial.allocation._kernels.learning import (
    free_arm,
    note_issue,
    note_reward,
    note_void,
    refresh,
    trial,
)
from fairtrial.allocation._kernels.model import (
    ALLOWED,
    ARMS,
    BEYOND_LIMIT,
    CONFINED,
    FREE,
    ISSUED,
    LEARNER,
    LIMIT,
    MASKED,
    NONE,
    QUEUED,
    ROUND,
    SCHEDULER,
    SUM,
    THOMPSON,
    TOLD,
    WINS,
    Floats,
    Integers,
    kernel,
    live,
    live_inlined,
)
from fairtrial.allocation._kernels.schedulers import forced_arm, largest_awake
from fairtrial.core._draws import draw


@kernel
def _awake_ruling(control: Integers, book: Integers) -> int:
    if control[SCHEDULER] == NONE or control[SCHEDULER] == QUEUED:
        return MASKED
    return largest_awake(control, book)


@live_inlined
def ruling(control: Integers, book: Integers, sleeping: bool) -> int:
    """Return the arm that is forced now, or FREE, MASKED, CONFINED, BEYOND_LIMIT."""
    if control[ROUND] >= control[LIMIT]:
        found = BEYOND_LIMIT
    elif sleeping:
        found = _awake_ruling(control, book)
    else:
        found = forced_arm(control, book)
    return found


@live_inlined
def issue(
    control: Integers, book: Integers, stats: Floats, ring: Floats, settings: Floats,
    context: int, arm: int, forced: bool, sleeping: bool,
) -> None:  # fmt: skip
    """Count the pull of an arm."""
    number = control[ISSUED]
    cell = context * control[ARMS] + arm
    count_pull(control, book, arm, not forced, sleeping)
    note_issue(control, stats, ring, settings, cell, number)


@live_inlined
def decide(
    control: Integers, book: Integers, stats: Floats, ring: Floats, settings: Floats,
    context: int, sleeping: bool,
) -> int:  # fmt: skip
    """Return the next arm, counted; or BEYOND_LIMIT, and nothing has changed."""
    arm = ruling(control, book, sleeping)
    if arm != BEYOND_LIMIT:
        forced = arm >= 0 or arm == CONFINED
        if arm < 0:
            start = context * control[ARMS]
            arm = free_arm(control, book, stats, settings, start, arm != FREE)
        issue(control, book, stats, ring, settings, context, arm, forced, sleeping)
    return arm


@live
def take_reward(
    control: Integers, stats: Floats, ring: Floats, settings: Floats,
    cell: int, reward: float, number: int, address: int,
) -> None:  # fmt: skip
    """Take one reward."""
    note_reward(control, stats, ring, settings, cell, reward, number, address)


@live
def correct_reward(
    control: Integers, stats: Floats, settings: Floats,
    cell: int, old: float, new: float, number: int,
) -> None:  # fmt: skip
    """Replace a reward that was taken."""
    stats[SUM, cell] += new - old
    if control[LEARNER] == THOMPSON:
        change = new - old
        if number >= 0:
            change = trial(control, new, number) - trial(control, old, number)
        # The old reward is what the caller says it was: never more wins than rewards.
        stats[WINS, cell] = min(max(0.0, stats[WINS, cell] + change), stats[TOLD, cell])
    refresh(control, stats, settings, cell)


@live
def void(
    control: Integers, book: Integers, stats: Floats, ring: Floats, settings: Floats,
    cell: int, number: int,
) -> None:  # fmt: skip
    """Take back a pull that will have no result."""
    void_pull(control, book, cell % control[ARMS])
    note_void(control, stats, ring, settings, cell, number)


@kernel
def run_rounds(
    control: Integers, book: Integers, stats: Floats, ring: Floats, settings: Floats,
    kind: int, first: Floats, second: Floats, starts: Integers, low: float, width: float,
    generator: np.random.Generator, pulls: int,
) -> int:  # fmt: skip
    """Run a policy in a world without contexts; return the pulls made."""
    for number in range(pulls):
        arm = decide(control, book, stats, ring, settings, 0, False)
        if arm < 0:
            return number
        reward = (draw(kind, first, second, starts, arm, generator) - low) / width
        note_reward(control, stats, ring, settings, arm, reward, number, number)
    return pulls


@kernel
def _best_mean(book: Integers, means: Floats, start: int, arms: int, sleeping: bool) -> float:
    best = -math.inf
    for arm in range(arms):
        if not sleeping or book[ALLOWED, arm]:
            best = max(best, means[start + arm])
    return best


@kernel
def run_varied(
    control: Integers, book: Integers, stats: Floats, ring: Floats, settings: Floats,
    kind: int, first: Floats, second: Floats, starts: Integers, low: float, width: float,
    means: Floats, changes: Integers, chances: Floats, cumulated: Floats, contexts: int,
    generator: np.random.Generator, pulls: int,
) -> tuple[float, float]:  # fmt: skip
    """Run a policy in a world of contexts, sleep or drift.

    Returns the sums over all rounds of the best mean that was on offer and of the mean of the
    arm pulled.
    """
    arms = control[ARMS]
    sleeping = False
    offered, served = 0.0, 0.0
    for number in range(pulls):
        context = 0
        if len(chances) > 0:
            sleeping = draw_awake(chances, book[ALLOWED], generator) < arms
        elif len(cumulated) > 1:
            context = draw_context(cumulated, generator)
        row = segment_of(changes, number) if len(changes) > 0 else context
        known = context if contexts > 1 else 0
        best = _best_mean(book, means, row * arms, arms, sleeping)
        arm = decide(control, book, stats, ring, settings, known, sleeping)
        if arm < 0:
            return offered, served
        cell = row * arms + arm
        reward = (draw(kind, first, second, starts, cell, generator) - low) / width
        note_reward(control, stats, ring, settings, known * arms + arm, reward, number, number)
        offered += best
        served += means[row * arms + arm]
    return offered, served
