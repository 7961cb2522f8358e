"""`fairtrial study create | ask | tell | fail | amend | stop | outstanding`: without Python."""

import csv
from pathlib import Path

import pytest

from fairtrial import causal, subpopulations
from fairtrial.cli import ExitCode
from fairtrial.errors import StorageError
from fairtrial.study import Study
from tests.cli.configurations import replayed, write

STORAGE = "sqlite:///small.db"
MEANS = {"a": 0.8, "b": -0.2}


@pytest.fixture
def created(folder, invoke):
    path = write(folder, replayed(source=None))
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    return path


@pytest.fixture
def pulls(created, document):
    """Six issued pulls, as documents."""
    return document("study", "ask", created, "-n", 6)[0]["pulls"]


def head():
    with Study.open(STORAGE, "small") as study:
        return study.head_hash


def number_of_events():
    with Study.open(STORAGE, "small") as study:
        return study.n_events


def fill(path, value):
    """Fill in a table of pulls; `value` is called with each row."""
    with Path(path).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    with Path(path).open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"value": value(row)} for row in rows)
    return rows


# ---------------------------------------------------------------------------- a study


def test_a_laboratory_comes_to_its_answer_by_plates(created, invoke, document):
    for night in range(20):
        asked = invoke("study", "ask", created, "-n", 40, "--csv", f"plate{night}.csv")
        if asked.exit_code:
            break
        fill(f"plate{night}.csv", lambda row: MEANS[row["arm"]])
        told, result = document("study", "tell", created, f"plate{night}.csv")
        assert result.exit_code == ExitCode.OK
    assert told["recommendation"]["arm"] == "a"
    assert asked.exit_code == ExitCode.FAILURE
    assert "has stopped" in asked.stderr
    assert document("study", "verify", created)[1].exit_code == ExitCode.OK


def test_create_makes_the_study_of_the_file_once(folder, invoke, document):
    path = write(folder, replayed(source=None))
    found, result = document("study", "create", path)
    assert (result.exit_code, found["study"], found["seed"]) == (ExitCode.OK, "small", 7)
    found, result = document("study", "create", path)
    assert (result.exit_code, found["error"]["type"]) == (ExitCode.USAGE, "StudyExists")


def test_a_file_with_mistakes_creates_nothing(folder, document):
    path = write(folder, replayed(source=None, policy={"name": "BlockBeting"}))
    assert document("study", "create", path)[1].exit_code == ExitCode.USAGE
    assert not (folder / "small.db").exists()


# ------------------------------------------------------------------------------- asks


def test_ask_shows_the_pulls_and_outstanding_shows_them_again(pulls, invoke, document):
    assert [pull["number"] for pull in pulls] == list(range(6))
    assert {pull["labels"]["arm"] for pull in pulls} == {"a", "b"}
    again = document("study", "outstanding", "trial.toml")[0]["pulls"]
    assert [{k: v for k, v in pull.items() if k != "asked_at"} for pull in again] == pulls
    text = invoke("study", "outstanding", "trial.toml").stdout
    assert all(pull["pull_id"] in text for pull in pulls)


def test_without_open_pulls_it_is_said_that_there_are_none(created, invoke):
    assert invoke("study", "outstanding", created).stdout == "small: no pull is open\n"


def test_ask_gives_one_pull_and_of_the_group_that_has_arrived(created, document):
    found, _ = document("study", "ask", created, "--group", "y", "--worker", "Ann")
    (pull,) = found["pulls"]
    assert pull["labels"]["group"] == "y"
    events = document("study", "history", created)[0]["events"]
    assert events[0]["actor"] == "Ann"


def test_a_unit_that_asks_again_gets_the_same_pull(created, document):
    first, _ = document("study", "ask", created, "--unit", "user-1", "--group", "x")
    (other,) = document("study", "ask", created, "--unit", "user-2")[0]["pulls"]
    again, result = document("study", "ask", created, "--unit", "user-1", "--group", "y")
    assert (again, result.exit_code) == (first, ExitCode.OK)
    assert other["pull_id"] != first["pulls"][0]["pull_id"]
    assert len(document("study", "history", created)[0]["events"]) == 2


