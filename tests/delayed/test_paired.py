import functools
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairtrial as ft
from fairtrial.confidence import StudentMixture
from fairtrial.delayed import PairedRacing, Problem
from fairtrial.delayed.policies.paired_evidence import (
    BettingEvidence,
    StudentEvidence,
    leading,
)
from fairtrial.errors import InvalidArgument, NotSupported
from tests import effort
from tests.delayed.enumeration import error_rates
from tests.messages import raises

BOUNDS = {"reward_range": (0, 1)}
BOUNDED = Problem(3, **BOUNDS)
UNBOUNDED = Problem(3, noise_std=1.0)


def play(policy, table, order=None):
    """Run a race on a table of scores by block and arm; `order` permutes every batch."""
    while not policy.stopped:
        batch = policy.ask(5)
        for at in range(len(batch)) if order is None else order.permutation(len(batch)):
            if not policy.stopped:
                policy.tell(batch[at], table[batch[at].tag, batch[at].action])
    return policy


def noisy(means, shared, own, blocks=4000, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, shared, (blocks, 1)) + rng.normal(0, own, (blocks, len(means)))
    return np.array(means) + noise


# --------------------------------------------------------------------------- evidence


def test_the_student_evidence_is_that_of_the_mixture_shared_among_all_pairs():
    scores = noisy([0.4, 0.0, 0.1], 1.0, 0.2, blocks=9)
    differences = scores[:, [0]] - scores[:, [1, 2]]
    mean, squares = differences.mean(axis=0), 9 * differences.var(axis=0)
    told = StudentEvidence(0.1, overlap=0.25).against(scores, leading(scores), 0, np.array([1, 2]))
    for evidence, credit in zip(told, (0.0, 0.1), strict=True):
        alone = StudentMixture(overlap=0.25).log_evidence(9, mean + credit, squares)
        np.testing.assert_allclose(evidence, alone - math.log(2.0))


def slow_bets(scores, leader, rival, tolerance, n_blocks=math.inf):
    """Return the capital against a rival, by explicit products for every stake."""
    number = sum(0.98 / math.sqrt(2) ** k >= 2 / math.sqrt(n_blocks) for k in range(13)) or 1
    shares = [1 / 2] + (number - 1) * [1 / 2 / (number - 1)] if number > 1 else [1]
    arms = range(scores.shape[1])
    capital = 0.0
    for k, share in enumerate(shares):
        followed = hindsight = 1.0
        for at, row in enumerate(scores):
            before = scores[:at].sum(axis=0)
            others = [arm for arm in arms if arm != rival and not math.isnan(row[arm])]
            ahead = max(others, key=lambda arm: before[arm])
            left = n_blocks - at

            def pays(arm, at=at, row=row, before=before, left=left, k=k):
                extra = tolerance if arm == leader else 0.0
                expected = -(before[arm] - before[rival] + at * extra) / left
                if expected < -1 - 1e-9:
                    return math.inf
                if expected <= -1 + 1e-9:
                    return 1.0
                stake = 0.98 / math.sqrt(2) ** k * (1 if left == math.inf else n_blocks / left)
                stake = min(stake, 0.98 / (1 + expected))
                return 1 + stake * (row[arm] - row[rival] + extra - expected)

            followed *= pays(ahead)
            hindsight *= pays(leader)
        capital += share * (0.8 * followed + 0.2 * hindsight / (len(arms) - 1))
    return capital


@pytest.mark.parametrize("n_blocks", [None, 8, 9, 30, 10_000])
@pytest.mark.parametrize("ahead", [0.0, 0.9, 1.0])
def test_the_betting_evidence_is_a_mean_of_products(n_blocks, ahead):
    rng = np.random.default_rng(1)
    scores = rng.uniform(2, 4, (8, 4))
    scores[:, 2] += ahead * (4 - scores[:, 2])
    scores[:, 0] -= ahead * (scores[:, 0] - 2)
    scores[5:, 3] = math.nan
    evidence = BettingEvidence(0.25, 2.0, n_blocks)
    told = evidence.against(scores, leading(scores), 2, np.array([0, 1]))
    for evidence, tolerance in zip(told, (0.0, 0.125), strict=True):
        for place, rival in enumerate([0, 1]):
            slow = slow_bets(scores / 2.0, 2, rival, tolerance, n_blocks or math.inf)
            assert math.exp(evidence[place]) == pytest.approx(slow)
    if ahead == 1.0 and n_blocks in (8, 9):
        assert told[0][0] == math.inf


def assert_seldom(capital):
    """Assert that at most 1/x of equally likely sequences ever reach x, for every x."""
    best = np.sort(capital)[::-1]
    often = np.arange(1, len(best) + 1) / len(best)
    assert (often * best <= 1 + 1e-9).all()


