"""Delays that depend on values do not contradict the noise or the linear means."""

import numpy as np
import pytest

from fairtrial.linear import BlockBetting, Problem

ROWS = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]


def policies(number=2, **options):
    return [BlockBetting(Problem(ROWS, noise_std=1.0), seed=2, **options) for _ in range(number)]


def test_results_are_tested_with_their_block_whatever_order_they_come_in():
    in_order, extremes_first = policies(batch=40)
    rng = np.random.default_rng(0)
    for _ in range(6):
        pulls = in_order.ask(40)
        assert extremes_first.ask(40) == pulls
        values = {pull: float(rng.normal()) for pull in pulls}
        for pull in pulls:
            in_order.tell(pull, values[pull])
        for pull in sorted(pulls, key=lambda pull: -abs(values[pull])):
            extremes_first.tell(pull, values[pull])
            assert extremes_first.warnings() == ()
    for before, after in zip(
        in_order._standing.records, extremes_first._standing.records, strict=True
    ):
        assert after == pytest.approx(before)


def test_blocks_wait_for_the_initial_pulls_in_the_test():
    policy, _ = policies()
    first, *others = policy.ask(20)
    for pull in [*others, *(policy.ask() for _ in range(10))]:
        policy.tell(pull, 0.1 * pull.number)
    assert policy._standing.records[0][:, 0].sum() == 0.0
    policy.fail(first)
    assert policy._standing.records[0][:, 0].sum() >= 19.0
    before = policy._standing.records[0][:, 0].sum()
    policy.tell(first, 0.3)
    assert policy._standing.records[0][:, 0].sum() == before + 1.0


def test_a_correction_reaches_the_tested_results_wherever_they_are():
    corrected, right = policies(batch=12)
    pulls = corrected.ask(30)
    assert right.ask(30) == pulls
    for pull in pulls[:-1]:
        for policy in (corrected, right):
            policy.tell(pull, 0.1)
    corrected.tell(pulls[-1], 0.1)
    corrected.amend(pulls[3], 0.1, 0.9)
    right.tell(pulls[-1], 0.1)
    right.amend(pulls[3], 0.1, 0.9)
    for pull in right.ask(12):
        same = corrected.ask()
        assert same == pull
        right.tell(pull, 0.9)
        corrected.tell(same, 0.4)
        corrected.amend(same, 0.4, 0.9)
    assert corrected._standing.records[0] == pytest.approx(right._standing.records[0])
