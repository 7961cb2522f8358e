"""`fairtrial plan` and `fairtrial simulate`."""

import math
import re
from pathlib import Path

import pytest

from fairtrial import delayed, linear, subpopulations
from fairtrial.cli import ExitCode
from fairtrial.cli.config import load_configuration
from fairtrial.cli.planning import complexity_in, range_warning
from tests.cli.configurations import replayed, write, write_table
from tests.messages import warns

# The example of the function `complexity`: T* = 190.884 by an independent solver.
EXAMPLE = {
    "problem": {
        "family": "subpopulations",
        "arms": 3,
        "groups": {"x": 0.2, "y": 0.3, "z": 0.5},
        "noise_std": 1.0,
    },
    "source": {
        "kind": "simulate",
        "means": [[0.2, 0.6, 0.8], [0.4, 0.4, 0.3], [-0.2, 1.0, 1.5]],
    },
    "plan": {"replications": 20},
}


def kl(delta):
    return (1 - 2 * delta) * math.log((1 - delta) / delta)


def test_a_plan_gives_the_bound_the_optimal_allocation_and_simulated_runs(folder, document):
    found, result = document("plan", write(folder, replayed(**EXAMPLE)))
    assert result.exit_code == ExitCode.OK
    first, second, *_ = result.stderr.splitlines()
    assert first == "Computing the lower bound for all rules ..."
    assert second == "Simulating 20 runs of BlockBetting ..."
    assert found["answer"] == "0"
    assert found["complexity"] == pytest.approx(190.884, rel=1e-5)
    assert found["complexity_lower"] <= found["complexity"] <= found["complexity_upper"]
    assert found["lower_bound"] == pytest.approx(190.884 * kl(0.05), rel=1e-5)
    assert sum(cell["share"] for cell in found["allocation"]) == pytest.approx(1.0)
    assert [cell["group"] for cell in found["allocation"][:3]] == ["x", "y", "z"]
    simulated = found["simulated"]
    assert simulated["replications"] == 20
    assert simulated["stopping_time"]["mean"] > found["lower_bound"]
    assert simulated["lower_bound"] == found["lower_bound"]


def test_a_plan_is_made_for_the_delta_asked_for(folder, document):
    path = write(folder, replayed(**EXAMPLE, policy={"delta": 0.01}))
    plans = {
        0.01: document("plan", path)[0],
        0.2: document("plan", path, "--delta", 0.2)[0],
    }
    for delta, found in plans.items():
        assert found["delta"] == delta
        assert found["lower_bound"] == pytest.approx(190.884 * kl(delta), rel=1e-5)
    means = [found["simulated"]["stopping_time"]["mean"] for found in plans.values()]
    assert means[0] > means[1]


def test_the_plans_own_delta_means_and_spread_come_before_the_files(folder, document):
    plan = {"means": {"a": [0.2, 0.2], "b": [0.5, 0.5]}, "std": 0.4, "delta": 0.1}
    found, _ = document("plan", write(folder, replayed(plan={**plan, "replications": 10})))
    assert (found["answer"], found["delta"]) == ("b", 0.1)


def test_the_text_of_a_plan_says_the_same(folder, invoke):
    result = invoke("plan", write(folder, replayed(**EXAMPLE)))
    assert result.exit_code == ExitCode.OK
    for part in (
        "Difficulty",
        "190.88",
        "Lower bound",
        "20 runs of BlockBetting",
        "Optimal allocation",
    ):
        assert part in result.stdout


TIE = {
    "source": {"kind": "simulate", "means": [[0.5, 0.5], [0.5, 0.5]]},
    "policy": {"name": "BlockBetting", "delta": 0.45},
}


def test_a_tie_is_said_to_take_for_ever_and_is_simulated_up_to_a_cap(folder, invoke, document):
    path = write(folder, replayed(plan={"replications": 3}, **TIE))
    found, result = document("plan", path)
    assert result.exit_code == ExitCode.OK
    assert (found["complexity"], found["lower_bound"], found["allocation"]) == (None, None, None)
    assert (found["assumes"], found["tied"]) == (None, True)
    assert found["reason"] == "the arms 'a' and 'b' tie for best"
    ends = f"{found['reason']}: each run ends after 10,000 pulls, unless it decides"
    assert ends in result.stderr
    simulated = found["simulated"]
    assert simulated["wrong"] + simulated["undecided"] == simulated["replications"] == 3
    text = invoke("plan", path).stdout
    assert f"no number is enough to be sure: {found['reason']}" in text
    alone, _ = document("simulate", path, "--seed", 7)
    assert (alone["horizon"], alone["answers"]) == (10_000, simulated["answers"])


