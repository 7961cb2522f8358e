"""A small repository that can be released, and altered."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

COPIED = (
    *("pyproject.toml", "LICENSE", "CITATION.cff", "CONTRIBUTING.md", ".gitignore"),
    *("recipe/recipe.yaml", "src/fairtrial/version.py", "src/fairtrial/py.typed"),
)
CHANGES = """# Changes

## [0.1.0] - 2026-11-28

- The first release.
"""


def git(folder, *arguments):
    """Run git in a folder, as somebody."""
    somebody = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *somebody, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def commit(folder):
    """Commit everything in a folder."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Change it")


def replace(file, old, new):
    """Replace text that is in a file."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def repository(tmp_path):
    """Return a repository whose one commit is ready to be published."""
    folder = tmp_path / "repository"
    for name in COPIED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "src/fairtrial/__init__.py").touch()
    (folder / "README.md").write_text("# fairtrial\n\n[Site](https://example.org)\n")
    (folder / "CHANGELOG.md").write_text(CHANGES)
    with (folder / "CITATION.cff").open("a") as citation:
        citation.write("date-released: 2026-11-28\n")
    urls = '[project.urls]\nSource = "https://example.org"\n\n[tool.hatch.version]'
    replace(folder / "pyproject.toml", "[tool.hatch.version]", urls)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder
