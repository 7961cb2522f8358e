"""`fairtrial simulate --scenarios`, and the blocks [[scenario]] of a file."""

import csv
import json

import numpy as np
import pytest

from fairtrial.cli import ExitCode
from fairtrial.cli.config import load_configuration
from fairtrial.errors import ConfigurationError
from fairtrial.simulation import default_scenarios, operating, simulate
from tests.cli.configurations import replayed, write
from tests.messages import raises

ASSUMED = {"means": {"a": [0.6, 0.6], "b": [0.1, 0.1]}, "std": 0.3, "replications": 10}
TWO = {"source": None, "plan": {**ASSUMED, "max_pulls": [400, 100], "pulls_per_day": 20}}
DEFAULTS = ["null", "half", "full", "one group harmed", "none acceptable"]


def file_of(folder, sections, *blocks):
    path = write(folder, replayed(**sections))
    path.write_text(path.read_text() + "\n" + "\n".join(blocks) + "\n")
    return path


def test_every_scenario_is_simulated_with_every_number_of_pulls(folder, document, invoke):
    path = file_of(folder, TWO)
    found, result = document("simulate", path, "--scenarios", "--seed", 3)
    assert result.exit_code == ExitCode.OK
    assert [(row["scenario"], row["max_pulls"]) for row in found["rows"]] == [
        (name, number) for name in DEFAULTS for number in (100, 400)
    ]
    assert (found["seed"], found["replications"], found["study"]) == (3, 10, "small")
    assert found["configuration"] == path.read_text()
    assert [entry["effect"] for entry in found["effects"]] == [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5]
    full = next(row for row in found["rows"] if row["scenario"] == "full")
    assert full["days"]["mean"] == pytest.approx(full["pulls"]["mean"] / 20)
    again, _ = document("simulate", path, "--scenarios", "--seed", 3)
    assert again == found
    text = invoke("simulate", path, "--scenarios").stdout
    assert "10 runs of BlockBetting() in each scenario" in text
    assert all(name in text for name in DEFAULTS)


def test_groups_arrive_by_themselves_as_planned_in_every_scenario(folder, document):
    plan = {**ASSUMED, "max_pulls": 100, "arrivals": {"x": 0.9, "y": 0.1}}
    own = '[[scenario]]\nname = "noisy"\nstd = 0.4\nloss = { rate = 0.1 }\ndrift = 1e-6'
    path = file_of(folder, {"source": None, "plan": plan}, own)
    configuration = load_configuration(path, "simulate")
    for scenario in (*configuration.scenarios, *default_scenarios(configuration.planned, None)):
        generator = np.random.default_rng(1)
        groups = [scenario.environment.context(generator)["group"] for _ in range(400)]
        assert 0.8 < groups.count("x") / 400 < 0.97
    found, _ = document("plan", path)
    by_group = {"x": 0.0, "y": 0.0}
    for name, pulls in found["simulated"]["pulls"].items():
        by_group[name[-1]] += pulls
    assert 3 < by_group["x"] / by_group["y"] < 30
    alone, _ = document("plan", file_of(folder, {"source": None, "plan": ASSUMED}))
    assert found["complexity"] > 1.2 * alone["complexity"]


@pytest.mark.parametrize(
    "arrivals",
    [{"x": 1}, {"x": 1, "y": -1}, {"x": 0, "y": 0}, {"x": 1, "z": 1}, [1], "x", {"x": "a", "y": 1}],
)
def test_arrivals_that_make_no_sense_are_refused(folder, arrivals):
    path = write(folder, replayed(source=None, plan={**ASSUMED, "arrivals": arrivals}))
    with raises(ConfigurationError) as caught:
        load_configuration(path, "plan")
    assert caught.value.places[0].startswith("plan.arrivals")


