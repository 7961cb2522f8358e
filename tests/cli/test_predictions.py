"""Predictions in files and tables."""

import csv
from pathlib import Path

import numpy as np
import pytest

from fairtrial.cli.exits import ExitCode
from fairtrial.study import Study
from tests.cli.configurations import write

PROBLEM = {
    "family": "subpopulations",
    "arms": ["old", "new"],
    "groups": ["f", "m"],
    "reward_range": [0, 1],
    "prediction": [0, 1],
}


def rows(number=250, seed=0):
    """Return rows whose scores explain a third of the variance of rewards."""
    rng = np.random.default_rng(seed)
    found = []
    for day in range(number):
        arm, group = str(rng.choice(["old", "new"])), str(rng.choice(["f", "m"]))
        score = float(rng.choice([0.1, 0.5, 0.9]))
        reward = float(rng.random() < 0.05 + 0.7 * score + 0.2 * (arm == "new"))
        found.append({"arm": arm, "group": group, "score": score, "reward": reward, "day": day})
    return found


def save(path: Path, found):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(found[0]))
        writer.writeheader()
        writer.writerows(found)


def test_a_finished_experiment_is_analysed_with_a_column_of_predictions(folder, document):
    path = write(folder, {"study": {"name": "t"}, "problem": PROBLEM})
    save(folder / "rows.csv", rows())
    options = ["--order", "day", "--outcome", "reward", "--prediction", "score"]
    found, _ = document("analyse", path, "rows.csv", *options)
    assert found["progress"]["predictions"]["groups"][1]["r_squared"] > 0.05


def test_a_file_replays_rows_with_their_predictions(folder, document):
    save(folder / "rows.csv", rows(120))
    source = {"kind": "replay", "table": "rows.csv", "prediction": "score"}
    study = {"name": "t", "storage": "sqlite:///t.db", "seed": 1}
    path = write(folder, {"study": study, "problem": PROBLEM, "source": source})
    document("run", path, "--pulls", 30)
    with Study.open("sqlite:///t.db", "t") as kept:
        asks = [event for event in kept.events() if event.kind == "ask"]
        assert {ask.body["context"]["prediction"] for ask in asks} == {0.1, 0.5, 0.9}
        interrupted = kept.progress().told
    assert interrupted == 30
    # What comes after an interruption is what would have come without it.
    document("run", path, "--pulls", 10)
    sections = {"study": {**study, "name": "whole"}, "problem": PROBLEM, "source": source}
    document("run", write(folder, sections), "--pulls", 40)
    with Study.open("sqlite:///t.db", "t") as kept, Study.open("sqlite:///t.db", "whole") as whole:
        assert kept.policy.progress().to_dict() == whole.policy.progress().to_dict()
        assert kept.verify().ok


@pytest.mark.parametrize(
    ("problem", "source", "place"),
    [
        (PROBLEM, {}, "source.prediction: must name the column"),
        (PROBLEM, {"prediction": "sore"}, "source.prediction: must be a column"),
        (PROBLEM, {"prediction": "arm"}, "source.prediction: line 2"),
        (
            {key: own for key, own in PROBLEM.items() if key != "prediction"},
            {"prediction": "score"},
            "source.prediction: must be left out",
        ),
    ],
)
def test_a_source_must_fit_the_predictions_of_its_problem(folder, invoke, problem, source, place):
    save(folder / "rows.csv", rows(40))
    sections = {"problem": problem, "source": {"kind": "replay", "table": "rows.csv", **source}}
    path = write(folder, {"study": {"name": "t"}, **sections})
    assert place in invoke("run", path).output


def test_a_plan_on_replayed_rows_uses_their_predictions(folder, document, invoke):
    save(folder / "rows.csv", rows(200))
    source = {"kind": "replay", "table": "rows.csv", "prediction": "score"}
    sections = {"study": {"name": "t"}, "problem": PROBLEM, "source": source}
    plan = {"replications": 2, "max_pulls": 60}
    found, _ = document("plan", write(folder, {**sections, "plan": plan}))
    assert found
    said = invoke("plan", write(folder, {**sections, "plan": {**plan, "std": 0.2}})).output
    assert "plan.std: must be left out" in said


MEASURED = {
    "family": "subpopulations",
    "arms": ["old", "new"],
    "groups": ["f", "m"],
    "measures": {"cured": [0, 1], "harmed": [0, 1]},
    "objective": "cured",
    "ceilings": [{"measure": "harmed", "bound": 0.5}],
    "prediction": {"cured": [0, 1], "harmed": [0, 2]},
}


def by_hand(folder, invoke, problem):
    """Create a study that is carried out by hand; return its file."""
    study = {"name": "t", "storage": "sqlite:///t.db", "seed": 1}
    path = write(folder, {"study": study, "problem": problem})
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    return path


def contexts():
    """Return what was recorded with each pull, in order."""
    with Study.open("sqlite:///t.db", "t") as kept:
        return [event.body["context"] for event in kept.events() if event.kind == "ask"]


def test_a_prediction_is_given_by_hand_before_the_arm_is_known(folder, invoke, document):
    path = by_hand(folder, invoke, PROBLEM)
    first, _ = document("study", "ask", path, "--group", "f", "--prediction", "-0.25", "--unit", 7)
    again, _ = document("study", "ask", path, "--group", "f", "--prediction", "0.9", "--unit", 7)
    assert again["pulls"] == first["pulls"]
    assert contexts() == [{"group": "f", "prediction": -0.25}]


def test_predictions_of_measures_are_given_by_name(folder, invoke, document):
    path = by_hand(folder, invoke, MEASURED)
    given = ["--prediction", "cured=0.4", "--prediction", "harmed=1.5"]
    document("study", "ask", path, "--group", "m", *given)
    assert contexts() == [{"group": "m", "prediction": {"cured": 0.4, "harmed": 1.5}}]


