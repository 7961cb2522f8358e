"""Block betting with predictions that are known before the arm is drawn."""

import math

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.confidence.block_betting.bets import NO_BET, bounded_gain
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported
from fairtrial.subpopulations import BlockBetting, Problem, TrackAndStop
from fairtrial.subpopulations._kernels.measures.bets import multiply_bets, role_in_bet, step_in_bet
from fairtrial.subpopulations._kernels.measures.predictions import MISSING
from fairtrial.subpopulations._kernels.measures.state import (
    OTHER,
    RIVAL,
    SLOPE,
    TARGET,
    opened,
)
from tests import effort
from tests.messages import raises


def problem_of(arms=("now", "a", "b"), groups=("x", "y"), prediction=(0, 1), **others):
    arguments = others or {"control": arms[0], "margin": 0.05}
    return Problem(
        list(arms), list(groups), reward_range=(0, 1), prediction=prediction, **arguments
    )


class Units:
    """Units whose prediction explains much of a reward of 0 or 1."""

    def __init__(self, problem, seed, gap=0.2, lost=0.0):
        self.problem, self.gap, self.lost = problem, gap, lost
        self.random = np.random.default_rng(seed)

    def arrive(self):
        prediction = float(self.random.choice([0.1, 0.5, 0.9]))
        group = str(self.random.choice(self.problem.groups))
        return {"group": group, "prediction": prediction}

    def reward(self, arm, prediction):
        better = self.gap * (arm == self.problem.arms[-1])
        chance = min(1.0, 0.8 * prediction + 0.05 + better)
        return float(self.random.random() < chance)


def follow(policy, units, pulls, in_flight=0):
    """Let units arrive; return what was asked for and told."""
    waiting, log = [], []
    while len(log) < pulls and not policy.stopped:
        unit = units.arrive()
        pull = policy.ask(**unit)
        waiting.append((pull, units.reward(pull.arm, unit["prediction"])))
        log.append((pull, unit))
        if len(waiting) > in_flight:
            place = int(units.random.integers(len(waiting)))
            pull, reward = waiting.pop(place)
            if units.random.random() < units.lost:
                policy.fail(pull)
            else:
                policy.tell(pull, reward)
    return log, waiting


# --------------------------------------------------------------------------------- bets


def test_a_block_pays_the_reference_value():
    """Arms a and b: n 3 and 4, per pull a = 1/3 and -1/4, d = .8 a, centres .5 and .45."""
    policy = BlockBetting(problem_of(("a", "b"), ("x",), floors=None))
    blocks = policy._blocks
    (model, _), state = opened.plain(blocks.arrays)
    slot, bet = 0, 1
    state.target[slot], state.bets.number[slot] = 0, 2
    state.bets.ledger[slot] = NO_BET
    state.bets.ledger[slot, bet] = 0
    state.clip[slot] = 0.0, 1.0
    state.coefficients[slot, bet] = state.centres[slot, bet] = 0.0
    for role, weight, centre in ((TARGET, 1 / 3, 0.5), (RIVAL, -1 / 4, 0.45)):
        state.coefficients[slot, bet, role, 0] = weight, -0.8 * weight
        state.centres[slot, bet, role, 0] = centre, 0.4
    bets = state.bets
    bets.stakes[slot, bet], bets.thetas[slot, bet] = 0.0, 0.0
    bets.thetas[slot, bet, :3], bets.stakes[slot, bet, :3] = (0.2, 0.5, 1.0), (0.3, 0.3, 0.2)
    bets.cash[slot, bet], bets.received[slot, bet], bets.products[slot, bet] = 0.2, 0, 1.0
    bets.logs[slot, bet] = 0.05 * bets.thetas[slot, bet]
    pulls = [(0, 1, 0.6), (0, 0, 0.2), (0, 1, 0.5)]
    pulls += [(1, 0, 0.3), (1, 1, 0.7), (1, 0, 0.4), (1, 0, 0.1)]
    for cell, reward, prediction in pulls:
        multiply_bets.plain(model, state, slot, cell, np.array([reward, prediction]))
    assert bounded_gain.plain(bets, slot, bet) == pytest.approx(0.1479270629, abs=1e-10)


def _law(random, points, mean):
    """Return a random law on three points with this mean."""
    law = random.dirichlet(np.ones(3))
    own = law @ points
    end = 2 if own < mean else 0
    share = (mean - own) / (points[end] - own) if own != mean else 0.0
    return (1.0 - share) * law + share * np.eye(3)[end]