def test_who_names_a_winner_among_equal_arms_is_wrong(folder, invoke, document):
    path = write(folder, replayed(plan={"max_pulls": 300, "replications": 30}, **TIE))
    found, _ = document("plan", path)
    assert (found["right"], found["tied"]) == (["a", "b"], True)
    simulated = found["simulated"]
    assert 0 < simulated["wrong"] == sum(simulated["answers"].values())
    assert simulated["wrong"] + simulated["undecided"] == 30
    for command in ("plan", "simulate"):
        text = invoke(command, path).stdout
        assert "right answers  none to name: a, b are equally good\n" in text
        assert re.search(r"  wrong          [1-9]\d* of 30: ", text)
        assert re.search(r"  answers        [ab] \d", text)
        assert "lower bound" not in text
    text = invoke("plan", path).stdout
    assert "Answer      none: a, b are equally good; naming one of them counts as wrong" in text


def test_equal_arms_are_right_answers_where_a_tolerance_says_so(folder, document):
    problem = {
        **{key: value for key, value in EXAMPLE["problem"].items() if key != "noise_std"},
        "arms": ["a", "b"],
        "groups": ["x"],
        "floors": -math.inf,
        "noise_std": 1.0,
        "tolerance": 1.0,
    }
    source = {"kind": "simulate", "means": [[0.5], [0.5]]}
    sections = {"problem": problem, "source": source, "policy": {"name": "BalancedTracking"}}
    found, _ = document("plan", write(folder, replayed(plan={"replications": 5}, **sections)))
    assert (found["tied"], found["right"]) == (False, ["a", "b"])
    assert (found["simulated"]["wrong"], found["simulated"]["undecided"]) == (0, 0)


def test_a_policy_with_a_cap_of_its_own_is_simulated_on_a_tie(folder, document):
    policy = {**TIE["policy"], "max_pulls": 50}
    path = write(folder, replayed(**{**TIE, "policy": policy, "plan": {"replications": 3}}))
    assert document("plan", path)[0]["simulated"]["replications"] == 3
    assert document("simulate", path)[0]["replications"] == 3


def test_runs_that_a_cap_ends_are_not_held_against_the_bound(folder, document, invoke):
    path = write(folder, replayed(**{**EXAMPLE, "plan": {"max_pulls": 60, "replications": 5}}))
    found, _ = document("plan", path)
    assert found["lower_bound"] > 60
    assert found["simulated"]["ratio"] is None
    assert "not comparable: 5 runs ended undecided" in invoke("plan", path).stdout


def test_a_plan_that_cannot_be_made_is_a_mistake(folder, document):
    found, result = document("plan", write(folder, replayed(source=None)))
    assert result.exit_code == ExitCode.USAGE
    assert found["error"]["mistakes"][0].startswith("plan.means: is required")


def test_simulations_repeat_themselves_by_their_seed(folder, document):
    path = write(folder, replayed(**EXAMPLE))
    first, again, other = (
        document("simulate", path, "--replications", 15, "--seed", seed)[0] for seed in (1, 1, 2)
    )
    assert first == again
    assert first["stopping_time"] != other["stopping_time"]
    assert (first["replications"], first["seed"], first["wrong"]) == (15, 1, 0)


def test_simulated_runs_end_at_the_plans_cap(folder, document, invoke):
    path = write(folder, replayed(plan={"max_pulls": 20, "replications": 4}))
    found, result = document("simulate", path)
    assert result.exit_code == ExitCode.OK
    assert (found["horizon"], found["undecided"]) == (20, 4)
    assert "4 runs of BlockBetting" in invoke("simulate", path).stdout


LINEAR = """
[study]
name = "mixtures"
[problem]
family = "linear"
arms = ["a", "b", "ab"]
features = [[1, 0], [0, 1], [0.7, 0.7]]
noise_std = 1.0
[plan]
theta = [1.0, 0.1]
replications = 5
"""


def test_linear_arms_are_planned_around_their_parameter(folder, document):
    (folder / "mix.toml").write_text(LINEAR)
    made, _ = document("plan", "mix.toml")
    assert made["answer"] == "a"
    assert made["complexity"] == pytest.approx(37.8072, rel=1e-4)
    assert made["simulated"]["replications"] == 5


@pytest.mark.parametrize(
    ("more", "rules"),
    [
        ("", "whatever the rule\n"),
        ("tolerance = 0.1\n", "whatever the rule, if it gives this answer\n"),
    ],
    ids=["best", "within tolerance"],
)
def test_a_plan_says_which_rules_its_bound_holds_for(folder, invoke, more, rules):
    (folder / "mix.toml").write_text(LINEAR.replace("[plan]", f"{more}[plan]"))
    assert rules in invoke("plan", "mix.toml").stdout


ALLOCATION = """
[study]
name = "offers"
[problem]
family = "allocation"
arms = ["a", "b"]
shares = ["1/5", "3/10"]
[plan]
means = [0.7, 0.5]
max_pulls = 500
replications = 4
"""


def test_a_policy_that_never_stops_is_simulated_up_to_a_cap(folder, document, invoke):
    (folder / "offers.toml").write_text(ALLOCATION)
    made, _ = document("simulate", "offers.toml")
    assert made["horizon"] == 500
    assert made["metrics"]["floored_violation"] == 0
    (folder / "offers.toml").write_text(ALLOCATION.replace("max_pulls = 500", ""))
    found = invoke("simulate", "offers.toml")
    assert "plan.max_pulls: is required: this policy never stops by itself" in found.output
    (folder / "offers.toml").write_text(ALLOCATION.replace("means =", "theta ="))
    found = invoke("simulate", "offers.toml")
    assert "plan.theta: is not a key here; " in found.output


