"""The wealth against every answer, and which answers it has ruled out."""

import math

import numpy as np

from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_book import Book, Rules
from fairtrial.subpopulations._kernels.indices import ANSWER, FINISHED, LEADER
from fairtrial.subpopulations._kernels.model import Floats, Model
from fairtrial.subpopulations._kernels.pitfalls import is_limited


@kernel
def cells_ledger(model: Model, book: Book, j: int) -> float:
    """Return the least of arm j's cell ledgers: evidence that j fails none of its limits."""
    least = math.inf
    for end in range(2):
        for group in range(model.weights.size):
            if abs(model.limits[end, j, group]) < math.inf:
                least = min(least, book.cells[end, j, group])
    return least


@kernel
def log_wealth(model: Model, book: Book, answer: int, target: int, replacement: float) -> float:
    """Return the log wealth against an answer (K stands for "none").

    The term of arm `target`, if it is one, is replaced by `replacement`.
    """
    arms = model.active.shape[0]
    total = 0.0 if answer == arms else book.limits_of[answer]
    for j in range(arms):
        if j == answer:
            continue
        if j == target:
            total += replacement
        elif answer == arms:
            total += cells_ledger(model, book, j)
        else:
            total += min(book.pairs[answer, j], cells_ledger(model, book, j))
    return total


@kernel
def current_wealth(model: Model, book: Book, answer: int) -> float:
    """Return the log wealth against an answer as it stands."""
    return log_wealth(model, book, answer, answer, 0.0)


@kernel
def all_wealth(model: Model, book: Book) -> Floats:
    """Return the log wealth against every answer, "none" last."""
    arms = model.active.shape[0]
    wealth = np.empty(arms + 1)
    for answer in range(arms + 1):
        wealth[answer] = current_wealth(model, book, answer)
    return wealth


@kernel
def none_is_possible(model: Model) -> bool:
    """Return whether every arm has a limit that it could fail."""
    for k in range(model.active.shape[0]):
        limited = False
        for group in range(model.weights.size):
            limited = limited or is_limited(model.limits, k, group)
        if not limited:
            return False
    return True


@kernel
def reject_answers(model: Model, rules: Rules, book: Book) -> None:
    """Reject for good every answer whose wealth has reached 1/delta; finish when one is left."""
    arms = model.active.shape[0]
    for answer in range(arms + 1):
        if not book.rejected[answer] and current_wealth(model, book, answer) >= rules.threshold:
            book.rejected[answer] = 1
    left = 0
    last = book.control[LEADER]
    for answer in range(arms + 1):
        if not book.rejected[answer]:
            left += 1
            last = answer
    if left <= 1:
        book.control[FINISHED] = 1
        book.control[ANSWER] = last