def test_a_unit_keeps_its_pull_when_its_result_is_known_and_the_study_has_stopped(
    created, document
):
    (first,) = document("study", "ask", created, "--unit", "user-1")[0]["pulls"]
    document("study", "tell", created, first["pull_id"], "0.5")
    document("study", "stop", created, "--reason", "enough")
    (again,) = document("study", "ask", created, "--unit", "user-1")[0]["pulls"]
    assert (again["pull_id"], again["labels"]) == (first["pull_id"], first["labels"])
    found, result = document("study", "ask", created, "--unit", "user-2")
    assert (result.exit_code, found["error"]["type"]) == (ExitCode.FAILURE, "ExperimentFinished")


def test_the_name_of_a_unit_is_stored_nowhere(created, invoke):
    assert invoke("study", "ask", created, "--unit", "user-4711").exit_code == ExitCode.OK
    assert not [file for file in Path().iterdir() if b"user-4711" in file.read_bytes()]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        (["--unit", "u", "-n", 2], "n"),
        (["--unit", ""], "unit"),
    ],
)
def test_units_that_cannot_have_a_pull_are_refused_and_change_nothing(
    created, document, options, argument
):
    before = head()
    found, result = document("study", "ask", created, *options)
    assert (result.exit_code, found["error"]["type"]) == (ExitCode.USAGE, "InvalidArgument")
    assert found["error"]["message"].startswith(argument)
    assert head() == before


def test_a_pull_is_not_both_of_a_unit_and_of_a_participant(created, document):
    before = head()
    found, result = document("study", "ask", created, "--unit", "u", "--participant", "1")
    assert (result.exit_code, found["error"]["type"]) == (ExitCode.USAGE, "UsageError")
    assert head() == before


@pytest.mark.parametrize(
    ("given", "seconds"), [("90s", 90), ("1.5h", 5400), ("2d", 172_800), ("1w", 604_800)]
)
def test_a_lease_is_a_time_in_words(created, invoke, given, seconds):
    assert invoke("study", "ask", created, "--lease", given).exit_code == ExitCode.OK
    with Study.open(STORAGE, "small") as study:
        (event,) = study.events()
        assert (event.lease_until - event.at).total_seconds() == seconds


@pytest.mark.parametrize(
    "arguments",
    [
        ["-n", "0"],
        ["-n", "10001"],
        ["--group", "z"],
        ["--lease", "soon"],
        ["--lease", "2"],
        ["--lease", "0s"],
        ["--lease", "-2d"],
        ["--lease", "9" * 30 + "w"],
        ["--worker", ""],
        ["--csv", "plate.pdf"],
        ["--csv", "rows.csv"],
        ["--csv", "absent/plate.csv"],
    ],
)
def test_a_wrong_ask_issues_nothing(created, document, arguments):
    found, result = document("study", "ask", created, *arguments)
    assert (result.exit_code, "error" in found) == (ExitCode.USAGE, True)
    assert document("study", "outstanding", created)[0]["pulls"] == []


def test_a_group_is_refused_where_there_are_none(folder, invoke, document):
    problem = {"family": "delayed", "arms": ["a", "b"], "reward_range": [0, 1]}
    path = write(folder, replayed(source=None, problem=problem, policy=None))
    invoke("study", "create", path)
    found, result = document("study", "ask", path, "--group", "x")
    assert result.exit_code == ExitCode.USAGE
    assert "the problem has no groups" in found["error"]["message"]


def test_a_table_is_replaced_only_by_force(pulls, invoke):
    assert invoke("study", "outstanding", "trial.toml", "--csv", "open.csv").exit_code == 0
    again = ["study", "outstanding", "trial.toml", "--csv", "open.csv"]
    assert "--force" in invoke(*again).stderr
    assert invoke(*again, "--force").exit_code == ExitCode.OK


def test_pulls_whose_table_cannot_be_written_stay_open(created, document, monkeypatch):
    def full(path):
        raise StorageError(f"{path} cannot be written: No space left on device")

    monkeypatch.setattr("fairtrial.core.tables.replacing", full)
    found, result = document("study", "ask", created, "--csv", "plate.csv")
    assert result.exit_code == ExitCode.FAILURE
    assert "fairtrial study outstanding" in found["error"]["message"]
    assert len(document("study", "outstanding", created)[0]["pulls"]) == 1


def test_fewer_pulls_than_wanted_are_said_to_be_all(folder, invoke):
    policy = {"name": "BlockBetting", "max_pulls": 8}
    path = write(folder, replayed(source=None, policy=policy))
    invoke("study", "create", path)
    result = invoke("study", "ask", path, "-n", 20)
    assert (result.exit_code, "only 8 pulls can be given now" in result.stderr) == (0, True)
    result = invoke("study", "ask", path)
    assert (result.exit_code, "no pull to give" in result.stderr) == (ExitCode.FAILURE, True)


