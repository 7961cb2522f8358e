"""An installation is compared with its RECORD, and its libraries with the required versions."""

import base64
import hashlib
import shutil
import subprocess
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairtrial.qualification import installation
from fairtrial.qualification.installation import (
    digest_of,
    installation_checks,
    required_libraries,
)

ROOT = Path(__file__).parents[2]
SOURCES = {"fairtrial/__init__.py": "", "fairtrial/core/policy.py": "ask = 1\n"}


def checksum(text):
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


@pytest.fixture
def installed(tmp_path):
    """Return a folder in which a small package was installed from a wheel."""
    lines = []
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        lines.append(f"{name},{checksum(text)},{len(text)}")
    cache = tmp_path / "fairtrial/core/__pycache__/policy.cpython-311.pyc"
    cache.parent.mkdir()
    cache.write_bytes(b"compiled")
    about = tmp_path / "fairtrial-0.1.0.dist-info"
    about.mkdir()
    (about / "RECORD").write_text("\n".join([*lines, "fairtrial-0.1.0.dist-info/RECORD,,", ""]))
    (about / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: fairtrial\nVersion: 0.1.0\nRequires-Dist: numpy>=2.0\n"
        'Requires-Dist: openpyxl>=3.1; extra == "excel"\n'
    )
    return tmp_path


def check(folder, package=None):
    about = PathDistribution(folder / "fairtrial-0.1.0.dist-info")
    return list(installation_checks(about, package or folder / "fairtrial"))


def test_an_installation_as_the_wheel_made_it_passes(installed):
    files, libraries = check(installed)
    assert (files.outcome, libraries.outcome) == ("passed", "passed")
    assert files.details.startswith("2 files")
    assert libraries.details.startswith("numpy ")


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        (lambda path: path.write_text("ask = 2\n"), "fairtrial/core/policy.py was altered"),
        (Path.unlink, "fairtrial/core/policy.py is missing"),
        (
            lambda path: path.with_name("added.py").write_text(""),
            "fairtrial/core/added.py is not in RECORD",
        ),
    ],
    ids=["altered", "missing", "added"],
)
def test_every_file_that_differs_is_named(installed, breaks, says):
    breaks(installed / "fairtrial/core/policy.py")
    files = check(installed)[0]
    assert (files.outcome, files.details) == ("failed", says)


def test_a_checkout_has_no_checksums_and_fails(installed):
    record = installed / "fairtrial-0.1.0.dist-info/RECORD"
    record.write_text("fairtrial.pth,,\n")
    files = check(installed)[0]
    assert files.outcome == "failed"
    assert "checkout" in files.details


def test_a_package_that_hides_the_installed_one_fails(installed, tmp_path):
    other = shutil.copytree(installed / "fairtrial", tmp_path / "elsewhere/fairtrial")
    files = check(installed, other)[0]
    assert files.outcome == "failed"
    assert str(other) in files.details


@pytest.mark.parametrize(
    ("found", "outcome"), [("1.26.4", "failed"), ("2.0", "passed"), ("2.10.1", "passed")]
)
def test_a_library_that_is_too_old_fails(installed, monkeypatch, found, outcome):
    monkeypatch.setattr(installation, "version", lambda _name: found)
    assert check(installed)[1].outcome == outcome


def test_a_library_that_is_missing_fails(installed):
    about = installed / "fairtrial-0.1.0.dist-info/METADATA"
    about.write_text(about.read_text() + "Requires-Dist: no-such-library>=1.0\n")
    libraries = check(installed)[1]
    assert (libraries.outcome, libraries.details) == (
        "failed",
        "no-such-library is not installed",
    )


def test_the_libraries_that_are_looked_for_are_those_of_the_project():
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    metadata = SimpleNamespace(requires=[*required, 'openpyxl>=3.1; extra == "excel"'])
    named = required_libraries(metadata)
    assert [f"{name}>={lowest}" for name, lowest in named.items()] == required


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_the_digest_is_that_of_standard_tools(installed):
    shutil.rmtree(installed / "fairtrial/core/__pycache__")
    command = "find fairtrial -type f | LC_ALL=C sort | xargs sha256sum | sha256sum"
    done = subprocess.run(
        ["sh", "-c", command], cwd=installed, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == digest_of(installed / "fairtrial")