def _worst_expectation(blocks, slot, bet, random, as_stated=True):
    """Return the largest exact mean of what a bet pays, over random laws on its null.

    A law has nine points (reward, prediction). In a group all arms have the same mean prediction,
    the stated one if it is known (unless `as_stated` is False); otherwise laws differ in any way,
    and so does the dependence of reward and prediction.
    """
    (model, _), state = opened.plain(blocks.arrays)
    arms, groups = state.pulls.shape
    planned = state.blocks.planned[slot].reshape(arms, groups)
    role_of = _roles(model, state, slot, bet)
    rewards = np.array([0.0, 0.4, 1.0])
    # Means are those of predictions that are already cut.
    low, high = state.clip[slot, 0]
    points = np.array([low, low + 0.3 * (high - low), high])
    weights = state.coefficients[slot, bet, :, :, 0]
    most = 0.0
    for _ in range(20):
        laws, worst = {}, {}
        for group in range(groups):
            mean = random.uniform(*points[[0, 2]])
            if as_stated and not math.isnan(model.known_means[0, group]):
                mean = model.known_means[0, group]
            for arm in range(arms):
                marginal = _law(random, points, mean)
                given = random.dirichlet(np.ones(3) * 0.5, size=3)
                laws[arm, group] = marginal[:, None] * given
                end = 0 if weights[role_of[arm], group] > 0.0 else 2
                worst[arm, group] = marginal[:, None] * np.eye(3)[end]

        def effect(share, laws=laws, worst=worst):
            found = state.constant[slot, bet]
            for (arm, group), law in laws.items():
                mixed = (1.0 - share) * law + share * worst[arm, group]
                weight = planned[arm, group] * weights[role_of[arm], group]
                found += weight * (mixed.sum(axis=0) @ rewards)
            return found

        low, high = 0.0, 1.0
        if effect(1.0) > 0.0:
            continue
        if effect(0.0) > 0.0:
            for _ in range(60):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if effect(middle) > 0.0 else (low, middle)
            share = high
        else:
            share = 0.0
        thetas, logs = state.bets.thetas[slot, bet], state.bets.logs[slot, bet].copy()
        for (arm, group), law in laws.items():
            if planned[arm, group] == 0.0:
                continue
            mixed = (1.0 - share) * law + share * worst[arm, group]
            steps = np.array(
                [
                    [
                        step_in_bet.plain(
                            model, state, slot, bet, role_of[arm], group, np.array([y, f])
                        )
                        for y in rewards
                    ]
                    for f in points
                ]
            )
            factors = 1.0 + thetas[:, None, None] * steps
            assert (factors > 0.0).all()
            logs += planned[arm, group] * np.log((mixed * factors).sum(axis=(1, 2)))
        paid = state.bets.cash[slot, bet] + state.bets.stakes[slot, bet] @ np.exp(logs)
        most = max(most, paid)
    return most


CENSUS = {"range": (0, 1), "known_mean": {"x": 0.55}}


def test_no_bet_gains_on_average_if_the_mean_prediction_is_known():
    """Where it is known, weights of predictions need not sum to zero, and floors gain the most."""
    found, otherwise = [], []
    for seed in range(6):
        problem = problem_of(("a", "b"), ("x", "y"), CENSUS, floors=0.25)
        policy = BlockBetting(problem, seed=seed, initial_pulls=6)
        random = np.random.default_rng(seed)
        follow(policy, Units(problem, seed, gap=0.1), 60 + 20 * seed)
        blocks = policy._blocks
        (model, _), state = opened.plain(blocks.arrays)
        slot = int(state.blocks.first[0]) % state.blocks.waiting.size
        for bet in range(state.bets.number[slot]):
            if state.bets.ledger[slot, bet] == NO_BET:
                continue
            logs = state.bets.logs[slot, bet]
            logs[:] = state.bets.thetas[slot, bet] * _effect_at_centres(model, state, slot, bet)
            found.append(_worst_expectation(blocks, slot, bet, random))
            otherwise.append(_worst_expectation(blocks, slot, bet, random, as_stated=False))
        assert tuple(state.clip[slot, 0]) == (0.0, 1.0)
    assert len(found) >= 4
    assert 0.5 < max(found) <= 1.0 + 1e-12
    # What is stated is used: with other means a bet gains.
    assert max(otherwise) > 1.001