@pytest.mark.parametrize("stated", [None, {"x": 0.9, "y": 0.1}])
def test_groups_that_must_be_named_arrive_in_their_proportions(folder, stated):
    plan = {**ASSUMED, "max_pulls": 100} | ({} if stated is None else {"arrivals": stated})
    study = {"name": "small", "storage": "sqlite:///trial.db"}
    given, block = {"source": None, "plan": plan}, '[[scenario]]\nname = "some"\neffect = 0.5'
    path = file_of(folder, given | {"study": study | {"require_group": True}}, block)
    found = load_configuration(path, "plan")
    expected = stated or dict(found.problem.stated_shares["group"])
    assert found.planned.arrivals == expected
    assert found.scenarios[0].environment.arrivals == expected
    path = file_of(folder, given | {"study": study}, block)
    assert load_configuration(path, "plan").planned.arrivals == stated


def test_arrivals_in_a_replay_still_say_that_its_rows_are_sampled(folder):
    path = write(folder, replayed(plan={"arrivals": {"x": 3, "y": 1}}))
    configuration = load_configuration(path, "plan")
    assert configuration.planned.arrivals == {"x": 3, "y": 1}
    assert configuration.about == load_configuration(write(folder, replayed()), "plan").about
    assert "sampled repeatedly" in configuration.about


def test_the_report_and_the_table_are_written(folder, invoke):
    path = file_of(folder, TWO)
    result = invoke("simulate", path, "--scenarios", "--report", "p.html", "--csv", "p.csv")
    assert result.exit_code == ExitCode.OK
    page = (folder / "p.html").read_text()
    assert "small: plan and operating characteristics" in page
    assert "Example runs" in page
    assert "fairtrial simulate trial.toml --scenarios --replications 10 --seed 0" in page
    # Two values around a mean are simulated as rows, but no user gave this table.
    assert "sampled repeatedly" not in page
    rows = list(csv.DictReader((folder / "p.csv").open()))
    assert len(rows) == 10
    assert float(rows[0]["wrong upper"]) > 0


def test_the_files_own_scenarios_come_after_and_take_the_place_of_a_name(folder, document):
    mine = '[[scenario]]\nname = "mine"\nwhy = "I think so"\n[scenario.means]\n'
    blocks = (
        mine + "a = [0.5, 0.1]\nb = [0.1, 0.5]",
        '[[scenario]]\nname = "half"\neffect = 0.4',
        '[[scenario]]\nname = "noisy"\nstd = 0.35\neffect = 1.0',
    )
    found, _ = document("simulate", file_of(folder, TWO, *blocks), "--scenarios")
    means = {row["scenario"]: row for row in found["rows"]}
    assert list(means) == [*DEFAULTS, "mine", "noisy"]
    assert np.allclose(means["mine"]["means"], [[0.5, 0.1], [0.1, 0.5]])
    assert means["mine"]["why"] == "I think so"
    assert means["half"]["means"][0] == pytest.approx([0.3, 0.3])
    assert means["half"]["why"] == "The differences are 0.4 times as large as assumed"
    assert "also changed: std" in means["noisy"]["why"]
    # A scenario that the file calls half is no point of the curve at one half.
    assert 0.5 not in [entry["effect"] for entry in found["effects"]]


def test_the_rows_of_a_table_are_moved_and_the_reader_is_told(folder, document):
    sections = {"plan": {"replications": 4, "max_pulls": 100}}
    block = '[[scenario]]\nname = "mine"\nmeans = [[0.7, 0.6], [0.3, 0.1]]'
    found, _ = document("simulate", file_of(folder, sections, block), "--scenarios")
    assert found["about"].startswith("About 8 rows of rows.csv, sampled repeatedly")
    assert found["about"].endswith("the rows are shifted to these means.")
    mine = next(row for row in found["rows"] if row["scenario"] == "mine")
    assert mine["means"][0] == pytest.approx([0.7, 0.6])


