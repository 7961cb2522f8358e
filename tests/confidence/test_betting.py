"""The bets of block betting: reference values, lemmas and properties."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.confidence.block_betting import bets
from fairtrial.confidence.block_betting.bets import (
    CAP,
    GRID,
    RESULTS_PER_LOG,
    bet_weights,
    bounded_stakes,
    flush_products,
    log_mixture,
    multiply_factor,
)
from fairtrial.subpopulations import BlockBetting, Problem
from tests import effort
from tests.subpopulations import slow_blocks
from tests.subpopulations.block_views import ledgers_of, planned_in

REFERENCE_BETS = [
    ((0, 0.1, 1), 0.0134095772),
    ((1, 0.1, 1), 0.0132050487),
    ((3, 0.5, 2), 0.6600798247),
    ((-1, 0.05, 4), 0.0258830199),
    ((6, 0.04, 5), 0.4590261639),
    ((12, 0.3, 12), 21.4111789638),
]
QUADRATURE = [(-2, 0.1), (0, 0.05), (0, 3), (1, 0.1), (3, 0.5), (6, 0.04), (12, 0.3)]

# draws, estimated mean, earlier draws, estimated variance, floor, log W
REFERENCE_CELLS = [
    ((1, 0, 1, 1), 0.6, 20, 0.24, 0.5, 0.2130615836),
    ((0, 0, 0, 1, 0), 0.05, 100, 0.0475, 0.035, 0.1761434340),
    ((0.9, 0.8, 0.7, 0.95), 0.8, 10, 0.02, 0.5, 0.9486478211),
]

estimates = st.floats(-40, 60)
precisions = st.floats(1e-6, 1e3)
block_estimates = st.floats(-40, 60)


class Bet:
    """A bounded bet from the compiled functions alone: W = mixture of products."""

    def __init__(self, n, a, c, m, v, N, constant=0.0, low=0.0, high=1.0):
        n, a, c, m, v, N = (np.array(x, dtype=float) for x in (n, a, c, m, v, N))
        self.coefficients, self.centres = a, c
        deviation = math.sqrt(((n * a) ** 2 * v / N).sum())
        variance = (n * a**2 * (v + (m - c) ** 2)).sum()
        ruin = np.where(a > 0, a * (c - low), a * (c - high)).max()
        effect = (n * a * m).sum() + constant
        self.thetas, self.stakes = np.empty(GRID), np.empty(GRID)
        self.cash = bounded_stakes(
            effect / deviation, deviation, variance, ruin, self.thetas, self.stakes
        )
        self.start = self.thetas * ((n * a * c).sum() + constant)

    def step(self, cell, x):
        return self.coefficients[cell] * (x - self.centres[cell])

    def worst(self, cell):
        return 0.0 if self.coefficients[cell] > 0 else 1.0

    def log_wealth(self, draws):
        """Return log W after draws (cell, value) in any order."""
        logs, products = self.start.copy(), np.ones(GRID)
        for i, (cell, x) in enumerate(draws, start=1):
            multiply_factor(self.thetas, products, self.step(cell, x))
            if i % RESULTS_PER_LOG == 0:
                flush_products(products, logs)
        flush_products(products, logs)
        return log_mixture(self.cash, self.stakes, logs)


def random_bet(rng):
    """Return a pair bet on two cells of coins, with a centre up to .01 from its null's border."""
    n = rng.integers(1, 7, 2)
    scale = math.exp(rng.uniform(-3, 3))
    # T(mu) = p_0 - p_1 up to scale: the effects per cell are equal and opposite.
    a = scale * np.array([1.0, -1.0]) / n
    N = rng.integers(5, 80, 2)
    m, v = rng.uniform(0.02, 0.98, 2), rng.uniform(0.01, 0.25, 2)
    centre = rng.uniform(0.03, 0.97)
    c = np.array([centre, centre]) + rng.uniform(-0.01, 0.01, 2)
    return n, Bet(n, a, c, m, v, N)


def binomial(n, p):
    return [math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(n + 1)]


def wealth_by_successes(n, bet):
    """Return W for all numbers of successes in the two cells."""
    wealth = np.empty((n[0] + 1, n[1] + 1))
    for i, j in itertools.product(range(n[0] + 1), range(n[1] + 1)):
        draws = [(0, float(x < i)) for x in range(n[0])] + [(1, float(x < j)) for x in range(n[1])]
        wealth[i, j] = math.exp(bet.log_wealth(draws))
    return wealth


def expected(wealth, n, p):
    return np.array(binomial(n[0], p[0])) @ wealth @ np.array(binomial(n[1], p[1]))


def log_bet(m, f, e):
    return bets.log_bet(m, f, e, np.empty(GRID))