def test_with_a_known_mean_a_floor_uses_the_full_slope_and_no_other_arms():
    weights = {}
    for prediction in ((0, 1), {"range": (0, 1), "known_mean": {"x": 0.5}}):
        problem = problem_of(("a", "b"), ("x",), prediction, floors=0.5)
        policy = BlockBetting(problem, seed=1)
        follow(policy, Units(problem, 1, gap=0.3), 70)
        _, state = opened.plain(policy._blocks.arrays)
        slot, limit = int(state.blocks.first[0]) % state.blocks.waiting.size, 2
        assert (state.target[slot], state.bets.ledger[slot, limit] != NO_BET) == (1, True)
        own, other = state.coefficients[slot, limit, [TARGET, OTHER], 0]
        slope = state.fits[slot, 0, 0, SLOPE]
        weights[isinstance(prediction, dict)] = own[1] / (slope * own[0]), other[1]
        assert state.centres[slot, limit, TARGET, 0, 1] == pytest.approx(0.5, abs=0.1)
        assumed = any("known_mean" in one for one in policy.guarantee.assumptions)
        assert assumed == isinstance(prediction, dict)
    assert weights[True] == pytest.approx((-1.0, 0.0))
    assert -1.0 < weights[False][0] < 0.0 < weights[False][1]


def test_predictions_with_another_mean_than_stated_are_warned_of():
    problem = problem_of(("now", "new"), ("x",), {"range": (0, 1), "known_mean": {"x": 0.3}})
    policy, units = BlockBetting(problem, seed=1), Units(problem, 1, gap=0.0)
    while policy.asked < 200 and not policy.stopped:
        # Their mean is .5.
        unit = units.arrive()
        pull = policy.ask(**unit)
        policy.tell(pull, units.reward(pull.arm, unit["prediction"]))
    assert any("known_mean" in warning for warning in policy.warnings())
    assert not policy.guarantee.proven
    restored = BlockBetting(problem, seed=1)
    restored.set_state(policy.get_state())
    assert restored.warnings() == policy.warnings()


@pytest.mark.parametrize(
    ("question", "end"),
    effort.pairs(
        [
            (("a", "b"), {"floors": None}),
            (("a", "b", "c"), {"floors": 0.3, "ceilings": 0.9}),
            (("now", "a", "b"), {"control": "now", "margin": 0.05}),
            (("now", "a"), {"control": "now", "superiority": 0.02, "floors": 0.2}),
        ],
        [{}, {"max_pulls": 400, "planned_end": True}],
    ),
)
def test_no_bet_gains_on_average_under_its_null(question, end):
    """Exact means of every bet of random blocks, over laws on three by three points."""
    arms, limits = question
    found, placed, floors_too = [], 0, False
    for seed in effort.first(2, [3, 2, 1, 0]):
        problem = problem_of(arms, ("x", "y"), **limits)
        policy = BlockBetting(problem, seed=seed, initial_pulls=6, **end)
        units = Units(problem, seed, gap=0.1 * seed)
        random = np.random.default_rng(seed)
        follow(policy, units, 12 * len(arms) + 40 * seed + 8)
        blocks = policy._blocks
        (model, _), state = opened.plain(blocks.arrays)
        slot = int(state.blocks.first[0]) % state.blocks.waiting.size
        # The products so far belong to pulls that were told: a mean is that of a whole block.
        for bet in range(state.bets.number[slot]):
            if state.bets.ledger[slot, bet] == NO_BET:
                continue
            logs = state.bets.logs[slot, bet]
            logs[:] = state.bets.thetas[slot, bet] * _effect_at_centres(model, state, slot, bet)
            placed += 1
            floors_too = floors_too or bet >= len(arms)
            found.append(_worst_expectation(blocks, slot, bet, random))
    assert placed >= 2
    assert floors_too == (limits != {"floors": None})
    assert max(found) <= 1.0 + 1e-12
    assert max(found) > 0.5


def _roles(model, state, slot, bet):
    """Return the role of every arm in a bet."""
    arms, groups = state.pulls.shape
    return [role_in_bet.plain(model, state, slot, bet, arm * groups) for arm in range(arms)]


def _effect_at_centres(model, state, slot, bet):
    """Return the effect of a bet if every mean were at its centre, with all planned pulls."""
    arms, groups = state.pulls.shape
    planned = state.blocks.planned[slot].reshape(arms, groups)
    found = state.constant[slot, bet]
    for arm, role in enumerate(_roles(model, state, slot, bet)):
        for group in range(groups):
            weight = state.coefficients[slot, bet, role, group, 0]
            found += planned[arm, group] * weight * state.centres[slot, bet, role, group, 0]
    return found


