"""The book of block betting against its definition, written out over dictionaries of ledgers."""

import itertools
import math

import numpy as np
import pytest

from fairtrial.confidence.block_betting.book import (
    CLOSED,
    UNDECIDED,
    Book,
    all_wealth,
    book_dimensions,
    conclude,
    evidence_for,
    fill_needs,
    limit_ledger,
    own_ledger,
    pair_ledger,
    rule_out_none,
)


class SlowBook:
    """Every ledger by its name; the answer K is "none"."""

    def __init__(self, book: Book) -> None:
        self.arms, self.limits = book.stated.shape
        self.none = self.arms
        self.own = {k: book.ledgers[own_ledger(k)] for k in range(self.arms)}
        self.pair = {
            (k, b): book.ledgers[pair_ledger(book, k, b)]
            for k, b in itertools.permutations(range(self.arms), 2)
        }
        self.limit = {
            (j, r): book.ledgers[limit_ledger(book, j, r)]
            for j, r in itertools.product(range(self.arms), range(self.limits))
            if book.stated[j, r]
        }
        self.live = {answer for answer in range(self.arms + 1) if not book.rejected[answer]}

    def kept(self, j: int) -> float:
        return min((value for (k, _), value in self.limit.items() if k == j), default=math.inf)

    def part(self, answer: int, target: int, **replaced: float) -> float:
        if answer == self.none:
            return self.kept(target)
        pair = replaced.get("pair", self.pair[answer, target])
        return min(pair, replaced.get("kept", self.kept(target)))

    def wealth(self, answer: int) -> float:
        own = 0.0 if answer == self.none else self.own[answer]
        return own + sum(self.part(answer, j) for j in range(self.arms) if j != answer)

    def evidence(self, answer: int) -> float:
        against = [
            max(self.own[k], -math.inf if answer == self.none else self.pair[k, answer])
            for k in range(self.arms)
            if k != answer
        ]
        return min([*against, math.inf if answer == self.none else self.kept(answer)])


def random_book(rng: np.random.Generator, *, unlimited: float = 0.2) -> Book:
    arms, limits = int(rng.integers(1, 5)), int(rng.integers(0, 4))
    sizes = book_dimensions(arms, limits)
    book = Book(
        rng.choice([0.0, 1.0, 2.5], sizes["ledgers"]) * rng.normal(1.0, 2.0, sizes["ledgers"]),
        rng.integers(0, 2, (arms, limits)) * int(rng.random() >= unlimited),
        np.ones(arms, dtype=np.int64),
        np.zeros(arms + 1, dtype=np.int64),
    )
    for j in np.flatnonzero(rng.random(arms) < 0.3):
        # An arm that was never a target has only zeros in its ledgers.
        book.led[j] = 0
        for k in range(arms):
            book.ledgers[pair_ledger(book, k, j)] = 0.0
        for r in range(limits):
            book.ledgers[limit_ledger(book, j, r)] = 0.0
    return book


BOOKS = [random_book(np.random.default_rng(seed)) for seed in range(300)]


def test_every_ledger_has_its_own_place():
    for book in BOOKS:
        arms, limits = book.stated.shape
        places = [own_ledger(k) for k in range(arms)]
        places += [pair_ledger(book, k, b) for k in range(arms) for b in range(arms)]
        places += [limit_ledger(book, j, r) for j in range(arms) for r in range(limits)]
        assert sorted(places) == list(range(book.ledgers.size))


def test_wealth_is_that_of_the_theorem():
    for book in BOOKS:
        slow = SlowBook(book)
        wanted = [slow.wealth(answer) for answer in range(slow.arms + 1)]
        assert all_wealth(book) == pytest.approx(wanted)


def test_none_is_possible_only_if_every_arm_has_a_limit():
    seen = set()
    for book in BOOKS:
        has_free_arm = not book.stated.any(axis=1).all()
        again = book._replace(rejected=book.rejected.copy())
        assert rule_out_none(again) == has_free_arm == bool(again.rejected[-1])
        seen.add(has_free_arm)
    assert seen == {True, False}


@pytest.mark.parametrize("threshold", [-2.0, 0.5, 3.0])
def test_the_last_answer_left_is_given_and_the_leader_if_none_is(threshold):
    found = set()
    for book in BOOKS:
        slow, again = SlowBook(book), book._replace(rejected=book.rejected.copy())
        left = [a for a in slow.live if slow.wealth(a) < threshold]
        wanted = UNDECIDED if len(left) > 1 else (left[0] if left else 0)
        assert conclude(again, threshold, False, 0) == wanted
        assert np.flatnonzero(again.rejected == 0).tolist() == left
        found.add(min(len(left), 2))
    assert found >= {1, 2}


