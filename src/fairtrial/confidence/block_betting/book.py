"""The evidence against every answer, and which answers it has ruled out.

The answers are K arms and, last, "none", which is right if every arm breaks a limit. There are
three kinds of ledgers: `own_ledger`, against an arm keeping its limits; `pair_ledger`, against a
rival being right, for a target that keeps its limits; and `limit_ledger`, against a target breaking
one of its limits. The theorem is in docs/explanation/block-betting.md: whatever is bet, the log
wealth against the right answer reaches ln(1/delta) with a probability of at most delta.

With a tolerance, evidence on different targets must not be added up. Every ledger is then tested
*separately*, and one that has reached the threshold is settled permanently, by making it infinite.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.bets import NO_BET, Bets
from fairtrial.core.compilation import counted, inlined, kernel, uncounted

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CLOSED = 2
"""Marks in `Book.rejected` an arm that people have closed: it is no answer, and no rival.

What its blocks as a target say in favour of rejecting others counts no longer; what they say
against it still does. Why this is valid: docs/explanation/closing.md.
"""

UNDECIDED = -1
"""What `conclude` returns as long as more than one answer is left."""


class Book(NamedTuple):
    """All ledgers; they hold log wealth. A family states which arms have which limits."""

    ledgers: Annotated[Floats, "ledgers"]
    stated: Annotated[Integers, "candidates limits"]  # whether an arm has a limit
    led: Annotated[Integers, "candidates"]  # whether an arm was ever the target of a bet
    rejected: Annotated[Integers, "answers"]  # 1 if ruled out, `CLOSED` if closed by people


def book_dimensions(arms: int, limits: int) -> dict[str, int]:
    """Return the dimensions of a book.

    Examples
    --------
    >>> book_dimensions(arms=3, limits=2)["ledgers"]
    18
    """
    ledgers = arms + arms * arms + arms * limits
    return {"ledgers": ledgers, "candidates": arms, "limits": limits, "answers": arms + 1}


@inlined
def own_ledger(k: int) -> int:
    """Return the ledger against arm k keeping its limits."""
    return k


@inlined
def pair_ledger(book: Book, rival: int, target: int) -> int:
    """Return the ledger against the rival being right, for a target that keeps its limits."""
    return book.stated.shape[0] * (1 + target) + rival


@inlined
def rival_ledger(book: Book, rival: int, target: int) -> int:
    """Return the ledger for all evidence against a rival in blocks with a target.

    If bets of a block share pulls, their payments must not be multiplied: everything then goes into
    the ledger of the pair.
    """
    is_arm = target < book.stated.shape[0]
    return pair_ledger(book, rival, target) if is_arm else own_ledger(rival)


@inlined
def limit_ledger(book: Book, target: int, r: int) -> int:
    """Return the ledger against the target breaking its limit r."""
    arms, limits = book.stated.shape
    return arms + arms * arms + target * limits + r


# ------------------------------------------------------------------------------- wealth


@inlined
def kept(book: Book, j: int) -> float:
    """Return the evidence that an arm keeps all its limits: the smallest of their ledgers."""
    least = math.inf
    for r in range(book.stated.shape[1]):
        if book.stated[j, r]:
            least = min(least, book.ledgers[limit_ledger(book, j, r)])
    return least


@inlined
def _from_target(book: Book, answer: int, target: int, limits: float) -> float:
    """Return what a target's blocks add to the wealth against an answer; `limits`: its `kept`."""
    if answer == book.stated.shape[0]:
        return limits
    return min(book.ledgers[pair_ledger(book, answer, target)], limits)


@kernel
def all_wealth(book: Book) -> Floats:
    """Return the log wealth against every answer, "none" last."""
    wealth = np.empty(book.stated.shape[0] + 1)
    _fill_wealth(book, wealth)
    return wealth


@uncounted
def _fill_wealth(book: Book, wealth: Floats) -> None:
    """Fill the log wealth against every answer, "none" last."""
    arms = book.stated.shape[0]
    for k in range(arms):
        wealth[k] = book.ledgers[own_ledger(k)]
    wealth[arms] = 0.0
    for j in range(arms):
        limits = kept(book, j)
        most = 0.0 if book.rejected[j] == CLOSED else math.inf
        wealth[arms] += min(limits, most)
        # The ledgers of an arm that was never a target are zero.
        for answer in range(arms if book.led[j] else 0):
            if answer != j:
                wealth[answer] += min(_from_target(book, answer, j, limits), most)


@inlined
def against_rival(book: Book, rival: int, target: int) -> float:
    """Return the evidence that a rival breaks a limit, or is no better than the target.

    For the target "none", only the first counts. Ledgers are tested separately.
    """
    found = book.ledgers[own_ledger(rival)]
    if target < book.stated.shape[0]:
        found = max(found, book.ledgers[pair_ledger(book, rival, target)])
    return found


@uncounted
def evidence_for(book: Book, answer: int) -> float:
    """Return the smallest evidence that an answer needs if ledgers are tested separately."""
    arms = book.stated.shape[0]
    least = math.inf if answer == arms else kept(book, answer)
    for rival in range(arms):
        if rival != answer and book.rejected[rival] != CLOSED:
            least = min(least, against_rival(book, rival, answer))
    return least


# ------------------------------------------------------------------------- placing bets


