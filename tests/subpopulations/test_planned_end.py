"""Block betting with a planned end: aimed stakes, and bets on the leader."""

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from fairtrial.confidence.block_betting.end_bets import level_of, log_end_bet
from fairtrial.confidence.block_betting.planned_end import chance_by_end
from fairtrial.core.compilation import compiled
from fairtrial.errors import InvalidArgument, NothingToAsk, NotSupported
from fairtrial.presentation.words import results_sentence
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
)
from tests import effort
from tests.messages import raises
from tests.subpopulations.block_views import ledgers_of
from tests.subpopulations.test_blocks import (
    BOUNDED,
    INSTANCES,
    STORMS,
    Twins,
    fair_coins,
    one_at_a_time,
    random_instance,
    saved,
    storm,
)

END = {"max_pulls": 200, "planned_end": True}
TWO_ARMS = Problem(2, 1, floors=None, noise_std=1.0)


def told(policy: BlockBetting, most: int, gap: float = 0.3, seed: int = 0) -> BlockBetting:
    """Return the policy with normal results, up to this many pulls."""
    rng = np.random.default_rng(seed)
    while not policy.stopped and policy.asked < most:
        pull = policy.ask()
        policy.tell(pull, rng.normal(gap if pull.arm == "0" else 0.0))
    return policy


# ------------------------------------------------------------------- compared with the twin


@pytest.mark.parametrize("name", effort.first(17, list(INSTANCES)))
def test_every_block_aims_at_the_end_as_the_mathematics_says(name: str) -> None:
    problem, reward_of = INSTANCES[name]
    twins = Twins(problem, **END)
    one_at_a_time(twins, reward_of, seed=1, most=200)
    assert twins.paid > 3
    assert twins.policy.stopped


@pytest.mark.parametrize("seed", range(effort.runs(6, whole=30)))
def test_random_instances_agree_with_the_slow_implementation(seed: int) -> None:
    rng = np.random.default_rng([3, seed])
    problem, reward_of = random_instance(rng)
    if seed % 3 == 1:
        problem = problem.clone(tolerance=0.2)
    if seed % 3 == 2:
        problem = problem.clone(control=str(rng.choice(problem.arms)), margin=0.2)
    one_at_a_time(Twins(problem, delta=0.2, **END), reward_of, seed, most=200)


@pytest.mark.parametrize(
    ("name", "losses"), effort.pairs(STORMS, ["none", "informative", "ignorable"])
)
def test_open_blocks_pay_as_the_mathematics_says_whatever_comes_when(
    name: str, losses: str
) -> None:
    problem, reward_of = STORMS[name]
    options = {} if losses == "none" else {"losses": losses}
    twins = Twins(problem, delta=1e-6, max_pulls=2_000, planned_end=True, **options)
    rng = np.random.default_rng(5)
    storm(
        twins,
        reward_of,
        rng,
        500,
        losses != "none",
        False,
        corrections=losses == "none",
    )
    assert twins.paid > 2


def test_the_leader_is_bet_on_and_can_lose_its_lead() -> None:
    policy = told(BlockBetting(TWO_ARMS, delta=0.1, **END), 100, gap=0.3)
    pairs = ledgers_of(policy).pairs
    assert pairs[0, 1] != 0.0
    assert pairs[1, 0] != 0.0


def test_without_a_planned_end_no_bet_is_on_the_leader() -> None:
    policy = told(BlockBetting(TWO_ARMS, delta=0.1, max_pulls=200, initial_pulls=40), 200, gap=2.0)
    assert ledgers_of(policy).pairs[0, 1] == 0.0
    assert not policy._blocks.state.bets.aim.any()


def as_one_measure(policy: BlockBetting, seed: int, *, wrapped: bool) -> list[tuple[int, float]]:
    """Run the policy to its end; return its pulls, each with the wealth against the first arm."""
    rng, found = np.random.default_rng(seed), []
    while not policy.stopped:
        pull = policy.ask()
        value = float(rng.random() < (0.7 if pull.arm == "0" else 0.5))
        policy.tell(pull, {"value": value} if wrapped else value)
        found.append((pull.action, float(policy._wealth[0])))
    return found