@settings(max_examples=effort.runs(12, whole=30), deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=2, max_size=4),
    st.sampled_from([None, "all"]),
    st.integers(0, 2),
)
def test_all_bets_against_the_best_arm_together_seldom_win(rows, kind, worse):
    """Exactly, over all sequences: for any leader, both kinds of evidence, at the best moment.

    Arm 0 is the best; "near enough" is wrong for a rival only if it is behind by the tolerance.
    """
    scores = np.array(rows, dtype=float) / 8
    tolerance = worse / 8
    scores[:, 1:] += min(0.0, (scores[:, 0].mean() - scores[:, 1:].mean(axis=0)).min())
    scores[:, 1] -= max(0.0, tolerance - (scores[:, 0] - scores[:, 1]).mean())
    wrong = [arm for arm in (1, 2) if (scores[:, 0] - scores[:, arm]).mean() >= tolerance - 1e-12]
    if kind is None:
        sequences, n_blocks = itertools.product(range(len(scores)), repeat=3), None
    else:
        sequences, n_blocks = itertools.permutations(range(len(scores))), len(scores)
    capital = []
    for sequence in sequences:
        table, most = scores[list(sequence)], -math.inf
        evidence = BettingEvidence(tolerance, 2.0, n_blocks)
        for blocks, leader in itertools.product(range(1, len(table) + 1), (1, 2)):
            better, near = evidence.against(
                table[:blocks], leading(table[:blocks]), leader, np.array([0])
            )
            most = max(most, better[0], near[0] if leader in wrong else -math.inf)
        capital.append(math.exp(most))
    assert_seldom(capital)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12))
def test_a_bet_pays_at_most_one_on_average_if_the_mean_is_not_positive(values):
    """Exactly, by enumeration: two blocks drawn from the values, with a mean of at most 0."""
    centred = np.array(values) / 2 - np.mean(values) / 2
    total = 0.0
    for first in centred:
        for second in centred:
            scores = np.column_stack([[first, second], [0.0, 0.0]])
            better, _ = BettingEvidence(0.0, 1.0).against(scores, leading(scores), 0, np.array([1]))
            total += math.exp(better[0])
    assert total / len(values) ** 2 <= 1 + 1e-9


@settings(max_examples=effort.runs(15, whole=40))
@given(st.lists(st.integers(-4, 4), min_size=2, max_size=5))
def test_bets_on_blocks_without_replacement_pay_at_most_one_on_average_at_every_stop(values):
    """Over all orders of blocks whose differences sum to at most 0, stopped at the best moment.

    This checks Ville's inequality at every level, on which the race relies, and the average at the
    end.
    """
    differences = np.array(values, dtype=float) / 4
    while differences.sum() > 0:
        differences[differences.argmax()] -= 0.25
    orders = list(itertools.permutations(differences))
    wealth = np.zeros((len(orders), len(differences)))
    for at, order in enumerate(orders):
        scores = np.column_stack([order, np.zeros(len(order))])
        evidence = BettingEvidence(0.0, 1.0, n_blocks=len(order))
        for blocks in range(1, len(order) + 1):
            better, _ = evidence.against(
                scores[:blocks], leading(scores[:blocks]), 0, np.array([1])
            )
            wealth[at, blocks - 1] = math.exp(better[0])
    assert (wealth.mean(axis=0) <= 1 + 1e-9).all()
    assert_seldom(wealth.max(axis=1))


@pytest.mark.parametrize("n_blocks", [None, 60])
@pytest.mark.parametrize("kind", ["t", "bets"])
def test_a_shortfall_is_the_tolerance_at_which_the_rival_would_be_out(kind, n_blocks):
    def evidence(tolerance):
        if kind == "t":
            return StudentEvidence(tolerance)
        return BettingEvidence(tolerance, 2.0, n_blocks)

    scores = noisy([0.0, 0.02, -0.3], 0.1, 0.1, blocks=50)
    rivals, level = np.array([1, 2]), 3.0
    least = evidence(0.0).shortfalls(scores, leading(scores), 0, rivals, level)
    assert least[0] > least[1]
    for place in range(2):
        _, near = evidence(least[place] + 1e-9).against(scores, leading(scores), 0, rivals)
        assert near[place] >= level - 1e-6
        if least[place] > 1e-6:
            _, near = evidence(0.99 * least[place]).against(scores, leading(scores), 0, rivals)
            assert near[place] < level


def test_without_blocks_a_shortfall_is_all_that_scores_may_differ_by():
    nothing = np.empty((0, 2))
    assert BettingEvidence(0.0, 2.0).shortfalls(
        nothing, leading(nothing), 0, np.array([1]), 3.0
    ) == [2.0]
    assert StudentEvidence(0.0).shortfalls(nothing, leading(nothing), 0, np.array([1]), 3.0) == [
        math.inf
    ]


@pytest.mark.parametrize("evidence", [StudentEvidence(0.1), BettingEvidence(0.1, 8.0)])
def test_nearly_as_good_is_never_harder_to_show_than_better(evidence):
    scores = noisy([0.1, 0.0, 0.2], 0.2, 0.3, blocks=30)
    better, near = evidence.against(scores, leading(scores), 0, np.array([1, 2]))
    assert (near >= better).all()


