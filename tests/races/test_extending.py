"""A race with one more candidate than an earlier one: what is paid, promised and refused."""

import itertools
import math

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.delayed import PairedRacing, Problem
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.study import Study
from tests import effort
from tests.messages import raises

N = 80
CHANCES = {"a": 0.2, "b": 0.7, "c": 0.3, "new": 0.98}
OLD = ["a", "b", "c"]


def known_score(candidate, item):
    return float((item * 37 + 11) % 100 / 100 < CHANCES[candidate])


class Paid:
    """A score function that remembers what was paid."""

    def __init__(self):
        self.calls = []

    def __call__(self, candidate, item):
        self.calls.append((candidate, item))
        return known_score(candidate, item)


def run(candidates, score, storage, **given):
    options = {"reward_range": (0, 1), "storage": storage, "name": "one", "cost": 0.5, **given}
    return ft.race(candidates, range(N), score, **options)


def extended(score, storage, **given):
    options = {"name": "two", "extends": "one", "candidates": [*OLD, "new"], **given}
    return run(options.pop("candidates"), score, storage, **options)


def test_no_score_of_the_earlier_race_is_paid_again(tmp_path):
    score, storage = Paid(), tmp_path / "race.db"
    first = run(OLD, score, storage)
    result = extended(score, storage)
    again = extended(score, storage)
    assert (first.best, result.best, again.best) == ("b", "new", "new")
    assert len(score.calls) == len(set(score.calls)) == first.evaluations + result.evaluations
    assert result.reused > 0
    assert result.evaluations + result.reused == result.study.policy.told
    assert result.cost == again.cost == 0.5 * result.evaluations
    assert result.saved == N * 4 - result.study.policy.told
    assert f"{result.reused} known before" in repr(result)
    assert result.study.verify().ok
    assert result.guarantee.label == "proven"
    assert "half of the evidence" in result.guarantee.assumptions[-1]


def test_what_is_known_before_does_not_count_in_the_limits(tmp_path):
    score, storage = Paid(), tmp_path / "race.db"
    run(OLD, score, storage)
    paid = len(score.calls)
    for most in (3, 7):
        part = extended(score, storage, max_evaluations=most)
        assert (part.status, part.evaluations) == ("running", most)
        assert len(score.calls) == paid + most
    part = extended(score, storage, max_cost=4.9)
    assert (part.evaluations, part.cost) == (9, 4.5)


def test_who_was_rejected_with_enough_evidence_is_not_evaluated_again(tmp_path):
    score, storage = Paid(), tmp_path / "race.db"
    first = run(OLD, score, storage)
    result = extended(score, storage, delta=0.1)
    losers = [label for label, state in first.states.items() if state == "rejected"]
    assert losers
    assert not {name for name, _ in score.calls[first.evaluations :]} & set(losers)
    assert all(result.states[label] == "rejected" for label in losers)


@pytest.mark.parametrize("reuse", ["own order", "old order"])
def test_a_new_candidate_that_was_fitted_to_the_items_seen_seldom_wins(reuse):
    """It is right on all items seen, and worse than the others on all items together.

    A race that replays the scores in the order in which they were seen is deceived by it, so the
    test would fail if `extends` did this.
    """
    runs, wrong = effort.runs(25, whole=1_000), 0
    problem = Problem(["a", "b", "new"], reward_range=(0, 1))
    for seed in range(runs):
        table = np.random.default_rng(seed).permuted(np.tile([0.0, 1.0], (2, 30)), axis=1).T
        first = play(PairedRacing(Problem(["a", "b"], reward_range=(0, 1)), 0.2, n_blocks=60,
                                  shuffle=True, seed=seed), table, blocks=25)  # fmt: skip
        seen = np.isfinite(first.listed_scores).any(axis=1)
        new = np.where(seen, 1.0, 0.0)
        new[np.flatnonzero(~seen)[: 29 - int(seen.sum())]] = 1.0
        order = 10_000 + seed if reuse == "own order" else seed
        second = PairedRacing(problem, 0.2, n_blocks=60, shuffle=True, seed=order,
                              earlier_evidence=first.carried_evidence(problem.arms))  # fmt: skip
        wrong += play(second, np.column_stack([table, new])).recommend().arm == "new"
    is_deceived = wrong / runs > effort.tolerated(0.2, runs)
    assert is_deceived == (reuse == "old order")