@pytest.mark.parametrize("limit", ["floors", "margin"])
def test_one_of_several_measures_is_aimed_like_the_only_one(limit: str) -> None:
    control = {"control": "1"} if limit == "margin" else {}
    plain = Problem(3, 2, reward_range=(0, 1), **{limit: 0.3}, **control)
    ranges, limits = {"value": (0, 1)}, {limit: {"value": 0.3}}
    measured = Problem(3, 2, measures=ranges, objective="value", **limits, **control)
    paths = [
        as_one_measure(BlockBetting(problem, **END, seed=0), 3, wrapped=problem is measured)
        for problem in (plain, measured)
    ]
    assert [action for action, _ in paths[0]] == [action for action, _ in paths[1]]
    wealth = [[value for _, value in path] for path in paths]
    assert wealth[0] == pytest.approx(wealth[1], abs=1e-6)
    assert len(set(wealth[0])) > 3


# ------------------------------------------------------------------------------ the end


def in_flight_at_the_end(policy: BlockBetting) -> list:
    """Return the last pulls, which are all in flight, after results that decide nothing."""
    while policy.asked < policy.max_pulls - 30:
        policy.tell(policy.ask(), 0.0)
    return policy.ask(1_000)


@pytest.mark.parametrize("noise", [{"noise_std": 1.0}, {"reward_range": (-1, 1)}])
def test_no_more_pulls_are_issued_than_were_planned(noise: dict) -> None:
    policy = BlockBetting(Problem(3, 2, floors=None, **noise), **END, seed=0)
    last = in_flight_at_the_end(policy)
    assert policy.asked == 200
    for pull in last:
        assert not policy.stopped
        # The words count the results that are still open.
        with pytest.raises(NothingToAsk):
            policy.ask()
        policy.tell(pull, 0.0)
    assert policy.stopped
    assert policy.recommend().status == "undecided"


@pytest.mark.parametrize("noise", [{"noise_std": 1.0}, {"reward_range": (-1, 1)}])
def test_pulls_that_fail_in_the_last_block_are_not_made_up(noise: dict) -> None:
    policy = BlockBetting(Problem(2, 1, floors=None, **noise), **END, seed=0)
    last = in_flight_at_the_end(policy)
    for pull in last[:5]:
        policy.fail(pull)
    for pull in last[5:]:
        policy.tell(pull, 0.0)
    assert policy.stopped
    assert (policy.asked, policy.told) == (200, 195)


def test_a_correction_after_the_last_block_still_counts() -> None:
    policy = BlockBetting(TWO_ARMS, **END, seed=0)
    pulls = []
    while not policy.stopped:
        pulls.append(policy.ask())
        policy.tell(pulls[-1], 0.0)
    assert policy.recommend().status == "undecided"
    for pull in pulls[20:]:
        if not policy._finished:
            policy.amend(pull, 0.0, 1.0 if pull.arm == "0" else -1.0)
    assert policy.recommend().arm == "0"
    assert policy.asked == 200


def test_arrivals_of_a_group_get_no_pull_after_the_end() -> None:
    policy = BlockBetting(Problem(2, 2, floors=None, noise_std=1.0), **END, seed=0)
    groups = policy.problem.groups
    while not policy.stopped and policy.asked < 1_000:
        pulls = [pull for group in groups for pull in policy.ask(1, group=group)]
        if not pulls:
            break
        for pull in pulls:
            policy.tell(pull, 0.0)
    assert policy.asked <= 200


@pytest.mark.parametrize("steps", effort.first(2, [7, 40, 1]))
def test_a_restored_policy_reaches_the_same_end(steps: int) -> None:
    policies = [BlockBetting(TWO_ARMS, **END, seed=0) for _ in range(2)]
    rng = np.random.default_rng(1)
    while not policies[0].stopped:
        if policies[0].asked % steps == 0:
            policies[1] = saved(policies[1])
        pulls = [policy.ask() for policy in policies]
        assert pulls[0] == pulls[1]
        reward = rng.normal(0.1 if pulls[0].arm == "0" else 0.0)
        for policy, pull in zip(policies, pulls, strict=True):
            policy.tell(pull, reward)
    states = [policy.get_state() for policy in policies]
    for name in states[0]:
        assert np.array_equal(states[0][name], states[1][name]), name


@pytest.mark.parametrize("unit", [1e-140, 1e140])
@pytest.mark.parametrize("bounded", [False, True])
def test_decisions_are_the_same_in_every_unit(unit: float, bounded: bool) -> None:
    def run(scale: float) -> tuple[list[int], str]:
        noise = {"reward_range": (0.0, scale)} if bounded else {"noise_std": scale}
        policy = BlockBetting(Problem(2, 1, floors=None, **noise), **END, seed=0)
        rng, actions = np.random.default_rng(2), []
        while not policy.stopped:
            pull = policy.ask()
            actions.append(pull.action)
            policy.tell(pull, scale * (rng.random() < (0.7 if pull.arm == "0" else 0.4)))
        return actions, str(policy.recommend().arm)

    assert run(unit) == run(1.0)