def test_the_bets_are_the_same_to_the_last_bit_block_by_block_and_at_once():
    scores = noisy([0.5, 0.4, 0.45], 0.05, 0.1, blocks=40)
    slowly, at_once = BettingEvidence(0.0, 1.0), BettingEvidence(0.0, 1.0)
    for blocks in range(1, 41):
        told = slowly.against(scores[:blocks], leading(scores[:blocks]), 0, np.array([1, 2]))
    for one, other in zip(
        told, at_once.against(scores, leading(scores), 0, np.array([1, 2])), strict=True
    ):
        assert (one == other).all()


# --------------------------------------------------------------------------- the race


@pytest.mark.parametrize(
    "problem", [Problem(4, noise_std=1.0), Problem(4, reward_range=(-5, 5))], ids=["t", "bets"]
)
def test_the_best_arm_wins_and_an_arm_that_is_out_is_not_pulled_any_more(problem):
    policy = play(PairedRacing(problem), noisy([0.0, 1.0, 0.5, -1.0], 0.5, 0.2))
    assert policy.recommend().arm == "1"
    pulls = [estimate.pulls for estimate in policy.progress().arms]
    assert pulls[3] < pulls[2] <= pulls[1]
    assert policy.states == ("rejected", "undecided", "rejected", "rejected")


def test_what_a_block_does_to_all_arms_costs_nothing():
    quiet, loud = (noisy([0.0, 1.0], shared, 0.5, seed=3) for shared in (0.0, 100.0))
    races = [play(PairedRacing(Problem(2, noise_std=1.0)), table) for table in (quiet, loud)]
    assert races[0].told == races[1].told


@pytest.mark.parametrize(
    "problem", [Problem(3, noise_std=1.0), Problem(3, reward_range=(-5, 5))], ids=["t", "bets"]
)
def test_the_order_in_which_results_come_changes_no_decision(problem):
    table = noisy([0.0, 0.6, 0.3], 0.5, 0.4)
    straight = play(PairedRacing(problem), table)
    for seed in range(5):
        mixed = play(PairedRacing(problem), table, np.random.default_rng(seed))
        assert mixed.states == straight.states
        assert mixed.blocks == straight.blocks


def test_minimising_is_maximising_the_opposite():
    table = noisy([0.0, 0.6, 0.3], 0.5, 0.4)
    least = play(PairedRacing(Problem(3, noise_std=1.0, direction="minimize")), -table)
    most = play(PairedRacing(Problem(3, noise_std=1.0)), table)
    assert (least.states, least.told) == (most.states, most.told)
    assert least.progress().arms[1].mean == -most.progress().arms[1].mean


def test_equal_arms_end_only_with_a_tolerance_or_a_cap():
    table = np.full((500, 3), 0.5)
    near = play(PairedRacing(BOUNDED.clone(tolerance=0.2)), table)
    assert near.recommend().arm == "0"
    capped = play(PairedRacing(BOUNDED, max_pulls=90), table)
    answer = capped.recommend()
    assert (answer.status, answer.arm, answer.leader) == ("undecided", None, "0")
    assert capped.told == 90


def test_whoever_leads_on_all_blocks_is_the_best():
    table = noisy([0.50, 0.51, 0.49], 0.05, 0.02, blocks=6)
    policy = play(PairedRacing(BOUNDED, n_blocks=6), table)
    answer = policy.recommend()
    assert (answer.status, answer.arm) == ("decided", str(table.sum(axis=0).argmax()))
    assert answer.reason.startswith("every block was tried")
    assert policy.told == 18
    assert policy.ask(3) == []
    assert "in random order from 6" in answer.guarantee.assumptions[1]


def test_an_undecided_race_says_how_much_worse_than_the_best_its_leader_may_be():
    table = np.clip(noisy([0.5, 0.52], 0.1, 0.02), 0, 1)
    problem = Problem(2, reward_range=(0, 1))
    policy = play(PairedRacing(problem, max_pulls=100), table)
    assert policy.recommend().status == "undecided"
    assert 0.0 < policy.shortfall < 0.2
    near = problem.clone(tolerance=policy.shortfall + 1e-6)
    again = play(PairedRacing(near, max_pulls=100), table)
    assert again.recommend().status == "decided"
    assert again.shortfall == near.tolerance


def test_one_arm_needs_no_pull():
    policy = PairedRacing(Problem(["only"], reward_range=(0, 1)))
    assert policy.stopped
    assert policy.recommend().arm == "only"


def test_a_lost_pull_is_issued_again_on_its_block_and_changes_nothing():
    table = noisy([0.0, 0.6, 0.3], 0.1, 0.1)
    policy, calm = (PairedRacing(Problem(3, noise_std=1.0)) for _ in range(2))
    first = policy.ask()
    policy.fail(first, "lost")
    again = policy.ask()
    assert (again.tag, again.action) == (first.tag, first.action)
    policy.tell(again, table[again.tag, again.action])
    assert play(policy, table).states == play(calm, table).states


