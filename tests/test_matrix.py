"""The matrix installs everything that users can install."""

import tomllib
from pathlib import Path

from tests.matrix.checks import EXTRAS

ROOT = Path(__file__).parent.parent


def test_the_matrix_installs_every_extra_for_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {*EXTRAS, "dev"} == set(project["optional-dependencies"])
