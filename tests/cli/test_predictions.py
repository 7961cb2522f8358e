"""Predictions in files and tables."""

import csv
from pathlib import Path

import numpy as np
import pytest

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
        assert kept.progress().to_dict() == whole.progress().to_dict()
        assert kept.verify().ok


@pytest.mark.parametrize(
    ("problem", "source", "place"),
    [
        (PROBLEM, {}, "source.prediction: is required"),
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