def test_results_that_wait_for_an_open_pull_of_an_earlier_block_are_said():
    policy = PairedRacing(Problem(["a", "b"], **BOUNDS))
    held, *others = policy.ask(101)
    for pull in others:
        policy.tell(pull, 0.5)
    # The other result of the first block waits for nothing.
    assert policy.warnings() == ()
    policy.tell(policy.ask(), 0.5)
    (said,) = policy.warnings()
    assert said.startswith("100 results count only after 1 result of an earlier block, of a (1):")
    policy.tell(held, 0.5)
    assert policy.warnings() == ()


@pytest.mark.parametrize("parallel", [1, 4, 16])
def test_a_race_that_holds_back_does_not_run_far_ahead_of_a_slow_pull(parallel):
    policy = PairedRacing(BOUNDED, 1e-9, parallel=parallel, holds_back=True)
    [slow, *others] = policy.ask(3)[:parallel]
    told = 0
    while others or (others := policy.ask(parallel)):
        policy.tell(others.pop(0), 0.5)
        told += 1
        assert told <= 2 * (parallel + 3)
    assert policy.outstanding() == [slow]
    policy.tell(slow, 0.5)
    assert len(policy.ask(parallel)) == parallel
    # A lost pull of the oldest block is issued whatever waits.
    for pull in policy.outstanding()[1:]:
        policy.tell(pull, 0.5)
    [oldest] = policy.outstanding()
    policy.fail(oldest, "lost")
    again = policy.ask()
    assert (again.arm, again.tag) == (oldest.arm, oldest.tag)


def test_a_late_result_of_a_lost_pull_counts_once():
    policy = PairedRacing(BOUNDED)
    first = policy.ask()
    policy.fail(first, "lost")
    policy.tell(first, 0.5)
    assert policy.progress().arms[0].pulls == 1
    assert policy.ask().action == 1


def test_a_pull_whose_score_is_known_from_a_lost_one_is_not_needed():
    policy = PairedRacing(BOUNDED)
    first, other = policy.ask(2)
    policy.fail(first, "lost")
    again = policy.ask()
    assert (again.arm, again.tag) == (first.arm, first.tag)
    assert policy.to_cancel() == []
    policy.tell(first, 0.5)
    assert policy.to_cancel() == [again]
    policy.fail(again, "error")
    assert policy.states[0] == "undecided"
    assert policy.outstanding() == [other]
    assert (policy.ask().arm, other.arm) == ("2", "1")


def test_another_score_of_the_same_arm_and_block_does_not_replace_the_first():
    policy, restored = (PairedRacing(Problem(2, **BOUNDS), n_blocks=60) for _ in range(2))
    first = policy.ask()
    policy.fail(first, "lost")
    again = policy.ask()
    policy.tell(first, 0.1)
    for _ in range(7):
        pull = policy.ask()
        policy.tell(pull, [0.1, 0.9][pull.action])
    evidence = policy.progress().evidence
    policy.tell(again, 0.9)
    assert policy.scores[0].tolist() == [0.1, 0.9]
    assert policy.progress().evidence == evidence
    restored.set_state(policy.get_state())
    assert restored.recommend() == policy.recommend()


def test_an_arm_that_fails_with_an_error_is_withdrawn_and_named():
    table = noisy([0.0, 0.6, 0.3], 0.1, 0.1)
    policy = PairedRacing(Problem(["a", "b", "c"], noise_std=1.0))
    pulls = policy.ask(3)
    policy.fail(pulls[1], "error")
    for pull in (pulls[0], pulls[2]):
        policy.tell(pull, table[0, pull.action])
    answer = play(policy, table).recommend()
    assert answer.arm == "c"
    assert "would always fail: b" in answer.guarantee.assumptions[-1]


def test_an_arm_that_fails_after_it_has_counted_against_others_costs_the_proof():
    policy = PairedRacing(BOUNDED)
    for pull in policy.ask(len(BOUNDED.arms)):
        policy.tell(pull, 0.5)
    assert policy.guarantee.proven
    (pull,) = policy.ask(1)
    policy.fail(pull, "error")
    assert not policy.guarantee.proven
    assert f"(not proven): {pull.arm}" in policy.guarantee.assumptions[-1]


def test_if_every_arm_is_withdrawn_there_is_no_answer():
    policy = PairedRacing(Problem(2, noise_std=1.0))
    for pull in policy.ask(2):
        policy.fail(pull, "error")
    assert policy.stopped
    assert policy.recommend().arm is None
    assert policy.recommend().reason == "every arm was withdrawn"


