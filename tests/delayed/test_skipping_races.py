"""Races with limits that leave out evaluations which no open question needs."""

import itertools
import math

import numpy as np
import pytest

from fairtrial.delayed import PairedRacing, Problem
from fairtrial.delayed.policies.limited_evidence import (
    CAUGHT_UP,
    LIMITS_ONLY,
    SKIPPED,
    LimitedEvidence,
    Limits,
)
from fairtrial.delayed.policies.paired_evidence import leading
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.delayed.enumeration import error_rates
from tests.delayed.test_limited_races import (
    ON_THE_MARGIN,
    is_wrong,
    play,
    problem_of,
    product,
    random_tables,
)
from tests.messages import raises

NAMES = {"undecided": "u", "waiting": "w", "rejected": "r", "set aside": "s", "withdrawn": "x"}


def states_of(policy):
    return "".join(NAMES[state] for state in policy.states)


def hard_race(seed, items=120, **given):
    """Return a race in which arm 1 is clearly the best, and near its margin in a rare category."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(["hard", "easy"], [items // 4, items - items // 4]))
    means = np.where((labels == "hard")[:, None], [0.5, 0.45, 0.4, 0.3], [0.5, 0.8, 0.55, 0.5])
    table = np.clip(means + rng.normal(0, 0.12, (items, 4)), 0, 1)
    given = {"n_blocks": items, "margin": 0.08, "categories": labels.tolist(), **given}
    return PairedRacing(problem_of(4), **given), table


# --------------------------------------------------------------------------- slow twin


def slow_part(scores, targets, leader, rival, limits, codes):
    """Return the capital against a rival, ledger by ledger, without bets that are left out."""
    no_pair, skips = codes > 0, (codes == SKIPPED) | (codes == CAUGHT_UP)
    arms, control, size = scores.shape[1], limits.control, limits.sizes.sum()
    blocks = range(len(scores))

    def pair(target, wanted):
        gaps = scores[:, target] - scores[:, rival]
        bets = [t for t in wanted if not (no_pair[t, target] or no_pair[t, rival])]
        return product([(t, gaps[:t].sum(), gaps[t]) for t in bets], size)

    def limit(arm, wanted, unit=1.0):
        if arm == control:
            return [math.inf]
        gaps = (scores[:, arm] - scores[:, control] + limits.margin) / unit
        capitals = []
        for category, number in enumerate(limits.sizes):
            own = [t for t in blocks if limits.categories[t] == category]
            bets = [
                (own.index(t), sum(gaps[s] for s in own if s < t), gaps[t])
                for t in own
                if t in wanted and not (skips[t, arm] or skips[t, control])
            ]
            is_certain = len(own) == number and sum(gaps[t] for t in own) >= 0.0
            capitals.append(math.inf if is_certain else product(bets, number))
        return capitals

    followed = 1.0
    for target in set(range(arms)) - {rival}:
        wanted = [t for t in blocks if targets[t, 0] == target]
        followed *= min(pair(target, wanted), *limit(target, wanted))
    hindsight = min(pair(leader, blocks), *limit(leader, blocks))
    own = 1.0 if rival == control else np.mean(limit(rival, blocks, -(1 + limits.margin)))
    return 0.6 * followed + 0.2 * hindsight / (arms - 1) + 0.2 * own


@pytest.mark.parametrize("leader", [0, 1, 2])
@pytest.mark.parametrize("judged", [False, True])
def test_the_evidence_is_that_of_explicit_products_without_skipped_bets(leader, judged):
    rng = np.random.default_rng(5)
    scores, categories = rng.random((14, 4)), np.array([0, 1] * 7 + [0, 0])
    skips = rng.choice([0, 0, 0, CAUGHT_UP, LIMITS_ONLY], (14, 4)).astype(np.int8)
    limits = Limits(0, 0.1, categories, has_end=True, become_certain=True)
    targets, rivals = leading(scores), np.delete(np.arange(4), leader)
    evidence = LimitedEvidence(0.0, 1.0, 16, limits)
    for blocks in (5, 9, 14):
        rows = slice(blocks)
        found, _ = evidence.against(scores[rows], targets[rows], leader, rivals, skips[rows])
        for place, rival in enumerate(rivals):
            without, whole = (
                slow_part(scores[rows], targets[rows], leader, rival, limits, skipped)
                for skipped in (skips[rows], np.zeros_like(skips[rows]))
            )
            assert math.exp(found[place]) == pytest.approx(0.8 * without + 0.2 * whole)


def test_unknown_scores_of_skipped_blocks_change_nothing_but_the_part_that_needs_them():
    rng = np.random.default_rng(6)
    scores, skips = rng.random((12, 3)), np.zeros((12, 3), dtype=np.int8)
    skips[7:, 2] = SKIPPED
    limits = Limits(0, 0.1, np.array([0, 1] * 6), has_end=True, become_certain=True)
    unknown = np.where(skips == SKIPPED, np.nan, scores)
    targets, rivals = np.ones((12, 2), dtype=int), np.array([0, 2])
    known, _ = LimitedEvidence(0.0, 1.0, 12, limits).against(scores, targets, 1, rivals, skips)
    found, _ = LimitedEvidence(0.0, 1.0, 12, limits).against(unknown, targets, 1, rivals, skips)
    assert found[0] == known[0]
    slow = slow_part(scores, targets, 1, 2, limits, skips)
    assert math.exp(found[1]) == pytest.approx(0.8 * slow)


# -------------------------------------------------------------------------- whole races


@pytest.mark.parametrize("seed", range(3))
def test_an_arm_that_waits_for_a_limit_of_the_leader_is_not_tried(seed):
    with_all, table = hard_race(seed)
    skipping, _ = hard_race(seed, skips=True)
    waited = False
    while not skipping.stopped:
        pull = skipping.ask()
        assert skipping.states[pull.action] != "waiting" or pull.action == 0
        skipping.tell(pull, table[pull.tag, pull.action])
        waited |= "waiting" in skipping.states
    assert waited
    assert play(with_all, table).recommend().arm == skipping.recommend().arm == "1"
    assert skipping.told < 0.8 * with_all.told
    assert skipping.recommend().guarantee.proven


def test_when_all_wait_only_categories_with_an_open_limit_are_tried():
    policy, table = hard_race(1, skips=True)
    tags = []
    while not policy.stopped:
        pull = policy.ask()
        all_wait = states_of(policy).count("u") == 1 and "w" in states_of(policy)
        policy.tell(pull, table[pull.tag, pull.action])
        if all_wait and "w" in states_of(policy):
            tags.append(pull.tag)
    late = {policy.categories[tag] for tag in tags[len(tags) // 2 :]}
    assert late == {"hard"}


def test_categories_are_settled_only_together(monkeypatch):
    """Each of two limits alone can be enough, and both together not: one of them stays open."""
    policy, _ = hard_race(0, skips=True)

    def would_be_out(leader, rivals, certain):
        return np.full(len(rivals), certain.any())

    monkeypatch.setattr(policy, "_would_be_out", would_be_out)
    policy._let_wait(1)
    assert states_of(policy) == "wuww"
    assert policy._settled_categories.sum() == 1
    policy._let_wait(1)
    assert policy._settled_categories.sum() == 1


@pytest.mark.parametrize("seed", range(effort.runs(2, whole=50)))
def test_a_category_that_is_settled_stays_so_while_the_others_wait(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, 160)
    means = np.where(labels[:, None] < 3, [0.5, 0.46, 0.2], [0.2, 0.9, 0.2])
    table = np.clip(means + rng.normal(0, 0.1, (160, 3)), 0, 1)
    policy = PairedRacing(
        problem_of(3),
        n_blocks=160,
        margin=0.08,
        categories=labels.astype(str).tolist(),
        skips=True,
    )
    before, had_settled = None, False
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, table[pull.tag, pull.action])
        settled = policy._settled_categories.copy()
        if before is not None and states_of(policy) == before[0] and not policy.stopped:
            assert (settled >= before[1]).all()
        before, had_settled = (states_of(policy), settled), had_settled or settled.any()
    assert had_settled or policy.recommend().arm != "1"


def test_while_some_categories_are_skipped_nothing_is_bet_on_pairs():
    """Otherwise a control that waits would have bets on pairs in the other categories only."""
    policy, table = hard_race(1, skips=True)
    phase = []
    while not policy.stopped:
        if policy._settled_categories.any() and policy._open_from == policy._complete:
            phase.append(policy.blocks)
        pull = policy.ask()
        policy.tell(pull, table[pull.tag, pull.action])
    assert phase
    codes = policy._left_out[sorted(set(phase))]
    assert (codes[:, policy.leader] > 0).all()
    assert (codes[:, 0] > 0).all()
    assert (codes[:, 0] == LIMITS_ONLY).any()


def test_if_the_leader_breaks_its_limit_those_that_waited_catch_up():
    labels = ["easy", "hard"] * 60
    table = np.tile([0.5, 0.95, 0.6, 0.2], (120, 1))
    # At first the leader seems to keep its limit.
    table[1:40:2, 1], table[41::2, 1] = 0.6, 0.1
    policy = PairedRacing(problem_of(4), n_blocks=120, margin=0.05, categories=labels, skips=True)
    seen = []
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, table[pull.tag, pull.action])
        seen.append((states_of(policy), policy.leader))
    assert any("w" in states and leader == 1 for states, leader in seen)
    assert policy.recommend().arm == "2"


@pytest.mark.parametrize("seed", range(effort.runs(3, whole=200)))
def test_decisions_depend_on_no_order_of_results_and_survive_restarts(seed):
    """Many pulls in flight, told in random order, some cancelled and lost, and state restored."""
    straight, table = hard_race(seed, items=60, skips=True)
    play(straight, table)
    policy, _ = hard_race(seed, items=60, skips=True)
    rng, restarts = np.random.default_rng(seed), 0
    while not policy.stopped:
        for _ in range(int(rng.integers(1, 12))):
            if policy.stopped or (policy._outstanding and rng.random() < 0.2):
                break
            policy.ask(1)
        for pull in policy.to_cancel():
            if rng.random() < 0.7:
                policy.fail(pull, "cancelled")
        pulls = policy.outstanding()
        for at in rng.permutation(len(pulls))[: int(rng.integers(1, 6))]:
            if rng.random() < 0.1:
                policy.fail(pulls[at], "lost")
            else:
                policy.tell(pulls[at], table[pulls[at].tag, pulls[at].action])
        again, _ = hard_race(seed, items=60, skips=True)
        again.set_state(policy.get_state())
        assert again.recommend() == policy.recommend()
        restarts += 1
        # A forecast takes longer than all the rest.
        if restarts % effort.runs(10, whole=1) == 0:
            assert again.progress().remaining == policy.progress().remaining
        policy = again
    assert policy.states == straight.states
    assert policy.recommend().arm == straight.recommend().arm
    assert policy.blocks == straight.blocks


@pytest.mark.parametrize("seed", range(effort.runs(1, whole=3)))
def test_never_are_more_results_needed_than_was_said(seed):
    policy, table = hard_race(seed, items=60, skips=True)
    rows = [(*row, label) for row, label in zip(table.tolist(), policy.categories, strict=True)]
    most = []
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, table[pull.tag, pull.action])
        most.append(policy.told + policy.progress().remaining_at_most)
    assert policy.told <= min(most)
    assert not is_wrong(rows, int(policy.recommend().arm), margin=0.08)


def test_waiting_arms_are_forecast_to_need_nothing():
    policy, table = hard_race(0, skips=True)
    while "waiting" not in policy.states:
        pull = policy.ask()
        policy.tell(pull, table[pull.tag, pull.action])
    waits = [state == "waiting" for state in policy.states]
    expected = policy.expected_pulls
    assert expected is not None
    assert not expected[waits].any() or waits[0]
    assert expected[policy.leader] > 0
    assert policy.departures[waits.index(True)] is None
    assert policy.shortfall > 0.0


def test_if_the_leader_fails_those_that_waited_go_on():
    policy, table = hard_race(2, skips=True)
    while "waiting" not in policy.states:
        pull = policy.ask()
        policy.tell(pull, table[pull.tag, pull.action])
    pulls = policy.outstanding() or policy.ask(4)
    leader = policy.leader
    policy.fail(next(pull for pull in pulls if pull.action == leader), "error")
    assert "waiting" not in policy.states
    for pull in policy.outstanding():
        policy.tell(pull, table[pull.tag, pull.action])
    assert play(policy, table).recommend().arm in ("0", "2")


def test_a_waiting_arm_whose_pull_fails_goes_on_waiting():
    policy, table = hard_race(2, skips=True)
    ahead = []
    while "waiting" not in policy.states:
        ahead = policy.ask(12)
        block = min(pull.tag for pull in ahead)
        for pull in ahead:
            if pull.tag == block:
                policy.tell(pull, table[pull.tag, pull.action])
            elif "waiting" not in policy.states:
                policy.fail(pull, "lost")
    arm = next(arm for arm in (2, 3) if policy.states[arm] == "waiting")
    pull = next(pull for pull in policy.outstanding() if pull.action == arm)
    assert pull in policy.to_cancel()
    policy.fail(pull, "error")
    assert policy.states[arm] == "waiting"


# ------------------------------------------------------------------------ error rates


def skipping_race(categories, delta):
    names = [str(category) for category in categories]
    return PairedRacing(problem_of(3), delta, n_blocks=6, margin=0.0, categories=names, skips=True)


@pytest.mark.parametrize("delta", effort.first(1, [0.2, 0.4]))
def test_over_all_orders_a_race_that_skips_seldom_errs(delta):
    """Arms 0 (control), 1 and 2; the order is that of all items, as in a race."""
    tables = [*random_tables(effort.runs(0, whole=300)), *ON_THE_MARGIN]
    sequences = sorted(set(itertools.permutations([0, 0, 0, 1, 1, 1])))
    rates = [
        error_rates(
            skipping_race(sequence, delta),
            tables,
            is_wrong,
            lambda place, row, sequence=sequence: row[-1] == sequence[place],
        )
        for sequence in sequences
    ]
    assert np.mean(rates, axis=0).max() <= delta


def test_after_all_items_the_answer_of_a_race_that_skips_is_exact():
    rng = np.random.default_rng(9)
    for rows in [*random_tables(60), *ON_THE_MARGIN]:
        order = [rows[at] for at in rng.permutation(6)]
        policy = skipping_race([row[-1] for row in order], 1e-9)
        assert not is_wrong(rows, int(play(policy, np.array(order, float)).recommend().arm))


@pytest.mark.statistical
@pytest.mark.parametrize(("n_blocks", "short_by"), effort.pairs([None, 60], [0.0, 1e-6]))
def test_an_arm_at_the_margin_is_seldom_wrongly_named_or_excluded(short_by, n_blocks):
    """Arm 1 is the best overall. In one category its mean is on the margin, or hardly below."""
    runs, delta = effort.runs(12, whole=2_000), 0.1
    rng = np.random.default_rng(12)
    wrong = 0
    for _ in range(runs):
        hard = np.arange(60) % 2 == 1
        table = np.full((60, 3), 0.5)
        table[:, 2] = rng.uniform(0.4, 0.6, 60)
        table[hard, 1] = 0.4 - short_by + rng.permutation(np.repeat([-0.4, 0.4], 15))
        table[~hard, 1] = 0.9
        table[:, 2] += 0.45 - table[:, 2].mean()
        order = rng.permutation(60) if n_blocks else rng.integers(0, 60, 60)
        policy = PairedRacing(
            problem_of(3),
            delta,
            n_blocks=n_blocks,
            max_blocks=None if n_blocks else 60,
            margin=0.1,
            categories=[str(int(hard[at])) for at in order],
            skips=True,
        )
        answer = play(policy, np.clip(table, 0, 1)[order]).recommend().arm
        wrong += answer is not None and (answer == "1") == (short_by > 0)
    assert wrong / runs <= effort.tolerated(delta, runs)


@pytest.mark.statistical
def test_of_equal_arms_that_wait_the_right_one_is_seldom_lost():
    """Arms 1 and 2 are equally good; arm 1 breaks its limit by one item, arm 2 keeps it."""
    runs, delta = effort.runs(15, whole=2_000), 0.1
    rng = np.random.default_rng(13)
    wrong = 0
    for _ in range(runs):
        hard = np.arange(48) % 2 == 1
        table = np.zeros((48, 3))
        table[hard, 0], table[~hard, 0] = rng.permutation(np.repeat([0.0, 1.0], 12)), 0.0
        for arm, right in ((1, 11), (2, 12)):
            table[hard, arm] = rng.permutation(np.repeat([1.0, 0.0], [right, 24 - right]))
            table[~hard, arm] = rng.permutation(np.repeat([1.0, 0.0], [31 - right, right - 7]))
        order = rng.permutation(48)
        policy = PairedRacing(
            problem_of(3),
            delta,
            n_blocks=48,
            margin=0.0,
            categories=[str(int(hard[at])) for at in order],
            skips=True,
        )
        wrong += play(policy, table[order]).recommend().arm != "2"
    assert wrong / runs <= effort.tolerated(delta, runs)


def test_nothing_is_skipped_without_limits():
    with raises(InvalidArgument, "skips", given=True):
        PairedRacing(Problem(3, reward_range=(0, 1)), n_blocks=9, skips=True)
    with raises(InvalidArgument, "skips", given="yes"):
        PairedRacing(problem_of(3), n_blocks=9, margin=0.1, skips="yes")
