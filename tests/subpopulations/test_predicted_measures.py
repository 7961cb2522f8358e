"""Predictions of single measures, if a pull gives several."""

import math

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.confidence.block_betting.bets import NO_BET
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.subpopulations import BlockBetting, Problem
from fairtrial.subpopulations._kernels.measures.bets import role_in_bet, step_in_bet
from fairtrial.subpopulations._kernels.measures.state import opened

NAMES = "cured", "harmed", "cost"
OBJECTIVE = {"cured": 1.0, "cost": -0.01}


def problem_of(prediction=None, arms=("now", "a", "b"), groups=("x", "y"), **others):
    """Return a problem whose objective has two measures; the first one is predicted."""
    stated = {"ceilings": {"harmed": 0.4}, **others}
    return Problem(
        list(arms),
        list(groups),
        measures={"cured": (0, 1), "harmed": (0, 1), "cost": (0, 50)},
        objective=OBJECTIVE,
        prediction={"cured": (0, 1)} if prediction is None else prediction,
        **stated,
    )


BOTH = {"cured": (0, 1), "cost": {"range": (0, 60), "fit": False}}
ALL = {"cured": (0, 1), "harmed": (-1, 2), "cost": (0, 60)}


class Units:
    """Units of which the cure and the cost can be predicted; harm comes with the cure."""

    def __init__(self, problem, seed, gap=0.2):
        self.problem, self.gap = problem, gap
        self.random = np.random.default_rng(seed)

    def arrive(self):
        severe = float(self.random.choice([0.1, 0.5, 0.9]))
        known = {"cured": severe, "harmed": 0.4 - severe, "cost": 40.0 * severe}
        own = {name: known[name] for name in self.problem.predictions}
        return {"group": str(self.random.choice(self.problem.groups)), "prediction": own}, severe

    def outcome(self, arm, severe):
        better = self.gap * (arm == self.problem.arms[-1])
        cured = float(self.random.random() < min(1.0, 0.9 * severe + 0.05 + better))
        harmed = float(self.random.random() < 0.1 + 0.2 * cured)
        return {"cured": cured, "harmed": harmed, "cost": 50.0 * severe * self.random.random()}


def follow(policy, units, pulls):
    """Let units arrive; return the pulls and their outcomes."""
    found = []
    while len(found) < pulls and not policy.stopped:
        unit, severe = units.arrive()
        pull = policy.ask(**unit)
        outcome = units.outcome(pull.arm, severe)
        policy.tell(pull, outcome)
        found.append((pull, unit, outcome))
    return found


def open_bets(policy):
    """Return model, state, slot and the bets of the oldest open block."""
    (model, _), state = opened.plain(policy._blocks.arrays)
    slot = int(state.blocks.first[0]) % state.blocks.waiting.size
    number = state.bets.number[slot]
    return model, state, slot, [b for b in range(number) if state.bets.ledger[slot, b] != NO_BET]


# --------------------------------------------------------------------------------- bets


def worst_expectation(policy, bet, random):
    """Return the largest exact mean of what a bet pays, over random means on its null.

    The mean of a factor depends on the means of measures and of predictions alone. In a group, all
    arms have the same mean predictions.
    """
    model, state, slot, _ = open_bets(policy)
    arms, groups = state.pulls.shape
    size, number = model.objective.size, model.predicted
    planned = state.blocks.planned[slot].reshape(arms, groups)
    roles = [role_in_bet.plain(model, state, slot, bet, arm * groups) for arm in range(arms)]
    weights = state.coefficients[slot, bet]
    low, high = model.low.copy(), model.high.copy()
    low[size - number :], high[size - number :] = state.clip[slot].T

    def effect(means):
        found = state.constant[slot, bet]
        for arm, group in np.ndindex(arms, groups):
            own = weights[roles[arm], group, : size - number]
            found += planned[arm, group] * own @ means[arm, group, : size - number]
        return found

    centres = np.array(
        [[state.centres[slot, bet, roles[arm], g] for g in range(groups)] for arm in range(arms)]
    )
    worst = np.array(
        [
            [np.where(weights[roles[arm], g] > 0.0, low, high) for g in range(groups)]
            for arm in range(arms)
        ]
    )
    assert effect(worst) <= 0.0
    most = 0.0
    for _ in range(30):
        means = random.uniform(low, high, size=(arms, groups, size))
        if effect(means) > 0.0:
            share = effect(means) / (effect(means) - effect(worst))
            means = (1.0 - share) * means + share * worst
        shared = random.choice([low, high, random.uniform(low, high)])
        means[:, :, size - number :] = shared[size - number :]
        log = state.bets.thetas[slot, bet] * effect(centres)
        for arm, group in np.ndindex(arms, groups):
            if planned[arm, group]:
                step = [model, state, slot, bet, roles[arm], group]
                theta = state.bets.thetas[slot, bet]
                for corner in (low, high, worst[arm, group]):
                    assert (1.0 + theta * step_in_bet.plain(*step, corner) > 0.0).all()
                log += planned[arm, group] * np.log1p(
                    theta * step_in_bet.plain(*step, means[arm, group])
                )
        paid = state.bets.cash[slot, bet] + state.bets.stakes[slot, bet] @ np.exp(log)
        most = max(most, paid)
    return most


