"""What is noted about a study when it is created: kept with its log, changing no decision."""

import pytest

from fairtrial import analyse, write_report
from fairtrial.errors import CorruptLog, InvalidArgument, StudyExists
from fairtrial.study import Study
from fairtrial.study.specification import LONGEST_TEXT, LONGEST_TOPIC, MOST_TOPICS
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PROBLEM = Problem(["a", "b"], ["all"], floors=None, reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)
NOTES = {"Population": "adults < 65", "Endpoint": "Größe, день 28"}


def made(store, name="trial", **given):
    return Study.create(PROBLEM, POLICY, storage=store, name=name, seed=7, secret="s", **given)


def test_notes_are_kept_with_the_study(store):
    assert made(store, notes=NOTES).notes == NOTES
    assert Study.open(store, "trial").notes == NOTES


def test_a_study_without_notes_has_none_and_the_same_specification_as_before(store):
    study = made(store)
    assert study.notes == {}
    assert '"notes"' not in study.session.row().spec_json


def test_notes_change_no_decision(store):
    plain, noted = made(store, "plain"), made(store, "noted", notes=NOTES)
    for _ in range(50):
        asked = plain.ask(), noted.ask()
        assert asked[0].action == asked[1].action
        for study, pull in zip((plain, noted), asked, strict=True):
            study.tell(pull, 0.5)
    assert plain.progress().evidence == noted.progress().evidence


def test_notes_belong_to_the_log(store, tmp_path):
    study = made(store, notes=NOTES)
    study.tell(study.ask(), 0.5)
    study.export(tmp_path / "log.jsonl")
    copy = Study.import_log(tmp_path / "log.jsonl", storage="memory://")
    assert copy.notes == NOTES
    assert copy.head_hash == study.head_hash
    text = (tmp_path / "log.jsonl").read_text(encoding="utf-8")
    (tmp_path / "altered.jsonl").write_text(text.replace("adults", "people"), encoding="utf-8")
    with raises(CorruptLog):
        Study.import_log(tmp_path / "altered.jsonl", storage="memory://")


def test_another_note_is_another_study(store):
    made(store, notes=NOTES)
    with raises(StudyExists):
        made(store, notes={**NOTES, "Population": "children"}, exist_ok=True)
    assert made(store, notes=NOTES, exist_ok=True).notes == NOTES


@pytest.mark.parametrize(
    "notes",
    [
        ["adults"],
        {1: "adults"},
        {"": "adults"},
        {"Population": 3},
        {"Population": ""},
        {"Population": None},
        {"x" * (LONGEST_TOPIC + 1): "adults"},
        {"Population": "x" * (LONGEST_TEXT + 1)},
        {str(topic): "said" for topic in range(MOST_TOPICS + 1)},
    ],
)
def test_what_is_no_note_is_refused_and_nothing_is_kept(store, notes):
    with raises(InvalidArgument) as caught:
        made(store, notes=notes)
    assert caught.value.name.startswith("notes")
    assert not list(store.studies())


def test_the_report_shows_notes_as_text(store, tmp_path):
    study = made(store, notes={"Population": "adults <script>alert(1)</script>"})
    page = write_report(study, tmp_path / "trial.html").read_text(encoding="utf-8")
    assert "adults &lt;script&gt;" in page
    blinded = write_report(study, tmp_path / "blinded.html", blinded=True)
    assert "adults" not in blinded.read_text(encoding="utf-8")


def test_an_analysis_notes_what_was_found_in_its_table():
    table = {"user": [1, 1, 2, 3], "arm": ["a", "a", "b", "a"], "outcome": [1, 0, 0, 1]}
    study = analyse(PROBLEM, table, order="as given", unit="user")
    said = study.notes["repeated units (user)"].split("; ")
    assert said[0].startswith("1 further row of units")
    assert said[1].startswith("1 further row with another result")


def test_later_rows_of_units_with_the_same_result_or_none_are_no_other_results():
    table = {"user": [1, 1, 2, 2, 3], "arm": ["a", "a", "b", "b", "a"],
             "outcome": [1, 1, None, 0, 1]}  # fmt: skip
    study = analyse(PROBLEM, table, order="as given", unit="user")
    assert study.notes["repeated units (user)"].count("further row") == 1


