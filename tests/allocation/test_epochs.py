"""Shares and arms that change during a run: credits, rewards and guarantees continue."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairtrial as ft
from fairtrial.allocation import (
    KLUCB,
    UCB1,
    BernoulliEnvironment,
    FairLearn,
    FairUCB,
    Learner,
    Problem,
    SlidingWindowUCB,
    Thompson,
)
from fairtrial.allocation.policies.initial_values import MOST_CREDIT
from fairtrial.core.specification import policy_from_dict
from fairtrial.errors import AlreadyTold, InvalidArgument, NotSupported
from fairtrial.testing import check_policy
from tests import effort
from tests.allocation.adversaries import hostile, quotas
from tests.allocation.slow import SlowQuotas
from tests.messages import raises

pytestmark = pytest.mark.filterwarnings("ignore:the shares take every pull")

NAMES = {"due": "due_first", "largest": "largest", "lazy": "lazy"}
MEANS = [0.7, 0.5, 0.4]
PROBLEM = Problem(["a", "b", "c"], ["1/5", "3/10", "1/4"])
CREDITS = {"a": "-7/3", "b": "-1/11", "c": -4.25}


def first(t, counts, sums, allowed):
    return allowed[0]


def last(t, counts, sums, allowed):
    return allowed[-1]


def credits_for(shares, unfairness_tolerance):
    """Return a strategy of credits, some at the tolerance, some far below."""
    part = st.fractions(-4, unfairness_tolerance, max_denominator=12)
    return st.lists(part, min_size=len(shares), max_size=len(shares))


# ----------------------------------------------------------------- against the slow


@pytest.mark.parametrize(
    ("scheduler", "mask", "carry"),
    [
        ("due", False, None),
        ("due", False, 2),
        ("largest", False, None),
        ("lazy", False, None),
        ("lazy", True, None),
    ],
)
@settings(max_examples=effort.runs(10, whole=25))
@given(data=st.data())
def test_credits_of_before_are_served_as_by_the_slow_scan(scheduler, mask, carry, data):
    shares = data.draw(quotas())
    unfairness_tolerance = data.draw(st.integers(0, 2))
    initial = data.draw(credits_for(shares, unfairness_tolerance))
    choices = iter(np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 7, 999))
    slow = SlowQuotas(shares, unfairness_tolerance, carry, initial)
    picked = []

    def learner(t, counts, sums, allowed):
        picked.append((hostile(slow, choices)(allowed.tolist()), allowed.tolist()))
        return picked[-1][0]

    def same(allowed):
        arm, given_allowed = picked.pop()
        assert given_allowed == allowed
        return arm

    policy = FairLearn(
        Problem(len(shares), shares, unfairness_tolerance),
        learner,
        scheduler,
        carry,
        mask,
        allow_unsafe=True,
        initial_credits=initial,
    )
    assert policy.credits == tuple(initial)
    for _ in range(60):
        action = policy.ask().action
        assert action == slow.step("masked" if mask else NAMES[scheduler], same)
        assert not picked
    metrics = policy.metrics()
    assert metrics["violation"] == pytest.approx(float(slow.worst))
    assert metrics["floored_violation"] == slow.worst // 1
    assert metrics["rounds_in_violation"] == slow.overdue
    if carry is None:
        assert policy.credits == tuple(slow.credits)


def test_credits_too_fine_for_64_bits_are_rounded_down_and_owe_the_same_whole_pulls():
    initial = [Fraction(-1, 1_000_003), Fraction(-2, 1_000_033), Fraction(-5, 7)]
    policy = FairLearn(PROBLEM, first, initial_credits=initial)
    rounded = policy.credits
    assert rounded != tuple(initial)
    unit = PROBLEM.denominator
    for credit, below, share in zip(initial, rounded, PROBLEM.shares, strict=True):
        assert credit - Fraction(1, unit) < below <= credit
        for t in range(200):
            assert (credit + share * t) // 1 == (below + share * t) // 1
    slow = SlowQuotas(PROBLEM.shares, initial=rounded)
    for _ in range(200):
        assert policy.ask().action == slow.step("due_first", lambda allowed: 0)


# ----------------------------------------------------------------- one epoch, and all


def epochs(draw_shares, labels, rng):
    """Yield problems with changing arms of `labels`; those in `labels[0]` always stay."""
    for shares in draw_shares:
        arms = [labels[0], *rng.permutation(labels[1:])[: len(shares) - 1].tolist()]
        yield Problem(arms, shares)


@settings(max_examples=effort.runs(25, whole=60))
@given(
    shares=st.lists(quotas(), min_size=2, max_size=5),
    seed=st.integers(0, 2**32),
    scheduler=st.sampled_from(["due", "lazy", "masked"]),
    carry=st.sampled_from([None, 1, 3]),
    unfairness_tolerance=st.integers(0, 2),
)
def test_no_hostile_learner_breaks_the_promise_of_an_epoch_or_of_all(
    shares, seed, scheduler, carry, unfairness_tolerance
):
    rng = np.random.default_rng(seed)
    choices = iter(rng.integers(0, 7, 10_000).tolist())
    lazy = scheduler != "due"
    policy, owed, pulled, holder = None, {}, {}, []

    def learner(t, counts, sums, allowed):
        return hostile(holder[-1], choices)(allowed.tolist())

    for number, problem in enumerate(epochs(shares, list("stuvwxyz"), rng)):
        problem = problem.clone(unfairness_tolerance=unfairness_tolerance)
        if policy is None:
            policy = FairLearn(
                problem,
                learner,
                "lazy" if lazy else "due",
                None if lazy else carry,
                scheduler == "masked",
            )
        else:
            before = dict(zip(policy.problem.arms, policy.credits, strict=True))
            policy = policy.next_epoch(problem)
            if carry is None or lazy:
                kept = (min(before.get(arm, 0), unfairness_tolerance) for arm in problem.arms)
                assert policy.initial_credits == tuple(kept)
        # From here on, the guarantee is checked by hand, from the arguments alone.
        judge = SlowQuotas(problem.shares, unfairness_tolerance, initial=policy.initial_credits)
        holder.append(judge)
        here = {arm: (owed.get(arm, 0), pulled.get(arm, 0)) for arm in problem.arms}
        owed, pulled = dict.fromkeys(here, 0), dict.fromkeys(here, 0)
        for arm, (debt, pulls) in here.items():
            owed[arm], pulled[arm] = debt, pulls
        for _ in range(int(rng.integers(1, 60))):
            action = policy.ask().action
            judge.pull(action, False)
            pulled[problem.arms[action]] += 1
            assert max(credit // 1 for credit in judge.credits) <= unfairness_tolerance
            for arm, share in zip(problem.arms, problem.shares, strict=True):
                owed[arm] += share
                assert owed[arm] // 1 - pulled[arm] <= unfairness_tolerance + number
        assert policy.metrics()["rounds_in_violation"] == 0
        assert policy.guarantee.proven


def test_the_bound_over_all_epochs_is_sharp():
    """Four epochs, each of which ends when the second arm would be next."""
    policy, second = FairLearn(Problem(3, ["9/20", "9/20", 0]), last), 0
    for number in range(4):
        policy = policy.next_epoch(policy.problem) if number else policy
        second += sum(pull.action == 1 for pull in policy.ask(2))
        assert Fraction(9, 20) * 2 * (number + 1) // 1 - second == number


@settings(max_examples=effort.runs(20, whole=40))
@given(seed=st.integers(0, 2**32))
def test_groups_keep_their_credits(seed):
    rng = np.random.default_rng(seed)
    policy = None
    for _ in range(3):
        own = Fraction(int(rng.integers(1, 30)), 60)
        inside = Fraction(int(rng.integers(0, own * 60 // 2 + 1)), 60)
        problem = Problem(
            ["a", "b", "c"],
            {"a": inside, "c": Fraction(int(rng.integers(0, 30)), 60)},
            groups={"g": (own, ["a", "b"])},
        )
        learner = lambda t, counts, sums, allowed: rng.choice(allowed)  # noqa: E731
        policy = FairLearn(problem, learner) if policy is None else policy.next_epoch(problem)
        initial = policy.initial_credits or (0, 0, 0, 0)
        counts = np.zeros(3, dtype=int)
        for t in range(1, 60):
            counts[policy.ask().action] += 1
            owed = [c + r * t for c, r in zip(initial, (*problem.shares, own), strict=True)]
            had = [*counts.tolist(), int(counts[:2].sum())]
            assert all(debt // 1 <= pulls for debt, pulls in zip(owed, had, strict=True))
        credit = initial[3] + own * 59 - int(counts[:2].sum())
        assert policy.next_epoch(problem).initial_credits[3] == min(credit, 0)


@settings(max_examples=effort.runs(15, whole=40))
@given(seed=st.integers(0, 2**32), plays=st.integers(2, 3))
def test_several_plays_keep_the_promise_of_every_epoch(seed, plays):
    rng = np.random.default_rng(seed)
    policy = None
    for _ in range(3):
        arms = plays + int(rng.integers(1, 4))
        parts = rng.integers(0, 13, arms)
        while parts.sum() >= 12 * plays:
            parts[int(rng.integers(arms))] //= 2
        problem = Problem(arms, [Fraction(int(part), 12) for part in parts], plays=plays)
        learner = lambda t, counts, sums, allowed: rng.choice(allowed)  # noqa: E731
        policy = FairLearn(problem, learner) if policy is None else policy.next_epoch(problem)
        # Rounded down to whole rounds, so less by at most the share of one round.
        initial, given = policy.credits, policy.initial_credits or (0,) * arms
        for credit, rounded, share in zip(given, initial, problem.shares, strict=True):
            assert not share or credit - share < rounded <= credit
        counts = np.zeros(arms, dtype=int)
        for t in range(1, 50):
            pulled = [pull.action for pull in policy.ask(plays)]
            assert len(set(pulled)) == plays
            counts[pulled] += 1
            for credit, share, pulls in zip(initial, problem.shares, counts, strict=True):
                assert not share or (credit + share * t) // 1 <= pulls


def test_with_several_plays_a_pull_made_up_for_is_whole_rounds_of_credit():
    """So the arm has the windows of an arm that began that many rounds earlier."""
    problem = Problem(4, "2/5", unfairness_tolerance=1, plays=2)
    policy = FairLearn(problem, last)
    pull = policy.ask(2)[0]
    policy = policy.next_epoch(problem)
    assert policy.credits == (Fraction(2, 5), Fraction(2, 5), Fraction(-4, 5), Fraction(-4, 5))
    policy.fail(pull)
    assert policy.credits[pull.action] == Fraction(0)


def test_a_round_of_several_plays_must_be_complete():
    policy = FairLearn(Problem(3, "1/2", plays=2))
    policy.ask()
    with raises(NotSupported):
        policy.next_epoch(Problem(3, "1/3", plays=2))
    policy.ask()
    policy.next_epoch(Problem(3, "1/3", plays=2))


def test_arms_that_come_begin_with_nothing_and_those_that_go_are_forgotten():
    policy = FairLearn(PROBLEM, first)
    policy.ask(10)
    before = dict(zip(PROBLEM.arms, policy.credits, strict=True))
    later = policy.next_epoch(Problem(["c", "d", "a"], ["1/7", "1/7", "1/2"]))
    assert later.initial_credits == (before["c"], 0, before["a"])
    assert "c_i" in later.guarantee.statement


# ---------------------------------------------------------------------- what was learned


class Watching(Learner):
    """A learner that remembers its arguments."""

    def choose(self, t, counts, sums, allowed):
        self.seen = t, counts.tolist(), sums.tolist()
        return int(allowed[-1])


def test_the_learner_keeps_the_rewards_of_arms_that_stay():
    problem = PROBLEM.clone(reward_range=(-10, 30))
    policy = FairLearn(problem, Watching())
    for _ in range(20):
        pull = policy.ask()
        policy.tell(pull, 4.0 * pull.action - 6)
    counts = {estimate.labels["arm"]: estimate.pulls for estimate in policy.progress().actions}
    later = policy.next_epoch(Problem(["c", "d", "a"], 0, reward_range=(-10, 30)))
    later.ask()
    t, shown, sums = later._learner.seen
    assert shown == [counts["c"], 0, counts["a"]]
    assert sums == pytest.approx([2 * counts["c"], 0, -6 * counts["a"]])
    assert t == 1 + counts["c"] + counts["a"]
    means = [estimate.mean for estimate in later.progress().actions]
    assert means == [pytest.approx(2), None, pytest.approx(-6)]


@pytest.mark.parametrize("learner", [UCB1(), KLUCB()], ids=repr)
def test_a_learner_goes_on_as_if_no_epoch_had_begun(learner):
    problem = Problem(4, 0)
    rng = np.random.default_rng(1)
    rewards = rng.random((200, 4)).round(3)
    straight, changing = FairLearn(problem, learner), FairLearn(problem, learner)
    for t, row in enumerate(rewards):
        if t == 90:
            changing = changing.next_epoch(problem)
        pull, other = straight.ask(), changing.ask()
        assert pull.action == other.action
        straight.tell(pull, row[pull.action])
        changing.tell(other, row[other.action])


def test_contexts_keep_their_rewards_apart():
    policy = FairLearn(PROBLEM, Watching(), contexts=2)
    for step in range(30):
        pull = policy.ask(context=step % 2)
        policy.tell(pull, float(step % 2))
    later = policy.next_epoch(PROBLEM)
    for context in (0, 1):
        policy.ask(context=context)
        later.ask(context=context)
        assert later._learner.seen[1:] == policy._learner.seen[1:]
    with raises(InvalidArgument, "initial_rewards"):
        policy.next_epoch(PROBLEM, contexts=3)
    policy.next_epoch(PROBLEM, contexts=3, initial_rewards=None)


def test_thompson_begins_at_the_posterior_of_before():
    """Compare the share of each arm in 4,000 decisions of both, within 4 standard errors."""
    problem = Problem(2, 0)
    told = FairLearn(problem, Thompson(), seed=3)
    for arm, rewards in enumerate(([1, 1, 0], [1, 0, 0, 0])):
        for reward in rewards:
            told.tell(problem.pull(arm=str(arm)), reward)
    later = told.next_epoch(problem)
    assert later.initial_rewards == ((3, 2), (4, 1))
    shares = [np.mean([pull.action for pull in policy.ask(4000)]) for policy in (told, later)]
    assert later.seed != told.seed
    assert abs(shares[0] - shares[1]) < 4 * np.sqrt(2 * 0.25 / 4000)


# ------------------------------------------------------------------------ pulls in flight


def test_a_result_in_flight_is_learned_where_its_arm_is_now():
    policy = FairLearn(PROBLEM, first)
    before = {pull.arm: pull for pull in policy.ask(12)}
    policy = policy.next_epoch(Problem(["c", "d", "a"], ["1/4", "1/7", "1/2"]))
    assert policy.asked == 12
    assert {pull.arm for pull in policy.outstanding()} == {"a", "c"}
    now = policy.ask()
    assert now.number == 12
    policy.tell(before["a"], 1.0)
    policy.tell(before["b"], 1.0)
    policy.tell(before["c"], 0.5)
    means = {each.labels["arm"]: each.mean for each in policy.progress().actions}
    assert means == {"c": 0.5, "d": None, "a": 1.0}
    with raises(AlreadyTold):
        policy.tell(before["a"], 0.0)
    with raises(NotSupported):
        policy.amend(policy._pull(before["a"].number, 2, 0), 1.0, 0.0)
    policy.tell(now, 1.0)


def test_a_pull_of_a_group_that_fails_in_a_later_epoch_is_made_up_for_in_both():
    problem = Problem(["a", "b", "c"], 0, unfairness_tolerance=1, groups={"g": ("1/2", ["a", "b"])})
    policy = FairLearn(problem, first)
    pull = policy.ask()
    policy = policy.next_epoch(problem)
    assert policy.initial_credits == (-1, 0, 0, Fraction(-1, 2))
    policy.fail(pull)
    assert policy.next_epoch(problem).initial_credits == (0, 0, 0, Fraction(1, 2))


def test_a_result_in_flight_passes_through_epochs_and_contexts():
    policy = FairLearn(PROBLEM, first, contexts=3)
    pulls = [policy.ask(context=context) for context in range(3)]
    policy = policy.next_epoch(PROBLEM.clone(unfairness_tolerance=1))
    # The third context is gone, with everything that belongs to it.
    policy = policy.next_epoch(PROBLEM, contexts=2, initial_rewards=None)
    assert [pull.tag for pull in policy.outstanding()] == [0, 1]
    restored = policy.clone()
    restored.set_state(policy.get_state())
    for pull in pulls:
        restored.tell(pull, 1.0)
    numbers, sums = restored._state.rewards().swapaxes(0, 1)
    assert numbers.sum(axis=1).tolist() == sums.sum(axis=1).tolist() == [1, 1]


def test_a_result_of_a_pull_that_was_given_up_is_learned_in_a_later_epoch():
    policy = FairLearn(PROBLEM, first)
    pull = policy.ask()
    policy.fail(pull)
    policy = policy.next_epoch(PROBLEM)
    policy.tell(pull, 1.0)
    assert policy.progress().actions[0].mean == 1.0


def test_a_price_begins_with_what_is_owed():
    problem = PROBLEM.clone(unfairness_tolerance=3)
    policy = FairLearn(problem, price=1, initial_credits={"b": 2, "c": -2})
    assert (policy._state.nodes.queue / policy._state.control.unit).tolist() == [0, 2, 0]


def test_a_published_policy_takes_over_what_is_in_flight():
    policy = FairUCB(Problem(3, "1/5"))
    pull = policy.ask()
    policy = policy.next_epoch(Problem(3, "1/4"))
    policy.tell(pull, 1.0)
    assert policy.progress().actions[0].mean == 1.0


@settings(max_examples=effort.runs(15, whole=40))
@given(
    shares=st.lists(quotas(), min_size=2, max_size=4),
    seed=st.integers(0, 2**32),
    scheduler=st.sampled_from(["due", "lazy", "masked"]),
    unfairness_tolerance=st.integers(0, 2),
)
def test_a_pull_that_fails_in_a_later_epoch_is_made_up_for(
    shares, seed, scheduler, unfairness_tolerance
):
    rng = np.random.default_rng(seed)
    policy, lazy, flying = None, scheduler != "due", []

    def learner(t, counts, sums, allowed):
        return int(rng.choice(allowed))

    for problem in epochs(shares, list("stuvwxyz"), rng):
        problem = problem.clone(unfairness_tolerance=unfairness_tolerance)
        if policy is None:
            policy = FairLearn(
                problem, learner, "lazy" if lazy else "due", mask=scheduler == "masked"
            )
        else:
            policy = policy.next_epoch(problem)
        share_of = dict(zip(problem.arms, problem.shares, strict=True))
        owed = dict(zip(problem.arms, policy.credits, strict=True))
        begun, first = dict(owed), policy.asked
        for pull in flying:
            if pull.arm not in owed:
                policy.fail(pull)
        flying = [pull for pull in flying if pull.arm in owed]
        for _ in range(int(rng.integers(1, 40))):
            flying.append(policy.ask())
            count_round(owed, share_of, flying[-1].arm, 1)
            if rng.random() < 0.4:
                pull = flying.pop(int(rng.integers(len(flying))))
                policy.fail(pull)
                if pull.number >= first:
                    count_round(owed, share_of, pull.arm, -1)
                else:
                    more = min(1, unfairness_tolerance - begun[pull.arm])
                    begun[pull.arm] += more
                    owed[pull.arm] += more
            assert policy.credits == tuple(owed.values())
    for pull in policy.ask(400):
        count_round(owed, share_of, pull.arm, 1)
    assert max(credit // 1 for credit in owed.values()) <= unfairness_tolerance


def count_round(owed, share_of, pulled, times):
    for arm, share in share_of.items():
        owed[arm] += times * share
    owed[pulled] -= times


# ----------------------------------------------------------- everywhere that policies go


def begun(scheduler="due", learner=None, **arguments):
    return FairLearn(
        PROBLEM,
        learner,
        scheduler,
        initial_credits=CREDITS,
        initial_rewards={"a": (5, 3), "c": (2, 0.5)},
        seed=4,
        **arguments,
    )


BEGUN = [
    begun(),
    begun("largest", carry=2),
    begun("lazy", Thompson()),
    begun("lazy", mask=True),
    begun(price=4.0),
    begun(learner=SlidingWindowUCB(30)),
    FairUCB(PROBLEM, CREDITS, {"b": (3, 1)}),
]


def test_a_study_goes_on_in_the_study_of_the_next_epoch(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    rng = np.random.default_rng(5)
    policy = FairLearn(PROBLEM, Thompson())
    later = Problem(["c", "a", "d"], ["1/3", "1/7", "1/5"])
    with ft.Study.create(PROBLEM, policy, storage=url, name="spring", seed=1) as study:
        for pull in study.ask(50):
            study.tell(pull, float(rng.random() < 0.5))
        owed = dict(zip(PROBLEM.arms, study.policy.credits, strict=True))
        following = study.policy.next_epoch(later)
    ft.Study.create(later, following, storage=url, name="summer", seed=2).close()
    counts = np.zeros(3, dtype=int)
    for _ in range(3):
        with ft.Study.open(url, "summer") as study:
            for pull in study.ask(20):
                counts[pull.action] += 1
            initial = study.policy.initial_credits
            assert initial == (min(owed["c"], 0), min(owed["a"], 0), 0)
            assert study.policy.initial_rewards == following.initial_rewards
            assert study.verify().ok
    promised = [(c + r * 60) // 1 for c, r in zip(initial, later.shares, strict=True)]
    assert (counts >= promised).all()


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("initial_credits", [0, 0], "initial_credits"),
        ("initial_credits", "1/2", "initial_credits"),
        ("initial_credits", {"x": 0}, "initial_credits"),
        ("initial_credits", {"b": "x"}, "initial_credits[b]"),
        ("initial_credits", {"b": float("nan")}, "initial_credits[b]"),
        ("initial_credits", {"b": True}, "initial_credits[b]"),
        ("initial_credits", {"b": "1/2"}, "initial_credits[b]"),
        ("initial_credits", {"b": -(10**10)}, "initial_credits[b]"),
        ("initial_rewards", [(1, 1)], "initial_rewards"),
        ("initial_rewards", {"x": (1, 1)}, "initial_rewards"),
        ("initial_rewards", {"a": 3}, "initial_rewards[a]"),
        ("initial_rewards", {"a": (1, 2)}, "initial_rewards[a]"),
        ("initial_rewards", {"a": (-1, 0)}, "initial_rewards[a]"),
        ("initial_rewards", {"a": (float("inf"), 1)}, "initial_rewards[a]"),
    ],
)
def test_what_cannot_be_is_refused_by_name(name, value, named):
    with raises(InvalidArgument, named):
        FairLearn(PROBLEM, **{name: value})


def test_a_credit_beyond_what_64_bits_count_is_refused_and_a_surplus_cut_to_it():
    patient = PROBLEM.clone(unfairness_tolerance=10**30)
    with raises(InvalidArgument, "initial_credits[a]"):
        FairLearn(patient, initial_credits={"a": 10**25})
    policy = FairLearn(patient, initial_credits={"a": MOST_CREDIT, "b": -MOST_CREDIT})
    policy.ask(40)
    later = policy.next_epoch(patient)
    assert later.initial_credits[0] <= MOST_CREDIT
    assert later.initial_credits[1] == max(-MOST_CREDIT, policy.credits[1])
    assert later.next_epoch(PROBLEM).initial_credits[0] == 0


@pytest.mark.parametrize("unfairness_tolerance", [0, 7, 10**30])
@pytest.mark.parametrize("credit", [0, -5, -MOST_CREDIT])
def test_no_product_or_sum_of_the_last_round_is_beyond_64_bits(unfairness_tolerance, credit):
    problem = Problem(2, ["0.000000001", "0.5"], unfairness_tolerance)
    policy = FairLearn(problem, initial_credits=[credit, 0])
    control = policy._state.control
    columns = (control.limit, control.unit, control.tolerance)
    limit, unit, allowed = (int(column[0]) for column in columns)
    assert unit == 10**9
    assert unit * (limit + allowed + 2 - credit) < 2**63
    assert limit > 10**9


def test_the_share_of_forced_pulls_is_that_of_the_epoch():
    problem = Problem(2, [0, "1/2"])
    policy = FairLearn(problem, first)
    for _ in range(2):
        assert [pull.action for pull in policy.ask(4)] == [0, 1, 0, 1]
        assert policy.metrics()["forced_share"] == 0.5
        policy = policy.next_epoch(problem)


def test_a_corrected_reward_of_a_later_epoch_counts_as_the_new_one():
    policy = FairLearn(PROBLEM, Thompson(), seed=1)
    policy.ask(7)
    amended = policy.next_epoch(PROBLEM)
    told = amended.clone()
    told.set_state(amended.get_state())
    for _ in range(20):
        pull, other = amended.ask(), told.ask()
        assert pull.action == other.action
        amended.tell(pull, 0.25)
        amended.amend(pull, 0.25, 0.75)
        told.tell(other, 0.75)


def test_the_next_problem_is_checked_as_any():
    policy = FairUCB(PROBLEM)
    policy.ask(9)
    with raises(InvalidArgument, "problem"):
        policy.next_epoch(Problem(3, ["1/2", "1/10", "1/10"]))
    with raises(InvalidArgument, "problem", given="more"):
        policy.next_epoch("more")
    assert policy.asked == 9


def test_a_tolerance_lets_debts_go_on():
    policy = FairLearn(Problem(2, "9/20", unfairness_tolerance=3), first)
    policy.ask(8)
    assert policy.credits[1] == Fraction(13, 5)
    for unfairness_tolerance, kept in ((5, Fraction(13, 5)), (2, 2), (1, 1)):
        later = policy.next_epoch(Problem(2, "9/20", unfairness_tolerance=unfairness_tolerance))
        assert later.initial_credits[1] == kept
        assert later.metrics()["violation"] == float(kept)


@pytest.mark.parametrize("policy", BEGUN, ids=repr)
def test_what_has_begun_before_keeps_the_contract(policy):
    check_policy(policy, BernoulliEnvironment(PROBLEM, MEANS), pulls=effort.runs(30, whole=60))
    again = policy_from_dict(policy.to_dict(), PROBLEM, policy.seed)
    assert again.to_dict() == policy.to_dict()
    assert again.ask(30) == policy.clone().ask(30)