def test_the_new_race_draws_an_order_of_its_own(tmp_path):
    score, storage = Paid(), tmp_path / "race.db"
    first = run(OLD, score, storage, seed=1)
    second = extended(score, storage, seed=1)
    assert (first.study.policy.order != second.study.policy.order).mean() > 0.9


@pytest.mark.parametrize(("carry", "errs"), [("half", False), ("all", True)])
def test_a_candidate_added_when_the_right_answer_seems_lost_seldom_wins(carry, errs):
    """Exactly, over all orders of five items: the chance of a wrong answer at the first sight.

    Whoever adds a better candidate when the right answer has lost much, and adds none otherwise,
    can err in both ways: the capital with which the new race begins against its right answer must
    be at most 1 on average.
    """
    table = np.array([[1, 0], [1, 1], [0, 1], [1, 0], [0, 0]], dtype=float)
    begins = []
    for order in itertools.permutations(range(5)):
        policy = play(
            PairedRacing(Problem(2, reward_range=(0, 1)), 1e-6, n_blocks=5), table[list(order)], 3
        )
        carried = np.array(policy.carried_evidence(["0", "1", "new"]))
        if carry == "all":
            # What a race would carry that neither halved its capital nor left any unused.
            carried = np.log(np.maximum(2.0 * np.exp(carried) - 1.0, np.exp(2.0 * carried[:, [2]])))
            carried[:, 2] = 0.0
        # Arm 0 is the right answer unless a better one is added.
        begins.append(math.exp(max(carried[:, 0].max(), carried[:, 2].max())))
    assert (np.mean(begins) > 1.0 + 1e-12) == errs


def play(policy, table, blocks=math.inf):
    while not policy.stopped and policy.blocks < blocks:
        pull = policy.ask()
        policy.tell(pull, table[pull.tag, pull.action])
    return policy


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
@pytest.mark.parametrize("blocks", [2, 4])
def test_carried_capital_against_the_best_is_at_most_one_on_average(tolerance, blocks):
    """Exactly, over all orders of five items: for the largest of all bad leaders at once."""
    table = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=float)
    problem = Problem(3, reward_range=(0, 1), tolerance=tolerance)
    capital = []
    for order in itertools.permutations(range(5)):
        policy = play(PairedRacing(problem, 0.3, n_blocks=5), table[list(order)], blocks)
        carried = np.array(policy.carried_evidence(["new", "0", "1", "2"]))
        assert (carried[:, 0] == math.log(0.5)).all()
        # Arm 0 has the mean .6, and the others .4: they are bad with either tolerance.
        capital.append(math.exp(carried[:, 1].max()))
    assert np.mean(capital) <= 1.0 + 1e-12
    assert np.max(capital) > 1.0


