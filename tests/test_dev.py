"""`./dev` creates .venv with the newest Python that works, or says in one line what is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = ["sh", "cat", "cksum", "cp", "dirname", "mkdir"]

PYTHON = """#!/bin/sh
case "$1 $2" in
"-c "*) echo {version} ;;
"-m venv")
    [ {complete} = True ] || exit 1
    mkdir -p .venv/bin
    for name in python uv mkdocs; do cp {idle} .venv/bin/$name; done
    echo {version} >>created
    ;;
esac
"""
"""Answers what `./dev` asks a Python, and creates an environment whose programs do nothing."""


@pytest.fixture
def job(tmp_path):
    """Return a function that runs `./dev docs` where only the given Pythons are installed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("dev", "requirements.lock", "requirements-uv.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in TOOLS:
        (programs / name).symlink_to(str(shutil.which(name)))
    idle = program(tmp_path / "idle", "#!/bin/sh\n")

    def run(*, broken=(), **pythons):
        for name, (version, complete) in pythons.items():
            text = PYTHON.format(version=version, complete=complete, idle=idle)
            program(programs / name.replace("_", "."), text)
        for name in broken:
            program(programs / name, "#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
        return subprocess.run(
            [tmp_path / "dev", "docs"],
            env={**os.environ, "PATH": str(programs)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def created(folder: Path) -> list[str]:
    return (folder / "created").read_text().split()


def test_the_newest_python_is_taken(job, tmp_path):
    assert job(python3_12=("3.12", True), python3_13=("3.13", True)).returncode == 0
    assert created(tmp_path) == ["3.13"]


def test_python3_is_taken_by_its_version(job, tmp_path):
    assert job(python3=("3.14", True)).returncode == 0
    assert created(tmp_path) == ["3.14"]


def test_a_command_that_starts_nothing_is_passed_over(job, tmp_path):
    assert job(python3_11=("3.11", True), broken=["python3.14", "python3.13"]).returncode == 0
    assert created(tmp_path) == ["3.11"]


def test_a_python_without_venv_is_passed_over(job, tmp_path):
    assert job(python3_13=("3.13", False), python3_12=("3.12", True)).returncode == 0
    assert created(tmp_path) == ["3.12"]


def test_an_environment_is_created_once_and_again_when_its_python_is_gone(job, tmp_path):
    for _ in range(2):
        assert job(python3_12=("3.12", True)).returncode == 0
    assert created(tmp_path) == ["3.12"]
    (tmp_path / ".venv/bin/python").unlink()
    assert job(python3_13=("3.13", True)).returncode == 0
    assert created(tmp_path) == ["3.12", "3.13"]


@pytest.mark.parametrize(
    ("pythons", "advice"),
    [
        ({}, "install Python 3.11, 3.12, 3.13 or 3.14 first"),
        ({"python3": ("3.10", True)}, "python3 is 3.10"),
        ({"python3": ("3.15", True)}, "python3 is 3.15"),
        ({"python3": ("3.13", False)}, "apt-get install python3.13-venv"),
        ({"python3_13": ("3.13", False), "python3": ("3.10", True)}, "python3.13-venv"),
    ],
)
def test_where_no_python_serves_one_line_says_what_to_install(job, tmp_path, pythons, advice):
    done = job(**pythons)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("./dev")]
    assert advice in line
    assert not (tmp_path / "created").exists()