def test_without_a_number_of_pulls_one_is_found_and_said(folder, invoke, document):
    path = file_of(folder, {"source": None, "plan": ASSUMED})
    found, result = document("simulate", path, "--scenarios")
    (most,) = {row["max_pulls"] for row in found["rows"]}
    assert f"A run ends after {most:,} pulls: plan.max_pulls is not given" in result.stderr
    assert "95 % of 100 runs decide by then" in result.stderr
    full = next(row for row in found["rows"] if row["scenario"] == "full")
    assert full["undecided"]["rate"] < 0.5
    sections = {"source": None, "plan": ASSUMED, "policy": {"max_pulls": 30}}
    found, _ = document("simulate", file_of(folder, sections), "--scenarios")
    assert {row["max_pulls"] for row in found["rows"]} == {30}


def test_equal_means_are_simulated_up_to_a_number_that_is_said(folder, document):
    means = {"a": [0.5, 0.5], "b": [0.5, 0.5]}
    plan = {"means": means, "std": 0.3, "replications": 2}
    path = file_of(folder, {"source": None, "plan": plan, "policy": {"delta": 0.45}})
    found, result = document("simulate", path, "--scenarios")
    assert "A run ends after 10,000 pulls: the assumed means are equal" in result.stderr
    assert found["rows"][0]["right_answer"] == "none: a, b are equal"


def test_the_control_is_where_differences_are_counted_from(folder, document):
    sections = {**TWO, "plan": {**TWO["plan"], "control": "a"}}
    found, _ = document("simulate", file_of(folder, sections), "--scenarios")
    null = next(row for row in found["rows"] if row["scenario"] == "null")
    assert np.allclose(null["means"], 0.6)


LATE = {
    "problem": {"family": "delayed", "arms": ["a", "b"], "noise_std": 1.0},
    "source": None,
    "plan": {"means": [0.0, 3.0], "delay": 5.0, "replications": 4, "max_pulls": 100},
}


def test_late_results_have_scenarios_with_other_delays(folder, document):
    block = '[[scenario]]\nname = "slow"\ndelay = 50.0'
    found, _ = document("simulate", file_of(folder, LATE, block), "--scenarios")
    rows = {row["scenario"]: row for row in found["rows"]}
    assert list(rows) == ["null", "half", "full", "slow"]
    assert rows["slow"]["elapsed"]["mean"] > 5 * rows["full"]["elapsed"]["mean"]
    assert rows["slow"]["means"] == [0.0, 3.0]


def test_results_get_lost_in_a_scenario(folder, document):
    block = (
        '[[scenario]]\nname = "lossy"\neffect = 1.5\nloss = { rate = 0.2 }',
        '[[scenario]]\nname = "bad luck"\nloss = { rate = 0.2, depends_on_outcome = true }',
    )
    sections = {**TWO, "plan": {**TWO["plan"], "max_pulls": 60, "replications": 3}}
    found, _ = document("simulate", file_of(folder, sections, *block), "--scenarios")
    rows = {row["scenario"]: row for row in found["rows"]}
    assert rows["lossy"]["why"].endswith("assumed; also changed: 0.2 of the results lost")
    assert rows["lossy"]["pulls"]["mean"] <= 60
    assert rows["bad luck"]["means"] == rows["full"]["means"]
    assert rows["lossy"]["lower_bound"] is None


def test_means_drift_in_a_scenario(folder, document):
    block = '[[scenario]]\nname = "season"\ndrift = 0.001\nloss = { rate = 0.1 }'
    sections = {**TWO, "plan": {**TWO["plan"], "max_pulls": 60, "replications": 3}}
    found, _ = document("simulate", file_of(folder, sections, block), "--scenarios")
    rows = {row["scenario"]: row for row in found["rows"]}
    said = "Stated in the file: 0.1 of the results lost, a drift of 0.001 per pull"
    assert rows["season"]["why"] == said
    assert rows["season"]["means"] == rows["full"]["means"]
    assert rows["season"]["lower_bound"] is None
    with raises(ConfigurationError, places=("scenario 1.drift.drift",)):
        load_configuration(file_of(folder, sections, block.replace("0.001", "0.0")), "simulate")
    with raises(ConfigurationError, places=("scenario 1.drift",)):
        load_configuration(file_of(folder, LATE, block), "simulate")


