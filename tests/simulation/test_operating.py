"""Operating characteristics, compared with their runs and with further simulations."""

import csv
import io
import json
import math

import numpy as np
import pytest
from scipy import stats

from fairtrial import delayed, linear, subpopulations
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.simulation import (
    Proportion,
    Scenario,
    default_scenarios,
    example_runs,
    operating,
    operating_characteristics,
    simulate,
)
from fairtrial.subpopulations.fixed_design import fixed_design
from tests.core.toys import GaussianEnvironment, LeadRace, ToyProblem
from tests.messages import raises

PROBLEM = subpopulations.Problem(["a", "b"], {"x": 0.25, "y": 0.75}, floors=0.0, noise_std=1.0)
ASSUMED = subpopulations.GaussianEnvironment(PROBLEM, [[0.5, 0.5], [1.5, 1.5]])
POLICY = subpopulations.BlockBetting(PROBLEM, delta=0.2)
SCENARIOS = default_scenarios(ASSUMED)


@pytest.fixture(scope="module")
def found():
    return operating_characteristics(
        POLICY, SCENARIOS, [200, 40], replications=60, seed=3, pulls_per_day=10, progress=False
    )


def counted(monkeypatch):
    """Return a list that grows with every simulation."""
    calls = []

    def run(*arguments, **options):
        calls.append(options["horizon"])
        return simulate(*arguments, **options)

    monkeypatch.setattr(operating, "simulate", run)
    return calls


def test_kept_runs_give_the_same_results_and_are_not_made_again(tmp_path, monkeypatch):
    made = counted(monkeypatch)
    given = {"replications": 20, "pulls_per_day": 2, "delay_days": 3, "progress": False}
    found = [
        operating_characteristics(POLICY, SCENARIOS, 60, **given, keep=keep).to_dict()
        for keep in (None, tmp_path / "kept", tmp_path / "kept")
    ]
    assert found[0] == found[1] == found[2]
    assert len(made) == 2 * len(SCENARIOS)


@pytest.mark.parametrize(
    "change",
    [{"seed": 4}, {"replications": 11}, {"max_pulls": 41}, {"parallel": 2},
     {"policy": POLICY.clone(delta=0.3)},
     {"scenarios": [Scenario("full", ASSUMED.clone(means=[[0.5, 0.5], [1.5, 1.25]]))]}],
)  # fmt: skip
def test_runs_are_made_again_if_anything_differs(tmp_path, monkeypatch, change):
    given = {"policy": POLICY, "scenarios": SCENARIOS[2:3], "max_pulls": 40, "replications": 10}
    options = {"progress": False, "keep": tmp_path}
    operating_characteristics(**given, **options)
    made = counted(monkeypatch)
    operating_characteristics(**given, **options)
    assert made == []
    operating_characteristics(**given | change, **options)
    assert len(made) == 1


def with_another_field(file):
    with np.load(file) as kept:
        arrays = {name: kept[name] for name in kept.files}
    np.savez(file, **arrays, unknown=np.zeros(1))


@pytest.mark.parametrize(
    "spoil",
    [with_another_field, lambda file: file.write_bytes(file.read_bytes()[:200])],
    ids=["with another field", "cut"],
)
def test_kept_runs_that_cannot_be_read_are_made_again(tmp_path, monkeypatch, spoil):
    given = POLICY, SCENARIOS[2:3], 40, 10
    before = operating_characteristics(*given, progress=False, keep=tmp_path).to_dict()
    spoil(next(tmp_path.iterdir()))
    made = counted(monkeypatch)
    assert operating_characteristics(*given, progress=False, keep=tmp_path).to_dict() == before
    assert len(made) == 1


def test_an_environment_that_cannot_be_written_down_is_simulated_every_time(tmp_path, monkeypatch):
    class Own(type(ASSUMED)):
        def get_params(self):
            return {**super().get_params(), "function": len}

    own = Scenario("own", Own(PROBLEM, [[0.5, 0.5], [1.5, 1.5]]))
    made = counted(monkeypatch)
    for _ in range(2):
        operating_characteristics(POLICY, [own], 40, 5, progress=False, keep=tmp_path)
    assert len(made) == 2
    assert not list(tmp_path.iterdir())


