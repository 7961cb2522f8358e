"""`./dev docs-version` keeps the pages of every version; `latest` leads to the newest."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import effort
from tests.matrix.checks import copy_repository

ROOT = Path(__file__).parent.parent
SMALL = "site_name: fairtrial\nsite_dir: build/docs\nstrict: true\ntheme:\n  name: material\n"


def git(folder, *arguments):
    """Run git in a folder, as somebody, and return what it prints."""
    somebody = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *somebody, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path):
    """Return a copy of this repository, with two small pages unless everything is tested."""
    folder = tmp_path / "repository"
    folder.mkdir()
    if effort.long:
        copy_repository(folder)
    else:
        for name in ("dev", "pyproject.toml", "requirements.lock", "mkdocs-release.yml"):
            shutil.copy(ROOT / name, folder)
        (folder / "mkdocs.yml").write_text(SMALL)
        (folder / "docs").mkdir()
        (folder / "docs/index.md").write_text("# Home\n\n[Tutorial](tutorial.md)\n")
        (folder / "docs/tutorial.md").write_text("# Tutorial\n")
    (folder / ".venv").mkdir()
    (folder / ".venv/bin").symlink_to(Path(sys.executable).parent)
    # `./dev` then finds that everything is installed.
    script = "cat requirements.lock pyproject.toml | cksum"
    stamp = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, check=True)
    (folder / ".venv/.installed").write_bytes(stamp.stdout.strip())
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "user.name", "A")
    git(folder, "config", "user.email", "a@example.org")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder


def publish(folder, version, word):
    """Write a word into the first page, and add this as the documentation of a version."""
    with (folder / "docs/index.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{word}\n")
    done = subprocess.run(
        [folder / "dev", "docs-version", version], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_each_version_stays_as_it_was_and_latest_is_the_newest(repository):
    begun = git(repository, "rev-parse", "main")
    publish(repository, "1.0", "Written first.")
    old = git(repository, "rev-parse", "pages:1.0")
    publish(repository, "1.1", "Written second.")

    def page(name):
        return git(repository, "show", f"pages:{name}")

    known = [(one["version"], one["aliases"]) for one in json.loads(page("versions.json"))]
    assert known == [("1.1", ["latest"]), ("1.0", [])]
    assert git(repository, "rev-parse", "pages:1.0") == old
    assert "Written first." in page("1.0/index.html")
    assert "Written second." not in page("1.0/index.html")
    assert "Written second." in page("1.1/index.html")
    for version in ("1.0", "1.1"):
        assert "<title>Tutorial" in page(f"{version}/tutorial/index.html")
        # The menu of versions.
        assert '"provider": "mike"' in page(f"{version}/index.html")
    # A link of the branch: who opens latest/ gets the files of 1.1.
    mode, _, _ = git(repository, "ls-tree", "pages", "latest").split(maxsplit=2)
    assert (mode, page("latest").strip()) == ("120000", "1.1")
    assert git(repository, "rev-parse", "main") == begun