def test_pulls_on_decided_arms_are_called_back():
    policy = PairedRacing(Problem(3, noise_std=1.0))
    table = noisy([0.0, 5.0, 4.9], 0.0, 0.1)
    while policy.states[0] == "undecided":
        batch = policy.ask(9)
        for pull in batch[:7]:
            policy.tell(pull, table[pull.tag, pull.action])
        for pull in batch[7:]:
            if policy.states[0] == "undecided":
                policy.tell(pull, table[pull.tag, pull.action])
    late = policy.to_cancel()
    assert all(pull.arm == "0" for pull in late)


def test_a_study_of_it_verifies(tmp_path):
    problem = Problem(["a", "b", "c"], reward_range=(0, 1))
    study = ft.Study.create(
        problem, PairedRacing(problem), storage=tmp_path / "s.db", name="s", durability="process"
    )
    with study:
        while study.status == "running":
            pull = study.ask()
            study.tell(pull, {"a": 0.1, "b": 0.9, "c": 0.3}[pull.arm])
        assert study.recommend().arm == "b"
        assert study.verify().ok
    with ft.Study.open(tmp_path / "s.db", "s", policies=[PairedRacing]) as again:
        assert again.recommend().arm == "b"


def test_the_guarantee_is_proven_for_bounded_scores_and_else_calibrated():
    assert PairedRacing(BOUNDED).guarantee.label == "proven"
    assert PairedRacing(UNBOUNDED).guarantee.label == "calibrated"


def test_an_arm_that_fails_late_makes_a_calibrated_race_a_heuristic():
    policy = PairedRacing(UNBOUNDED)
    for pull in policy.ask(3):
        policy.tell(pull, 0.5)
    policy.fail(policy.ask(), "error")
    assert policy.guarantee.label == "heuristic"


# ------------------------------------------------------------- finite benchmarks, exactly


def is_worse(rows, arm, tolerance=0.0):
    means = np.mean(rows, axis=0)
    return means[arm] < means.max() - tolerance - 1e-12


ITEMS = list(itertools.product((0, 1), repeat=3))
TABLES = list(itertools.combinations_with_replacement(ITEMS, 6))


@pytest.mark.parametrize("delta", [0.05, 0.4])
def test_over_all_orders_of_a_small_benchmark_a_race_seldom_errs(delta):
    """Each table of six items, three candidates and scores 0 or 1 has at most 720 orders."""
    at_random = np.random.default_rng(int(100 * delta)).permutation(len(TABLES))
    tables = [TABLES[at] for at in at_random[: effort.runs(6, whole=len(TABLES))]]
    policy = PairedRacing(Problem(3, reward_range=(0, 1)), delta, n_blocks=6)
    assert max(error_rates(policy, tables, is_worse)) <= delta


@pytest.mark.parametrize(
    "rows",
    [
        ((1, 0),) * 4 + ((0, 1),) * 5,
        ((1, 0, 0),) * 3 + ((0, 1, 1),) * 4,
        ((1, 0, 0),) * 2 + ((0, 1, 0),) * 2 + ((0, 0, 1),) * 3,
    ],
    ids=["one item of difference", "two equal ones ahead", "three ways"],
)
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_over_all_orders_of_close_candidates_a_race_seldom_errs(rows, tolerance):
    problem = Problem(len(rows[0]), reward_range=(0, 1), tolerance=tolerance)
    policy = PairedRacing(problem, 0.3, n_blocks=len(rows))
    wrong = functools.partial(is_worse, tolerance=tolerance)
    assert max(error_rates(policy, [rows], wrong)) <= 0.3


def test_a_leader_that_cannot_be_overtaken_any_more_has_won():
    table = np.tile([1.0, 0.0], (6, 1))
    policy = play(PairedRacing(Problem(2, reward_range=(0, 1)), 1e-9, n_blocks=6), table)
    assert (policy.blocks, policy.recommend().arm) == (5, "0")


def test_a_race_over_all_of_few_items_needs_fewer_than_one_over_a_population():
    table = np.clip(noisy([0.60, 0.57, 0.50], 0.3, 0.15, blocks=2_000), 0, 1)
    problem = Problem(3, reward_range=(0, 1))
    few, many = (play(PairedRacing(problem, n_blocks=n), table) for n in (500, None))
    assert few.blocks < 0.7 * many.blocks


# ---------------------------------------------------------------------- blocks in random order


@pytest.mark.parametrize("listed", ["n_blocks", "max_blocks"])
def test_a_shuffled_race_is_a_race_over_the_permuted_list(listed):
    table = np.clip(noisy([0.5, 0.6, 0.55], 0.1, 0.1, blocks=80), 0, 1)
    problem = Problem(3, reward_range=(0, 1))
    shuffled = PairedRacing(problem, shuffle=True, **{listed: 80})
    shuffled.conceal("secret")
    order = []
    while not shuffled.stopped:
        pull = shuffled.ask()
        order += [pull.tag] if pull.tag not in order else []
        shuffled.tell(pull, table[pull.tag, pull.action])
        again = PairedRacing(problem, shuffle=True, **{listed: 80})
        again.conceal("secret")
        again.set_state(shuffled.get_state())
        shuffled = again
    assert order != sorted(order)
    rest = [tag for tag in range(80) if tag not in order]
    plain = play(PairedRacing(problem, **{listed: 80}), table[order + rest])
    assert (plain.states, plain.blocks) == (shuffled.states, shuffled.blocks)
    other = PairedRacing(problem, shuffle=True, **{listed: 80})
    other.conceal("another")
    assert [pull.tag for pull in other.ask(30)][::3] != order[:10]


