"""The median rule: a pull is given up whose readings are below the median of the others."""

from fairtrial.delayed._kernels.ledger import (
    COUNT,
    DONE,
    GRACE,
    LARGEST,
    LEAST,
    STALE,
    STATE,
    Ledger,
)
from fairtrial.delayed._kernels.state import Floats, inlined, kernel


@kernel
def file_means(ledger: Ledger, row: int) -> None:
    """File the running means of a completed pull by age, each age in order."""
    count = int(ledger.pulls[row, COUNT])
    if ledger.pulls[row, STATE] != DONE or count == 0:
        return
    running = 0.0
    for age in range(count):
        running += ledger.values[row, age]
        _insert(ledger.aged[age], running / (age + 1.0))
    ledger.control[STALE] = 1.0


@inlined
def _insert(means: Floats, mean: float) -> None:
    place = int(means[0])
    while place > 0 and means[place] > mean:
        means[place + 1] = means[place]
        place -= 1
    means[place + 1] = mean
    means[0] += 1.0


@kernel
def is_below_median(ledger: Ledger, row: int) -> bool:
    """Return whether the best reading of a pull is below the median of others at its age."""
    age = int(ledger.pulls[row, COUNT])
    if age < ledger.rules[GRACE] or age > ledger.aged.shape[0]:
        return False
    means = ledger.aged[age - 1]
    number = int(means[0])
    if number < ledger.rules[LEAST]:
        return False
    middle = means[1 + number // 2]
    if number % 2 == 0:
        middle = (means[number // 2] + middle) / 2.0
    return ledger.pulls[row, LARGEST] < middle
