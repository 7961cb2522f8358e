"""`./dev release` builds the last commit, and refuses what is not ready."""

import tarfile

import pytest
from click.testing import CliRunner

from release import building
from release.__main__ import main
from tests.release.conftest import commit, replace


def released(folder, *arguments):
    return CliRunner().invoke(main, ["--root", str(folder), *arguments])


def refused(folder, *arguments):
    """Return why a release was refused, each reason without what stands before it."""
    done = released(folder, *arguments)
    assert done.exit_code == 1
    assert not list(folder.glob("dist/*"))
    return [line.removeprefix("not ready: ") for line in done.stderr.splitlines()]


def test_a_commit_that_is_ready_is_built_with_its_checksums_and_the_next_steps(repository):
    done = released(repository, "--tag", "v0.1.0")
    assert done.exit_code == 0, done.output
    made = sorted(path.name for path in (repository / "dist").iterdir())
    assert made == ["fairtrial-0.1.0-py3-none-any.whl", "fairtrial-0.1.0.tar.gz"]
    for name in made:
        assert f"{building.checksum(repository / 'dist' / name)}  dist/{name}" in done.stdout
    assert "A draft" not in done.stdout
    assert "\n5. Tag `vX.Y.Z`" in done.stdout
    assert "./dev release`. It builds" not in done.stdout


def test_the_bytes_depend_on_the_commit_alone(repository):
    assert released(repository).exit_code == 0
    made = {path.name: building.checksum(path) for path in (repository / "dist").iterdir()}
    for path in repository.rglob("*"):
        path.chmod(0o700)
    assert released(repository, "--draft").exit_code == 0
    again = {path.name: building.checksum(path) for path in (repository / "dist").iterdir()}
    assert again == made


def test_what_is_not_in_the_commit_is_not_published_and_only_a_draft_ignores_it(repository):
    (repository / "secret.txt").write_text("a key\n")
    assert refused(repository) == ["the folder has changes that are not in the last commit"]
    done = released(repository, "--draft")
    assert done.exit_code == 0, done.output
    assert "- the folder has changes that are not in the last commit" in done.stdout
    with tarfile.open(repository / "dist/fairtrial-0.1.0.tar.gz") as files:
        assert "fairtrial-0.1.0/secret.txt" not in files.getnames()
        assert "fairtrial-0.1.0/README.md" in files.getnames()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("CITATION.cff", "version: 0.1.0", "version: 0.2.0"),
        ("recipe/recipe.yaml", 'version: "0.1.0"', 'version: "0.2.0"'),
        ("CHANGELOG.md", "[0.1.0]", "[0.2.0]"),
    ],
)
def test_a_file_with_another_version_is_refused_also_as_a_draft(repository, name, old, new):
    replace(repository / name, old, new)
    commit(repository)
    reason = f"{name} states version 0.2.0, src/fairtrial/version.py 0.1.0"
    assert refused(repository, "--draft") == [reason]


def test_a_tag_of_another_version_is_refused(repository):
    reason = "the tag is v0.2.0; version 0.1.0 needs v0.1.0"
    assert refused(repository, "--tag", "v0.2.0") == [reason]


@pytest.mark.parametrize(
    ("name", "old", "new", "reasons"),
    [
        (
            "CHANGELOG.md",
            "2026-11-28",
            "unreleased",
            ["the heading of the version has no date", "date-released is not the date"],
        ),
        ("CHANGELOG.md", "# Changes\n", "# Changes\n\n## Unreleased\n", ["'Unreleased'"]),
        ("CITATION.cff", "2026-11-28", "2026-11-27", ["date-released is not the date"]),
        ("pyproject.toml", 'Source = "https://example.org"', "", ["[project.urls] is missing"]),
        ("README.md", "https://example.org", "docs/index.md", ["1 links are relative"]),
    ],
)
def test_what_is_not_ready_is_named(repository, name, old, new, reasons):
    replace(repository / name, old, new)
    commit(repository)
    found = refused(repository)
    assert len(found) == len(reasons)
    for line, reason in zip(found, reasons, strict=True):
        assert reason in line


def test_a_build_that_differs_is_refused(repository, monkeypatch):
    numbers = iter(range(100))
    monkeypatch.setattr(building, "checksum", lambda file: str(next(numbers)))
    (reason,) = [line for line in released(repository).stderr.splitlines() if "not ready" in line]
    assert reason == "not ready: fairtrial-0.1.0.tar.gz differs if it is built again"
