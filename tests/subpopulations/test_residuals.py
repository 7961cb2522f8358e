"""Block betting with predictions and a known noise."""

import math

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.core.mistakes import Mistakes
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.subpopulations import (
    BlockBetting,
    GaussianEnvironment,
    GaussianPredictedEnvironment,
    PredictedEnvironment,
    Problem,
)
from fairtrial.subpopulations.family import FAMILY
from tests import effort
from tests.messages import raises
from tests.subpopulations.residual_problems import as_residuals
from tests.subpopulations.slow_blocks import TAU, log_bet

RESIDUAL = 0.6
EXPLAINED = math.sqrt(1.0 - RESIDUAL**2)
CENSUS = {"residual_std": RESIDUAL, "known_mean": {"x": 2.0, "y": -1.0}}


def problem_of(arms=("now", "a", "b"), groups=("x", "y"), **others):
    arguments = {"floors": None, "noise_std": 1.0, "prediction": {"residual_std": RESIDUAL}}
    return Problem(list(arms), groups, **{**arguments, **others})


class Units:
    """Units whose reward is their prediction plus noise; the last arm is better by `gap`."""

    def __init__(self, problem, seed, gap=0.3, lost=0.0, scale=1.0):
        self.problem, self.gap, self.lost, self.scale = problem, gap, lost, scale
        self.random = np.random.default_rng(seed)

    def arrive(self):
        group = str(self.random.choice(self.problem.groups))
        middle = 2.0 if group == "x" else -1.0
        prediction = middle + EXPLAINED * self.random.normal()
        return {"group": group, "prediction": self.scale * prediction}

    def reward(self, arm, prediction):
        better = self.gap * (arm == self.problem.arms[-1])
        return prediction + self.scale * (better + RESIDUAL * self.random.normal())


def follow(policy, units, pulls):
    """Let units arrive until the stop or this number of pulls; return what happened."""
    log = []
    while len(log) < pulls and not policy.stopped:
        unit = units.arrive()
        pull = policy.ask(**unit)
        log.append((pull, unit, units.reward(pull.arm, unit["prediction"])))
        if units.random.random() < units.lost:
            policy.fail(pull)
        else:
            policy.tell(pull, log[-1][2])
    return log


# --------------------------------------------------------- compared with slow mathematics


class Slow:
    """The wealth against two arms without limits, from rewards minus predictions alone."""

    def __init__(self, shares, std=RESIDUAL):
        self.shares, self.std = shares, std
        self.told = {}
        self.wealth = [0.0, 0.0]

    def gap(self, results):
        """Return the second arm's lead, and its variance."""
        lead = variance = 0.0
        for group, share in enumerate(self.shares):
            for arm, sign in ((1, 1.0), (0, -1.0)):
                own = results[arm, group]
                lead += sign * share * sum(own) / len(own)
                variance += share**2 * self.std**2 / len(own)
        return lead, variance

    def settle(self, results):
        """Pay the bet of a block, which was fixed before its results."""
        if self.told:
            lead, variance = self.gap(self.told)
            leader, sign = (1, 1.0) if lead > 0.0 else (0, -1.0)
            if lead**2 / variance >= TAU**2:
                found, inside = self.gap(results)
                deviation = math.sqrt(variance)
                paid = log_bet(sign * lead / deviation, variance / inside, sign * found / deviation)
                self.wealth[1 - leader] += paid
        for cell, own in results.items():
            self.told.setdefault(cell, []).extend(own)


@pytest.mark.parametrize("seed", range(3))
def test_bets_pay_what_the_mathematics_says(seed):
    problem = problem_of(("a", "b"), ("x",))
    policy, slow = BlockBetting(problem, delta=1e-6, seed=seed), Slow([1.0])
    units, waiting, settled = Units(problem, seed), {}, 0
    while policy.asked < 250:
        unit = units.arrive()
        pull = policy.ask(**unit)
        reward = units.reward(pull.arm, unit["prediction"])
        policy.tell(pull, reward)
        waiting.setdefault((pull.action, 0), []).append(reward - unit["prediction"])
        if len(policy._blocks.paid) > settled:
            slow.settle(waiting)
            waiting, settled = {}, settled + 1
            assert policy._wealth[:2] == pytest.approx(slow.wealth, rel=1e-9, abs=1e-9)
    assert settled > 5
    assert max(slow.wealth) > 0.5