def null_points(rng, number=40):
    """Return points with p_0 <= p_1, on the border and inside, including extremes."""
    border = [(p, p) for p in np.linspace(0, 1, 21)]
    inside = [tuple(np.sort(rng.uniform(0, 1, 2))) for _ in range(number)]
    return [*border, *inside, (0.0, 1.0), (0.0, 0.5), (0.5, 1.0)]


class TestGaussianBet:
    @pytest.mark.parametrize(("arguments", "value"), REFERENCE_BETS)
    def test_reference_values(self, arguments, value):
        assert log_bet(*map(float, arguments)) == pytest.approx(value, abs=1e-9)

    @pytest.mark.parametrize(("m", "f"), QUADRATURE)
    def test_mean_is_one_on_the_border_of_the_null_and_less_inside(self, m, f):
        nodes, weights = np.polynomial.hermite.hermgauss(180)

        def mean(u):
            values = [math.exp(log_bet(m, f, u + math.sqrt(2 / f) * x)) for x in nodes]
            return weights @ values / math.sqrt(math.pi)

        assert mean(0.0) == pytest.approx(1.0, abs=1e-10)
        inside = [mean(u) for u in (-0.1, -0.5, -1.0, -3.0)]
        assert all(later < earlier for earlier, later in itertools.pairwise([1.0, *inside]))
        assert 0.170 < inside[1] < 0.9985

    @given(estimates, precisions, block_estimates)
    def test_agrees_with_the_plain_formula(self, m, f, e):
        assert log_bet(m, f, e) == pytest.approx(slow_blocks.log_bet(m, f, e), abs=1e-9, rel=1e-9)

    @given(estimates, precisions, block_estimates, st.floats(0, 10))
    def test_a_better_block_never_pays_less(self, m, f, e, more):
        assert log_bet(m, f, e + more) >= log_bet(m, f, e) - 1e-9

    @given(estimates, precisions, block_estimates)
    def test_no_block_loses_the_cash(self, m, f, e):
        cash = bet_weights(m, np.empty(GRID), np.empty(GRID))
        assert log_bet(m, f, e) >= (math.log(cash) - 1e-12 if cash > 0 else -math.inf)

    @given(st.floats(-1e8, 1e8), st.floats(1e-12, 1e12), st.floats(-1e8, 1e8))
    def test_is_a_number_however_wild_the_estimates(self, m, f, e):
        assert not math.isnan(log_bet(m, f, e))
        assert log_bet(m, f, e) < math.inf

    @given(st.floats(-1e6, 1e6))
    def test_stakes_and_cash_sum_to_one_and_bet_on_positive_effects(self, m):
        points, stakes = np.empty(GRID), np.empty(GRID)
        cash = bet_weights(m, points, stakes)
        assert cash + stakes.sum() == pytest.approx(1.0, abs=1e-12)
        assert cash >= 0
        assert (stakes >= 0).all()
        assert (points > 0).all()

    @given(st.floats(-30, 30))
    def test_stakes_agree_with_the_plain_formula(self, m):
        points, stakes = np.empty(GRID), np.empty(GRID)
        cash = bet_weights(m, points, stakes)
        slow_points, slow_stakes, slow_cash = slow_blocks.grid(m)
        np.testing.assert_allclose(points, slow_points, rtol=1e-12)
        np.testing.assert_allclose(stakes, slow_stakes, rtol=1e-11, atol=1e-300)
        assert cash == pytest.approx(slow_cash, rel=1e-11, abs=1e-300)

    def test_a_doubtful_effect_keeps_cash_and_a_clear_one_keeps_none(self):
        row = np.empty(GRID)
        assert bet_weights(-20.0, row, np.empty(GRID)) > 0.999
        assert 0.3 < bet_weights(0.0, row, np.empty(GRID)) < 0.7
        assert bet_weights(4.0 * math.sqrt(1.5), row, np.empty(GRID)) == 0.0


