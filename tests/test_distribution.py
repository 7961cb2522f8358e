"""The wheel and the source distribution are complete, and need nothing else of the repository."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections import Counter
from pathlib import Path

import pytest
import uv

from tests import effort

ROOT = Path(__file__).parent.parent

MODULES = """
import importlib, importlib.util, pkgutil, sys
import fairtrial
for module in pkgutil.walk_packages(fairtrial.__path__, "fairtrial."):
    # inspect_ai is not among the locked packages.
    if not module.name.endswith(("__main__", "inspect.early_stopping")):
        importlib.import_module(module.name)
for name in ("tests", "papers", "benchmarks"):
    assert importlib.util.find_spec(name) is None, name
print(fairtrial.__file__)
"""

FILES = """
import re
import fairtrial as ft
from fairtrial import data
from fairtrial.report import write_report
from fairtrial.server import create_app
from fairtrial.study.tokens import Tokens
from starlette.testclient import TestClient

for name in data.__all__:
    getattr(data, name)()
storage = "sqlite:///trial.db"
problem = ft.subpopulations.Problem(["a", "b"], ["x"], floors=0.0, reward_range=(0, 1))
policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
with ft.Study.create(problem, policy, storage=storage, name="trial", seed=7) as study:
    for _ in range(5):
        study.tell(study.ask(), 0.5)
    write_report(study, "report.html")
with Tokens(storage) as tokens:
    secret = tokens.create("boss", ["admin"])[1]
headers = {"Authorization": f"Bearer {secret}"}
with TestClient(create_app(storage), base_url="http://localhost", headers=headers) as client:
    paths = ["/", "/login", "/studies/trial", "/studies/trial/log"]
    paths += re.findall(r'"(/static/[^"]+)"', client.get("/").text)
    for path in paths:
        print(path, client.get(path).status_code)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the wheel and the source distribution of the repository."""
    return build(ROOT, tmp_path_factory.mktemp("built"))


def build(source, folder):
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    (archive,) = folder.glob("*.tar.gz")
    return wheel, archive


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """Return the programs of an environment with the wheel; it finds its dependencies in ours."""
    place = tmp_path_factory.mktemp("environment") / "env"
    venv.create(place, symlinks=True)
    python = place / "bin/python"
    install = [uv.find_uv_bin(), "pip", "install", "--offline", "--no-deps", "--python"]
    subprocess.run([*install, python, built[0]], check=True, capture_output=True)
    # Python adds this folder without the .pth files in it, which lead to the checkout.
    ours = sysconfig.get_paths()["purelib"]
    script = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    found = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True)
    (Path(found.stdout.strip()) / "dependencies.pth").write_text(ours)
    return place / "bin"


def run(command, folder, code=0):
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def names_in(wheel):
    with zipfile.ZipFile(wheel) as files:
        return {name for name in files.namelist() if ".dist-info/" not in name}


def sources():
    """Return the files of the package without those that are made by running it."""
    files = (path for path in (ROOT / "src").rglob("*") if path.is_file())
    return {
        path.relative_to(ROOT / "src").as_posix()
        for path in files
        if path.parent.name != "__pycache__"
    }


def test_the_wheel_holds_the_package_and_nothing_else(built):
    assert names_in(built[0]) == sources()
    assert "fairtrial/py.typed" in sources()


def test_the_source_distribution_builds_the_same_wheel(built, tmp_path):
    with tarfile.open(built[1]) as files:
        names = files.getnames()
        files.extractall(tmp_path, filter="data")
    assert not {".venv", "build", "dist"} & {name.split("/")[1] for name in names}
    (unpacked,) = tmp_path.iterdir()
    assert names_in(build(unpacked, tmp_path / "built")[0]) == sources()


def test_every_module_of_an_installed_wheel_imports_without_the_repository(installed, tmp_path):
    found = Path(run([installed / "python", "-c", MODULES], tmp_path).strip())
    assert found.is_relative_to(installed.parent)


def test_an_installed_wheel_has_its_data_its_pages_and_its_report(installed, tmp_path):
    answers = dict(
        line.split() for line in run([installed / "python", "-c", FILES], tmp_path).splitlines()
    )
    assert set(answers.values()) == {"200"}, answers
    assert any("/static/" in path for path in answers)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    listed = [installed / "fairtrial", "study", "list", "--storage", "sqlite:///trial.db"]
    assert "trial" in run(listed, tmp_path)


def test_an_installed_wheel_qualifies_until_one_of_its_files_is_altered(installed, tmp_path):
    (altered,) = installed.parent.glob("lib/python*/site-packages/fairtrial/py.typed")
    if effort.long:
        assert outcomes(qualified(installed, tmp_path, 0)) == {"passed": 10, "skipped": 5}
    altered.write_text("partial\n")
    checks = qualified(installed, tmp_path, 4)
    assert outcomes(checks) == {"passed": 9, "failed": 1, "skipped": 5}
    [failed] = [check for check in checks if check["outcome"] == "failed"]
    assert json.dumps(failed).count(" was altered") == 1
    assert "fairtrial/py.typed was altered" in json.dumps(failed)


def qualified(programs, folder, code):
    """Return the checks of an installation; nothing is compiled, so some are skipped."""
    command = [programs / "fairtrial", "qualify", "--operator", "o", "--reason", "r", "--json"]
    return json.loads(run(command, folder, code))["checks"]


def outcomes(checks):
    return Counter(check["outcome"] for check in checks)
