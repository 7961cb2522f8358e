"""Statements about an answer: remaining candidates, the basis of the label, and its loss."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy import stats

import fairtrial as ft
from fairtrial.subpopulations import (
    BalancedTracking,
    BlockBetting,
    GaussianEnvironment,
    Problem,
    UniformSampling,
)
from tests import effort
from tests.messages import raises

MEANS = [[0.6, 0.7], [0.3, 0.2], [0.9, -0.4]]
"""The third arm is the best overall and fails the second group."""


def problem(**changes):
    return Problem(["a", "b", "c"], ["x", "y"], **({"noise_std": 1.0} | changes))


def mean_of(pull):
    return MEANS["abc".index(pull.arm)]["xy".index(pull.group)]


def run(policy, std=1.0, seed=0, most=10_000):
    """Run a policy to its stop, one result at a time."""
    generator = np.random.default_rng(seed)
    while not policy.stopped and policy.told < most:
        pull = policy.ask()
        policy.tell(pull, mean_of(pull) + std * generator.normal())
    return policy


def until(policy, condition, seed=0):
    """Tell results until a pull meets a condition; return that pull, untold."""
    generator = np.random.default_rng(seed)
    while True:
        pull = policy.ask()
        if condition(pull):
            return pull
        policy.tell(pull, mean_of(pull) + generator.normal())


# ------------------------------------------------------------------- what is left


def test_candidates_are_what_is_not_rejected_and_in_the_end_the_answer() -> None:
    means = {"a": 0.7, "b": -0.9, "c": 0.4}
    policy = BlockBetting(problem(), delta=0.1, seed=0)
    seen = [policy.recommend().candidates]
    assert seen == [("a", "b", "c", None)]
    generator = np.random.default_rng(1)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, means[pull.arm] + generator.normal())
        if (left := policy.recommend().candidates) != seen[-1]:
            seen.append(left)
    assert all(set(later) < set(earlier) for earlier, later in itertools.pairwise(seen))
    assert seen[-1] == ("a",) == (policy.recommend().arm,)
    assert len(seen) > 2


def test_no_arm_is_no_candidate_where_an_arm_has_no_limit() -> None:
    policy = BlockBetting(problem(floors=[[None, None], [0, 0], [0, 0]]), delta=0.1, seed=0)
    assert policy.recommend().candidates == ("a", "b", "c")


def test_a_rule_without_such_a_set_names_no_candidates() -> None:
    assert BalancedTracking(problem()).recommend().candidates is None


def test_an_undecided_study_keeps_its_candidates() -> None:
    policy = BlockBetting(problem(), delta=0.1, max_pulls=200, seed=0)
    answer = run(policy).recommend()
    assert answer.status == "undecided"
    left = [one.answer for one in policy.progress().answers if not one.rejected]
    assert answer.candidates == tuple(left)
    assert "a" in answer.candidates


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("settings", "means", "right"),
    [
        # Equal arms; the right answer exactly on its floors, a better arm short by a millionth.
        ({"noise_std": 1.0, "floors": None}, [[0.0], [0.0]], {"a", "b"}),
        ({"noise_std": 1.0}, [[0.0, 0.0], [-1e-6, 1.0]], {"a"}),
        ({"reward_range": (0, 1), "floors": 0.5}, [[0.5], [0.5 - 1e-6]], {"a"}),
        # No arm is acceptable, each by a millionth only.
        ({"noise_std": 1.0}, [[-1e-6], [-1e-6]], {None}),
    ],
    ids=["tie", "on its floors", "bounded, on its floor", "none"],
)
def test_the_right_answer_is_ever_excluded_in_at_most_delta_of_studies(settings, means, right):
    delta, runs = 0.1, effort.runs(60, whole=2000)
    own = Problem(["a", "b"], len(means[0]), **settings)
    kind = "Bernoulli" if "reward_range" in settings else "Gaussian"
    environment = getattr(ft.subpopulations, f"{kind}Environment")(own, means)
    template = BlockBetting(own, delta=delta, batch=40, seed=0)
    excluded = 0
    for seed in range(runs):
        policy = template.clone()
        # Answers are rejected for good: the last remaining one was never excluded.
        policy.compiled_run(environment, np.random.default_rng(seed), 240)
        excluded += not right & set(policy.recommend().candidates)
    assert excluded / runs <= effort.tolerated(delta, runs)


# ------------------------------------------------------- what is in no bet, what is


@pytest.mark.parametrize("is_lost", [lambda pull: pull.number == 25, lambda pull: pull.tag > 0])
def test_a_loss_weakens_the_label_of_known_noise_only_in_a_bet_or_not(is_lost) -> None:
    for settings, proven in (({}, False), ({"noise_std": None, "reward_range": (-9, 9)}, True)):
        policy = BlockBetting(problem(**settings), delta=0.1, seed=0)
        policy.fail(until(policy, is_lost))
        assert policy.guarantee.proven is proven


def test_a_loss_weakens_the_label_of_known_noise_once_its_cell_has_a_result() -> None:
    policy = BlockBetting(problem(), delta=0.1, seed=0)
    lost = policy.ask()
    policy.fail(lost)
    assert policy.guarantee.proven
    again = until(policy, lambda pull: pull.action == lost.action)
    assert policy.guarantee.proven
    policy.tell(again, 0.0)
    assert "1 pull got lost" in policy.guarantee.assumptions[-1]
    policy.tell(lost, 0.0)
    assert policy.guarantee.proven


def test_a_correction_of_what_is_in_no_bet_leaves_the_label() -> None:
    policy = BlockBetting(problem(), delta=0.1, seed=0)
    extra = policy.problem.pull(arm="a", group="x")
    policy.tell(extra, 0.5)
    first = policy.ask()
    policy.tell(first, 0.1)
    late = policy.ask()
    policy.fail(late)
    policy.tell(late, 0.3)
    run(policy)
    for pull, old in ((extra, 0.5), (first, 0.1), (late, 0.3)):
        policy.amend(pull, old, 0.2)
    assert policy.guarantee.proven
    assert "correction" not in " ".join(policy.guarantee.assumptions)


def test_a_correction_is_an_assumption_before_its_bet_is_paid_and_after_it():
    policy = BlockBetting(problem(), delta=0.1, seed=0)
    pull = until(policy, lambda pull: pull.tag > 0)
    policy.tell(pull, 0.4)
    policy.amend(pull, 0.4, 0.5)
    assert policy.guarantee.proven
    assert (
        policy.guarantee.assumptions[-1]
        == "after 1 correction of results that bets use, every value is the true one"
    )
    generator = np.random.default_rng(5)
    while policy._blocks.state.blocks.first[0] <= pull.tag:
        other = policy.ask()
        policy.tell(other, mean_of(other) + generator.normal())
    policy.amend(pull, 0.5, 0.6)
    assert policy.guarantee.proven
    assert (
        policy.guarantee.assumptions[-1]
        == "after 2 corrections of results that bets use, every value is the true one"
    )


def test_results_held_back_can_be_corrected_by_a_tracker_before_they_count() -> None:
    policy = BalancedTracking(problem(delay_depends_on_outcome=True))
    pulls = policy.ask(12)
    held_up = pulls[0]
    later = next(pull for pull in pulls[1:] if pull.action == held_up.action)
    policy.tell(later, 0.3)
    policy.amend(later, 0.3, 0.4)
    assert policy.guarantee.proven
    extra = policy.problem.pull(arm="a", group="x")
    policy.tell(extra, 0.5)
    policy.amend(extra, 0.5, 0.6)
    assert policy.guarantee.proven
    policy.tell(held_up, 0.1)
    policy.amend(held_up, 0.1, 0.2)
    assert not policy.guarantee.proven


def test_a_rule_without_coins_says_that_it_can_be_predicted() -> None:
    fixed = partial(BlockBetting, randomize=False)
    for make in (fixed, BalancedTracking):
        one, other = make(problem(), seed=1), make(problem(), seed=2)
        assert [pull.action for pull in one.ask(12)] == [pull.action for pull in other.ask(12)]
        assert any("can be predicted" in said for said in one.guarantee.assumptions)
    for make in (BlockBetting, UniformSampling):
        assert not any("can be predicted" in said for said in make(problem()).guarantee.assumptions)


# -------------------------------------------------------------- the stated noise

RULES = [
    lambda own: BlockBetting(own, delta=0.1, seed=0),
    lambda own: BalancedTracking(own, delta=0.1),
    lambda own: BalancedTracking(own.clone(delay_depends_on_outcome=True), delta=0.1),
]
NAMES = ["block betting", "tracking", "tracking in order"]


@pytest.mark.parametrize("make", RULES, ids=NAMES)
def test_a_noise_that_the_results_contradict_ends_the_proof_and_is_warned_of(make) -> None:
    policy = run(make(problem()), std=3.0, most=400)
    (warning,) = policy.warnings()
    assert warning.startswith("the results contradict the stated noise_std: they spread")
    assert not policy.guarantee.proven
    assert "which the results contradict" in policy.guarantee.assumptions[-1]
    fine = run(make(problem()), std=1.0, most=400)
    assert fine.warnings() == ()
    assert fine.guarantee.proven


def test_health_warns_of_a_noise_that_the_results_contradict() -> None:
    policy = BlockBetting(problem(), delta=0.1, seed=0)
    generator = np.random.default_rng(0)
    with ft.Study.create(problem(), policy, storage="memory://", name="noisy") as study:
        assert study.health()["warnings"] == []
        for _ in range(120):
            pull = study.ask()
            study.tell(pull, mean_of(pull) + 4.0 * generator.normal())
        assert study.health()["warnings"] == list(study.policy.warnings())
        assert len(study.health()["warnings"]) == 1


@pytest.mark.parametrize("make", RULES, ids=NAMES)
def test_the_record_of_the_spread_is_saved_and_restored_at_every_step(make) -> None:
    policy, generator = make(problem()), np.random.default_rng(3)
    twin = policy.clone()
    flights: list = []
    for step in range(160):
        if step % 7 == 6:
            twin.set_state(policy.get_state())
        while len(flights) < 5:
            pull = policy.ask()
            flights.append(pull)
            assert twin.ask() == pull
        pull = flights.pop(int(generator.integers(len(flights))))
        if step % 11 == 10:
            policy.fail(pull)
            twin.fail(pull)
            continue
        value = mean_of(pull) + 2.0 * generator.normal()
        policy.tell(pull, value)
        twin.tell(pull, value)
        if step % 13 == 12:
            policy.amend(pull, value, value + 1.0)
            twin.amend(pull, value, value + 1.0)
        assert np.array_equal(policy._spreads(), twin._spreads())
        assert policy.warnings() == twin.warnings()


@pytest.mark.parametrize("make", RULES, ids=NAMES)
def test_compiled_and_live_runs_record_the_same_spread(make) -> None:
    own = problem(noise_std=[[0.5, 1.0], [2.0, 1.0], [1.0, 1.5]])
    environment = GaussianEnvironment(own, MEANS)
    compiled, live = make(own), make(own)
    compiled.compiled_run(environment, np.random.default_rng(2), 250)
    generator = np.random.default_rng(2)
    while not live.stopped and live.told < 250:
        pull = live.ask()
        live.tell(pull, environment.sample(pull, generator))
    assert compiled.told == live.told
    assert np.array_equal(compiled._spreads(), live._spreads())


def test_the_record_is_that_of_the_blocks_whatever_order_results_come_in() -> None:
    own = problem(noise_std=[[0.5, 1.0], [2.0, 1.0], [1.0, 1.5]])
    sorted_, shuffled = BlockBetting(own, batch=24, seed=0), BlockBetting(own, batch=24, seed=0)
    generator = np.random.default_rng(4)
    told = np.zeros(6)
    for _ in range(12):
        pulls = sorted_.ask(24)
        assert pulls == shuffled.ask(24)
        values = {pull.number: mean_of(pull) + generator.normal() for pull in pulls}
        for pull in pulls:
            sorted_.tell(pull, values[pull.number])
            told[pull.action] += 1
        # The extremes first: a naive test of the results so far would see a wide spread.
        for pull in sorted(pulls, key=lambda pull: -abs(values[pull.number])):
            shuffled.tell(pull, values[pull.number])
            assert shuffled.warnings() == ()
    np.testing.assert_allclose(shuffled._spreads(), sorted_._spreads(), rtol=1e-12, atol=1e-12)


def test_a_correction_corrects_the_record_of_the_spread() -> None:
    plain, corrected = (
        BlockBetting(problem(), delta=0.1, seed=0),
        BlockBetting(problem(), delta=0.1, seed=0),
    )
    generator = np.random.default_rng(6)
    wrong = {0: 50.0, 9: -40.0, 35: 30.0}
    pulls = {}
    for number in range(36):
        pull = plain.ask()
        assert corrected.ask() == pull
        value = mean_of(pull) + generator.normal()
        plain.tell(pull, value)
        # As with the true value, so that both plan alike.
        corrected.tell(pull, value)
        pulls[number] = (pull, value)
    for number, off in wrong.items():
        pull, value = pulls[number]
        corrected.amend(pull, value, value + off)
    assert len(corrected.warnings()) == 1
    for number, off in wrong.items():
        pull, value = pulls[number]
        corrected.amend(pull, value + off, value)
    assert corrected.warnings() == ()
    np.testing.assert_allclose(corrected._spreads(), plain._spreads(), rtol=1e-6, atol=1e-9)


def test_there_is_nothing_to_test_without_a_stated_noise() -> None:
    for settings in ({"reward_range": (-50, 50)}, {"noise_std": "estimated"}):
        own = problem(**({"noise_std": None} | settings))
        policy = BalancedTracking(own, max_pulls=100)
        assert run(policy, std=5.0, most=100).warnings() == ()


@pytest.mark.statistical
@pytest.mark.parametrize("std", [1.0, 3.0], ids=["right", "a third"])
def test_the_noise_is_contradicted_when_it_is_wrong_and_not_when_it_is_right(std) -> None:
    runs = effort.runs(400, whole=2000) if std == 1.0 else 200
    own = Problem(["a", "b"], 2, noise_std=1.0, floors=None)
    environment = GaussianEnvironment(own, [[0.8, 0.8], [0.0, 0.0]], std=std)
    template = BlockBetting(own, delta=0.05, seed=0)
    alarms = 0
    for seed in range(runs):
        policy = template.clone()
        policy.compiled_run(environment, np.random.default_rng(seed), 2000)
        alarms += not policy.guarantee.proven
    # A false alarm has a probability of at most .001; more alarms than allowed here have one of
    # .0003. At a third of the true value nearly all runs must be detected before they stop.
    allowed = stats.binom.isf(0.0003, runs, 0.001)
    assert alarms <= allowed if std == 1.0 else alarms >= 0.98 * runs


# --------------------------------------------------------------------------- scales


@pytest.mark.parametrize("cls", [BlockBetting, BalancedTracking])
@pytest.mark.parametrize("bounded", [False, True], ids=["noise", "range"])
def test_decisions_and_labels_are_the_same_in_every_unit(cls, bounded) -> None:
    seen = []
    # Powers of two, so that nothing is rounded; 2^460 is about 1e138.
    for unit in (1.0, 2.0**-460, 2.0**-100, 2.0**100, 2.0**460):
        noise = {"reward_range": (-4 * unit, 4 * unit)} if bounded else {"noise_std": unit}
        own = Problem(["a", "b", "twin of b"], 2, floors=0.0, **noise)
        policy, generator = cls(own, delta=0.1, seed=0), np.random.default_rng(8)
        asked = []
        while not policy.stopped and policy.told < 150:
            pull = policy.ask()
            mean = 1.0 if pull.arm == "a" else -0.5
            policy.tell(pull, unit * float(np.clip(mean + generator.normal(), -4, 4)))
            asked.append(pull.action)
        answer = policy.recommend()
        assert answer.arm in ("a", None)
        assert all(
            cell.mean is None or abs(cell.mean) < 4 * unit for cell in policy.progress().actions
        )
        seen.append((asked, answer.status, answer.leader, answer.candidates, policy.warnings()))
    assert all(one == seen[0] for one in seen)


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e-160, 1e160, 1e200, 1e300])
def test_units_in_which_squares_are_lost_are_refused(unit) -> None:
    with raises(ft.errors.InvalidArgument, "noise_std[a, x]", given=unit):
        problem(noise_std=unit)
    with raises(ft.errors.InvalidArgument, "reward_range"):
        problem(noise_std=None, reward_range=(-unit, unit))
