"""The pages on faults and threats: every line names tests, and all these tests exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAULTS = (ROOT / "docs" / "explanation" / "faults.md").read_text()
THREATS = (ROOT / "SECURITY.md").read_text()


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
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row)
        assert named, row
        for path, name in named:
            assert not name or name in functions_of(path), (path, name)
            assert (ROOT / path).exists()
