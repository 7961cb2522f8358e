"""The functions that policies call: decisions, rewards, voids, and whole simulated runs."""

import math
from typing import Any, NamedTuple

import numpy as np

from fairtrial.allocation._kernels.counting import (
    begin_with_one_more,
    count_pull,
    void_pull,
    worst_credit,
)
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
    BEYOND_LIMIT,
    CONFINED,
    FREE,
    MASKED,
    NONE,
    QUEUED,
    THOMPSON,
    Floats,
    Integers,
    State,
    kernel,
    live,
    live_inlined,
    open_state,
)
from fairtrial.allocation._kernels.schedulers import forced_arm, largest_awake
from fairtrial.allocation._kernels.waiting import rebuild
from fairtrial.core.draw_kernels import draw
from fairtrial.core.records import Words


@kernel
def _awake_ruling(state: State) -> int:
    control = state.control[0]
    if control.scheduler == NONE or control.scheduler == QUEUED:
        return MASKED
    return largest_awake(state)


@live_inlined
def _ruling(state: State, sleeping: bool) -> int:
    """Return the arm that is forced now, or FREE, MASKED, CONFINED, BEYOND_LIMIT."""
    control = state.control[0]
    if control.rounds >= control.limit:
        found = BEYOND_LIMIT
    elif sleeping:
        found = _awake_ruling(state)
    else:
        found = forced_arm(state)
    return found


@live_inlined
def _issue(state: State, context: int, arm: int, forced: bool, sleeping: bool) -> None:
    """Count the pull of an arm."""
    control = state.control[0]
    number = control.issued
    cell = context * control.arms + arm
    count_pull(state, arm, not forced, sleeping)
    note_issue(state, cell, number)


@live_inlined
def _decide(state: State, context: int, sleeping: bool) -> int:
    arm = _ruling(state, sleeping)
    if arm != BEYOND_LIMIT:
        forced = arm >= 0 or arm == CONFINED
        if arm < 0:
            start = context * state.control[0].arms
            arm = free_arm(state, start, arm != FREE)
        _issue(state, context, arm, forced, sleeping)
    return arm


@live
def decide(words: Words, context: int, sleeping: bool) -> int:
    """Choose and count the next arm; return BEYOND_LIMIT, changing nothing, if none is possible."""
    return _decide(open_state(words), context, sleeping)


@live
def ruling(words: Words, sleeping: bool) -> int:
    """Return the arm that is forced now, or FREE, MASKED, CONFINED, BEYOND_LIMIT."""
    return _ruling(open_state(words), sleeping)


@live
def issue(words: Words, context: int, arm: int, forced: bool, sleeping: bool) -> None:
    """Count the pull of an arm."""
    _issue(open_state(words), context, arm, forced, sleeping)


@live
def take_reward(words: Words, cell: int, reward: float, number: int, address: int) -> None:
    """Take one reward."""
    note_reward(open_state(words), cell, reward, number, address)


@live
def correct_reward(words: Words, cell: int, old: float, new: float, number: int) -> None:
    """Replace a recorded reward."""
    state = open_state(words)
    own = state.cells[cell]
    own.total += new - old
    if state.control[0].learner == THOMPSON:
        change = new - old
        if number >= 0:
            change = trial(state, new, number) - trial(state, old, number)
        # The old reward comes from the caller, so keep the wins between 0 and the number of
        # rewards.
        own.wins = min(max(0.0, own.wins + change), own.told)
    refresh(state, cell)


@live
def void(words: Words, cell: int, number: int) -> None:
    """Take back a pull that will have no result."""
    state = open_state(words)
    void_pull(state, cell % state.control[0].arms)
    note_void(state, cell, number)


@live
def make_up(words: Words, arm: int) -> None:
    """Add a failed pull to the initial credit of an arm and its group."""
    begin_with_one_more(open_state(words), arm)


@live
def worst(words: Words) -> int:
    """Return the largest credit that any arm or group has had at the end of any round."""
    return worst_credit(open_state(words))


@live
def prepare(words: Words) -> None:
    """Compute what depends on counts and rewards: the heaps and the parts of the indices."""
    state = open_state(words)
    for cell in range(state.cells.shape[0]):
        refresh(state, cell)
    rebuild(state)


@kernel
def run_rounds(
    words: Words, source: Any, low: float, width: float, generator: np.random.Generator, pulls: int
) -> int:
    """Run a policy in an environment without contexts; return the pulls made."""
    state = open_state(words)
    kind, first, second, starts = source
    for number in range(pulls):
        arm = _decide(state, 0, False)
        if arm < 0:
            return number
        reward = (draw(kind, first, second, starts, arm, generator) - low) / width
        note_reward(state, arm, reward, number, number)
    return pulls


class Varied(NamedTuple):
    """What varies in an environment: with the context, with the awake arms, or over the rounds.

    `means`: of the rewards, by row and arm; `changes`: rounds at which the next row starts;
    `chances`: the probability that each arm is awake; `cumulated`: cumulative probabilities of
    contexts; `contexts`: how many contexts the policy distinguishes.
    """

    means: Floats
    changes: Integers
    chances: Floats
    cumulated: Floats
    contexts: int


@kernel
def _best_mean(state: State, means: Floats, start: int, arms: int, sleeping: bool) -> float:
    best = -math.inf
    for arm in range(arms):
        if not sleeping or state.allowed[arm]:
            best = max(best, means[start + arm])
    return best


@kernel
def run_varied(
    words: Words,
    source: Any,
    low: float,
    width: float,
    varied: Varied,
    generator: np.random.Generator,
    pulls: int,
) -> tuple[float, float]:
    """Run a policy in an environment with contexts, sleeping arms or drift.

    Return two sums over all rounds: the best available mean, and the mean of the arm pulled.
    """
    state = open_state(words)
    kind, first, second, starts = source
    means, changes, chances, cumulated, contexts = varied
    arms = state.control[0].arms
    sleeping = False
    offered, served = 0.0, 0.0
    for number in range(pulls):
        context = 0
        if len(chances) > 0:
            sleeping = draw_awake(chances, state.allowed, generator) < arms
        elif len(cumulated) > 1:
            context = draw_context(cumulated, generator)
        row = segment_of(changes, number) if len(changes) > 0 else context
        known = context if contexts > 1 else 0
        best = _best_mean(state, means, row * arms, arms, sleeping)
        arm = _decide(state, known, sleeping)
        if arm < 0:
            return offered, served
        cell = row * arms + arm
        reward = (draw(kind, first, second, starts, cell, generator) - low) / width
        note_reward(state, known * arms + arm, reward, number, number)
        offered += best
        served += means[row * arms + arm]
    return offered, served