@pytest.mark.parametrize("end", [{}, {"max_pulls": 400, "planned_end": True}])
def test_weights_of_predictions_sum_to_zero_in_every_group_also_for_floors(end):
    problem = problem_of(("a", "b", "c"), ("x", "y"), floors=0.2)
    policy = BlockBetting(problem, seed=1, **end)
    follow(policy, Units(problem, 1), 150)
    (model, _), state = opened.plain(policy._blocks.arrays)
    slot = int(state.blocks.first[0]) % state.blocks.waiting.size
    planned = state.blocks.planned[slot].reshape(state.pulls.shape)
    bets = [b for b in range(state.bets.number[slot]) if state.bets.ledger[slot, b] != NO_BET]
    # By then all floors are settled for a planned end, which bets on the leader, too.
    assert state.target[slot] in bets if end else any(bet >= 3 for bet in bets)
    for bet in bets:
        roles = _roles(model, state, slot, bet)
        weights = state.coefficients[slot, bet][roles][:, :, 1]
        assert np.abs(weights).max() > 0.0
        sums = (planned * weights).sum(axis=0)
        assert sums == pytest.approx(0.0, abs=1e-9 * np.abs(planned * weights).max())


# ------------------------------------------------------------------------------- policy


def test_ignorable_losses_are_an_assumption_about_predictions_too():
    problem = problem_of(("a", "b"), ("x",), floors=None)
    for losses in ("informative", "ignorable"):
        assumed = BlockBetting(problem, losses=losses).guarantee.assumptions
        assert any("in all arms alike" in one for one in assumed) == (losses == "ignorable")


def test_the_test_of_predictions_counts_as_many_pulls_of_an_arm_as_were_planned():
    """Also if pulls that get lost are made again: their predictions were tested already."""
    problem = problem_of(("a", "b"), ("x",), floors=None)
    policy, units = BlockBetting(problem, seed=4, losses="ignorable"), Units(problem, 4, gap=0.0)
    state, counted, lost = policy._blocks.state, {}, 0
    added = policy._blocks.test.add

    def add(p, block, arm, *others):
        counted[block, arm] = counted.get((block, arm), 0) + 1
        added(p, block, arm, *others)

    policy._blocks.test.add = add
    planned = {}
    while policy.asked < 300 and not policy.stopped:
        unit = units.arrive()
        pull = policy.ask(**unit)
        if pull.tag >= 0:
            state = policy._blocks.state
            planned[pull.tag] = state.blocks.planned[pull.tag % state.blocks.waiting.size].copy()
        if units.random.random() < 0.3:
            policy.fail(pull)
            lost += 1
        else:
            policy.tell(pull, units.reward(pull.arm, unit["prediction"]))
    assert lost > 50
    complete = sorted(planned)[:-1]
    assert len(complete) > 3
    for serial in complete:
        assert [counted[serial, arm] for arm in (0, 1)] == planned[serial].tolist()
    assert not set(policy._blocks.test.open_blocks[:, 1]) & set(complete)


def test_predictions_that_explain_much_save_pulls():
    problem = problem_of()
    with_them = _mean_pulls(problem, range(4))
    without = _mean_pulls(problem.clone(prediction=None), range(4))
    assert with_them < 0.8 * without


def _mean_pulls(problem, seeds):
    found = []
    for seed in seeds:
        policy, units = BlockBetting(problem, seed=seed), Units(problem, seed)
        while not policy.stopped:
            unit = units.arrive()
            if problem.prediction is None:
                pull = policy.ask(group=unit["group"])
            else:
                pull = policy.ask(**unit)
            policy.tell(pull, units.reward(pull.arm, unit["prediction"]))
        assert policy.recommend().arm == "b"
        found.append(policy.asked)
    return np.mean(found)


def test_means_are_those_of_the_rewards_as_told():
    problem = problem_of(floors=0.1)
    policy, units = BlockBetting(problem, seed=3), Units(problem, 3)
    rewards = {}
    for _ in range(80):
        unit = units.arrive()
        pull = policy.ask(**unit)
        reward = units.reward(pull.arm, unit["prediction"])
        rewards.setdefault((pull.arm, pull.group), []).append(reward)
        policy.tell(pull, reward)
    for one in policy.progress().actions:
        told = rewards[one.labels["arm"], one.labels["group"]]
        assert one.pulls == len(told)
        assert set(one.labels) == {"arm", "group"}


