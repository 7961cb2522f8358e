"""`fairtrial run` in this process; signals and other processes are in test_processes."""

import json

import pytest

from fairtrial.cli import ExitCode
from fairtrial.study import Study
from tests.cli.configurations import ROWS, replayed, write, write_table

STORAGE = "sqlite:///small.db"
ABOUT = f"About {len(ROWS)} rows of rows.csv, sampled repeatedly: this says nothing beyond them."


def log(name="small", storage=STORAGE):
    """Return the decisions and results, without times, identities and hashes."""
    with Study.open(storage, name) as study:
        assert study.verify().ok
        return [(e.kind, e.number, e.action, e.tag, e.value, e.body) for e in study.events()]


def uninterrupted(folder, invoke, **changes):
    section = {**replayed(**changes)["study"], "storage": "sqlite:///whole.db"}
    path = write(folder, replayed(**{**changes, "study": section}), "whole.toml")
    invoke("run", path)
    return log(storage="sqlite:///whole.db")


# -------------------------------------------------------------------------- decisions


def test_a_run_decides_and_says_what_it_promises(folder, invoke):
    result = invoke("run", write(folder, replayed()))
    assert result.exit_code == ExitCode.OK
    about, answer, *_ = result.stdout.splitlines()
    assert about == ABOUT
    assert answer.startswith("Answer: a  (")
    for part in ("Why", "Guarantee", "at most 0.05", "proven", "Provided", "[-1, 1]"):
        assert part in result.stdout
    assert (folder / "small.db").exists()


def test_only_a_replay_is_said_to_be_about_its_rows(folder, invoke, document):
    path = write(folder, replayed())
    found, _ = document("run", path)
    assert found["about"] == ABOUT
    assert invoke("study", "show", path).stdout.splitlines()[0] == ABOUT
    assert document("study", "show", "small", "--storage", STORAGE)[0]["about"] == ABOUT
    invoke("study", "report", path, "--out", "page.html")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert page.index(ABOUT) < page.index("Answer: a")
    # Means plus and minus a deviation are also drawn from a table, but no user gave one.
    means = {"kind": "simulate", "means": [[0.5, 0.5], [-0.5, -0.5]], "std": 0.25}
    study = {"name": "assumed", "storage": STORAGE}
    found, _ = document("run", write(folder, replayed(source=means, study=study), "means.toml"))
    assert found["about"] is None


def test_json_is_the_one_document_on_standard_output(folder, document):
    found, result = document("run", write(folder, replayed()))
    assert result.exit_code == 0
    assert (found["study"], found["seed"], found["ending"]) == ("small", 7, "stopped")
    assert found["storage"] == f"sqlite:///{folder}/small.db"
    assert found["progress"]["recommendation"]["arm"] == "a"
    assert found["progress"]["recommendation"]["status"] == "decided"


def test_a_finished_study_gives_its_answer_again_and_is_not_touched(folder, document):
    path = write(folder, replayed())
    first, _ = document("run", path)
    before = log()
    again, result = document("run", path)
    assert result.exit_code == 0
    assert again == first
    assert log() == before


def test_without_a_seed_one_is_drawn_and_kept(folder, document):
    path = write(folder, replayed(study={"name": "small", "storage": STORAGE}))
    first, _ = document("run", path, "--pulls", 3)
    again, _ = document("run", path)
    assert again["seed"] == first["seed"]


def test_no_answer_has_its_own_exit_code(folder, document):
    path = write(folder, replayed(policy={"name": "BlockBetting", "max_pulls": 60}))
    for _ in range(2):
        found, result = document("run", path)
        assert found["progress"]["recommendation"]["status"] == "undecided"
        assert found["progress"]["recommendation"]["leader"] == "a"
        assert result.exit_code == ExitCode.NO_ANSWER


def test_no_arm_is_an_answer(folder, invoke):
    problem = {**replayed()["problem"], "floors": 0.9}
    result = invoke("run", write(folder, replayed(problem=problem)))
    assert result.exit_code == ExitCode.OK
    assert "Answer: no arm is acceptable" in result.stdout


