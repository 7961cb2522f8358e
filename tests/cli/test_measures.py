"""An experiment with several measures, from a file: run, simulated, carried out by hand."""

import json
import re

import pytest
from click.testing import CliRunner

from fairtrial.cli.app import app
from fairtrial.cli.config import load_configuration
from fairtrial.errors import ConfigurationError
from fairtrial.study import Study
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

FILE = """
[study]
name = "dose"
storage = "sqlite:///dose.db"
seed = 7
[problem]
family = "subpopulations"
arms = ["low", "high"]
groups = 1
measures = { cured = [0, 1], harmed = [0, 1] }
objective = "cured"
ceilings = { harmed = 0.3 }
[policy]
delta = 0.1
"""
SIMULATED = """
[source]
kind = "simulate"
correlation = 0.1
means = { cured = { low = [0.3], high = [0.8] }, harmed = { low = [0.05], high = [0.1] } }
"""
REPLAYED = """
[source]
kind = "replay"
table = "rows.csv"
reward = { harmed = "tox" }
"""
ROWS = "arm,cured,tox\nlow,0,0\nlow,1,\nlow,0,0\nhigh,1,0\nhigh,1,1\nhigh,1,0\nhigh,1,0\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(ROWS)
    return tmp_path


def _file(folder, text):
    path = folder / "trial.toml"
    path.write_text(text)
    return path


def test_a_simulated_source_has_means_by_measure(folder) -> None:
    environment = load_configuration(_file(folder, FILE + SIMULATED), "run").environment
    assert environment.cell_means.tolist() == [[[0.3, 0.05]], [[0.8, 0.1]]]
    assert environment.truth.best == "high"


def test_a_replayed_source_has_a_column_for_each_measure(folder) -> None:
    configuration = load_configuration(_file(folder, FILE + REPLAYED), "run")
    assert configuration.environment.cell_means.tolist() == [[[1 / 3, 0.0]], [[1.0, 0.25]]]
    assert configuration.rows == "7 rows of rows.csv"


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ('harmed = "tox"', 'rash = "tox"', "source.reward"),
        ('{ harmed = "tox" }', '"tox"', "source.reward"),
        ('"tox"', '"toxic"', "source.harmed"),
        ("harmed = 0.3", "rash = 0.3", "problem.ceilings[rash]"),
        ('objective = "cured"', 'objective = "rash"', "problem.objective"),
    ],
)
def test_mistakes_in_a_file_are_named(folder, old, new, name) -> None:
    text = FILE + REPLAYED
    assert old in text
    with raises(ConfigurationError, places=(name,)):
        load_configuration(_file(folder, text.replace(old, new)), "run")


def test_means_that_lack_a_measure_are_refused(folder) -> None:
    text = FILE + SIMULATED.replace(", harmed = { low = [0.05], high = [0.1] }", "")
    with raises(ConfigurationError, places=("source.means.harmed",)):
        load_configuration(_file(folder, text), "run")


def test_results_are_told_by_hand_measure_by_measure(folder) -> None:
    path = _file(folder, FILE)
    run = CliRunner().invoke
    where = ["--storage", "sqlite:///dose.db"]
    assert run(app, ["study", "create", str(path)]).exit_code == 0
    asked = run(app, ["study", "ask", "dose", *where, "--json"])
    pull = re.search(r"[0-9a-f]{32}", asked.output)[0]
    tell = ["study", "tell", "dose", pull, *where]
    assert run(app, [*tell, "cured=1"]).exit_code == 0
    early = ["study", "amend", "dose", pull, *where, "cured=0", "--reason", "wrong line"]
    assert run(app, early).exit_code == 0
    assert run(app, [*early[:-3], "cured=1", "--reason", "right before"]).exit_code == 0
    refused = run(app, [*tell, "harmed=7"])
    assert refused.exit_code != 0
    assert "harmed must be in [0, 1]" in refused.output
    assert run(app, [*tell, "harmed=missing"]).exit_code == 0
    amended = run(app, ["study", "amend", "dose", pull, *where, "harmed=0", "--reason", "found"])
    assert amended.exit_code == 0, amended.output
    shown = run(app, ["study", "show", "dose", *where])
    assert "harmed" in shown.output


