"""The test of unequal losses: its definition and its guarantee."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.confidence.loss_test import (
    FALSE_ALARM,
    log_evidence_of_unequal_losses,
    losses_differ,
)


def one_by_one(sequence: list[tuple[int, int, bool]], arms: int, groups: int) -> float:
    """Predict every pull from the earlier ones, and divide by the best equal probabilities."""
    came, lost = np.zeros((arms, groups)), np.zeros((arms, groups))
    log = 0.0
    for k, group, is_lost in sequence:
        counts = lost if is_lost else came
        log += math.log((counts[k, group] + 0.5) / (came[k, group] + lost[k, group] + 1.0))
        counts[k, group] += 1.0
    for group in range(groups):
        kept, gone = came[:, group].sum(), lost[:, group].sum()
        for number in (kept, gone):
            log -= number * math.log(number / (kept + gone)) if number else 0.0
    return log


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.booleans()), max_size=60))
def test_the_closed_form_is_the_product_of_the_predictions(
    sequence: list[tuple[int, int, bool]],
) -> None:
    came, lost = np.zeros((3, 2)), np.zeros((3, 2))
    for k, group, is_lost in sequence:
        (lost if is_lost else came)[k, group] += 1
    found = log_evidence_of_unequal_losses(came, lost)
    assert found == pytest.approx(one_by_one(sequence, 3, 2), abs=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.02, 0.3), (0.5, 0.9)])
def test_equal_losses_are_seldom_ever_found_unequal(rates: tuple[float, float]) -> None:
    # Ever, in ten looks at 400 pulls. The worst sampling always pulls the arm that lost the most.
    # 2,000 runs at level .1: within three standard errors of it.
    runs, level = 2_000, 0.1
    rng = np.random.default_rng(1)
    came, lost = np.zeros((runs, 3, 2)), np.zeros((runs, 3, 2))
    ever = np.full(runs, -np.inf)
    for pull in range(400):
        group = pull % 2
        arm = np.argmax(lost[:, :, group] - came[:, :, group] + rng.random((runs, 3)), axis=1)
        gone = rng.random(runs) < rates[group]
        np.add.at(lost, (np.arange(runs), arm, group), gone)
        np.add.at(came, (np.arange(runs), arm, group), ~gone)
        if pull % 40 == 39:
            for run in range(runs):
                found = log_evidence_of_unequal_losses(came[run], lost[run])
                ever[run] = max(ever[run], found)
    wrong = np.mean(ever >= -math.log(level))
    assert wrong <= level + 3 * math.sqrt(level / runs)


def test_losses_of_one_arm_alone_are_found_and_those_of_a_group_are_not() -> None:
    assert losses_differ([[200.0], [170.0]], [[0.0], [30.0]])
    # Group 1 loses a third; arm 0 was drawn ten times as often there as arm 1.
    assert not losses_differ([[100.0, 400.0], [400.0, 40.0]], [[0.0, 200.0], [0.0, 20.0]])


@pytest.mark.parametrize("size", [0.0, 1.0, 1e3, 1e9])
def test_equal_losses_of_any_number_give_no_evidence(size: float) -> None:
    assert log_evidence_of_unequal_losses([[size], [size]], [[size], [size]]) <= 0.0
    assert 0.0 < FALSE_ALARM < 1.0
