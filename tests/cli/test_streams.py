"""Commands that report while they run: every line except the last is a reading."""

import threading
import time

import pytest

from fairtrial.cli.sources import CommandFailed, CommandRewards, CommandTimedOut
from fairtrial.cli.streams import Trouble, parse_reading
from fairtrial.core import Pull
from fairtrial.delayed import Problem
from fairtrial.errors import InvalidOutcome
from fairtrial.study import StopPull
from tests.cli.test_sources import ended
from tests.messages import raises

PROBLEM = Problem(["a", "b"], noise_std=1.0, feedback="refining", reading_std=0.5)
PULL = Pull(7, 1, {"arm": "b"})


class Noted:
    """Records the readings; says stop when it is told to."""

    def __init__(self, stop_after=None):
        self.pull = PULL
        self.readings = []
        self.stop = threading.Event()
        self.stop_after = stop_after

    def __call__(self, value, **details):
        if value != value:
            raise InvalidOutcome("reading", "must be finite", value)
        self.readings.append((value, details))
        if len(self.readings) == self.stop_after:
            raise StopPull("enough")

    def should_stop(self):
        return self.stop.is_set()


def reward(script, report=None, problem=PROBLEM, **options):
    return CommandRewards(script, problem, **options).reward(PULL, report or Noted())


def failure(script, kind=CommandFailed, **options):
    with raises(kind) as caught:
        reward(script, **options)
    return str(caught.value)


def test_every_line_is_a_reading_but_the_last_is_the_outcome():
    report = Noted()
    assert reward("echo 0.1; echo; echo ' 0.2 '; echo 0.3", report) == 0.3
    assert report.readings == [(0.1, {}), (0.2, {})]


def test_a_line_may_say_more_of_its_reading():
    report = Noted()
    lines = [
        '{"value": 1, "stage": 3}',
        '{"value": 2, "elapsed": 1.5, "std": 0.25}',
        '{"value": 4}',
    ]
    assert reward(";".join(f"echo '{line}'" for line in lines), report) == 4.0
    assert report.readings == [(1.0, {"stage": 3}), (2.0, {"elapsed": 1.5, "std": 0.25})]


def test_one_line_is_the_outcome_alone_with_or_without_an_end():
    report = Noted()
    assert reward("printf 0.5", report) == 0.5
    assert report.readings == []


@pytest.mark.parametrize("line", ["0.25", '{"value": 0.25}'], ids=["number", "object"])
def test_a_reading_is_reported_while_the_command_runs(tmp_path, line):
    report = Noted()
    script = f"echo '{line}'; echo 7; while test ! -e go; do sleep 0.02; done; echo 0.75"
    answer = []
    command = threading.Thread(
        target=lambda: answer.append(reward(script, report, folder=tmp_path))
    )
    command.start()
    wait_until(lambda: report.readings)
    assert report.readings == [(0.25, {})]
    (tmp_path / "go").touch()
    command.join(60)
    assert answer == [0.75]
    assert report.readings == [(0.25, {}), (7.0, {})]


def test_a_line_that_says_that_more_will_come_is_reported_at_once(tmp_path):
    report = Noted()
    script = (
        """echo '{"value": 1, "more": true}'; while test ! -e go; do sleep 0.02; done; echo 2"""
    )
    command = threading.Thread(target=lambda: reward(script, report, folder=tmp_path))
    command.start()
    wait_until(lambda: report.readings)
    (tmp_path / "go").touch()
    command.join(60)
    assert report.readings == [(1.0, {})]


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def test_without_readings_only_the_last_line_counts():
    report = Noted()
    full = Problem(["a", "b"], noise_std=1.0)
    assert reward("echo warming up; echo 0.5", report, full) == 0.5
    assert report.readings == []