class TestBoundedBet:
    @pytest.mark.parametrize(("draws", "m", "N", "v", "floor", "value"), REFERENCE_CELLS)
    def test_reference_values_of_one_cell(self, draws, m, N, v, floor, value):
        n = len(draws)
        bet = Bet([n], [1 / v], [floor], [m], [v], [N], constant=-n * floor / v)
        assert bet.log_wealth([(0, x) for x in draws]) == pytest.approx(value, abs=1e-9)

    @pytest.mark.parametrize(("draws", "m", "N", "v", "floor", "value"), REFERENCE_CELLS)
    def test_reference_values_through_the_policy(self, draws, m, N, v, floor, value):
        problem = Problem(1, 1, floors=floor, reward_range=(0, 1))
        policy = BlockBetting(problem, initial_pulls=1, batch=len(draws))
        policy.tell(policy.ask(), 1.0)
        state = policy._blocks.state
        state.counts[0, 0], state.sums[0, 0] = N, N * m
        # Squares such that the shrunk variance (SS - S^2/N + 2/4)/(N + 2) equals v.
        state.squares[0, 0] = v * (N + 2) - 0.5 + N * m**2
        for x in draws:
            policy.tell(policy.ask(), x)
        assert ledgers_of(policy).limits[0, 0, 0] == pytest.approx(value, abs=1e-9)

    def test_reference_value_of_a_pair(self):
        bet = Bet([4, 5], [1 / 4, -1 / 5], [0.45, 0.45], [0.5, 0.4], [0.25, 0.24], [30, 30])
        draws = [(0, x) for x in (1, 1, 0, 1)] + [(1, x) for x in (0, 1, 0, 0, 0)]
        assert bet.log_wealth(draws) == pytest.approx(0.3882454042, abs=1e-9)

    @given(st.floats(-10, 30), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(-1.0, 1e3))
    def test_no_draw_takes_more_than_the_cap(self, m, deviation, variance, ruin):
        thetas = np.empty(GRID)
        bounded_stakes(m, deviation, variance, ruin, thetas, np.empty(GRID))
        assert (thetas > 0).all()
        assert (thetas * max(ruin, 0.0) <= CAP * (1 + 1e-12)).all()

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.randoms())
    def test_the_order_of_draws_does_not_matter(self, values, random):
        bet = Bet([len(values)], [4.0], [0.45], [0.6], [0.24], [20])
        draws = [(0, x) for x in values]
        before = bet.log_wealth(draws)
        random.shuffle(draws)
        assert bet.log_wealth(draws) == pytest.approx(before, abs=1e-11)

    def test_a_long_block_neither_overflows_nor_underflows(self):
        bet = Bet([10_000], [4.0], [0.5], [0.6], [0.24], [2000])
        for x in (0.0, 1.0):
            got = bet.log_wealth([(0, x)] * 10_000)
            factors = 10_000 * np.log1p(bet.thetas * 4.0 * (x - 0.5)) + bet.start
            terms = [math.log(s) + g for s, g in zip(bet.stakes, factors, strict=True) if s > 0]
            terms += [math.log(bet.cash)] if bet.cash > 0 else []
            assert got == pytest.approx(slow_blocks.log_sum_exp(terms), rel=1e-9)

    @given(st.integers(0, 10**6))
    def test_agrees_with_the_product_of_all_factors(self, seed):
        rng = np.random.default_rng(seed)
        n, bet = random_bet(rng)
        draws = [(cell, float(x)) for cell in (0, 1) for x in rng.random(n[cell])]
        slow = slow_blocks.BoundedBet(
            coefficients=dict(enumerate(bet.coefficients)),
            centres=dict(enumerate(bet.centres)),
            thetas=list(bet.thetas),
            weights=list(bet.stakes),
            cash=bet.cash,
            effect_at_centre=float((n * bet.coefficients * bet.centres).sum()),
        ).log_wealth({c: [x for cell, x in draws if cell == c] for c in (0, 1)})
        assert bet.log_wealth(draws) == pytest.approx(slow, abs=1e-11)