def test_another_policy_and_a_simulated_environment_do_as_well(folder, document):
    changes = {
        "problem": {
            "family": "subpopulations",
            "arms": ["a", "b"],
            "groups": ["x"],
            "noise_std": 0.5,
        },
        "policy": {"name": "BalancedTracking", "delta": 0.2, "stopping": "stylised"},
        "source": {"kind": "simulate", "means": {"a": {"x": 2.0}, "b": {"x": 1.0}}},
    }
    found, result = document("run", write(folder, replayed(**changes)))
    assert result.exit_code == 0
    assert found["progress"]["recommendation"]["arm"] == "a"
    assert found["progress"]["recommendation"]["guarantee"]["proven"] is False


def test_a_policy_that_never_stops_has_served_when_the_session_ends(folder, invoke):
    changes = {
        "problem": {"family": "allocation", "arms": ["a", "b"], "shares": "1/4"},
        "policy": {"name": "FairLearn"},
        "source": {"kind": "simulate", "means": {"a": 0.9, "b": 0.1}},
    }
    result = invoke("run", write(folder, replayed(**changes)), "--pulls", 20)
    assert result.exit_code == ExitCode.OK
    assert result.stdout.startswith("Serving continues: 20 results so far; the leader is a\n")
    assert "never stops" not in result.stderr


def test_that_a_policy_never_stops_is_said_before_it_serves(folder, invoke):
    changes = {
        "problem": {"family": "allocation", "arms": ["a", "b"], "shares": "1/4"},
        "policy": {"name": "FairLearn"},
        "source": {"kind": "command", "run": "exit 1"},
    }
    result = invoke("run", write(folder, replayed(**changes)))
    said = "FairLearn never stops by itself: --pulls N or Ctrl-C ends the session.\n"
    assert result.stderr.startswith(said)


# --------------------------------------------------------------------------- resuming


def test_sessions_of_any_length_make_the_same_study_as_one_without_a_break(folder, invoke):
    path = write(folder, replayed())
    codes = [invoke("run", path, "--pulls", pulls).exit_code for pulls in (1, 2, 17, 1)]
    assert codes == [ExitCode.NO_ANSWER] * 4
    assert invoke("run", path).exit_code == ExitCode.OK
    assert log() == uninterrupted(folder, invoke)


def test_a_pull_left_open_by_a_dead_process_is_taken_up_first(folder, invoke):
    path = write(folder, replayed())
    invoke("run", path, "--pulls", 5)
    with Study.open(STORAGE, "small") as study:
        study.ask()
    assert invoke("run", path).exit_code == ExitCode.OK
    assert log() == uninterrupted(folder, invoke)


def test_the_last_pull_of_a_session_may_decide(folder, document):
    path = write(folder, replayed())
    whole, _ = document("run", path)
    section = {**replayed()["study"], "name": "other"}
    told = whole["progress"]["told"]
    found, result = document(
        "run", write(folder, replayed(study=section), "o.toml"), "--pulls", told
    )
    assert (result.exit_code, found["ending"]) == (ExitCode.OK, "stopped")


# ------------------------------------------------------------------------ bad input


def test_nothing_runs_before_the_whole_file_is_right(folder, invoke, document):
    path = write(folder, replayed(policy={"delta": 3, "seed": 1}, source={"kind": "replay"}))
    result = invoke("run", path)
    assert result.exit_code == ExitCode.USAGE
    assert result.stdout == ""
    assert "3 mistakes" in result.stderr
    found, result = document("run", path)
    assert result.exit_code == ExitCode.USAGE
    assert found["error"]["type"] == "ConfigurationError"
    assert found["error"]["source"] == str(path)
    assert [line.split(":")[0] for line in found["error"]["mistakes"]] == [
        "policy.seed",
        "policy.delta",
        "source.table",
    ]
    assert not (folder / "small.db").exists()


def test_a_changed_file_is_not_mixed_with_the_study_that_exists(folder, invoke, document):
    invoke("run", write(folder, replayed()), "--pulls", 3)
    before = log()
    path = write(folder, replayed(policy={"name": "BlockBetting", "delta": 0.1}))
    found, result = document("run", path)
    assert result.exit_code == ExitCode.USAGE
    assert found["error"]["type"] == "StudyExists"
    assert "delta" in found["error"]["message"]
    assert log() == before


@pytest.mark.parametrize("storage", ["sqlite:///absent/small.db", "sqlite:///."])
def test_a_storage_that_cannot_be_used_is_a_failure(folder, document, storage):
    path = write(folder, replayed(study={"name": "small", "storage": storage}))
    found, result = document("run", path)
    assert (result.exit_code, found["error"]["type"]) == (ExitCode.FAILURE, "StorageError")