def test_in_a_shuffled_race_no_arm_is_always_the_first():
    policy = PairedRacing(BOUNDED, shuffle=True, n_blocks=50)
    pulls = policy.ask(90)
    firsts = Counter(pull.arm for pull in pulls[::3])
    assert len(firsts) == 3
    assert all(len({pull.arm for pull in pulls[at : at + 3]}) == 3 for at in range(0, 90, 3))


def test_a_lost_pull_of_a_shuffled_race_is_issued_again():
    policy = PairedRacing(BOUNDED, shuffle=True, n_blocks=50)
    first, *_ = policy.ask(4)
    policy.fail(first, "lost")
    assert policy.ask().tag == first.tag


# ------------------------------------------------------------------------ arms set aside


def returning():
    """Return a race in which arm 2 is set aside behind arm 0, which arm 1 then overtakes."""
    rng = np.random.default_rng(2)
    table = np.empty((400, 3))
    table[:, 0] = 0.5
    table[:, 2] = 0.5 + rng.uniform(-0.03, 0.03, 400)
    table[:, 1] = 0.47 + np.where(np.arange(400) % 2, 0.4, -0.4)
    table[34:, 1] = 0.9
    return PairedRacing(Problem(3, reward_range=(0, 1), tolerance=0.15)), table


def test_an_arm_set_aside_returns_if_another_arm_is_left_and_catches_up():
    policy, table = returning()
    seen, missing = [], 0
    while not policy.stopped:
        (pull,) = policy.ask(1)
        missing += pull.tag < policy.blocks
        policy.tell(pull, table[pull.tag, pull.action])
        seen.append(policy.states)
    aside = [states for states in seen if states[2] == "set aside"]
    assert aside
    assert missing > 0
    assert policy.recommend().arm == "1"
    assert policy.departures[2].leader == "1"
    known = ~np.isnan(policy.scores[:, 2])
    assert known[: known.sum()].all()


@pytest.mark.parametrize("seed", range(3))
def test_a_race_with_returning_arms_continues_from_its_state_at_every_step(seed):
    policy, table = returning()
    order = np.random.default_rng(seed)
    while not policy.stopped:
        again = PairedRacing(policy.problem)
        again.set_state(policy.get_state())
        assert again.recommend() == policy.recommend()
        assert again.shortfall == policy.shortfall
        assert all(arm.mean is None or 0 <= arm.mean <= 1 for arm in again.progress().arms)
        policy = again
        batch = policy.ask(int(order.integers(1, 9)))
        for at in order.permutation(len(batch)):
            if not policy.stopped:
                policy.tell(batch[at], table[batch[at].tag, batch[at].action])
    assert policy.recommend().arm == "1"


def test_if_the_leader_fails_those_set_aside_behind_it_return():
    policy = PairedRacing(Problem(2, reward_range=(0, 1), tolerance=0.3))
    table = np.tile([0.6, 0.5], (400, 1))
    while policy.blocks < 3:
        pull = policy.ask()
        policy.tell(pull, table[pull.tag, pull.action])
    policy.fail(policy.ask(), "error")
    assert policy.recommend().arm == "1"
    assert not policy.guarantee.proven


def test_a_pull_that_fails_while_its_arm_is_set_aside_is_issued_again_if_the_arm_returns():
    policy = PairedRacing(Problem(3, reward_range=(0, 1), tolerance=0.3), n_blocks=400)
    pulls = []

    def score(pull):
        return [0.6, 0.5, float(pull.tag % 2 == 0)][pull.action]

    while "set aside" not in policy.states:
        pulls += policy.ask(9 - len(pulls))
        policy.tell(pull := pulls.pop(0), score(pull))
    aside, leader = policy.states.index("set aside"), policy.leader
    failing = [pull for pull in pulls if pull.action == aside]
    assert failing
    assert not policy.stopped
    for pull in failing:
        pulls.remove(pull)
        policy.fail(pull, "error")
    assert policy.states[aside] == "set aside"
    for _ in range(3_000):
        if policy.stopped:
            break
        pulls += policy.ask(max(0, 9 - len(pulls)))
        pull = pulls.pop(0)
        if pull.action == leader:
            policy.fail(pull, "error")
        else:
            policy.tell(pull, score(pull))
    assert (policy.states[leader], policy.recommend().status) == ("withdrawn", "decided")


