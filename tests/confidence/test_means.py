"""Means of results of which some are missing: no missing value can move one out of its interval."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.confidence import means
from fairtrial.confidence.bounds import NormalMixture
from fairtrial.confidence.effects import BlockResults
from fairtrial.confidence.means import BlockMeans, Means, Settled, means_in_range, means_of
from tests import effort

values = st.lists(st.floats(-1, 3), min_size=1, max_size=30)


@given(values, st.data())
def test_the_interval_contains_the_one_of_all_values_whichever_are_missing(everything, data):
    gone = np.array([data.draw(st.booleans()) for _ in everything])
    outcomes = np.array(everything)
    settled = Settled(
        np.array([(~gone).sum()], float), np.array([outcomes[~gone].sum()]), np.array([gone.sum()])
    )
    (lower,), (upper,) = means_of(settled, 2.0, 0.1, (-1.0, 3.0))[1:]
    radius = NormalMixture().radius([len(outcomes)], 0.1, 2.0)[0]
    assert lower <= outcomes.mean() - radius + 1e-9
    assert upper >= outcomes.mean() + radius - 1e-9


def test_with_known_noise_missing_values_are_left_out():
    some = Settled(np.array([4.0, 0.0]), np.array([2.0, 0.0]), np.array([3.0, 1.0]))
    found = means_of(some, 1.0, 0.1)
    assert found.at(0)[0] == 0.5
    assert found.at(0)[2] == pytest.approx(0.5 + NormalMixture().radius([4], 0.1)[0])
    assert found.at(1) == (None, None, None)


def test_a_mean_of_results_that_do_not_count_yet_has_no_interval():
    nothing = Settled(*np.zeros((3, 1)))
    found = means_of(nothing, 1.0, 0.1, (0.0, 1.0)).or_so_far(np.array([2.0]), np.array([1.5]))
    assert found.at(0) == (0.75, None, None)


def test_sums_have_the_ends_that_their_signs_ask_for():
    found = Means(*(np.array([[[level, 1.0]]]) for level in (0.5, 0.2, 0.8)))
    assert found.combined(np.array([[-2.0, 0.0]])).at(0) == (-1.0, -1.6, -0.4)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1)), min_size=2))
def test_differences_from_one_of_the_means_are_within_their_intervals(parts):
    own = Means(*(np.array(column) for column in zip(*parts, strict=True)))
    own = Means(own.mean, own.mean - own.lower, own.mean + own.upper)
    apart = own.apart_from(1)
    assert apart.mean[0] == own.mean[0] - own.mean[1]
    assert apart.lower[0] == own.lower[0] - own.upper[1]
    assert apart.upper[0] == own.upper[0] - own.lower[1]


# --------------------------------------------------------------------- results in a range


def blocks_of(values, lost=()):
    """Return results of one action from those of each block, and the lost pulls of each."""
    counts = np.array([[len(own)] for own in values], dtype=float)
    sums = np.array([[sum(own)] for own in values])
    squares = np.array([[sum(value * value for value in own)] for own in values])
    losses = np.zeros_like(counts)
    losses[: len(lost), 0] = lost
    return BlockResults(counts, losses, sums, squares, np.zeros_like(counts))


def slow_log_wealth(values, lost, mean, level):
    """Return the log wealth against means of at most `mean`, result by result; lost ones are 0."""
    first = next(len(own) + gone for own, gone in zip(values, lost, strict=True) if own or gone)
    logs = []
    for power in range(11):
        wanted, log, seen = math.sqrt(math.log(2 / level) / (2 * first * 4.0**power)), 0.0, [0.5]
        squares = [0.25]
        for own, gone in zip(values, lost, strict=True):
            guess = sum(seen) / len(seen)
            variance = sum(squares) / len(seen) - (guess - 0.5) ** 2
            stake = min(wanted / max(variance, 1e-9), 0.5)
            price = -math.log(1.0 - stake) - stake
            log += sum(stake * (y - mean) - price * (y - guess) ** 2 for y in [*own, *[0.0] * gone])
            seen, squares = seen + own, squares + [(y - 0.5) ** 2 for y in own]
        logs.append(log)
    for power in range(11):
        stake = 3.0 / 2.0**power
        one = math.log(1.0 - mean + mean * math.exp(stake))
        logs.append(
            sum(
                stake * y - one
                for own, gone in zip(values, lost, strict=True)
                for y in [*own, *[0.0] * gone]
            )
        )
    return float(np.logaddexp.reduce(logs)) - math.log(22)


KINDS = {
    "0 or 1": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "nearly equal": lambda rng, n: 0.6 + 0.01 * rng.random(n),
    "all the same": lambda rng, n: np.full(n, 0.25),
    "rare and large": lambda rng, n: np.where(rng.random(n) < 0.05, rng.random(n), 0.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loses", [False, True])
def test_ends_are_the_first_means_on_a_grid_that_single_results_do_not_reject(kind, loses):
    rng, level, steps = np.random.default_rng(5), 0.1, effort.runs(500, whole=2_000)
    values = [KINDS[kind](rng, int(n)).tolist() for n in rng.integers(1, 12, 12)]
    values[3] = []
    lost = rng.integers(0, 3, 12).tolist() if loses else [0] * 12
    found = means_in_range(blocks_of(values, lost), 0.0, 1.0, level)
    grid, needed = np.linspace(0.0, 1.0, steps + 1), math.log(2.0 / level)
    lower = next(m for m in grid if slow_log_wealth(values, lost, m, level) < needed)
    turned = [[1.0 - value for value in own] for own in values]
    upper = 1.0 - next(m for m in grid if slow_log_wealth(turned, lost, m, level) < needed)
    assert lower - 1.0 / steps <= found.lower[0] <= lower + 1e-8
    assert upper - 1e-8 <= found.upper[0] <= upper + 1.0 / steps
    told = np.concatenate([np.array(own) for own in values])
    assert found.mean[0] == pytest.approx(told.mean())


@given(st.integers(0, 2**32), st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_no_value_of_a_lost_result_of_the_last_block_moves_an_end_inwards(seed, hidden):
    rng = np.random.default_rng(seed)
    values = [rng.random(n).tolist() for n in (6, 4, 9, 3)]
    wide = means_in_range(blocks_of(values, [0, 0, 0, 3]), 0.0, 1.0, 0.2)
    values[3] = [*values[3], *hidden]
    narrow = means_in_range(blocks_of(values), 0.0, 1.0, 0.2)
    assert wide.lower[0] <= narrow.lower[0] + 1e-8
    assert narrow.upper[0] <= wide.upper[0] + 1e-8


@pytest.mark.parametrize("unit", [1e-140, 1e-3, 1e140])
@pytest.mark.parametrize("origin", [0.0, -0.5, 100.0])
def test_a_change_of_units_changes_means_and_ends_by_as_much(unit, origin):
    rng = np.random.default_rng(2)
    plain = blocks_of([rng.random(8).tolist() for _ in range(20)])
    low, high = unit * origin, unit * (origin + 1.0)
    scaled = BlockResults(
        plain.counts,
        plain.losses,
        unit * plain.sums,
        unit * (unit * plain.squares),
        np.full_like(plain.counts, low),
    )
    one, other = (
        means_in_range(plain, 0.0, 1.0, 0.1),
        means_in_range(scaled, low, high, 0.1),
    )
    for before, after in zip(one, other, strict=True):
        assert after[0] == pytest.approx(unit * (origin + before[0]), rel=1e-9)


def test_actions_are_independent_and_those_never_drawn_have_no_mean(monkeypatch):
    rng = np.random.default_rng(3)
    own = [blocks_of([rng.random(n).tolist() for n in row]) for row in ((3, 0, 9), (0, 2, 4))]
    nothing = blocks_of([[], [], []])
    together = BlockResults(
        *(
            np.hstack([getattr(one, name) for one in (*own, nothing)])
            for name in ("counts", "losses", "sums", "squares", "centres")
        )
    )
    monkeypatch.setattr(means, "_MOST_AT_ONCE", 40)  # one action after the other
    found = means_in_range(together, 0.0, 1.0, 0.1)
    for action, one in enumerate(own):
        alone = means_in_range(one, 0.0, 1.0, 0.1)
        assert found.at(action) == pytest.approx(alone.at(0))
    assert found.at(2) == (None, None, None)


def test_without_their_blocks_results_keep_half_of_the_capital_and_the_interval_is_wider():
    rng = np.random.default_rng(4)
    values = [(0.5 + 0.1 * rng.random(20)).tolist() for _ in range(10)]
    whole = blocks_of(values)
    total = Settled(*(getattr(whole, name).sum(axis=0) for name in ("counts", "sums", "losses")))
    narrow = BlockMeans(whole, (0.0, 1.0)).of_each(0.1)
    wide = total.in_range((0.0, 1.0)).of_each(0.1)
    assert wide.mean[0] == pytest.approx(narrow.mean[0])
    assert wide.lower[0] < narrow.lower[0] - 0.05
    assert narrow.upper[0] + 0.05 < wide.upper[0]
    # Halving the capital is the same as halving the error.
    together = blocks_of([[value for own in values for value in own]])
    bets = means._Bets.fixed(together)
    assert wide.lower[0] == pytest.approx(bets.least_not_rejected(0.1)[0])
    stakes = 3.0 / 2.0 ** np.arange(11)
    rise = np.expm1(stakes) * wide.lower[0]
    logs = stakes * whole.sums.sum() - 200 * np.log1p(rise) - math.log(22)
    assert np.logaddexp.reduce(logs) == pytest.approx(math.log(2.0 / 0.1), abs=1e-6)
    assert total.in_range((0.0, 1.0))(np.array([0.5]), level=0.1) is None


def test_few_results_have_a_narrower_interval_than_half_of_the_range_gives():
    """So nobody needs a choice between two intervals, of which each could be wrong once."""
    rng = np.random.default_rng(6)
    for pulls in (10, 30, 100, 1_000):
        for chance in (0.5, 0.1, 0.01):
            values = [(rng.random(10) < chance).astype(float).tolist() for _ in range(pulls // 10)]
            found = means_in_range(blocks_of(values), 0.0, 1.0, 0.05)
            half = NormalMixture().radius(pulls, 0.05, 0.5)
            mean = found.mean[0]
            usual = min(1.0, mean + half) - max(0.0, mean - half)
            assert found.upper[0] - found.lower[0] < 1.03 * usual


@pytest.mark.parametrize("chance", [0.5, 0.04])
def test_intervals_rarely_ever_miss_however_counts_depend_on_earlier_results(chance):
    """A block is larger after good results, which makes plain means too small."""
    runs, missed, level = effort.runs(30, whole=1_000), 0, 0.2
    for seed in range(runs):
        rng, values, ever = np.random.default_rng(seed), [], False
        while sum(map(len, values)) < 300:
            size = 30 if values and np.mean(values[-1]) > chance else 5
            values.append((rng.random(size) < chance).astype(float).tolist())
            found = means_in_range(blocks_of(values), 0.0, 1.0, level)
            ever |= not found.lower[0] <= chance <= found.upper[0]
        missed += ever
    assert missed / runs <= effort.tolerated(level, runs)


def test_without_blocks_a_sum_has_the_intervals_of_its_means_only_if_it_never_had_blocks():
    totals = Settled(np.array([90.0, 60.0]), np.array([30.0, 6.0]), np.array([10.0, 0.0]))
    target, level = np.array([0.75, -0.25]), 0.1
    assert totals.in_range((0.0, 1.0))(target, level=level) is None
    found = totals.in_range((0.0, 1.0), combines=True)(target, level=level)
    single = totals.in_range((0.0, 1.0)).of_each(level / 2)
    assert found.lower == pytest.approx(0.75 * single.lower[0] - 0.25 * single.upper[1])
    assert found.upper == pytest.approx(0.75 * single.upper[0] - 0.25 * single.lower[1])
    assert found.estimate == pytest.approx(0.75 / 3 - 0.25 / 10)


def test_guesses_are_those_of_what_was_known_when_a_block_began():
    """So a value that comes late changes its own block, and no bet on a later one."""
    rng = np.random.default_rng(7)
    values = [rng.random(8).tolist() for _ in range(6)]
    now = blocks_of(values)
    number, sums, squares = (
        np.cumsum(part, axis=0) - part for part in (now.counts, now.sums, now.squares)
    )
    frozen = replace(now, earlier=np.stack([number, sums, squares]))
    plain = means_in_range(now, 0.0, 1.0, 0.1)
    assert means_in_range(frozen, 0.0, 1.0, 0.1).at(0) == pytest.approx(plain.at(0))
    values[0] = [*values[0], 0.9]
    late = blocks_of(values)
    found = means_in_range(replace(late, earlier=frozen.earlier), 0.0, 1.0, 0.1)
    assert found.lower[0] != pytest.approx(means_in_range(late, 0.0, 1.0, 0.1).lower[0], abs=1e-9)
