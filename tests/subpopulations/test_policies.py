"""The policies: one code path live and simulated, the options, and every degenerate input."""

import math

import numpy as np
import pytest

from fairtrial.confidence import GaussianMixture, NormalMixture
from fairtrial.core import Policy, run_policy
from fairtrial.errors import ExperimentFinished, InvalidArgument, InvalidOutcome
from fairtrial.subpopulations import (
    BalancedTracking,
    BernoulliEnvironment,
    BlockBetting,
    ExactTracking,
    GaussianEnvironment,
    PlainTrackAndStop,
    Problem,
    RoundRobin,
    TrackAndStop,
    UniformSampling,
)
from tests import effort
from tests.messages import raises

E1 = np.array([[0.2, 0.6, 0.8], [0.4, 0.4, 0.3], [-0.2, 1.0, 1.5]])
E1_WEIGHTS = [0.2, 0.3, 0.5]
TRACKERS = [
    BalancedTracking,
    TrackAndStop,
    ExactTracking,
    PlainTrackAndStop,
    UniformSampling,
    RoundRobin,
]
EVERY = [BlockBetting, *TRACKERS]


def e1(**changes: object) -> Problem:
    return Problem(3, 3, group_weights=E1_WEIGHTS, noise_std=1.0, **changes)  # type: ignore[arg-type]


def run(policy: Policy, environment: object, seed: int = 0, horizon: int | None = None):
    return policy.compiled_run(environment, np.random.default_rng(seed), horizon)  # type: ignore[arg-type]


# ------------------------------------------------------------------ one code path


@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_live_and_simulated_runs_are_the_same(cls: type[Policy], direction: str) -> None:
    sign = 1.0 if direction == "maximize" else -1.0
    problem = Problem(3, 3, group_weights=E1_WEIGHTS, noise_std=1.0, direction=direction)
    environment = GaussianEnvironment(problem, sign * 1.5 * E1)
    policy = cls(problem, delta=0.1, seed=11)
    compiled = run(policy.clone(), environment, seed=3, horizon=900)
    live = run_policy(policy.clone(), environment, np.random.default_rng(3), horizon=900)
    assert live.stopping_time == compiled.stopping_time
    assert live.answer == compiled.answer
    assert live.status == compiled.status
    assert np.array_equal(live.pulls, compiled.pulls)


def test_live_and_simulated_runs_are_the_same_for_bounded_rewards() -> None:
    problem = Problem(2, 2, floors=0.3, reward_range=(0, 1))
    environment = BernoulliEnvironment(problem, [[0.9, 0.8], [0.5, 0.6]])
    compiled = run(BlockBetting(problem, seed=0), environment, seed=4)
    live = run_policy(BlockBetting(problem, seed=0), environment, np.random.default_rng(4))
    assert (live.answer, live.stopping_time) == (compiled.answer, compiled.stopping_time)
    assert compiled.answer == "0"


@pytest.mark.parametrize("cls", EVERY)
def test_minimising_is_maximising_with_the_signs_turned(cls: type[Policy]) -> None:
    up = Problem(3, 3, group_weights=E1_WEIGHTS, floors=0.05, noise_std=1.0)
    down = Problem(
        3, 3, group_weights=E1_WEIGHTS, floors=-0.05, noise_std=1.0, direction="minimize"
    )
    policies = cls(up, seed=5), cls(down, seed=5)
    generator = np.random.default_rng(0)
    for _ in range(150):
        pulls = [policy.ask() for policy in policies]
        assert pulls[0].action == pulls[1].action
        reward = E1.ravel()[pulls[0].action] + generator.normal()
        policies[0].tell(pulls[0], reward)
        policies[1].tell(pulls[1], -reward)
    first, second = (policy.progress() for policy in policies)
    for a, b in zip(first.actions, second.actions, strict=True):
        assert a.mean == pytest.approx(-b.mean)  # type: ignore[operator]
        assert (a.lower, a.upper) == pytest.approx((-b.upper, -b.lower))  # type: ignore[operator]
        assert a.lower_limit == pytest.approx(-b.upper_limit)  # type: ignore[operator]


def test_asking_for_several_is_asking_several_times() -> None:
    one, many = BalancedTracking(e1()), BalancedTracking(e1())
    assert [one.ask() for _ in range(60)] == many.ask(60)


# ------------------------------------------------------------------------ options