# ------------------------------------------------------------------------------ tells


def test_a_single_value_is_told_even_below_zero_and_twice_changes_nothing(pulls, invoke, document):
    tell = ("study", "tell", "trial.toml", pulls[0]["pull_id"], "-0.5")
    found, _ = document(*tell)
    assert (found["told"], found["told_before"], found["open"]) == (1, 0, 5)
    before = head()
    assert "did not change" in invoke(*tell).stdout
    assert document(*tell)[0]["told_before"] == 1
    assert head() == before


@pytest.mark.parametrize(
    "values",
    [["nan"], ["-inf"], ["1.5"], ["1_0"], ["0,5"], ["--jsn"], [""], ["0.5", "0.5"], ["arm=0.5"]],
)
def test_a_wrong_value_is_the_command_lines_mistake_and_changes_nothing(pulls, document, values):
    before = head()
    for command in (["tell"], ["amend", "--reason", "typing error"]):
        arguments = (*command, "trial.toml", pulls[0]["pull_id"], *values)
        found, result = document("study", *arguments)
        assert (result.exit_code, "error" in found) == (ExitCode.USAGE, True)
    assert head() == before


def test_a_wrong_pull_is_the_command_lines_mistake(pulls, document):
    for command in (["tell"], ["amend", "--reason", "x"]):
        assert document("study", *command, "trial.toml", "f" * 32, "0.5")[1].exit_code == 2
    assert document("study", "fail", "trial.toml", "f" * 32, "--reason", "x")[1].exit_code == 2


@pytest.mark.parametrize("table", ["absent.csv", "absent", "trial.toml", "."])
def test_what_is_no_table_is_refused(pulls, document, table):
    found, result = document("study", "tell", "trial.toml", table)
    assert (result.exit_code, "error" in found) == (ExitCode.USAGE, True)


def test_a_table_with_bad_rows_is_refused_as_a_whole(pulls, invoke, document):
    invoke("study", "outstanding", "trial.toml", "--csv", "plate.csv")
    fill("plate.csv", lambda row: "7" if row["number"] == "2" else "0.5")
    before = head()
    found, result = document("study", "tell", "trial.toml", "plate.csv")
    assert result.exit_code == ExitCode.USAGE
    assert found["error"]["mistakes"] == ["line 4: reward must be in [-1, 1]; got 7.0"]
    assert head() == before
    fill("plate.csv", lambda row: "" if row["number"] == "2" else "0.5")
    assert (
        "5 results taken; 1 pull still open"
        in invoke("study", "tell", "trial.toml", "plate.csv").stdout
    )
    assert (
        "no new result taken (5 more had been told before"
        in invoke("study", "tell", "trial.toml", "plate.csv").stdout
    )


def test_several_fields_are_told_by_name(folder, document):
    arms = {"k0": [[0.9, 0.1]] * 2, "k1": [[0.2, 0.8]] * 2}
    problem, _ = causal.chain(0.5, arms, [0.2, 0.9], 0.2)
    with Study.create(
        problem, causal.PlugIn(problem, budget=50), storage=STORAGE, name="rows", seed=1
    ) as study:
        pull = study.ask().id
    tell = ("study", "tell", "rows", pull, "--storage", STORAGE)
    for wrong in (["0"], ["S=s", "V=0"], ["S=s", "V=0", "Y=0", "Y=0"], ["S=s", "V=0", "Y=2"]):
        assert document(*tell, *wrong)[1].exit_code == ExitCode.USAGE
    assert document(*tell, "Y=1", "S=s", "V=0")[0]["told"] == 1


# --------------------------------------------------------------------- fail and amend


def test_a_failed_pull_is_open_no_longer_and_its_result_is_still_taken(pulls, document):
    pull = pulls[0]["pull_id"]
    fail = ("study", "fail", "trial.toml", pull, "--reason", "the vial broke")
    assert document(*fail)[0]["changed"]
    assert not document(*fail)[0]["changed"]
    assert len(document("study", "outstanding", "trial.toml")[0]["pulls"]) == 5
    events = document("study", "history", "trial.toml")[0]["events"]
    assert events[-1]["body"]["reason"] == "the vial broke"
    assert document("study", "tell", "trial.toml", pull, "0.5")[0]["told"] == 1
    assert document(*fail)[1].exit_code == ExitCode.USAGE


