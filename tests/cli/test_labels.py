"""Labels can be any text: on a terminal, in a table and in a file they are data."""

import csv
import re

import pytest

from fairtrial.cli import ExitCode
from tests.cli.configurations import replayed, write

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m"
FORMULA = "=cmd|' /c calc'!A1"
TURNED = "\u202eevil\u2066"
ARMS = [ESCAPE, FORMULA, TURNED, "two\nlines"]
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def named(folder, invoke):
    """A finished study whose arms have hostile names."""
    problem = {
        "family": "subpopulations",
        "arms": ARMS,
        "groups": {ESCAPE: 0.5, "y": 0.5},
        "reward_range": [-1, 1],
    }
    means = [[0.9, 0.9], [0.1, 0.1], [0.0, 0.0], [0.2, 0.1]]
    source = {"kind": "simulate", "means": means, "noise": "bernoulli"}
    problem["reward_range"] = [0, 1]
    path = write(folder, replayed(problem=problem, source=source))
    result = invoke("run", path)
    assert result.exit_code == ExitCode.OK
    assert not RAW.search(result.output)
    return path


@pytest.mark.parametrize(
    "command",
    [("show",), ("show", "--json"), ("history", "--last", "9"), ("list",), ("history", "--json")],
)
def test_no_label_moves_the_cursor(named, invoke, command):
    result = invoke("study", command[0], named, *command[1:])
    assert result.exit_code == ExitCode.OK
    assert not RAW.search(result.output)


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_no_label_moves_the_cursor_while_planning(named, invoke, command):
    text = named.read_text() + "\n[plan]\nreplications = 2\n"
    named.write_text(text)
    assert not RAW.search(invoke(command, named).output)


def test_a_message_about_labels_moves_no_cursor(folder, invoke):
    sections = replayed()
    sections["problem"]["arms"] = [ESCAPE, ESCAPE]
    sections["source"]["group"] = ESCAPE
    result = invoke("run", write(folder, sections))
    assert result.exit_code == ExitCode.USAGE
    assert not RAW.search(result.output)


def test_a_table_of_the_log_holds_no_formula(named, invoke, folder):
    assert invoke("study", "export", named, "log.csv").exit_code == ExitCode.OK
    with (folder / "log.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    cells = {cell for row in rows for cell in row}
    assert f"'{FORMULA}" in cells
    assert not any(cell.startswith(("=", "@", "\t", "\r")) for cell in cells)


def test_a_page_about_the_study_holds_no_markup_of_its_labels(named, invoke, folder):
    assert invoke("study", "report", named).exit_code == ExitCode.OK
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", page)