@pytest.mark.parametrize("cls", EVERY)
def test_passive_arrivals_get_an_arm_for_their_own_group(cls: type[Policy]) -> None:
    problem = Problem(3, ["x", "y", "z"], noise_std=1.0)
    policy = cls(problem, seed=1)
    generator = np.random.default_rng(3)
    for _ in range(400):
        if policy.stopped:
            break
        group = str(generator.choice(["x", "y", "z"], p=[0.6, 0.3, 0.1]))
        pull = policy.ask(group=group)
        assert pull.group == group
        policy.tell(pull, E1.ravel()[pull.action] + generator.normal())
    assert policy.told > 100


def test_an_unknown_group_is_refused_and_nothing_is_issued() -> None:
    for cls in (BlockBetting, BalancedTracking):
        policy = cls(e1())
        with raises(InvalidArgument, "group"):
            policy.ask(group="nobody")
        assert policy.asked == 0


@pytest.mark.statistical
@pytest.mark.parametrize("cls", [BlockBetting, BalancedTracking])
def test_passive_arrivals_still_decide_rightly(cls: type[Policy]) -> None:
    """30 runs at delta = .1: at most 3 + 3 sqrt(3) = 8 wrong."""
    problem = e1()
    wrong = 0
    for seed in range(30):
        generator = np.random.default_rng(seed)
        policy = cls(problem, delta=0.1)
        while not policy.stopped:
            group = str(generator.choice(3, p=E1_WEIGHTS))
            pull = policy.ask(group=group)
            policy.tell(pull, 2 * E1.ravel()[pull.action] + generator.normal())
        wrong += policy.recommend().arm != "0"
    assert wrong <= 8


def test_balanced_draws_shift_away_from_what_is_dear() -> None:
    dear = np.ones((3, 3))
    dear[0, 0] = 20.0
    # A single run may be misled: the shares are averaged over twenty.
    shares = []
    for problem in (e1(), e1(costs=dear)):
        environment = GaussianEnvironment(problem, E1)
        policy = BalancedTracking(problem, stopping="stylised")
        pulls = sum(run(policy.clone(), environment, seed, 2000).pulls for seed in range(20))
        shares.append(pulls[0] / pulls.sum())
    assert shares[1] < shares[0]


@pytest.mark.statistical
def test_with_distance_of_both_kinds_the_certified_rule_stops_on_ties_and_floors() -> None:
    """Two equal arms, both exactly on a floor: without tolerance no rule may stop; 20 runs."""
    means = [[0.0, 1.0], [0.0, 1.0]]
    problem = Problem(2, 2, noise_std=0.2, tolerance=0.3, floor_tolerance=0.3)
    environment = GaussianEnvironment(problem, means)
    runs = [run(BalancedTracking(problem, 0.1), environment, seed, 20_000) for seed in range(20)]
    assert all(r.status == "decided" for r in runs)
    assert sum(r.answer not in environment.truth.acceptable for r in runs) <= 2 + 3 * math.sqrt(2)
    strict = Problem(2, 2, noise_std=0.2)
    stuck = run(BalancedTracking(strict, 0.1, max_pulls=3000), GaussianEnvironment(strict, means))
    assert stuck.status == "undecided"
    assert stuck.stopping_time == 3000


def test_block_betting_refuses_what_its_proof_does_not_cover() -> None:
    with raises(InvalidArgument, "problem"):
        BlockBetting(Problem(2, 2, noise_std="estimated"), seed=0)


@pytest.mark.statistical
def test_estimated_noise_decides_and_says_that_it_is_not_proven() -> None:
    """20 easy runs at delta = .1: at most 2 + 3 sqrt(2) = 6 wrong."""
    problem = Problem(3, 3, group_weights=E1_WEIGHTS, noise_std="estimated")
    environment = GaussianEnvironment(problem, 2 * E1, std=0.5)
    policies = [BalancedTracking(problem, 0.1) for _ in range(20)]
    answers = [run(policy, environment, seed).answer for seed, policy in enumerate(policies)]
    assert sum(answer != "0" for answer in answers) <= 6
    assert not policies[0].guarantee.proven
    estimated = policies[0]._race.scale
    assert np.abs(estimated / 0.5 - 1).max() < 0.6


def test_a_noisier_cell_is_drawn_more_often() -> None:
    noise = np.ones((2, 1))
    noise[1] = 4.0
    problem = Problem(2, 1, floors=None, noise_std=noise)
    result = run(
        BalancedTracking(problem, 1e-6, "stylised"), GaussianEnvironment(problem, [[1.0], [0.0]])
    )
    # Two arms: the best shares are proportional to the deviations, 1 to 4.
    assert result.pulls[1] / result.pulls[0] == pytest.approx(4.0, rel=0.2)