class TestBoundedLemma:
    """E[W] <= 1 at every point of the null, exactly: all outcomes are enumerated."""

    def test_pairs_of_coin_cells_with_a_centre_off_the_border(self):
        rng = np.random.default_rng(0)
        largest = 0.0
        for _ in range(effort.runs(100, whole=300)):
            n, bet = random_bet(rng)
            wealth = wealth_by_successes(n, bet)
            largest = max(largest, *(expected(wealth, n, p) for p in null_points(rng)))
        assert largest <= 1 + 1e-12
        assert largest > 0.99, "the bets were idle: nothing was tested"

    def test_a_point_outside_the_null_is_paid_for(self):
        rng = np.random.default_rng(1)
        n, bet = random_bet(rng)
        assert expected(wealth_by_successes(n, bet), n, (1.0, 0.0)) > 1

    def test_draws_lost_for_their_values_never_help(self):
        rng = np.random.default_rng(2)
        rules = {
            "every success of the first cell": lambda cell, x: cell == 0 and x == 1,
            "every failure of the first cell": lambda cell, x: cell == 0 and x == 0,
            "every success of the second cell": lambda cell, x: cell == 1 and x == 1,
            "every failure of the second cell": lambda cell, x: cell == 1 and x == 0,
            "all of one cell": lambda cell, x: cell == 0,
            "what would hurt": lambda cell, x: (cell == 0) == (x == 0),
        }
        for _ in range(20):
            n, bet = random_bet(rng)
            for loses in rules.values():
                wealth = np.empty((n[0] + 1, n[1] + 1))
                for i, j in itertools.product(range(n[0] + 1), range(n[1] + 1)):
                    draws = [(0, float(x < i)) for x in range(n[0])]
                    draws += [(1, float(x < j)) for x in range(n[1])]
                    told = [(c, bet.worst(c) if loses(c, x) else x) for c, x in draws]
                    wealth[i, j] = math.exp(bet.log_wealth(told))
                assert max(expected(wealth, n, p) for p in null_points(rng, 10)) <= 1 + 1e-12

    def test_two_ledgers_on_different_arms_against_an_adaptive_adversary(self):
        # The adversary sees all draws so far, and then chooses a coin or a constant with the right
        # mean; draws of both ledgers alternate. No such strategy makes the mean exceed 1.
        rng = np.random.default_rng(3)
        for _ in range(4):
            p = rng.uniform(0.2, 0.8, 2)
            n = [3, 3]
            first, second = (
                Bet([3], [sign / 0.2], [p[i]], [rng.uniform(0.1, 0.9)], [0.2], [15],
                    constant=-sign * 3 * p[i] / 0.2)
                for i, sign in enumerate((1.0, -1.0))
            )  # fmt: skip
            order = [i % 2 for i in range(sum(n))]

            def best_play(history, bets=(first, second), p=p, order=order):
                if len(history) == len(order):
                    return math.exp(
                        sum(
                            bet.log_wealth([(0, x) for cell, x in history if cell == i])
                            for i, bet in enumerate(bets)
                        )
                    )
                cell = order[len(history)]
                coin = p[cell] * best_play([*history, (cell, 1.0)])
                coin += (1 - p[cell]) * best_play([*history, (cell, 0.0)])
                return max(coin, best_play([*history, (cell, p[cell])]))

            assert best_play([]) <= 1 + 1e-12

    def test_blocks_as_the_policy_plans_them(self):
        """One block of a real policy with artificial data: the expected growth of every ledger."""
        rng = np.random.default_rng(4)
        # Two arms; the first leads. With floors there is a floor ledger, without floors a pair
        # ledger.
        largest = {"pairs": 0.0, "own": 0.0, "limits": 0.0}
        for floor in (None, None, 0.4, 0.4, 0.4, 0.4):
            problem = Problem(2, 1, floors=floor, reward_range=(0, 1))
            policy = BlockBetting(problem, initial_pulls=1, batch=int(rng.integers(5, 9)))
            for _ in range(2):
                policy.tell(policy.ask(), 1.0)
            made_up(policy._blocks.state, rng, low_second=floor is not None and rng.random() < 0.5)
            first = policy.ask()
            n = planned_in(policy, 1)[:, 0].astype(int)
            state = policy.get_state()
            growth = {}
            for i, j in itertools.product(range(n[0] + 1), range(n[1] + 1)):
                policy.set_state(state)
                growth[i, j] = play_block(policy, first, n, (i, j))
            for p in null_points(rng, 30):
                weights = {
                    outcome: binomial(n[0], p[0])[outcome[0]] * binomial(n[1], p[1])[outcome[1]]
                    for outcome in growth
                }
                nulls = {
                    "pairs": (floor is None or p[1] >= floor) and p[1] >= p[0],
                    "own": floor is not None and p[1] >= floor,
                    "limits": floor is not None and p[0] <= floor,
                }
                for name, holds in nulls.items():
                    if holds:
                        mean = sum(w * growth[o][name] for o, w in weights.items())
                        largest[name] = max(largest[name], mean)
                if nulls["own"] and nulls["limits"]:
                    mean = sum(
                        w * growth[o]["own"] * growth[o]["limits"] for o, w in weights.items()
                    )
                    assert mean <= 1 + 1e-12
        assert all(0.9 < mean <= 1 + 1e-12 for mean in largest.values()), largest


def made_up(state, rng, low_second):
    """Set data in which the first arm leads and the second may miss its floor."""
    means = np.array([0.75, 0.2 if low_second else 0.5]) + rng.uniform(-0.05, 0.05, 2)
    state.counts[:, 0] = rng.integers(20, 60, 2)
    state.sums[:, 0] = state.counts[:, 0] * means
    state.squares[:, 0] = state.sums[:, 0]


def play_block(policy, first, n, successes):
    """Tell one block with these numbers of successes; return the growth of each ledger."""
    left = {0: successes[0], 1: successes[1]}
    pulls = [first, *policy.ask(int(n.sum()) - 1)]
    for pull in pulls:
        policy.tell(pull, float(left[pull.action] > 0))
        left[pull.action] -= 1
    ledgers = ledgers_of(policy)
    return {
        "pairs": math.exp(ledgers.pairs[1, 0]),
        "own": math.exp(ledgers.own[1]),
        "limits": math.exp(ledgers.limits[0, 0, 0]),
    }