@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_a_restored_policy_continues_like_one_that_never_paused(lost):
    problem = problem_of(floors=0.1)
    policy, units = BlockBetting(problem, seed=5), Units(problem, 5, lost=lost)
    _, waiting = follow(policy, units, 120, in_flight=5)
    restored = BlockBetting(problem, seed=5)
    restored.set_state(policy.get_state())
    for pull, reward in waiting:
        policy.tell(pull, reward)
        restored.tell(pull, reward)
    for _ in range(40):
        unit = units.arrive()
        pull, other = policy.ask(**unit), restored.ask(**unit)
        assert (pull, pull.tag) == (other, other.tag)
        reward = units.reward(pull.arm, unit["prediction"])
        policy.tell(pull, reward)
        restored.tell(other, reward)
    for name, array in policy.get_state().items():
        assert np.array_equal(array, restored.get_state()[name], equal_nan=name != "made_from")


def test_results_in_another_order_give_the_same_evidence():
    problem = problem_of(floors=0.1)
    first, second = (BlockBetting(problem, 1e-9, seed=7) for _ in range(2))
    units = Units(problem, 7)
    while first.told < 200 and not first.stopped:
        pulls = []
        for _ in range(len(problem.arms) * 20):
            unit = units.arrive()
            pull, other = first.ask(**unit), second.ask(**unit)
            assert pull == other
            pulls.append((pull, units.reward(pull.arm, unit["prediction"])))
        for pull, reward in pulls:
            first.tell(pull, reward)
        for pull, reward in reversed(pulls):
            second.tell(pull, reward)
    assert first._wealth == pytest.approx(second._wealth, rel=1e-9, abs=1e-9)


def test_a_correction_gives_the_wealth_of_the_true_values():
    problem = problem_of(floors=0.1)
    right, wrong = BlockBetting(problem, seed=2), BlockBetting(problem, seed=2)
    units, log = Units(problem, 2), []
    for _ in range(90):
        unit = units.arrive()
        pull = right.ask(**unit)
        assert wrong.ask(**unit) == pull
        log.append((pull, units.reward(pull.arm, unit["prediction"])))
    for place, (pull, reward) in enumerate(log):
        right.tell(pull, reward)
        wrong.tell(pull, 1.0 - reward if place == 80 else reward)
    pull, reward = log[80]
    wrong.amend(pull, 1.0 - reward, reward)
    assert wrong._wealth == pytest.approx(right._wealth, rel=1e-9, abs=1e-9)
    assert wrong._data[1] == pytest.approx(right._data[1])


def test_a_lost_pull_counts_with_the_worst_reward_and_its_own_prediction():
    problem = problem_of(("a", "b"), ("x",), floors=None)
    told, lost = BlockBetting(problem, seed=4), BlockBetting(problem, seed=4)
    units, log = Units(problem, 4), []
    for _ in range(40):
        unit = units.arrive()
        pull = told.ask(**unit)
        assert lost.ask(**unit) == pull
        log.append((pull, units.reward(pull.arm, unit["prediction"])))
        if len(log) <= 20:
            for policy in (told, lost):
                policy.tell(*log[-1])
    blocks = told._blocks
    (_, _), state = opened.plain(blocks.arrays)
    pull = next(one for one, _ in log[20:] if one.tag > 0)
    slot = pull.tag % state.blocks.waiting.size
    bet = int(np.flatnonzero(state.bets.ledger[slot, :2] != NO_BET)[0])
    role = TARGET if pull.action == state.target[slot] else RIVAL
    worst = 0.0 if state.coefficients[slot, bet, role, 0, 0] > 0.0 else 1.0
    told.tell(pull, worst)
    lost.fail(pull)
    products = [policy._blocks.state.bets.products[slot, bet].copy() for policy in (told, lost)]
    assert not np.array_equal(products[0], np.ones_like(products[0]))
    assert products[1] == pytest.approx(products[0], rel=1e-12)


def test_a_missing_prediction_counts_as_the_mean():
    problem = problem_of(("a", "b"), ("x",), {"range": (0, 1), "missing": "mean"}, floors=None)
    policy = BlockBetting(problem, seed=4)
    units = Units(problem, 4)
    for place in range(60):
        unit = units.arrive()
        reward_from = unit["prediction"]
        if place % 3 == 0:
            unit["prediction"] = None
        pull = policy.ask(**unit)
        policy.tell(pull, units.reward(pull.arm, reward_from))
    assert policy._blocks.predictions.count([MISSING]) == 20
    (_, _), state = opened.plain(policy._blocks.arrays)
    assert state.counts[:, :, 1, 1].sum() == 40
    assert policy._wealth[:2].max() > 0.0


