"""What a race still needs: a forecast, and a bound that always holds."""

import copy
import math

import numpy as np
import pytest

from fairtrial.delayed import PairedRacing, Problem
from fairtrial.delayed.policies.race_forecast import FEWEST_BLOCKS, repeated_blocks
from tests import effort
from tests.delayed.test_judged_races import scores_and_judge


def play(policy, table, *, blocks=math.inf):
    while not policy.stopped and policy.blocks < blocks:
        pull = policy.ask()
        policy.tell(pull, float(table[pull.tag, pull.action]))
    return policy


def table_of(means, blocks=400, seed=0):
    rng = np.random.default_rng(seed)
    hardness = rng.normal(0.0, 0.15, (blocks, 1))
    return np.clip(np.array(means) + hardness + rng.normal(0, 0.15, (blocks, len(means))), 0, 1)


def bounded(arms, tolerance=0.0, **more):
    return Problem(arms, reward_range=(0, 1), tolerance=tolerance, **more)


# ----------------------------------------------------------------------- the forecast


def played_on(policy, categories=None):
    """Return the results of each arm that a race would need on repeated, cautious blocks."""
    blocks, end = policy.blocks, policy.n_blocks
    scores, leader = policy._table(), policy.leader
    errors = 0.5 * (scores[:, [leader]] - scores).std(axis=0) / math.sqrt(blocks)
    table = np.minimum(scores + errors, 1.0)
    table[:, leader] = scores[:, leader]
    places = repeated_blocks(blocks, end, categories)
    rest, before = copy.deepcopy(policy), policy.progress().arms
    while not rest.stopped:
        pull = rest.ask()
        # A score may be above 1 here, as no real one can.
        rest.problem.__dict__["reward_range"] = (-9, 9)
        rest.tell(pull, float(table[places[pull.tag - blocks], pull.action]))
        rest.problem.__dict__["reward_range"] = (0, 1)
    ends = zip(rest.progress().arms, before, strict=True)
    return [after.pulls - now.pulls for after, now in ends]


def test_the_forecast_is_a_race_on_blocks_like_those_so_far():
    table = table_of([0.5, 0.42, 0.4, 0.3])
    policy = play(PairedRacing(bounded(4), n_blocks=400), table, blocks=20)
    slow = played_on(policy)
    assert sum(slow) > 40
    assert policy.expected_pulls == pytest.approx(slow, abs=max(slow) / 20)
    assert policy.progress().remaining == policy.expected_pulls.sum()


def test_with_limits_each_category_is_repeated():
    table = table_of([0.5, 0.56, 0.3], blocks=300)
    categories = np.arange(300) % 3 // 2
    problem = bounded(["now", "a", "b"], control="now")
    given = {"n_blocks": 300, "margin": 0.1, "categories": [str(one) for one in categories]}
    policy = play(PairedRacing(problem, **given), table, blocks=30)
    slow = played_on(policy, categories)
    assert policy.expected_pulls == pytest.approx(slow, abs=max(slow) / 10)


@pytest.mark.parametrize(("agreement", "part"), [(0.95, 0.5), (0.0, 1.01)])
def test_with_a_judge_its_scores_are_repeated_with_the_blocks(agreement, part):
    scores, judge = scores_and_judge(agreement, blocks=400, seed=1)
    judged, plain = (
        play(PairedRacing(bounded(3), n_blocks=400, judge=table), scores, blocks=60)
        for table in (judge, None)
    )
    assert judged.progress().remaining < part * plain.progress().remaining


def test_scores_of_the_forecast_are_possible_ones_also_between_rivals():
    """The bets on a limit compare rivals with the control, not with the leader."""
    rng = np.random.default_rng(0)
    problem = Problem(4, reward_range=(0, 1), control="1", direction="minimize")
    policy = PairedRacing(
        problem, max_blocks=40, shuffle=True, margin=0.0, categories=["x", "y", "x", "z"] * 10
    )
    table = (rng.random((40, 4)) < [0.6, 0.5, 0.4, 0.1]).astype(float)
    with np.errstate(all="raise"):
        while not policy.stopped:
            pull = policy.ask()
            policy.tell(pull, float(table[pull.tag, pull.action]))
            policy.progress()


def test_the_median_forecast_is_about_right():
    """In the middle of a race; half a standard error of caution makes up for the leader's luck."""
    ratios = []
    for seed in range(effort.runs(8, whole=200)):
        table = table_of([0.5, 0.46, 0.45], 400, seed)
        policy = play(PairedRacing(bounded(3), n_blocks=400), table, blocks=25)
        forecast, told = policy.progress().remaining, policy.told
        if not policy.stopped:
            ratios.append(forecast / (play(policy, table).told - told))
    assert len(ratios) >= 6
    assert 0.4 < np.median(ratios) < 2.5


def test_nothing_is_forecast_from_few_blocks():
    policy = PairedRacing(bounded(2), n_blocks=400)
    table = table_of([0.5, 0.49])
    play(policy, table, blocks=FEWEST_BLOCKS - 1)
    assert policy.progress().remaining is None
    assert play(policy, table, blocks=FEWEST_BLOCKS).progress().remaining > 0