def test_a_planned_end_is_that_of_each_number_of_pulls():
    policy = POLICY.clone(max_pulls=500, planned_end=True)
    budgets = [60, 120]
    found = operating_characteristics(
        policy, SCENARIOS[-1:], budgets, replications=30, seed=3, progress=False
    )
    for most, row in zip(budgets, found, strict=True):
        aimed = policy.clone(max_pulls=most)
        runs = simulate(aimed, SCENARIOS[-1].environment, 30, seed=3, progress=False)
        assert row.right.count == (runs.decided & ~runs.wrong).sum()


def test_there_is_a_row_for_each_scenario_and_number_of_pulls(found):
    assert [(row.scenario.name, row.max_pulls) for row in found] == [
        (scenario.name, number) for scenario in SCENARIOS for number in (40, 200)
    ]
    assert found.row("full") is found.row("full", 200)
    assert found.row("full", 40).simulation.stopping_time.max() <= 40


def test_the_difference_from_the_control_is_judged_by_the_true_difference():
    controlled = ASSUMED.problem.clone(control="a")
    policy = POLICY.clone(problem=controlled)
    scenario = Scenario("full", ASSUMED.clone(problem=controlled))
    row = operating_characteristics(
        policy, [scenario], [200], replications=60, seed=3, progress=False
    ).row("full")
    again = row.simulation
    named = [i for i, answer in enumerate(again.answer) if answer == "b"]
    off = again.difference[named] - 1.0
    assert row.effect_bias == pytest.approx(off.mean())
    assert row.effect_rmse == pytest.approx(np.sqrt(np.mean(off**2)))
    others = [i for i, answer in enumerate(again.answer) if answer != "b"]
    assert np.isnan(again.difference[others]).all()


@pytest.mark.parametrize("family", ["linear", "delayed"])
def test_the_difference_is_known_after_compiled_runs_of_every_family_that_has_a_control(family):
    if family == "linear":
        features = [[1.0, 0.0], [1.0, 2.0]]
        problem = linear.Problem(features, arms=["a", "b"], noise_std=1.0, control="a")
        environment = linear.GaussianEnvironment(problem, theta=[0.0, 0.5])
        policy = linear.BlockBetting(problem, delta=0.2)
    else:
        problem = delayed.Problem(["a", "b"], noise_std=1.0, control="a")
        environment = delayed.SimulatedEnvironment(problem, [0.0, 1.0])
        policy = delayed.BlockBetting(problem, delta=0.2)
    found = operating_characteristics(
        policy, [Scenario("full", environment)], [200], replications=40, seed=3, progress=False
    ).row("full")
    seen = found.simulation.difference
    seen = seen[~np.isnan(seen)]
    assert len(seen) > 20
    assert abs(seen.mean() - 1.0) < 0.5
    assert found.effect_bias == pytest.approx((seen - 1.0).mean())


def test_without_a_control_nothing_is_said_of_differences(found):
    row = found.row("full")
    assert (row.effect_bias, row.effect_rmse) == (None, None)
    assert row.to_dict()["effect_bias"] is None


def test_a_row_says_what_a_simulation_with_the_same_seed_does(found):
    row = found.row("full")
    again = simulate(POLICY, ASSUMED, 60, seed=3, horizon=200, estimates=True, progress=False)
    assert row.right.count == int(again.correct.sum()) > 0
    assert row.wrong.count == int(again.wrong.sum())
    assert row.undecided.count == int((~again.decided).sum())
    assert row.pulls.mean == again.stopping_time.mean()
    assert row.pulls.quantiles[0.95] == np.quantile(again.stopping_time, 0.95)
    assert row.days.mean == pytest.approx(row.pulls.mean / 10)
    assert list(row.by_action.values()) == again.pulls.mean(axis=0).tolist()
    assert sum(row.by_action.values()) == pytest.approx(row.pulls.mean)
    assert row.worse_share == pytest.approx(again.pulls[:, :2].sum() / again.pulls.sum())
    quality = {"a": 0.5, "b": 1.5}
    named = again.decided & np.array([answer is not None for answer in again.answer])
    off = [again.estimate[i] - quality[again.answer[i]] for i in np.flatnonzero(named)]
    assert row.estimated == len(off)
    assert row.bias == pytest.approx(np.mean(off))
    assert row.rmse == pytest.approx(np.sqrt(np.mean(np.square(off))))
    held = [
        again.interval[i, 0] <= quality[again.answer[i]] <= again.interval[i, 1]
        for i in np.flatnonzero(named)
    ]
    assert (row.coverage.count, row.coverage.runs) == (sum(held), len(held))
    assert row.coverage.rate > 0.8
    assert (again.interval[named, 0] < again.estimate[named]).all()
    assert np.isnan(again.interval[~named]).all()


