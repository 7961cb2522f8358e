"""Intervals of values of linear arms in a range, against a slow reading of their definition."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fairtrial import analyse
from fairtrial.linear import BlockBetting, Problem
from fairtrial.linear.policies import values
from fairtrial.linear.policies.values import LinearResults, values_in_range
from fairtrial.study.replica import Replica
from tests import effort

SIZES = 11


def price(bet):
    """Return what a bet pays for each squared distance of a result from its guess."""
    size = abs(bet)
    return size**2 / 2 + size**3 / 3 + 16 * (math.log(2) - 2 / 3) * size**4


def test_the_price_of_a_bet_is_at_least_that_of_the_theorem_and_equal_for_the_largest():
    sizes = np.linspace(1e-3, 0.5, 500)
    needed = -np.log1p(-sizes) - sizes
    prices = np.array(list(map(price, sizes)))
    assert (prices >= needed * (1 - 1e-9)).all()
    assert prices[-1] == pytest.approx(needed[-1], rel=1e-12)
    assert (prices <= 1.02 * needed).all()


def pulls_of(results, block):
    """Yield arm, result minus prediction and guess minus prediction; a lost result is None."""
    for arm in range(len(results.arms)):
        number, lost = int(results.counts[block, arm]), int(results.losses[block, arm])
        low = results.low - results.arms[arm] @ results.predictions[block]
        guess = min(max(0.0, low), low + 1.0)
        for off in own_results(results, block, arm, number):
            yield arm, off, guess
        for _ in range(lost):
            yield arm, None, guess


def own_results(results, block, arm, number):
    """Return results with the given sum and sum of squares."""
    if number < 2:
        return [results.sums[block, arm]] * number
    mean = results.sums[block, arm] / number
    left = max(0.0, results.squares[block, arm] - number * mean**2)
    step = math.sqrt(left / 2)
    return [mean - step, mean + step] + [mean] * (number - 2)


def slow_variance(results, block, arm):
    number, squares = results.known[:, block]
    together = (squares.sum() + 0.25) / (number.sum() + 1)
    return min(0.25, max(1e-9, (squares[arm] + 10 * together) / (number[arm] + 10)))


def slow_lower_end(results, target, spare, level):
    """Return the lower end by bisection on the wealth, pull by pull; minus infinity for none."""
    logs, staked, first, least = np.zeros(SIZES), np.zeros(SIZES), None, -math.inf
    constant = np.linalg.lstsq(results.arms, np.ones(len(results.arms)), rcond=None)[0]
    for block in range(len(results.counts)):
        pulls = list(pulls_of(results, block))
        matrix = sum((np.outer(results.arms[arm], results.arms[arm]) for arm, _, _ in pulls), 0.0)
        if not pulls:
            continue
        solution = np.linalg.lstsq(matrix, target, rcond=1e-9)[0]
        if np.linalg.norm(matrix @ solution - target) > 1e-9 * np.linalg.norm(target):
            continue
        weights = [results.arms[arm] @ solution for arm, _, _ in pulls]
        if first is None:
            first = sum(weight**2 for weight in weights) / 4
        variance = sum(
            weight**2 * slow_variance(results, block, arm)
            for weight, (arm, _, _) in zip(weights, pulls, strict=True)
        )
        start = target @ results.predictions[block] + results.shift * (target @ constant)
        start -= spare + sum(
            abs(weight) * results.deviations[arm]
            for weight, (arm, _, _) in zip(weights, pulls, strict=True)
        )
        lows = [results.low - results.arms[arm] @ results.predictions[block] for arm, _, _ in pulls]
        worst = [low + (weight < 0) for low, weight in zip(lows, weights, strict=True)]
        least = max(least, start + sum(w * end for w, end in zip(weights, worst, strict=True)))
        for size in range(SIZES):
            wanted = math.sqrt(2 * math.log(2 / level) * first / 4.0**size) / variance
            bet = min(wanted, 0.5 / max(map(abs, weights)))
            logs[size] += bet * start
            staked[size] += bet
            for weight, end, (_, off, guess) in zip(weights, worst, pulls, strict=True):
                known = end if off is None else off
                logs[size] += bet * weight * known - price(bet * weight) * (known - guess) ** 2
    if first is None:
        return -math.inf

    def wealth(value):
        own = logs - value * staked
        return own.max() + math.log(np.exp(own - own.max()).mean())

    low, high = least, least + 1e6
    if wealth(low) < math.log(2 / level):
        return least
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if wealth(middle) > math.log(2 / level) else (low, middle)
    return low


def slow_ends(results, target, spare, level):
    own = slow_lower_end(results, target, spare, level)
    mirrored = replace(
        results,
        sums=-results.sums,
        predictions=-results.predictions,
        low=-results.low - 1.0,
        shift=-results.shift,
    )
    return own, -slow_lower_end(mirrored, target, spare, level)


def random_results(rng, *, shift=0.0, loses=True, deviation=0.0):
    rank, number, blocks = int(rng.integers(1, 4)), int(rng.integers(2, 7)), int(rng.integers(1, 6))
    arms = rng.normal(size=(max(number, rank), rank))
    if shift:
        arms[:, 0] = 2.0
    low = float(rng.normal())
    counts = rng.integers(0, 4, (blocks, len(arms))).astype(float)
    losses = rng.integers(0, 3, counts.shape) * float(loses)
    predictions = 0.3 * rng.normal(size=(blocks, rank))
    centres = predictions @ arms.T
    sums, squares = np.zeros_like(counts), np.zeros_like(counts)
    for place in np.ndindex(*counts.shape):
        off = low + rng.random(int(counts[place])) - centres[place]
        sums[place], squares[place] = off.sum(), (off**2).sum()
    known = np.cumsum(rng.integers(0, 30, (2, *counts.shape)), axis=1) * [[[1.0]], [[0.04]]]
    deviations = np.full(len(arms), deviation)
    fields = counts, losses, sums, squares, predictions, known, deviations, low, shift
    return LinearResults(arms, *fields, 1.0)


@pytest.mark.parametrize("kind", ["plain", "shifted", "without losses", "misspecified"])
@pytest.mark.parametrize("at_once", [1, 2_000_000])
def test_ends_are_those_of_the_definition(kind, at_once, monkeypatch):
    monkeypatch.setattr(values, "_MOST_AT_ONCE", at_once)
    rng = np.random.default_rng(len(kind))
    for _ in range(effort.runs(10, whole=25)):
        results = random_results(
            rng,
            shift=3.0 * (kind == "shifted"),
            loses=kind != "without losses",
            deviation=0.05 * (kind == "misspecified"),
        )
        spare = 0.1 * (kind == "misspecified")
        targets = np.concatenate([results.arms, rng.normal(size=(2, results.arms.shape[1]))])
        lower, upper = values_in_range(results, targets, spare, 0.07)
        for target, *found in zip(targets, lower, upper, strict=True):
            wanted = sorted(slow_ends(results, target, spare, 0.07))
            assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("size", [1e-160, 1e-3, 1.0, 1e160])
def test_ends_are_proportional_to_the_direction_and_to_the_range(size):
    rng = np.random.default_rng(3)
    results = random_results(rng)
    plain = np.array(values_in_range(results, results.arms, 0.0, 0.05))
    longer = np.array(values_in_range(results, size * results.arms, 0.0, 0.05))
    wider = np.array(values_in_range(replace(results, width=size), results.arms, 0.0, 0.05))
    assert longer / size == pytest.approx(plain, rel=1e-6)
    assert wider / size == pytest.approx(plain, rel=1e-6)


def test_a_direction_that_no_block_measures_has_no_ends_and_none_without_length_is_known():
    results = random_results(np.random.default_rng(0))
    apart = np.zeros((len(results.arms), 1))
    arms = np.hstack([results.arms, apart])
    rows = np.hstack([results.predictions, np.zeros((len(results.counts), 1))])
    wide = replace(results, arms=arms, predictions=rows)
    targets = np.eye(arms.shape[1])[-1:] * [[1.0], [0.0]]
    lower, upper = values_in_range(wide, targets, 0.25, 0.05)
    assert lower.tolist() == [-math.inf, -0.25]
    assert upper.tolist() == [math.inf, 0.25]


def test_no_value_of_a_lost_result_moves_an_end_inwards():
    rng = np.random.default_rng(5)
    for _ in range(150):
        lossy = random_results(rng)
        if not lossy.losses.any():
            continue
        wide = values_in_range(lossy, lossy.arms, 0.0, 0.1)
        at = tuple(rng.choice(np.argwhere(lossy.losses > 0.0)))
        off = lossy.low + rng.random() - lossy.arms[at[1]] @ lossy.predictions[at[0]]
        one = np.zeros_like(lossy.counts)
        one[at] = 1.0
        known = replace(
            lossy,
            counts=lossy.counts + one,
            losses=lossy.losses - one,
            sums=lossy.sums + one * off,
            squares=lossy.squares + one * off**2,
        )
        narrow = values_in_range(known, lossy.arms, 0.0, 0.1)
        assert (wide[0] <= narrow[0] + 1e-7).all()
        assert (wide[1] >= narrow[1] - 1e-7).all()


@pytest.mark.parametrize(("rate", "lost"), effort.pairs([0.04, 0.3], [0.3, 0.0]))
def test_ends_rarely_ever_miss_however_blocks_depend_on_earlier_results(rate, lost):
    """Counts follow the leader, zeros get lost, and the last results of a block come a block late.

    When a block is planned, all that is known has a bias: the worst values of an adversary.
    """
    arms = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]])
    targets = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 2.0]])
    true = targets @ [rate, 0.05]
    level, rng, runs = 0.3, np.random.default_rng(8), effort.runs(50, whole=3_000)
    missed = np.zeros(3)
    for _ in range(runs):
        ever = np.zeros(3, dtype=bool)
        blocks, sums, known = [], np.zeros(3), np.zeros((2, 3))
        for _ in range(12):
            mean = (sums + 0.5) / (known[0] + 1.0)
            prediction = np.linalg.lstsq(arms, mean, rcond=None)[0]
            counts = np.full(3, 2.0)
            counts[mean.argmax()] += 6.0
            values = [
                rng.random(int(n)) < arm @ [rate, 0.05] for n, arm in zip(counts, arms, strict=True)
            ]
            gone = [~own & (rng.random(own.size) < lost) for own in values]
            off = [
                own[~out] - arm @ prediction
                for own, out, arm in zip(values, gone, arms, strict=True)
            ]
            losses = np.array([out.sum() for out in gone])
            moments = [(one.sum(), (one**2).sum()) for one in off]
            blocks.append(
                (counts - losses, losses, *np.transpose(moments), prediction, known.copy())
            )
            # Only the largest result of every arm is known before the next block.
            for arm, own in enumerate(values):
                known[:, arm] += 1.0, (own.max() - arms[arm] @ prediction) ** 2
                sums[arm] += own.max()
            *parts, seen = (np.array(part) for part in zip(*blocks, strict=True))
            seen = np.moveaxis(seen, 1, 0)
            results = LinearResults(arms, *parts, seen, np.zeros(3), 0.0, 0.0, 1.0)
            lower, upper = values_in_range(results, targets, 0.0, level)
            ever |= (lower > true) | (upper < true)
        missed += ever
    assert (missed / runs <= effort.tolerated(level, runs)).all()


# ---------------------------------------------------------------------------- a policy's blocks

FEATURES = [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.5, 1.0, 0.5], [1.0, 0.3, -0.4]]


class Watched:
    """A study whose results come in any order; it keeps what was known when blocks were planned."""

    def __init__(self, problem, seed, *, restores=False):
        self.policy = BlockBetting(problem, delta=0.1, seed=seed, batch=8)
        self.rng, self.waiting, self.restores = np.random.default_rng(seed), [], restores
        self.results = {}
        """By block: arm and value of every result that is known now."""
        self.predictions, self.known = [], []

    @property
    def live(self):
        return self.policy._blocks

    def step(self, sample, order, loss=0.0):
        if self.restores:
            state = self.policy.get_state()
            fresh = BlockBetting(self.policy.problem, delta=0.1, seed=0, batch=8)
            fresh.set_state(state)
            self.policy = fresh
        while len(self.waiting) < 30 and not self.policy.stopped:
            self.ask(sample)
        pull, value = self.waiting.pop(order([value for _, value in self.waiting], self.rng))
        if self.rng.random() < loss:
            self.policy.fail(pull)
            return
        if pull.tag >= 0:
            self.results.setdefault(pull.tag, []).append((pull.action, self.unit(value)))
        self.policy.tell(pull, value)

    def unit(self, value):
        """Return a value in the units of the kernels."""
        rules = self.policy._rules
        return self.policy._units.reward(0, value) - rules.shift

    def ask(self, sample):
        planned, settled = self.live.planned, len(self.live.paid)
        known = self.known_now(settled)
        (pull,) = self.policy.ask(1)
        self.waiting.append((pull, sample(self.rng, pull.action)))
        if self.live.planned > planned:
            slots = self.live.state.blocks.waiting.size
            self.predictions.append(self.live.state.prediction[planned % slots].copy())
            self.known.append(known)

    def known_now(self, settled):
        """Return numbers and sums of squares of the known results of settled blocks."""
        arms = self.policy._units.model.arms
        found = np.zeros((2, len(arms)))
        for block in range(settled):
            for arm, value in self.results.get(block, []):
                found[:, arm] += 1.0, (value - arms[arm] @ self.predictions[block]) ** 2
        return found


def largest_first(values, rng):
    return int(np.argmax(values))


def last_first(values, rng):
    return len(values) - 1 if rng.random() < 0.7 else int(rng.integers(len(values)))


@pytest.mark.parametrize(
    ("direction", "order", "restores"),
    [("maximize", largest_first, False), ("minimize", last_first, True)],
)
def test_bets_keep_what_was_known_when_their_block_was_planned(direction, order, restores):
    problem = Problem(FEATURES, reward_range=(5.0, 9.0), direction=direction)
    study = Watched(problem, 1, restores=restores)
    late = 0
    for _ in range(250):
        study.step(lambda rng, arm: float(rng.choice([5.0, 7.0, 9.0])), order, loss=0.05)
        late = max(late, len(study.live.overdue))
    found, paid = study.policy._standing.in_range(), len(study.live.paid)
    width = 2.0
    assert late > 0
    assert paid > 5
    assert np.allclose(found.predictions * width, study.predictions[:paid])
    known = np.stack(study.known[:paid], axis=1) * [[[1.0]], [[1.0 / width**2]]]
    assert np.allclose(found.known, known)
    assert found.known.any()
    moments = np.zeros((3, *found.counts.shape))
    for block in range(paid):
        for arm, value in study.results.get(block, []):
            off = value / width - found.arms[arm] @ found.predictions[block]
            moments[:, block, arm] += 1.0, off, off**2
    assert np.allclose(moments, [found.counts, found.sums, found.squares])
    assert found.losses.any()
    assert not np.allclose(found.known[:, -1], study.known_now(paid) * [[1], [1 / width**2]])


def test_a_late_result_of_an_earlier_block_moves_ends_by_its_own_bet_alone():
    """The bets of all later blocks stay, so only the terms of one block change."""
    study = Watched(Problem(FEATURES, reward_range=(0.0, 1.0)), 3)
    while len(study.live.paid) < 8 or not study.live.overdue.size:
        study.step(lambda rng, arm: float(rng.random() < 0.4), largest_first)
    before, overdue = study.policy._standing.in_range(), study.live.overdue[:, 0]
    place = next(k for k, (pull, _) in enumerate(study.waiting) if pull.number in overdue)
    pull, value = study.waiting.pop(place)
    study.policy.tell(pull, value)
    after = study.policy._standing.in_range()
    paid = len(before.counts)
    assert np.array_equal(before.predictions, after.predictions[:paid])
    assert np.array_equal(before.known, after.known[:, :paid])
    rows = np.flatnonzero((before.counts != after.counts[:paid]).any(axis=1))
    assert rows.tolist() == [pull.tag]


def told(problem, pulls, sample, seed=0, **options):
    """Return a policy that was told this many results in order."""
    policy = BlockBetting(problem, delta=0.1, seed=seed, **options)
    rng = np.random.default_rng(seed)
    while policy.told < pulls and not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, sample(rng, pull.action))
    return policy


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_means_and_differences_hold_in_a_range_far_from_0_without_a_constant(direction):
    """The weights of a difference do not add up to 0 here."""
    features = [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]
    problem = Problem(features, reward_range=(10.0, 20.0), direction=direction, control="2")
    means = [14.0, 14.2, 0.7 * 28.2]

    def sample(rng, arm):
        return 10.0 + 10.0 * float(rng.random() < means[arm] / 10.0 - 1.0)

    progress = told(problem, 300, sample, batch=20).progress()
    for one, true in zip(progress.arms, means, strict=True):
        assert one.lower <= true <= one.upper
    for one in progress.effects:
        true = means[int(one.arm)] - means[2]
        assert one.lower <= true <= one.upper
        assert one.upper - one.lower < 10.0


@pytest.mark.parametrize("known", [{"reward_range": (0.0, 1.0)}, {"noise_std": 0.5}])
@pytest.mark.parametrize("candidates", [None, [[1.0, 1.0, 1.0], [1.0, 0.2, 0.0], [2.0, 0.0, 0.0]]])
def test_a_difference_is_that_of_the_means_beside_it(known, candidates):
    problem = Problem(FEATURES, candidates=candidates, control="1", **known)
    progress = told(problem, 400, lambda rng, arm: float(rng.random() < 0.4)).progress()
    means = {one.labels["arm"]: one.mean for one in progress.arms}
    assert progress.effects
    for one in progress.effects:
        apart = means[one.arm] - means["1"]
        assert one.difference == pytest.approx(min(max(apart, one.lower), one.upper), abs=1e-9)
    for one in progress.arms:
        assert one.lower <= one.mean <= one.upper


@pytest.mark.parametrize("size", [1e-160, 1e-9, 1e160])
def test_means_and_differences_are_in_the_units_of_the_range(size):
    def of(unit):
        problem = Problem(FEATURES, reward_range=(-unit, 3.0 * unit), control="0")

        def sample(rng, arm):
            return unit * (4.0 * float(rng.random() < 0.3) - 1.0)

        progress = told(problem, 200, sample).progress()
        found = [(one.mean, one.lower, one.upper) for one in progress.arms]
        found += [(one.difference, one.lower, one.upper) for one in progress.effects]
        return np.array(found) / unit

    assert of(size) == pytest.approx(of(1.0), rel=1e-6, abs=1e-9)


def test_all_intervals_share_the_level_one_for_each_different_row():
    arms = [[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
    plain = BlockBetting(Problem(arms, reward_range=(0, 1)))
    assert plain._findings._number_of_rows == 2
    more = Problem(
        arms, candidates=[[1.0, 2.0], [1.0, 3.0], [1.0, 3.0]], reward_range=(0, 1), floors=0.1
    )
    # Floors are on the values of candidates.
    assert BlockBetting(more)._findings._number_of_rows == 4


def test_if_blocks_are_dropped_intervals_are_those_of_the_ellipsoid_at_half_of_the_level(
    monkeypatch,
):
    problem = Problem(FEATURES, reward_range=(0.0, 1.0))

    def sample(rng, arm):
        return float(rng.random() < 0.04)

    whole = told(problem, 400, sample).progress()
    monkeypatch.setattr("fairtrial.confidence.block_betting.paid._MOST_NUMBERS", 0)
    dropped = told(problem, 400, sample)
    assert dropped._findings._level_of_kind == 0.05
    for one, other in zip(dropped.progress().arms, whole.arms, strict=True):
        assert one.mean == other.mean
        assert one.lower <= other.lower
        assert one.upper > other.upper
    assert all(one.lower is None for one in dropped.progress().effects)


def test_intervals_are_far_narrower_than_half_of_the_range_if_results_vary_little():
    problem = Problem([[1.0, 0.0], [1.0, 1.0]], reward_range=(0.0, 1.0))
    policy = told(problem, 1_500, lambda rng, arm: float(rng.random() < 0.04))
    for one in policy.progress().arms:
        assert one.lower <= 0.04 <= one.upper
        assert one.upper - one.lower < 0.075  # with half of the range: .12
    # Half of the error is shared by two intervals.
    rows, blocks = policy.problem.reduced.arms, policy._standing.in_range()
    lower, upper = 0.5 * np.array(values_in_range(blocks, rows, 0.0, 0.1 / 2 / 2))
    for place, one in enumerate(policy.progress().arms):
        assert (one.lower, one.upper) == pytest.approx((lower[place], upper[place]))


@pytest.mark.parametrize(
    ("range_", "last"),
    [((0.0, 1.0), 0.8), ((-160.0, -150.0), 0.8), ((0.0, 1.0), 0.9), ((10.0, 20.0), 0.9)],
)
def test_in_an_analysis_all_units_count_and_those_outside_of_blocks_are_two_more(range_, last):
    """With the feature .8 a sum of features is constant, and with .9 none is."""
    low, high = range_
    problem = Problem(
        [[0.5, 0.0], [0.0, 2.0], [0.3, last]], arms=["a", "b", "c"], reward_range=range_
    )
    rng = np.random.default_rng(2)
    arms = rng.integers(0, 3, 900)
    values = np.where(rng.random(900) < 0.6, low, high)
    blank = rng.random(900) < 0.05
    table = {
        "arm": [problem.arms[arm] for arm in arms],
        "outcome": [None if gone else value for gone, value in zip(blank, values, strict=True)],
    }
    with analyse(problem, table, 0.1, order="as given") as study:
        replica = Replica(study._session.build())
        replica.replay(study._store.steps(study._session.id))
        policy, progress = replica.policy, study.progress()
    found = policy._in_range
    assert len(found.counts) == len(policy._blocks.paid) + 2
    assert found.counts.sum(axis=0).tolist() == np.bincount(arms[~blank]).tolist()
    assert found.drawn.sum(axis=0).tolist() == np.bincount(arms).tolist()
    centres = (found.predictions @ found.arms.T + found.shift) * found.width
    sums = (found.sums * found.width + found.counts * centres).sum(axis=0)
    unit = policy._units.factors[0]
    own = [unit * values[(arms == arm) & ~blank].sum() for arm in range(3)]
    assert sums == pytest.approx(own)
    squares = found.squares * found.width**2 + 2 * centres * found.sums * found.width
    squares += found.counts * centres**2
    own = [unit**2 * (values[(arms == arm) & ~blank] ** 2).sum() for arm in range(3)]
    assert squares.sum(axis=0) == pytest.approx(own)
    for one in progress.arms:
        assert one.lower <= one.mean <= one.upper


def test_a_fitted_mean_outside_of_the_range_is_shown_in_its_interval():
    features = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]
    problem = Problem(features, reward_range=(0.0, 1.0))
    progress = told(problem, 60, lambda rng, arm: float(arm == 3), batch=20).progress()
    assert progress.arms[0].mean == progress.arms[0].lower == 0.0
