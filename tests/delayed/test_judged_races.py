"""Races with a judge's scores of all arms on all blocks."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.delayed import PairedRacing, Problem
from fairtrial.delayed.policies.judged_evidence import Judge, JudgedEvidence
from fairtrial.delayed.policies.limited_evidence import LimitedEvidence, Limits
from fairtrial.delayed.policies.paired_evidence import leading, stakes_for
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.messages import raises


def play(policy, table):
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(table[pull.tag, pull.action]))
    return policy


def scores_and_judge(agreement, blocks=300, means=(0.7, 0.62, 0.5), seed=0):
    """Scores 0 or 1, and a judge that repeats them with that probability, and else guesses."""
    rng = np.random.default_rng(seed)
    scores = (rng.random((blocks, 1)) * 0.6 + rng.random((blocks, len(means))) * 0.4).argsort(0)
    scores = (scores.argsort(0) < np.array(means) * blocks).astype(float)
    guesses = (rng.random(scores.shape) < 0.5).astype(float)
    return scores, np.where(rng.random(scores.shape) < agreement, scores, guesses)


# ------------------------------------------------------------------------ slow reference


def slow_slope(differences, judged, all_judged):
    """The slope of the earlier differences on the judge's, drawn to 0 by four more blocks."""
    if not differences:
        return 0.0
    x, y = np.array(judged), np.array(differences)
    spread = ((x - x.mean()) ** 2).sum() + 4.0 * np.var(all_judged)
    together = ((x - x.mean()) * (y - y.mean())).sum()
    return min(1.0, max(0.0, together / spread)) if spread > 0 else 0.0


def slow_product(scores, judge, targets, arm, stake, tolerance, leader, judged):
    """The capital of one stake after all blocks, by the formulas of the page."""
    n, capital = len(judge), 1.0
    for t in range(len(scores)):
        b = targets[t]
        extra = tolerance if b == leader else 0.0
        earlier = [scores[i, b] - scores[i, arm] for i in range(t)]
        predicted = judge[:, b] - judge[:, arm]
        slope = slow_slope(earlier, predicted[:t].tolist(), predicted) if judged else 0.0
        left = predicted[t:]
        mean = left.mean()
        # A bound on the largest of `left`, arm by arm.
        reach = slope * (judge[t:, b].max() - judge[t:, arm].min() - mean)
        expected = -(sum(earlier) + extra * t) / (n - t)
        value = scores[t, b] - scores[t, arm] + extra - slope * (predicted[t] - mean)
        if 1.0 + expected < 0.0:
            return math.inf
        room = 1.0 + expected + reach
        capital *= 1.0 + min(stake * n / (n - t), 0.98 / room) * (value - expected)
    return capital


@pytest.mark.parametrize("leader", [0, 1])
def test_the_evidence_is_that_of_explicit_products(leader):
    scores, judge = scores_and_judge(0.7, blocks=30)
    told, targets = scores[:12], leading(scores[:12])
    evidence = JudgedEvidence(0.1, 1.0, 30, Judge(judge))
    rivals = np.array([1 - leader, 2])
    found = evidence.against(told, targets, leader, rivals)
    stakes, shares = stakes_for(30)
    for tolerance, logs in zip((0.0, 0.1), found, strict=True):
        for place, arm in enumerate(rivals):
            best = [b if b != arm else second for b, second in targets]
            slow = 0.0
            for judged in (False, True):
                for stake, share in zip(stakes, np.exp(shares), strict=True):
                    given = (arm, stake, tolerance, leader, judged)
                    slow += 0.5 * share * 0.8 * slow_product(told, judge, best, *given)
                    fixed = [leader] * 12
                    slow += 0.5 * share * 0.2 / 2 * slow_product(told, judge, fixed, *given)
            assert logs[place] == pytest.approx(math.log(slow), abs=1e-9)


def test_the_bets_are_the_same_block_by_block_and_at_once():
    scores, judge = scores_and_judge(0.8, blocks=40)
    targets, rivals = leading(scores), np.array([1, 2])
    steps = JudgedEvidence(0.05, 1.0, 40, Judge(judge))
    for blocks in range(1, 40):
        found = steps.against(scores[:blocks], targets[:blocks], 0, rivals)
        fresh = JudgedEvidence(0.05, 1.0, 40, Judge(judge))
        at_once = fresh.against(scores[:blocks], targets[:blocks], 0, rivals)
        assert np.array_equal(found, at_once)


