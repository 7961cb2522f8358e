import os
import shlex
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial import delayed
from fairtrial.cli.sources import CommandRewards, EnvironmentRewards
from fairtrial.core import Pull
from fairtrial.errors import SourceError
from fairtrial.subpopulations import GaussianEnvironment, Problem
from tests.messages import raises

PROBLEM = Problem(["a", "b c"], ["x", "y"], reward_range=(-1, 1))
PULL = Pull(7, 2, {"arm": "b c", "group": "x"})


def command(text, **options):
    return CommandRewards(text, PROBLEM, **options)


def failure(text, **options):
    with raises(SourceError) as caught:
        command(text, **options).reward(PULL)
    return str(caught.value)


# ------------------------------------------------------------------ simulated environments


def gaussian_environment():
    problem = Problem(2, 2, noise_std=1.0)
    return GaussianEnvironment(problem, [[0, 1], [2, 3]])


@given(st.integers(0, 2**40), st.integers(0, 2**31))
def test_an_environments_reward_is_a_function_of_seed_and_pull_number_alone(seed, number):
    environment, pull = gaussian_environment(), Pull(number, 1, {})
    first = EnvironmentRewards(environment, seed)
    first.reward(Pull(number + 1, 0, {}))
    assert first.reward(pull) == EnvironmentRewards(environment, seed).reward(pull)


def test_rewards_of_different_pulls_and_seeds_are_independent_draws_of_the_cell():
    environment = gaussian_environment()
    draws = np.array(
        [
            [EnvironmentRewards(environment, seed).reward(Pull(n, 1, {})) for n in range(200)]
            for seed in (0, 1)
        ]
    )
    # 400 standard normal draws around 1: four standard errors of mean, correlation and spread.
    assert abs(draws.mean() - 1.0) < 4 / 20
    assert abs(np.corrcoef(draws)[0, 1]) < 4 / np.sqrt(200)
    assert abs(draws.std() - 1.0) < 4 / np.sqrt(800)


# ------------------------------------------------------------------ shell commands


def test_the_last_line_that_a_command_prints_is_the_reward():
    assert command("echo measuring; echo ' 0.25 '; echo").reward(PULL) == 0.25


def test_labels_and_number_come_as_placeholders_and_as_variables(tmp_path):
    script = (
        "echo {arm}/{group}/{pull}/$FAIRTRIAL_ARM/$FAIRTRIAL_GROUP/$FAIRTRIAL_PULL > seen; echo 0"
    )
    command(script, folder=tmp_path).reward(PULL)
    assert (tmp_path / "seen").read_text() == "b c/x/7/b c/x/7\n"


@pytest.mark.parametrize("label", ["a\0b", "\ud800"], ids=["nul", "surrogate"])
def test_a_label_that_no_variable_can_hold_is_reported(label):
    pull = Pull(7, 0, {"arm": label, "group": "x"})
    with raises(SourceError):
        command("echo 1").reward(pull)


def test_a_failing_command_is_reported_with_pull_code_and_the_end_of_its_errors():
    message = failure("seq 20 >&2; exit 3")
    assert "pull 7 (arm b c, group x): the command exited with code 3" in message
    assert "command: seq 20 >&2; exit 3" in message
    assert "    20" in message
    assert "    10\n" not in message  # only the last ten lines


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("true", "printed nothing"),
        ("echo rubbish", "printed 'rubbish' as its last line: a reward must be a number"),
        ("echo 0.5 cells", "a reward must be a number alone; a unit"),
        ("echo 72%", "without a percent sign"),
        ("echo 1_000", "must be a number"),
        ("echo 1,5", "with a decimal point"),
        ("echo 2,347", "with a decimal point"),
        ("echo 1e400", "must be a finite number"),
        ("echo nan", "a reward must be a number"),
        ("echo inf", "a reward must be a number"),
        ("echo 1.5", r"a reward must be in [-1, 1]"),
        ("kill -9 $$", "was ended by signal 9"),
        ("no-such-command-here", "exited with code 127"),
    ],
)
def test_what_is_not_a_reward_is_refused(text, trouble):
    assert trouble in failure(text)


def test_a_folder_that_is_not_there_is_reported(tmp_path):
    assert "could not be started" in failure("echo 1", folder=tmp_path / "absent")


LATE = delayed.Problem(["a", "b"], noise_std=1.0)


def test_a_command_that_was_not_started_fails_no_pull_of_a_race(tmp_path):
    absent = CommandRewards("echo 1", LATE, folder=tmp_path / "absent")
    with raises(SourceError):
        absent.reward(LATE.pull(arm="a"))