@pytest.mark.parametrize("end", [{}, {"max_pulls": 400, "planned_end": True}])
@pytest.mark.parametrize(
    ("prediction", "limits"),
    [
        ({"cured": (0, 1)}, {}),
        (BOTH, {"control": "now", "superiority": 0.0}),
        (ALL, {"floors": {"cured": 0.1}, "ceilings": {"cost": 40}}),
        (ALL, {"control": "now", "margin": {"cured": 0.1, "cost": 5}, "ceilings": {}}),
    ],
)
def test_no_bet_gains_on_average_under_its_null(prediction, limits, end):
    if "margin" in limits:
        limits = {**limits, "direction": {"cured": "maximize", "cost": "minimize"}}
    found, floors_too = [], False
    for seed in range(2):
        problem = problem_of(prediction, **limits)
        policy = BlockBetting(problem, seed=seed, initial_pulls=6, **end)
        follow(policy, Units(problem, seed, gap=0.2 * seed), 70 + 50 * seed)
        for bet in open_bets(policy)[-1]:
            found.append(worst_expectation(policy, bet, np.random.default_rng(seed)))
            floors_too = floors_too or bet >= len(problem.arms)
    assert len(found) >= 2
    assert 0.5 < max(found) <= 1.0 + 1e-12


def test_weights_of_each_prediction_sum_to_zero_in_every_group():
    problem = problem_of(ALL, floors={"cured": 0.1})
    policy = BlockBetting(problem, seed=1)
    follow(policy, Units(problem, 1), 200)
    model, state, slot, bets = open_bets(policy)
    planned = state.blocks.planned[slot].reshape(state.pulls.shape)
    assert any(bet >= 3 for bet in bets)
    for bet in bets:
        roles = [role_in_bet.plain(model, state, slot, bet, 2 * arm) for arm in range(3)]
        weights = state.coefficients[slot, bet][roles][..., 3:]
        sums = (planned[..., np.newaxis] * weights).sum(axis=0)
        assert sums == pytest.approx(0.0, abs=1e-9 * np.abs(weights).max() * planned.max())


def test_bets_on_measures_without_a_prediction_stay_as_they_are():
    """A limit on harm does not use the prediction of the cure."""
    problem = problem_of(groups=("x",))
    policy = BlockBetting(problem, seed=1)
    follow(policy, Units(problem, 1), 120)
    _, state, slot, bets = open_bets(policy)
    limits = [bet for bet in bets if bet >= 3]
    assert limits
    for bet in limits:
        assert np.abs(state.coefficients[slot, bet, :, :, 1]).max() > 0.0
        assert not state.coefficients[slot, bet, :, :, 3].any()


def test_a_missing_value_counts_as_its_worst_with_the_own_prediction():
    problem = problem_of(BOTH, groups=("x",))
    worst, missing = (BlockBetting(problem, seed=3) for _ in range(2))
    for policy in (worst, missing):
        follow(policy, Units(problem, 3, gap=0.4), 100)
    units = Units(problem, 4)
    unit, severe = units.arrive()
    pull = worst.ask(**unit)
    assert missing.ask(**unit) == pull
    outcome = units.outcome(pull.arm, severe)
    _, state, slot, bets = open_bets(worst)
    pairs = [bet for bet in bets if bet < 3]
    assert pairs
    before = state.bets.products[slot, pairs].copy()
    missing.tell(pull, {**outcome, "cured": None})
    after = open_bets(missing)[1].bets.products[slot, pairs]
    told = []
    for value in (0.0, 1.0):
        policy = BlockBetting(problem, seed=3)
        policy.set_state(worst.get_state())
        policy.tell(pull, {**outcome, "cured": value})
        told.append(open_bets(policy)[1].bets.products[slot, pairs])
    assert after == pytest.approx(np.minimum(*told), rel=1e-12)
    assert not np.allclose(after, before, rtol=1e-9)