def test_late_results_get_lost_by_chance_alone(folder, document):
    block = '[[scenario]]\nname = "lossy"\nloss = { rate = 0.5 }'
    found, _ = document("simulate", file_of(folder, LATE, block), "--scenarios")
    rows = {row["scenario"]: row for row in found["rows"]}
    assert rows["lossy"]["pulls"]["mean"] > rows["full"]["pulls"]["mean"]
    block = block.replace("0.5", "0.5, depends_on_outcome = true")
    with raises(ConfigurationError, places=("scenario 1.loss.depends_on_outcome",)):
        load_configuration(file_of(folder, LATE, block), "simulate")


LINEAR = {
    "problem": {
        "family": "linear",
        "arms": ["a", "b"],
        "features": [[1, 0], [1, 1]],
        "noise_std": 1.0,
    },
    "source": None,
    "plan": {"theta": [0.0, 2.0], "replications": 4, "max_pulls": 200},
}


def test_linear_arms_have_scenarios_by_their_parameter(folder, document):
    block = '[[scenario]]\nname = "other"\ntheta = [1.0, -1.0]'
    found, _ = document("simulate", file_of(folder, LINEAR, block), "--scenarios")
    rows = {row["scenario"]: row for row in found["rows"]}
    assert rows["other"]["means"] == [1.0, 0.0]
    assert rows["null"]["right"] is None


@pytest.mark.parametrize(
    ("block", "mistake"),
    [
        ("[scenario]\nname = 'x'", "scenario: must be blocks [[scenario]]; got"),
        ("[[scenario]]\neffect = 1.0", "scenario 1.name: is required"),
        ("[[scenario]]\nname = ''", "scenario 1.name: must have at least one character"),
        ("[[scenario]]\nname = 'x'\nefect = 1", "scenario 1.efect: is not a key here; did you"),
        ("[[scenario]]\nname = 'x'\neffect = -1.0", "scenario 1.effect: must be"),
        ("[[scenario]]\nname = 'x'\neffect = nan", "scenario 1.effect: must be"),
        ("[[scenario]]\nname = 'x'\neffect = 'big'", "scenario 1.effect: must be"),
        ("[[scenario]]\nname = 'x'\ntrend = 0.1", "scenario 1.trend: is not a key here"),
        ("[[scenario]]\nname = 'x'\nloss = 0.1", "scenario 1.loss: must be"),
        ("[[scenario]]\nname = 'x'\nloss = {}", "scenario 1.loss.rate: is required"),
        ("[[scenario]]\nname = 'x'\nloss = { rate = 1.0 }", "scenario 1.loss.rate: must be less"),
        ("[[scenario]]\nname = 'x'\nloss = { rate = 0 }", "scenario 1.loss.rate: must be"),
        ("[[scenario]]\nname = 'x'\nloss = { rat = 0.1 }", "scenario 1.loss.rat: is not a key"),
        (
            "[[scenario]]\nname = 'x'\nloss = { rate = 0.9, depends_on_outcome = true }",
            "scenario 1.loss.rate: must be below 1, and at most the share",
        ),
        (
            "[[scenario]]\nname = 'x'\neffect = 1.0\nmeans = [[0, 0], [0, 0]]",
            "scenario 1.effect: must be left out if means is given",
        ),
        (
            "[[scenario]]\nname = 'x'\n[[scenario]]\nname = 'x'",
            "scenario 2.name: must be different; got 'x' again",
        ),
        (
            "[[scenario]]\nname = 'x'\n[scenario.means]\na = [0.1, 0.1]\nc = [0.1, 0.1]",
            "scenario 1.means.c: is not an arm",
        ),
        ("[[scenario]]\nname = 'x'\nmeans = [[2.0, 0.0], [0.0, 0.0]]", "scenario 1.std: must be"),
        ("[[scenario]]\nname = 'x'\neffect = 99.0", "scenario 1.effect: is not possible: means["),
        ("[[scenario]]\nname = 'x'\nstd = -1.0", "scenario 1.std: must be positive"),
    ],
)
def test_a_mistaken_block_is_named_by_its_number(folder, block, mistake):
    path = file_of(folder, TWO, block)
    with raises(ConfigurationError) as refused:
        load_configuration(path, "simulate")
    assert any(line.startswith(mistake) for line in refused.value.mistakes), refused.value.mistakes