@pytest.mark.parametrize("problem", [PROBLEM, LATE])
def test_without_a_place_for_its_output_no_command_is_started(problem, monkeypatch, tmp_path):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    source = CommandRewards(f"touch {tmp_path}/ran; echo 1", problem)
    with raises(SourceError):
        source.reward(Pull(0, 0, problem.labels(0)))
    assert not list(tmp_path.iterdir())


def test_a_command_that_never_stops_printing_is_stopped(monkeypatch):
    monkeypatch.setattr("fairtrial.cli.command_runner._MOST_BYTES", 2**20)
    endless = "while true; do head -c 200000 /dev/zero; sleep 0.01; done"
    assert "printed more than 1 MiB and was stopped" in failure(endless)
    assert "printed more than 1 MiB and was stopped" in failure(f"({endless}) >&2")


def test_the_end_of_a_line_is_no_reward(tmp_path):
    (tmp_path / "long").write_text("x" + " " * 70_000 + "0.5\n")
    assert "must be a number" in failure("cat long", folder=tmp_path)
    assert len(failure("head -c 300000 /dev/zero")) < 1000


def test_a_hanging_command_is_ended_with_all_that_it_started(tmp_path, leap):
    script = "sleep 600 & echo $! > child; touch hangs; wait"
    message = failure(script, timeout=60.5, folder=tmp_path)
    assert "did not end within 60.5 s and was stopped" in message
    assert ended(int((tmp_path / "child").read_text()))


def test_what_a_command_started_has_the_same_time_to_end_as_the_command(
    tmp_path, leap, monkeypatch
):
    monkeypatch.setattr("fairtrial.cli.command_runner._GRACE_SECONDS", 10.0)
    saves = "trap 'sleep 0.3; touch saved; exit' TERM; touch hangs; while :; do sleep 0.05; done"
    # Whether the shell still writes that it was ended depends on the moment, and so do the words.
    with pytest.raises(SourceError):
        command(f"sh -c {shlex.quote(saves)} & wait", folder=tmp_path).reward(PULL)
    assert (tmp_path / "saved").exists()


def test_a_command_that_ignores_the_request_to_end_is_killed(tmp_path, leap):
    failure("trap '' TERM; echo $$ > shell; touch hangs; sleep 600", folder=tmp_path)
    assert ended(int((tmp_path / "shell").read_text()))


def test_a_child_left_in_the_background_does_not_keep_us_waiting(tmp_path):
    started = time.monotonic()
    assert command("sleep 600 & echo $! > child; echo 1", folder=tmp_path).reward(PULL) == 1.0
    assert time.monotonic() - started < 300
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_command_is_tried_again_as_often_as_was_said(tmp_path):
    script = "echo x >> tries; test $(wc -l < tries) -ge 3 && echo 0.5"
    assert "exited with code 1" in failure(script, retries=1, folder=tmp_path)
    assert command(script, retries=1, folder=tmp_path).reward(PULL) == 0.5


def test_an_interruption_ends_the_command_and_is_not_tried_again(tmp_path):
    script = "echo x >> tries; touch asked; sleep 600"
    asked = (tmp_path / "asked").exists
    source = command(script, retries=5, folder=tmp_path, interrupted=asked)
    with pytest.raises(KeyboardInterrupt):
        source.reward(PULL)
    assert (tmp_path / "tries").read_text() == "x\n"


def test_output_of_any_size_and_encoding_is_taken(tmp_path):
    script = "yes '\xff filler' | head -c 3000000; printf '\\n\\377\\n0.5'"
    assert command(script).reward(PULL) == 0.5


def ended(process):
    for _ in range(2_000):
        try:
            with Path(f"/proc/{process}/stat").open() as stream:
                if stream.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_a_row_of_named_fields_is_printed_as_a_json_object():
    from fairtrial.causal import chain

    problem, _ = chain(0.4, {"a": [[0.5, 0.5], [0.4, 0.6]]}, [0.1, 0.9], fairness_bound=0.2)
    row = '{"S": "s", "V": 1, "Y": 0}'
    source = CommandRewards(f"echo '{row}'", problem)
    pull = problem.pull(arm="a", sensitive="natural")
    assert source.reward(pull) == problem.check_outcome({"S": "s", "V": 1, "Y": 0})
    for text in ('{"S": "s"}', "[1, 2]", '{"S": '):
        with raises(SourceError):
            CommandRewards(f"echo '{text}'", problem).reward(pull)