def test_a_result_is_corrected_with_a_reason(pulls, invoke, document):
    pull = pulls[0]["pull_id"]
    invoke("study", "tell", "trial.toml", pull, "0.5")
    amend = ("study", "amend", "trial.toml", pull, "-0.5", "--reason", "sign")
    found, _ = document(*amend)
    assert (found["pull_id"], found["changed"]) == (pull, True)
    assert not document(*amend)[0]["changed"]
    last = document("study", "history", "trial.toml")[0]["events"][-1]
    assert (last["value"], last["body"]["old"], last["body"]["reason"]) == (-0.5, 0.5, "sign")


@pytest.mark.parametrize("command", [["fail"], ["amend", "0.5"]])
def test_a_reason_is_required(pulls, document, command):
    name, *rest = command
    before = head()
    for reason in ([], ["--reason", " "]):
        arguments = ("study", name, "trial.toml", pulls[0]["pull_id"], *rest, *reason)
        assert document(*arguments)[1].exit_code == ExitCode.USAGE
    assert head() == before


# ------------------------------------------------------------------------------- stop


def test_a_stopped_study_issues_nothing_and_takes_what_is_under_way(pulls, invoke, document):
    stop = ("study", "stop", "trial.toml", "--reason", "the freezer failed")
    found, _ = document(*stop)
    assert (found["changed"], found["open"]) == (True, 6)
    assert found["recommendation"]["status"] == "undecided"
    assert not document(*stop)[0]["changed"]
    shown = invoke("study", "stop", "trial.toml", "--reason", "again").stdout
    assert "was already stopped; 6 pulls still open" in shown
    assert "the freezer failed" in shown
    assert document("study", "ask", "trial.toml")[1].exit_code != ExitCode.OK
    assert document("study", "tell", "trial.toml", pulls[0]["pull_id"], "0.5")[0]["told"] == 1
    assert "the freezer failed" in invoke("study", "show", "trial.toml").stdout
    assert "the freezer failed" in invoke("study", "history", "trial.toml").stdout


def test_a_stop_needs_a_reason(created, document):
    before = head()
    for reason in ([], ["--reason", " "]):
        assert document("study", "stop", created, *reason)[1].exit_code == ExitCode.USAGE
    assert head() == before


# ----------------------------------------------------------------------------- labels


def test_no_label_moves_the_cursor_or_becomes_a_formula(folder, invoke):
    arms = ["\x1b[2Ja", "=cmd()", "c"]
    problem = {**replayed()["problem"], "arms": arms}
    path = write(folder, replayed(source=None, problem=problem))
    invoke("study", "create", path)
    shown = invoke("study", "ask", path, "-n", 6).stdout
    assert "\x1b" not in shown
    assert "\\x1b[2Ja" in shown
    invoke("study", "outstanding", path, "--csv", "plate.csv")
    with Path("plate.csv").open(newline="") as stream:
        cells = {cell for row in csv.reader(stream) for cell in row}
    assert "'=cmd()" in cells
    assert "=cmd()" not in cells
    fill("plate.csv", lambda row: "7")
    refused = invoke("study", "tell", path, "plate.csv")
    assert "\x1b" not in refused.stderr
    fill("plate.csv", lambda row: "0.5")
    assert "6 results taken" in invoke("study", "tell", path, "plate.csv").stdout


def test_a_confidence_in_place_of_delta_is_refused(folder, invoke):
    path = write(folder, replayed(source=None, policy={"name": "BlockBetting", "delta": 0.95}))
    refused = invoke("study", "create", path)
    assert refused.exit_code == ExitCode.USAGE
    assert "Did you mean 0.05?" in refused.stderr
    fine = write(folder, replayed(source=None))
    refused = invoke("plan", fine, "--delta", "0.9")
    assert refused.exit_code == ExitCode.USAGE
    assert "Did you mean 0.1?" in refused.stderr


def test_messages_are_without_words_of_python(folder, invoke):
    path = write(folder, replayed(source=None, policy={"randomize": "maybe"}))
    refused = invoke("study", "create", path)
    assert "must be true, false or 'bernoulli'" in refused.stderr