def test_a_finished_experiment_pays_what_the_mathematics_says():
    shares = [0.3, 0.7]
    problem = problem_of(("a", "b"), dict(zip("xy", shares, strict=True)))
    actions = [0, 1, 2, 3] * 65
    policy, slow = BlockBetting(problem, delta=1e-6, assigned=actions), Slow(shares)
    waiting, settled, units = {}, 0, Units(problem, 1, gap=0.3)
    for number in range(250):
        prediction = units.arrive()["prediction"]
        pull = policy.ask(prediction=prediction)
        reward = units.reward(pull.arm, prediction)
        policy.tell(pull, reward)
        waiting.setdefault(divmod(pull.action, 2), []).append(reward - prediction)
        if number + 1 == policy._cuts.begin:
            slow.settle(waiting)
            waiting = {}
        elif number + 1 in policy._cuts.starts.values():
            slow.settle(waiting)
            waiting, settled = {}, settled + 1
            assert policy._wealth[:2] == pytest.approx(slow.wealth, rel=1e-9, abs=1e-9)
    assert settled > 5
    assert max(slow.wealth) > 0.5
    effect = policy.progress().effects[0]
    assert effect.lower < effect.difference < effect.upper


LIMITS = [
    {"floors": -0.2, "ceilings": 2.0},
    {"control": "now", "margin": 0.2},
    {"control": "now", "superiority": 0.05, "floors": {"now": -1.0, "a": -0.3, "b": None}},
    {"tolerance": 0.1},
    {"direction": "minimize", "floors": 1.0},
    {"floors": 0.0, "prediction": CENSUS},
]


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("end", [{}, {"max_pulls": 400, "planned_end": True}])
def test_bets_are_those_on_rewards_and_on_rewards_minus_predictions(limits, end):
    """Bets on measures with stated scales are compared with slow ones in their own tests."""
    problem = problem_of(**limits)
    measured = as_residuals(problem)
    policy, other = BlockBetting(problem, seed=1, **end), BlockBetting(measured, seed=1, **end)
    for pull, unit, reward in follow(policy, Units(problem, 1), 200):
        same = other.ask(group=unit["group"])
        assert (same.action, same.tag) == (pull.action, pull.tag)
        other.tell(same, {"reward": reward, "residual": reward - unit["prediction"]})
    assert other._wealth.tolist() == policy._wealth.tolist()
    assert np.abs(policy._wealth).max() > 0.5


@pytest.mark.parametrize("limits", LIMITS)
def test_the_effect_of_every_bet_is_that_of_true_means(limits):
    """Predictions drop out of differences, whatever their means are, and floors have none.

    So the effect of a bet is the same for all mean predictions of the groups.
    """
    problem = problem_of(**limits)
    policy = BlockBetting(problem, seed=2)
    follow(policy, Units(problem, 2), 150)
    state = policy._blocks.state
    slot = int(state.blocks.first[0]) % state.blocks.waiting.size
    known = problem.prediction.known_mean is not None
    bets = [b for b in range(state.bets.number[slot]) if state.bets.ledger[slot, b] >= 0]
    assert bets
    for bet in bets:
        weights = state.coefficients[slot, bet, :, :, 1]
        off = np.abs(weights.sum(axis=0)).max() / np.abs(state.coefficients[slot, bet]).max()
        assert known or off < 1e-9


def test_with_a_known_mean_a_floor_uses_predictions():
    plain, census = (
        as_residuals(problem)
        for problem in (problem_of(floors=0.5), problem_of(floors=0.5, prediction=CENSUS))
    )
    assert {row["measure"] for row in plain.floors} == {"reward"}
    bounds = {(row["measure"], row["group"]): row["bound"]["a"] for row in census.floors}
    # Less the mean predictions 2 and -1.
    assert bounds == {("residual", "x"): -1.5, ("residual", "y"): 1.5}


# ------------------------------------------------------------------------------ a policy


def pulls_of(problem, seeds):
    found = []
    for seed in seeds:
        policy, units = BlockBetting(problem, seed=seed), Units(problem, seed, gap=0.6)
        while not policy.stopped:
            unit = units.arrive()
            context = unit if problem.prediction else {"group": unit["group"]}
            pull = policy.ask(**context)
            middle = 2.0 if unit["group"] == "x" else -1.0
            reward = units.reward(pull.arm, unit["prediction"] - middle)
            policy.tell(pull, reward)
        assert policy.recommend().arm == "b"
        found.append(policy.asked)
    return np.mean(found)


