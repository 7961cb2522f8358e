"""The examples run, and find the right answer in their environments."""

import contextlib
import re
import shutil
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from fairtrial.cli import ExitCode
from fairtrial.cli.app import app
from fairtrial.races.scoring import Evaluation
from tests import effort
from tests.effort import runs

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_every_example_is_tested():
    here = {"actg175_study.py", "compare_policies.py", "own_policy.py", "passive_arrivals.py"}
    months = {"experimentation_team.py", "masked_trial.py"}
    races = {"six_prompts.py"}
    live = {"solver_settings.py", "tune_a_model.py"}  # in tests/sklearn/test_live.py
    assert {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".toml")} == {
        *here,
        *live,
        *races,
        *months,
        "trial.toml",
        "lending.toml",
        "actg175_plan.toml",
        "clinical_plan.toml",
    }


def test_the_trial_is_decided_audited_and_drawn(load, tmp_path, capsys):
    load("actg175_study").main(tmp_path, dpi=50)
    printed = capsys.readouterr().out
    assert "zdv_ddi" in printed
    assert "ok=True" in printed
    assert {path.name for path in tmp_path.iterdir()} == {
        "trial.db",
        "trial.db-head",
        "trial.db-lock",
        "actg175.html",
        "actg175.png",
    }


def test_the_best_of_six_prompts_is_found_though_the_endpoint_fails(load, tmp_path, monkeypatch):
    monkeypatch.setattr(Evaluation.__init__, "__defaults__", (0.0,))
    example = load("six_prompts")
    # Rarely enough that no request fails three times in a row (one run in 200,000).
    endpoint = example.Endpoint(port=0, failing=0.002)
    thread = threading.Thread(target=endpoint.serve_forever)
    thread.start()
    try:
        result = example.race(tmp_path / "race.db", endpoint.server_address[1])
    finally:
        endpoint.shutdown()
        thread.join()
        endpoint.server_close()
    assert result.best in ("steps", "check")
    assert result.guarantee.label == "proven"
    assert result.evaluations <= endpoint.paid < 2_000


def test_passive_arrivals_find_the_arm_that_fails_nobody(load):
    answer = load("passive_arrivals").main()
    assert answer.arm == "new drug"
    assert answer.guarantee.proven


def test_a_policy_of_ones_own_runs_in_a_simulation_and_in_a_study(load, capsys):
    result = load("own_policy").main(replications=10)
    assert result.correct.all()
    assert "green True" in capsys.readouterr().out


def test_the_comparison_holds_every_policy_against_the_bound(load):
    results = load("compare_policies").main(replications=10)
    means = {name: result.stopping_time.mean() for name, result in results.items()}
    assert means["BlockBetting (proven)"] < means["BalancedTracking (proven)"]
    assert all(result.summary().ratio > 1 for result in results.values())


def test_the_configuration_runs(tmp_path):

    text = (EXAMPLES / "trial.toml").read_text(encoding="utf-8")
    table = '"../src/fairtrial/data/actg175/actg175.csv.gz"'
    assert table in text
    shutil.copy((EXAMPLES / table.strip('"')).resolve(), tmp_path)
    file = tmp_path / "trial.toml"
    file.write_text(text.replace(table, '"actg175.csv.gz"'), encoding="utf-8")
    done = CliRunner().invoke(app, ["run", str(file), "--pulls", "100"])
    assert done.exit_code == ExitCode.NO_ANSWER, done.output
    assert "100 results" in done.output


def test_the_lending_rules_are_planned_simulated_and_run(tmp_path):

    shutil.copy(EXAMPLES / "lending.toml", tmp_path)
    file = str(tmp_path / "lending.toml")
    planned = CliRunner().invoke(app, ["plan", file])
    assert planned.exit_code == ExitCode.OK, planned.output
    assert "income" in planned.output
    assert "Proven after" in planned.output
    done = CliRunner().invoke(app, ["run", file, "--pulls", "100"])
    assert done.exit_code == ExitCode.NO_ANSWER, done.output
    assert "100 results" in done.output


def test_the_plan_of_a_trial_has_its_scenarios(tmp_path):

    page = tmp_path / "plan.html"
    arguments = ["simulate", str(EXAMPLES / "actg175_plan.toml"), "--scenarios", "--report", page]
    result = CliRunner().invoke(app, [*map(str, arguments), "--replications", "2"])
    assert result.exit_code == ExitCode.OK, result.output
    assert "two good arms" in page.read_text(encoding="utf-8")


def test_the_plan_of_a_clinical_trial_answers_what_a_board_asks(tmp_path):

    text = (EXAMPLES / "clinical_plan.toml").read_text(encoding="utf-8")
    short = text.replace("max_pulls = 900", "max_pulls = 60")
    assert short != text
    (tmp_path / "plan.toml").write_text(short, encoding="utf-8")
    page = tmp_path / "plan.html"
    arguments = ["simulate", tmp_path / "plan.toml", "--scenarios", "--report", page]
    result = CliRunner().invoke(app, [*map(str, arguments), "--replications", "2"])
    assert result.exit_code == ExitCode.OK, result.output
    report = page.read_text(encoding="utf-8")
    assert "dropouts are assumed to be independent of the outcome" in report
    assert "Where to find what" in report


def invoked(command, *, cwd, **_):
    """Do what `subprocess.run` does with a command of the package, but in this process."""
    with contextlib.chdir(cwd):
        result = CliRunner().invoke(app, command[3:])
    return subprocess.CompletedProcess(command, result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def load_month(load, monkeypatch):
    """Return a function that imports an example; its commands start processes under `--long`."""

    def loaded(name):
        example = load(name)
        if not effort.long:
            own = SimpleNamespace(**{**vars(subprocess), "run": invoked})
            monkeypatch.setattr(example, "subprocess", own)
        return example

    return loaded


def test_an_experimentation_team_goes_from_a_messy_table_to_a_decision_by_the_service(
    load_month, tmp_path, capsys
):
    most = runs(150, whole=3_000)
    found = load_month("experimentation_team").main(tmp_path, users=2_000, most=most)
    if most == 3_000:
        assert (found["answer"]["status"], found["answer"]["arm"]) == ("decided", "new")
    assert found["verified"]["ok"]
    assert (found["killed"], found["corrected"]) == (1, True)
    assert found["same_again"] > 20
    printed = capsys.readouterr().out
    for said in ("line 2 must be a number or a date", "in several variants", "'crawler' 500"):
        assert said in printed
    assert {"spring.html", "live.html"} <= {path.name for path in tmp_path.iterdir()}


def test_a_masked_trial_goes_from_its_kits_to_its_final_report(load_month, tmp_path, capsys):
    days = runs(40, whole=400)
    answer = load_month("masked_trial").main(tmp_path, plan=False, days=days)
    if days == 400:
        assert (answer.status, answer.arm) == ("decided", "C")
    assert answer.guarantee.proven
    printed = capsys.readouterr().out
    assert re.search(r"Health +1 open, \d+ lost", printed)
    assert "none altered" in printed
    assert re.search(r"C\W+20 mg", printed)
    assert not (tmp_path / "names.csv").exists()