def test_values_that_come_at_different_times_end_in_the_same_state():
    problem = problem_of(BOTH)
    at_once, later = (BlockBetting(problem, seed=5) for _ in range(2))
    units = Units(problem, 5)
    for place in range(120):
        unit, severe = units.arrive()
        pull = at_once.ask(**unit)
        assert later.ask(**unit) == pull
        outcome = units.outcome(pull.arm, severe)
        at_once.tell(pull, outcome)
        first = NAMES[place % 3]
        later.report(pull, {first: outcome[first]})
        rest = {name: own for name, own in outcome.items() if name != first}
        later.tell(pull, rest)
    assert later._wealth == pytest.approx(at_once._wealth, rel=1e-9, abs=1e-9)
    first, second = at_once.progress(), later.progress()
    assert first.predictions.groups == second.predictions.groups
    for one, other in zip(first.effects, second.effects, strict=True):
        ends = one.lower, one.difference, one.upper
        assert ends == pytest.approx((other.lower, other.difference, other.upper), rel=1e-9)


def test_corrections_reach_effects_and_bets():
    """Those of pulls in open blocks, and of the last pull of a block, whose bets are paid."""
    problem = problem_of(BOTH, groups=("x",))
    right, corrected = (BlockBetting(problem, seed=6) for _ in range(2))
    units = Units(problem, 6)
    for place in range(150):
        unit, severe = units.arrive()
        pull = right.ask(**unit)
        assert corrected.ask(**unit) == pull
        outcome = units.outcome(pull.arm, severe)
        right.tell(pull, outcome)
        wrong = {**outcome, "cured": 1.0 - outcome["cured"]} if place % 2 else outcome
        corrected.tell(pull, wrong)
        corrected.amend(pull, wrong, outcome)
    assert corrected._blocks.state.sums == pytest.approx(right._blocks.state.sums, abs=1e-9)
    assert corrected._wealth == pytest.approx(right._wealth, rel=1e-9, abs=1e-9)
    sums = [one._blocks.in_paid_blocks("adjusted") for one in (right, corrected)]
    assert sums[1] == pytest.approx(sums[0], abs=1e-9)


def test_ignorable_losses_are_made_again_and_the_answer_is_right():
    problem = problem_of(BOTH, groups=("x",))
    policy, units = BlockBetting(problem, seed=7, losses="ignorable"), Units(problem, 7, gap=0.4)
    lost = 0
    while policy.asked < 900 and not policy.stopped:
        unit, severe = units.arrive()
        pull = policy.ask(**unit)
        if units.random.random() < 0.2:
            policy.fail(pull)
            lost += 1
        else:
            policy.tell(pull, units.outcome(pull.arm, severe))
    assert lost > 20
    assert policy.recommend().arm == "b"
    assert any("in all arms alike" in one for one in policy.guarantee.assumptions)


# ------------------------------------------------------------------------ known noise


def known(prediction, **others):
    return Problem(
        ["now", "a"],
        {"x": 0.3, "y": 0.7},
        measures=["gain", "pain"],
        noise_std={"gain": 1.0, "pain": 0.5},
        prediction=prediction,
        **{"objective": "gain", "ceilings": {"pain": 1.0}, **others},
    )


CENSUS = {"residual_std": 0.6, "known_mean": {"x": 2.0, "y": -1.0}}


