"""`fairtrial plan --pilot`: what a column of a pilot explains, and the pulls that it saves."""

from types import SimpleNamespace

import numpy as np
import pytest

from fairtrial.cli import ExitCode
from fairtrial.cli.pilot import read_pilot
from tests.cli.configurations import write
from tests.cli.test_predictions import MEASURED, PROBLEM, rows, save
from tests.effort import runs

PLAN = {"means": [[0.3, 0.3], [0.6, 0.6]], "r_squared": 0.1, "replications": 20}
WITHIN = SimpleNamespace(predictions={"reward": SimpleNamespace(range=(0.0, 1.0))})


@pytest.fixture
def path(folder):
    return write(folder, {"study": {"name": "t"}, "problem": PROBLEM, "plan": PLAN})


def explained(found):
    """Return the adjusted share that a regression with a mean for each cell explains."""
    cells = sorted({(row["arm"], row["group"]) for row in found})
    design = np.array([[(row["arm"], row["group"]) == cell for cell in cells] for row in found])
    score = np.array([row["score"] for row in found])
    reward = np.array([row["reward"] for row in found])

    def left(columns):
        return float(np.linalg.lstsq(columns, reward, rcond=None)[1][0])

    freedom = len(found) - len(cells)
    before, after = left(design.astype(float)), left(np.column_stack([design, score]))
    return 1.0 - (after / (freedom - 1)) / (before / freedom)


def test_a_pilot_says_what_its_column_explains_and_the_plan_uses_it(path, folder, document, invoke):
    save(folder / "pilot.csv", rows(400))
    options = ["--pilot", "pilot.csv", "--prediction", "score", "--outcome", "reward"]
    found, result = document("plan", path, *options)
    assert result.exit_code == ExitCode.OK
    pilot = found["pilot"]
    assert pilot["r_squared"] == pytest.approx(explained(rows(400)), rel=1e-9, abs=0.0)
    assert pilot["lower"] < pilot["r_squared"] < pilot["upper"]
    assert (pilot["column"], pilot["rows"]) == ("score", 400)
    assert pilot["saved"] == pytest.approx(1.0 - pilot["pulls"] / pilot["pulls_without"])
    assert pilot["saved_lower"] < pilot["saved"] < pilot["saved_upper"]
    assert pilot["saved_upper"] > 0.05
    said = invoke("plan", path, *options).stdout
    assert "'score' explains" in said
    assert "without the prediction" in said


def test_rows_without_a_prediction_or_an_outcome_are_left_out(folder):
    found = rows(100)
    blank = [{**row, "reward": ""} for row in rows(9, seed=1)]
    save(folder / "pilot.csv", [*found, *blank, {**found[0], "score": ""}])
    pilot = read_pilot(folder / "pilot.csv", WITHIN, "score", "reward")
    save(folder / "whole.csv", found)
    assert pilot == read_pilot(folder / "whole.csv", WITHIN, "score", "reward")
    assert pilot.rows == 100


def test_predictions_are_cut_to_the_range_of_the_problem(folder):
    found = rows(100)
    wild = [{**row, "score": 1e160 if row["score"] > 0.5 else -1e160} for row in found]
    two = [{**row, "score": 1.0 if row["score"] > 0.5 else 0.0} for row in found]
    save(folder / "wild.csv", wild)
    save(folder / "two.csv", two)
    cut = read_pilot(folder / "wild.csv", WITHIN, "score", "reward")
    assert cut == read_pilot(folder / "two.csv", WITHIN, "score", "reward")


@pytest.mark.statistical
def test_a_column_without_relation_explains_nothing_most_of_the_time(folder):
    number = runs(40, whole=400)
    rng = np.random.default_rng(0)
    from_zero = 0
    for _ in range(number):
        found = [{**row, "score": float(rng.random())} for row in rows(60)]
        save(folder / "pilot.csv", found)
        from_zero += read_pilot(folder / "pilot.csv", WITHIN, "score", "reward").lower == 0.0
    # 95 % are expected; four standard deviations of a binomial share.
    assert from_zero / number > 0.95 - 4 * np.sqrt(0.95 * 0.05 / number)


@pytest.mark.parametrize(
    ("change", "options", "argument"),
    [
        ({"score": 0.5}, {}, "--pilot"),
        ({"reward": 1.0}, {}, "--pilot"),
        ({"score": "high"}, {}, "line 2: score"),
        ({}, {"--prediction": "sore"}, "table"),
        ({}, {"--outcome": "outcome"}, "table"),
    ],
)
def test_a_table_that_shows_nothing_is_refused(path, folder, document, change, options, argument):
    save(folder / "pilot.csv", [row | change for row in rows(30)])
    given = {"--pilot": "pilot.csv", "--prediction": "score", "--outcome": "reward"} | options
    found, result = document("plan", path, *[word for pair in given.items() for word in pair])
    assert (result.exit_code, found["error"]["type"]) == (ExitCode.USAGE, "InvalidArgument")
    assert found["error"]["message"].startswith(argument)


def test_a_pilot_needs_a_plan_with_predictions_and_the_name_of_a_column(path, folder, invoke):
    save(folder / "pilot.csv", rows(30))
    assert invoke("plan", path, "--pilot", "pilot.csv").exit_code == ExitCode.USAGE
    assert invoke("plan", path, "--prediction", "score").exit_code == ExitCode.USAGE
    plain = {key: value for key, value in PROBLEM.items() if key != "prediction"}
    means = {"means": PLAN["means"]}
    other = write(folder, {"study": {"name": "t"}, "problem": plain, "plan": means})
    result = invoke("plan", other, "--pilot", "pilot.csv", "--prediction", "score")
    assert result.exit_code == ExitCode.USAGE
    assert "needs a problem with a prediction" in result.stderr


def test_a_pilot_is_about_the_one_measure_that_is_predicted(folder, document, invoke):
    save(folder / "pilot.csv", rows(200))
    means = {"cured": [[0.3, 0.3], [0.7, 0.7]], "harmed": [[0.1, 0.1], [0.1, 0.1]]}
    plan = {"means": means, "r_squared": 0.1, "replications": 5}
    options = ["--pilot", "pilot.csv", "--prediction", "score", "--outcome", "reward"]
    own = {**MEASURED, "prediction": {"cured": [0, 1]}}
    path = write(folder, {"study": {"name": "t"}, "problem": own, "plan": plan})
    found, _ = document("plan", path, *options)
    assert found["pilot"]["r_squared"] > 0.1
    usual, _ = document(
        "plan", write(folder, {"study": {"name": "t"}, "problem": own, "plan": plan})
    )
    # The bound is that of rules which know the predictions.
    assert found["lower_bound"] < usual["lower_bound"]
    path = write(folder, {"study": {"name": "t"}, "problem": MEASURED, "plan": plan})
    assert "--pilot needs a problem with one measure" in invoke("plan", path, *options).output
