"""The test of drift: its definition and its guarantee."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.confidence.drift_test import Drift, find_drift, log_evidence_of_drift
from tests import effort

KEY = 0x6472696674
STAKES = np.array([-1.8, -0.9, 0.0, 0.9, 1.8])


def ranks(results: list[float], cell: int) -> list[float]:
    found = []
    for index, value in enumerate(results):
        draws = np.random.Generator(np.random.Philox(key=[KEY, cell], counter=index))
        earlier = results[: index + 1]
        lower = sum(other < value for other in earlier)
        equal = sum(other == value for other in earlier)
        found.append((lower + draws.random() * equal) / (index + 1))
    return found


def largest_average(results: list[float], cell: int) -> float:
    """Compute every jumper's wealth separately, and average."""
    largest, jumpers = 1.0, {rate: np.full(5, 0.2) for rate in (0.001, 0.01, 0.1)}
    for rank in ranks(results, cell):
        for rate, wealth in jumpers.items():
            switched = (1.0 - rate) * wealth + rate * wealth.sum() / 5.0
            jumpers[rate] = switched * (1.0 + STAKES * (rank - 0.5))
        largest = max(largest, float(np.mean([wealth.sum() for wealth in jumpers.values()])))
    return math.log(largest)


@settings(max_examples=effort.runs(20, whole=40))
@given(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 0.5, 1e9]), max_size=40), st.integers(0, 5))
def test_the_evidence_is_the_average_wealth_of_all_bets(results: list[float], cell: int) -> None:
    assert log_evidence_of_drift(results, cell) == pytest.approx(
        largest_average(results, cell), abs=1e-9
    )


LAWS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "rare successes": lambda rng, size: rng.random(size) < 0.05,
    "skewed": lambda rng, size: rng.exponential(size=size) ** 3,
    "three values": lambda rng, size: rng.choice([0.0, 0.4, 1.0], size=size, p=[0.6, 0.3, 0.1]),
    "all equal": lambda rng, size: np.ones(size),
}


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
def test_draws_from_one_distribution_seldom_look_like_drift(law: str) -> None:
    # Ever, in 200 results. 1,000 runs at level .1: within three standard errors of it.
    runs, level, rng = 1_000, 0.1, np.random.default_rng(1)
    found = [log_evidence_of_drift(LAWS[law](rng, 200), cell) for cell in range(runs)]
    assert np.mean(np.array(found) >= -math.log(level)) <= level + 3 * math.sqrt(level / runs)


@pytest.mark.statistical
def test_pulling_where_drift_is_suspected_raises_no_more_alarms() -> None:
    # Three cells with results 0 or 1. The cell that looks the most like drift is pulled, in batches
    # of 10, with a look after each batch. Within three standard errors of level .1.
    runs, level, rng = effort.runs(150, whole=500), 0.1, np.random.default_rng(2)
    alarms = 0
    for _ in range(runs):
        cells: list[list[float]] = [[], [], []]
        found = False
        for _ in range(20):
            evidence = [log_evidence_of_drift(cell, index) for index, cell in enumerate(cells)]
            suspect = int(np.argmax(np.array(evidence) + 0.1 * rng.random(3)))
            cells[suspect] += (rng.random(10) < 0.3).tolist()
            found |= find_drift(cells).p_value <= level
        alarms += found
    assert alarms / runs <= level + 3 * math.sqrt(level / runs)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("results", "change"),
    [
        (200, lambda time: 1.0 * (time >= 0.5)),
        (400, lambda time: 2.0 * time),
        (800, lambda time: 0.5 * np.sign(np.sin(2 * np.pi * time * 20))),
    ],
    ids=["a jump halfway", "a steady rise", "seasons"],
)
def test_drift_of_one_arm_is_found_and_named(results: int, change) -> None:
    # Measured by `./dev bench drift`: more than .8 of runs. With 30 runs, .6 is 2.7 errors away.
    rng, time = np.random.default_rng(3), np.arange(results) / results
    named = 0
    for _ in range(30):
        steady, drifting = rng.normal(size=(2, results))
        named += find_drift([steady, drifting + change(time)]).cells == (1,)
    assert named >= 18


@pytest.mark.statistical
def test_a_change_that_all_arms_share_is_found_before_any_shows_it_alone() -> None:
    rng, time = np.random.default_rng(4), np.arange(50) / 50
    found = [find_drift(list(rng.normal(size=(20, 50)) + 1.0 * (time >= 0.5))) for _ in range(20)]
    assert sum(drift.found for drift in found) >= 12
    assert sum(bool(drift.cells) for drift in found) <= 4


def test_no_results_show_no_drift() -> None:
    assert find_drift([[], []]) == Drift(1.0, ())
    assert log_evidence_of_drift([1.0]) == 0.0


@pytest.mark.statistical
def test_arms_that_share_what_is_drawn_are_not_taken_for_many_witnesses() -> None:
    # Twenty arms whose results only differ by a constant; 300 runs at level .01.
    runs, level, rng = 300, 0.01, np.random.default_rng(5)
    p_values = {True: np.ones(runs), False: np.ones(runs)}
    for run in range(runs):
        shared = rng.normal(size=100)
        for independent, found in p_values.items():
            arms = [shared + arm for arm in range(20)]
            found[run] = find_drift(arms, independent=independent).p_value
    assert np.mean(p_values[False] <= level) <= level + 3 * math.sqrt(level / runs)
    assert np.mean(p_values[True] <= level) > 5 * level