def test_arms_that_are_equal_in_every_result_decide_nothing() -> None:
    policy = BlockBetting(Problem(3, 1, floors=None, reward_range=(0, 1)), **END, seed=0)
    while not policy.stopped:
        policy.tell(policy.ask(), 1.0)
    assert policy.recommend().status == "undecided"
    assert np.isfinite(policy._wealth[:3]).all()


@pytest.mark.parametrize(("end", "size"), [(5_000, 10), (5_001, 30), (None, 30)])
def test_blocks_are_small_before_a_near_end(end: int | None, size: int) -> None:
    """The block after 1,000 initial pulls has 1 % of them, or 3 %; the slow twin agrees."""
    rng = np.random.default_rng(1)
    options = {} if end is None else {"max_pulls": end, "planned_end": True}
    twins = Twins(TWO_ARMS, initial_pulls=500, **options)
    for _ in range(1_001):
        pull = twins.ask()
        twins.tell(pull, rng.normal(0.1 if pull.arm == "0" else 0.0))
    blocks = twins.policy._blocks.state.blocks
    newest = (blocks.first[0] + blocks.number[0] - 1) % blocks.waiting.size
    assert blocks.planned[newest].sum() == size


# ----------------------------------------------------------------------- refused


def test_an_end_needs_the_number_of_pulls() -> None:
    with raises(InvalidArgument, "planned_end"):
        BlockBetting(TWO_ARMS, planned_end=True)


@pytest.mark.parametrize("arms", [2, 5])
def test_an_end_needs_the_initial_pulls_and_one_block(arms: int) -> None:
    problem = Problem(arms, 1, floors=None, noise_std=1.0)
    with raises(InvalidArgument, "max_pulls"):
        BlockBetting(problem, max_pulls=7 * arms - 1, planned_end=True)
    BlockBetting(problem, max_pulls=7 * arms, planned_end=True)


# -------------------------------------------------------------------------- normal noise

NORMAL = {**END, "noise": "normal"}


@pytest.mark.parametrize("seed", range(effort.runs(4, whole=20)))
def test_end_bets_pay_what_the_slow_implementation_pays(seed: int) -> None:
    rng = np.random.default_rng([4, seed])
    gaps = rng.uniform(0.0, 0.5, (3, 1 + seed % 2))
    problem = Problem(*gaps.shape, floors=-0.3 if seed % 3 == 0 else None, noise_std=1.0)
    twins = Twins(problem, delta=0.2, **NORMAL)
    while not twins.policy.stopped:
        pull = twins.ask()
        twins.tell(pull, rng.normal(gaps[twins.cell(pull)]))
    assert twins.paid > 3


@pytest.mark.parametrize("error", [0.5, 1e-3, 1e-18, 1e-60, 1e-250])
@pytest.mark.parametrize("ahead", [0.05, 1.0, 300.0])
def test_an_end_bet_spends_exactly_the_error_that_is_left(error: float, ahead: float) -> None:
    level = level_of(error, 1.0, ahead)
    weighed = level / (1.0 + ahead)
    # A sum over a fine grid, around 0 and around the most likely score of paths to the level.
    scores = np.linspace(min(0.0, weighed) - 14.0, min(level, max(0.0, weighed) + 14.0), 400_001)
    logs = -0.5 * scores**2 + log_ndtr((scores - level) / math.sqrt(ahead))
    later = 2.0 * trapezoid(np.exp(logs), scores) / math.sqrt(2.0 * math.pi)
    assert later + ndtr(-level) == pytest.approx(error, rel=1e-6, abs=0.0)


@pytest.mark.parametrize(
    ("error", "inside", "later", "score", "expected"),
    [
        (0.025, 0.1, 0.9, 0.0, -0.32048098),
        (0.025, 0.1, 0.9, 0.6, 1.20712301),
        (0.05, 0.5, 0.5, 1.0, 1.26443696),
        (0.3, 0.2, 0.4, -0.3, -1.26035436),
        (0.025, 0.03, 0.97, 0.2, 0.42389095),
    ],
)
def test_an_end_bet_pays_the_reference_value(
    error: float, inside: float, later: float, score: float, expected: float
) -> None:
    # Payments exceed the reference by up to a millionth, on purpose.
    assert log_end_bet(-math.log(error), inside, later, score) == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize("need", [0.01, 0.5, 3.0, 30.0])