@pytest.mark.parametrize(
    ("prediction", "limits", "stated"),
    [
        ({"gain": {"residual_std": 0.6}}, {}, {}),
        (
            {"gain": {"residual_std": 0.6}},
            {"floors": {"gain": -0.5}, "control": "now", "superiority": 0.05},
            {"floors": {"gain": -0.5}},
        ),
        (
            {"gain": CENSUS},
            {"floors": {("gain", "y"): -0.5}, "control": "now", "margin": {"gain": 0.2}},
            # Less the mean prediction -1.
            {"floors": {("left", "y"): 0.5}, "margin": {"left": 0.2}},
        ),
    ],
)
def test_with_known_noise_bets_are_those_on_measures_minus_predictions(prediction, limits, stated):
    problem = known(prediction, **limits)
    other = Problem(
        problem.arms,
        dict(zip(problem.groups, problem.shares, strict=True)),
        measures=["gain", "pain", "left"],
        noise_std={"gain": 1.0, "pain": 0.5, "left": 0.6},
        **{"ceilings": {"pain": 1.0}, **limits, **stated, "objective": "left"},
    )
    first, second = BlockBetting(problem, seed=1), BlockBetting(other, seed=1)
    random = np.random.default_rng(1)
    for _ in range(160):
        f, group = float(random.normal()), str(random.choice(["x", "y"]))
        pull = first.ask(group=group, prediction=f)
        same = second.ask(group=group)
        assert (same.action, same.tag) == (pull.action, pull.tag)
        gain = f + 0.6 * random.normal() + 0.3 * (pull.arm == "a")
        pain = 0.5 * random.normal()
        first.report(pull, {"pain": pain})
        first.tell(pull, {"gain": gain})
        second.tell(same, {"gain": gain, "pain": pain, "left": gain - f})
        if first.stopped or second.stopped:
            break
    assert first._wealth.tolist() == second._wealth.tolist()
    assert np.abs(first._wealth[np.isfinite(first._wealth)]).max() > 0.5
    found = first.progress()
    assert found.predictions.variance_left == pytest.approx(0.36)
    # Means are those of what was told.
    assert {one.measure for one in found.measures} == {"gain", "pain"}
    assert any("residual_std" in one for one in first.guarantee.assumptions)


def test_residuals_that_spread_too_widely_are_warned_of_by_name():
    problem = known({"gain": {"residual_std": 0.2}}, ceilings={})
    policy, random = BlockBetting(problem, delta=1e-99, seed=1), np.random.default_rng(1)
    for place in range(200):
        pull = policy.ask(group="xy"[place % 2], prediction=0.0)
        policy.tell(pull, {"gain": random.normal() * 0.9, "pain": 0.5 * random.normal()})
    assert any("residual_std of gain" in warning for warning in policy.warnings())
    assert not policy.guarantee.proven


# ---------------------------------------------------------------------------- report


def test_what_predictions_explain_is_shown_by_measure_and_group():
    problem = problem_of(BOTH)
    policy = BlockBetting(problem, seed=1)
    follow(policy, Units(problem, 1), 300)
    found = policy.progress().predictions
    assert [(one.measure, one.group) for one in found.groups] == [
        *(("cured", "x"), ("cured", "y")),
        *(("cost", "x"), ("cost", "y")),
    ]
    # A slope of .9 on a prediction with a variance of .107, of a variance of about .25.
    assert found.groups[0].r_squared == pytest.approx(0.35, abs=0.12)
    # Costs have the slope .625 on 40 times severity; with 1 it explains less than nothing could.
    assert found.groups[2].slope == 1.0
    assert 0.5 < found.variance_left < 0.85
    assert 0.0 < found.e_value < 100.0


def test_effects_are_adjusted_and_narrower_than_without_predictions():
    problem = problem_of(BOTH, groups=("x",), arms=("now", "a"), control="now")
    plain = problem.clone(prediction=None)
    policy, other = BlockBetting(problem, 1e-3, seed=2), BlockBetting(plain, 1e-3, seed=2)
    units = Units(problem, 2, gap=0.05)
    for _ in range(600):
        unit, severe = units.arrive()
        for one, context in ((policy, unit), (other, {"group": "x"})):
            pull = one.ask(**context)
            one.tell(pull, units.outcome(pull.arm, severe))
    effect, wide = policy.progress().effects[0], other.progress().effects[0]
    assert effect.upper - effect.lower < 0.93 * (wide.upper - wide.lower)
    assert effect.lower < 0.05 < effect.upper
    assert effect.lower <= effect.difference <= effect.upper


def test_a_prediction_that_depends_on_the_arm_is_warned_of_whichever_it_is():
    problem = problem_of(BOTH, arms=("now", "a"), groups=("x",))
    policy, units = BlockBetting(problem, 1e-9, seed=3), Units(problem, 3, gap=0.0)
    while policy.asked < 900 and not policy._blocks.depend_on_arm:
        unit, severe = units.arrive()
        peek = BlockBetting(problem, 1e-9, seed=3)
        peek.set_state(policy.get_state())
        if peek.ask(**unit).arm == "a":
            # Somebody who knows the next arm states another cost.
            unit["prediction"]["cost"] += 20.0
        pull = policy.ask(**unit)
        policy.tell(pull, units.outcome(pull.arm, severe))
    assert policy._blocks.depend_on_arm
    assert not policy.guarantee.proven
    restored = BlockBetting(problem, 1e-9, seed=3)
    restored.set_state(policy.get_state())
    assert restored.warnings() == policy.warnings()
    assert restored._blocks.test.e_value == policy._blocks.test.e_value