def test_an_only_arm_left_is_said_and_not_proven():
    policy = PairedRacing(Problem(["a", "b"], reward_range=(0, 1)), n_blocks=9)
    policy.fail(policy.ask(), "error")
    answer = policy.recommend()
    assert (answer.arm, answer.reason) == ("b", "'b' is the only arm left: all others failed")
    assert answer.guarantee.label == "heuristic"
    assert "nothing was compared" in answer.guarantee.assumptions[-1]


def test_arms_that_are_equal_on_all_blocks_are_named():
    policy = PairedRacing(Problem(["a", "b", "c"], reward_range=(0, 1)), n_blocks=30)
    table = np.array([[0.1, 0.3, 0.0], [0.2, 0.1, 0.0], [0.3, 0.2, 0.0]] * 10)
    assert policy.equal_arms == ()
    play(policy, table)
    (equal,) = policy.equal_arms
    assert {equal, policy.recommend().arm} == {"a", "b"}
    assert policy.recommend().reason.endswith(f"exactly equal to it: {equal}")


def test_the_basis_of_a_promise_is_the_page_with_its_proof_or_its_measurement():
    sources = [PairedRacing(problem).guarantee.source for problem in (BOUNDED, UNBOUNDED)]
    assert sources == ["docs/explanation/races.md", "docs/how-to/tune-a-model.md"]


# ------------------------------------------------------------------ blocks that share an error


def test_blocks_that_overlap_are_worth_less_and_the_label_names_it():
    table = noisy([0.0, 0.6, 0.3], 0.5, 0.2)
    free, bound = (play(PairedRacing(UNBOUNDED, overlap=share), table) for share in (0.0, 0.25))
    assert free.blocks < bound.blocks
    assert "0.25 times their variance" in bound.guarantee.assumptions[0]
    assert "share" not in free.guarantee.assumptions[0]


def test_a_race_ends_when_no_number_of_blocks_can_decide_it():
    table = noisy([0.5, 0.51, -9.0], 0.5, 0.2)
    policy = play(PairedRacing(UNBOUNDED, overlap=0.25), table)
    answer = policy.recommend()
    assert (answer.status, policy.blocks) == ("undecided", 20)
    assert answer.reason == "no number of blocks like these 20 could decide it"
    assert policy.states[2] == "rejected"
    assert policy.shortfall > 0.01
    assert policy.to_cancel() == policy.outstanding()
    again = PairedRacing(UNBOUNDED, overlap=0.25)
    again.set_state(policy.get_state())
    assert (again.recommend(), again.departures) == (answer, policy.departures)


def test_equal_scores_end_a_race_of_overlapping_blocks_or_are_near_enough():
    table = np.full((90, 3), 0.5)
    tied = play(PairedRacing(UNBOUNDED, overlap=0.25), table)
    assert (tied.recommend().status, tied.blocks) == ("undecided", 20)
    near = play(PairedRacing(UNBOUNDED.clone(tolerance=0.1), overlap=0.25), table)
    assert near.recommend().status == "decided"


def test_a_race_may_be_limited_to_some_blocks():
    policy = play(PairedRacing(UNBOUNDED, max_blocks=7), noisy([0.5, 0.51, -9.0], 0.5, 0.2))
    assert (policy.blocks, policy.recommend().status) == (7, "undecided")
    assert "the maximum of 7 blocks is reached" in policy.recommend().reason
    assert policy.told < 21


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"overlap": -0.1}, "overlap"),
        ({"overlap": math.nan}, "overlap"),
        ({"overlap": 0.25, "n_blocks": 5}, "overlap"),
        ({"overlap": 0.25, "problem": BOUNDED}, "overlap"),
        ({"max_blocks": 0}, "max_blocks"),
        ({"shuffle": True}, "shuffle"),
        ({"shuffle": 1, "n_blocks": 3}, "shuffle"),
        ({"blocks_from": 3}, "blocks_from"),
        ({"arms_from": ["x"]}, "arms_from"),
        ({"arms_from": [1, 2, 3]}, "arms_from"),
    ],
)
def test_an_overlap_or_a_limit_that_means_nothing_is_refused(given, named):
    with raises(InvalidArgument, named):
        PairedRacing(**{"problem": UNBOUNDED, **given})


# ----------------------------------------------------------------------------- hostile scores


@pytest.mark.parametrize("scale", [1e-160, 1e-3, 1e160, 1e300])
@pytest.mark.parametrize("overlap", [0.0, 0.25])
def test_decisions_do_not_depend_on_the_unit_of_scores(scale, overlap):
    table = noisy([0.0, 0.6, 0.3], 0.5, 0.2)
    usual, scaled = (
        play(PairedRacing(UNBOUNDED.clone(tolerance=0.1 * unit), overlap=overlap), unit * table)
        for unit in (1.0, scale)
    )
    assert scaled.states == usual.states
    assert scaled.told == usual.told
    if usual.shortfall:
        assert scaled.shortfall / scale == pytest.approx(usual.shortfall, rel=1e-6)