@pytest.mark.parametrize(("inside", "later"), [(0.1, 0.9), (0.9, 0.1), (1e-6, 1.0), (1.0, 0.0)])
def test_an_end_bet_gains_nothing_on_average(need: float, inside: float, later: float) -> None:
    scores = math.sqrt(inside) * np.linspace(-9.0, 9.0, 161)
    with compiled():
        paid = np.exp([log_end_bet(need, inside, later, score) for score in scores])
    assert (np.diff(paid) >= -1e-9 * paid[1:]).all()
    assert paid.max() <= math.exp(need + 1e-5)
    chances = np.diff(norm.cdf(scores / math.sqrt(inside)))
    # Payments rise with the score, so those at the lower ends are at most what is paid on average.
    assert paid[:-1] @ chances <= 1.0 + 1e-9
    assert later == 0.0 or paid[1:] @ chances >= 1.0 - 1e-3


def test_wealth_never_exceeds_what_is_needed() -> None:
    policy = BlockBetting(TWO_ARMS, delta=0.05, **NORMAL)
    told(policy, 200, gap=2.0)
    assert policy.recommend().arm == "0"
    assert policy._wealth[1] == pytest.approx(-math.log(0.05), abs=1e-5)
    assert policy._wealth[1] >= -math.log(0.05)


def test_the_guarantee_names_normal_noise() -> None:
    stated = BlockBetting(TWO_ARMS, **NORMAL).guarantee
    assert "proven for normal noise" in stated.name
    assert any("normal" in assumption for assumption in stated.assumptions)


def test_after_the_last_block_nothing_more_is_issued() -> None:
    policy = BlockBetting(TWO_ARMS, **NORMAL, seed=0)
    last = in_flight_at_the_end(policy)
    policy.fail(last[0])
    for pull in last[1:]:
        policy.tell(pull, 0.0)
    assert policy.stopped
    assert policy.recommend().status == "undecided"
    assert np.isfinite(policy._wealth[:2]).all()


@pytest.mark.parametrize(
    ("noise", "options", "error"),
    [
        ({"noise_std": 1.0}, {}, InvalidArgument),
        ({"noise_std": 1.0}, {"planned_end": False}, InvalidArgument),
        ({"reward_range": (0, 1)}, {"planned_end": True}, NotSupported),
        (
            {"measures": ["a"], "objective": "a", "noise_std": {"a": 1.0}},
            {"planned_end": True},
            NotSupported,
        ),
    ],
)
def test_normal_noise_is_refused_where_bets_cannot_use_it(
    noise: dict, options: dict, error: type[Exception]
) -> None:
    problem = Problem(2, 1, **noise)
    with raises(error):
        BlockBetting(problem, max_pulls=200, noise="normal", **options)


# ------------------------------------------------------------------- what is said of the end

WITH_RANGE = Problem(["a", "b", "c"], ["x", "y"], floors=None, reward_range=(0, 1))


def equal(policy: BlockBetting, until: int, losing: tuple[int, ...] = ()) -> BlockBetting:
    """Return the policy with equal results up to this many pulls; those in `losing` fail."""
    while not policy.stopped and policy.asked < until:
        pull = policy.ask()
        if pull.number in losing:
            policy.fail(pull)
        else:
            policy.tell(pull, 0.5)
    return policy


def test_an_end_that_was_reached_as_planned_says_no_more() -> None:
    policy = equal(BlockBetting(WITH_RANGE, max_pulls=120, planned_end=True), 200)
    assert policy.asked == 120
    assert policy.recommend().reason == "the planned end of 120 pulls is reached"


def test_an_end_says_how_many_pulls_were_made_again() -> None:
    options = {"max_pulls": 120, "planned_end": True, "losses": "ignorable"}
    policy = equal(BlockBetting(WITH_RANGE, **options), 200, losing=(20, 30, 40))
    assert policy.stopped
    assert policy.asked == 123
    said = "the planned end of 120 pulls is reached: 123 were asked for, 3 of them in place of lost"
    assert policy.recommend().reason.startswith(said)


