"""The pages on faults, threats and regulations name tests, and all these tests exist."""

import ast
import re
from pathlib import Path

import pytest

from fairtrial.cli.app import app

ROOT = Path(__file__).parents[1]
FAULTS = (ROOT / "docs" / "explanation" / "faults.md").read_text()
THREATS = (ROOT / "SECURITY.md").read_text()
RULES = (ROOT / "docs" / "explanation" / "regulations.md").read_text()


NAMED = r"`(tests/[\w/]+\.py)(?:::(\w+))?`"
"""A test that a line names: its file, and its function."""


def require_tests(named):
    for path, name in named:
        assert not name or name in functions_of(path), (path, name)
        assert (ROOT / path).exists()


def functions_of(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def rows_of(page, heading):
    """Return the rows of all tables with that heading."""
    rows = []
    for table in page.split(heading)[1:]:
        lines = table.strip().splitlines()[1:]
        rows += lines[: next((n for n, line in enumerate(lines) if not line), len(lines))]
    return rows


@pytest.mark.parametrize(
    ("page", "heading", "most"),
    [
        (FAULTS, "| fault | outcome | test |", 35),
        (THREATS, "| threat | defence | test |", 15),
    ],
    ids=["faults", "threats"],
)
def test_every_line_names_a_test_that_exists(page, heading, most):
    rows = rows_of(page, heading)
    assert len(rows) >= most
    for row in rows:
        named = re.findall(NAMED, row)
        assert named, row
        require_tests(named)


def test_every_rule_names_its_tests_or_says_that_there_is_none():
    """A line without a test describes what the site does, and so names no command."""
    rows = rows_of(RULES, "| item | what fairtrial does | what the site must do | test |")
    rules = {row.split("|")[1].split()[0] for row in rows}
    assert {f"11.10({letter})" for letter in "abcdefghijk"} <= rules
    assert {"11.30", "11.50", "11.70", "11.100", "11.200", "11.300"} <= rules
    for row in rows:
        _, does, _, tests = (cell.strip() for cell in row.strip("|").split(" | "))
        named = re.findall(NAMED, tests)
        assert named or (tests.strip("| ") == "-" and "`fairtrial" not in does), row
        require_tests(named)


def test_every_command_that_a_rule_names_exists():
    named = {tuple(each.split()) for each in re.findall(r"`fairtrial ([a-z ]+)`", RULES)}
    assert len(named) > 8
    for words in named:
        group = app
        for word in words:
            group = group.commands[word]
