"""Block betting on the best k with a planned end: aimed stakes, and bets on the target."""

import math

import numpy as np
import pytest

from benchmarks.top_sets import coins, normals, play_null
from fairtrial.core.run import run_policy
from fairtrial.delayed import BlockBetting, Problem, SimulatedEnvironment
from fairtrial.errors import InvalidArgument, NothingToAsk
from tests import effort
from tests.delayed.slow_sets import SlowSets
from tests.messages import raises

END = {"max_pulls": 200, "planned_end": True}
COINS = Problem(["a", "b", "c"], reward_range=(0, 1))
NORMAL = Problem(["a", "b", "c"], noise_std=1.0)


# ------------------------------------------------------------------- compared with the twin


class Twins:
    """A policy and its slow twin: same input, compared whenever a block is planned or paid."""

    def __init__(self, problem, **options):
        self.policy = BlockBetting(problem, **options, seed=0)
        # The twin waits for all outcomes.
        self.policy._blocks.has_worst_values = False
        self.slow = SlowSets(problem, self.policy.delta, options["max_pulls"])
        self.known = 0
        self.on_target = 0
        self.follow()

    @property
    def state(self):
        return self.policy._blocks.state

    def follow(self):
        """Follow the blocks that were opened; all outcomes so far came before them."""
        while self.known < self.policy._blocks.planned:
            slot = self.known % len(self.state.blocks.waiting)
            planned = self.state.blocks.planned[slot]
            counts = {arm: int(n) for arm, n in enumerate(planned) if n > 0}
            self.slow.open(counts)
            block = self.slow.blocks[-1]
            if self.known:
                inside = self.state.plans.inside[slot]
                assert set(np.flatnonzero(inside).tolist()) == block.target
                self.on_target += block.on_target is not None
            self.known += 1

    def ask(self):
        pulls = self.policy.ask(1)
        self.follow()
        self.slow.outside += sum(pull.tag == -1 for pull in pulls)
        return pulls

    def tell(self, pull, value):
        serial = max(pull.tag, -2 - pull.tag) if pull.tag != -1 else -1
        self.policy.tell(pull, value)
        self.slow.told[pull.action].append(value)
        if serial >= 0:
            self.slow.blocks[serial].outcomes.setdefault(pull.action, []).append(value)
        self.settle()

    def lose(self, pull):
        serial = max(pull.tag, -2 - pull.tag) if pull.tag != -1 else -1
        self.policy.fail(pull, "lost")
        if serial >= 0:
            lost = self.slow.blocks[serial].lost
            lost[pull.action] = lost.get(pull.action, 0) + 1
        self.settle()

    def settle(self):
        before = self.slow.paid
        self.slow.settle()
        assert self.state.blocks.first[0] == self.slow.paid
        if self.slow.paid > max(before, 1):
            self.compare()

    def compare(self):
        wealth, slow = self.state.wealth, self.slow
        target = set(np.flatnonzero(wealth.target > 0).tolist())
        answer = slow.answer()
        assert bool(self.state.finished[0]) == (answer is not None)
        if answer is not None:
            assert target == answer
            return
        pairs = [(j, b) for j in slow.arms for b in target if j not in target]
        if slow.tolerance:
            pairs, found = list(slow.pairs), slow.pairs
        else:
            found = {(j, b): slow.wealth[frozenset(target - {b} | {j})] for j, b in pairs}
            own = slow.wealth[frozenset(target)]
            expected = math.inf if frozenset(target) in slow.rejected else own
            assert wealth.own[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        for pair in pairs:
            key = pair if slow.tolerance else frozenset(target - {pair[1]} | {pair[0]})
            expected = math.inf if key in slow.rejected else found[pair]
            assert wealth.ledgers[pair] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def drive(twins, means, seed, lost=0.0, flight=1):
    rng, flying = np.random.default_rng(seed), []
    bounded = twins.policy.problem.reward_range is not None
    while not twins.policy.stopped:
        while len(flying) < flight and (pulls := twins.ask()):
            flying += pulls
        pull = flying.pop(int(rng.integers(len(flying))))
        mean = means[pull.action]
        coin = 0.9 * float(rng.random() < mean) + 0.1 * float(rng.random())  # so that none tie
        value = coin if bounded else float(rng.normal(mean))
        if rng.random() < lost:
            twins.lose(pull)
        else:
            twins.tell(pull, value)
    return twins


TWINS = {
    "coins": (COINS, [0.4, 0.5, 0.55]),
    "equal coins": (Problem(2, reward_range=(0, 1)), [0.5, 0.5]),
    "all but one": (Problem(3, top=2, reward_range=(0, 1)), [0.4, 0.45, 0.5]),
    "coins within a tolerance": (Problem(4, top=2, reward_range=(0, 1), tolerance=0.05), [0.5] * 4),
    "normal": (NORMAL, [0.0, 0.2, 0.3]),
    "normal, unlike noise": (Problem(2, noise_std=[0.5, 2.0]), [0.0, 0.0]),
    "normal within a tolerance": (Problem(3, noise_std=1.0, tolerance=0.1), [0.0, 0.0, 0.1]),
}


@pytest.mark.parametrize("lost", [0.0, 0.1])
@pytest.mark.parametrize("flight", [1, 15])
@pytest.mark.parametrize("name", TWINS)
def test_every_block_aims_at_the_end_as_the_slow_twin(name, flight, lost):
    problem, means = TWINS[name]
    twins = drive(Twins(problem, delta=1e-3, **END), means, seed=3, lost=lost, flight=flight)
    assert twins.slow.paid >= 10
    assert twins.on_target >= 5
    assert twins.state.bets.aim.any()


@pytest.mark.parametrize("problem", [COINS, NORMAL, Problem(4, top=2, reward_range=(0, 1))])
def test_no_block_is_lost_to_the_end(problem):
    policy, rng = BlockBetting(problem, 1e-9, **END, seed=0), np.random.default_rng(1)
    while policy.asked < 150:
        policy.tell(policy.ask(), float(rng.random() < 0.5))
    last = policy.ask(1_000)
    assert policy.asked == 200
    for pull in last:
        assert not policy.stopped
        # The words count the results that are still open.
        with pytest.raises(NothingToAsk):
            policy.ask()
        if pull.number % 9 == 0:
            policy.fail(pull, "lost")
        else:
            policy.tell(pull, float(rng.random() < 0.5))
    assert policy.stopped
    assert policy.recommend().status == "undecided"
    assert policy.progress().chance_to_decide is None


def test_pulls_before_every_arm_has_an_outcome_count_as_well():
    policy = BlockBetting(COINS, 1e-9, max_pulls=33, planned_end=True, seed=0)
    assert len(policy.ask(1_000)) == 33


def test_the_target_is_bet_on():
    policy, rng = BlockBetting(COINS, 1e-9, **END, seed=0), np.random.default_rng(1)
    while policy.told < 120:
        pull = policy.ask()
        policy.tell(pull, float(rng.random() < (0.3, 0.4, 0.6)[pull.action]))
    assert policy._blocks.state.wealth.own[0] < 0.0
    assert 0.0 <= policy.progress().chance_to_decide <= 1.0


def test_without_a_planned_end_no_bet_is_on_the_target():
    policy, rng = BlockBetting(COINS, 1e-9, max_pulls=200, seed=0), np.random.default_rng(1)
    while policy.told < 120:
        pull = policy.ask()
        policy.tell(pull, float(rng.random() < (0.3, 0.4, 0.6)[pull.action]))
    assert policy._blocks.state.wealth.own[0] == 0.0
    assert not policy._blocks.state.bets.aim.any()
    assert policy.progress().chance_to_decide is None


@pytest.mark.parametrize("number", [2, 3])
def test_a_rejected_target_leaves_its_place_to_the_set_that_is_left(number):
    """The first pulls mislead; one large block shows it, and so ends the study."""
    problem = Problem(number, reward_range=(0, 1))
    policy = BlockBetting(problem, 0.05, batch=150, **END | {"max_pulls": 400}, seed=0)
    while not policy.stopped:
        pull = policy.ask()
        misleads = policy.told < 10 * number
        best = 0 if misleads else 1
        policy.tell(pull, 0.9 if pull.action == best else 0.2)
    answer = policy.recommend()
    assert answer.arm == ("1",)
    assert answer.candidates == ("1",)
    # The initial block, and one more or, with another arm to rule out, two.
    assert policy._blocks.state.blocks.first[0] == number


@pytest.mark.parametrize("steps", [1, 13])
@pytest.mark.parametrize("problem", [COINS, NORMAL])
def test_a_restored_policy_reaches_the_same_end(problem, steps):
    policies = [BlockBetting(problem, 0.01, max_pulls=90, planned_end=True, seed=0)] * 2
    policies[1] = policies[0].clone(seed=0)
    rng = np.random.default_rng(2)
    while not policies[0].stopped:
        if policies[0].asked % steps == 0:
            restored = policies[1].clone(seed=0)
            restored.set_state(policies[1].get_state())
            policies[1] = restored
        pulls = [policy.ask() for policy in policies]
        assert pulls[0] == pulls[1]
        value = float(rng.random() < 0.4)
        for policy, pull in zip(policies, pulls, strict=True):
            policy.tell(pull, value)
    states = [policy.get_state() for policy in policies]
    for name in states[0]:
        assert np.array_equal(states[0][name], states[1][name]), name


@pytest.mark.parametrize("parallel", [1, 12])
@pytest.mark.parametrize("problem", [NORMAL, NORMAL.clone(tolerance=0.1)])
def test_a_simulated_run_ends_as_a_live_one(problem, parallel):
    environment = SimulatedEnvironment(problem, [0.3, 0.4, 0.5])
    found = []
    for simulate in (True, False):
        policy = BlockBetting(problem, 1e-4, **END, seed=0)
        rng = np.random.default_rng(7)
        if simulate:
            policy.compiled_run(environment, rng, None, parallel)
        else:
            run_policy(policy, environment, rng, None, parallel=parallel)
        found.append((policy.asked, policy.told, policy.recommend().status))
    assert found[0] == found[1]
    assert found[0][0] <= 200


def test_a_correction_changes_the_bet_on_the_target():
    policies = [BlockBetting(COINS, 1e-9, **END, seed=0) for _ in range(2)]
    rng = np.random.default_rng(3)
    corrected = []
    while policies[0].told < 90:
        value = float(rng.random() < 0.5)
        for policy in policies:
            pull = policy.ask()
            is_wrong = policy is policies[1] and pull.number in (35, 60, 61)
            policy.tell(pull, 1.0 - value if is_wrong else value)
            corrected += [(pull, 1.0 - value, value)] * is_wrong
            if is_wrong:
                policy.amend(*corrected[-1])
    wealth = [policy._blocks.state.wealth for policy in policies]
    np.testing.assert_allclose(wealth[0].own, wealth[1].own, rtol=1e-9)
    np.testing.assert_allclose(wealth[0].ledgers, wealth[1].ledgers, rtol=1e-9)


# ------------------------------------------------------------------------------- refused


def test_an_end_needs_the_number_of_pulls():
    with raises(InvalidArgument, "planned_end"):
        BlockBetting(COINS, planned_end=True)


@pytest.mark.parametrize(("problem", "least"), [(COINS, 33), (NORMAL, 18)])
def test_an_end_needs_the_initial_pulls_and_one_more_of_each_arm(problem, least):
    with raises(InvalidArgument, "max_pulls"):
        BlockBetting(problem, max_pulls=least - 1, planned_end=True)
    BlockBetting(problem, max_pulls=least, planned_end=True)


# ------------------------------------------------------------------- sets with a tolerance


def test_a_set_that_a_bet_on_another_target_settles_is_the_answer():
    # With this seed a bet on the target {b} settles the last pair of {a}.
    wrong, rejected, undecided = play_null(
        np.array([0.7, 0.4999, 0.4]), 1, coins, 0.2, 1971, 250, planned_end=True
    )
    assert (wrong, rejected, undecided) == (False, False, False)


def within_a_tolerance():
    """Return a policy with a tolerance, whose first bets are paid, and its state."""
    policy = BlockBetting(COINS.clone(tolerance=0.2), **END, seed=0)
    state, number = policy._blocks.state, 0
    while state.wealth.target[0] < 0.0:
        pull, number = policy.ask(), number + 1
        policy.tell(pull, float((number * (pull.action + 2)) % 5 < 2))
    return policy, state


@pytest.mark.parametrize("which", [0, 1])
def test_a_set_that_is_settled_before_its_block_ends_the_search_at_the_next(which):
    policy, state = within_a_tolerance()
    assert not policy.stopped
    leader = np.flatnonzero(state.wealth.target == 0.0)[which]
    state.wealth.ledgers[:, leader] = math.inf
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(pull.action == leader))
    assert policy.recommend().arm == ("abc"[leader],)


# ------------------------------------------------------------ the promise, by simulation

RUNS = effort.runs(10, whole=2_000)
DELTA = 0.1


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("means", "top", "draw", "tolerance"),
    [
        ([0.5, 0.5], 1, coins, 0.0),
        ([0.5] * 4, 2, coins, 0.0),
        ([0.0, 0.0], 1, normals, 0.0),
        ([1.0, 0.0, 0.0, -1.0], 2, normals, 0.0),
        ([0.7, 0.4999, 0.4], 1, coins, 0.2),
    ],
)
def test_the_right_set_is_seldom_rejected(means, top, draw, tolerance):
    """Share of runs that ever reject the right set, within 3 standard errors of delta .1."""
    found = [
        play_null(np.array(means), top, draw, tolerance, seed, 250, planned_end=True)
        for seed in range(RUNS)
    ]
    assert sum(run[1] for run in found) / RUNS <= effort.tolerated(DELTA, RUNS)