def test_a_study_replays_its_predictions(tmp_path):
    problem, storage = problem_of(BOTH), f"sqlite:///{tmp_path / 's.db'}"
    study = ft.Study.create(problem, BlockBetting(problem), storage=storage, name="s", seed=1)
    units = Units(problem, 1)
    for _ in range(50):
        unit, severe = units.arrive()
        pull = study.ask(**unit)
        outcome = units.outcome(pull.arm, severe)
        study.report(pull, {"harmed": outcome["harmed"]})
        study.tell(pull, {"cured": outcome["cured"], "cost": outcome["cost"]})
    study.verify()
    asks = [event for event in study.events() if event.kind == "ask"]
    assert asks[-1].body["context"] == unit
    assert ft.Study.open(storage=storage, name="s").progress() == study.progress()


# -------------------------------------------------------------------------- bad inputs


@pytest.mark.parametrize(
    ("prediction", "name"),
    [
        ((0, 1), "prediction"),
        ({}, "prediction"),
        ({"cure": (0, 1)}, "prediction"),
        ({"cured": (1, 0)}, "prediction[cured].range"),
        ({"cured": {"residual_std": 0.3}}, "prediction[cured].residual_std"),
        ({"cured": {"range": (0, 1), "known_mean": {"z": 0.5}}}, "prediction[cured].known_mean"),
        ({"cured": {"range": (0, 1), "missing": "zero"}}, "prediction[cured].missing"),
    ],
)
def test_a_statement_that_makes_no_sense_is_refused(prediction, name):
    with pytest.raises(InvalidArgument) as error:
        problem_of(prediction)
    assert error.value.name == name


def test_known_noise_needs_a_smaller_residual_and_no_covariance():
    with pytest.raises(InvalidArgument) as error:
        known({"pain": {"residual_std": 0.6}})
    assert error.value.name == "prediction[pain].residual_std"
    with pytest.raises(InvalidArgument) as error:
        known({"gain": (0, 1)})
    assert error.value.name == "prediction[gain]"
    with pytest.raises(NotSupported):
        Problem(
            2,
            1,
            measures=["a", "b"],
            objective="a",
            noise_cov=np.eye(2),
            prediction={"a": {"residual_std": 0.5}},
        )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (0.5, "prediction"),
        (None, "prediction[cured]"),
        ({"cured": 0.5}, "prediction[cost]"),
        ({"cured": 0.5, "cost": math.nan}, "prediction[cost]"),
        ({"cured": 0.5, "cost": 1.0, "harmed": 0.1}, "prediction"),
        ({"cured": "0.5", "cost": 1.0}, "prediction[cured]"),
    ],
)
def test_without_all_predictions_nothing_is_issued(given, name):
    policy = BlockBetting(problem_of(BOTH))
    with pytest.raises(InvalidArgument) as error:
        policy.ask(group="x", prediction=given)
    assert error.value.name in (name, "prediction")
    assert policy.asked == 0


def test_a_unit_may_lack_one_of_its_predictions():
    stated = {name: {"range": ends, "missing": "mean"} for name, ends in ALL.items()}
    problem = problem_of(stated, groups=("x",))
    policy, units = BlockBetting(problem, seed=4), Units(problem, 4)
    for place in range(120):
        unit, severe = units.arrive()
        if place % 3 == 0:
            del unit["prediction"]["cost"]
        pull = policy.ask(**unit)
        policy.tell(pull, units.outcome(pull.arm, severe))
    (_, _), state = opened.plain(policy._blocks.arrays)
    counts = np.diagonal(state.counts, axis1=2, axis2=3).sum(axis=(0, 1))
    assert counts.tolist() == [120, 120, 120, 120, 120, 80]
    assert policy.progress().predictions.missing == pytest.approx(40 / 360)


def test_a_problem_survives_json():
    problem = problem_of({**BOTH, "harmed": {"range": (0, 1), "known_mean": {"x": 0.5}}})
    assert Problem.from_dict(problem.to_dict()) == problem
    assert "prediction" not in problem.clone(prediction=None).to_dict()
