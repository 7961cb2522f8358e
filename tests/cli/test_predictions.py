"""Predictions in files and tables."""

import csv
from pathlib import Path

import numpy as np

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
    assert found["progress"]["details"]["prediction"]["groups"]["m"]["r_squared"] > 0.05