@pytest.mark.parametrize("fails", [True, False], ids=["failed", "open"])
def test_an_arm_that_never_gives_a_result_is_not_waited_for_and_can_be_closed(fails):
    problem = problem_of(("now", "broken", "b"))
    policy, units = BlockBetting(problem, delta=0.05, seed=1), Units(problem, 3, gap=1.0)
    for _ in range(400):
        unit = units.arrive()
        pull = policy.ask(**unit)
        if pull.arm != "broken":
            policy.tell(pull, units.reward(pull.arm, unit["prediction"]))
        elif fails:
            policy.fail(pull)
    assert set(policy.recommend().candidates) == {"broken", "b"}
    assert any("no result of broken / x, broken / y" in said for said in policy.warnings())
    policy.close_arm("broken")
    assert (policy.recommend().arm, policy.recommend().confidence) == ("b", 0.95)
    assert policy.guarantee.proven


def test_predictions_save_about_the_variance_that_they_explain():
    """They explain .64: a third of the pulls remain; four runs of each, which vary by a third."""
    problem = problem_of()
    ratio = pulls_of(problem, range(4)) / pulls_of(problem.clone(prediction=None), range(4))
    assert ratio < 0.7


def test_means_are_those_of_the_rewards_as_told():
    problem = problem_of(floors=-2.0)
    policy, rewards = BlockBetting(problem, seed=3), {}
    for pull, _, reward in follow(policy, Units(problem, 3, gap=0.1), 120):
        rewards.setdefault((pull.arm, pull.group), []).append((pull, reward))
    settled = policy._settled_cells
    for one in policy.progress().actions:
        told = rewards[one.labels["arm"], one.labels["group"]]
        assert one.pulls == len(told)
        place = problem.arms.index(one.labels["arm"]), problem.groups.index(one.labels["group"])
        assert one.counted == settled.counts[place]
        assert one.lower < (2.0 if one.labels["group"] == "x" else -1.0) < one.upper
    counts, sums = policy._data
    assert counts.sum() == sum(map(len, rewards.values()))
    assert sums.sum() == pytest.approx(sum(y for own in rewards.values() for _, y in own))


def test_effects_are_narrower_by_what_predictions_explain():
    problem = problem_of(("now", "new"), ("x",), control="now", margin=0.01)
    policy, plain = (
        BlockBetting(problem, seed=1),
        BlockBetting(problem.clone(prediction=None), seed=1),
    )
    units = Units(problem, 1, gap=0.0)
    for _ in range(300):
        unit = units.arrive()
        for one, context in ((policy, unit), (plain, {"group": "x"})):
            pull = one.ask(**context)
            one.tell(pull, units.reward(pull.arm, unit["prediction"] - 2.0 * (one is plain)))
    effect, other = policy.progress().effects[0], plain.progress().effects[0]
    ratio = (effect.upper - effect.lower) / (other.upper - other.lower)
    # The scales of the noise are .6 and 1; the numbers of pulls in blocks differ a little.
    assert ratio == pytest.approx(RESIDUAL, abs=0.1)
    assert effect.lower < 0.0 < effect.upper
    found = policy.progress().predictions
    assert found.variance_left == pytest.approx(RESIDUAL**2)
    assert found.groups[0].r_squared == pytest.approx(1.0 - RESIDUAL**2, abs=0.1)
    assert found.groups[0].mean == pytest.approx(2.0, abs=0.2)
    assert found.groups[0].slope == 1.0


@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_a_restored_policy_continues_like_one_that_never_paused(lost):
    problem = problem_of(floors=-2.0)
    policy, units = BlockBetting(problem, 1e-9, seed=5), Units(problem, 5, lost=lost)
    follow(policy, units, 90)
    restored = BlockBetting(problem, 1e-9, seed=5)
    restored.set_state(policy.get_state())
    for _ in range(60):
        unit = units.arrive()
        pull, other = policy.ask(**unit), restored.ask(**unit)
        assert (pull, pull.tag) == (other, other.tag)
        reward = units.reward(pull.arm, unit["prediction"])
        policy.tell(pull, reward)
        restored.tell(other, reward)
    for name, array in policy.get_state().items():
        assert np.array_equal(array, restored.get_state()[name], equal_nan=name != "made_from")
    assert policy._blocks.test.e_value == restored._blocks.test.e_value != 1.0