@kernel(inline="always")
def begin_bets(book: Book, bets: Bets, slot: int, target: int) -> None:
    """Begin to place the bets of a block: one bet for each item, none of them placed yet."""
    bets.number[slot] = bets.ledger.shape[1]
    for bet in range(bets.number[slot]):
        bets.ledger[slot, bet] = NO_BET
        bets.aim[slot, bet] = bets.need[slot, bet] = 0.0
    if target < book.stated.shape[0]:
        book.led[target] = 1


@kernel(inline="always")
def is_wanted(book: Book, item: int, target: int, separately: bool) -> bool:
    """Return whether a block with this target bets on an item; items are those of `fill_needs`.

    It bets on every rival that is not ruled out, and on every limit of the target.
    """
    arms = book.stated.shape[0]
    if item >= arms:
        return target < arms and book.stated[target, item - arms] != 0
    is_settled = separately and against_rival(book, item, target) == math.inf
    return item != target and book.rejected[item] == 0 and not is_settled


# ----------------------------------------------------------------------------- deciding


@uncounted
def rule_out_none(book: Book) -> bool:
    """Reject "none" if some arm has no limit that it could break; return whether it was."""
    arms = book.stated.shape[0]
    for k in range(arms):
        if kept(book, k) == math.inf:
            book.rejected[arms] = 1
            return True
    return False


@kernel(inline="always")
def begin(rules: Any, state: Any) -> None:
    """Begin without data: "none" leads, unless some arm has no limit that it could break."""
    state.forecast[0] = math.inf
    state.leader[0] = 0 if rule_out_none(state.book) else state.book.stated.shape[0]
    decide(rules, state)


@uncounted
def decide(rules: Any, state: Any) -> None:
    """Reject permanently the answers that the evidence rules out; finish when one is left."""
    answer = conclude(state.book, rules.threshold, rules.separately, state.leader[0])
    if answer != UNDECIDED:
        state.finished[0] = 1
        state.answer[0] = answer


@counted
def conclude(book: Book, threshold: float, separately: bool, leader: int) -> int:
    """Reject permanently what the wealth rules out; return the last answer left, or `UNDECIDED`.

    If the last two answers are rejected together, the leader stays.
    """
    if separately:
        return _conclude_separately(book, threshold, leader)
    wealth = np.empty(book.rejected.size)
    _fill_wealth(book, wealth)
    left, last = reject(book.rejected, wealth, threshold)
    if left > 1:
        return UNDECIDED
    return last if left else leader


@uncounted
def _conclude_separately(book: Book, threshold: float, leader: int) -> int:
    for ledger in range(book.ledgers.size):
        if book.ledgers[ledger] >= threshold:
            book.ledgers[ledger] = math.inf
    for turn in range(-1, book.rejected.size):
        # The leader comes first, because one block can settle several answers.
        answer = leader if turn < 0 else turn
        if answer < 0 or book.rejected[answer]:
            continue
        if evidence_for(book, answer) == math.inf:
            return answer
    return UNDECIDED


@uncounted
def reject(rejected: Integers, wealth: Floats, threshold: float) -> tuple[int, int]:
    """Reject permanently every answer whose log wealth has reached the threshold.

    Return the number of answers left, and the last of them (-1 if there is none).
    """
    left = 0
    last = -1
    for answer in range(rejected.size):
        if not rejected[answer] and wealth[answer] >= threshold:
            rejected[answer] = 1
        if not rejected[answer]:
            left += 1
            last = answer
    return left, last


# --------------------------------------------------------------------------------- needs


@uncounted
def fill_needs(book: Book, threshold: float, separately: bool, leader: int, needs: Floats) -> None:
    """Fill what each item still needs in nats; negative if it is settled or absent.

    Items 0 .. K-1: the rival k. Items from K on: the limits of the leader.
    """
    arms = book.stated.shape[0]
    for item in range(needs.size):
        needs[item] = -1.0
    least = 0.0
    if separately:
        for k in range(arms):
            if k != leader and book.rejected[k] != CLOSED:
                needs[k] = _or_settled(threshold - against_rival(book, k, leader))
    else:
        least = _needs_of_rivals(book, threshold, leader, needs)
    if leader == arms:
        return
    for r in range(book.stated.shape[1]):
        if book.stated[leader, r]:
            evidence = book.ledgers[limit_ledger(book, leader, r)]
            needs[arms + r] = _or_settled(threshold - least - evidence)


@inlined
def _or_settled(missing: float) -> float:
    return missing if missing > 0.0 else -1.0


@counted
def _needs_of_rivals(book: Book, threshold: float, leader: int, needs: Floats) -> float:
    """Fill what each rival needs; return the least wealth that does not come from the leader."""
    arms = book.stated.shape[0]
    wealth = np.empty(arms + 1)
    _fill_wealth(book, wealth)
    limits = kept(book, leader) if leader < arms else 0.0
    least = math.inf
    for answer in range(arms + 1):
        if book.rejected[answer] or answer == leader:
            continue
        if leader == arms:
            needs[answer] = max(0.0, threshold - wealth[answer])
            continue
        others = wealth[answer] - _from_target(book, answer, leader, limits)
        least = min(least, others)
        if answer < arms:
            ledger = pair_ledger(book, answer, leader)
            needs[answer] = _or_settled(threshold - others - book.ledgers[ledger])
    return least