@pytest.mark.parametrize(
    ("plan", "mistake"),
    [
        ({"max_pulls": []}, "plan.max_pulls: must be an integer of at least 1, or a list of them"),
        ({"max_pulls": [10, 0]}, "plan.max_pulls: must be an integer of at least 1"),
        ({"max_pulls": 1.5}, "plan.max_pulls: must be an integer of at least 1"),
        ({"max_pulls": True}, "plan.max_pulls: must be an integer of at least 1"),
        ({"pulls_per_day": 0.0}, "plan.pulls_per_day: must be greater than 0"),
        ({"pulls_per_day": "many"}, "plan.pulls_per_day: must be a"),
        ({"control": "c"}, "plan.control: must be one of ['a', 'b']; got 'c'"),
        ({"control": 1}, "plan.control: must be a"),
    ],
)
def test_mistakes_of_the_plan_are_named(folder, plan, mistake):
    path = file_of(folder, {**TWO, "plan": {**TWO["plan"], **plan}})
    with raises(ConfigurationError) as refused:
        load_configuration(path, "simulate")
    assert any(line.startswith(mistake) for line in refused.value.mistakes), refused.value.mistakes


def test_a_table_has_means_and_effects_and_nothing_else_to_change(folder):
    block = "[[scenario]]\nname = 'x'\nstd = 0.2"
    path = file_of(folder, {}, block)
    with raises(ConfigurationError, places=("scenario 1.std",)):
        load_configuration(path, "simulate")
    block = "[[scenario]]\nname = 'x'\nmeans = [[5.0, 0.0], [0.0, 0.0]]"
    with raises(ConfigurationError, places=("scenario 1.means[a, x]",)):
        load_configuration(file_of(folder, {}, block), "simulate")


def test_a_file_with_scenarios_still_runs(folder, invoke):
    path = file_of(folder, {}, "[[scenario]]\nname = 'x'\neffect = 0.5")
    assert invoke("run", path).exit_code == ExitCode.OK
    path = file_of(folder, {}, "[[scenario]]\nname = 'x'\neffekt = 0.5")
    assert invoke("run", path).exit_code == ExitCode.USAGE


def test_late_results_keep_the_time_themselves(folder, invoke):
    sections = {**LATE, "plan": {**LATE["plan"], "pulls_per_day": 3.0}}
    result = invoke("simulate", file_of(folder, sections), "--scenarios")
    assert result.exit_code == ExitCode.USAGE
    assert "pulls_per_day must be left out: results come late" in result.stderr


def test_a_family_without_scenarios_says_so(folder, invoke):
    sections = {
        "problem": {"family": "allocation", "arms": ["a", "b"], "shares": ["1/5", "3/10"]},
        "policy": {"name": "FairLearn"},
        "source": None,
        "plan": {"means": [0.7, 0.5], "max_pulls": 50, "replications": 2},
    }
    result = invoke("simulate", file_of(folder, sections), "--scenarios")
    assert result.exit_code != ExitCode.OK
    assert "the family 'allocation' has no scenarios" in result.stderr
    block = "[[scenario]]\nname = 'x'\neffect = 0.5"
    result = invoke("simulate", file_of(folder, sections, block))
    assert "scenario 1: the family 'allocation' has no scenarios" in result.stderr