def test_an_analysis_notes_that_its_table_has_no_problem():
    table = {"arm": ["a", "b", "a"], "outcome": [1, 0, 1]}
    study = analyse(PROBLEM, table, order="as given")
    assert study.notes["checks of the table"] == "no problem found"


@pytest.fixture
def lopsided():
    """An analysis of a table in which one arm has far more units than planned."""
    table = {"arm": ["a", "a", "b"] * 300, "outcome": [1, 0, 0] * 300}
    with pytest.warns(UserWarning, match="sample ratio"):
        study = analyse(PROBLEM, table, order="as given")
    yield study
    study.close()


def test_problems_of_a_table_are_warnings_of_the_study(lopsided):
    [said] = [one for one in lopsided.health()["warnings"] if one.startswith("sample ratio: ")]
    assert "a 600" in said
    assert not any("sample ratio" in one for one in lopsided.health(blinded=True)["warnings"])


def test_an_analysis_of_a_table_that_contradicts_its_shares_is_not_proven(tmp_path):
    table = {"arm": ["a", "a", "b"] * 300, "outcome": [1, 1, 0] * 300}
    place = tmp_path / "study.db"
    with pytest.warns(UserWarning, match="sample ratio"):
        analyse(PROBLEM, table, order="as given", storage=place, name="lopsided").close()
    with Study.open(place, "lopsided") as study:
        found = study.progress()
    guarantee = found.recommendation.guarantee
    assert (found.recommendation.status, guarantee.label) == ("decided", "heuristic")
    doubt = "the units per arm contradict the planned shares"
    assert guarantee.doubts == (doubt,)
    # What must be true for the answer to hold is not that the table is wrong.
    assert doubt not in guarantee.assumptions
    assert guarantee.assumptions[-1] == (
        f"no unit is missing or has its arm because of its outcome, although {doubt}"
    )
    assert found.intervals == "approximate"


def test_a_large_analysis_of_such_a_table_has_a_snapshot():
    table = {"arm": ["a", "a", "b"] * 500, "outcome": [1, 1, 0] * 500}
    with pytest.warns(UserWarning, match="sample ratio"):
        study = analyse(PROBLEM, table, order="as given")
    with study:
        assert study.policy.doubts_of_table
        assert len(list(study.session.store.snapshots(study.session.id))) == 1


def test_an_analysis_of_a_table_with_the_stated_shares_stays_proven():
    table = {"arm": ["a", "a", "b"] * 300, "outcome": [1, 1, 0] * 300}
    shares = {"a": 2 / 3, "b": 1 / 3}
    with analyse(PROBLEM, table, order="as given", shares=shares) as study:
        assert study.recommend().guarantee.label == "proven"
        # The events are those of the analysis, and say nothing about the experiment.
        assert study.recommend().decided
        assert study.recommend().decisions == ()


def test_the_decision_of_a_report_points_to_problems_of_the_table(lopsided, tmp_path):
    page = write_report(lopsided, tmp_path / "page.html").read_text(encoding="utf-8")
    _, decision = page.split(">Decision</h2>")
    decision, rest = decision.split("<h2", 1)
    assert "found problems: sample ratio. Read them under Health" in decision
    assert "the units per arm contradict the planned shares" in rest


def test_a_problem_of_the_table_is_a_warning_at_the_line_of_the_caller():
    table = {"arm": ["a", "a", "b"] * 300, "outcome": [1, 0, 0] * 300}
    with pytest.warns(UserWarning, match="sample ratio") as caught:
        analyse(PROBLEM, table, order="as given").close()
    assert {one.filename for one in caught} == {__file__}


def test_of_many_differences_between_studies_the_first_are_named(store):
    made(store, notes={f"topic {number}": "old" for number in range(10)}).close()
    with pytest.raises(StudyExists) as caught:
        made(store, notes={f"topic {number}": "new" for number in range(10)})
    assert "topic 5 is 'old' and 'new'; and 4 more" in str(caught.value)


def test_an_analysis_cuts_notes_that_are_too_long():
    unit = "u" * 600
    table = {unit: [1, 1, 2, 3], "arm": ["a", "a", "b", "a"], "outcome": [1, 0, 0, 1]}
    study = analyse(PROBLEM, table, order="as given", unit=unit)
    assert max(map(len, study.notes)) == LONGEST_TOPIC