@pytest.mark.parametrize("blocks", [2, 4])
def test_with_limits_the_capital_against_the_right_answer_is_at_most_one_on_average(blocks):
    """Arm 1 is the best, but breaks its limit in category b; the control is the answer."""
    table = np.array([[0, 1, 0], [0, 1, 0], [1, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=float)
    problem = Problem(3, reward_range=(0, 1), control="0")
    capital = []
    for order in itertools.permutations(range(5)):
        categories = ["aabbb"[at] for at in order]
        policy = PairedRacing(problem, 0.3, n_blocks=5, margin=0.1, categories=categories)
        carried = play(policy, table[list(order)], blocks).carried_evidence(["0", "1", "2", "new"])
        capital.append(math.exp(max(row[0] for row in carried)))
    assert np.mean(capital) <= 1.0 + 1e-12


def test_a_race_with_limits_is_extended_with_the_same_limits(tmp_path):
    score, storage = Paid(), tmp_path / "race.db"
    given = {"control": "c", "margin": 0.2, "category": ["x", "y"] * 40}
    run(OLD, score, storage, max_evaluations=60, **given)
    result = extended(score, storage, **given)
    assert (result.best, result.guarantee.label) == ("new", "proven")
    assert len(score.calls) == len(set(score.calls))
    assert result.study.verify().ok


def test_after_all_items_the_worse_ones_are_out_for_certain_and_may_all_be_overtaken():
    table = np.tile([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], (3, 1))
    problem = Problem(["a", "b"], reward_range=(0, 1))
    first = play(PairedRacing(problem, 1e-9, n_blocks=9), table)
    evidence = first.carried_evidence(["a", "b", "new"])
    later = PairedRacing(
        Problem(["a", "b", "new"], reward_range=(0, 1)), 1e-9, n_blocks=9, earlier_evidence=evidence
    )
    assert later.states == ("undecided", "rejected", "undecided")
    assert later.departures[1] == (0, None, None)
    restored = later.clone()
    restored.set_state(later.get_state())
    for policy in (later, restored):
        play(policy, np.column_stack([table, np.ones(9)]))
        assert policy.recommend().arm == "new"
        assert policy.told < 2 * 9 + 1


def test_evidence_counts_with_what_is_found_later():
    table = np.tile([0.0, 1.0], (40, 1))
    problem = Problem(2, reward_range=(0, 1))
    plain = play(PairedRacing(problem, n_blocks=40), table)
    ahead = play(
        PairedRacing(problem, n_blocks=40, earlier_evidence=[[2.0, 0.0], [2.0, 0.0]]), table
    )
    assert ahead.blocks < plain.blocks
    behind = PairedRacing(problem, n_blocks=40, earlier_evidence=[[-1.0, 0.0], [-1.0, 0.0]])
    assert play(behind, table).blocks > plain.blocks


def test_a_chain_of_races_carries_what_came_before():
    problem = Problem(["a", "b"], reward_range=(0, 1))
    one = PairedRacing(problem, n_blocks=9, earlier_evidence=[[-0.5, 1.5], [0.0, -0.5]])
    carried = np.array(one.carried_evidence(["a", "b", "c"]))
    # 'a' leads before the first block; of a leader, nothing is carried.
    assert carried[0, 1] == pytest.approx(math.log(0.5 * math.exp(1.5) + 0.5))
    assert carried[:, [0, 2]] == pytest.approx(math.log(0.5))


@pytest.mark.parametrize(
    "given",
    [
        {"extends": "none"},
        {"candidates": ["a", "b", "new"]},
        {"candidates": {"a": "a", "b": "other", "c": "c"}},
        {"tolerance": 0.1},
        {"direction": "minimize"},
        {"reward_range": (0, 2)},
        {"about": "items like these"},
        {"control": "a", "margin": 0.1},
    ],
)
def test_a_race_extends_only_one_about_the_same(given, tmp_path):
    storage = tmp_path / "race.db"
    run(OLD, known_score, storage, max_evaluations=9)
    with raises(InvalidArgument) as error:
        extended(known_score, storage, **given)
    assert error.value.name == "extends"
    assert [one.name for one in ft.study.list_studies(storage)] == ["one"]


def test_another_kind_of_study_is_not_extended(tmp_path):
    problem = Problem(list(OLD), reward_range=(0, 1))
    Study.create(
        problem, ft.delayed.BlockBetting(problem), storage=tmp_path / "race.db", name="one"
    ).close()
    with raises(InvalidArgument, "extends"):
        extended(known_score, tmp_path / "race.db")


def test_without_a_range_scores_are_reused_and_evidence_is_not(tmp_path):
    score, storage = Paid(), tmp_path / "race.db"
    given = {"reward_range": None, "max_evaluations": 9}
    run(OLD, score, storage, **given)
    result = extended(score, storage, **given)
    assert len(score.calls) == len(set(score.calls))
    assert result.study.policy.earlier_evidence is None
    with raises(NotSupported):
        result.study.policy.carried_evidence([*OLD, "new", "newer"])


@pytest.mark.parametrize("given", [[[0.0, 1.0]], [[0.0, math.inf], [0.0, 0.0]], "text",
                                   [[9.0, 0.0], [0.0, 9.0]]])  # fmt: skip
def test_earlier_evidence_that_means_nothing_is_refused(given):
    with raises(InvalidArgument) as error:
        PairedRacing(Problem(2, reward_range=(0, 1)), earlier_evidence=given)
    assert error.value.name == "earlier_evidence"
