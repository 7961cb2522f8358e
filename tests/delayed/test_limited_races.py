"""Races in which no category may be worse than that of a control by more than a margin."""

import itertools
import math

import numpy as np
import pytest

from fairtrial.delayed import PairedRacing, Problem
from fairtrial.delayed.policies.limited_evidence import LimitedEvidence, Limits
from fairtrial.delayed.policies.paired_evidence import leading
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.delayed.enumeration import error_rates
from tests.messages import raises


def play(policy, table):
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, table[pull.tag, pull.action])
    return policy


def problem_of(arms, **given):
    return Problem(arms, reward_range=(0, 1), control="0", **given)


# --------------------------------------------------------------------------- slow twin


def stakes_and_shares(size):
    number = sum(0.98 / math.sqrt(2) ** k >= 2 / math.sqrt(size) for k in range(13)) or 1
    shares = [1 / 2] + (number - 1) * [1 / 2 / (number - 1)] if number > 1 else [1]
    return [(0.98 / math.sqrt(2) ** k, share) for k, share in enumerate(shares)]


def product(rounds, size):
    """Return the capital of bets on pairs of number and differences, mixed over stakes."""
    capital = 0.0
    for stake, share in stakes_and_shares(size):
        part = 1.0
        for before, won, difference in rounds:
            left = size - before
            expected = -won / left
            if expected < -1 - 1e-9:
                part = math.inf
            elif expected > -1 + 1e-9:
                grown = stake * (1 if left == math.inf else size / left)
                part *= 1 + min(grown, 0.98 / (1 + expected)) * (difference - expected)
        capital += share * part
    return capital


def slow_wealth(scores, targets, leader, rival, credit, limits, n_blocks):
    """Return the capital against a rival, ledger by ledger."""
    arms, control, margin = scores.shape[1], limits.control, limits.margin
    blocks = range(len(scores))

    def pair(target, wanted):
        extra = credit if target == leader else 0.0
        gaps = scores[:, target] - scores[:, rival] + extra
        return product([(t, gaps[:t].sum(), gaps[t]) for t in wanted], n_blocks)

    def limit(arm, wanted, unit=1.0):
        if arm == control:
            return [math.inf]
        gaps = (scores[:, arm] - scores[:, control] + margin) / unit
        capitals = []
        for category, size in enumerate(limits.sizes):
            own = [t for t in blocks if limits.categories[t] == category]
            rounds = [
                (own.index(t), sum(gaps[s] for s in own if s < t), gaps[t])
                for t in own
                if t in wanted
            ]
            capitals.append(product(rounds, size))
        return capitals

    followed = 1.0
    for target in set(range(arms)) - {rival}:
        wanted = [t for t in blocks if targets[t, 0] == target]
        followed *= min(pair(target, wanted), *limit(target, wanted))
    hindsight = min(pair(leader, blocks), *limit(leader, blocks))
    own = 1.0 if rival == control else np.mean(limit(rival, blocks, unit=-(1 + margin)))
    return 0.6 * followed + 0.2 * hindsight / (arms - 1) + 0.2 * own


@pytest.mark.parametrize("n_blocks", [None, 12, 40])
@pytest.mark.parametrize("leader", [0, 1, 2])
def test_the_evidence_is_that_of_explicit_products(n_blocks, leader):
    rng = np.random.default_rng(3)
    scores = rng.random((12, 4))
    categories = rng.integers(0, 3, n_blocks or 12)
    limits = Limits(0, 0.1, categories, has_end=n_blocks is not None)
    targets = leading(scores)
    evidence = LimitedEvidence(0.05, 1.0, n_blocks, limits)
    rivals = np.delete(np.arange(4), leader)
    for blocks in (5, 12):
        told = evidence.against(scores[:blocks], targets[:blocks], leader, rivals)
    for values, credit in zip(told, (0.0, 0.05), strict=True):
        for place, rival in enumerate(rivals):
            slow = slow_wealth(scores, targets, leader, rival, credit, limits, n_blocks or math.inf)
            assert math.exp(values[place]) == pytest.approx(slow)


# -------------------------------------------------------------------------- whole races