def test_a_useless_or_constant_prediction_changes_little():
    problem = problem_of(("a", "b"), ("x",), floors=None)
    policy = BlockBetting(problem, seed=1)
    units = Units(problem, 1)
    for _ in range(60):
        pull = policy.ask(group="x", prediction=0.5)
        policy.tell(pull, units.reward(pull.arm, 0.5))
    assert policy._blocks.fit[0].tolist() == [[0.0]]
    plain = BlockBetting(problem.clone(prediction=None), seed=1)
    units = Units(problem, 1)
    for _ in range(60):
        pull = plain.ask(group="x")
        plain.tell(pull, units.reward(pull.arm, 0.5))
    assert plain._wealth == pytest.approx(policy._wealth, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-130, 1e-6, 1e9, 1e130])
def test_decisions_do_not_depend_on_units(scale):
    problem = problem_of(("a", "b"), ("x",), floors=None)
    other = Problem(
        ["a", "b"], ["x"], floors=None, reward_range=(0, scale), prediction=(0, 3 * scale)
    )
    first, second = BlockBetting(problem, seed=6), BlockBetting(other, seed=6)
    units = Units(problem, 6)
    for _ in range(80):
        unit = units.arrive()
        pull = first.ask(**unit)
        assert second.ask(group="x", prediction=scale * 3 * unit["prediction"]) == pull
        reward = units.reward(pull.arm, unit["prediction"])
        first.tell(pull, reward)
        second.tell(pull, scale * reward)
    assert second._wealth == pytest.approx(first._wealth, rel=1e-6, abs=1e-9)
    assert second._blocks.fit[0] * 3 == pytest.approx(first._blocks.fit[0], rel=1e-6)


def test_smaller_rewards_can_be_better():
    problem = problem_of(("a", "b"), ("x",), direction="minimize", floors=0.9)
    policy, units = BlockBetting(problem, seed=8), Units(problem, 8)
    while not policy.stopped and policy.asked < 3000:
        unit = units.arrive()
        pull = policy.ask(**unit)
        policy.tell(pull, units.reward(pull.arm, unit["prediction"]))
    assert policy.recommend().arm == "a"


# -------------------------------------------------------------------------- a study's log


def test_a_study_records_predictions_with_the_ask_and_replays_them(tmp_path):
    problem = problem_of(floors=0.1)
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study = ft.Study.create(problem, BlockBetting(problem), storage=storage, name="s", seed=1)
    units = Units(problem, 1)
    for _ in range(90):
        unit = units.arrive()
        pull = study.ask(**unit)
        study.tell(pull, units.reward(pull.arm, unit["prediction"]))
    study.verify()
    asks = [event for event in study.events() if event.kind == "ask"]
    assert asks[-1].body["context"] == unit
    before = study.progress()
    again = ft.Study.open(storage=storage, name="s")
    assert again.progress() == before


# --------------------------------------------------------------------------- bad inputs


@pytest.mark.parametrize(
    ("prediction", "name"),
    [
        ((1, 0), "prediction.range"),
        ((0, math.inf), "prediction.range"),
        ((0, 1e150), "prediction.range"),
        ("given", "prediction"),
        (0.5, "prediction"),
        ({"fit": True}, "prediction"),
        ({"range": (0, 1), "slope": 1}, "prediction"),
        ({"range": (0, 1), "fit": 1}, "prediction.fit"),
        ({"range": (0, 1), "missing": "zero"}, "prediction.missing"),
        ({"range": (0, 1), "known_mean": 0.5}, "prediction.known_mean"),
        ({"range": (0, 1), "known_mean": {}}, "prediction.known_mean"),
        ({"range": (0, 1), "known_mean": {"x": 1.0}}, "prediction.known_mean"),
        ({"range": (0, 1), "known_mean": {"x": math.nan}}, "prediction.known_mean"),
        ({"range": (0, 1), "known_mean": {"z": 0.5}}, "prediction.known_mean"),
        (
            {"range": (0, 1), "known_mean": {"x": 0.5}, "missing": "mean"},
            "prediction.known_mean",
        ),
    ],
)
def test_a_statement_about_predictions_that_makes_no_sense_is_refused(prediction, name):
    with raises(InvalidArgument) as error:
        problem_of(prediction=prediction)
    assert error.value.name == name


def test_predictions_with_a_floor_tolerance_are_refused():
    with raises(NotSupported):
        Problem(2, 1, prediction=(0, 1), reward_range=(0, 1), floor_tolerance=0.1)


def test_policies_without_blocks_refuse_predictions():
    with raises(NotSupported):
        TrackAndStop(problem_of(floors=0.1))


@pytest.mark.parametrize("option", [{"block_draws": True}])
def test_options_that_predictions_exclude_are_refused(option):
    with raises(InvalidArgument) as error:
        BlockBetting(problem_of(), **option)
    assert error.value.name == next(iter(option))


