"""`fairtrial demo`: the ACTG 175 trial."""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairtrial.cli import ExitCode, demonstration
from fairtrial.cli.app import app
from fairtrial.study import Study

FOLDER = "fairtrial-demo"
FRONT_PAGE = Path(__file__).parents[2] / "docs/index.md"
DEFAULTS = {"seed": 6, "delta": 0.05}


@pytest.fixture(scope="module")
def variants():
    """Return a demonstration's results for other floors, computed once: they take longest."""
    return demonstration.variants(**DEFAULTS)


@pytest.fixture(scope="module")
def shown(tmp_path_factory, variants):
    """Run the demonstration once, like a new user; return its output and its folder."""
    folder = tmp_path_factory.mktemp("newcomer") / FOLDER
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fairtrial.cli.commands.demo.variants", lambda **given: asked.append(given) or variants
        )
        result = CliRunner().invoke(app, ["demo", "--output", str(folder)], catch_exceptions=False)
    assert asked == [DEFAULTS]
    assert result.exit_code == ExitCode.OK
    return result.stdout, folder


def numbers(text, pattern):
    return [int(number.replace(",", "")) for number in re.search(pattern, text, re.DOTALL).groups()]


def test_the_trial_is_decided_with_fewer_patients_than_it_had(shown):
    text, _ = shown
    assert "Answer: zdv_ddi" in text
    assert "the answer is right" in text
    assert "proven: block betting for bounded rewards" in text
    told, patients = numbers(text, r"Pulls +([\d,]+); the trial had ([\d,]+) patients")
    assert told < patients == 2139
    assert f"after {told:,} patients" in FRONT_PAGE.read_text(encoding="utf-8")


def test_the_pulls_are_held_against_the_bound_of_the_trials_own_spread(shown):
    text, _ = shown
    (bound,) = numbers(text, r"need\s+at\s+least\s+([\d,]+)\s+on\s+average")
    # T* = 208 to 209 with the cells' own spread, times kl(.05, .95) = 2.65.
    assert bound == pytest.approx(208.5 * 2.65, rel=0.01)


def test_the_log_is_verified_and_stays_on_disk(shown):
    text, folder = shown
    assert "verified: " in text
    with Study.open(folder / "study.db", "actg175") as study:
        assert study.verify().ok
        assert study.recommend().arm == "zdv_ddi"
        assert study.problem.reward_range == (-1.0, 1.0)


def test_picture_and_report_are_written_and_need_nothing_else(shown):
    _, folder = shown
    assert (folder / "actg175.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "actg175.html").read_text(encoding="utf-8")
    assert "ACTG 175" in page
    assert "Hammer" in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//|<script|@import|url\(""", page)


def test_what_cannot_be_decided_is_said_honestly(shown):
    text, _ = shown
    for floor in ("0.70", "0.75"):
        said = re.search(rf"floor {floor} +(.*?)(?=floor|\Z)", text, re.DOTALL)[1]
        assert "cannot decide within the budget of 2,139 patients" in said
        assert "without any" in said
    said = re.search(r"floor 0.78 +(.*)", text, re.DOTALL)[1]
    assert "no arm is acceptable" in said
    assert "more\n              than the trial had" in said or "more than the trial had" in said


def test_json_holds_all_of_it_and_every_start_is_fresh(
    folder, document, shown, variants, monkeypatch
):
    monkeypatch.setattr("fairtrial.cli.commands.demo.variants", lambda **options: variants)
    found, result = document("demo")
    assert result.exit_code == ExitCode.OK
    assert found["progress"]["recommendation"]["arm"] == found["right_answer"] == "zdv_ddi"
    assert found["verification"]["ok"] is True
    statuses = [item["recommendation"]["status"] for item in found["variants"]]
    assert statuses == ["undecided", "undecided", "decided"]
    assert found["variants"][2]["recommendation"]["arm"] is None
    with Study.open(f"{FOLDER}/study.db", "actg175") as study:
        values = [event.value for event in study.events()]
    with Study.open(shown[1] / "study.db", "actg175") as study:
        assert values == [event.value for event in study.events()]


@pytest.fixture
def earlier(folder, shown, monkeypatch):
    """Let the next demonstration find an earlier study, and skip the rest of its work."""
    monkeypatch.setattr("fairtrial.cli.commands.demo.variants", lambda **options: [])
    return shutil.copytree(shown[1], folder / FOLDER)


def test_a_study_that_is_there_can_be_gone_on_with(earlier, document):
    with Study.open(earlier / "study.db", "actg175") as study:
        events, told = len(list(study.events())), study.progress().told
    kept, _ = document("demo", "--keep", "--delta", 0.2, "--seed", 3)
    assert kept["progress"]["told"] == told
    assert kept["verification"]["events"] == events


def test_nothing_but_the_demonstrations_own_files_is_removed(earlier, invoke, monkeypatch):
    monkeypatch.setattr(demonstration, "drive", lambda *arguments: "interrupted")
    (earlier / "notes.txt").write_text("mine")
    invoke("demo", "--delta", 0.2)
    assert (earlier / "notes.txt").read_text() == "mine"
    with Study.open(earlier / "study.db", "actg175") as study:
        assert study.progress().told == 0


def test_an_interrupted_demonstration_says_how_to_go_on(folder, invoke, monkeypatch):
    monkeypatch.setattr(demonstration, "drive", lambda *arguments: "interrupted")
    result = invoke("demo")
    assert result.exit_code == ExitCode.INTERRUPTED
    assert f"fairtrial demo --keep --output {FOLDER}" in result.stderr
    assert not (folder / FOLDER / "actg175.html").exists()


def test_without_matplotlib_the_rest_is_there(earlier, document, monkeypatch):
    from fairtrial.errors import MissingExtra

    def missing(*arguments, **options):
        raise MissingExtra("pictures", "plots")

    monkeypatch.setattr("fairtrial.plots.overview", missing)
    (earlier / "actg175.html").unlink()
    found, result = document("demo", "--keep")
    assert result.exit_code == ExitCode.OK
    assert found["picture"] is None
    assert (earlier / "actg175.html").exists()


def test_a_folder_that_cannot_be_made_is_a_failure(folder, document):
    (folder / "file").touch()
    found, result = document("demo", "--output", folder / "file" / "inside")
    assert (result.exit_code, found["error"]["type"]) == (ExitCode.FAILURE, "NotADirectoryError")