def test_a_correction_gives_the_wealth_of_the_true_values():
    problem = problem_of(floors=-2.0)
    right, wrong = BlockBetting(problem, seed=2), BlockBetting(problem, seed=2)
    units, log = Units(problem, 2), []
    for _ in range(90):
        unit = units.arrive()
        pull = right.ask(**unit)
        assert wrong.ask(**unit) == pull
        log.append((pull, units.reward(pull.arm, unit["prediction"])))
    for place, (pull, reward) in enumerate(log):
        right.tell(pull, reward)
        wrong.tell(pull, reward + 1.0 if place == 80 else reward)
    pull, reward = log[80]
    wrong.amend(pull, reward + 1.0, reward)
    assert wrong._wealth == pytest.approx(right._wealth, rel=1e-9, abs=1e-9)
    assert wrong._data[1] == pytest.approx(right._data[1])


def test_lost_pulls_are_left_out_and_weaken_the_guarantee():
    problem = problem_of(("a", "b"), ("x",))
    policy = BlockBetting(problem, seed=4)
    follow(policy, Units(problem, 4, lost=0.1), 100)
    assert policy._blocks.lost > 3
    assert not policy.guarantee.proven
    assert any("lost" in doubt for doubt in policy.guarantee.doubts)


@pytest.mark.parametrize("scale", [1e-130, 1e-6, 1e9, 1e130])
def test_decisions_do_not_depend_on_units(scale):
    problem = problem_of(("a", "b"), ("x",))
    other = problem.clone(noise_std=scale, prediction={"residual_std": RESIDUAL * scale})
    first, second = BlockBetting(problem, seed=6), BlockBetting(other, seed=6)
    for pull, unit, reward in follow(first, Units(problem, 6), 80):
        assert second.ask(group="x", prediction=scale * unit["prediction"]) == pull
        second.tell(pull, scale * reward)
    assert second._wealth == pytest.approx(first._wealth, rel=1e-6, abs=1e-9)
    found = second.progress().predictions
    assert found.groups[0].r_squared == pytest.approx(1.0 - RESIDUAL**2, abs=0.2)
    assert found.e_value == pytest.approx(first.progress().predictions.e_value, rel=1e-6)


def test_equal_predictions_and_equal_results_decide_nothing():
    policy = BlockBetting(problem_of(("a", "b"), ("x",)), max_pulls=100, planned_end=True)
    while not policy.stopped:
        policy.tell(policy.ask(group="x", prediction=1.0), 2.0)
    assert policy.recommend().status == "undecided"
    assert np.isfinite(policy._wealth[:2]).all()
    assert policy.progress().predictions.groups[0].r_squared == 0.0
    assert policy.progress().predictions.e_value == 1.0


def test_a_reward_without_a_pull_informs_plans_only():
    policy = BlockBetting(problem_of(("a", "b"), ("x",)), seed=1)
    follow(policy, Units(policy.problem, 1), 30)
    before = policy._wealth.tolist()
    policy.tell(policy.problem.pull(arm="a", group="x"), 2.0)
    assert policy._wealth.tolist() == before
    assert policy._data[0].sum() == 31


def test_rewards_minus_predictions_that_spread_too_widely_are_warned_of():
    problem = problem_of(("a", "b"), ("x",), prediction={"residual_std": 0.3})
    policy = BlockBetting(problem, delta=1e-9, seed=1)
    assert policy.guarantee.proven
    follow(policy, Units(problem, 1, gap=0.0), 200)
    assert any("residual_std" in warning for warning in policy.warnings())
    assert not policy.guarantee.proven


def test_predictions_that_depend_on_the_arm_are_warned_of():
    problem = problem_of(("now", "new"), ("x",))
    policy, units = BlockBetting(problem, delta=1e-9, seed=3), Units(problem, 3, gap=0.0)
    while policy.asked < 500 and not policy._blocks.depend_on_arm:
        unit = units.arrive()
        # Somebody who knows the next arm lets other units come.
        peek = BlockBetting(problem, delta=1e-9, seed=3)
        peek.set_state(policy.get_state())
        if peek.ask(**unit).arm == "new":
            unit["prediction"] -= 0.8
        pull = policy.ask(**unit)
        policy.tell(pull, units.reward(pull.arm, unit["prediction"]))
    assert any("before the arm" in warning for warning in policy.warnings())
    assert not policy.guarantee.proven
    restored = BlockBetting(problem, delta=1e-9, seed=3)
    restored.set_state(policy.get_state())
    assert restored.warnings() == policy.warnings()


def test_the_guarantee_names_what_is_stated():
    assumed = BlockBetting(problem_of(prediction=CENSUS)).guarantee.assumptions
    for words in ("residual_std", "before the arm", "known_mean"):
        assert any(words in one for one in assumed)