@pytest.mark.parametrize("given", [None, math.nan, math.inf, "0.5", True])
def test_without_a_number_as_prediction_nothing_is_issued(given):
    policy = BlockBetting(problem_of())
    with raises(InvalidArgument) as error:
        policy.ask(group="x", prediction=given)
    assert error.value.name == "prediction"
    assert policy.asked == 0


def test_a_prediction_needs_the_group_of_its_unit():
    policy = BlockBetting(problem_of())
    with raises(InvalidArgument) as error:
        policy.ask(prediction=0.5)
    assert error.value.name == "group"
    assert policy.asked == 0


def test_a_problem_without_predictions_takes_none():
    policy = BlockBetting(problem_of(prediction=None))
    with raises(InvalidArgument) as error:
        policy.ask(group="x", prediction=0.5)
    assert error.value.name == "prediction"


def test_one_prediction_is_not_for_several_pulls():
    problem = problem_of()
    policy = BlockBetting(problem)
    with raises(InvalidArgument) as error:
        policy.ask(2, group="x", prediction=0.5)
    assert error.value.name == "n"
    study = ft.Study.create(problem, BlockBetting(problem), storage="memory://", name="s")
    with raises(InvalidArgument) as error:
        study.ask(2, group="x", prediction=0.5)
    assert error.value.name == "n"
    assert policy.ask(1, group="x", prediction=0.5)[0].group == "x"


def test_a_prediction_that_comes_with_the_outcome_is_too_late():
    policy = BlockBetting(problem_of())
    pull = policy.ask(group="x", prediction=0.5)
    with raises(InvalidArgument) as error:
        policy.tell(pull, 1.0, prediction=0.7)
    assert error.value.name == "prediction"
    with raises(InvalidOutcome):
        policy.tell(pull, {"reward": 1.0, "prediction": 0.7})
    assert policy.told == 0


def test_a_problem_without_predictions_is_written_as_before():
    assert "prediction" not in problem_of(prediction=None).to_dict()
    problem = problem_of(prediction={"range": (0, 2), "missing": "mean"})
    assert Problem.from_dict(problem.to_dict()) == problem
    assert problem.to_dict()["prediction"] == {"range": [0.0, 2.0], "fit": True, "missing": "mean"}
    problem = problem_of(prediction={"range": (0, 2), "known_mean": {"x": 0.5}})
    assert Problem.from_dict(problem.to_dict()) == problem
    assert problem.to_dict()["prediction"]["known_mean"] == {"x": 0.5}


# ------------------------------------------------------------------------------- effects


def test_effects_are_adjusted_and_narrower_than_without_predictions():
    problem = problem_of(("now", "new"), ("x",), control="now", margin=0.005)
    policy, units = BlockBetting(problem, seed=1), Units(problem, 1, gap=0.0)
    plain = BlockBetting(problem.clone(prediction=None), seed=1)
    for _ in range(500):
        unit = units.arrive()
        for one, context in ((policy, unit), (plain, {"group": "x"})):
            pull = one.ask(**context)
            one.tell(pull, units.reward(pull.arm, unit["prediction"]))
    effect, other = policy.progress().effects[0], plain.progress().effects[0]
    # A prediction that explains .27 of the variance narrows it to about sqrt(.73) = .85.
    assert effect.upper - effect.lower < 0.93 * (other.upper - other.lower)
    assert effect.lower < 0.0 < effect.upper
    assert effect.lower <= effect.difference <= effect.upper
    # The slope is about .8 less the shrinkage; predictions have a variance of about .107.
    slopes, expected, explained = policy._blocks.fit
    assert slopes == pytest.approx(0.8, abs=0.2)
    assert expected == pytest.approx(0.5, abs=0.05)
    assert explained == pytest.approx(slopes**2 * 0.107, rel=0.1)


def test_an_arm_without_results_has_no_effect():
    policy = BlockBetting(problem_of(arms=("a", "b"), groups=("x",), floors=None), seed=1)
    for _ in range(100):
        pull = policy.ask(prediction=0.5)
        if pull.arm == "b":
            policy.fail(pull)
        else:
            policy.tell(pull, 0.7)
    [effect] = policy.progress().effects
    assert (effect.arm, effect.difference, effect.lower, effect.upper) == ("b", None, None, None)