@pytest.mark.parametrize(
    ("problem", "options", "said"),
    [
        (PROBLEM, ["--group", "f"], "must be given"),
        (PROBLEM, ["--group", "f", "--prediction", "high"], "--prediction must be a number"),
        (PROBLEM, ["--prediction", "0.5"], "group must be given"),
        (PROBLEM, ["-n", "2", "--group", "f", "--prediction", "0.5"], "n must be 1"),
        (MEASURED, ["--group", "f", "--prediction", "0.5"], "by its name"),
        (MEASURED, ["--group", "f", "--prediction", "cured=0.5"], "prediction[harmed]"),
        (MEASURED, ["--group", "f", "--prediction", "cure=0.5"], "each prediction once"),
        (MEASURED, ["--group", "f", *["--prediction", "cured=0.5"] * 2], "each prediction once"),
        ({**PROBLEM, "prediction": None}, ["--group", "f", "--prediction", "0.5"], "no prediction"),
    ],
)
def test_a_prediction_that_cannot_be_used_is_refused_and_nothing_is_issued(
    folder, invoke, problem, options, said
):
    own = {key: value for key, value in problem.items() if value is not None}
    path = by_hand(folder, invoke, own)
    done = invoke("study", "ask", path, *options)
    assert done.exit_code == ExitCode.USAGE
    assert said in " ".join(done.output.split())
    assert contexts() == []


def test_a_table_of_units_has_their_predictions(folder, invoke, document):
    path = by_hand(folder, invoke, PROBLEM)
    Path("units.csv").write_text("unit,group,prediction\nann,f,0.2\nbob,m,0.9\n")
    done, _ = document("study", "ask", path, "--units", "units.csv", "--csv", "pulls.csv")
    assert [pull["unit"] for pull in done["pulls"]] == ["ann", "bob"]
    expected = [{"group": "f", "prediction": 0.2}, {"group": "m", "prediction": 0.9}]
    assert contexts() == expected
    document("study", "ask", path, "--units", "units.csv")
    assert contexts() == expected


def test_a_table_of_units_can_have_a_column_for_each_measure(folder, invoke, document):
    stated = {name: {"range": [0, 2], "missing": "mean"} for name in ("cured", "harmed")}
    path = by_hand(folder, invoke, {**MEASURED, "prediction": stated})
    table = "unit,group,prediction.cured,prediction.harmed\nann,f,0.2,1\nbob,m,0.9,\n"
    Path("units.csv").write_text(table)
    document("study", "ask", path, "--units", "units.csv")
    assert contexts() == [
        {"group": "f", "prediction": {"cured": 0.2, "harmed": 1.0}},
        {"group": "m", "prediction": {"cured": 0.9}},
    ]


@pytest.mark.parametrize(
    ("rows_of_table", "place"),
    [
        ("ann,f,0.2\nbob,m,\n", "--units, line 3: prediction"),
        ("ann,f,0.2\nann,f,0.3\n", "--units, line 3"),
        ("ann,f,0.2\nbob,m,high\n", "line 3"),
    ],
)
def test_a_table_with_a_prediction_that_cannot_be_used_is_refused_whole(
    folder, invoke, rows_of_table, place
):
    path = by_hand(folder, invoke, PROBLEM)
    Path("units.csv").write_text("unit,group,prediction\n" + rows_of_table)
    done = invoke("study", "ask", path, "--units", "units.csv")
    assert done.exit_code == ExitCode.USAGE
    assert place in " ".join(done.output.split())
    assert contexts() == []


def test_measures_are_analysed_and_replayed_with_their_predictions(folder, invoke, document):
    rng = np.random.default_rng(1)
    found = [
        {
            **row,
            "cured": row["reward"],
            "harmed": float(rng.random() < 0.2),
            "risk": 0.2 + place % 2,
        }
        for place, row in enumerate(rows(250))
    ]
    save(folder / "rows.csv", found)
    path = write(folder, {"study": {"name": "t"}, "problem": MEASURED})
    given = ["--prediction", "cured=score", "--prediction", "harmed=risk"]
    analysed, _ = document("analyse", path, "rows.csv", "--order", "day", *given)
    explained = analysed["progress"]["predictions"]["groups"]
    assert [one["measure"] for one in explained] == ["cured", "cured", "harmed", "harmed"]
    assert explained[0]["r_squared"] > 0.1
    done = invoke("analyse", path, "rows.csv", "--order", "day", "--prediction", "score")
    assert done.exit_code == ExitCode.USAGE
    columns = {"cured": "score", "harmed": "risk"}
    source = {"kind": "replay", "table": "rows.csv", "prediction": columns}
    study = {"name": "t", "storage": "sqlite:///t.db", "seed": 1}
    document(
        "run", write(folder, {"study": study, "problem": MEASURED, "source": source}), "--pulls", 30
    )
    known = [context["prediction"] for context in contexts()]
    assert {one["cured"] for one in known} == {0.1, 0.5, 0.9}
    assert {one["harmed"] for one in known} == {0.2, 1.2}


def test_features_predict_each_measure_anew(folder, document):
    rng = np.random.default_rng(1)
    found = [
        {**row, "cured": row["reward"], "harmed": float(rng.random() < 0.2)} for row in rows(250)
    ]
    save(folder / "rows.csv", found)
    path = write(folder, {"study": {"name": "t"}, "problem": MEASURED})
    analysed, _ = document("analyse", path, "rows.csv", "--order", "day", "--feature", "score")
    explained = analysed["progress"]["predictions"]["groups"]
    assert [one["measure"] for one in explained] == ["cured", "cured", "harmed", "harmed"]
    assert explained[0]["r_squared"] > 0.05
