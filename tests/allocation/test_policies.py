"""Policies with rewards, losses and time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairtrial as ft
from fairtrial.allocation import (
    KLUCB,
    UCB1,
    BernoulliEnvironment,
    BetaEnvironment,
    ContextualEnvironment,
    DriftingEnvironment,
    EpsilonGreedy,
    FairLearn,
    FairUCB,
    Greedy,
    HorizonFairUCB,
    Learner,
    LearningWithFairness,
    Problem,
    Random,
    ReplayEnvironment,
    RoundRobin,
    SleepingEnvironment,
    SlidingWindowUCB,
    Thompson,
    ThompsonWithFairness,
    UnconstrainedLearner,
)
from fairtrial.core import run_policy
from fairtrial.core.specification import policy_from_dict
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported
from tests import effort
from tests.messages import raises

pytestmark = pytest.mark.filterwarnings("ignore:the shares take every pull")

SHARES = [0.2, 0.3, 0.25]
MEANS = [0.7, 0.5, 0.4]
PROBLEM = Problem(3, SHARES)
ENVIRONMENT = BernoulliEnvironment(PROBLEM, MEANS)
LEARNERS = [
    UCB1(),
    KLUCB(),
    Thompson(),
    EpsilonGreedy(0.2),
    Greedy(),
    RoundRobin(),
    Random(),
    SlidingWindowUCB(20, xi=0.5),
]


def policies(problem=PROBLEM, seed=3):
    return [
        *(FairLearn(problem, learner, seed=seed) for learner in LEARNERS),
        FairLearn(problem, Thompson(), "lazy", seed=seed),
        FairLearn(problem, Thompson(), "lazy", mask=True, seed=seed),
        FairLearn(problem, UCB1(), "largest", carry=2, seed=seed),
        FairLearn(problem, UCB1(), price=4.0, seed=seed),
        FairUCB(problem, seed=seed),
        UnconstrainedLearner(problem, Thompson(), seed=seed),
        HorizonFairUCB(problem, 120, seed=seed),
        LearningWithFairness(problem, eta=3.0, seed=seed),
        ThompsonWithFairness(problem, eta=3.0, seed=seed),
    ]


def name(policy):
    return repr(policy)


# --------------------------------------------------------------------- one engine


@pytest.mark.parametrize("policy", [FairLearn(PROBLEM, Thompson(), seed=1), FairUCB(PROBLEM)])
@pytest.mark.parametrize(
    "environment",
    [
        BetaEnvironment(PROBLEM, MEANS, concentration=[2, 4, 8]),
        DriftingEnvironment(PROBLEM, [MEANS, MEANS[::-1]], [70]),
        ReplayEnvironment(PROBLEM, {"arm": list("0011222"), "reward": [0, 1, 0.5, 1, 0, 0.2, 1]}),
        SleepingEnvironment(PROBLEM, MEANS, [0.3, 0.5, 0.9]),
        ContextualEnvironment(PROBLEM, [MEANS, MEANS[::-1]], [1, 3]),
    ],
    ids=lambda environment: type(environment).__name__,
)
def test_a_compiled_run_in_any_environment_is_the_plain_loop(policy, environment):
    compiled = policy.clone().compiled_run(environment, np.random.default_rng(8), 160)
    plain = run_policy(policy.clone(), environment, np.random.default_rng(8), 160)
    assert compiled.pulls.tolist() == plain.pulls.tolist()
    assert compiled.metrics == pytest.approx(plain.metrics)
    assert compiled.stopping_time == plain.stopping_time == 160


def test_a_learner_of_ones_own_runs_in_a_simulation_and_keeps_the_shares():
    class LastArm(Learner):
        def choose(self, t, counts, sums, allowed):
            return allowed[-1]

    result = ft.simulate(FairLearn(PROBLEM, LastArm()), ENVIRONMENT, 3, horizon=200, progress=False)
    assert (result.metrics["floored_violation"] == 0).all()
    assert result.pulls.tolist() == [[40, 60, 100]] * 3


def test_a_learner_that_overrides_the_choice_of_a_compiled_one_chooses():
    class LastArm(UCB1):
        def choose(self, t, counts, sums, allowed):
            return allowed[-1]

    policy = FairLearn(PROBLEM, LastArm())
    result = ft.simulate(policy, ENVIRONMENT, 3, horizon=200, progress=False)
    assert result.pulls.tolist() == [[40, 60, 100]] * 3
    alone = UnconstrainedLearner(PROBLEM, LastArm())
    assert [pull.arm for pull in alone.ask(3)] == [PROBLEM.arms[-1]] * 3
    with raises(InvalidArgument) as refused:
        FairLearn(PROBLEM, LastArm(), price=1.0)
    assert refused.value.name == "price"


# -------------------------------------------------------------------- save, restore


PAIRS = Problem(4, ["1/2", "2/5", 0, "3/5"], plays=2)
GROUPED = Problem(4, ["1/10", 0, "1/5", 0], groups={"g": ("2/5", ["0", "1"])})


@pytest.mark.parametrize("policy", policies(), ids=name)
def test_a_policy_is_written_down_by_name_and_parameters(policy):
    again = policy_from_dict(policy.to_dict(), PROBLEM, policy.seed)
    assert again.to_dict() == policy.to_dict()
    assert [p.action for p in again.ask(30)] == [p.action for p in policy.clone().ask(30)]


# ------------------------------------------------------------------------ learners


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("scheduler", ["due", "largest", "lazy"])
def test_without_shares_every_scheduler_is_the_bare_learner(learner, scheduler):
    problem = Problem(4, 0)
    environment = BernoulliEnvironment(problem, [0.7, 0.6, 0.5, 0.4])
    pulls = []
    for policy in (
        FairLearn(problem, learner, scheduler, seed=5),
        UnconstrainedLearner(problem, learner, 5),
    ):
        generator, sequence = np.random.default_rng(1), []
        for _ in range(200):
            pull = policy.ask()
            sequence.append(pull.action)
            policy.tell(pull, environment.sample(pull, generator))
        pulls.append(sequence)
    assert pulls[0] == pulls[1]


def ucb(t, counts, sums, allowed):
    fresh = [arm for arm in allowed if counts[arm] == 0]
    if fresh:
        return fresh[0]
    return max(
        allowed, key=lambda arm: sums[arm] / counts[arm] + np.sqrt(2 * np.log(t) / counts[arm])
    )


def kl_ucb(t, counts, sums, allowed):
    fresh = [arm for arm in allowed if counts[arm] == 0]
    if fresh:
        return fresh[0]

    def divergence(p, q):
        left = p * np.log(p / q) if p > 0 else 0.0
        return left + ((1 - p) * np.log((1 - p) / (1 - q)) if p < 1 else 0.0)

    def index(arm):
        mean, low, high = sums[arm] / counts[arm], sums[arm] / counts[arm], 1.0
        while high - low > 1e-10:
            middle = (low + high) / 2
            fits = counts[arm] * divergence(mean, middle) <= np.log(t)
            low, high = (middle, high) if fits else (low, middle)
        return low

    return max(allowed, key=index)


def sliding(width, xi):
    rewards = []

    def choose(t, counts, sums, allowed):
        recent = rewards[-width:]
        fresh = [arm for arm in allowed if all(arm != a for a, _ in recent)]
        if fresh:
            return fresh[0]

        def index(arm):
            own = [x for a, x in recent if a == arm]
            return np.mean(own) + np.sqrt(xi * np.log(min(t, width)) / len(own))

        return max(allowed, key=index)

    return rewards, choose


@pytest.mark.parametrize("rule", [{}, {"scheduler": "lazy", "mask": True}], ids=["due", "mask"])
@pytest.mark.parametrize(
    ("learner", "slow"),
    [(UCB1(), ucb), (KLUCB(), kl_ucb), (SlidingWindowUCB(17, xi=0.5), None)],
    ids=["UCB1", "KLUCB", "SlidingWindowUCB"],
)
def test_an_index_is_that_of_its_formula(learner, slow, rule):
    rewards = []
    if slow is None:
        rewards, slow = sliding(17, 0.5)
    fast, judge = FairLearn(PROBLEM, learner, **rule), FairLearn(PROBLEM, slow, **rule)
    rng = np.random.default_rng(2)
    for _ in range(300):
        pull, other = fast.ask(), judge.ask()
        assert pull.action == other.action
        # Irregular rewards, so that no indices tie.
        reward = float(np.clip(rng.normal(MEANS[pull.action], 0.2), 0, 1))
        rewards.append((pull.action, reward))
        fast.tell(pull, reward)
        judge.tell(other, reward)
    assert fast.metrics() == judge.metrics()


@pytest.mark.statistical
def test_thompson_draws_from_the_posterior():
    """The shares of arms in 4,000 decisions match the posterior, within 4 standard errors."""
    problem = Problem(2, 0)
    policy = UnconstrainedLearner(problem, Thompson(), seed=11)
    for arm, rewards in enumerate(([1, 1, 0], [1, 0, 0, 0])):
        for reward in rewards:
            policy.tell(problem.pull(arm=str(arm)), reward)
    chosen = np.mean([pull.action == 0 for pull in policy.ask(4000)])
    rng = np.random.default_rng(0)
    expected = np.mean(rng.beta(3, 2, 10**6) > rng.beta(2, 4, 10**6))
    assert abs(chosen - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000)


@pytest.mark.statistical
def test_epsilon_is_the_share_of_random_pulls():
    problem = Problem(4, 0)
    policy = UnconstrainedLearner(problem, EpsilonGreedy(0.4), seed=2)
    for arm in range(4):
        policy.tell(problem.pull(arm=str(arm)), float(arm == 3))
    counts = np.bincount([pull.action for pull in policy.ask(4000)], minlength=4) / 4000
    assert np.abs(counts - [0.1, 0.1, 0.1, 0.7]).max() < 4 * np.sqrt(0.21 / 4000)


def test_results_awaited_do_not_make_a_learner_stare_at_one_arm():
    pulls = [pull.action for pull in UnconstrainedLearner(Problem(4, 0), UCB1()).ask(40)]
    assert np.bincount(pulls).tolist() == [10, 10, 10, 10]


def test_a_choice_outside_the_allowed_arms_is_refused_and_changes_nothing():
    for wrong in (3, -1, None, 0.5):
        policy = FairLearn(PROBLEM, lambda t, counts, sums, allowed, wrong=wrong: wrong)
        with raises(InvalidArgument, "learner", given=wrong):
            policy.ask()
        assert policy.asked == 0
        assert policy.credits == (0, 0, 0)
    policy = FairLearn(PROBLEM, lambda t, counts, sums, allowed: 1)
    with raises(InvalidArgument, "learner", given=1):
        policy.ask(awake=["0", "2"])
    assert policy.asked == 0
    assert policy.credits == (0, 0, 0)


# ---------------------------------------------------------- results late, lost, wrong


def test_a_refused_reward_changes_nothing():
    policy = FairLearn(PROBLEM)
    pull = policy.ask()
    before = policy.get_state()
    for reward in (float("nan"), float("inf"), 2.0, "1"):
        with raises(InvalidOutcome):
            policy.tell(pull, reward)
    assert {k: v.tolist() for k, v in policy.get_state().items()} == {
        k: v.tolist() for k, v in before.items()
    }
    policy.tell(pull, 1.0)


@settings(max_examples=effort.runs(20, whole=60))
@given(
    seed=st.integers(0, 2**32),
    scheduler=st.sampled_from(["due", "largest", "lazy"]),
    unfairness_tolerance=st.integers(0, 1),
)
def test_voids_cost_no_more_than_their_number_and_are_made_up_for(
    seed, scheduler, unfairness_tolerance
):
    rng = np.random.default_rng(seed)
    shares = [f"{n}/20" for n in rng.integers(0, 5, 4)]
    problem = Problem(4, shares, unfairness_tolerance)
    policy = FairLearn(problem, lambda t, c, s, allowed: 0, scheduler, allow_unsafe=True)
    counts, t = np.zeros(4, dtype=int), 0
    exact = problem.shares
    for _ in range(30):
        pulls = policy.ask(int(rng.integers(1, 4)))
        lost = [pull for pull in pulls if rng.random() < 0.3]
        for pull in lost:
            policy.fail(pull)
        for pull in pulls:
            counts[pull.action] += pull not in lost
        t += len(pulls) - len(lost)
        assert policy.credits == tuple(r * t - int(n) for r, n in zip(exact, counts, strict=False))
    if scheduler != "largest":
        for pull in policy.ask(60):
            counts[pull.action] += 1
            t += 1
        assert (
            max(r * t // 1 - n for r, n in zip(exact, counts, strict=False)) <= unfairness_tolerance
        )


def test_one_lost_pull_raises_its_arms_credit_by_one_less_its_share():
    policy = FairLearn(PROBLEM, lambda t, counts, sums, allowed: 0)
    pull = policy.ask()
    before = policy.credits
    policy.fail(pull)
    after = policy.credits
    assert after[0] - before[0] == 1 - PROBLEM.shares[0]
    assert after == (0, 0, 0)
    policy.tell(pull, 1.0)
    assert policy.told == 1


def test_how_far_behind_an_arm_was_is_not_forgotten_with_a_round_that_fails():
    policy = UnconstrainedLearner(Problem(3, ["1/2", 0, "1/3"]), lambda t, counts, sums, allowed: 1)
    pulls = policy.ask(2)
    for pull in pulls:
        policy.fail(pull)
        metrics = policy.metrics()
        assert metrics["violation"] == metrics["floored_violation"] == 1
        assert metrics["rounds_in_violation"] == 1
    assert policy.credits == (0, 0, 0)


@pytest.mark.parametrize("delay", [1, 7, 60])
def test_delay_leaves_the_shares_intact(delay):
    policy, waiting = FairLearn(PROBLEM), []
    rng = np.random.default_rng(0)
    for _ in range(600):
        waiting.append(policy.ask())
        if len(waiting) > delay:
            pull = waiting.pop(0)
            policy.tell(pull, float(rng.random() < MEANS[pull.action]))
    assert policy.metrics()["floored_violation"] == 0
    assert policy.recommend().leader == "0"


def test_a_corrected_reward_counts_as_the_new_one():
    first, second = FairLearn(PROBLEM, Thompson(), seed=1), FairLearn(PROBLEM, Thompson(), seed=1)
    for step in range(20):
        pull, other = first.ask(), second.ask()
        assert pull.action == other.action
        first.tell(pull, 0.25)
        first.amend(pull, 0.25, 0.75)
        second.tell(other, 0.75)
        assert step or first.progress().actions[0].mean == pytest.approx(0.75)
    windowed = FairLearn(PROBLEM, SlidingWindowUCB(5))
    pull = windowed.ask()
    windowed.tell(pull, 0.5)
    with raises(NotSupported):
        windowed.amend(pull, 0.5, 0.6)


def test_rewards_in_another_range_are_rescaled():
    dollars = Problem(3, SHARES, reward_range=(-10, 30))
    first, second = FairLearn(dollars, UCB1()), FairLearn(PROBLEM, UCB1())
    rng = np.random.default_rng(0)
    for _ in range(200):
        pull, other = first.ask(), second.ask()
        assert pull.action == other.action
        reward = float(rng.random() < MEANS[pull.action])
        first.tell(pull, 40 * reward - 10)
        second.tell(other, reward)
    means = [estimate.mean for estimate in first.progress().actions]
    assert means == pytest.approx([40 * e.mean - 10 for e in second.progress().actions])


# Not "lazy", which compares the due rounds of all arms: these are integers, so they tie.
@pytest.mark.parametrize("scheduler", ["due", "largest"])
@pytest.mark.parametrize("learner", [UCB1(), KLUCB(), Greedy()], ids=repr)
def test_permuting_the_arms_permutes_the_result(learner, scheduler):
    order = [2, 0, 1]
    shares, values = [0.11, 0.32, 0.23], [0.71, 0.52, 0.43]
    first = FairLearn(Problem(3, shares), learner, scheduler)
    second = FairLearn(Problem(3, [shares[i] for i in order]), learner, scheduler)
    # The first round has ties, which the told data break.
    for policy, places in ((first, [0, 1, 2]), (second, order)):
        for arm, place in enumerate(places):
            policy.tell(policy.problem.pull(arm=str(arm)), values[place])
    for _ in range(300):
        pull, other = first.ask(), second.ask()
        assert pull.action == order[other.action]
        first.tell(pull, values[pull.action])
        second.tell(other, values[pull.action])


# ------------------------------------------------------------- sleep, contexts, report


@settings(max_examples=effort.runs(20, whole=40))
@given(seed=st.integers(0, 2**32), unfairness_tolerance=st.integers(0, 1))
def test_among_sleepers_the_largest_awake_credit_is_pulled(seed, unfairness_tolerance):
    rng = np.random.default_rng(seed)
    arms = int(rng.integers(2, 6))
    shares = [f"{n}/30" for n in rng.integers(0, 30 // arms, arms)]
    problem = Problem(arms, shares, unfairness_tolerance)
    policy = FairLearn(problem, lambda t, c, s, allowed: allowed[0])
    owing = [0] * arms
    worst = 0
    for _ in range(80):
        awake = [arm for arm in range(arms) if rng.random() < 0.5]
        if len(awake) == arms:
            continue
        asked = policy.ask(1, awake=[str(arm) for arm in awake])
        if not awake:
            assert asked == []
            continue
        owed = [arm for arm in awake if owing[arm] > unfairness_tolerance]
        expected = max(owed, key=lambda arm: (owing[arm], -arm)) if owed else awake[0]
        assert asked[0].action == expected
        for arm in awake:
            owing[arm] += problem.shares[arm]
        owing[expected] -= 1
        worst = max(worst, *owing)
        assert policy.credits == tuple(owing)
    assert policy.metrics()["violation"] == pytest.approx(float(worst))


@pytest.mark.parametrize("plays", [1, 2])
def test_the_longest_gap_is_that_between_two_rounds_of_an_arm(plays):
    policy = FairLearn(Problem(5, "1/10", plays=plays), Random(), seed=2)
    policy.ask(10 * plays)
    policy, rounds = policy.next_epoch(policy.problem), []
    for t in range(1, 40):
        rounds.append({pull.action for pull in policy.ask(plays)})
        metrics = policy.metrics()
        for arm in range(5):
            served = [0, *(s for s, arms in enumerate(rounds, start=1) if arm in arms), t]
            assert metrics[f"longest_gap {arm}"] == max(np.diff(served))
        assert metrics["longest_gap"] == max(metrics[f"longest_gap {arm}"] for arm in range(5))


@pytest.mark.parametrize(
    "policy",
    [
        *(FairLearn(Problem(5, 0), learner, seed=1) for learner in LEARNERS),
        LearningWithFairness(Problem(5, "1/9"), eta=2),
        ThompsonWithFairness(Problem(5, "1/9"), eta=2, seed=1),
    ],
    ids=name,
)
def test_every_learner_keeps_to_the_arms_that_are_awake(policy):
    policy, rng = policy.clone(), np.random.default_rng(3)
    for _ in range(150):
        awake = [str(arm) for arm in range(5) if rng.random() < 0.5] or ["4"]
        pull = policy.ask(awake=awake)
        assert pull.arm in awake
        policy.tell(pull, (0.9, 0.1, 0.5, 0.2, 0.3)[pull.action])


@pytest.mark.parametrize(
    "policy",
    [UnconstrainedLearner(PROBLEM, Greedy()), LearningWithFairness(PROBLEM, eta=1000)],
    ids=name,
)
def test_who_forces_no_arm_forces_none_that_is_awake(policy):
    policy = policy.clone()
    for arm in range(180):
        pull = policy.ask(awake=[str(arm % 3), "0"])
        policy.tell(pull, float(pull.action == 0))
    assert max(policy.credits) > 1
    assert policy.metrics()["forced_share"] == 0


@pytest.mark.parametrize("learner", [each for each in LEARNERS if each != Thompson()], ids=repr)
def test_an_arm_whose_only_pull_failed_comes_first_again(learner):
    policy = UnconstrainedLearner(Problem(3, 0), learner, seed=1)
    pulls = policy.ask(3)
    assert [pull.action for pull in pulls] == [0, 1, 2]
    for pull in (pulls[0], pulls[2]):
        policy.tell(pull, 1.0)
    policy.fail(pulls[1])
    assert policy.ask().action == 1


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_an_arm_that_slept_at_first_comes_first_once_it_wakes(learner):
    policy = FairLearn(Problem(3, 0), learner, seed=1)
    for arm in ("1", "2"):
        pull = policy.ask(awake=["1", "2"])
        assert pull.arm == arm
        policy.tell(pull, 1.0)
    assert policy.ask().arm == "0" or isinstance(learner, Thompson)


def test_the_guarantee_says_who_is_promised_what():
    def said(problem):
        return FairLearn(problem).guarantee.statement

    assert said(PROBLEM).endswith(
        "every arm are at least its share of all rounds so far, rounded down"
    )
    assert said(Problem(3, "1/5", 2)).endswith("so far, rounded down and less 2")
    assert "every arm and every group are" in said(GROUPED)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (FairLearn(PROBLEM), "none F rounds later if no other pull fails"),
        (FairLearn(PROBLEM, scheduler="lazy"), "none F rounds later if no other pull fails"),
        (FairLearn(GROUPED), "none F rounds later if no other pull fails"),
        (FairLearn(Problem(3, "1/5"), scheduler="largest"), "failed since the last free round"),
        (FairLearn(PAIRS), "how long is not proven"),
    ],
    ids=["due", "lazy", "groups", "largest", "plays"],
)
def test_the_guarantee_says_what_holds_after_pulls_that_failed(policy, said):
    policy = policy.clone()
    for pull in policy.ask(4):
        policy.fail(pull)
    assert policy.guarantee.assumptions[-1].endswith(said)


def test_the_guarantee_of_a_later_epoch_says_what_failed_pulls_of_before_may_cost():
    policy = FairLearn(PROBLEM)
    policy.ask(4)
    assert "earlier epoch" in policy.next_epoch(PROBLEM).guarantee.assumptions[-1]
    assert policy.guarantee.proven


def test_sleeping_arms_weaken_the_guarantee():
    policy = FairLearn(PROBLEM)
    policy.ask(awake=["0", "1", "2"])
    assert policy.guarantee.proven
    policy.ask(awake=["1"])
    assert not policy.guarantee.proven
    for wrong in (["x"], "0", 3):
        with raises(InvalidArgument, "awake"):
            policy.ask(awake=wrong)


def test_contexts_are_told_apart_by_the_learner_alone():
    policy = FairLearn(PROBLEM, Greedy(), contexts=2)
    rng = np.random.default_rng(0)
    best = [0, 2]
    for _ in range(400):
        context = int(rng.integers(2))
        pull = policy.ask(context=context)
        policy.tell(pull, float(pull.action == best[context]))
    assert policy.metrics()["floored_violation"] == 0
    assert len(policy._state.cells.told) == 6
    for wrong in (None, 2, -1):
        with raises(InvalidArgument, "context", given=wrong):
            policy.ask(context=wrong)


@pytest.mark.statistical
def test_a_price_spends_quotas_where_they_cost_little():
    """Loss per 1,000 rounds against the best fair contextual schedule; 4 runs of 10,000 rounds.

    Arms 1 and 2 cost 0.05 in their own context and 0.5 elsewhere. If all pulls were forced at
    random, the loss would be 0.4 (0.35 - 0.05) per round, or 120; the learner makes some of them
    itself where they cost little.
    """
    means = np.array([[0.8, 0.75, 0.3], [0.8, 0.3, 0.75], [0.8, 0.3, 0.3]])
    problem = Problem(3, [0, 0.2, 0.2], unfairness_tolerance=20)
    environment = ContextualEnvironment(problem, means)
    assert environment.fair_value == pytest.approx(0.8 - 0.4 * 0.05)
    lost = {}
    for price in (None, 50.0):
        policy = FairLearn(problem, scheduler="lazy", contexts=3, price=price)
        result = ft.simulate(policy, environment, 4, horizon=10_000, progress=False)
        lost[price] = result.metrics["fair_regret"].mean() / 10
        assert (result.metrics["floored_violation"] <= 20).all()
        assert (result.metrics["rounds_in_violation"] == 0).all()
    assert lost[None] > 60
    assert lost[50.0] < lost[None] / 2


def test_progress_sets_shares_against_quotas():
    policy = FairLearn(PROBLEM, seed=1)
    assert policy.recommend().leader is None
    for _ in range(100):
        pull = policy.ask()
        policy.tell(pull, MEANS[pull.action])
    progress = policy.progress()
    assert progress.recommendation.leader == "0"
    assert progress.recommendation.arm is None
    assert [estimate.lower_limit for estimate in progress.arms] == SHARES
    assert sum(estimate.mean for estimate in progress.arms) == pytest.approx(1)
    assert sum(one.behind for one in progress.shares) == pytest.approx(75 - 100)
    for estimate, mean in zip(progress.actions, MEANS, strict=True):
        assert estimate.mean == pytest.approx(mean)
        assert estimate.lower < mean < estimate.upper
    assert not policy.stopped
    assert policy.to_cancel() == []
    progress.to_dict()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"scheduler": "first"}, "scheduler"),
        ({"carry": 0}, "carry"),
        ({"carry": 1, "scheduler": "lazy"}, "carry"),
        ({"mask": True}, "mask"),
        ({"price": 0}, "price"),
        ({"price": 1, "learner": RoundRobin()}, "price"),
        ({"contexts": 0}, "contexts"),
        ({"learner": "ucb"}, "learner"),
        ({"learner": UCB1}, "learner"),
        ({"scheduler": "lazy", "mask": "yes"}, "mask"),
        ({"scheduler": "largest", "allow_unsafe": "no"}, "allow_unsafe"),
    ],
)
def test_bad_arguments_are_named(arguments, named):
    with raises(InvalidArgument) as caught:
        FairLearn(PROBLEM, **arguments)
    assert caught.value.name == named


def test_the_largest_credit_is_refused_where_it_is_not_proven():
    problem = Problem(["a", "b", "c"], ["17/25", "1/5", 0])
    with raises(InvalidArgument, "scheduler"):
        FairLearn(problem, scheduler="largest")
    assert not FairLearn(problem, scheduler="largest", allow_unsafe=True).guarantee.proven
    FairUCB(Problem(3, ["33/100", "0", "33/100"]))


def test_a_horizon_too_short_for_the_quotas_is_refused():
    with raises(InvalidArgument, "horizon", given=4):
        HorizonFairUCB(Problem(5, 0.01), horizon=4)
    with raises(InvalidArgument, "horizon", given=None):
        ft.simulate(FairUCB(PROBLEM), ENVIRONMENT, 2, progress=False)
