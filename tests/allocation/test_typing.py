"""The documented use of processes that decide by themselves passes a strict type checker."""

import re
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/guarantee-shares.md"


def test_the_documented_use_of_a_local_allocator_is_well_typed(tmp_path):
    part = PAGE.read_text(encoding="utf-8").partition("### Without a round trip")[2]
    example = re.search(r"```python\n(.*?)```", part, re.DOTALL)[1]
    file = tmp_path / "example.py"
    head = 'import fairtrial as ft\n\nproblem = ft.allocation.Problem(["a", "b", "c"], "1/4")\n'
    file.write_text(head + example, encoding="utf-8")
    said, _, status = api.run(["--config-file", str(ROOT / "pyproject.toml"), str(file)])
    assert status == 0, said