@pytest.mark.parametrize("option", ["--report", "--csv"])
def test_files_are_of_scenarios_only(folder, invoke, option):
    result = invoke("simulate", file_of(folder, TWO), option, "p")
    assert result.exit_code == ExitCode.USAGE
    assert f"{option} needs --scenarios" in result.stderr
    assert not (folder / "p").exists()


def test_a_file_that_cannot_be_written_is_said_before_the_runs(folder, invoke):
    for option in ("--report", "--csv"):
        result = invoke("simulate", file_of(folder, TWO), "--scenarios", option, "no/where")
        assert result.exit_code != ExitCode.OK
        assert "Simulating" not in result.stderr


def test_numbers_in_the_document_are_json(folder, document):
    found, _ = document("simulate", file_of(folder, TWO), "--scenarios")
    assert json.loads(json.dumps(found, allow_nan=False)) == found


MEASURED = {
    "problem": {
        "family": "subpopulations",
        "arms": ["low", "high"],
        "groups": ["x", "y"],
        "measures": {"cured": [0, 1], "harmed": [0, 1]},
        "objective": "cured",
        "ceilings": [{"measure": "harmed", "overall": True, "bound": 0.5}],
    },
    "source": None,
    "plan": {
        "means": {
            "cured": {"low": [0.3, 0.25], "high": [0.6, 0.55]},
            "harmed": {"low": [0.05, 0.1], "high": [0.375, 0.4]},
        },
        "max_pulls": 60,
        "replications": 2,
    },
}


def test_the_report_of_several_measures_shows_the_mean_of_each(folder, invoke):
    path = file_of(folder, MEASURED)
    result = invoke("simulate", path, "--scenarios", "--report", "p.html")
    assert result.exit_code == ExitCode.OK, result.output
    page = (folder / "p.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("x, cured", "y, harmed", "0.375"))


def test_the_progress_names_the_scenario_and_the_number_of_pulls(folder, invoke):
    said = invoke("simulate", file_of(folder, TWO), "--scenarios").stderr
    assert "scenario one group harmed, at most 100 pulls: 10 of 10 replications" in said


@pytest.mark.parametrize("finished", [0, 2, len(DEFAULTS) + 1])
def test_an_interrupted_simulation_keeps_the_scenarios_that_are_finished(
    folder, invoke, monkeypatch, finished
):
    plan = {"source": None, "plan": {**ASSUMED, "max_pulls": 100}}
    path, calls = file_of(folder, plan), []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) > finished:
            raise KeyboardInterrupt
        return simulate(*arguments, **options)

    monkeypatch.setattr(operating, "simulate", interrupted)
    result = invoke("simulate", path, "--scenarios", "--csv", "p.csv", "--report", "p.html")
    assert result.exit_code == ExitCode.INTERRUPTED
    if not finished:
        assert not (folder / "p.csv").exists()
        return
    with (folder / "p.csv").open(newline="") as file:
        assert [row["scenario"] for row in csv.DictReader(file)] == DEFAULTS[:finished]
    assert all(name in result.stdout for name in DEFAULTS[:finished])
    assert "Interrupted" in result.stderr
    assert (folder / "p.html").exists()


def interrupted_after(finished, calls):
    """Return a function that simulates as usual, and is interrupted after that many calls."""

    def run(*arguments, **options):
        if len(calls) == finished:
            raise KeyboardInterrupt
        calls.append(options["horizon"])
        return simulate(*arguments, **options)

    return run