def test_a_table_fails_pulls_and_corrects_results(pulls, invoke, document):
    invoke("study", "outstanding", "trial.toml", "--csv", "plate.csv")
    fill("plate.csv", lambda row: "failed" if row["number"] == "2" else "0.5")
    assert "6 results taken" in invoke("study", "tell", "trial.toml", "plate.csv").stdout
    fill("plate.csv", lambda row: {"1": "0.25", "2": ""}.get(row["number"], "0.5"))
    before = head()
    amend = ["study", "amend", "trial.toml", "plate.csv", "--reason", "misread"]
    found, _ = document(*amend, "--preview")
    (row,) = found["corrections"]
    assert (row["before"], row["after"], found["preview"]) == (0.5, 0.25, True)
    assert head() == before
    assert "1 result corrected" in invoke(*amend).stdout
    assert head() != before
    assert "0 results corrected" in invoke(*amend).stdout


def test_a_preview_needs_a_table(pulls, document):
    options = ["0.5", "--reason", "misread", "--preview"]
    _, result = document("study", "amend", "trial.toml", "f" * 32, *options)
    assert result.exit_code == ExitCode.USAGE


def test_a_mistaken_ask_is_undone_by_one_command(pulls, invoke, document):
    document("study", "ask", "trial.toml", "-n", 1000)
    undo = ("study", "fail", "trial.toml", "--since", 6, "--reason", "a typing error")
    before = head()
    assert invoke(*undo, input="n\n").exit_code == ExitCode.INTERRUPTED
    assert head() == before
    done = invoke(*undo, input="y\n")
    assert "1,000 pulls (numbers 6 to 1,005)" in done.stdout
    assert [
        pull["number"] for pull in document("study", "outstanding", "trial.toml")[0]["pulls"]
    ] == [*range(6)]
    rest, _ = document("study", "fail", "trial.toml", "--open", "--reason", "over")
    assert (rest["failed"], rest["open"]) == (6, 0)
    with Study.open(STORAGE, "small") as study:
        assert study.verify().ok


@pytest.mark.parametrize("which", [[], ["--open", "--since", 3]])
def test_what_fails_is_said_once(pulls, document, which):
    before = head()
    _, result = document("study", "fail", "trial.toml", *which, "--reason", "r")
    assert result.exit_code == ExitCode.USAGE
    assert head() == before


def test_an_old_result_is_told_once(created, document):
    old = ("study", "tell", created, "0.5", "--unsolicited", "arm=a", "--unsolicited", "group=x")
    for _ in range(2):
        _, result = document(*old, "--key", "paper 1")
        assert result.exit_code == ExitCode.OK
    with Study.open(STORAGE, "small") as study:
        [event] = study.events()
        assert (event.kind, event.value, event.number) == ("unsolicited", 0.5, -1)
    for wrong in (("arm=a",), ("arm=c", "group=x"), ("arm=a", "arm=a")):
        labels = [part for label in wrong for part in ("--unsolicited", label)]
        assert document("study", "tell", created, "0.5", *labels)[1].exit_code == ExitCode.USAGE


def test_a_study_that_requires_a_group_is_never_asked_without_one(folder, invoke, document):
    study = {"name": "small", "storage": STORAGE, "seed": 7, "require_group": True}
    path = write(folder, replayed(source=None, study=study))
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    refused, result = document("study", "ask", path)
    assert result.exit_code == ExitCode.USAGE
    assert "group" in refused["error"]["message"]
    asked, _ = document("study", "ask", path, "--group", "x")
    assert asked["pulls"][0]["labels"]["group"] == "x"


def test_close_ends_an_arm_or_a_group_once(created, document, invoke):
    closed, result = document("study", "close", created, "--group", "x", "--reason", "harm")
    assert (result.exit_code, closed["changed"]) == (ExitCode.OK, True)
    again, _ = document("study", "close", created, "--group", "x", "--reason", "other")
    assert again["changed"] is False
    assert document("study", "ask", created)[1].exit_code == ExitCode.USAGE
    asked, result = document("study", "ask", created, "--group", "y")
    assert asked["pulls"][0]["labels"]["group"] == "y"
    assert "group x is closed: this study can hardly decide any more" in result.stderr
    assert "group x: harm" in " ".join(invoke("study", "history", created).stdout.split())
    closed, _ = document("study", "close", created, "--arm", "a", "--reason", "harm")
    assert closed["notes"] == []
    assert closed["recommendation"]["confidence"] < 0.95