@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        ("true", "printed no outcome as its last line"),
        ("echo; echo ' '", "printed no outcome as its last line"),
        (
            "echo 1; echo warming up; echo 2",
            "'warming up': a line must be a number, or a JSON object",
        ),
        ("echo 1; echo '{\"reading\": 3}'; echo 2", "value must be a number"),
        ('echo \'{"value": 1, "age": 3}\'; echo 2', "'age' is not one of"),
        ('echo \'{"value": 1, "stage": "x"}\'; echo 2', "stage must be a number"),
        ("echo '{\"value\": true}'; echo 2", "value must be a number"),
        ("echo '[1]'; echo 2", "must be a number, or a JSON object"),
        ("echo nan; echo 2", "printed 'nan': a line must be a number"),
        ("echo 1; echo nan", "printed 'nan': a line must be a number"),
        ("echo 1; echo inf", "printed 'inf': a line must be a number"),
        ('echo \'{"value": 1, "more": true}\'', "printed no outcome as its last line"),
        ('echo \'{"value": 1, "more": "yes"}\'; echo 2', "more must be true or false"),
        ('echo \'{"value": 1' + 400 * "0" + "}'; echo 2", "value must be a number"),
        ("head -c 200000 /dev/zero | tr '\\0' 1", "a line of more than"),
        ("echo 1; exit 3", "exited with code 3"),
        ("echo 1; kill -9 $$", "was ended by signal 9"),
    ],
    ids=lambda text: "".join(c for c in text if c.isalnum())[:40],
)
def test_what_is_no_reading_and_no_outcome_fails_with_its_pull(script, trouble):
    message = failure(script)
    assert trouble in message
    assert message.startswith("the command ")


def test_readings_that_came_before_a_failure_are_reported():
    report = Noted()
    with raises(CommandFailed):
        reward("echo 1; echo 2; echo 3; exit 1", report)
    assert report.readings == [(1.0, {}), (2.0, {})]


def test_an_outcome_that_is_there_is_given_even_if_the_pull_is_called_back_by_its_readings():
    report = Noted(stop_after=1)
    assert reward("echo 1; echo 2; echo 3", report) == 3.0
    assert report.readings == [(1.0, {}), (2.0, {})]


def test_a_command_that_hangs_has_timed_out(tmp_path, leap):
    report = Noted()
    script = (
        "echo 1; echo 2; while test ! -e seen; do sleep 0.02; done; "
        "sleep 600 & echo $! > child; touch hangs; wait"
    )
    looking = threading.Thread(
        target=lambda: (wait_until(lambda: report.readings), (tmp_path / "seen").touch())
    )
    looking.start()
    with raises(CommandTimedOut):
        reward(script, report, timeout=60.5, folder=tmp_path)
    looking.join()
    assert issubclass(CommandTimedOut, TimeoutError)
    assert report.readings == [(1.0, {})]
    assert ended(int((tmp_path / "child").read_text()))


def test_a_command_whose_pull_may_have_failed_by_its_outcome_is_not_started_again(tmp_path):
    failure("echo x >> tries; exit 1", retries=3, folder=tmp_path)
    assert (tmp_path / "tries").read_text() == "x\n"


@pytest.mark.parametrize("by", ["reading", "look"])
def test_a_command_is_ended_with_all_that_it_started_when_its_pull_is_called_back(tmp_path, by):
    report = Noted(stop_after=2 if by == "reading" else None)
    if by == "look":
        report.should_stop = (tmp_path / "waits").exists
    script = "echo 1; echo 2; sleep 600 & echo $! > child; echo 3; touch waits; wait"
    started = time.monotonic()
    with raises(StopPull):
        reward(script, report, folder=tmp_path)
    assert time.monotonic() - started < 300
    assert ended(int((tmp_path / "child").read_text()))


def test_reading_a_file_does_not_move_the_place_where_the_command_writes():
    report = Noted()
    script = "i=0; while test $i -lt 40; do echo $i; i=$((i+1)); sleep 0.02; done"
    assert reward(script, report) == 39.0
    assert [value for value, _ in report.readings] == list(range(39))


def test_lines_of_any_encoding_are_shown_in_the_trouble():
    assert "must be a number" in failure("printf '\\377\\376\\n1\\n'")


def test_a_line_is_parsed_as_it_says():
    assert parse_reading("1e3").value == 1000.0
    with raises(Trouble):
        parse_reading("1,5")
