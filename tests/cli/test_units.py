"""`fairtrial study ask --units FILE`: one pull for each unit in a file."""

from pathlib import Path

import pytest

from fairtrial.cli.exits import ExitCode
from fairtrial.cli.units import read_units
from fairtrial.core.sheets import read_sheet
from fairtrial.errors import InvalidArgument
from tests.cli.configurations import replayed, write
from tests.cli.test_by_hand import head
from tests.messages import raises


@pytest.fixture
def created(folder, invoke):
    path = write(folder, replayed(source=None))
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    return path


def wrote(name, text):
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_text_has_one_unit_in_each_line_and_each_gets_its_pull_again(created, document):
    wrote("visitors.txt", "\ufeffann\n\nbob \r\nann\n")
    first, result = document("study", "ask", created, "--units", "visitors.txt")
    assert result.exit_code == ExitCode.OK
    assert [pull["unit"] for pull in first["pulls"]] == ["ann", "bob"]
    (alone,) = document("study", "ask", created, "--unit", "bob")[0]["pulls"]
    assert alone["pull_id"] == first["pulls"][1]["pull_id"]
    wrote("visitors.txt", "bob\ncleo\nann\n")
    again, _ = document("study", "ask", created, "--units", "visitors.txt")
    ids = [pull["pull_id"] for pull in again["pulls"]]
    assert [ids[2], ids[0]] == [pull["pull_id"] for pull in first["pulls"]]
    assert len(document("study", "history", created)[0]["events"]) == 3


def test_a_table_says_the_group_of_each_unit_and_is_answered_by_a_table(created, document, invoke):
    wrote("visitors.csv", "unit;group;age\n17;x;50\n18;y;60\n")
    done, _ = document("study", "ask", created, "--units", "visitors.csv", "--csv", "pulls.csv")
    assert [pull["labels"]["group"] for pull in done["pulls"]] == ["x", "y"]
    sheet = read_sheet("pulls.csv")
    assert sheet.labels("unit") == ["17", "18"]
    assert sheet.labels("pull_id") == [pull["pull_id"] for pull in done["pulls"]]
    text = Path("pulls.csv").read_text(encoding="utf-8").splitlines()
    Path("pulls.csv").write_text("\n".join([text[0], *(f"{line}0.5" for line in text[1:])]))
    told, result = document("study", "tell", created, "pulls.csv")
    assert (result.exit_code, told["told"]) == (ExitCode.OK, 2)
    assert "17" in invoke("study", "ask", created, "--units", "visitors.csv").stdout


@pytest.mark.parametrize(
    ("name", "text", "argument"),
    [
        ("a.txt", "ann\n" + "b" * 1_001 + "\n", "--units, line 2"),
        ("a.csv", "unit,group\nann,x\n ,x\n", "--units, line 3"),
        ("a.csv", "unit,group\nann,x\n\nann,y\n", "--units, line 4"),
        ("a.csv", "unit,group\nann,x\nbob,z\n", "--units, line 3: group"),
        ("a.csv", "unit,group\nann,x\nbob,\n", "--units, line 3: group"),
        ("a.csv", "user\nann\n", "table"),
        ("a.txt", "\n \n", "--units"),
        ("missing.txt", None, "path"),
    ],
)
def test_a_file_that_cannot_be_asked_for_is_refused_before_anything_is(
    created,
    document,
    name,
    text,
    argument,
):
    if text is not None:
        wrote(name, text)
    before = head()
    found, result = document("study", "ask", created, "--units", name)
    assert (result.exit_code, found["error"]["type"]) == (ExitCode.USAGE, "InvalidArgument")
    assert found["error"]["message"].startswith(argument)
    assert head() == before


@pytest.mark.usefixtures("folder")
def test_a_message_names_the_line_and_not_the_person():
    path = wrote("a.csv", "unit,group\nann,x\nann,y\n")
    with raises(InvalidArgument) as caught:
        read_units(path)
    assert "ann" not in str(caught.value)


@pytest.mark.parametrize(
    "more", [["-n", "2"], ["--unit", "cleo"], ["--participant", "1"], ["--group", "x"]]
)
def test_other_ways_to_say_who_is_meant_are_refused(created, invoke, more):
    wrote("a.csv", "unit,group\nann,x\n")
    before = head()
    result = invoke("study", "ask", created, "--units", "a.csv", *more)
    assert result.exit_code == ExitCode.USAGE
    assert head() == before


def test_units_that_are_left_without_a_pull_are_counted(created, document):
    wrote("a.txt", "ann\n")
    (first,) = document("study", "ask", created, "--units", "a.txt")[0]["pulls"]
    document("study", "stop", created, "--reason", "enough")
    wrote("a.txt", "ann\nbob\ncleo\n")
    found, result = document("study", "ask", created, "--units", "a.txt")
    assert (result.exit_code, found["pulls"]) == (ExitCode.OK, [first])
    assert "2 units without one, from line 2 on" in result.stderr
    wrote("a.txt", "cleo\n")
    found, result = document("study", "ask", created, "--units", "a.txt")
    assert found["error"]["type"] == "ExperimentFinished"