def test_differences_in_the_last_digit_of_scores_are_none():
    table = np.full((60, 2), 0.1 + 0.2)
    table[:, 1] = 0.3
    assert table[0, 0] != table[0, 1]
    policy = play(PairedRacing(Problem(2, noise_std=1.0), max_blocks=60), table)
    assert policy.recommend().status == "undecided"


def test_a_constant_difference_is_believed_after_some_blocks_and_not_at_once():
    table = np.tile([0.5, 0.6], (60, 1))
    policy = play(PairedRacing(Problem(2, noise_std=1.0)), table)
    assert policy.recommend().arm == "1"
    assert 4 <= policy.blocks <= 8


@pytest.mark.statistical
@pytest.mark.parametrize(
    "differences",
    [
        lambda rng, shape: rng.standard_t(1.5, shape),
        lambda rng, shape: rng.choice([-1.0, 0.0, 0.0, 0.0, 1.0], shape),
        lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    ],
    ids=["heavy tails", "mostly ties", "two values"],
)
def test_symmetric_differences_of_any_tail_seldom_rule_out_an_equal_arm(differences):
    runs = effort.runs(30, whole=2_000)
    tables = differences(np.random.default_rng(5), (runs, 60))
    wrong = 0
    for values in tables:
        policy = PairedRacing(Problem(2, noise_std=1.0), delta=0.1, max_blocks=60)
        play(policy, np.column_stack([values, np.zeros(60)]))
        wrong += policy.states[0] == "rejected"
    assert wrong / runs <= 0.1 + 4.0 * math.sqrt(0.09 / runs)


# ------------------------------------------------------------------------------- departures


def test_a_race_tells_when_every_arm_left_and_why():
    policy = PairedRacing(Problem(["a", "b", "c", "d"], noise_std=1.0, tolerance=0.5))
    table = noisy([0.0, 9.0, 8.9, 0.0], 0.5, 0.1)
    for pull in policy.ask(4):
        if pull.arm == "d":
            policy.fail(pull, "error")
        else:
            policy.tell(pull, table[pull.tag, pull.action])
    play(policy, table)
    worse, best, near, failed = policy.departures
    assert best is None
    assert (worse.leader, near.leader, failed.leader) == ("b", "b", None)
    assert worse.behind == pytest.approx(9.0, abs=0.3)
    assert near.behind == pytest.approx(0.1, abs=0.2)
    assert failed == (0, None, None)
    assert worse.blocks <= near.blocks == policy.blocks


@pytest.mark.parametrize(
    "problem",
    [
        Problem(3, top=2, noise_std=1.0),
        Problem(3, noise_std=1.0, feedback="unbiased", reading_std=1.0),
        Problem(3, reward_range=(0, 1), failure_value=0.0),
    ],
    ids=["top", "readings", "failures"],
)
def test_a_problem_that_is_not_covered_is_refused(problem):
    with raises(InvalidArgument, "problem", given=problem):
        PairedRacing(problem)


def test_results_without_a_block_are_refused():
    with raises(NotSupported):
        PairedRacing(BOUNDED).tell(BOUNDED.pull(arm="1"), 0.5)


@pytest.mark.statistical
@pytest.mark.parametrize("shape", ["normal", "bounded"])
def test_a_wrong_arm_is_named_with_at_most_the_stated_probability(shape):
    """Two arms that are hard to distinguish: gap 0.05 deviations, 60 blocks.

    The tolerance is slightly less than the gap, so both kinds of evidence can err.
    """
    runs = effort.runs(50, whole=500)
    rng = np.random.default_rng(5)
    wrong = 0
    gap, known = (0.05, {"noise_std": 1.0}) if shape == "normal" else (0.02, BOUNDS)
    problem = Problem(2, tolerance=0.9 * gap, **known)
    for _ in range(runs):
        if shape == "normal":
            table = rng.normal([0.0, gap], 1.0, (60, 2))
        else:
            table = (rng.random((60, 2)) < [0.5, 0.5 + gap]).astype(float)
        policy = play(PairedRacing(problem, delta=0.2, max_pulls=110), table)
        wrong += policy.recommend().arm == "0"
    assert wrong / runs <= effort.tolerated(0.2, runs)
    assert wrong > 0


def test_a_study_of_it_is_opened_and_shown_without_naming_its_class(tmp_path):
    from click.testing import CliRunner

    from fairtrial.cli.app import app
    from fairtrial.study import Study

    storage = f"sqlite:///{tmp_path / 'models.db'}"
    problem = Problem(["small", "large"], reward_range=(0, 1))
    with Study.create(problem, PairedRacing(problem), storage=storage, name="s", seed=1) as study:
        study.tell(study.ask(), 0.5)
    with Study.open(storage, "s") as study:
        assert isinstance(study.policy, PairedRacing)
        assert study.verify().ok
    for command in ("verify", "history"):
        result = CliRunner().invoke(app, ["study", command, "s", "--storage", storage])
        assert result.exit_code == 0, result.output