def test_a_policy_without_delta_is_planned_without(folder, document, invoke):
    (folder / "offers.toml").write_text(ALLOCATION)
    made, _ = document("plan", "offers.toml")
    assert made["delta"] is None
    assert invoke("plan", "offers.toml").stdout.startswith("Plan, if the means are as assumed\n")
    refused = invoke("plan", "offers.toml", "--delta", 0.1)
    assert refused.exit_code == ExitCode.USAGE
    assert "delta must be left out: FairLearn has none; got 0.1" in refused.stderr


OFFSETS = (-0.001, 0.001)


def test_a_run_is_capped_by_the_noise_that_the_policy_reckons_with(folder, document):
    rows = [(arm, "x", mean + off) for arm, mean in (("a", 0.5), ("b", 0.0)) for off in OFFSETS]
    write_table(folder, rows)
    problem = {
        "family": "subpopulations",
        "arms": ["a", "b"],
        "groups": ["x"],
        "floors": -math.inf,
        "noise_std": 1.0,
    }
    path = write(folder, replayed(problem=problem, plan={"replications": 5}))
    found, _ = document("simulate", path)
    # Two arms with noise 1, half a unit apart: T* = 8 / 0.5^2.
    assert found["horizon"] == pytest.approx(100 * 32 * kl(0.05), abs=1)
    assert found["undecided"] == 0


def test_a_run_is_never_capped_before_its_policy_has_begun(folder, document):
    source = {"kind": "simulate", "means": [[900.0, 900.0], [0.0, 0.0]], "std": 1.0}
    problem = {**replayed()["problem"], "reward_range": None, "noise_std": 1.0}
    del problem["reward_range"]
    policy = {"name": "BlockBetting", "batch": 50}
    changes = {"problem": problem, "policy": policy, "source": source}
    found, _ = document("simulate", write(folder, replayed(plan={"replications": 5}, **changes)))
    assert found["horizon"] == 100 * (4 + 50)
    assert found["undecided"] == 0


RACE = {
    "problem": {
        "family": "delayed",
        "arms": ["a", "b"],
        "noise_std": 1.0,
        "feedback": "unbiased",
        "reading_std": 0.5,
    },
    "policy": {"delta": 0.1},
    "source": {"kind": "simulate", "means": [0.0, 3.0], "delay": 20.0},
    "plan": {"replications": 5, "parallel": 3},
}


def test_a_race_is_planned_with_its_delays_and_pulls_in_flight(folder, document, invoke):
    path = write(folder, replayed(**RACE))
    found, _ = document("plan", path)
    assert found["answer"] == ["b"]
    assert found["simulated"]["elapsed"]["mean"] >= 1.0
    assert "Answer      b\n" in invoke("plan", path).output
    # Readings may lead to an answer before any outcome: no bound on outcomes is shown.
    assert found.get("lower_bound") is None


def test_a_race_on_outcomes_alone_is_planned_with_the_bound_that_no_rule_beats(folder, document):
    problem = {"family": "delayed", "arms": ["a", "b"], "noise_std": 1.0}
    found, _ = document("plan", write(folder, replayed(**{**RACE, "problem": problem})))
    # Two arms with noise 1, three units apart: T* = 8 / 3^2.
    assert found["lower_bound"] == pytest.approx(8 / 9 * kl(0.1), rel=1e-4)
    assert found["simulated"]["undecided"] == 0


@pytest.mark.parametrize(
    "delay",
    [None, 0.5, [0.5, 1.0], {"name": "ConstantDelay", "time": 1.0}],
    ids=["default", "number", "by arm", "by name"],
)
def test_that_no_reading_comes_before_its_result_is_said(folder, document, delay):
    source = {**RACE["source"], "delay": delay}
    source = {key: value for key, value in source.items() if value is not None}
    path = write(folder, replayed(**{**RACE, "source": source}))
    with warns(UserWarning):
        found, _ = document("plan", path)
    assert found["simulated"]["metrics"]["readings"] == 0


@pytest.mark.filterwarnings("error::UserWarning")
def test_readings_come_as_often_as_is_said(folder, document):
    source = {**RACE["source"], "delay": 0.5, "every": 0.2}
    found, _ = document("plan", write(folder, replayed(**{**RACE, "source": source})))
    assert found["simulated"]["metrics"]["readings"] > 0
    often = {**RACE["plan"], "every": 0.02}
    changes = {**RACE, "source": {**source, "every": 1.0}, "plan": often}
    more, _ = document("plan", write(folder, replayed(**changes)))
    readings = [made["simulated"]["metrics"]["readings"] for made in (found, more)]
    assert readings[1] > readings[0]


