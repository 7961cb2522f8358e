"""What a plate shows: the conditions of its wells, and the blocks of a paired race."""

import csv
import json
from pathlib import Path

import pytest

from fairtrial import delayed
from fairtrial.cli import ExitCode
from fairtrial.study import Study
from tests.cli.configurations import write

RACE = {
    "study": {"name": "race", "storage": "sqlite:///race.db", "seed": 7},
    "problem": {"family": "delayed", "arms": ["a", "b"], "reward_range": [0, 1]},
    "policy": {"name": "PairedRacing", "delta": 0.05},
}


def rows_of(path):
    with Path(path).open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("more", ["", ",arm"])
def test_conditions_that_are_all_numbers_are_on_the_plate(folder, invoke, document, more):
    rows = [f"1,{heat},{share}" for heat in (90, 105, 120) for share in (0.1, 0.25)]
    own = [f",w{at}" if more else "" for at in range(len(rows))]
    lines = [f"one,temp,conc{more}", *(row + arm for row, arm in zip(rows, own, strict=True))]
    (folder / "conditions.csv").write_text("\n".join(lines) + "\n")
    sections = {
        "study": {"name": "heat", "storage": "sqlite:///heat.db", "seed": 1},
        "problem": {"family": "linear", "features": "conditions.csv", "reward_range": [0, 1]},
    }
    path = write(folder, sections)
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    assert invoke("study", "ask", path, "-n", 6, "--csv", "plate.csv").exit_code == ExitCode.OK
    plate = rows_of("plate.csv")
    assert {(row["one"], row["temp"], row["conc"]) for row in plate} == {
        tuple(row.split(",")) for row in rows
    }
    for row in plate:
        assert (
            row["arm"].startswith("w") if more else row["arm"] == f"1 {row['temp']} {row['conc']}"
        )
    shown, _ = document("study", "outstanding", path)
    assert {pull["conditions"]["temp"] for pull in shown["pulls"]} == {90.0, 105.0, 120.0}


def test_the_block_of_a_paired_pull_is_on_plate_and_in_json(folder, invoke, document):
    path = write(folder, RACE)
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    asked, _ = document("study", "ask", path, "-n", 6, "--csv", "plate.csv")
    assert [pull["block"] for pull in asked["pulls"]] == [0, 0, 1, 1, 2, 2]
    plate = rows_of("plate.csv")
    assert [row["block"] for row in plate] == ["0", "0", "1", "1", "2", "2"]
    assert "block" in invoke("study", "outstanding", path).stdout
    for row in plate:
        row["value"] = "0.5"
    with Path("plate.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(plate[0]))
        writer.writeheader()
        writer.writerows(plate)
    told, _ = document("study", "tell", path, "plate.csv")
    assert told["told"] == 6


def test_a_command_gets_the_block_of_a_paired_pull(folder, invoke):
    run = "echo {arm} {block} $FAIRTRIAL_BLOCK >> blocks.txt; echo 0.5"
    path = write(folder, RACE | {"source": {"kind": "command", "run": run}})
    assert invoke("run", path, "--pulls", 4).exit_code in (ExitCode.OK, ExitCode.NO_ANSWER)
    lines = [line.split() for line in (folder / "blocks.txt").read_text().splitlines()]
    assert [(own, variable) for _, own, variable in lines] == [(b, b) for b in "0011"]


def test_pulls_have_blocks_only_where_they_are_compared_by_blocks():
    problem = delayed.Problem(["a", "b"], reward_range=(0, 1))
    for policy, blocks in (
        (delayed.PairedRacing(problem), [0, 0]),
        (delayed.BlockBetting(problem), [None, None]),
    ):
        study = Study.create(problem, policy, storage="memory://", name="blocks")
        assert [pull.block for pull in study.ask(2)] == blocks
        assert json.dumps([pull.block for pull in study.outstanding()]) == json.dumps(blocks)


def test_show_and_report_tell_what_was_measured_from_what_is_predicted(folder, invoke, document):
    lines = [f"{heat},{time}" for heat in range(1, 7) for time in range(1, 7)]
    (folder / "conditions.csv").write_text("\n".join(["heat,time", *lines]) + "\n")
    sections = {
        "study": {"name": "heat", "storage": "sqlite:///heat.db", "seed": 1},
        "problem": {"family": "linear", "features": "conditions.csv", "reward_range": [0, 100]},
    }
    path = write(folder, sections)
    invoke("study", "create", path)
    with Study.open("sqlite:///heat.db", name="heat") as study:
        told = {}
        for pull in study.ask(8):
            told.setdefault(pull.arm, []).append(10.0 * len(told) + 5.0)
            study.tell(pull, told[pull.arm][-1])
        arms = {one.labels["arm"]: one for one in study.progress().actions}
    for arm, one in arms.items():
        assert one.predicted
        assert one.pulls == len(told.get(arm, []))
        mean = sum(told[arm]) / len(told[arm]) if arm in told else None
        assert one.own_mean == (mean if mean is None else pytest.approx(mean))
    shown = invoke("study", "show", path).stdout
    assert "own mean" in shown
    assert "predicted" in shown
    for arm in told:
        assert arm in shown
    assert invoke("study", "report", path, "--out", "report.html").exit_code == ExitCode.OK
    page = Path("report.html").read_text(encoding="utf-8")
    assert "Own mean" in page
    assert "Predicted" in page
