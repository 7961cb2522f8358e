"""Arguments of a problem in files beside the configuration."""

import pytest

from fairtrial.cli import files

LINEAR = {"family": "linear", "features": [[1, 0]]}


def with_files(section, folder):
    """Return the section, which must have no mistakes."""
    mistakes = []
    filled = files.with_files(section, folder, mistakes, set())
    assert not mistakes
    return filled


def mistake_in(section, folder):
    """Return the only mistake; the argument must be left out."""
    mistakes, doubtful = [], set()
    filled = files.with_files(section, folder, mistakes, doubtful)
    assert doubtful == set(section) - {"family"}
    assert filled == {"family": section["family"]}
    (mistake,) = mistakes
    return mistake


@pytest.fixture
def conditions(tmp_path):
    path = tmp_path / "conditions.csv"
    path.write_text("one,arm,heat\n1,7,20\n1,8,25.5\n")
    return path


def test_a_table_gives_features_and_labels(conditions):
    section = {"family": "linear", "features": "conditions.csv", "noise_std": 1.0}
    assert with_files(section, conditions.parent) == {
        "family": "linear",
        "features": {"one": [1.0, 1.0], "heat": [20.0, 25.5]},
        "arms": ["7", "8"],
        "noise_std": 1.0,
    }
    assert section["features"] == "conditions.csv"


def test_candidates_are_labelled_as_answers(conditions):
    filled = with_files(LINEAR | {"candidates": str(conditions)}, conditions.parent)
    assert filled["answers"] == ["7", "8"]
    assert "arms" not in filled


def test_labels_in_the_file_come_first_and_none_are_needed(conditions):
    given = LINEAR | {"features": "conditions.csv", "arms": ["cold", "warm"]}
    assert with_files(given, conditions.parent)["arms"] == ["cold", "warm"]
    (conditions.parent / "bare.csv").write_text("x,y\n1,2\n")
    bare = with_files(LINEAR | {"features": "bare.csv"}, conditions.parent)
    assert bare == LINEAR | {"features": {"x": [1.0], "y": [2.0]}}


@pytest.mark.parametrize("family", ["linear", "causal", "none such", 3])
def test_what_is_no_file_stays_as_it_is(tmp_path, family):
    section = {"family": family, "arms": ["a"], "features": [[1.0]], "model": {"edges": []}}
    assert with_files(section, tmp_path) == section


def test_a_network_is_found_beside_the_configuration(tmp_path):
    section = {"family": "causal", "model": "net.bif"}
    assert with_files(section, tmp_path) == section | {"model": str(tmp_path / "net.bif")}


def test_a_table_keeps_the_names_of_its_columns(tmp_path):
    (tmp_path / "t.csv").write_text("arm,solvent,heat\na,DMF,20\nb,THF,25\nc,THF,20\n")
    filled = with_files({"family": "linear", "features": "t.csv"}, tmp_path)
    assert filled["features"] == {"solvent": ["DMF", "THF", "THF"], "heat": [20.0, 25.0, 20.0]}
    assert filled["arms"] == ["a", "b", "c"]
    (tmp_path / "n.csv").write_text("one,heat\n1,20\n1,25\n")
    interacting = {"interactions": [["one", "heat"]]}
    filled = with_files({"family": "linear", "features": "n.csv", **interacting}, tmp_path)
    assert filled["features"] == {"one": [1.0, 1.0], "heat": [20.0, 25.0]}


@pytest.mark.parametrize("name", ["missing.csv", "table.xlsx"])
def test_a_table_that_cannot_be_read_is_a_mistake_of_the_argument(tmp_path, name):
    mistake = mistake_in({"family": "linear", "candidates": name}, tmp_path)
    assert mistake.startswith("problem.candidates: must ")
    assert name in mistake


def test_arms_can_be_the_rows_of_a_table(tmp_path):
    (tmp_path / "arms.csv").write_text("arm,S,no,yes\n01,s,0.5,0.5\n01,t,0.4,0.6\n")
    filled = with_files({"family": "causal", "arms": "arms.csv"}, tmp_path)
    assert filled["arms"] == [
        {"arm": "01", "S": "s", "no": "0.5", "yes": "0.5"},
        {"arm": "01", "S": "t", "no": "0.4", "yes": "0.6"},
    ]


def test_a_table_of_arms_that_is_not_there_is_a_mistake(tmp_path):
    mistakes, doubtful = [], set()
    section = {"family": "causal", "arms": "none.csv"}
    assert files.with_files(section, tmp_path, mistakes, doubtful) == {"family": "causal"}
    assert doubtful == {"arms"}
    assert "must be a readable file" in mistakes[0]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("one,heat\n1,20\n\n1,25 C\n1,30\n", "line 4: heat"),
        ("one,heat\n\n1,20\n1,\n", "line 4: heat"),
        ("one;heat\n1;20\n1;2.347\n", "line 3: heat"),
    ],
)
def test_a_cell_that_is_no_feature_is_named_with_its_line(tmp_path, content, place):
    (tmp_path / "t.csv").write_text(content)
    mistake = mistake_in({"family": "linear", "features": "t.csv"}, tmp_path)
    assert mistake.startswith(f"problem.features: {place}: ")


def test_the_decimal_separator_of_tables_can_be_stated(tmp_path):
    (tmp_path / "t.csv").write_text("one;heat\n1;20\n1;2.347\n")
    section = {"family": "linear", "features": "t.csv"}
    filled = files.with_files(section, tmp_path, [], set(), ",")
    assert filled["features"] == {"one": [1.0, 1.0], "heat": [20.0, 2347.0]}