def test_every_run_is_right_or_wrong_or_undecided(found):
    for row in found:
        right = 0 if row.right is None else row.right.count
        assert right + row.wrong.count + row.undecided.count == 60
        named = sum(proportion.count for proportion in row.answers.values())
        assert named + row.undecided.count == 60
    assert list(found[0].answers) == ["a", "b", "no arm"]


def test_whoever_names_one_of_equal_arms_is_wrong_and_there_is_no_power(found):
    row = found.row("null")
    assert row.right is None
    assert row.wrong.count == sum(row.answers[arm].count for arm in "ab") > 0
    assert row.right_answer == "none: a, b are equal"


def test_no_arm_is_right_where_none_is_acceptable_and_no_pull_is_then_on_a_good_one(found):
    row = found.row("none acceptable")
    assert row.right_answer == "no arm"
    assert row.right.count == row.answers["no arm"].count > 0
    assert row.worse_share == 1.0


def test_runs_that_were_cut_off_are_not_held_against_the_bound(found):
    assert found.row("full", 40).undecided.count > 0
    assert found.row("full", 40).lower_bound is None
    assert found.row("null").lower_bound is None
    free = operating_characteristics(POLICY, SCENARIOS[2:3], 5000, 20, progress=False)
    assert free[0].undecided.count == 0
    bound = subpopulations.complexity(ASSUMED).lower_bound(0.2)
    assert free[0].lower_bound == pytest.approx(bound)


@pytest.mark.parametrize(("count", "runs"), [(0, 7), (7, 7), (3, 50)])
def test_intervals_are_those_of_clopper_and_pearson(count, runs):
    found = Proportion.of(count, runs, 0.9)
    exact = stats.binomtest(count, runs).proportion_ci(0.9, method="exact")
    assert (found.lower, found.upper) == pytest.approx((exact.low, exact.high))
    assert found.rate == count / runs


def test_the_table_the_file_and_the_document_say_the_same(found):
    frame = found.to_frame()
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    document = json.loads(json.dumps(found.to_dict()))
    assert len(frame) == len(rows) == len(document["rows"]) == len(found)
    for line, row, entry in zip(frame.to_dict("records"), rows, document["rows"], strict=True):
        assert line["scenario"] == row["scenario"] == entry["scenario"]
        assert line["wrong"] == float(row["wrong"]) == entry["wrong"]["rate"]
        assert line["wrong upper"] == float(row["wrong upper"]) == entry["wrong"]["upper"]
        power = math.nan if row["right"] == "" else float(row["right"])
        assert line["right"] == pytest.approx(power, nan_ok=True)
        assert entry["right"] is None or entry["right"]["rate"] == power
        assert line["pulls 95 %"] == float(row["pulls 95 %"]) == entry["pulls"]["quantile_0.95"]
    assert document["monte_carlo_error"] == pytest.approx(0.5 / math.sqrt(60))