@pytest.mark.parametrize("given", [{}, {"max_blocks": 300}])
def test_a_tie_that_blocks_cannot_decide_is_not_forecast(given):
    equal = np.repeat(table_of([0.5]), 2, axis=1)
    policy = play(PairedRacing(bounded(2), **given), equal, blocks=50)
    assert policy.progress().remaining is None
    assert policy.progress().remaining_at_most == (500 if given else None)


def test_a_tie_on_a_finite_list_is_forecast_to_its_end_which_is_the_bound():
    equal = np.repeat(table_of([0.5]), 3, axis=1)
    policy = play(PairedRacing(bounded(3), n_blocks=400), equal, blocks=50)
    progress = policy.progress()
    assert progress.remaining == progress.remaining_at_most == 350 * 3
    assert play(policy, equal).told == 400 * 3


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_the_unit_of_scores_does_not_matter(scale):
    table = table_of([0.5, 0.42, 0.4])
    found = []
    for unit in (1.0, scale):
        problem = Problem(3, reward_range=(0, unit), tolerance=0.01 * unit)
        policy = play(PairedRacing(problem, n_blocks=400), unit * table, blocks=25)
        found.append(policy.progress().remaining)
    assert found[0] == pytest.approx(found[1])


def test_normal_differences_are_forecast_and_an_error_that_blocks_share_is_out_of_sight():
    table = table_of([0.5, 0.42], seed=1)
    problem = Problem(2, noise_std="estimated")
    policy = play(PairedRacing(problem), table, blocks=20)
    assert 0 < policy.progress().remaining < 1000
    policy = play(PairedRacing(problem, overlap=1.0), table, blocks=FEWEST_BLOCKS)
    assert not policy.progress().remaining


def test_a_restored_race_has_the_same_forecast_at_every_step():
    table = table_of([0.5, 0.47, 0.4, 0.2], blocks=24)
    policy = PairedRacing(bounded(4, 0.02), 0.2, n_blocks=24, shuffle=True, seed=1)
    while not policy.stopped:
        again = policy.clone()
        again.set_state(policy.get_state())
        assert again.progress().remaining == policy.progress().remaining
        assert again.progress().remaining_at_most == policy.progress().remaining_at_most
        policy = again
        pull = policy.ask()
        policy.tell(pull, float(table[pull.tag, pull.action]))
    assert (policy.progress().remaining, policy.progress().remaining_at_most) == (0.0, 0)


def test_another_state_has_a_forecast_of_its_own():
    policy, other = (
        play(PairedRacing(bounded(2), n_blocks=400), table_of([0.5, worse]), blocks=12)
        for worse in (0.4, 0.48)
    )
    wanted = other.progress().remaining
    assert policy.progress().remaining != wanted
    policy.set_state(other.get_state())
    assert policy.progress().remaining == wanted


# --------------------------------------------------------------------------- the bound


def with_mishaps(policy, table, seed):
    """Play with up to six pulls in flight, lost ones, and candidates that fail; yield each step."""
    rng, flying = np.random.default_rng(seed), []
    while not policy.stopped:
        flying += policy.ask(6 - len(flying))
        pull = flying.pop(int(rng.integers(len(flying))))
        if rng.random() < 0.1:
            policy.fail(pull, "error" if rng.random() < 0.1 else "lost")
        else:
            policy.tell(pull, float(table[pull.tag, pull.action]))
        yield


@pytest.mark.parametrize("seed", range(effort.runs(1, whole=100)))
@pytest.mark.parametrize("kind", ["plain", "tolerant", "limits", "a sample"])
def test_never_are_more_results_needed_than_was_said(kind, seed):
    """Arms that were set aside return, and pulls on arms that have left are told all the same."""
    table = np.random.default_rng(seed).permuted(table_of([0.5, 0.49, 0.47, 0.3], 40, seed))
    given = {"max_blocks": 40} if kind == "a sample" else {"n_blocks": 40}
    problem = bounded(4, 0.1 if kind == "tolerant" else 0.0)
    if kind == "limits":
        problem = bounded(4, 0.1, control="0")
        given |= {"margin": 0.2, "categories": ["a", "b"] * 20}
    policy = PairedRacing(problem, 0.3, shuffle=True, seed=seed, **given)
    told, bounds = [], []
    for _ in with_mishaps(policy, table, seed):
        progress = policy.progress()
        told.append(progress.told)
        bounds.append(progress.told + progress.remaining_at_most)
        assert progress.remaining is None or progress.remaining <= progress.remaining_at_most
    assert max(told) <= min(bounds)


def test_a_limit_of_pulls_is_a_bound_too():
    table = table_of([0.5, 0.49])
    policy = play(PairedRacing(bounded(2), max_pulls=50), table, blocks=12)
    assert policy.progress().remaining_at_most == 26
    assert PairedRacing(bounded(2)).progress().remaining_at_most is None