# ----------------------------------------------------------------------------- validity


levels = st.sampled_from([0.0, 0.3, 1.0])


@settings(max_examples=effort.runs(8, whole=100), deadline=None)
@given(st.lists(st.tuples(*[levels] * 4), min_size=4, max_size=4), st.booleans())
def test_the_capital_against_the_best_is_at_most_one_on_average(rows, copies):
    """Exactly, over all orders, after every number of blocks, whatever the judge says.

    The judge is any function of the true scores: useless, biased, or their opposite.
    """
    rows = np.array(rows)
    scores, judge = rows[:, :2], 1.0 - rows[:, :2] if copies else rows[:, 2:]
    best = int(scores.mean(axis=0).argmax())
    totals = np.zeros(4)
    orders = list(itertools.permutations(range(4)))
    for order in orders:
        now = scores[list(order)]
        evidence = JudgedEvidence(0.0, 1.0, 4, Judge(judge[list(order)]))
        for blocks in range(1, 5):
            told = now[:blocks]
            better, _ = evidence.against(told, leading(told), 1 - best, np.array([best]))
            totals[blocks - 1] += math.exp(better[0])
    assert (totals / len(orders) <= 1.0 + 1e-9).all()


JUDGES = {
    "useless": lambda rows: np.random.default_rng(1).random(rows.shape),
    "biased": lambda rows: np.clip(rows * 0.5 + [0.5, 0.0, 0.0], 0.0, 1.0),
    "adversarial": lambda rows: 1.0 - rows,
    "constant": lambda rows: np.full(rows.shape, 0.5),
    "perfect": lambda rows: rows,
}


@pytest.mark.parametrize("judge", JUDGES)
def test_over_all_orders_of_close_candidates_a_judged_race_seldom_errs(judge):
    rows = np.array([[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 0], [0, 1, 1]], dtype=float)
    judged = JUDGES[judge](rows)
    wrong = []
    orders = list(itertools.permutations(range(5)))
    for order in orders[:: effort.runs(4, whole=1)]:
        policy = PairedRacing(
            Problem(3, reward_range=(0, 1)), 0.3, n_blocks=5, judge=judged[list(order)].tolist()
        )
        wrong.append(play(policy, rows[list(order)]).recommend().arm != "1")
    assert np.mean(wrong) <= (0.3 if effort.long else effort.tolerated(0.3, len(wrong)))


@pytest.mark.parametrize("judge", JUDGES)
def test_equal_candidates_are_seldom_ruled_out_whatever_the_judge_says(judge):
    runs, wrong = effort.runs(6, whole=1_000), 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        scores = rng.permuted(np.tile([[0.0], [1.0]], (20, 3)), axis=0)
        policy = PairedRacing(
            Problem(3, reward_range=(0, 1)),
            0.2,
            n_blocks=40,
            shuffle=True,
            judge=JUDGES[judge](scores).tolist(),
            seed=seed,
        )
        wrong += play(policy, scores).blocks < 40
    assert wrong / runs <= effort.tolerated(0.2, runs)


# ------------------------------------------------------------------ limits and a judge


def slow_limit(scores, judge, categories, arm, margin, wanted, *, breaks):
    """The capital of each category that an arm keeps, or breaks, its limit against arm 0."""
    capitals = []
    for category in sorted(set(categories)):
        listed = [at for at, other in enumerate(categories) if other == category]
        unit = 1.0 + margin if breaks else 1.0
        predicted = (judge[:, arm] - judge[:, 0]) * (-1.0 if breaks else 1.0)
        own = [arm, 0] if not breaks else [0, arm]
        n, capital = len(listed), 0.0
        stakes, shares = stakes_for(n)
        for judged in (False, True):
            for stake, share in zip(stakes, np.exp(shares), strict=True):
                part, won = 1.0, 0.0
                for place, at in enumerate(item for item in listed if item < len(scores)):
                    gap = (scores[at, arm] - scores[at, 0] + margin) * (-1.0 if breaks else 1.0)
                    left = listed[place:]
                    mean = predicted[left].mean()
                    slope = 0.0
                    if judged:
                        differences = (scores[:at, arm] - scores[:at, 0]).tolist()
                        signs = judge[:, arm] - judge[:, 0]
                        slope = slow_slope(differences, signs[:at].tolist(), signs)
                    largest = judge[left, own[0]].max() - judge[left, own[1]].min()
                    reach = slope * (largest - mean) / unit
                    value = (gap - slope * (predicted[at] - mean)) / unit
                    expected = -won / unit / (n - place)
                    won += gap
                    if not wanted(at):
                        continue
                    if 1.0 + expected < -1e-9:
                        part = math.inf
                        continue
                    room = 1.0 + expected + reach
                    grown = min(stake * n / (n - place), 0.98 / room)
                    part *= 1.0 + grown * (value - expected)
                capital += 0.5 * share * part
        capitals.append(capital)
    return capitals