@pytest.mark.parametrize("losses", ["ignorable", "informative"])
def test_an_end_that_a_closed_arm_brings_nearer_says_how_many_pulls_were_not_made(
    losses: str,
) -> None:
    options = {"max_pulls": 120, "planned_end": True, "losses": losses}
    policy = equal(BlockBetting(WITH_RANGE, **options), 50, losing=(20,))
    policy.close_arm("c")
    equal(policy, 200)
    assert policy.stopped
    again = int(losses == "ignorable")
    never = 120 + again - policy.asked
    assert never > 1
    assert policy.recommend().reason.startswith(
        f"the planned end of 120 pulls is reached: {policy.asked} were asked for"
        f"{', 1 of them in place of lost ones' * again}; {never} planned pulls of the closed arm c "
        "are not made, and count as their worst"
    )


def test_an_end_says_how_many_pulls_nobody_came_for() -> None:
    options = {"max_pulls": 400, "planned_end": True, "seed": 1}
    policy = BlockBetting(WITH_RANGE, **options)
    rng = np.random.default_rng(1)
    while not policy.stopped:
        group = "y" if policy.asked < 100 or policy.why_no_pull() else "x"
        for pull in policy.ask(1, group=group) or policy.ask(1, group="x"):
            policy.tell(pull, float(rng.random() < 0.5))
    never = 400 - policy.asked
    assert never > 1
    assert policy.recommend().reason.startswith(
        f"the planned end of 400 pulls is reached: {policy.asked} were asked for; {never} planned "
        "pulls count as their worst because nobody has made them"
    )


# ------------------------------------------------------------------- the chance to decide


def test_without_an_end_there_is_no_chance_to_decide_by_it() -> None:
    assert told(BlockBetting(TWO_ARMS), 100).progress().chance_to_decide is None


def test_the_chance_to_decide_is_shown_until_the_end() -> None:
    policy = told(BlockBetting(TWO_ARMS, delta=0.01, **END), 100)
    assert 0.0 < policy.progress().chance_to_decide < 1.0
    assert "planned end" in results_sentence(policy.progress())
    assert policy.progress().remaining_at_most == END["max_pulls"] - policy.asked
    told(policy, 200)
    assert policy.stopped
    assert policy.progress().chance_to_decide is None
    assert policy.progress().remaining_at_most is None


@pytest.mark.parametrize(("pulls", "forecast"), [(100, 200.0), (100, 80.0), (50, math.inf)])
def test_the_chance_is_that_of_crossing_a_line(pulls: int, forecast: float) -> None:
    need, runs, steps = 3.0, 20_000, 400
    aim = math.sqrt(2 * need)
    drift = aim * math.sqrt(pulls / forecast)
    moves = np.random.default_rng(0).normal(drift / steps, steps**-0.5, (runs, steps))
    times = np.arange(1, steps + 1) / steps
    gains = aim * moves.cumsum(axis=1) - aim**2 * times / 2
    # The steps miss crossings between them (Siegmund 1985, equation 4.5).
    crossed = (gains >= need - 0.583 * aim * steps**-0.5).any(axis=1).mean()
    found = chance_by_end(need, pulls, forecast)
    assert found == pytest.approx(crossed, abs=0.01 + 4 * math.sqrt(0.25 / runs))


@pytest.mark.parametrize("past", [10, 100, 1_000])
@pytest.mark.parametrize("is_normal", [False, True])
@pytest.mark.parametrize("forecast", [20.0, 200.0, None])
def test_the_chance_is_the_mean_over_the_drifts_that_the_past_leaves_possible(
    past: int, is_normal: bool, forecast: float | None
) -> None:
    need, pulls, runs = 3.0, 100, 40_000
    aim = math.sqrt(2 * need)
    middle = 0.0 if forecast is None else aim * math.sqrt(pulls / forecast)
    drifts = np.random.default_rng(1).normal(middle, math.sqrt(pulls / past), runs)
    known = [
        chance_by_end(need, pulls, pulls * (aim / drift) ** 2, is_normal=is_normal)
        for drift in drifts[drifts > 0.0]
    ]
    # Drifts below 0 have a smaller chance than none.
    least = np.sum(known) / runs
    most = least + (drifts <= 0.0).mean() * chance_by_end(need, pulls, None, is_normal=is_normal)
    found = chance_by_end(need, pulls, forecast, past, is_normal=is_normal)
    assert least - 4 * math.sqrt(0.25 / runs) <= found <= most + 4 * math.sqrt(0.25 / runs)