def test_a_table_that_changes_between_sessions_is_checked_anew(folder, invoke):
    path = write(folder, replayed())
    invoke("run", path, "--pulls", 3)
    write_table(folder, [*ROWS, ("a", "x", 5)])
    result = invoke("run", path)
    assert result.exit_code == ExitCode.USAGE
    assert "line 10: must be in [-1, 1]; got 5.0" in result.stderr


# ------------------------------------------------------------------- shell commands


def commanded(script, **options):
    return replayed(source={"kind": "command", "run": script, **options})


MEASURE = "test {arm} = a && echo 0.8 || echo 0.1"


def test_a_command_measures_every_pull_once(folder, invoke):
    script = f"echo {{pull}} >> seen; echo note >&2; {MEASURE}"
    assert invoke("run", write(folder, commanded(script))).exit_code == ExitCode.OK
    seen = [int(line) for line in (folder / "seen").read_text().split()]
    told = [number for kind, number, *_ in log() if kind == "tell"]
    assert seen == told == list(range(len(told)))


@pytest.mark.parametrize(
    ("breakage", "trouble"),
    [
        ("echo broken probe >&2; exit 7", "exited with code 7"),
        ("echo no reading", "must be a number"),
        ("echo nan", "must be a number"),
        ("touch hangs; sleep 600", "did not end within 60.5 s"),
    ],
)
def test_a_source_that_fails_stops_the_run_and_its_pull_is_measured_again(
    folder, invoke, document, leap, breakage, trouble
):
    script = (
        "echo {pull} >> seen; if test {pull} = 5 && test ! -e fixed; "
        f"then {breakage}; else {MEASURE}; fi"
    )
    path = write(folder, commanded(script, timeout=60.5))
    found, result = document("run", path)
    assert result.exit_code == ExitCode.FAILURE
    assert found["error"]["type"] == "SourceError"
    assert "pull 5 (arm " in found["error"]["message"]
    assert trouble in found["error"]["message"]
    assert f"To continue: fairtrial run {path}" in found["error"]["message"]
    assert log()[-1][:2] == ("ask", 5)
    (folder / "hangs").unlink(missing_ok=True)
    (folder / "fixed").touch()
    assert invoke("run", path).exit_code == ExitCode.OK
    seen = [int(line) for line in (folder / "seen").read_text().split()]
    assert seen.count(5) == 2
    assert sorted(set(seen)) == list(range(seen[-1] + 1))


def test_the_end_of_standard_error_is_in_the_message(folder, invoke):
    result = invoke("run", write(folder, commanded("echo probe 3 is broken >&2; exit 1")))
    assert "probe 3 is broken" in result.stderr
    assert result.stdout == ""


def test_json_never_holds_what_json_cannot_say(folder, document):
    problem = {**replayed()["problem"], "floors": float("-inf")}
    found, result = document("run", write(folder, replayed(problem=problem)), "--pulls", 1)
    assert result.exit_code == ExitCode.NO_ANSWER
    json.dumps(found, allow_nan=False)


def test_limits_on_other_predictions_are_a_table_of_a_file_and_are_shown(folder, invoke, document):
    rows = [[1, dose, heat] for dose in (0, 1) for heat in (0, 1)]
    cold = {"features": [[1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0]], "floors": 0.2}
    path = write(
        folder,
        {
            "study": {"name": "doses", "storage": STORAGE, "seed": 1},
            "problem": {
                "family": "linear",
                "features": rows,
                "arms": ["a", "b", "c", "d"],
                "floors": {"a": 0.1},
                "noise_std": 0.2,
                "limits": {"cold": cold},
            },
            "source": {"kind": "simulate", "theta": [0.1, 0.5, 0.3]},
        },
    )
    result = invoke("run", path)
    assert "'d' is the best that keeps all its limits" in result.stdout
    shown = invoke("study", "show", "doses", "--storage", STORAGE).stdout
    assert "Limits on other predictions" in shown
    assert "no arm" in shown
    found, _ = document("study", "show", "doses", "--storage", STORAGE)
    limited = found["progress"]["limited"]
    assert [one["prediction"] for one in limited] == ["cold"] * 4
    assert {one["lower_limit"] for one in limited} == {0.2}