def test_a_better_arm_that_breaks_a_limit_is_not_the_answer():
    rng = np.random.default_rng(1)
    categories = ["easy", "hard"] * 150
    is_hard = np.array(categories) == "hard"
    chances = np.empty((300, 3))
    chances[:, 0] = 0.5
    chances[:, 1] = np.where(is_hard, 0.2, 1.0)
    chances[:, 2] = np.where(is_hard, 0.65, 0.8)
    table = (rng.random((300, 3)) < chances).astype(float)
    free = play(PairedRacing(problem_of(3), n_blocks=300), table)
    limited = PairedRacing(problem_of(3), n_blocks=300, margin=0.05, categories=categories)
    play(limited, table)
    assert limited.recommend().arm == "2"
    assert limited.told < 900
    assert "worse than '0' by more than 0.05 in some category" in limited.guarantee.statement
    assert free.recommend().arm in ("1", "2")


def test_the_control_is_the_answer_if_all_others_break_a_limit():
    table = np.tile([0.5, 0.3, 0.9], (200, 1))
    table[::2, 2] = 0.1
    categories = ["a", "b"] * 100
    policy = PairedRacing(problem_of(3), n_blocks=200, margin=0.1, categories=categories)
    assert play(policy, table).recommend().arm == "0"
    assert policy.blocks < 150


def test_an_arm_exactly_on_the_margin_keeps_its_limit():
    table = np.tile([0.5, 0.4], (50, 1)) + np.arange(50)[:, None] % 2 * [0.0, 0.0]
    table[:10, 1] = 0.9
    table[10:, 1] = 0.3
    policy = PairedRacing(problem_of(2), 1e-9, n_blocks=50, margin=0.08)
    play(policy, table)
    assert policy.recommend().arm == "0"
    limits = policy._limits
    assert limits.are_kept(table).all()
    assert not Limits(0, 0.0799, np.zeros(50, int), has_end=True).are_kept(table)[1]


def test_limits_and_shuffling_and_restored_states_go_together():
    rng = np.random.default_rng(4)
    table = np.clip(rng.normal([0.5, 0.55, 0.7, 0.69], 0.15, (120, 4)), 0, 1)
    categories = [str(at % 3) for at in range(120)]
    problem = problem_of(4, tolerance=0.05)

    def fresh():
        policy = PairedRacing(
            problem, n_blocks=120, margin=0.1, categories=categories, shuffle=True
        )
        policy.conceal("secret")
        return policy

    straight, stepped = play(fresh(), table), fresh()
    while not stepped.stopped:
        pull = stepped.ask()
        stepped.tell(pull, table[pull.tag, pull.action])
        if stepped.told % effort.runs(5, whole=1) == 0:
            again = fresh()
            again.set_state(stepped.get_state())
            assert again.recommend() == stepped.recommend()
            stepped = again
    assert stepped.states == straight.states
    assert straight.recommend().arm in ("2", "3")


def test_if_the_control_fails_nothing_can_be_decided():
    policy = PairedRacing(problem_of(3), n_blocks=9, margin=0.1)
    for pull in policy.ask(3):
        policy.tell(pull, 0.5)
    policy.fail(policy.ask(), "error")
    assert policy.recommend().status == "undecided"
    assert "'0', failed" in policy.recommend().reason


@pytest.mark.parametrize("failed", [[0], [1, 0]])
def test_without_its_control_a_race_with_one_arm_or_none_is_shown(failed):
    policy = PairedRacing(problem_of(2), n_blocks=9, margin=0.1)
    for pull in policy.ask(2):
        policy.tell(pull, 0.5)
    pulls = {pull.action: pull for pull in policy.ask(2)}
    for arm in failed:
        policy.fail(pulls[arm], "error")
    assert policy.stopped
    assert policy.shortfall is None
    progress = policy.progress()
    assert (progress.recommendation.status, progress.recommendation.arm) == ("undecided", None)
    assert (progress.evidence, progress.threshold) == (None, None)


def test_a_race_ends_if_its_control_fails_after_it_was_rejected():
    policy = PairedRacing(problem_of(3), n_blocks=200, margin=0.1)
    while policy.states[0] != "rejected":
        pull = policy.ask()
        policy.tell(pull, [0.0, 1 - 0.3 * (pull.tag % 2), 0.7 + 0.3 * (pull.tag % 2)][pull.action])
    assert not policy.stopped
    policy.fail(next(pull for pull in policy.ask(3) if pull.action == 0), "error")
    assert policy.stopped
    assert policy.states[0] == "withdrawn"
    assert "'0', failed" in policy.recommend().reason