@pytest.mark.parametrize(
    ("source", "mistake"),
    [
        ({"every": 0}, "source.every: must be a finite number greater than 0"),
        ({"delay": {"name": "NoDelay"}}, "source.delay.name: must be a delay of the family"),
        (
            {"delay": {"name": "LognormalDelay", "median": -1, "shape": 1}},
            "median: must be greater than 0",
        ),
        ({"noise": "gaussian"}, "source.noise: is not a key here; accepted: "),
    ],
    ids=["every", "name", "argument", "noise"],
)
def test_a_mistaken_delay_is_named(folder, invoke, source, mistake):
    sections = {**RACE, "source": {**RACE["source"], **source}}
    result = invoke("plan", write(folder, replayed(**sections)))
    assert result.exit_code == ExitCode.USAGE
    assert mistake in result.output


def test_delays_belong_to_the_family_that_has_them(folder, invoke):
    sections = {**EXAMPLE, "source": {**EXAMPLE["source"], "delay": 3.0}}
    result = invoke("plan", write(folder, replayed(**sections)))
    assert "source.delay: is not a key here; accepted: " in result.output


NOISY = {"a": [-4, 4], "b": [1, 9]}
"""Spread 4, gap 5; rewards span 13."""


def in_groups(width):
    problem = subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(-4, width - 4))
    rows = [(arm, "0", value) for arm, values in NOISY.items() for value in values]
    table = dict(zip(("arm", "group", "reward"), zip(*rows, strict=True), strict=True))
    return subpopulations.ReplayEnvironment(problem, table)


def by_features(width):
    problem = linear.Problem([[1, 0], [0, 1]], arms=["a", "b"], reward_range=(-4, width - 4))
    rows = [(arm, value) for arm, values in NOISY.items() for value in values]
    table = dict(zip(("arm", "reward"), zip(*rows, strict=True), strict=True))
    return linear.ReplayEnvironment(problem, table)


def late(width):
    problem = delayed.Problem(["a", "b"], reward_range=(-4, width - 4))
    rows = [(arm, value, 1.0, value) for arm, values in NOISY.items() for value in values]
    names = ("arm", "curve", "elapsed", "value")
    table = dict(zip(names, zip(*rows, strict=True), strict=True))
    return delayed.CurveEnvironment(problem, table)


@pytest.mark.parametrize("make", [in_groups, by_features, late])
def test_a_range_that_costs_more_than_the_noise_is_warned_of(make):
    def said(width):
        environment = make(width)
        return range_warning(environment, complexity_in(environment).allocation)

    # Two arms: the noise needs 8 * 16 / 25 results a unit, the range 4 * width / 5.
    assert said(19) is None
    assert "1,000 wide: a unit of evidence then takes about 800 results" in said(1000)
    assert "the spread of the rewards alone requires only 5.1." in said(1000)
    assert "no wider than 13 would cost little" in said(1000)


def test_the_price_of_a_floor_is_half_of_that_of_two_arms():
    problem = subpopulations.Problem(["a"], 1, floors=-1.0, reward_range=(-10, 10))
    rows = {"arm": ["a", "a"], "group": ["0"] * 2, "reward": [-4, 4]}
    price = subpopulations.ReplayEnvironment(problem, rows).evidence_price(None)
    assert price == (2 * 16, 1.0)
    assert price.of_range(20) == 40
    assert price.cheap_width == 16


def test_candidates_that_no_arm_is_near_cost_as_much_as_what_measures_them():
    # The value of (3, 0) is three times the first arm's mean, and (0, 1) that of the second.
    problem = linear.Problem(
        [[1, 0], [0, 1]], candidates=[[3, 0], [0, 1]], answers=["far", "near"], reward_range=(0, 1)
    )
    environment = linear.BernoulliEnvironment(problem, [0.5, 0.5])
    price = environment.evidence_price(linear.complexity(environment).allocation)
    # Three means and one, over a gap of 1; T* = 2 * (3 * .5 + 1 * .5)^2.
    assert price.reach == pytest.approx(4.0)
    assert price.spread == pytest.approx(8.0)
    assert price.spread == pytest.approx(linear.complexity(environment).value)


# ------------------------------------------------------------------ the basis of a plan

BOUNDED_RACE = {
    "problem": {"family": "delayed", "arms": ["a", "b", "c"], "top": 2, "reward_range": [0, 1]},
    "source": None,
    "plan": {"means": [0.9, 0.8, 0.3], "delay": 20, "replications": 4},
}