def test_closing_the_control_says_what_differences_from_it_are_worth(folder, invoke, document):
    problem = subpopulations.Problem(
        ["a", "b", "c"], ["x"], reward_range=(0, 1), floors=None, control="b"
    )
    policy = subpopulations.BlockBetting(problem)
    with Study.create(problem, policy, storage=STORAGE, name="control", seed=1) as study:
        for pull in study.ask(30):
            study.tell(pull, 0.5 + 0.1 * (pull.arm == "c"))
    where = "--storage", STORAGE
    closed, _ = document("study", "close", "control", "--arm", "b", "--reason", "harm", *where)
    assert "intervals of differences from it use only" in closed["notes"][0]
    again = invoke("study", "close", "control", "--arm", "b", "--reason", "harm", *where).stdout
    assert "the control b is closed" in " ".join(again.split())
    shown = " ".join(invoke("study", "show", "control", *where).stdout.split())
    assert "Difference from b (closed)" in shown
    assert "The control b is closed: intervals" in shown


@pytest.mark.parametrize("parts", [[], ["--arm", "a", "--group", "x"], ["--arm", "nobody"]])
def test_close_refuses_to_guess_what_is_meant(created, document, parts):
    before = head()
    result = document("study", "close", created, *parts, "--reason", "harm")[1]
    assert result.exit_code == ExitCode.USAGE
    assert head() == before


def test_a_participant_number_stands_for_a_pull(folder, invoke, document):
    study = {"name": "small", "storage": STORAGE, "seed": 7, "participants": "W#-###"}
    path = write(folder, replayed(source=None, study=study | {"kits": "K####"}))
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    assert document("study", "ask", path)[1].exit_code == ExitCode.USAGE
    asked, _ = document("study", "ask", path, "--participant", "W1-001")
    again, _ = document("study", "ask", path, "--participant", "W1-001")
    assert asked["pulls"] == again["pulls"]
    for command in (("kit", path, "W1-001", "K0001"), ("tell", path, "W1-001", "0.5")):
        assert document("study", *command)[1].exit_code == ExitCode.OK
    amended = document("study", "amend", path, "W1-001", "0.25", "--reason", "typing error")
    assert amended[1].exit_code == ExitCode.OK
    with Study.open(STORAGE, "small") as opened:
        assert [event.kind for event in opened.events()] == ["ask", "kit", "tell", "amend"]


def test_a_table_by_participant_goes_round_by_hand(folder, invoke, document):
    study = {"name": "small", "storage": STORAGE, "seed": 7, "participants": "W#-###"}
    path = write(folder, replayed(source=None, study=study))
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    numbers = "--participant", "W1-001", "--participant", "W1-002"
    assert invoke("study", "ask", path, *numbers, "--csv", "open.csv").exit_code == ExitCode.OK
    assert Path("open.csv").read_text().splitlines()[0].startswith("participant,pull_id,number")
    asked, _ = document("study", "ask", path, *numbers)
    assert [pull["participant"] for pull in asked["pulls"]] == ["W1-001", "W1-002"]
    refused = invoke("study", "ask", path, *numbers, "-n", 2)
    assert refused.exit_code == ExitCode.USAGE
    assert number_of_events() == 2
    Path("files.csv").write_text("participant,value\nW1-002,0.5\nW1-001,0.25\n")
    told, _ = document("study", "tell", path, "files.csv")
    assert (told["told"], told["open"]) == (2, 0)
    Path("files.csv").write_text("participant,value\nW1-002,0.75\nW1-001,0.25\n")
    amend = "study", "amend", path, "files.csv", "--reason", "typing error"
    previewed = invoke(*amend, "--preview").output
    assert "W1-002" in previewed
    assert "W1-001" not in previewed
    [correction] = document(*amend)[0]["corrections"]
    assert (correction["participant"], correction["after"]) == ("W1-002", 0.75)


def test_a_form_mistake_among_participants_asks_for_nobody(folder, invoke, document):
    study = {"name": "small", "storage": STORAGE, "seed": 7, "participants": "W#-###"}
    path = write(folder, replayed(source=None, study=study))
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    wrong = "--participant", "W1-001", "--participant", "W1-1"
    assert document("study", "ask", path, *wrong)[1].exit_code == ExitCode.USAGE
    assert number_of_events() == 0