def test_of_few_results_no_chance_is_nearly_certain() -> None:
    """A lucky start of 300 of 5,200 pulls shows ten times the true effect only too often."""
    assert chance_by_end(3.0, 4_900, 750.0) > 0.99
    assert 0.6 < chance_by_end(3.0, 4_900, 750.0, past=300) < 0.95


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_a_chance_is_a_probability_for_any_number(scale: float) -> None:
    for need in (-scale, scale, 1.0):
        for pulls in (0, 1, 10**9):
            for forecast in (None, scale, 1.0):
                assert 0.0 <= chance_by_end(need, pulls, forecast) <= 1.0


@pytest.mark.statistical
def test_the_chance_to_decide_is_about_the_share_of_continuations_that_do() -> None:
    """Within .15 of runs with likely means: later blocks aim again, and stop in steps."""
    policy = told(BlockBetting(TWO_ARMS, delta=0.05, max_pulls=300, planned_end=True), 150, 0.3)
    gap = policy.progress().actions[0].mean - policy.progress().actions[1].mean
    runs = effort.runs(60, whole=400)
    # Each arm has 75 results with noise of standard deviation 1.
    gaps = np.random.default_rng(9).normal(gap, math.sqrt(2 / 75), runs)
    decided = [
        told(saved(policy), 300, gap, seed=seed).recommend().decided
        for seed, gap in enumerate(gaps)
    ]
    chance = policy.progress().chance_to_decide
    assert 0.2 < chance < 0.98
    assert np.mean(decided) == pytest.approx(chance, abs=0.15 + 2 * math.sqrt(0.25 / runs))


# ------------------------------------------------------------ the promise, by simulation

RUNS = effort.runs(100, whole=2_000)
DELTA = 0.1
TOLERATED = DELTA + 3 * math.sqrt(DELTA / RUNS)


def share_rejected(problem: Problem, environment: object, truth: int, pulls: int) -> float:
    """Return the share of runs in which the right answer was ever rejected."""
    found = 0
    for seed in range(RUNS):
        policy = BlockBetting(problem, delta=DELTA, max_pulls=pulls, planned_end=True, seed=0)
        policy.compiled_run(environment, np.random.default_rng([8, seed]), None)
        found += bool(policy._blocks.state.book.rejected[truth])
    return found / RUNS


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["Gaussian", "fair coins"])
def test_one_of_two_equal_arms_is_seldom_rejected(noise: str) -> None:
    make = GaussianEnvironment if noise == "Gaussian" else fair_coins
    environment = make(TWO_ARMS, np.zeros((2, 1)))
    assert share_rejected(TWO_ARMS, environment, 0, 300) <= TOLERATED


@pytest.mark.statistical
@pytest.mark.parametrize("name", BOUNDED)
def test_the_right_answer_is_seldom_rejected_in_a_range(name: str) -> None:
    arms, groups, floors, means, truth = BOUNDED[name]
    problem = Problem(arms, groups, None, floors, reward_range=(0, 1))
    environment = BernoulliEnvironment(problem, means)
    assert share_rejected(problem, environment, truth, 300) <= TOLERATED


def test_an_end_tells_replacements_that_were_never_made_from_planned_pulls() -> None:
    options = {"max_pulls": 120, "planned_end": True, "losses": "ignorable", "seed": 3}
    policy = equal(BlockBetting(WITH_RANGE, **options), 80)
    open_ = [policy.ask() for _ in range(20)]
    policy.close_group("y")
    lost = {"x": 2, "y": 3}  # of the pulls in flight, when nobody is asked for in group y any more
    for pull in open_:
        group = pull.labels["group"]
        if lost[group]:
            lost[group] -= 1
            policy.fail(pull)
        else:
            policy.tell(pull, 0.5)
    while not policy.stopped:
        for pull in policy.ask(1, group="x"):
            policy.tell(pull, 0.5)
    losses = policy.progress().losses
    assert losses is not None
    assert (losses.made_again, losses.as_worst + losses.in_no_bet) == (2, 3)
    never = 120 - (policy.asked - losses.made_again)
    assert never > 3
    assert policy.recommend().reason.startswith(
        f"the planned end of 120 pulls is reached: {policy.asked} were asked for, 2 of them in "
        f"place of lost ones; {never} planned pulls of the closed group y are not made, and count "
        "as their worst"
    )
    assert any(one.startswith(f"{never} planned pulls") for one in policy.remarks_on_arms())