@pytest.mark.parametrize(
    ("sections", "rewards"),
    [
        (EXAMPLE, "normal rewards with these means and standard deviations"),
        (
            {**EXAMPLE, "problem": {**EXAMPLE["problem"], "noise_std": None},
             "source": None, "plan": {"means": [[0.9] * 3, [0.5] * 3, [0.4] * 3]}},
            "for rewards in a range, which are not normal, it is a yardstick and no bound",
        ),
        (
            {"problem": {"family": "delayed", "arms": ["a", "b"], "noise_std": 1.0},
             "source": {"kind": "simulate", "means": [0.0, 3.0]}, "plan": {"replications": 5}},
            "normal outcomes with these means and standard deviations",
        ),
        (BOUNDED_RACE, "it is a yardstick and no bound"),
    ],
    ids=["subpopulations", "a range", "delayed", "a late range"],
)  # fmt: skip
def test_a_plan_says_what_its_bound_assumes(folder, invoke, document, sections, rewards):
    made = replayed(**sections)
    if made["problem"].get("noise_std", 1.0) is None:
        del made["problem"]["noise_std"]
        made["problem"]["reward_range"] = [0, 1]
    path = write(folder, made)
    assumes = document("plan", path)[0]["assumes"]
    assert "a rule that is wrong with probability at most 0.05, whatever the means are" in assumes
    assert rewards in assumes
    assert assumes in " ".join(invoke("plan", path).stdout.split())


def test_a_plan_of_linear_arms_says_that_means_are_linear_and_one_of_shares_has_no_bound(
    folder, document
):
    (folder / "mix.toml").write_text(LINEAR)
    assert "means are linear in the features" in document("plan", "mix.toml")[0]["assumes"]
    (folder / "offers.toml").write_text(ALLOCATION)
    assert document("plan", "offers.toml")[0]["assumes"] is None


def test_a_plan_around_a_table_says_so_first(folder, invoke, document):
    path = write(folder, replayed(plan={"replications": 3}))
    said = (
        "About 8 rows of rows.csv, sampled repeatedly: their means count as the truth in "
        "these runs."
    )
    for command in ("plan", "simulate"):
        assert invoke(command, path).stdout.startswith(f"{said}\n")
        assert invoke(command, path).stdout.count("About ") == 1
        assert document(command, path)[0]["about"] == said


def test_a_plan_around_the_means_of_a_table_says_that_these_are_all_it_has(folder, document):
    path = write(folder, replayed(plan={"std": 0.2, "replications": 3}))
    said = "About the means of 8 rows of rows.csv: they count as the truth in these runs."
    assert document("plan", path)[0]["about"] == said
    assert document("plan", path)[0]["simulated"]["about"] == said


@pytest.mark.parametrize("std", [None, 0.1])
def test_nothing_is_said_of_a_table_where_means_are_assumed(folder, document, std):
    plan = {"means": [[0.5, 0.5], [0.1, 0.1]], "replications": 3}
    if std is not None:
        plan["std"] = std
    problem = {**replayed()["problem"], "reward_range": [0, 1]}
    path = write(folder, replayed(plan=plan, source=None, problem=problem))
    for command in ("plan", "simulate"):
        assert document(command, path)[0]["about"] is None


# ---------------------------------------------------------------- late outcomes in a range


def test_a_race_on_outcomes_in_a_range_is_planned(folder, document):
    found, result = document("plan", write(folder, replayed(**BOUNDED_RACE)))
    assert result.exit_code == ExitCode.OK
    assert found["answer"] == ["a", "b"]
    simulated = found["simulated"]
    assert (simulated["answers"], simulated["undecided"]) == ({"a and b": 4}, 0)
    assert simulated["elapsed"]["mean"] == 20 * simulated["stopping_time"]["mean"]


def test_outcomes_in_a_range_are_the_mean_plus_or_minus_the_std(folder):
    plan = {**BOUNDED_RACE["plan"], "std": 0.05, "delay": [1, 2, 3]}
    environment = load_configuration(
        write(folder, replayed(**{**BOUNDED_RACE, "plan": plan})), "plan"
    ).planned
    assert environment.arm_means == pytest.approx([0.9, 0.8, 0.3])
    assert environment.arm_stds == pytest.approx([0.05] * 3)
    assert [curves[0][-1, 0] for curves in environment.curves] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("plan", "problem", "mistake"),
    [
        ({"delay": {"name": "GeometricDelay", "mean": 3.0}}, {}, "plan.delay: must be a number"),
        ({"delay": [1, 2]}, {}, "plan.delay: must be a number, or one per arm"),
        ({"means": [0.9, 0.8, 1.3]}, {}, "plan.means: must be probabilities in [0, 1]"),
        ({}, {"reward_range": [0, 0.95]}, "plan.means: must be probabilities in [0, 1]"),
        ({"std": 0.5}, {}, "plan.std: must be positive and keep mean - std and mean + std"),
        (
            {},
            {"feedback": "unbiased", "reading_std": 0.1},
            "problem.feedback must be 'full'",
        ),
    ],
    ids=["distribution", "too few", "probability", "range", "std", "readings"],
)
def test_a_mistake_in_an_environment_of_late_outcomes_in_a_range_is_named(
    folder, invoke, plan, problem, mistake
):
    sections = {
        "problem": {**BOUNDED_RACE["problem"], **problem},
        "plan": {**BOUNDED_RACE["plan"], **plan},
        "source": None,
    }
    result = invoke("plan", write(folder, replayed(**sections)))
    assert result.exit_code == ExitCode.USAGE
    assert mistake in result.output


