"""What an index would refuse, and files that are missing or too many, are found."""

import pytest

from release.building import build, unpack_commit
from release.contents import faults
from tests.release.conftest import commit, replace


@pytest.fixture
def built(repository, tmp_path):
    """Return a function that builds the last commit, and names what is wrong with it."""

    def found(tracked=lambda names: names):
        source = tmp_path / "commit"
        names = unpack_commit(repository, source)
        made = build(repository, source, repository / "dist")
        return faults(*made, tracked(names))

    return found


def test_nothing_is_wrong_with_a_commit_that_is_ready(built):
    assert built() == []


def test_a_file_of_the_package_that_is_missing_is_named(built):
    lost = "src/fairtrial/lost.json"
    assert built(lambda names: [*names, lost]) == [
        f"the source distribution lacks {lost}",
        "the wheel lacks fairtrial/lost.json",
    ]


def test_a_file_that_is_not_in_the_commit_is_named(built):
    typed = "src/fairtrial/py.typed"
    assert built(lambda names: [name for name in names if name != typed]) == [
        f"the source distribution has {typed}, which is not in the commit",
        "the wheel has fairtrial/py.typed, which is not in the commit",
    ]


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        ("README.md", "# fairtrial\n\n[Site](https://example.org)", "", "description is empty"),
        ("pyproject.toml", "fairtrial.cli:main", "fairtrial.cli:run", "no command fairtrial"),
    ],
)
def test_what_an_index_or_a_user_would_miss_is_named(built, repository, name, old, new, fault):
    replace(repository / name, old, new)
    commit(repository)
    (only,) = built()
    assert fault in only