def slow_pair(scores, judge, arm, target, tolerance, wanted):
    """The capital that a target is better, over some blocks."""
    n, capital = len(judge), 0.0
    stakes, shares = stakes_for(n)
    predicted, own = judge[:, target] - judge[:, arm], scores[:, target] - scores[:, arm]
    for judged in (False, True):
        for stake, share in zip(stakes, np.exp(shares), strict=True):
            part = 1.0
            for t in filter(wanted, range(len(scores))):
                slope = slow_slope(own[:t].tolist(), predicted[:t].tolist(), predicted)
                slope, left = slope * judged, predicted[t:]
                largest = judge[t:, target].max() - judge[t:, arm].min()
                room_for_judge = slope * (largest - left.mean())
                expected = -(own[:t].sum() + tolerance * t) / (n - t)
                value = own[t] + tolerance - slope * (predicted[t] - left.mean())
                grown = min(stake * n / (n - t), 0.98 / (1.0 + expected + room_for_judge))
                part *= 1.0 + grown * (value - expected)
            capital += 0.5 * share * part
    return capital


@pytest.mark.parametrize("leader", [0, 2])
def test_with_limits_the_evidence_is_that_of_explicit_products(leader):
    scores, judge = scores_and_judge(0.7, blocks=24)
    told, targets = scores[:11], leading(scores[:11])
    categories = np.arange(24) % 3 // 2
    limits = Limits(0, 0.1, categories, has_end=True)
    evidence = LimitedEvidence(0.05, 1.0, 24, limits, Judge(judge))
    rivals = np.delete(np.arange(3), leader)
    for blocks in (4, 11):
        found = evidence.against(told[:blocks], targets[:blocks], leader, rivals)

    def kept(arm, wanted):
        if arm == 0:
            return [math.inf]
        return slow_limit(told, judge, categories, arm, 0.1, wanted, breaks=False)

    for tolerance, logs in zip((0.0, 0.05), found, strict=True):
        for place, arm in enumerate(rivals.tolist()):
            followed = 1.0
            for other in {0, 1, 2} - {arm}:
                extra = tolerance if other == leader else 0.0

                def wanted(t, other=other):
                    return targets[t, 0] == other

                pair = slow_pair(told, judge, arm, other, extra, wanted)
                followed *= min(pair, *kept(other, wanted))
            pair = slow_pair(told, judge, arm, leader, tolerance, lambda t: True)
            hindsight = min(pair, *kept(leader, lambda t: True))
            breaks = slow_limit(told, judge, categories, arm, 0.1, lambda t: True, breaks=True)
            own = 1.0 if arm == 0 else np.mean(breaks)
            slow = 0.6 * followed + 0.2 * hindsight / 2 + 0.2 * own
            assert logs[place] == pytest.approx(math.log(slow), abs=1e-9)


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("judge", JUDGES)
def test_over_all_orders_a_judged_race_with_limits_seldom_errs(judge, skips):
    """Arm 1 is better, and exactly on the margin in category 1; arm 2 is better and below it."""
    rows = [(1, 0, 0, 0), (0, 1, 1, 0), (0, 1, 1, 0), (0, 1, 0, 1), (1, 0, 0, 1), (0, 0, 1, 1)]
    judged = JUDGES[judge](np.array(rows, dtype=float)[:, :-1])
    orders = list(itertools.permutations(range(6)))
    wrong = []
    for order in orders[:: effort.runs(60, whole=1)]:
        policy = PairedRacing(
            Problem(3, reward_range=(0, 1), control="0"),
            0.3,
            n_blocks=6,
            margin=0.0,
            categories=[str(rows[at][-1]) for at in order],
            judge=judged[list(order)],
            skips=skips,
        )
        table = np.array([rows[at][:-1] for at in order], dtype=float)
        wrong.append(play(policy, table).recommend().arm not in right_answers(rows))
    assert np.mean(wrong) <= (0.3 if effort.long else effort.tolerated(0.3, len(wrong)))