def test_sums_of_a_block_follow_corrections_and_late_results():
    problem = problem_of(("now", "new"), ("x",), control="now", margin=0.005)
    right, other = BlockBetting(problem, seed=2), BlockBetting(problem, seed=2)
    units, log = Units(problem, 2, gap=0.0), []
    for place in range(120):
        unit = units.arrive()
        pull = right.ask(**unit)
        assert other.ask(**unit) == pull
        reward = units.reward(pull.arm, unit["prediction"])
        log.append((pull, reward))
        right.tell(pull, reward)
        if place % 7 == 3:
            other.tell(pull, 1.0 - reward)
            other.amend(pull, 1.0 - reward, reward)
        elif place % 7 == 5 and pull.tag >= 0:
            # Without a bet, a lost pull stays lost.
            other.fail(pull)
            other.tell(pull, reward)
        else:
            other.tell(pull, reward)
    assert len(right._blocks.paid) == len(other._blocks.paid) > 1
    sums = [policy._blocks.in_paid_blocks("adjusted") for policy in (right, other)]
    assert sums[1] == pytest.approx(sums[0], abs=1e-9)
    assert other.progress().effects[0].lower == pytest.approx(
        right.progress().effects[0].lower, abs=1e-6
    )


# ------------------------------------------------------------------------- health, details


def test_predictions_that_depend_on_the_arm_are_warned_of_and_weaken_the_promise():
    problem = problem_of(("now", "new"), ("x",), control="now", margin=0.001)
    policy, units = BlockBetting(problem, seed=3), Units(problem, 3, gap=0.0)
    assert policy.guarantee.proven
    while policy.asked < 600 and not policy.stopped:
        unit = units.arrive()
        # Somebody who knows the next arm lets other units come.
        peek = BlockBetting(problem, seed=3)
        peek.set_state(policy.get_state())
        if peek.ask(group="x", prediction=0.5).arm == "new":
            unit["prediction"] = float(units.random.choice([0.1, 0.5]))
        pull = policy.ask(**unit)
        policy.tell(pull, units.reward(pull.arm, unit["prediction"]))
    assert policy._blocks.depend_on_arm
    assert any("before the arm" in warning for warning in policy.warnings())
    assert not policy.guarantee.proven


def test_progress_says_what_predictions_explain_and_how_many_are_missing_or_cut():
    problem = problem_of(("a", "b"), ("x",), {"range": (0, 0.6), "missing": "mean"}, floors=None)
    policy, units = BlockBetting(problem, seed=4), Units(problem, 4, gap=0.0)
    given = []
    for place in range(100):
        unit = units.arrive()
        known = None if place % 10 == 0 else unit["prediction"]
        given.append(known)
        pull = policy.ask(group="x", prediction=known)
        policy.tell(pull, units.reward(pull.arm, unit["prediction"]))
        if policy.stopped:
            break
    said = policy.progress().predictions
    known = [one for one in given if one is not None]
    assert said.missing == pytest.approx(1.0 - len(known) / len(given))
    assert said.cut == pytest.approx(sum(one > 0.6 for one in known) / len(known))
    assert 0.05 < said.groups[0].r_squared < 0.6
    assert any("outside of their range" in warning for warning in policy.warnings())


def unasked(problem, action):
    return Pull(UNSOLICITED, action, problem.labels(action))


def explained(policy):
    """Return what predictions are said to explain."""
    found = policy.progress().predictions
    parts = [(one.slope, one.mean, one.r_squared) for one in found.groups]
    return np.array([found.variance_left, *np.ravel(parts)])


def test_results_that_nobody_asked_for_do_not_change_what_predictions_explain():
    """They have no predictions: a table has them after its decision, often most of its rows."""
    policy = BlockBetting(problem_of(), seed=3)
    units = Units(policy.problem, 8)
    follow(policy, units, 400)
    before = explained(policy)
    assert before[-1] > 0.2
    for place in range(3_000):
        pull = unasked(policy.problem, place % policy.problem.n_actions)
        policy.tell(pull, float(place % 7 > 0))
    np.testing.assert_allclose(explained(policy), before, rtol=1e-9)
    assert policy.progress().actions[0].mean_of_all > 0.8


def test_what_predictions_explain_follows_corrections_of_results_nobody_asked_for():
    policy = BlockBetting(problem_of(), seed=3)
    follow(policy, Units(policy.problem, 8), 200)
    before = explained(policy)
    pull = unasked(policy.problem, 0)
    for _ in range(50):
        policy.tell(pull, 1.0)
    for _ in range(50):
        policy.amend(pull, 1.0, 0.0)
    state = policy.get_state()
    again = BlockBetting(problem_of(), seed=3)
    again.set_state(state)
    for each in policy, again:
        np.testing.assert_allclose(explained(each), before, rtol=1e-9)
        each.tell(pull, 0.5)
        np.testing.assert_allclose(explained(each), before, rtol=1e-9)
