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
def term(model: Model, book: Book, answer: int, target: int, cells: float) -> float:
    """Return what target's blocks add to the log wealth against an answer (K stands for "none").

    `cells`: the target's `cells_ledger`.
    """
    return cells if answer == model.active.shape[0] else min(book.pairs[answer, target], cells)


@kernel
def fill_wealth(model: Model, book: Book, cells: Floats, wealth: Floats) -> None:
    """Fill every arm's `cells_ledger`, and the log wealth against every answer, "none" last."""
    arms = model.active.shape[0]
    for j in range(arms):
        cells[j] = cells_ledger(model, book, j)
    for answer in range(arms + 1):
        wealth[answer] = 0.0 if answer == arms else book.limits_of[answer]
        for j in range(arms):
            if j != answer:
                wealth[answer] += term(model, book, answer, j, cells[j])


@kernel
def all_wealth(model: Model, book: Book) -> Floats:
    """Return the log wealth against every answer, "none" last."""
    arms = model.active.shape[0]
    wealth = np.empty(arms + 1)
    fill_wealth(model, book, np.empty(arms), wealth)
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
    wealth = all_wealth(model, book)
    for answer in range(arms + 1):
        if not book.rejected[answer] and wealth[answer] >= rules.threshold:
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