def test_a_plan_of_interventions_says_what_certain_verdicts_assume(document, invoke):
    example = Path(__file__).parents[2] / "examples" / "lending.toml"
    assumes = document("plan", example)[0]["assumes"]
    assert "the best allocation of rows to arms" in assumes
    assert assumes in " ".join(invoke("plan", example).stdout.split())


COINS = """
[study]
name = "fair"
storage = "sqlite:///fair.db"
[problem]
family = "causal"
sensitive = "S"
intervened = "V"
outcome = "Y"
outcome_range = [0, 1]
fairness_bound = BOUND
[problem.model]
edges = [["S", "V"], ["V", "Y"]]
[problem.model.states]
S = 2
V = 3
Y = ["0", "1"]
[problem.model.tables]
S = [0.4, 0.6]
Y = [[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]
[problem.arms]
k0 = [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]]
k1 = [[0.2, 0.3, 0.5], [0.1, 0.3, 0.6]]
k2 = [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]]
[policy]
name = "BlockBetting"
delta = 0.1
[source]
kind = "simulate"
[plan]
replications = 20
"""


def test_a_family_without_scenarios_is_not_told_to_write_one(folder, invoke):
    file = folder / "coins.toml"
    file.write_text(COINS.replace("BOUND", "0.2").replace("= 20", "= 2"))
    shown = " ".join(invoke("plan", file).stdout.split())
    assert "the plan assumes that every result is told" in shown
    assert "scenario" not in shown


def test_a_plan_of_interventions_holds_the_proven_rule_against_the_bound(folder, document, invoke):
    """Measured with other code: T* is at most 4.722, and 43 rows are needed."""
    (folder / "fair.toml").write_text(COINS.replace("BOUND", "0.2"))
    found = document("plan", "fair.toml")[0]
    assert found["answer"] == "k1"
    assert 0.95 * 4.722 <= found["complexity"] <= 4.722
    assert found["lower_bound"] == pytest.approx(found["complexity_lower"] * kl(0.1))
    assert "one end of their range or the other" in found["assumes"]
    assert sum(row["share"] for row in found["allocation"]) == pytest.approx(1.0)
    assert "certifying_budget" not in found
    assert 35 <= found["simulated"]["stopping_time"]["mean"] <= 50
    shown = " ".join(invoke("plan", "fair.toml").stdout.split())
    assert "Lower bound" in shown
    # A rule with a fixed budget has no bound: its plan is the number of rows for certain verdicts.
    text = COINS.replace("BOUND", "0.2").replace("delta = 0.1", "budget = 50")
    (folder / "fair.toml").write_text(text.replace("BlockBetting", "PlugIn"))
    found = document("plan", "fair.toml")[0]
    assert "complexity" not in found
    assert found["certifying_budget"].keys() == {"k0", "k1", "k2"}


def test_a_plan_of_graded_outcomes_has_a_bound_too(folder, document):
    text = COINS.replace("BOUND", "0.2").replace(
        "Y = [[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]",
        "Y = [[0.85, 0.1, 0.05], [0.85, 0.1, 0.05], [0.05, 0.1, 0.85]]",
    )
    (folder / "graded.toml").write_text(text.replace('Y = ["0", "1"]', 'Y = ["0", "0.5", "1"]'))
    found = document("plan", "graded.toml")[0]
    assert found["answer"] == "k1"
    # Outcomes of 0 and 1 with these means have a T* of 4.7.
    assert 0.0 < found["complexity"] < 4.7
    assert "one of the 3 values in the model" in found["assumes"]
    assert found["lower_bound"] < found["simulated"]["stopping_time"]["mean"]


def test_tables_that_the_problem_does_not_know_may_be_assumed(folder, document, invoke):
    """How the attribute, a parent of the outcome, affects it is a guess for the plan only."""
    text = COINS.replace("BOUND", "0.2").replace('["V", "Y"]]', '["V", "Y"], ["S", "Y"]]')
    text = text.replace("Y = [[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]\n", "")
    (folder / "direct.toml").write_text(text)
    bad = invoke("plan", "direct.toml")
    assert bad.exit_code == ExitCode.USAGE
    assert "source.tables: must hold those of 'Y'" in bad.stderr
    guess = "Y = [[[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.8, 0.2]], [[0.1, 0.9], [0.15, 0.85]]]"
    source, plan = "[source.tables]", "[plan.tables]"

    def with_tables(section, line):
        if section == source:
            simulated = f'kind = "simulate"\n{source}\n{line}'
            return text.replace('kind = "simulate"', simulated)
        measured = text.replace('kind = "simulate"', 'kind = "command"\nrun = "measure"')
        return f"{measured}{plan}\n{line}"

    for section in (source, plan):
        (folder / "direct.toml").write_text(with_tables(section, guess))
        found = document("plan", "direct.toml")[0]
        assert found["answer"] == "k1"
        assert 0.0 < found["lower_bound"] < found["simulated"]["stopping_time"]["mean"]
    for line, message in [
        (f"{guess}\nQ = [0.5, 0.5]", "Q"),
        (guess.replace("[[[0.9", "[[[0.7"), "add to one"),
        ("Y = 3", "source.tables"),
    ]:
        (folder / "direct.toml").write_text(with_tables(source, line))
        bad = invoke("plan", "direct.toml")
        assert bad.exit_code == ExitCode.USAGE
        assert message in bad.stderr
    (folder / "direct.toml").write_text(with_tables(source, "Q = [0.5, 0.5]"))
    assert "must hold those of 'Y'" in invoke("plan", "direct.toml").stderr