def test_a_threshold_may_be_given_as_an_object_and_is_written_down() -> None:
    policy = BalancedTracking(e1(), stopping=GaussianMixture(kappa=40.0))
    assert policy.to_dict()["stopping"] == {"name": "GaussianMixture", "kappa": 40.0}
    assert policy.clone().stopping == policy.stopping


# ------------------------------------------------------------------- degenerate input


@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, math.nan, "5%", None])
def test_delta_outside_zero_and_one_is_refused(cls: type[Policy], delta: object) -> None:
    with raises(InvalidArgument, "delta", given=delta):
        cls(e1(), delta=delta)  # type: ignore[call-arg]


@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_changes_nothing(cls: type[Policy], reward: float) -> None:
    policy = cls(e1(), seed=1)
    pull = policy.ask()
    before = policy.get_state()
    with raises(InvalidOutcome, "reward", given=reward):
        policy.tell(pull, reward)
    after = policy.get_state()
    assert all(np.array_equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("cls", EVERY)
def test_one_arm_without_floors_is_the_answer_at_once(cls: type[Policy]) -> None:
    policy = cls(Problem(["only"], 2, floors=None, noise_std=1.0))
    assert policy.stopped
    assert policy.recommend().arm == "only"
    with raises(ExperimentFinished):
        policy.ask()
    assert policy.ask(5) == []


@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize(("mean", "answer"), [(1.0, "0"), (-1.0, None)])
def test_one_arm_with_floors_is_only_tested_for_them(
    cls: type[Policy], mean: float, answer: str | None
) -> None:
    problem = Problem(1, 2, floors=[0.0, None], noise_std=1.0)
    result = run(cls(problem, seed=3), GaussianEnvironment(problem, [[mean, -5.0]]))
    assert result.status == "decided"
    assert result.answer == answer
    if cls in (BlockBetting, BalancedTracking):
        assert result.pulls[1] == 0  # nothing depends on a cell without a floor


@pytest.mark.parametrize("cls", EVERY)
def test_without_floors_no_arm_is_never_the_answer(cls: type[Policy]) -> None:
    problem = Problem(2, 1, floors=None, noise_std=1.0)
    result = run(cls(problem, seed=3), GaussianEnvironment(problem, [[-5.0], [-7.0]]))
    assert result.answer == "0"


def test_a_group_of_weight_zero_matters_only_through_its_floor() -> None:
    problem = Problem(2, 2, group_weights=[1, 0], floors=[[None, 0.0], [None, None]], noise_std=1.0)
    environment = GaussianEnvironment(problem, [[1.0, -2.0], [0.0, 0.0]])
    for cls in (BlockBetting, BalancedTracking):
        result = run(cls(problem), environment)
        assert result.answer == "1"
        assert result.pulls[2 + 1] == 0


def test_initial_draws_walk_through_the_cells_and_come_before_every_test() -> None:
    policy = BalancedTracking(Problem(2, 2, noise_std=0.01), initial_pulls=3)
    for t in range(11):
        pull = policy.ask()
        assert pull.action == t % 4
        policy.tell(pull, 10.0 if pull.arm == "0" else -10.0)
        assert not policy.stopped
    policy.tell(policy.ask(), -10.0)
    assert policy.stopped
    assert policy.recommend().arm == "0"


def test_zero_initial_draws_means_one() -> None:
    policy = BalancedTracking(Problem(2, 1, noise_std=1.0), initial_pulls=0)
    assert [pull.action for pull in policy.ask(2)] == [0, 1]


def test_data_that_nobody_asked_for_count() -> None:
    problem = Problem(["a", "b"], ["x"], noise_std=0.1)
    policy = BalancedTracking(problem)
    for _ in range(6):
        policy.tell(problem.pull(arm="a", group="x"), 2.0)
        policy.tell(problem.pull(arm="b", group="x"), 1.0)
    assert policy.recommend().arm == "a"


@pytest.mark.parametrize("cls", EVERY)
def test_a_cap_ends_undecided_with_the_leader(cls: type[Policy]) -> None:
    problem = Problem(2, 1, floors=None, noise_std=1.0)
    result_policy = cls(problem, max_pulls=40, seed=1)
    result = run(result_policy, GaussianEnvironment(problem, [[0.0], [0.0]]))
    assert result.status == "undecided"
    assert result.stopping_time == 40
    answer = result_policy.recommend()
    assert answer.arm is None
    assert answer.leader in ("0", "1")
    assert "maximum of 40 pulls" in answer.reason


@pytest.mark.parametrize("cls", EVERY)
def test_a_lost_pull_is_drawn_again_or_done_without(cls: type[Policy]) -> None:
    problem = Problem(2, 2, noise_std=1.0)
    policy = cls(problem, seed=4)
    generator = np.random.default_rng(4)
    means = [2.0, 2.0, 0.5, 0.5]
    while not policy.stopped and policy.told < 3000:
        pull = policy.ask()
        if generator.random() < 0.2:
            policy.fail(pull)
        else:
            policy.tell(pull, means[pull.action] + generator.normal())
    assert policy.recommend().arm == "0"
    assert not policy.guarantee.proven
    assert any("got lost" in text for text in policy.guarantee.assumptions)


def test_lost_pulls_leave_the_guarantee_standing_when_rewards_have_a_range() -> None:
    policy = BlockBetting(Problem(2, 2, reward_range=(0, 1)), seed=0)
    policy.fail(policy.ask())
    assert policy.guarantee.proven


@pytest.mark.parametrize("cls", EVERY)
def test_a_correction_moves_the_means_and_shows_in_the_guarantee(cls: type[Policy]) -> None:
    policy = cls(Problem(2, 1, noise_std=1.0), seed=1)
    pull = policy.ask()
    policy.tell(pull, 1.0)
    policy.amend(pull, 1.0, 3.0)
    assert policy.progress().actions[pull.action].mean == 3.0
    # Block betting has no bets on its initial pulls.
    assert policy.guarantee.proven is (cls is BlockBetting)


@pytest.mark.parametrize("cls", EVERY)
def test_results_after_the_decision_do_not_change_it(cls: type[Policy]) -> None:
    policy = cls(Problem(2, 1, floors=None, noise_std=0.1), seed=1)
    pulls = policy.ask(80)
    while not policy.stopped:
        pull = pulls.pop(0)
        policy.tell(pull, 2.0 if pull.arm == "0" else 1.0)
        pulls += policy.ask(1)
    assert pulls
    for pull in pulls:
        policy.tell(pull, -9.0 if pull.arm == "0" else 9.0)
    assert policy.recommend().arm == "0"
    assert policy.to_cancel() == []


# ------------------------------------------------------------------------- progress


@pytest.mark.parametrize("cls", EVERY)
def test_progress_tells_estimates_evidence_and_what_is_left(cls: type[Policy]) -> None:
    problem = e1()
    policy = cls(problem, seed=1)
    start = policy.progress()
    assert start.actions[0].mean is None
    assert start.recommendation.leader is None
    generator = np.random.default_rng(0)
    told = []
    for _ in range(300):
        pull = policy.ask()
        reward = E1.ravel()[pull.action] + generator.normal()
        told.append((pull.action, reward))
        policy.tell(pull, reward)
    now = policy.progress()
    assert sum(estimate.pulls for estimate in now.actions) == now.told == 300
    # A rule with blocks counts those that are settled: here, the first pulls.
    actions, rewards = (np.array(column) for column in zip(*told[: now.settled], strict=True))
    counted = np.bincount(actions, minlength=9)
    if now.settled is not None:
        assert [estimate.counted for estimate in now.actions] == counted.tolist()
    means = np.array([estimate.mean for estimate in now.actions])
    assert means == pytest.approx(np.bincount(actions, rewards, minlength=9) / counted)
    assert all(e.lower < e.mean < e.upper for e in now.actions)  # type: ignore[operator]
    assert [e.lower_limit for e in now.actions] == [0.0] * 9
    assert [e.mean for e in now.arms] == pytest.approx(means.reshape(3, 3) @ E1_WEIGHTS)
    assert now.evidence is not None
    assert now.threshold is not None
    assert now.evidence < now.threshold or policy.stopped


def test_an_arms_interval_shares_delta_among_its_groups() -> None:
    problem = Problem(1, {"x": 1.0, "y": 3.0}, noise_std=2.0)
    policy = BalancedTracking(problem, delta=0.1)
    for group, number in (("x", 4), ("y", 9)):
        for _ in range(number):
            policy.tell(problem.pull(arm="0", group=group), 0.5)
    (arm,) = policy.progress().arms
    reach = NormalMixture().radius([4, 9], level=0.1 / 2, sigma=2.0) @ [0.25, 0.75]
    assert (arm.mean, arm.lower, arm.upper) == pytest.approx((0.5, 0.5 - reach, 0.5 + reach))
    cell = policy.progress().actions[1]
    assert cell.upper == pytest.approx(0.5 + NormalMixture().radius(9, level=0.1, sigma=2.0))


@pytest.mark.parametrize(("noise", "start"), [(1.0, 5), ("estimated", 10)])
def test_nothing_is_tested_before_the_initial_draws(noise: float | str, start: int) -> None:
    policy = BalancedTracking(Problem(2, 1, noise_std=noise), delta=0.1)
    pulls = policy.ask(2 * start)
    for place, pull in enumerate(pulls):
        assert not policy.stopped
        policy.tell(pull, (100.0 if pull.arm == "0" else -100.0) + place % 3)
    assert policy.stopped


def test_exploration_grows_with_the_square_root_of_the_draws() -> None:
    problem = Problem(3, 1, floors=None, noise_std=1.0)
    rewards = {"0": 0.05, "1": 0.0, "2": -3.0}
    draws = {}
    for exploration in (0.0, 2.0):
        policy = BalancedTracking(problem, delta=1e-9, exploration=exploration)
        for _ in range(400):
            pull = policy.ask()
            policy.tell(pull, rewards[pull.arm])
        draws[exploration] = policy.progress().actions[2].pulls
    assert draws[0.0] < 10
    assert draws[2.0] == math.ceil(2.0 * math.sqrt(400 / 3))


@pytest.mark.parametrize("cls", [TrackAndStop, PlainTrackAndStop])
def test_tracking_leaves_every_cell_the_papers_least_share(cls: type[Policy]) -> None:
    policy = cls(Problem(3, 1, floors=None, noise_std=1.0), delta=1e-9, seed=1)
    rewards = {"0": 0.5, "1": 0.0, "2": -3.0}
    for _ in range(60):
        pull = policy.ask()
        policy.tell(pull, rewards[pull.arm])
    before = policy._race.results.state.credit.copy()
    policy.ask()
    earned = policy._race.results.state.credit - before
    assert earned.sum() == pytest.approx(1.0)
    assert earned[2, 0] == pytest.approx(0.5 / math.sqrt(3**2 + 60))


def test_exact_tracking_comes_back_to_an_arm_that_it_had_given_up() -> None:
    problem = Problem(3, 1, floors=None, noise_std=1.0)
    policy = ExactTracking(problem, delta=1e-9)
    rewards = {"0": 0.05, "1": 0.0, "2": -3.0}

    def draw(number: int) -> list[str]:
        arms = []
        for _ in range(number):
            pull = policy.ask()
            policy.tell(pull, rewards[pull.arm])
            arms.append(pull.arm)
        return arms

    # The optimal share of an arm so far behind is next to nothing.
    given_up = draw(500).count("2")
    assert given_up < 60
    rewards["2"] = 0.04
    for _ in range(50):
        policy.tell(problem.pull(arm="2", group="0"), 0.04 + given_up * 3.04 / 50)
    assert draw(40).count("2") > 20


def test_block_betting_forecasts_what_the_best_shares_need() -> None:
    policy = BlockBetting(Problem(2, 1, floors=None, noise_std=1.0), delta=0.05, seed=0)
    for pull in policy.ask(10):
        policy.tell(pull, 0.6 if pull.arm == "0" else 0.1)
    policy.ask()
    # At equal shares t draws give a gap of .5 the evidence t (1/2) (1/2) .5^2 / 2.
    assert policy.progress().remaining == pytest.approx(32.0 * math.log(1.0 / 0.05))


@pytest.mark.statistical
def test_intervals_hold_at_all_times() -> None:
    """Paths of 300 pulls, level .1: a given cell is ever missed in at most that share of them."""
    problem = Problem(2, 1, floors=None, noise_std=1.0)
    missed, runs = 0, effort.runs(25, whole=200)
    for seed in range(runs):
        generator = np.random.default_rng(seed)
        policy = RoundRobin(problem, delta=0.1, stopping="kaufmann-koolen")
        ever = False
        for t in range(300):
            pull = policy.ask()
            policy.tell(pull, generator.normal())
            if t % 10 == 9:
                estimate = policy.progress().actions[0]
                ever = ever or not estimate.lower <= 0.0 <= estimate.upper  # type: ignore[operator]
        missed += ever
    assert missed / runs <= effort.tolerated(0.1, runs)