def test_a_study_records_predictions_and_replays_them(tmp_path):
    problem = problem_of(floors=-2.0)
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study = ft.Study.create(problem, BlockBetting(problem), storage=storage, name="s", seed=1)
    units = Units(problem, 1)
    for _ in range(60):
        unit = units.arrive()
        pull = study.ask(**unit)
        study.tell(pull, units.reward(pull.arm, unit["prediction"]))
    study.verify()
    before = study.progress()
    assert ft.Study.open(storage=storage, name="s").progress() == before


def test_a_table_is_analysed_with_its_predictions():
    problem = problem_of(("now", "new"), ("x", "y"))
    units, random = Units(problem, 1, gap=0.5), np.random.default_rng(2)
    table = {"arm": [], "group": [], "score": [], "outcome": []}
    for _ in range(400):
        unit, arm = units.arrive(), str(random.choice(problem.arms))
        row = arm, unit["group"], unit["prediction"], units.reward(arm, unit["prediction"])
        for name, value in zip(table, row, strict=True):
            table[name].append(value)
    with ft.analyse(problem, table, order="as given", prediction="score") as study:
        assert study.recommend().arm == "new"
        assert study.progress().predictions.groups[0].r_squared == pytest.approx(0.64, abs=0.15)
    with raises(InvalidArgument) as error:
        ft.analyse(problem, table, order="as given", features=["score"])
    assert error.value.name == "features"


# ------------------------------------------------------------------------- bad statements


@pytest.mark.parametrize(
    ("prediction", "name"),
    [
        ((0, 1), "prediction"),
        ({"range": (0, 1), "known_mean": {"x": 0.5}}, "prediction"),
        ({"residual_std": 0.5, "range": (0, 1)}, "prediction"),
        ({"residual_std": 0.5, "fit": True}, "prediction"),
        ({"residual_std": 0.5, "missing": "mean"}, "prediction"),
        ({"residual_std": 0.0}, "prediction.residual_std"),
        ({"residual_std": math.nan}, "prediction.residual_std"),
        ({"residual_std": "0.5"}, "prediction.residual_std"),
        ({"residual_std": True}, "prediction.residual_std"),
        ({"residual_std": 1.0}, "prediction.residual_std"),
        ({"residual_std": 0.5, "known_mean": {"z": 0.5}}, "prediction.known_mean"),
        ({"residual_std": 0.5, "known_mean": {"x": math.inf}}, "prediction.known_mean"),
    ],
)
def test_a_statement_that_makes_no_sense_is_refused(prediction, name):
    with raises(InvalidArgument) as error:
        problem_of(prediction=prediction)
    assert error.value.name == name


@pytest.mark.parametrize(
    ("noise", "name"),
    [
        ({"noise_std": None, "reward_range": (0, 1)}, "prediction.residual_std"),
        ({"noise_std": "estimated"}, "noise_std"),
    ],
)
def test_a_residual_scale_needs_a_known_noise(noise, name):
    with raises(InvalidArgument) as error:
        problem_of(**noise)
    assert error.value.name == name


@pytest.mark.parametrize("given", [None, math.nan, math.inf, "0.5", True, 1e150])
def test_without_a_number_as_prediction_nothing_is_issued(given):
    policy = BlockBetting(problem_of())
    with raises(InvalidArgument) as error:
        policy.ask(group="x", prediction=given)
    assert error.value.name == "prediction"
    assert policy.asked == 0


def test_end_bets_for_normal_noise_take_no_predictions():
    with raises(NotSupported):
        BlockBetting(problem_of(), max_pulls=400, planned_end=True, noise="normal")


def test_a_statement_is_written_as_it_was_given():
    problem = problem_of()
    assert problem.to_dict()["prediction"] == {"residual_std": RESIDUAL}
    assert Problem.from_dict(problem.to_dict()) == problem
    problem = problem_of(prediction=CENSUS)
    assert Problem.from_dict(problem.to_dict()) == problem


# ----------------------------------------------------------------------- simulated units


