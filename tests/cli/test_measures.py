"""An experiment with several measures, from a file: run, simulated, carried out by hand."""

import re

import pytest
from click.testing import CliRunner

from fairtrial.cli.app import app
from fairtrial.cli.config import load_configuration
from fairtrial.errors import ConfigurationError
from fairtrial.study import Study

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
    ("old", "new", "mistake"),
    [
        ('harmed = "tox"', 'rash = "tox"', "source.reward: must give columns of the measures"),
        ('{ harmed = "tox" }', '"tox"', "source.reward: must be a table by measure"),
        ('"tox"', '"toxic"', "source.harmed: must be a column of rows.csv"),
        ("harmed = 0.3", "rash = 0.3", "must be of a measure of ['cured', 'harmed']"),
        ('objective = "cured"', 'objective = "rash"', "problem.objective: must name a measure"),
    ],
)
def test_mistakes_in_a_file_are_named(folder, old, new, mistake) -> None:
    text = FILE + REPLAYED
    assert old in text
    with pytest.raises(ConfigurationError, match=re.escape(mistake)):
        load_configuration(_file(folder, text.replace(old, new)), "run")


def test_means_that_lack_a_measure_are_refused(folder) -> None:
    text = FILE + SIMULATED.replace(", harmed = { low = [0.05], high = [0.1] }", "")
    with pytest.raises(ConfigurationError, match=r"source.means.harmed: is required"):
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
    refused = run(app, [*tell, "harmed=7"])
    assert refused.exit_code != 0
    assert "harmed must be in [0, 1]" in refused.output
    assert run(app, [*tell, "harmed=missing"]).exit_code == 0
    amended = run(app, ["study", "amend", "dose", pull, *where, "harmed=0", "--reason", "found"])
    assert amended.exit_code == 0, amended.output
    shown = run(app, ["study", "show", "dose", *where])
    assert "harmed" in shown.output


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
    assert "Never will be known" in shown