def test_an_interrupted_simulation_goes_on_where_it_was(folder, invoke, monkeypatch):
    plan = {"source": None, "plan": {**ASSUMED, "max_pulls": 100}}
    path, total = file_of(folder, plan), len(DEFAULTS) + 4
    command = ("simulate", path, "--scenarios", "--csv")
    assert invoke(*command, "whole.csv").exit_code == ExitCode.OK
    kept = folder / "p.csv.unfinished"
    for before, finished in ((0, 2), (2, len(DEFAULTS) + 1)):
        calls = []
        monkeypatch.setattr(operating, "simulate", interrupted_after(finished - before, calls))
        assert invoke(*command, "p.csv").exit_code == ExitCode.INTERRUPTED
        assert len(list(kept.glob("*.npz"))) == finished
    # A damaged file counts as missing.
    next(kept.glob("*.npz")).write_bytes(b"PK")
    calls = []
    monkeypatch.setattr(operating, "simulate", interrupted_after(-1, calls))
    result = invoke(*command, "p.csv")
    assert result.exit_code == ExitCode.OK
    assert "Going on" in result.stderr
    assert len(calls) == total - (len(DEFAULTS) + 1) + 1
    assert (folder / "p.csv").read_text() == (folder / "whole.csv").read_text()
    assert not kept.exists()


@pytest.mark.parametrize("change", ["seed", "replications", "file", "version"])
def test_after_a_change_a_simulation_starts_again(folder, invoke, monkeypatch, change):
    plan = {"source": None, "plan": {**ASSUMED, "max_pulls": 100}}
    path = file_of(folder, plan)
    command = ["simulate", path, "--scenarios", "--report", "p.html"]
    monkeypatch.setattr(operating, "simulate", interrupted_after(1, []))
    assert invoke(*command).exit_code == ExitCode.INTERRUPTED
    (folder / "p.html.unfinished" / "mine").touch()
    if change == "file":
        path.write_text(path.read_text() + "# another word\n")
    elif change == "version":
        monkeypatch.setattr("fairtrial.cli.commands.simulate.__version__", "0")
    else:
        command += [f"--{change}", "7"]
    calls = []
    monkeypatch.setattr(operating, "simulate", interrupted_after(3, calls))
    result = invoke(*command)
    assert "Starting again" in result.stderr
    assert len(calls) == 3
    # What is not ours stays.
    assert (folder / "p.html.unfinished" / "mine").exists()


def test_the_protocol_and_the_calendar_of_a_file_reach_the_results(folder, document, invoke):
    plan = {
        **ASSUMED,
        "replications": 2,
        "max_pulls": 40,
        "pulls_per_day": 2,
        "delay_days": {"early": 1, "late": 3},
    }
    said = '[protocol]\npopulation = "adults"\nintercurrent_events = { death = "composite" }'
    path = file_of(folder, {"source": None, "plan": plan}, said)
    path.write_text(
        path.read_text().replace(
            "[plan]", "[plan]\nstarts = 2027-01-04\nlooks = [2027-01-14, 8.5]", 1
        )
    )
    found, result = document("simulate", path, "--scenarios")
    assert result.exit_code == ExitCode.OK
    assert found["protocol"] == {"Population": "adults", "Intercurrent event death": "composite"}
    assert (found["delay_days"], found["parallel"]) == (3, 6)
    assert [look["day"] for look in found["rows"][0]["looks"]] == [8.5, 10]
    plain, _ = document("plan", path)
    assert plain["simulated"]["elapsed"]["mean"] > 3
    assert "elapsed days " in invoke("plan", path).stdout


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ("delay_days = 3", "plan.delay_days"),
        ("delay_days = -3\npulls_per_day = 1", "plan.delay_days"),
        ("delay_days = {}\npulls_per_day = 1", "plan.delay_days"),
        ("delay_days = 3\npulls_per_day = 1\nparallel = 4", "plan.parallel"),
        ("looks = [3.0]", "plan.looks"),
        (
            "delay_days = 3\npulls_per_day = 1\nlooks = [2027-01-01]",
            "plan.looks",
        ),
    ],
)
def test_a_calendar_that_lacks_something_is_refused(folder, keys, name):
    path = file_of(folder, {"source": None, "plan": ASSUMED})
    path.write_text(path.read_text().replace("[plan]", f"[plan]\n{keys}", 1))
    with raises(ConfigurationError, places=(name,)):
        load_configuration(path, "simulate")
