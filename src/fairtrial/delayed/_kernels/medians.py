"""The median rule: stop a pull if its readings are below the median of the others."""

from fairtrial.delayed._kernels.budget_state import (
    DONE,
    Budget,
)
from fairtrial.delayed._kernels.state import Floats, inlined, kernel


@kernel
def file_means(state: Budget, row: int) -> None:
    """Insert the running means of a completed pull into the sorted means of each age."""
    count = state.pulls[row].readings
    if state.pulls[row].state != DONE or count == 0:
        return
    running = 0.0
    for age in range(count):
        running += state.values[row, age]
        _insert(state.aged[age], running / (age + 1.0))
    state.control[0].stale = 1


@inlined
def _insert(means: Floats, mean: float) -> None:
    place = int(means[0])
    while place > 0 and means[place] > mean:
        means[place + 1] = means[place]
        place -= 1
    means[place + 1] = mean
    means[0] += 1.0


@kernel
def is_below_median(state: Budget, row: int) -> bool:
    """Return whether a pull's best reading is below the median of the others at its age."""
    age = state.pulls[row].readings
    if age < state.rules[0].min_readings or age > state.aged.shape[0]:
        return False
    means = state.aged[age - 1]
    number = int(means[0])
    if number < state.rules[0].min_completed:
        return False
    middle = means[1 + number // 2]
    if number % 2 == 0:
        middle = (means[number // 2] + middle) / 2.0
    return state.pulls[row].largest < middle