def test_ledgers_tested_separately_settle_for_good_and_decide_when_all_are_settled():
    decided = 0
    for book in BOOKS:
        again = book._replace(ledgers=book.ledgers.copy(), rejected=book.rejected.copy())
        rule_out_none(again)
        answer = conclude(again, 0.5, True, 0)
        assert np.isinf(again.ledgers).tolist() == (book.ledgers >= 0.5).tolist()
        slow = SlowBook(again)
        settled = [one for one in slow.live if slow.evidence(one) == math.inf]
        assert answer == (settled[0] if settled else UNDECIDED)
        for one in range(slow.arms + 1):
            assert evidence_for(again, one) == slow.evidence(one)
        decided += answer != UNDECIDED
    assert 10 < decided < len(BOOKS)


def is_settled(book: Book, threshold: float, separately: bool, leader: int) -> bool:
    """Whether the leader can be given: every other answer that is possible is ruled out."""
    slow = SlowBook(book)
    if separately:
        return slow.evidence(leader) >= threshold
    rivals = slow.live - {leader}
    if slow.none in rivals and slow.kept(leader) == math.inf:
        # An arm without limits is acceptable.
        rivals.remove(slow.none)
    return all(slow.wealth(answer) >= threshold for answer in rivals)


def given_what_is_needed(book: Book, needs: np.ndarray, leader: int, short: int | None) -> Book:
    """Return the book after every item has gained what it needs; the one that is `short`, less."""
    arms, ledgers = len(book.stated), book.ledgers.copy()
    for item in np.flatnonzero(needs >= 0.0):
        if leader == arms:
            ledger = own_ledger(item)
        elif item < arms:
            ledger = pair_ledger(book, item, leader)
        else:
            ledger = limit_ledger(book, leader, item - arms)
        ledgers[ledger] += needs[item] - (1e-6 if item == short else -1e-9)
    return book._replace(ledgers=ledgers)


@pytest.mark.parametrize("led_by", ["an arm", "no arm"])
@pytest.mark.parametrize("separately", [False, True])
def test_the_leader_is_given_once_every_item_has_what_it_needs_and_not_before(separately, led_by):
    """Exactly: with less of any item that is needed, some other answer is left."""
    threshold, checked, rng = 4.0, 0, np.random.default_rng(1)
    for book in BOOKS:
        arms, _ = book.stated.shape
        leader = 0 if led_by == "an arm" else arms
        rejected = (rng.random(arms + 1) < (0.0 if separately else 0.2)).astype(np.int64)
        rejected[leader] = 0
        ledgers = np.minimum(book.ledgers, 3.9)
        if separately and leader < arms:
            # Bets of blocks against no arm count as those against the leader.
            for k in range(1, arms):
                pair = pair_ledger(book, k, leader)
                ledgers[pair] = max(ledgers[pair], ledgers[own_ledger(k)])
        book = book._replace(ledgers=ledgers, led=np.ones_like(book.led), rejected=rejected)
        needs = np.empty(arms + book.stated.shape[1])
        fill_needs(book, threshold, separately, leader, needs)
        for short in [None, *np.flatnonzero(needs > 1e-9)]:
            then = given_what_is_needed(book, needs, leader, short)
            assert is_settled(then, threshold, separately, leader) == (short is None)
            checked += short is not None
    assert checked > 300


# ------------------------------------------------------------------------ closed arms


@pytest.mark.parametrize("seed", range(40))
def test_a_closed_arm_never_helps_to_reject_an_answer_and_still_protects_it(seed):
    rng = np.random.default_rng(seed)
    book = random_book(rng)
    arms = book.stated.shape[0]
    closed = np.flatnonzero(rng.random(arms) < 0.4)
    slow = SlowBook(book)
    book.rejected[closed] = CLOSED
    found = all_wealth(book)
    for answer in range(arms + 1):
        own = 0.0 if answer == arms else slow.own[answer]
        parts = [
            min(slow.part(answer, j), 0.0) if j in closed else slow.part(answer, j)
            for j in range(arms)
            if j != answer
        ]
        assert found[answer] == pytest.approx(own + sum(parts))


@pytest.mark.parametrize("seed", range(10))
def test_a_closed_rival_need_not_be_ruled_out_if_ledgers_are_tested_separately(seed):
    book = random_book(np.random.default_rng(seed), unlimited=1.0)
    arms = book.stated.shape[0]
    closed = arms - 1
    slow = SlowBook(book)
    book.rejected[closed] = CLOSED
    for answer in range(arms - 1):
        rivals = [k for k in range(arms) if k not in (answer, closed)]
        against = [max(slow.own[k], slow.pair[k, answer]) for k in rivals]
        assert evidence_for(book, answer) == min(against, default=math.inf)