def test_a_plan_of_interventions_on_their_bound_says_that_no_number_of_rows_suffices(
    folder, document
):
    text = COINS.replace("BOUND", "0.08").replace("replications = 20", "replications = 2")
    (folder / "fair.toml").write_text(text.replace("delta = 0.1", "delta = 0.1\nmax_pulls = 100"))
    found = document("plan", "fair.toml")[0]
    assert found["complexity"] is None or math.isinf(found["complexity"])
    assert found["reason"] == "a gap of 'k0' is exactly on the bound"


MEASURED = """
[study]
name = "dose"
storage = "sqlite:///dose.db"
[problem]
family = "subpopulations"
arms = ["low", "high"]
groups = 1
KNOWN
objective = "cured"
ceilings = { harmed = 0.3 }
[plan]
replications = 4
SOURCE
[plan.means]
cured = { low = [0.3], high = [0.8] }
harmed = { low = [0.05], high = [0.1] }
"""


@pytest.mark.parametrize(
    ("known", "source", "assumed"),
    [
        ("measures = { cured = [0, 1], harmed = [0, 1] }", "", "no correlation; for measures in"),
        (
            "measures = { cured = [0, 1], harmed = [0, 1] }",
            "correlation = 0.1",
            "this covariance; for measures in a range, which are not normal, it is a yardstick",
        ),
        (
            'measures = ["cured", "harmed"]\nnoise_cov = [[1.0, 0.5], [0.5, 1.0]]',
            "",
            "standard deviations and this covariance",
        ),
    ],
)
def test_a_plan_says_what_its_bound_takes_measures_to_be(folder, document, known, source, assumed):
    text = MEASURED.replace("KNOWN", known).replace("SOURCE", source)
    (folder / "dose.toml").write_text(text)
    found = document("plan", "dose.toml")[0]
    assert "jointly normal measures" in found["assumes"]
    assert assumed in found["assumes"]
    assert found["lower_bound"] > 0


FOUND_WITH = {
    **EXAMPLE,
    "problem": {
        "family": "subpopulations",
        "arms": ["old", "new"],
        "groups": ["x"],
        "floors": -math.inf,
        "noise_std": 1.0,
    },
    "source": {"kind": "simulate", "means": [[0.0], [0.5]]},
}


def test_a_plan_says_which_effect_a_number_of_pulls_finds(folder, document, invoke):
    path = write(folder, replayed(**{**FOUND_WITH, "plan": {"replications": 20}}))
    found, result = document("plan", path, "--pulls", 100)
    assert "Looking for the effect that 100 pulls can detect, 20 runs at a time" in result.stderr
    assert found["found_with"]["pulls"] == 100
    eighty, ninety = found["found_with"]["effects"]
    assert (eighty["power"], ninety["power"]) == (0.8, 0.9)
    assert 1.0 < eighty["effect"] <= ninety["effect"] < 4.0
    assert eighty["values"]["new"] == pytest.approx(0.5 * eighty["effect"])
    text = invoke("plan", path, "--pulls", 100).stdout
    assert "Smallest effect that 100 pulls can detect (1 is the assumed effect):" in text
    assert f"80 % power  {eighty['effect']:.3g}: " in text
    assert "found_with" not in document("plan", path)[0]


def test_weeks_are_pulls_where_the_file_says_how_many_a_day_has(folder, document, invoke):
    plan = {"replications": 4, "pulls_per_day": 2.5}
    path = write(folder, replayed(**{**FOUND_WITH, "plan": plan}))
    assert document("plan", path, "--weeks", 4)[0]["found_with"]["pulls"] == 70
    assert document("plan", path, "--weeks", 0.1)[0]["found_with"]["pulls"] == 1
    for weeks, mistake in ((0.01, "--weeks must have at least one pull"), (1e300, "--weeks must")):
        refused = invoke("plan", path, "--weeks", weeks)
        assert refused.exit_code == ExitCode.USAGE
        assert mistake in refused.stderr
    path = write(folder, replayed(**{**FOUND_WITH, "plan": {"replications": 4}}))
    refused = invoke("plan", path, "--weeks", 4)
    assert refused.exit_code == ExitCode.USAGE
    assert "plan.pulls_per_day is required with --weeks" in refused.stderr
    both = invoke("plan", path, "--weeks", 4, "--pulls", 10)
    assert both.exit_code == ExitCode.USAGE
    assert "not both" in both.stderr


