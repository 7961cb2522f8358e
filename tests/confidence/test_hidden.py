"""What losses hide and waste, and which target rules out others sooner."""

import math

import numpy as np
import pytest

from fairtrial.confidence.block_betting.book import Book
from fairtrial.confidence.block_betting.hidden import (
    HIDDEN,
    fill_times,
    is_any_hidden,
    is_sooner,
    leave_out_wasted,
    share_lost,
)

SETTLED = -1.0
NEVER = math.inf


@pytest.mark.parametrize(
    ("others", "other", "sooner"),
    [
        ([NEVER, NEVER, 5.0, 3.0], 1, True),
        ([NEVER, NEVER, 5.0, 5.0], 1, False),
        ([NEVER, NEVER, 60.0, 1.0], 1, False),
        ([NEVER, 1.0, NEVER, 1.0], 2, False),
        ([NEVER, NEVER, NEVER, 1.0], 1, False),
    ],
    ids=["sooner", "after one that it delays", "hardly", "not slow by losses", "never"],
)
def test_a_target_is_replaced_if_another_rules_out_sooner_what_losses_make_slow(
    others, other, sooner
):
    """Three arms and "none": the first is the target, the third a rival that losses make slow."""
    times, without_losses = [NEVER, 10.0, 100.0, 2.0], [NEVER, 5.0, 10.0, 2.0]
    found = is_sooner(np.array(times), np.array(without_losses), np.array(others), other)
    assert found == sooner


def test_no_answer_is_ruled_out_before_the_limits_of_the_target_are_settled():
    book = Book(np.zeros(15), np.ones((3, 1), dtype=int), np.zeros(3), np.zeros(4, dtype=int))
    times = np.empty(4)
    needs = np.array([SETTLED, 2.0, 3.0, 1.0])
    fill_times(book, needs, np.array([0.0, 1.0, 0.0, 0.5]), 1.0, 0, times)
    assert times.tolist() == [NEVER, 4.0, NEVER, 4.0]
    fill_times(book, needs, np.array([0.0, 1.0, 2.0, 0.0]), 1.0, 0, times)
    assert times.tolist() == [NEVER] * 4
    book.rejected[[1, 3]] = 1
    fill_times(book, needs, np.array([0.0, 1.0, 2.0, 2.0]), 1.0, 0, times)
    assert times.tolist() == [NEVER, NEVER, 2.0, NEVER]


@pytest.mark.parametrize(
    ("present", "left", "weakest"),
    [
        ([0.0, 2.0, -3.0], [0.0, 2.0, 0.0], 0.0),
        ([0.0, -2.0, -3.0], [0.0, 2.0, 3.0], 2.0),
        ([0.0, 2.0, 3.0], [0.0, 2.0, 3.0], 2.0),
    ],
    ids=["one wasted", "all wasted", "none wasted"],
)
def test_wasted_items_count_only_if_nothing_else_is_left(present, left, weakest):
    found = np.array(present)
    assert leave_out_wasted(np.array([SETTLED, 1.0, 1.0]), found) == weakest
    assert found.tolist() == left


def test_the_share_of_lost_pulls_stays_below_one_while_no_result_has_come():
    assert share_lost(0.0, 0.0) == 0.0
    assert share_lost(9.0, 0.0) == 0.9
    assert share_lost(1.0, 3.0) == 0.25
    assert is_any_hidden(np.array([SETTLED, HIDDEN]))
    assert not is_any_hidden(np.array([SETTLED, 1.0]))