def is_wrong(rows, answer, margin=0.0):
    """Return whether the answer breaks a limit, or is not the best of those that do not."""
    values = np.array([row[:-1] for row in rows])
    of = np.array([row[-1] for row in rows])
    kept = [
        all((values[of == c, k] - values[of == c, 0]).mean() >= -margin - 1e-9 for c in set(of))
        for k in range(values.shape[1])
    ]
    best = max(values[:, k].mean() for k in range(values.shape[1]) if kept[k])
    return not kept[answer] or values[:, answer].mean() < best - 1e-9


def random_tables(number):
    """Return small tables of scores 0 and 1 with categories 0 and 1 in the last column."""
    rng = np.random.default_rng(8)
    for _ in range(number):
        rows = rng.integers(0, 2, (6, 4))
        rows[:, -1] = [0, 0, 0, 1, 1, 1]
        yield [tuple(row) for row in rows.tolist()]


ON_THE_MARGIN = [
    # Arm 1 is better, and is exactly on the margin in one category; arm 2 is below it.
    [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 1, 1), (1, 0, 0, 1)],
    [(1, 1, 0, 0), (1, 0, 1, 0), (0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 1, 1), (0, 0, 1, 1)],
]


@pytest.mark.parametrize("delta", effort.first(1, [0.4, 0.05]))
def test_over_all_orders_a_limited_race_seldom_errs(delta):
    """Arms 0 (control), 1 and 2; the order is that of all items, as in a race."""
    tables = [*random_tables(effort.runs(0, whole=300)), *ON_THE_MARGIN]
    # The categories come in each of their orders with equal probability.
    sequences = sorted(set(itertools.permutations([0, 0, 0, 1, 1, 1])))
    rates = [
        error_rates(
            limited_of(sequence, delta),
            tables,
            is_wrong,
            lambda place, row, sequence=sequence: row[-1] == sequence[place],
        )
        for sequence in sequences
    ]
    assert np.mean(rates, axis=0).max() <= delta


def limited_of(categories, delta):
    names = [str(category) for category in categories]
    return PairedRacing(problem_of(3), delta, n_blocks=6, margin=0.0, categories=names)


def test_after_all_items_the_answer_of_a_limited_race_is_exact():
    rng = np.random.default_rng(9)
    for rows in [*random_tables(60), *ON_THE_MARGIN]:
        order = [rows[at] for at in rng.permutation(6)]
        policy = limited_of([row[-1] for row in order], 1e-9)
        assert not is_wrong(rows, int(play(policy, np.array(order, float)).recommend().arm))


@pytest.mark.statistical
@pytest.mark.parametrize(("short_by", "n_blocks"), effort.pairs([0.0, 1e-6], [None, 60]))
def test_an_arm_at_the_margin_is_seldom_wrongly_named_or_excluded(short_by, n_blocks):
    """Arm 1 is better overall. In one category its mean is on the margin, or hardly below."""
    runs, delta = effort.runs(10, whole=2_000), 0.1
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(runs):
        hard = np.arange(60) % 2 == 1
        table = np.full((60, 2), 0.5)
        noise = rng.permutation(np.repeat([-0.4, 0.4], 15))
        table[hard, 1] = 0.4 - short_by + noise
        table[~hard, 1] = 0.9
        order = rng.permutation(60)
        if n_blocks is None:
            order = rng.integers(0, 60, 60)
        policy = PairedRacing(
            problem_of(2),
            delta,
            n_blocks=n_blocks,
            max_blocks=None if n_blocks else 60,
            margin=0.1,
            categories=[str(int(hard[at])) for at in order],
        )
        answer = play(policy, np.clip(table, 0, 1)[order]).recommend().arm
        wrong += answer == ("1" if short_by else "0") and policy.blocks < 60
    assert wrong / runs <= effort.tolerated(delta, runs)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"margin": -0.1}, "margin"),
        ({"margin": 2.0}, "margin"),
        ({"margin": 0.1, "n_blocks": None}, "margin"),
        ({"margin": 0.1, "problem": Problem(3, reward_range=(0, 1))}, "margin"),
        ({"margin": 0.1, "problem": Problem(3, noise_std=1.0, control="0")}, "margin"),
        ({"categories": ["a"] * 9}, "categories"),
        ({"categories": ["a"] * 8, "margin": 0.1}, "categories"),
        ({"categories": [1] * 9, "margin": 0.1}, "categories"),
        ({"categories": "abcdefghi", "margin": 0.1}, "categories"),
    ],
)
def test_limits_that_mean_nothing_are_refused(given, name):
    with raises(InvalidArgument, name):
        PairedRacing(**{"problem": problem_of(3), "n_blocks": 9, **given})
