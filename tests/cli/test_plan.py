"""`fairtrial plan` and `fairtrial simulate`."""

import math

import pytest

from fairtrial.cli import ExitCode
from tests.cli.configurations import replayed, write, write_table

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
    assert first == "Looking for the bound that no rule beats ..."
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
    for part in ("T*", "190.88", "Lower bound", "20 runs of BlockBetting", "Optimal allocation"):
        assert part in result.stdout


def test_a_tie_is_said_to_take_for_ever_and_nothing_is_simulated(folder, invoke, document):
    tie = {"kind": "simulate", "means": [[0.5, 0.5], [0.5, 0.5]]}
    path = write(folder, replayed(source=tie))
    found, result = document("plan", path)
    assert result.exit_code == ExitCode.OK
    assert (found["complexity"], found["lower_bound"], found["allocation"]) == (None, None, None)
    assert found["simulated"] is None
    assert found["reason"]
    assert f"no rule can ever stop: {found['reason']}"[:60] in invoke("plan", path).stdout


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
        ("epsilon = 0.1\n", "whatever the rule, if it gives this answer\n"),
    ],
    ids=["best", "within epsilon"],
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
    assert made["extra"]["floored_violation"] == 0
    (folder / "offers.toml").write_text(ALLOCATION.replace("max_pulls = 500", ""))
    found = invoke("simulate", "offers.toml")
    assert "plan.max_pulls: is required: this policy never stops by itself" in found.output
    (folder / "offers.toml").write_text(ALLOCATION.replace("means =", "theta ="))
    found = invoke("simulate", "offers.toml")
    assert "plan.theta: must be left out but in the family 'linear'" in found.output


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
        "report_std": 0.5,
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
    # Readings may answer before any outcome: no bound on outcomes is shown.
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
    with pytest.warns(UserWarning, match=r"No reading .* every 1,.* smaller every"):
        found, _ = document("plan", path)
    assert found["simulated"]["extra"]["readings"] == 0


@pytest.mark.filterwarnings("error::UserWarning")
def test_readings_come_as_often_as_is_said(folder, document):
    source = {**RACE["source"], "delay": 0.5, "every": 0.2}
    found, _ = document("plan", write(folder, replayed(**{**RACE, "source": source})))
    assert found["simulated"]["extra"]["readings"] > 0
    often = {**RACE["plan"], "every": 0.02}
    changes = {**RACE, "source": {**source, "every": 1.0}, "plan": often}
    more, _ = document("plan", write(folder, replayed(**changes)))
    readings = [made["simulated"]["extra"]["readings"] for made in (found, more)]
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
        ({"noise": "gaussian"}, "source.noise: must be left out in the family 'delayed'"),
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
    assert "source.delay: must be left out but in the family 'delayed'" in result.output


def test_a_range_that_costs_more_than_the_noise_is_warned_of():
    from fairtrial.cli.planning import range_warning
    from fairtrial.subpopulations import Problem, ReplayEnvironment

    rows = {"arm": ["a", "a", "b", "b"], "group": ["0"] * 4, "reward": [-4, 4, 1, 9]}

    def said(width):
        problem = Problem(["a", "b"], 1, floors=None, reward_range=(-width / 2, width / 2))
        return range_warning(ReplayEnvironment(problem, rows))

    # Spread 4, gap 5: rewards span 13, and the noise asks for 2 * 16 / 25 results a unit.
    assert said(19) is None
    assert "about 2e+02 results per unit, where the spread of the rewards asks for 1.3" in said(
        1000
    )
    assert "no wider than 13 would cost little" in said(1000)