def right_answers(rows):
    """The best of the arms that are not worse than arm 0 in any category."""
    values, of = np.array(rows)[:, :-1], np.array(rows)[:, -1]
    gaps = values - values[:, [0]]
    kept = [all(gaps[of == c, k].mean() >= -1e-9 for c in set(of)) for k in range(3)]
    best = max(values[:, k].mean() for k in range(3) if kept[k])
    return {str(k) for k in range(3) if kept[k] and values[:, k].mean() >= best - 1e-9}


@pytest.mark.statistical
@pytest.mark.parametrize(("short_by", "skips"), effort.pairs([0.0, 1e-6], [False, True]))
@pytest.mark.parametrize("judge", effort.first(1, ["adversarial", "biased", "useless"]))
def test_an_arm_at_the_margin_is_seldom_misjudged_whatever_the_judge_says(judge, short_by, skips):
    """Arm 1 is better overall. In one category its mean is on the margin, or hardly below."""
    runs, wrong = effort.runs(3, whole=100), 0
    rng = np.random.default_rng(12)
    hard = np.arange(60) % 2 == 1
    for seed in range(runs):
        table = np.full((60, 3), 0.5)
        table[:, 2] = 0.3
        table[hard, 1] = 0.4 - short_by + rng.permutation(np.repeat([-0.4, 0.4], 15))
        table[~hard, 1] = 0.9
        table = np.clip(table, 0.0, 1.0)
        policy = PairedRacing(
            Problem(3, reward_range=(0, 1), control="0"),
            0.1,
            n_blocks=60,
            shuffle=True,
            margin=0.1,
            categories=[str(int(one)) for one in hard],
            judge=JUDGES[judge](table),
            skips=skips,
            seed=seed,
        )
        answer = play(policy, table).recommend().arm
        wrong += answer == ("1" if short_by else "0") and policy.blocks < 60
    assert wrong / runs <= effort.tolerated(0.1, runs)


def test_a_judge_saves_pulls_where_a_limit_is_close():
    scores, judge = scores_and_judge(0.95, blocks=400, means=(0.60, 0.66, 0.4))
    given = {"n_blocks": 400, "shuffle": True, "seed": 2, "margin": 0.05}
    given["categories"] = ["easy", "hard"] * 200
    problem = Problem(3, reward_range=(0, 1), control="0", tolerance=0.02)
    plain, judged = (
        play(PairedRacing(problem, judge=table, **given), scores) for table in (None, judge)
    )
    assert plain.recommend().arm == judged.recommend().arm == "1"
    assert judged.told < 0.9 * plain.told
    assert judged.explained_by_judge > 0.7
    assert "limits and a judge" in judged.guarantee.name
    assert judged.guarantee.label == "proven"


def test_a_judged_race_with_limits_continues_from_its_state_at_every_step():
    scores, judge = scores_and_judge(0.9, blocks=6)
    problem = Problem(3, reward_range=(0, 1), control="2", tolerance=0.1)
    given = {"n_blocks": 6, "margin": 0.1, "categories": ["a", "b"] * 3, "judge": judge}
    policy = PairedRacing(problem, 0.4, shuffle=True, **given)
    policy.conceal("secret")
    while not policy.stopped:
        again = PairedRacing(problem, 0.4, shuffle=True, **given)
        again.conceal("secret")
        again.set_state(policy.get_state())
        assert again.shortfall == policy.shortfall
        assert again.recommend() == policy.recommend()
        policy = again
        pull = policy.ask()
        policy.tell(pull, float(scores[pull.tag, pull.action]))


# -------------------------------------------------------------------------------- gains