def test_a_measure_that_was_told_early_is_taken_back_by_hand(folder) -> None:
    _file(folder, FILE)
    run, where = CliRunner().invoke, ("--storage", "sqlite:///dose.db")
    assert run(app, ["study", "create", "trial.toml"]).exit_code == 0
    asked = run(app, ["study", "ask", "dose", *where, "--json"])
    pull = json.loads(asked.stdout)["pulls"][0]["pull_id"]
    assert run(app, ["study", "tell", "dose", pull, *where, "harmed=1"]).exit_code == 0
    back = ["study", "amend", "dose", pull, *where, "harmed=missing", "--reason", "other patient"]
    assert run(app, back).exit_code == 0
    with Study.open("sqlite:///dose.db", "dose") as study:
        assert study.policy.reported(study.outstanding()[0]) is None
    shown = " ".join(run(app, ["study", "history", "dose", *where]).stdout.split())
    assert "harmed=missing" in shown
    assert "other patient (before: harmed=1)" in shown
    assert run(app, ["study", "tell", "dose", pull, *where, "harmed=0", "cured=1"]).exit_code == 0


def test_missing_values_are_shown_by_cell_and_measure(folder) -> None:
    path = _file(folder, FILE.replace("delta = 0.1", "delta = 1e-9"))
    run, where = CliRunner().invoke, ["--storage", "sqlite:///dose.db"]
    assert run(app, ["study", "create", str(path)]).exit_code == 0
    with Study.open("sqlite:///dose.db", "dose") as study:
        for _ in range(40):
            pull = study.ask()
            study.tell(pull, {"cured": 1, "harmed": None if pull.arm == "high" else 0})
    shown = run(app, ["study", "show", "dose", *where]).output
    assert "Missing values" in shown
    assert re.search(r"high +│? *0 +│? *harmed", shown)
    assert "Will never be known" in shown


BESIDE = FILE.replace("delta = 0.1", "delta = 1e-9").replace(
    "ceilings = { harmed = 0.3 }",
    """
direction = { harmed = "minimize" }
control = "low"
superiority = 0.0
margin = [{ measure = "harmed", bound = 0.1 }, { measure = "cured", overall = true, bound = 0.2 }]
""",
)


def test_limits_against_a_control_are_read_and_shown(folder) -> None:
    path = _file(folder, BESIDE + SIMULATED)
    problem = load_configuration(path, "run").problem
    rows = [(row.measure, row.group, row.is_floor, row.control) for row in problem.limit_rows]
    assert rows == [(1, 0, False, 0), (0, None, True, 0), (0, None, True, 0)]
    run, where = CliRunner().invoke, ["--storage", "sqlite:///dose.db"]
    assert run(app, ["study", "create", str(path)]).exit_code == 0
    with Study.open("sqlite:///dose.db", "dose") as study:
        for _ in range(40):
            pull = study.ask()
            study.tell(pull, {"cured": 1, "harmed": int(pull.arm == "high")})
    shown = run(app, ["study", "show", "dose", *where]).output
    assert "Limits of measures against the control" in shown
    assert re.search(r"at most 0\.1", shown)
    said = run(app, ["study", "show", "dose", *where, "--json"]).output
    limits = json.loads(said)["progress"]["measure_limits"]
    assert {(one["arm"], one["control"]) for one in limits} == {("high", "low")}


# ------------------------------------------------------------------------------ commands


def _commanded(folder, script, source="", policy="max_pulls = 4"):
    (folder / "measure.sh").write_text(script)
    text = FILE.replace("delta = 0.1", f"delta = 0.1\n{policy}")
    text += f'[source]\nkind = "command"\nrun = "sh measure.sh {{arm}} {{pull}}"\n{source}'
    return _file(folder, text)


def _ended(path, *options):
    result = CliRunner().invoke(app, ["run", str(path), *options])
    with Study.open("sqlite:///dose.db", "dose") as study:
        assert study.verify().ok
        return result, list(study.events()), study.outstanding()