def test_a_name_is_no_formula_to_a_spreadsheet():
    scenario = Scenario("=1+1", ASSUMED)
    text = operating_characteristics(POLICY, [scenario], 40, 2, progress=False).to_csv()
    assert "\n'=1+1," in text


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"scenarios": []}, "scenarios"),
        ({"scenarios": [ASSUMED]}, "scenarios"),
        ({"scenarios": [SCENARIOS[0]] * 2}, "scenarios"),
        ({"max_pulls": []}, "max_pulls"),
        ({"max_pulls": [100, 0]}, "max_pulls"),
        ({"max_pulls": "many"}, "max_pulls"),
        ({"max_pulls": 2.5}, "max_pulls"),
        ({"replications": 0}, "replications"),
        ({"pulls_per_day": 0}, "pulls_per_day"),
        ({"pulls_per_day": math.inf}, "pulls_per_day"),
        ({"level": 1.0}, "level"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(changes, name, monkeypatch):
    def no_run(*arguments, **options):
        raise AssertionError

    monkeypatch.setattr("fairtrial.simulation.operating.simulate", no_run)
    given = {"scenarios": SCENARIOS, "max_pulls": 10, **changes}
    with raises(InvalidArgument, name):
        operating_characteristics(POLICY, **given)


def test_a_scenario_of_another_problem_is_refused():
    other = subpopulations.Problem(["a", "b"], 2, noise_std=1.0)
    scenario = Scenario("x", subpopulations.GaussianEnvironment(other, [[0, 0], [1, 1]]))
    with raises(InvalidArgument, "environment"):
        operating_characteristics(POLICY, [scenario], 10)


@pytest.mark.parametrize("name", ["", " ", "x" * 101, 7])
def test_a_scenario_needs_a_name(name):
    with raises(InvalidArgument, "name", given=name):
        Scenario(name, ASSUMED)


def test_linear_arms_and_late_results_have_characteristics_too():
    arms = linear.Problem([[1, 0], [1, 1]], arms=["old", "new"], noise_std=1.0)
    scenarios = default_scenarios(linear.GaussianEnvironment(arms, [0.0, 2.0]))
    found = operating_characteristics(linear.BlockBetting(arms), scenarios, 500, 20, progress=False)
    full = found.row("full")
    assert full.right.count == 20
    assert full.lower_bound == pytest.approx(2 * stats.entropy([0.05, 0.95], [0.95, 0.05]))
    assert abs(full.bias) < 1.0
    race = delayed.Problem(["old", "new"], noise_std=1.0)
    late = delayed.SimulatedEnvironment(race, [0.0, 2.0], delay=5.0)
    policy = delayed.InformationRacing(race, delta=0.05)
    found = operating_characteristics(policy, default_scenarios(late), 500, 20, progress=False)
    assert found.row("full").right.rate > 0.8
    assert list(found.row("full").answers) == ["old", "new"]
    assert abs(found.row("full").bias) < 1.0
    with raises(InvalidArgument, "pulls_per_day"):
        operating_characteristics(policy, default_scenarios(late), 10, pulls_per_day=3)


def test_a_policy_of_ones_own_has_characteristics_without_a_family():
    problem = ToyProblem(["a", "b", "c"])
    environment = GaussianEnvironment(problem, [0.0, 1.0, 2.0])
    with raises(NotSupported):
        default_scenarios(environment)
    scenario = Scenario("mine", environment, "as I think")
    found = operating_characteristics(LeadRace(problem), [scenario], 300, 10, progress=False)
    assert found[0].right.count + found[0].wrong.count + found[0].undecided.count == 10
    assert found[0].lower_bound is None


def test_a_design_of_fixed_size_stands_beside_what_the_policy_needs(found):
    row = found.row("full")
    usual = fixed_design(ASSUMED)
    assert row.fixed_sample == {power: usual.size(0.2, power) for power in (0.8, 0.9)}
    times = row.simulation.stopping_time[row.simulation.correct]
    needed = row.pulls_for(0.8)
    assert (times <= needed).sum() >= 48 > (times < needed).sum()
    assert found.row("full", 40).pulls_for(0.8) is None
    null = found.row("null")
    assert (null.fixed_sample, null.pulls_for(0.8)) == ({}, None)


def test_runs_that_are_drawn_in_blocks_are_no_examples():
    policy = POLICY.clone(block_draws=True)
    scenario = Scenario("assumed", ASSUMED, "as assumed")
    row = operating_characteristics(policy, [scenario], 300, 4, progress=False)[0]
    assert row.simulation.metrics["block_draws"].tolist() == [1.0] * 4
    assert example_runs(policy, row) == []


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"policy": None}, "policy"), ({"row": "full"}, "row"), ({"points": 1}, "points")],
)
def test_examples_of_nothing_are_refused(found, changes, name):
    with raises(InvalidArgument, name):
        example_runs(**{"policy": POLICY, "row": found.row("full"), **changes})
