"""Forced arms, compared with slow scans in fractions, published rows and hostile learners."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.allocation import FairLearn, Problem
from fairtrial.allocation._kernels.lazy import spare_rounds
from fairtrial.allocation._kernels.model import kernel, open_state
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.allocation.adversaries import hostile, quotas, starving
from tests.allocation.slow import SlowQuotas, float_rule
from tests.messages import raises, warns

pytestmark = pytest.mark.filterwarnings("ignore:the shares take every pull")

NAMES = {"due": "due_first", "largest": "largest", "lazy": "lazy"}


@kernel
def spare_rounds_of(words):
    return spare_rounds(open_state(words))


def always(arm):
    return lambda t, counts, sums, allowed: arm


# ------------------------------------------------------------------ published rows

THIRDS = ["1/3", "1/7", "1/5"]
ROWS = [
    ([0.2, 0.3, 0.25], 0, "largest", 0, "012012010201021002100120", 200, (90, 60, 50), 110, 0),
    ([0.2, 0.3, 0.25], 0, "due", 0, "012012010201021001200120", 200, (90, 60, 50), 110, 0),
    ([0.2, 0.3, 0.25], 0, "largest", 2, "000000010201021002100120", 200, (94, 58, 48), 106, 2),
    ([0.68, 0.2, 0], 2, "largest", 0, "201000100020100010020010", 100, (68, 20, 12), 88, 1),
    ([0.68, 0.2, 0], 2, "due", 0, "200010010020010010020010", 100, (68, 20, 12), 88, 0),
    (THIRDS, 0, "due", 0, "021000201002000120000210", 1050, (690, 150, 210), 360, 0),
]


@pytest.mark.parametrize(
    (
        "shares",
        "arm",
        "scheduler",
        "unfairness_tolerance",
        "first",
        "rounds",
        "counts",
        "forced",
        "worst",
    ),
    ROWS,
)
def test_reference_schedules_are_reproduced(
    shares, arm, scheduler, unfairness_tolerance, first, rounds, counts, forced, worst
):
    problem = Problem(3, shares, unfairness_tolerance)
    policy = FairLearn(problem, always(arm), scheduler, allow_unsafe=True)
    pulls = [pull.action for pull in policy.ask(rounds)]
    assert "".join(map(str, pulls[:24])) == first
    assert tuple(np.bincount(pulls, minlength=3)) == counts
    metrics = policy.metrics()
    assert metrics["forced_share"] * rounds == pytest.approx(forced)
    assert metrics["floored_violation"] == worst


def test_the_float_rule_first_errs_at_round_101():
    policy = FairLearn(Problem(2, [0, 0.07]), always(0))
    exact = [pull.action for pull in policy.ask(200)]
    floats = float_rule(0.07, 200)
    first = next(t for t, (a, b) in enumerate(zip(exact, floats, strict=False), start=1) if a != b)
    assert first == 101


@pytest.mark.parametrize("share", [0.29, 0.57, 0.58, 0.7, 0.07, 0.1])
def test_floats_that_trap_a_floor_are_counted_exactly(share):
    policy = FairLearn(Problem(2, [0, share]), always(0))
    exact = Fraction(str(share))
    pulls = 0
    for t in range(1, 1001):
        pulls += policy.ask().action
        assert pulls == -(-exact * (t - 1) // 1) or exact * t // 1 <= pulls


# ----------------------------------------------------------------- against the slow


@pytest.mark.parametrize(
    ("scheduler", "mask", "carry"),
    [
        ("due", False, None),
        ("due", False, 1),
        ("due", False, 3),
        ("largest", False, None),
        ("largest", False, 2),
        ("lazy", False, None),
        ("lazy", True, None),
    ],
)
@settings(max_examples=effort.runs(10, whole=40))
@given(data=st.data())
def test_every_decision_and_metric_is_that_of_the_slow_scan(scheduler, mask, carry, data):
    shares = data.draw(quotas())
    unfairness_tolerance = data.draw(st.integers(0, 2))
    seed = data.draw(st.integers(0, 2**32))
    choices = iter(np.random.default_rng(seed).integers(0, 7, 10_000).tolist())
    slow = SlowQuotas(shares, unfairness_tolerance, carry)
    picked = []

    def learner(t, counts, sums, allowed):
        arm = hostile(slow, choices)(allowed.tolist())
        picked.append((arm, allowed.tolist()))
        return arm

    problem = Problem(len(shares), shares, unfairness_tolerance)
    policy = FairLearn(problem, learner, scheduler, carry, mask, allow_unsafe=True)
    method = "masked" if mask else NAMES[scheduler]
    for _ in range(60):
        picked.clear()
        action = policy.ask().action
        expected = slow.step(method, lambda allowed: _same(picked, allowed))
        assert action == expected
    metrics = policy.metrics()
    assert metrics["violation"] == pytest.approx(float(slow.worst))
    assert metrics["floored_violation"] == slow.worst // 1
    assert metrics["rounds_in_violation"] == slow.overdue
    assert metrics["forced_share"] == pytest.approx(slow.forced / 60)
    if carry is None:
        assert policy.credits == tuple(slow.credits)


@settings(max_examples=25)
@given(shares=quotas(), seed=st.integers(0, 2**32))
def test_slack_looked_at_in_every_round_forces_the_same_pulls(shares, seed):
    """So `lazy` is unambiguous: not checking while there is slack changes nothing."""
    choices = iter(np.random.default_rng(seed).integers(0, 7, 1000).tolist())
    slow, picked = SlowQuotas(shares), []

    def learner(t, counts, sums, allowed):
        picked.append((hostile(slow, choices)(allowed.tolist()), allowed.tolist()))
        return picked[-1][0]

    policy = FairLearn(Problem(len(shares), shares), learner, "lazy")
    for _ in range(60):
        action = policy.ask().action
        assert action == slow.step("rechecked", lambda allowed: _same(picked, allowed))
        picked.clear()


@settings(max_examples=25)
@given(shares=quotas(), unfairness_tolerance=st.integers(0, 1), seed=st.integers(0, 2**32))
def test_slack_is_the_number_of_rounds_that_may_be_wasted(shares, unfairness_tolerance, seed):
    choices = iter(np.random.default_rng(seed).integers(0, 7, 99).tolist())
    slow = SlowQuotas(shares, unfairness_tolerance)
    learner = lambda t, c, s, allowed: hostile(slow, choices)(allowed.tolist())  # noqa: E731
    policy = FairLearn(Problem(len(shares), shares, unfairness_tolerance), learner, "lazy")
    for _ in range(25 * any(shares)):
        room, date = spare_rounds_of(policy._state.words)
        assert room == slow.waste(400)
        assert room > 0 or date == slow.slack(400)[1]
        slow.pull(policy.ask().action, False)


@settings(max_examples=20)
@given(shares=quotas(strict=True), seed=st.integers(0, 2**32), wakes=st.sampled_from([1, 0.9]))
def test_lazy_looks_again_after_arms_have_slept_or_pulls_failed(shares, seed, wakes):
    rng, slow = np.random.default_rng(seed), SlowQuotas(shares)
    policy = FairLearn(
        Problem(len(shares), shares), lambda t, c, s, allowed: starving(slow)(allowed), "lazy"
    )
    slept, flying = False, []
    for _ in range(40):
        awake = [arm for arm in range(len(shares)) if rng.random() < wakes]
        if len(awake) == len(shares):
            flying.append(policy.ask())
            assert flying[-1].action == slow.step("rechecked", starving(slow))
        elif awake:
            slept = True
            flying.append(policy.ask(awake=[str(arm) for arm in awake]))
            assert flying[-1].action == slow.pull_awake(awake, starving(slow))
        if flying and rng.random() < 0.3:
            lost = flying.pop(int(rng.integers(len(flying))))
            policy.fail(lost)
            slow.take_back(lost.action, slept)
    assert policy.credits == tuple(slow.credits)


def test_a_tight_date_that_a_sleeper_puts_off_forces_nobody():
    policy = FairLearn(Problem(4, ["1/4", "1/4", "1/4", 0]), always(3), "lazy")
    pulled = [*policy.ask(2), policy.ask(awake=["0", "2", "3"]), *policy.ask(2)]
    assert [pull.action for pull in pulled] == [3, 0, 2, 3, 1]


@pytest.mark.parametrize("scheduler", ["due", "largest"])
def test_many_arms_in_heaps_are_served_as_by_a_scan(scheduler):
    rng = np.random.default_rng(3)
    shares = [Fraction(int(part), 2000) for part in rng.integers(0, 17, 200)]
    slow = SlowQuotas(shares)
    policy = FairLearn(
        Problem(200, shares), lambda t, c, s, allowed: (t * 37) % 150, scheduler, allow_unsafe=True
    )
    for t in range(1, 400):
        expected = slow.step(NAMES[scheduler], lambda allowed, t=t: (t * 37) % 150)
        assert policy.ask().action == expected
    assert policy.metrics()["floored_violation"] == slow.worst // 1


def _same(picked, allowed):
    assert picked, "the slow rule leaves a round free that the policy forces"
    arm, given_allowed = picked[-1]
    assert given_allowed == allowed
    return arm


@settings(max_examples=effort.runs(50, whole=150))
@given(
    shares=quotas(),
    unfairness_tolerance=st.integers(0, 2),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_no_hostile_learner_breaks_a_quota(shares, unfairness_tolerance, seed, data):
    scheduler, mask = data.draw(st.sampled_from([("due", False), ("lazy", False), ("lazy", True)]))
    carry = data.draw(st.sampled_from([None, 1, 2])) if scheduler == "due" else None
    choices = iter(np.random.default_rng(seed).integers(0, 7, 10_000).tolist())
    holder = SlowQuotas(shares, unfairness_tolerance)

    def learner(t, counts, sums, allowed):
        return hostile(holder, choices)(allowed.tolist())

    policy = FairLearn(
        Problem(len(shares), shares, unfairness_tolerance), learner, scheduler, carry, mask
    )
    for t in range(1, 150):
        holder.pull(policy.ask().action, False)
        assert max(credit // 1 for credit in holder.credits) <= unfairness_tolerance, t
    metrics = policy.metrics()
    assert metrics["floored_violation"] <= unfairness_tolerance
    assert metrics["rounds_in_violation"] == 0


@settings(max_examples=effort.runs(25, whole=60))
@given(seed=st.integers(0, 2**32), arms=st.integers(1, 7), unfairness_tolerance=st.integers(0, 1))
def test_the_largest_credit_is_safe_below_one_over_m(seed, arms, unfairness_tolerance):
    rng = np.random.default_rng(seed)
    shares = [Fraction(int(rng.integers(0, 60 // arms)), 60) for _ in range(arms)]
    holder = SlowQuotas(shares, unfairness_tolerance)

    def learner(t, counts, sums, allowed):
        return starving(holder)(allowed.tolist())

    policy = FairLearn(Problem(arms, shares, unfairness_tolerance), learner, "largest")
    for _ in range(200):
        holder.pull(policy.ask().action, False)
    assert policy.metrics()["floored_violation"] <= unfairness_tolerance
    assert policy.guarantee.proven


def test_a_carry_keeps_every_window():
    shares, carry = [Fraction(1, 5), Fraction(3, 10), Fraction(1, 4)], 1
    rng = np.random.default_rng(5)
    phases = rng.integers(0, 3, 40).repeat(50)
    policy = FairLearn(
        Problem(3, shares), lambda t, counts, sums, allowed: phases[t - 1], carry=carry
    )
    pulls = np.array([pull.action for pull in policy.ask(2000)])
    for arm, share in enumerate(shares):
        counts = np.concatenate([[0], np.cumsum(pulls == arm)])
        for width in (10, 37, 100, 400):
            fewest = (counts[width:] - counts[:-width]).min()
            assert fewest >= share * width // 1 - carry


# ------------------------------------------------------------------------- extremes


def test_credits_are_exact_with_a_denominator_of_a_thousand_million():
    shares = ["0.1", "0.299999999", "0.250000001"]
    policy = FairLearn(Problem(3, shares), always(0))
    assert policy.problem.denominator == 10**9
    slow = SlowQuotas(shares)
    for _ in range(300):
        assert policy.ask().action == slow.step("due_first", lambda allowed: 0)
    assert policy.credits == tuple(slow.credits)


def test_rounds_beyond_exact_credits_are_refused_not_wrapped():
    from fairtrial.errors import NotSupported

    policy = FairLearn(Problem(2, ["0.100000001", "0.5"]))
    assert 9.2e9 < policy._state.control.limit[0] <= (2**63 - 1) // 10**9
    policy._state.control.rounds[0] = policy._state.control.limit[0]
    with raises(NotSupported):
        policy.ask()
    assert policy.asked == 0


@pytest.mark.parametrize("scheduler", ["due", "largest", "lazy"])
def test_a_tolerance_beyond_the_horizon_never_binds(scheduler):
    problem = Problem(3, [0.2, 0.3, 0.25], unfairness_tolerance=10**30)
    policy = FairLearn(problem, always(0), scheduler)
    assert {pull.action for pull in policy.ask(300)} == {0}
    assert policy.metrics()["forced_share"] == 0


@pytest.mark.parametrize("last", ["0.49999999", "0.50000001"])
def test_lazy_refuses_to_look_a_hundred_million_rounds_ahead(last):
    """One round in 10^8 is free, or none; with fewer digits, the look-ahead is short."""
    for shares in (["0.49999999", last], ["0.4999", "0.50"]):
        problem = Problem(2, shares)
        if problem.denominator == 10**8:
            with raises(InvalidArgument, "scheduler"):
                FairLearn(problem, scheduler="lazy")
        else:
            FairLearn(problem, scheduler="lazy").ask(5)


def test_one_arm_is_always_pulled():
    for share in (0, "1/2", 1):
        assert {pull.action for pull in FairLearn(Problem(1, share)).ask(20)} == {0}


def test_shares_of_one_leave_nothing_for_others():
    with warns(UserWarning):
        problem = Problem(3, ["1/2", "1/2", 0])
    policy = FairLearn(problem, lambda t, counts, sums, allowed: allowed[-1])
    assert 2 not in {pull.action for pull in policy.ask(100)}
    assert policy.metrics()["floored_violation"] == 0


def test_shares_of_every_play_leave_nothing_for_others_though_none_is_due_yet():
    problem = Problem(4, [1, "1/2", "1/2", 0], unfairness_tolerance=1, plays=2)
    policy = FairLearn(problem, lambda t, counts, sums, allowed: allowed[-1])
    assert 3 not in {pull.action for pull in policy.ask(60)}
    assert policy.metrics()["floored_violation"] <= 1


# ----------------------------------------------------------------- groups and plays


@settings(max_examples=effort.runs(30, whole=80))
@given(seed=st.integers(0, 2**32))
def test_groups_and_their_members_are_both_served(seed):
    rng = np.random.default_rng(seed)
    arms, unit = int(rng.integers(2, 7)), 60
    places = rng.permutation(arms)
    cut = int(rng.integers(1, arms + 1))
    halves = [half for half in (places[:cut], places[cut:]) if len(half)]
    budget, shares, groups = unit - 1, np.zeros(arms, dtype=int), {}
    for number, half in enumerate(halves):
        own = int(rng.integers(0, budget + 1))
        budget -= own
        left = own
        for arm in half:
            shares[arm] = rng.integers(0, left + 1)
            left -= shares[arm]
        groups[f"g{number}"] = (Fraction(own, unit), [str(arm) for arm in half])
    unfairness_tolerance = int(rng.integers(0, 2))
    fractions = [Fraction(int(share), unit) for share in shares]
    problem = Problem(arms, fractions, unfairness_tolerance, groups=groups)
    counts = np.zeros(arms, dtype=int)

    def learner(t, told, sums, allowed):
        owed = [fractions[arm] * t - counts[arm] for arm in allowed]
        return allowed[int(np.argmin(owed))] if rng.random() < 0.7 else rng.choice(allowed)

    policy = FairLearn(problem, learner)
    for t in range(1, 150):
        counts[policy.ask().action] += 1
        for arm, share in enumerate(fractions):
            assert share * t // 1 - counts[arm] <= unfairness_tolerance
        for share, members in groups.values():
            assert share * t // 1 - sum(counts[int(arm)] for arm in members) <= unfairness_tolerance
    metrics = policy.metrics()
    assert metrics["floored_violation"] <= unfairness_tolerance
    assert metrics["rounds_in_violation"] == 0


@settings(max_examples=effort.runs(30, whole=80))
@given(seed=st.integers(0, 2**32), plays=st.integers(1, 4), full=st.booleans())
def test_several_plays_a_round_keep_every_share(seed, plays, full):
    rng = np.random.default_rng(seed)
    arms = plays + int(rng.integers(1, 5))
    unit = int(rng.choice([6, 10, 12, 30]))
    left = plays * unit - (0 if full else 1)
    parts = np.zeros(arms, dtype=int)
    for arm in rng.permutation(arms):
        parts[arm] = min(unit, left) if full else rng.integers(0, min(unit, left) + 1)
        left -= parts[arm]
    if full and plays > 1:
        for _ in range(50):
            one, other = rng.choice(arms, 2, replace=False)
            move = int(rng.integers(0, min(parts[one], unit - parts[other]) + 1))
            parts[one] -= move
            parts[other] += move
    fractions = [Fraction(int(part), unit) for part in parts]
    if full and 0 in fractions:
        return
    problem = Problem(arms, fractions, plays=plays)
    counts = np.zeros(arms, dtype=int)

    def learner(t, told, sums, allowed):
        owed = [fractions[arm] * t - counts[arm] for arm in allowed]
        return allowed[int(np.argmin(owed))] if rng.random() < 0.7 else rng.choice(allowed)

    policy = FairLearn(problem, learner)
    for t in range(1, 100):
        pulled = [pull.action for pull in policy.ask(plays)]
        assert len(set(pulled)) == plays
        counts[pulled] += 1
        for arm, share in enumerate(fractions):
            assert share * t // 1 - counts[arm] <= 0, (t, arm)
    metrics = policy.metrics()
    assert metrics["floored_violation"] <= 0
    assert metrics["rounds_in_violation"] == 0


def group_deadline(share, number):
    """Return the group deadline by its definition: walk along windows from subtask `number` on."""
    if share < Fraction(1, 2) or share == 1:
        return 0
    j = number
    while True:
        release, deadline = (j - 1) / share // 1, -(-j / share // 1)
        if j / share == deadline:
            return deadline
        if deadline - release == 3 and deadline - 1 >= -(-number / share // 1):
            return deadline - 1
        j += 1


def pressing(share, number, begun=0):
    """Return the key by which PD2 orders subtask `number` of a share, counted from 1."""
    exact = number / share
    deadline = -(-exact // 1)
    bit = exact != deadline
    group = group_deadline(share, number) if bit else 0
    return begun + deadline, not bit, -(begun + group) if group else 0


@settings(max_examples=effort.runs(40, whole=100))
@given(seed=st.integers(0, 2**32), unfairness_tolerance=st.integers(0, 1), later=st.booleans())
def test_several_plays_are_forced_in_the_order_of_pd2(seed, unfairness_tolerance, later):
    """Also if every arm begins in its own round, which corresponds to a negative credit."""
    rng = np.random.default_rng(seed)
    plays, arms = 3, int(rng.integers(4, 8))
    shares = [Fraction(int(rng.integers(4, 11)), int(rng.integers(11, 14))) for _ in range(arms)]
    total = sum(shares)
    if total > plays:
        shares = [Fraction(int(share * plays / total * 60), 60) for share in shares]
    problem = Problem(arms, shares, unfairness_tolerance, plays=plays)
    begun = [int(start) for start in rng.integers(0, 5, arms) * later]
    owed = [-share * start for share, start in zip(shares, begun, strict=True)]
    policy = FairLearn(problem, lambda t, counts, sums, allowed: allowed[-1], initial_credits=owed)
    counts = [0] * arms
    for t in range(1, 60):
        released = [
            arm
            for arm in range(arms)
            if owed[arm] + shares[arm] * t - counts[arm] > unfairness_tolerance
        ]
        keys = {
            arm: pressing(shares[arm], counts[arm] + 1 + unfairness_tolerance, begun[arm])
            for arm in released
        }
        forced = sorted(released, key=lambda arm: (keys[arm], arm))[:plays]
        pulled = [pull.action for pull in policy.ask(plays)]
        assert pulled[: len(forced)] == forced, (t, shares, counts)
        for arm in pulled:
            counts[arm] += 1


# ------------------------------------------------------------------ all learners there are


class AnyLearner:
    """Play all sequences of free choices, by returning to each reached state.

    Forced pulls depend only on the counts, so states with equal counts are merged.
    """

    def __init__(self, shares, scheduler, mask=False, unfairness_tolerance=0):
        self.free = None
        self.problem = Problem(len(shares), shares, unfairness_tolerance)
        self.policy = FairLearn(self.problem, self, scheduler, mask=mask, allow_unsafe=True)
        self.worst = 0

    def __call__(self, t, counts, sums, allowed):
        if self.free is None:
            self.asked = allowed.tolist()
            return self.asked[0]
        return self.free

    def followers(self, counts, state):
        """Yield the possible next states: the counts of every arm, and the policy's state."""
        self.free, self.asked = None, [None]
        self.policy.set_state(state)
        yield self._after(counts)
        for arm in self.asked[1:]:
            self.free = arm
            self.policy.set_state(state)
            yield self._after(counts)

    def _after(self, counts):
        arm = self.policy.ask().action
        after = tuple(count + (i == arm) for i, count in enumerate(counts))
        t = sum(after)
        owed = [share * t // 1 for share in self.problem.shares]
        behind = max(a - b for a, b in zip(owed, after, strict=True))
        self.worst = max(self.worst, behind)
        return after, self.policy.get_state()

    def play(self, rounds):
        """Return the largest number of whole pulls that any arm is ever behind."""
        layer = {(0,) * len(self.problem.arms): self.policy.get_state()}
        for _ in range(rounds):
            following = {}
            for counts, state in layer.items():
                following.update(self.followers(counts, state))
            layer = following
        return self.worst


HARD = [
    ["17/25", "1/5", "0"],
    ["1/2", "1/3", "1/6"],
    ["3/5", "1/10", "1/5"],
    ["9/10", "1/20", "0"],
    ["1/4", "1/4", "1/4"],
    ["2/5", "2/5", "1/10"],
]


@pytest.mark.parametrize("shares", HARD, ids="-".join)
@pytest.mark.parametrize(("scheduler", "mask"), [("due", False), ("lazy", False), ("lazy", True)])
def test_no_learner_at_all_breaks_a_quota_in_the_first_rounds(shares, scheduler, mask):
    assert AnyLearner(shares, scheduler, mask).play(24) <= 0


def test_some_learner_breaks_the_largest_credit_where_it_is_not_proven():
    assert AnyLearner(HARD[0], "largest").play(6) == 1
    assert AnyLearner(HARD[4], "largest").play(24) == 0