@pytest.mark.parametrize("parallel", ["1", "3"])
def test_a_command_prints_measures_line_by_line(folder, parallel) -> None:
    script = """
    echo starting; echo '{"cured": 1}'; sleep 0.3; echo 'half way'
    if [ $1 = high ]; then echo '{"harmed": null}'; else echo '{"harmed": 0}'; fi
    """
    path = _commanded(folder, script)
    result, events, waiting = _ended(path, "--parallel", parallel)
    told = [event.outcome for event in events if event.kind == "tell"]
    assert len(told) == 4, result.output
    assert {"cured": 1.0, "harmed": 0.0} in told
    assert {"cured": 1.0, "harmed": None} in told
    # The last value may be read just before the command ends; then it is reported as well.
    reported = [event.outcome for event in events if event.kind == "report"]
    assert reported.count({"cured": 1.0}) == 4
    assert waiting == []


def test_what_a_command_leaves_out_is_told_by_hand(folder) -> None:
    path = _commanded(folder, "echo '{\"cured\": 1}'\n")
    _, events, waiting = _ended(path, "--pulls", "2")
    assert [event.kind for event in events].count("report") == 2
    pull = waiting[0].id
    told = CliRunner().invoke(
        app, ["study", "tell", "dose", pull, "--storage", "sqlite:///dose.db", "harmed=0"]
    )
    assert told.exit_code == 0, told.output
    _, events, waiting = _ended(path, "--pulls", "1")
    assert [event.kind for event in events].count("report") == 3
    assert len(waiting) == 2
    assert "fail" not in {event.kind for event in events}


@pytest.mark.parametrize(
    ("line", "about"),
    [
        ("echo hello", "printed no line with a measure"),
        ("echo 0.5", "printed no line with a measure"),
        ("echo '{\"rash\": 1}'", "only measures of"),
        ("echo '{\"cured\": 7}'", "must be in [0, 1]"),
        ("echo '{\"cured\": NaN}'", "must be finite"),
        ("echo '{cured: 1}'", "is not a JSON object"),
        ('echo \'{"cured": 1, "harmed": 0}\'; exit 3', "exited with code 3"),
        ("echo '{\"harmed\": 0}'; echo '{\"harmed\": 1}'", "another value of harmed before"),
    ],
)
def test_a_command_whose_measures_are_refused_is_named(folder, line, about) -> None:
    result, events, _ = _ended(_commanded(folder, f"{line}\n"))
    said = re.sub(r"\s+", " ", result.output)
    assert result.exit_code != 0
    assert about in said
    assert not any(event.kind == "tell" for event in events)


def test_a_command_that_fails_before_it_said_anything_is_started_again(folder) -> None:
    script = 'test -e once_$2 && echo \'{"cured": 1, "harmed": 0}\' || { touch once_$2; exit 1; }\n'
    _, events, _ = _ended(_commanded(folder, script, "retries = 1\n"))
    assert [event.kind for event in events].count("tell") == 4
    assert not any(event.kind == "fail" for event in events)


def test_a_command_that_fails_half_way_loses_its_pull_and_not_what_it_reported(folder) -> None:
    script = """
    echo '{"cured": 1}'; test $2 = 1 && sleep 0.5 && exit 1; echo '{"harmed": 0}'
    """
    _, events, _ = _ended(_commanded(folder, script, "retries = 1\n"))
    (lost,) = (event.pull_id for event in events if event.kind == "fail")
    reported = [event for event in events if event.kind == "report"]
    assert [event.outcome for event in reported if event.pull_id == lost] == [{"cured": 1.0}]


def test_history_shows_every_measure_and_what_a_correction_replaced(folder, invoke):
    problem = Problem(
        ["a", "b"], 1, measures={"cured": (0, 1), "harmed": (0, 1)}, objective="cured"
    )
    address = f"sqlite:///{folder / 'measured.db'}"
    policy = BlockBetting(problem)
    with Study.create(problem, policy, storage=address, name="ward", seed=1) as study:
        pull = study.ask()
        study.tell_known(pull, {"harmed": 0.25}, actor="nurse")
        study.tell_known(pull, {"cured": None}, actor="nurse")
        study.amend(pull, {"harmed": 0.75}, "typing error", actor="doctor")
    shown = invoke("study", "history", "ward", "--storage", address).stdout
    reported, told, amended = map(shown.index, ("report", "tell", "amend"))
    assert "harmed=0.25" in shown[reported:told]
    assert {"cured=missing", "harmed=0.25", "nurse"} <= set(shown[told:amended].split())
    assert {"harmed=0.75", "doctor", "(before:", "harmed=0.25)"} <= set(shown[amended:].split())
