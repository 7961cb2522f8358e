"""Tables of pulls: as they are given out, and as people return them."""

import csv

import openpyxl
import pytest

from fairtrial import causal, linear, subpopulations
from fairtrial.errors import ConflictingOutcome, InvalidArgument, InvalidTable, StorageError
from fairtrial.study import Correction, Study
from tests.messages import raises


@pytest.fixture
def study():
    problem = subpopulations.Problem(["a", "0.50", "=cmd()"], ["x", "y"], reward_range=(-1, 1))
    policy = subpopulations.BlockBetting(problem)
    with Study.create(problem, policy, storage="memory://", name="hand", seed=1) as opened:
        yield opened


@pytest.fixture
def plate(study, tmp_path):
    """The path of a table with six pulls; each arm and group once."""
    return study.write_pulls(study.ask(6), tmp_path / "plate.csv")


def rows_of(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def fill(path, values, separator=",", **changes):
    """Fill in the column of values, and change cells of the first row."""
    rows = rows_of(path)
    for row, value in zip(rows, values, strict=False):
        row["value"] = value
    rows[0] |= changes
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return rows


def refusals(study, path):
    """Return the mistakes in a table, after checking that the study took nothing from it."""
    before, told = study.head_hash, study.progress().told
    with raises(InvalidTable) as caught:
        study.tell_table(path)
    assert (study.head_hash, study.progress().told) == (before, told)
    assert study.verify().ok
    return caught.value.mistakes


def test_a_table_of_pulls_has_ids_labels_and_a_blank_column_and_no_formula(study, plate):
    rows = rows_of(plate)
    assert list(rows[0]) == ["pull_id", "number", "arm", "group", "value"]
    assert [row["pull_id"] for row in rows] == [pull.id for pull in study.outstanding()]
    assert {row["arm"] for row in rows} == {"a", "0.50", "'=cmd()"}
    assert {row["value"] for row in rows} == {""}


def test_a_filled_table_is_told_in_one_write_and_blank_rows_stay_open(study, plate):
    rows = fill(plate, ["0.5", " ", "-1", "", "1e-1"])
    events = study.tell_table(plate, actor="lab")
    assert [(event.pull_id, event.value, event.actor) for event in events] == [
        (rows[place]["pull_id"], value, "lab") for place, value in ((0, 0.5), (2, -1.0), (4, 0.1))
    ]
    assert [pull.id for pull in study.outstanding()] == [rows[k]["pull_id"] for k in (1, 3, 5)]


def test_ids_and_values_alone_are_enough_in_any_order(study, tmp_path):
    pulls = study.ask(3)
    path = tmp_path / "results.csv"
    path.write_text("value,note,pull_id\n" + "".join(f"0.5,x,{p.id}\n" for p in pulls[::-1]))
    assert len(study.tell_table(path)) == 3
    assert not study.outstanding()


def test_a_table_told_twice_changes_nothing_and_the_rows_added_since_count(study, plate):
    fill(plate, ["0.5", "0.25"])
    first, head = study.tell_table(plate), study.head_hash
    assert study.tell_table(plate) == first
    assert study.head_hash == head
    fill(plate, ["0.5", "0.25", "1"])
    assert [event.seq for event in study.tell_table(plate)] == [7, 8, 9]


def test_semicolons_decimal_commas_and_a_byte_order_mark_are_understood(study, plate):
    fill(plate, ["0,5", "", "-0,25"], separator=";")
    plate.write_bytes(b"\xef\xbb\xbf" + plate.read_bytes())
    assert [event.value for event in study.tell_table(plate)] == [0.5, -0.25]


def test_a_workbook_is_written_filled_in_and_told(study, tmp_path):
    path = study.write_pulls(study.ask(4), tmp_path / "plate.xlsx")
    book = openpyxl.load_workbook(path)
    assert [cell.value for cell in book.active[1]] == [
        *("pull_id", "number", "arm", "group", "value")
    ]
    assert "f" not in {cell.data_type for row in book.active.iter_rows() for cell in row}
    book.active["E2"], book.active["E3"], book.active["E5"] = 0.5, " ", "-0,25"
    book.save(path)
    assert [event.value for event in study.tell_table(path)] == [0.5, -0.25]
    book.active["A2"], book.active["E4"] = 1.5e31, "much"
    book.save(path)
    first, second = refusals(study, path)
    assert first.startswith("row 2: pull_id was turned into a number")
    assert second.startswith("row 4: value must be a number")


@pytest.mark.parametrize("style", ["0%", "0.00 %", "#,##0%"])
def test_a_cell_that_shows_a_percentage_is_refused_as_two_numbers_may_be_meant(
    study, tmp_path, style
):
    path = study.write_pulls(study.ask(2), tmp_path / "plate.xlsx")
    book = openpyxl.load_workbook(path)
    book.active["E2"], book.active["E3"] = 0.72, 0.5
    book.active["E2"].number_format = style
    book.save(path)
    (mistake,) = refusals(study, path)
    assert mistake.startswith("row 2: value must be a number")
    assert mistake.endswith("got '72%'")
    assert len(study.outstanding()) == 2


@pytest.mark.parametrize("style", ['0.00"%"', "0.00\\%"])
def test_a_percent_sign_that_is_only_written_beside_a_number_is_no_percentage(
    study, tmp_path, style
):
    path = study.write_pulls(study.ask(1), tmp_path / "plate.xlsx")
    book = openpyxl.load_workbook(path)
    book.active["E2"] = 0.72
    book.active["E2"].number_format = style
    book.save(path)
    assert [event.value for event in study.tell_table(path)] == [0.72]


def test_every_bad_row_is_named_with_its_line_and_nothing_is_taken(study, plate):
    rows = fill(plate, ["2", "abc", "nan", "inf", "0.5", "0,5"])
    first, *others = refusals(study, plate)
    assert first == "line 2: reward must be in [-1, 1]; got 2.0"
    given = {3: "abc", 4: "nan", 5: "inf", 7: "0,5"}
    for mistake, (line, cell) in zip(others, given.items(), strict=True):
        assert mistake.startswith(f"line {line}: value must be a number")
        assert mistake.endswith(f"; got {cell!r}")
    assert len(study.outstanding()) == len(rows)


def test_lines_are_those_of_the_file_where_lines_are_empty(study, tmp_path):
    first, second = study.ask(2)
    path = tmp_path / "results.csv"
    path.write_text(f'pull_id,note,value\n\n{first.id},"two\nlines",0\n,,\n{second.id},,9\n')
    assert refusals(study, path) == ("line 6: reward must be in [-1, 1]; got 9.0",)


def test_rows_without_a_value_are_no_results_whatever_else_they_say(study, plate):
    rows = fill(plate, ["0.5"])
    with plate.open("a", newline="") as stream:
        stream.write(f"the edge was wet,,,,\n,,a,x,\n{rows[0]['pull_id']},,,,\n1.2E+31,,,,\n")
    assert [event.pull_id for event in study.tell_table(plate)] == [rows[0]["pull_id"]]


def test_unknown_and_repeated_ids_and_those_of_another_study_are_refused(study, plate, tmp_path):
    rows = rows_of(plate)
    with Study.create(
        study.problem, study.policy.clone(), storage="memory://", name="other", seed=1
    ) as other:
        foreign = other.ask().id
    ids = ["nothing", foreign, rows[0]["pull_id"], rows[0]["pull_id"], ""]
    path = tmp_path / "results.csv"
    path.write_text("pull_id,value\n" + "".join(f"{one},0.5\n" for one in ids))
    first, second, third, fourth = refusals(study, path)
    assert first == "line 2: pull nothing was never issued by study 'hand'"
    assert second == f"line 3: pull {foreign} was never issued by study 'hand'"
    assert third == "line 5: pull_id names the same pull as line 4"
    assert fourth == "line 6: pull_id is missing"


@pytest.mark.parametrize(
    "damaged", ["1.23E+31", "1,23457E+31", "12345678901234600000000000000000.0"]
)
def test_an_id_that_a_spreadsheet_made_a_number_of_is_explained(study, plate, damaged):
    fill(plate, ["0.5"], pull_id=damaged)
    (mistake,) = refusals(study, plate)
    assert mistake.startswith("line 2: pull_id was turned into a number, by a spreadsheet perhaps")
    assert "fairtrial study outstanding" in mistake


def test_an_id_of_digits_alone_is_an_id(study, tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(f"pull_id,value\n{'7' * 32},0\n")
    assert "was never issued" in refusals(study, path)[0]


def test_labels_that_are_not_the_pulls_are_refused(study, plate):
    fill(plate, ["0.5"], arm="=cmd()", group="x")
    (mistake,) = refusals(study, plate)
    assert mistake.startswith("line 2: arm is '=cmd()', but this pull is of 'a': were only some")


def test_labels_may_be_blank_or_as_a_spreadsheet_writes_them(study, plate):
    rows = rows_of(plate)
    half = next(row for row in rows if row["arm"] == "0.50")
    formula = next(row for row in rows if row["arm"] == "'=cmd()")
    plate.write_text(
        "pull_id,arm,group,value\n"
        f"{half['pull_id']},0.5,,0\n{formula['pull_id']},=cmd(),{formula['group']},0\n"
    )
    assert len(study.tell_table(plate)) == 2


LONG = (
    ("1000000001", "1000000002"),
    ("1234567890123456", "1234567890123457"),
    ("1000000001.5", "1000000002.5"),
)


@pytest.mark.parametrize("arms", LONG)
def test_long_numbers_are_other_labels_if_one_digit_differs(tmp_path, arms):
    """As if somebody had sorted only some columns."""
    problem = subpopulations.Problem(arms, 1, noise_std=1)
    policy = subpopulations.BlockBetting(problem, seed=1)
    with Study.create(problem, policy, storage="memory://", name="hand", seed=1) as study:
        path = study.write_pulls(study.ask(2), tmp_path / "plate.csv")
        first, second = rows_of(path)
        assert {first["arm"], second["arm"]} == set(arms)
        path.write_text(
            "pull_id,arm,value\n"
            f"{first['pull_id']},{second['arm']},0\n{second['pull_id']},{first['arm']},0\n"
        )
        assert len(refusals(study, path)) == 2


def test_a_label_may_have_the_fifteen_digits_that_a_spreadsheet_keeps(tmp_path):
    problem = subpopulations.Problem(["0.30000000000000004", "other"], 1, noise_std=1)
    policy = subpopulations.BlockBetting(problem, seed=1)
    with Study.create(problem, policy, storage="memory://", name="hand", seed=1) as study:
        path = study.write_pulls(study.ask(2), tmp_path / "plate.csv")
        text = path.read_text().replace("0.30000000000000004", "0.3")
        path.write_text(text.replace(",\n", ",0\n"))
        assert len(study.tell_table(path)) == 2


def test_labels_and_conditions_may_have_decimal_commas_between_semicolons(tmp_path):
    """This is how a spreadsheet saves a table in a country with decimal commas."""
    problem = linear.Problem({"share": [0.5, 1.5], "one": [1, 1]}, arms=["0.5", "1.5"], noise_std=1)
    policy = linear.BlockBetting(problem)
    with Study.create(problem, policy, storage="memory://", name="hand", seed=1) as study:
        path = study.write_pulls(study.ask(2), tmp_path / "plate.csv")
        rows = [
            [*(text.replace(".", ",") for text in list(row.values())[:-1]), "0,25"]
            for row in rows_of(path)
        ]
        header = ";".join(rows_of(path)[0])
        path.write_text("\n".join([header, *map(";".join, rows)]) + "\n")
        assert [event.value for event in study.tell_table(path)] == [0.25, 0.25]


def test_another_value_than_before_is_refused_until_it_is_amended(study, plate):
    fill(plate, ["0.5", "0.25"])
    study.tell_table(plate)
    rows = fill(plate, ["0.5", "0.75", "1"])
    (mistake,) = refusals(study, plate)
    assert mistake.startswith("line 3: pull ")
    assert "was told 0.25 before, and now 0.75; correct it with amend" in mistake
    study.amend(rows[1]["pull_id"], 0.75, "a slip of the pen")
    assert [event.value for event in study.tell_table(plate)] == [0.5, 0.25, 1.0]
    with raises(ConflictingOutcome):
        study.tell(rows[1]["pull_id"], 0.8)


def test_a_result_after_the_loss_of_its_pull_is_taken(study, plate):
    rows = fill(plate, ["0.5"])
    study.fail(rows[0]["pull_id"], "dropped")
    assert [event.kind for event in study.tell_table(plate)] == ["late_tell"]


def test_a_table_without_the_columns_is_refused_by_name(study, tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("id,yield\na,1\n")
    with raises(InvalidArgument, "path"):
        study.tell_table(path)


@pytest.mark.parametrize("name", ["plate.txt", "plate"])
def test_pulls_are_only_written_to_files_that_can_be_told(study, tmp_path, name):
    with raises(InvalidArgument, "path"):
        study.write_pulls(study.ask(2), tmp_path / name)
    with raises(StorageError):
        study.write_pulls(study.outstanding(), tmp_path / "absent" / "plate.csv")


def test_what_a_pull_is_made_of_has_columns_of_its_own(tmp_path):
    conditions = {"base": ["K", "K", "=Cs"], "value": [1, 2, 2], "heat": [90, 105, 90]}
    problem = linear.Problem(conditions, noise_std=1.0, arms=["a", "b", "c"])
    policy = linear.BlockBetting(problem)
    with Study.create(problem, policy, storage="memory://", name="made", seed=1) as study:
        path = study.write_pulls(study.ask(3), tmp_path / "plate.csv")
        rows = rows_of(path)
        assert list(rows[0]) == ["pull_id", "number", "arm", "base", "heat", "value"]
        made = {row["arm"]: (row["base"], float(row["heat"])) for row in rows}
        assert made == {"a": ("K", 90), "b": ("K", 105), "c": ("'=Cs", 90)}
        fill(path, ["0.5", "", "0.25"], base="Na")
        (mistake,) = refusals(study, path)
        assert mistake.startswith(f"line 2: base is 'Na', but this pull is of {rows[0]['base']!r}")
        fill(path, ["0.5", "", "0.25"], base=rows[0]["base"], heat=rows[0]["heat"] + ".0")
        assert [event.value for event in study.tell_table(path)] == [0.5, 0.25]


def test_a_row_of_fields_is_told_by_several_columns(tmp_path):
    arms = {"k0": [[0.9, 0.1]] * 2, "k1": [[0.2, 0.8]] * 2}
    problem, _ = causal.chain(0.5, arms, [0.2, 0.9], 0.2)
    policy = causal.PlugIn(problem, budget=50)
    with Study.create(problem, policy, storage="memory://", name="rows", seed=1) as study:
        path = study.write_pulls(study.ask(3), tmp_path / "plate.csv")
        rows = rows_of(path)
        fields = [f"outcome_{name}" for name in problem.columns]
        assert list(rows[0]) == ["pull_id", "number", "arm", "sensitive", *fields]
        clean = problem.check_outcome({"S": "s", "V": 0, "Y": 0})
        lines = [["pull_id", *fields], [rows[0]["pull_id"], "s", "0", "0"]]
        lines += [[rows[1]["pull_id"], *("" for _ in fields)]]
        path.write_text("\n".join(map(",".join, lines)))
        assert [event.outcome for event in study.tell_table(path)] == [clean]
        lines += [[rows[2]["pull_id"], "s", *("" for _ in fields[1:])]]
        path.write_text("\n".join(map(",".join, lines)))
        (mistake,) = refusals(study, path)
        assert (
            mistake == f"line 4: {', '.join(fields[1:])} must be filled in, like the others of "
            "the row"
        )


@pytest.mark.parametrize("word", ["failed", " FAILED ", "missing"])
def test_a_word_says_that_a_pull_has_no_result(study, plate, word):
    rows = fill(plate, ["0.5", word])
    first, second = study.tell_table(plate, actor="lab")
    assert (first.kind, first.value) == ("tell", 0.5)
    assert (second.kind, second.pull_id, second.actor) == ("fail", rows[1]["pull_id"], "lab")
    head = study.head_hash
    assert [event.seq for event in study.tell_table(plate)] == [first.seq, second.seq]
    assert study.head_hash == head


def test_a_word_for_a_pull_with_a_result_is_refused_with_the_other_mistakes(study, plate):
    fill(plate, ["0.5"])
    study.tell_table(plate)
    fill(plate, ["failed", "<1", "NA"])
    first, second, third = refusals(study, plate)
    assert first.startswith("line 2: pull ")
    assert "was told before" in first
    assert "only a limit is known" in second
    assert third.startswith("line 4: value must be a number")


def test_words_for_measures_are_values_that_will_never_be_known_or_failed_pulls(tmp_path):
    problem = subpopulations.Problem(
        ["a", "b"], ["x"], measures={"good": (0, 1), "harm": (0, 1)}, objective="good"
    )
    policy = subpopulations.BlockBetting(problem)
    with Study.create(problem, policy, storage="memory://", name="two", seed=1) as study:
        first, second, third = study.ask(3)
        path = tmp_path / "plate.csv"
        header = "pull_id,outcome_good,outcome_harm\n"
        path.write_text(f"{header}{first.id},1,missing\n{second.id},failed,failed\n{third.id},,\n")
        told, failed = study.tell_table(path)
        assert (told.outcome, failed.kind) == ({"good": 1.0, "harm": None}, "fail")
        path.write_text(f"{header}{third.id},failed,1\n")
        (mistake,) = refusals(study, path)
        assert mistake.startswith("line 2: outcome_good must be 'missing'")


def test_a_state_with_the_name_of_a_word_is_told_as_a_state(tmp_path):
    model = causal.CausalModel(
        [("S", "V"), ("V", "Y")],
        states={"S": ["s", "t"], "V": ["passed", "failed"], "Y": ["0", "1"]},
        tables={"S": [0.5, 0.5], "Y": [[0.2, 0.8], [0.7, 0.3]]},
    )
    arms = {"old": [[0.5, 0.5], [0.5, 0.5]], "new": [[0.8, 0.2], [0.8, 0.2]]}
    problem = causal.Problem(model, "S", "V", "Y", arms, 0.2, (0.0, 1.0))
    policy = causal.PlugIn(problem, budget=50)
    with Study.create(problem, policy, storage="memory://", name="exams", seed=1) as study:
        (pull,) = study.ask(1)
        path = tmp_path / "plate.csv"
        path.write_text(f"pull_id,outcome_S,outcome_V,outcome_Y\n{pull.id},s,failed,1\n")
        (event,) = study.tell_table(path)
        assert event.outcome == {"S": "s", "V": "failed", "Y": 1.0}


def test_a_column_of_results_has_one_number_format(study, plate):
    fill(plate, ["0,5", "0,25", "0.125", "1"], separator=";")
    (mistake,) = refusals(study, plate)
    assert mistake.startswith("line 4: value must be a number with a decimal comma")


# -------------------------------------------------------------------------- corrections


@pytest.fixture
def corrected(study, plate):
    """A table of which three rows were told, with another value in the second row."""
    fill(plate, ["0.5", "0.25", "1"])
    study.tell_table(plate)
    return fill(plate, ["0.5", "0.75", "1"])


def test_a_table_corrects_the_results_that_differ(study, plate, corrected):
    (correction,) = study.amend_table(plate, "a slip of the pen", actor="lab")
    assert correction == Correction(corrected[1]["pull_id"], 0.25, 0.75)
    *_, event = study.events()
    assert (event.kind, event.pull_id, event.value) == ("amend", correction.pull_id, 0.75)
    assert event.actor == "lab"
    assert study.amend_table(plate, "again") == []


def test_a_preview_changes_nothing(study, plate, corrected):
    head = study.head_hash
    (correction,) = study.amend_table(plate, "a slip of the pen", preview=True)
    assert (correction.before, correction.after) == (0.25, 0.75)
    assert study.head_hash == head
    assert study.verify().ok
    assert study.amend_table(plate, "a slip of the pen") == [correction]


def test_corrections_with_a_mistake_change_nothing_and_name_every_row(study, plate, corrected):
    fill(plate, ["0.75", "7", "failed", "0.5"])
    head = study.head_hash
    with raises(InvalidTable) as caught:
        study.amend_table(plate, "several")
    assert [mistake.split(":")[0] for mistake in caught.value.mistakes] == [
        "line 3",
        "line 4",
    ]
    assert study.head_hash == head
    assert study.verify().ok


def test_a_plate_with_corrections_failures_and_late_results_is_amended_and_then_told(study, plate):
    fill(plate, ["0.5", "0.25", "failed"])
    study.tell_table(plate)
    rows = fill(plate, ["0.5", "0.75", "failed", "1"])
    with pytest.warns(UserWarning, match="plate.csv: 1 first result left to be told"):
        (correction,) = study.amend_table(plate, "mixed up", preview=True)
    with pytest.warns(UserWarning, match="1 first result left"):
        assert study.amend_table(plate, "mixed up") == [correction]
    assert (correction.pull_id, correction.after) == (rows[1]["pull_id"], 0.75)
    still_open = [row["pull_id"] for row in rows[3:]]
    assert {pull.id for pull in study.outstanding()} == set(still_open)
    late = study.tell_table(plate)[-1]
    assert (late.kind, late.pull_id, late.value) == ("tell", rows[3]["pull_id"], 1.0)
    assert study.amend_table(plate, "once more") == []


def test_a_failure_that_a_table_of_corrections_states_first_is_left_to_be_told(study, plate):
    fill(plate, ["0.5"])
    study.tell_table(plate)
    rows = fill(plate, ["0.5", "failed"])
    with pytest.warns(UserWarning, match="1 first result left"):
        assert study.amend_table(plate, "nothing") == []
    assert rows[1]["pull_id"] in {pull.id for pull in study.outstanding()}


@pytest.fixture
def ward():
    """A study of three participants whose pulls are open."""
    problem = subpopulations.Problem(["a", "b"], ["x"], reward_range=(0, 1))
    policy = subpopulations.BlockBetting(problem)
    rules = {"storage": "memory://", "name": "ward", "participants": "W#-###", "seed": 3}
    with Study.create(problem, policy, **rules) as opened:
        for number in range(1, 4):
            opened.ask(participant=f"W1-00{number}")
        yield opened


def of_participant(study, number):
    return study.pull_of(f"W1-00{number}").id


def test_participants_stand_for_ids_in_a_table_from_patients_files(ward, tmp_path):
    path = tmp_path / "files.csv"
    path.write_text("remark,participant,value\n,W1-003,1\nlate, W1-001 ,0.5\n,W1-002,\n")
    events = ward.tell_table(path, actor="nurse")
    assert [(event.pull_id, event.value, event.actor) for event in events] == [
        (of_participant(ward, 3), 1.0, "nurse"),
        (of_participant(ward, 1), 0.5, "nurse"),
    ]
    assert ward.tell_table(path) == events
    path.write_text("participant,value\nW1-002,failed\n")
    assert [event.kind for event in ward.tell_table(path)] == ["fail"]
    path.write_text("participant,value\nW1-002,0.25\n")
    assert [event.kind for event in ward.tell_table(path)] == ["late_tell"]


def test_all_mistakes_of_participants_are_listed_and_nothing_is_told(ward, tmp_path):
    path = tmp_path / "files.csv"
    rows = ["W1-001,0.5", "W1-009,0.5", "W1-001,0.25", "Jane Doe,1", ",1", "W1-002,2", "W1-003,1"]
    path.write_text("participant,value\n" + "\n".join(rows) + "\n")
    mistakes = refusals(ward, path)
    assert [mistake.partition(": ")[0] for mistake in mistakes] == [
        f"line {line}" for line in (3, 4, 5, 6, 7)
    ]
    assert "Jane" not in str(mistakes)


def test_participants_beside_ids_must_be_those_of_the_pulls(ward, tmp_path):
    path = ward.write_pulls(ward.outstanding(), tmp_path / "files.csv")
    rows = rows_of(path)
    assert [row["participant"] for row in rows] == ["W1-001", "W1-002", "W1-003"]
    fill(path, ["1", "0.5", "0"], participant="W1-002")
    (mistake,) = refusals(ward, path)
    assert mistake.startswith("line 2: participant must be that of the pull")
    # A row that was added by hand has no id, and names the pull of another row.
    fill(path, ["1", "0.5", "0"], participant="W1-002", pull_id="")
    (mistake,) = refusals(ward, path)
    assert mistake == "line 3: pull_id names the same pull as line 2"
    fill(path, ["1", "0.5", "0"], participant="W1-001")
    assert [event.value for event in ward.tell_table(path)] == [1.0, 0.5, 0.0]


def test_a_table_of_participants_corrects_results(ward, tmp_path):
    path = tmp_path / "files.csv"
    path.write_text("participant,value\nW1-001,0.5\nW1-002,0.25\n")
    ward.tell_table(path)
    path.write_text("participant,value\nW1-001,0.5\nW1-002,0.75\n")
    (found,) = ward.amend_table(path, "wrong column", preview=True)
    assert found == Correction(of_participant(ward, 2), 0.25, 0.75, "W1-002")
    assert ward.amend_table(path, "wrong column") == [found]
    path.write_text("participant,value\nW1-003,0.5\nW1-007,0.5\n")
    with raises(InvalidTable) as caught:
        ward.amend_table(path, "wrong column")
    assert [mistake.partition(": ")[0] for mistake in caught.value.mistakes] == ["line 3"]


def test_units_stand_for_ids_and_are_not_repeated_in_messages(study, tmp_path):
    path = tmp_path / "visitors.csv"
    pulls = [study.ask(unit=name) for name in ("ada", "bob")]
    path.write_text("unit,value\nbob,0.5\neve,1\n" + "x" * 300 + ",1\n")
    mistakes = refusals(study, path)
    assert [mistake.partition(": ")[0] for mistake in mistakes] == ["line 3", "line 4"]
    assert "eve" not in str(mistakes)
    assert "xxx" not in str(mistakes)
    path.write_text("unit,value\nbob,0.5\nada,1\n")
    assert [event.pull_id for event in study.tell_table(path)] == [pulls[1].id, pulls[0].id]


def test_a_column_of_units_of_measurement_beside_ids_is_left_alone(study, plate):
    rows = fill(plate, ["0.5"])
    lines = ["unit,pull_id,value"] + [f"mg,{row['pull_id']},{row['value']}" for row in rows]
    plate.write_text("\n".join(lines) + "\n")
    assert [event.value for event in study.tell_table(plate)] == [0.5]


def test_a_study_without_numbers_of_participants_asks_for_ids_or_units(study, tmp_path):
    path = tmp_path / "files.csv"
    path.write_text("participant,value\nW1-001,0.5\n")
    with raises(InvalidArgument) as caught:
        study.tell_table(path)
    assert caught.value.name == "path"
    assert "pull_id or unit, value" in caught.value.accepted