@pytest.mark.parametrize(
    ("policy", "plan", "given", "pulls", "ends_by", "said"),
    [
        ({"max_pulls": 50}, {}, ("--weeks", 4), 50, "policy.max_pulls", "4 weeks give 70 pulls"),
        ({"max_pulls": 500}, {}, ("--weeks", 4), 70, "--weeks", "policy.max_pulls would be 500"),
        ({"max_pulls": 50}, {}, ("--pulls", 60), 50, "policy.max_pulls", "--pulls would be 60"),
        ({}, {"max_pulls": [20, 40]}, ("--weeks", 4), 40, "plan.max_pulls", "4 weeks give 70"),
        ({}, {"max_pulls": [20, 40]}, ("--pulls", 60), 60, "--pulls", ""),
        ({}, {}, ("--weeks", 4), 70, "--weeks", ""),
    ],
)
def test_a_plan_for_some_weeks_ends_with_the_study(
    folder, document, invoke, policy, plan, given, pulls, ends_by, said
):
    sections = {
        "policy": {"name": "BlockBetting", **policy},
        "plan": {"replications": 2, "pulls_per_day": 2.5, **plan},
    }
    path = write(folder, replayed(**{**FOUND_WITH, **sections}))
    found = document("plan", path, *given)[0]["found_with"]
    assert (found["pulls"], found["ends_by"]) == (pulls, ends_by)
    text = " ".join(invoke("plan", path, *given).stdout.split())
    assert f"Smallest effect that {pulls:,} pulls can detect" in text
    assert ("Ends by" in text) == bool(said)
    assert said in text


def test_no_effect_is_found_with_too_few_pulls(folder, invoke, document):
    path = write(folder, replayed(**{**FOUND_WITH, "plan": {"replications": 4}}))
    assert document("plan", path, "--pulls", 1)[0]["found_with"]["effects"][0]["effect"] is None
    assert (
        "80 % power  not reached with effects up to 16" in invoke("plan", path, "--pulls", 1).stdout
    )


def test_equal_arms_have_no_effect_to_find(folder, invoke):
    result = invoke("plan", write(folder, replayed(**TIE)), "--pulls", 100)
    assert result.exit_code == ExitCode.USAGE
    assert "environment must have a best arm: these are equal" in result.stderr


def test_numbers_of_pulls_may_be_a_list_of_which_the_largest_counts(folder, document):
    plan = {"replications": 2, "max_pulls": [20, 60]}
    assert document("simulate", write(folder, replayed(plan=plan)))[0]["horizon"] == 60


@pytest.mark.parametrize(
    ("policy", "is_said"), [({}, True), ({"losses": "ignorable"}, False)], ids=str
)
def test_a_plan_says_how_to_plan_for_results_that_are_never_told(
    folder, invoke, document, policy, is_said
):
    problem = {
        "family": "subpopulations",
        "arms": ["old", "new"],
        "groups": {"all": 1.0},
        "reward_range": [0, 1],
    }
    plan = {"means": {"old": {"all": 0.2}, "new": {"all": 0.8}}, "replications": 5}
    file = write(
        folder,
        {
            "study": {"name": "t", "storage": "sqlite:///t.db"},
            "problem": problem,
            "policy": {"name": "BlockBetting", **policy},
            "plan": plan,
        },
    )
    found, _ = document("plan", file)
    assert (found["about_losses"] is not None) == is_said
    shown = " ".join(invoke("plan", file).stdout.split())
    assert ("loss = { rate = 0.03 }" in shown) == is_said


DOSES = {
    "problem": {
        "family": "subpopulations",
        "arms": ["placebo", "low", "high"],
        "groups": {"out": 0.6, "in": 0.4},
        "measures": {"healed": [0, 1], "toxic": [0, 1]},
        "objective": "healed",
        "control": "placebo",
        "ceilings": {"toxic": 0.3},
    },
    "source": None,
    "plan": {
        "means": {
            "healed": {"placebo": [0.2, 0.2], "low": [0.6, 0.6], "high": [0.7, 0.7]},
            "toxic": {"placebo": [0.05, 0.05], "low": [0.1, 0.1], "high": [0.4, 0.4]},
        },
        "replications": 4,
        "max_pulls": 60,
    },
}


def test_a_plan_shows_the_usual_designs_and_their_questions(folder, document, invoke):
    path = write(folder, replayed(**DOSES))
    found, _ = document("plan", path)
    designs = found["comparators"]
    claims = [one["claim"] for one in designs]
    assert claims == ["better within limits"] * 3 + ["better"] * 3
    assert all(one["right"]["rate"] > 0.85 for one in designs[:3])
    assert all(one["harmful"]["rate"] > 0.5 for one in designs[3:])
    printed = invoke("plan", path).output
    for one in designs:
        assert f"{one['most_results']:,}" in printed
    text = " ".join(printed.split())
    for said in (designs[0]["question"], designs[3]["question"], found["comparators_assume"]):
        assert said in text


def test_a_plan_without_control_and_limits_has_no_usual_designs(folder, document, invoke):
    problem = {**EXAMPLE["problem"], "floors": -math.inf}
    path = write(folder, replayed(**{**EXAMPLE, "problem": problem}))
    assert "comparators" not in document("plan", path)[0]
    assert "usual designs" not in invoke("plan", path).output