def test_a_good_judge_saves_pulls_and_a_useless_one_costs_few():
    told = {}
    for agreement in (0.0, 0.95):
        scores, judge = scores_and_judge(agreement)
        problem = Problem(3, reward_range=(0, 1), tolerance=0.02)
        given = {"n_blocks": 300, "shuffle": True, "seed": 1}
        plain = play(PairedRacing(problem, **given), scores).told
        policy = play(PairedRacing(problem, judge=judge, **given), scores)
        assert policy.recommend().arm == "0"
        told[agreement] = policy.told / plain
        explained = policy.explained_by_judge
        assert explained > 0.7 if agreement else explained < 0.1
    assert told[0.95] < 0.75
    assert told[0.0] < 1.2


def test_a_judged_race_continues_from_its_state_at_every_step():
    scores, judge = scores_and_judge(0.9, blocks=12)
    problem = Problem(3, reward_range=(0, 1), tolerance=0.1)
    policy = PairedRacing(problem, 0.4, n_blocks=12, shuffle=True, judge=judge, seed=3)
    while not policy.stopped:
        again = policy.clone()
        again.set_state(policy.get_state())
        assert again.shortfall == policy.shortfall
        assert again.explained_by_judge == policy.explained_by_judge
        pull, other = policy.ask(), again.ask()
        assert (pull.action, pull.tag) == (other.action, other.tag)
        policy = again
        policy.tell(other, float(scores[other.tag, other.action]))
    assert policy.guarantee.label == "proven"
    assert "judge" in policy.guarantee.name
    assert any("judge" in text for text in policy.guarantee.assumptions)


def test_small_scores_can_be_the_good_ones_and_any_range_counts():
    scores, judge = scores_and_judge(0.9, blocks=60)
    given = {"n_blocks": 60, "shuffle": True, "seed": 1}
    plain = PairedRacing(Problem(3, reward_range=(0, 1)), judge=judge, **given)
    turned = PairedRacing(
        Problem(3, reward_range=(-4, 0), direction="minimize"), judge=-4.0 * judge, **given
    )
    first, second = play(plain, scores), play(turned, -4.0 * scores)
    assert (first.told, first.states) == (second.told, second.states)


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_the_unit_of_scores_changes_nothing(scale):
    scores, judge = scores_and_judge(0.9, blocks=40)
    given = {"n_blocks": 40, "shuffle": True, "seed": 1}
    one = PairedRacing(Problem(3, reward_range=(0, 1), tolerance=0.05), judge=judge, **given)
    problem = Problem(3, reward_range=(0, scale), tolerance=0.05 * scale)
    other = PairedRacing(problem, judge=scale * judge, **given)
    first, second = play(one, scores), play(other, scale * scores)
    assert (first.told, first.states) == (second.told, second.states)
    assert first.explained_by_judge == pytest.approx(second.explained_by_judge)
    carried = np.array(first.carried_evidence(["0", "1", "2", "new"]))
    assert carried == pytest.approx(np.array(second.carried_evidence(["0", "1", "2", "new"])))


@pytest.mark.parametrize(("arms", "blocks"), [(1, 20), (2, 1), (3, 20)])
def test_equal_scores_and_a_judge_without_an_opinion(arms, blocks):
    ones = np.ones((blocks, arms))
    policy = play(
        PairedRacing(Problem(arms, reward_range=(0, 1)), n_blocks=blocks, judge=ones), ones
    )
    assert policy.told == (blocks * arms if arms > 1 else 0)
    assert policy.explained_by_judge == (0.0 if arms > 1 else None)


@pytest.mark.parametrize(
    ("given", "range_"),
    [
        ({"n_blocks": 2, "judge": [[1.0, 0.0]]}, (0, 1)),
        ({"n_blocks": 2, "judge": [[1.0, 0.0], [math.nan, 0.0]]}, (0, 1)),
        ({"n_blocks": 2, "judge": [[1.0, 0.0], [2.0, 0.0]]}, (0, 1)),
        ({"n_blocks": 2, "judge": "text"}, (0, 1)),
        ({"judge": [[1.0, 0.0]]}, (0, 1)),
        ({"n_blocks": 1, "judge": [[1.0, 0.0]]}, None),
    ],
)
def test_a_judge_that_means_nothing_is_refused(given, range_):
    noise = {"noise_std": "estimated"} if range_ is None else {}
    with raises(InvalidArgument) as error:
        PairedRacing(Problem(2, reward_range=range_, **noise), **given)
    assert error.value.name == "judge"