def test_a_masked_study_is_supplied_sealed_and_unmasked(folder, invoke, document):
    study = {"name": "small", "storage": STORAGE, "participants": "W#-###", "kits": "K####"}
    path = write(folder, replayed(source=None, study=study | {"masked": True}))
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    assert document("study", "supply", path, "5", "--csv", "kits.csv")[0]["kits"] == 10
    kits = dict(line.split(",") for line in Path("kits.csv").read_text().split()[1:])
    asked = document("study", "ask", path, "--participant", "W1-001")[0]["pulls"][0]
    assert kits[asked["kits"][0]] == asked["labels"]["arm"]
    assert invoke("study", "kit", path, "W1-001").output.split()[-1] in kits
    arms = sorted(set(kits.values()))
    Path("names.csv").write_text("arm,name\n" + "".join(f"{arm},{arm}!\n" for arm in arms))
    assert document("study", "mask", path, "names.csv", "codes")[1].exit_code == ExitCode.OK
    assert Path("codes").stat().st_mode & 0o077 == 0
    again = document("study", "mask", path, "names.csv", "others")[1]
    assert again.exit_code == ExitCode.USAGE
    assert not Path("others").exists()
    command = ("study", "unmask", path, "codes", "W1-001", "--reason", "overdose")
    assert document(*command)[1].exit_code == ExitCode.USAGE
    shown = document(*command, "--actor", "on call")[0]["names"]
    assert shown == {asked["labels"]["arm"]: asked["labels"]["arm"] + "!"}
    assert len(document(*command[:4], *command[5:], "--actor", "board")[0]["names"]) == len(arms)
    for broken in ("nowhere", "kits.csv"):
        refused = document("study", "unmask", path, broken, "--reason", "x", "--actor", "me")[1]
        assert refused.exit_code == (ExitCode.FAILURE if broken == "nowhere" else ExitCode.USAGE)


def test_whoever_acts_on_a_file_is_recorded_and_shown(created, pulls, invoke, document):
    first, second = (pull["pull_id"] for pull in pulls[:2])
    acts = [
        ("tell", ["tell", created, first, "0.5"]),
        ("amend", ["amend", created, first, "0.6", "--reason", "typing error"]),
        ("fail", ["fail", created, second, "--reason", "spilt"]),
        ("fail", ["fail", created, "--open", "--yes", "--reason", "fire"]),
        ("close", ["close", created, "--arm", "a", "--reason", "harm"]),
        ("stop", ["stop", created, "--reason", "fire"]),
    ]
    for kind, arguments in acts:
        done = invoke("study", *arguments, "--actor", "Dr Who")
        assert done.exit_code == ExitCode.OK, done.output
        [event] = document("study", "history", created, "--last", 1)[0]["events"]
        assert (event["kind"], event["actor"]) == (kind, "Dr Who")
    assert "Dr Who" in invoke("study", "history", created, "--last", 1).output


def test_whoever_fills_in_a_table_is_recorded(created, invoke, document):
    invoke("study", "ask", created, "-n", 2, "--csv", "plate.csv")
    fill("plate.csv", lambda _: "0.5")
    invoke("study", "tell", created, "plate.csv", "--actor", "lab")
    fill("plate.csv", lambda _: "0.25")
    invoke("study", "amend", created, "plate.csv", "--reason", "unit", "--actor", "lead")
    events = document("study", "history", created, "--last", 4)[0]["events"]
    assert [event["actor"] for event in events] == ["lab", "lab", "lead", "lead"]


def test_outstanding_says_when_and_for_whom_pulls_were_asked_for(folder, invoke, document):
    rules = {"name": "small", "storage": STORAGE, "seed": 7, "participants": "P-###"}
    path = write(folder, replayed(source=None, study=rules))
    assert invoke("study", "create", path).exit_code == ExitCode.OK
    assert invoke("study", "ask", path, "--participant", "P-007").exit_code == ExitCode.OK
    [pull] = document("study", "outstanding", path)[0]["pulls"]
    assert pull["participant"] == "P-007"
    day = pull["asked_at"][:10]
    shown = invoke("study", "outstanding", path).stdout
    assert all(word in shown for word in ("asked_on", "participant", day, "P-007"))
    assert invoke("study", "outstanding", path, "--csv", "open.csv").exit_code == ExitCode.OK
    header, row = (folder / "open.csv").read_text().splitlines()
    assert (header.split(",")[0], row.split(",")[0]) == ("participant", "P-007")
    (folder / "told.csv").write_text(f"{header}\n{row.rstrip(',')},1\n")
    assert invoke("study", "tell", path, "told.csv").exit_code == ExitCode.OK