@pytest.mark.parametrize("prediction", [{"residual_std": RESIDUAL}, CENSUS])
def test_simulated_units_have_the_stated_means_and_scales(prediction):
    """4,000 units of each group; standard errors are below .04."""
    problem = problem_of(noise_std=[[1.0, 2.0], [1.5, 2.0]], arms=("a", "b"), prediction=prediction)
    environment = GaussianPredictedEnvironment(problem, [[0.5, 1.0], [0.8, 1.0]])
    random = np.random.default_rng(1)
    run, found = environment.begin(random), {}
    for number in range(8_000):
        unit = run.context(random)
        arm = problem.arms[number % 2]
        reward = run.sample(problem.pull(arm=arm, group=unit["group"]), random)
        found.setdefault((arm, unit["group"]), []).append((unit["prediction"], reward))
    for (arm, group), rows in found.items():
        known, rewards = np.array(rows).T
        place = problem.arms.index(arm), problem.groups.index(group)
        assert rewards.mean() == pytest.approx(environment.means[place], abs=0.2)
        assert rewards.std() == pytest.approx({"x": 1.0, "y": 2.0}[group], abs=0.15)
        assert (rewards - known).std() == pytest.approx(RESIDUAL, abs=0.05)
        middle = (problem.prediction.known_mean or {"x": 0.65, "y": 1.0})[group]
        assert known.mean() == pytest.approx(middle, abs=0.2)
    assert environment.clone(means=environment.means[::-1]).truth.best == "a"


def test_simulations_use_them():
    problem = problem_of(floors=None)
    environment = GaussianPredictedEnvironment(problem, [[0, 0], [0, 0], [1, 1]])
    result = ft.simulate(BlockBetting(problem), environment, 2, seed=1, progress=False)
    assert result.error_rate == 0.0


def test_a_file_needs_only_the_means():
    problem, mistakes = problem_of(), Mistakes("plan", [])
    found = FAMILY.environment(problem, {"means": [[0, 0], [0, 0], [1, 1]]}, mistakes)
    assert not mistakes
    assert isinstance(found, GaussianPredictedEnvironment)


@pytest.mark.parametrize("given", [{"r_squared": 0.5}, {"std": 1.0}, {"noise": "bernoulli"}])
def test_a_file_that_states_more_is_refused(given):
    mistakes = Mistakes("plan", [])
    FAMILY.environment(problem_of(), {"means": [[0, 0], [0, 0], [1, 1]], **given}, mistakes)
    assert mistakes


def test_an_environment_of_another_kind_is_refused():
    with raises(InvalidArgument):
        GaussianPredictedEnvironment(problem_of(prediction=None), [[0, 0], [0, 0], [1, 1]])
    with raises(InvalidArgument):
        PredictedEnvironment(problem_of(), [[0, 0], [0, 0], [1, 1]])


# ------------------------------------------------------------- the promise, by simulation

DELTA = 0.1
MARGIN = {"control": "0", "margin": 0.25}
RUNS = effort.runs(3, whole=2_000)


def two_arms(**limits):
    return Problem(2, 2, noise_std=1.0, prediction={"residual_std": RESIDUAL}, **limits)


HARDEST = {
    "two arms tied": (two_arms(floors=None), [[0.0, 0.5], [0.0, 0.5]], 0),
    "answer on its margin": (two_arms(**MARGIN), [[0.0, 0.0], [-0.25, 0.8]], 1),
    "rival beyond its margin": (two_arms(**MARGIN), [[0.0, 0.0], [-0.25 - 1e-6, 0.8]], 0),
    "answer on a floor": (two_arms(floors=0.0), [[0.0, 0.5], [0.1, 0.1]], 0),
    "rival below a floor": (two_arms(floors=0.0), [[-1e-6, 0.5], [0.1, 0.1]], 1),
}
CORRELATIONS = {
    "normal": RESIDUAL,
    "the prediction is worse than stated": 0.2,
    "the prediction moves against the noise": 1.0,
}
"""The correlation of a reward with the reward minus its prediction; scales are as stated."""


@pytest.mark.statistical
@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("law", CORRELATIONS)
@pytest.mark.parametrize("name", HARDEST)
def test_the_right_answer_is_seldom_ruled_out(name, law, end, record_property):
    problem, means, truth = HARDEST[name]
    measured = as_residuals(problem)
    both = CORRELATIONS[law] * RESIDUAL
    cov = [[1.0, both], [both, RESIDUAL**2]]
    means = {"reward": means, "residual": means}
    environment, pulls = GaussianEnvironment(measured, means, cov=cov), 150 if RUNS < 10 else 600
    ruled_out = 0
    for seed in range(RUNS):
        policy = BlockBetting(measured, DELTA, max_pulls=pulls, planned_end=end, seed=0)
        policy.compiled_run(environment, np.random.default_rng([9, seed]), None)
        ruled_out += bool(policy._blocks.state.book.rejected[truth])
    record_property("ruled out", ruled_out / RUNS)
    assert ruled_out / RUNS <= effort.tolerated(DELTA, RUNS)
