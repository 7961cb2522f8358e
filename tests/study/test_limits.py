"""What a study refuses because of its size, its depth, or the system on which it would run."""

import json
import math
import os

import pytest

from fairtrial.core.specification import policy_from_dict
from fairtrial.errors import CorruptLog, FairtrialError, InvalidArgument, StorageError
from fairtrial.study import Study
from fairtrial.study.arguments import MOST_AT_ONCE
from fairtrial.study.sqlite import SQLiteStore
from tests.messages import raises
from tests.study.toys import OWN, Elimination, GroupProblem, Serving, ToyProblem


@pytest.fixture
def study(path):
    problem = ToyProblem(["a", "b"])
    with Study.create(problem, Serving(problem), storage=path, name="s", seed=1) as made:
        yield made


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def test_more_pulls_than_others_should_wait_for_are_refused_and_none_is_issued(study):
    with raises(InvalidArgument, "n"):
        study.ask(MOST_AT_ONCE + 1)
    with raises(InvalidArgument, "outcomes"):
        study.tell_many([("x", 1.0)] * (MOST_AT_ONCE + 1))
    assert study.policy.asked == 0


@pytest.mark.parametrize("depth", [40, 100_000])
def test_contexts_and_details_that_are_too_deep_are_refused(study, depth):
    with raises(InvalidArgument, "context"):
        study.ask(place=nested(depth))
    with raises(FairtrialError):
        study.report(study.ask(), 1.0, place=nested(depth))
    assert study.verify().ok


def test_texts_that_are_too_long_are_refused(study):
    with raises(InvalidArgument, "context"):
        study.ask(place="x" * 10_000_000)
    pull = study.ask()
    with raises(InvalidArgument, "reason"):
        study.cancel(pull, "x" * 10_000_000)
    for name in ("worker", "request_id"):
        with raises(InvalidArgument, name):
            study.ask(**{name: "x" * 10_000_000})


@pytest.mark.parametrize("arms", [["a", "b" * 10_000_000], ["a", "\0"], ["a", "\ud800"]])
def test_labels_that_no_file_takes_are_refused(arms):
    with raises(InvalidArgument, "arms[1]"):
        GroupProblem(arms)


@pytest.mark.parametrize("value", [10**400, 10**5000, -(10**5000)], ids=["400", "5000", "-5000"])
def test_integers_that_no_float_holds_are_refused_in_words(study, value):
    pull = study.ask()
    with raises(InvalidArgument, "reward", given=value) as caught:
        study.tell(pull, value)
    assert len(str(caught.value)) < 500
    with raises(InvalidArgument, "seed"):
        Serving(study.problem, seed=10**5000)
    with raises(InvalidArgument, "lease", given=value):
        study.ask(lease=value)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, 1e300, -1.0])
def test_a_clock_that_gives_no_time_is_an_error_of_the_storage(path, seconds):
    problem = ToyProblem(["a", "b"])
    clock = [1.8e9]
    store = SQLiteStore(path, clock=lambda: clock[0])
    with Study.create(problem, Elimination(problem), storage=store, name="s", seed=1) as study:
        clock[0] = seconds
        with raises(StorageError):
            study.ask()
        clock[0] = 1.8e9
        assert study.ask().number == 0
        assert study.verify().ok
    store.close()


@pytest.mark.parametrize("name", ["z" * 300, "\ud800", "z/" * 3000])
def test_a_path_that_no_file_can_have_is_an_error_of_ours(tmp_path, name):
    problem = ToyProblem(["a", "b"])
    with raises(FairtrialError):
        Study.create(problem, Elimination(problem), storage=tmp_path / name, name="s")
    with raises(FairtrialError):
        Study.open(tmp_path / name, "s")
    with raises(FairtrialError):
        Study.import_log(tmp_path / name, storage="memory://")


# ---------------------------------------------------------------------------- imports


@pytest.fixture
def log(study, tmp_path):
    for value in (1.0, 2.0):
        study.tell(study.ask(), value)
    return study.export(tmp_path / "log.jsonl")


def imported(path):
    return Study.import_log(path, storage="memory://", **OWN)


BAD_LINES = {
    "nested": "[" * 100_000,
    "nested object": '{"a":' * 100_000,
    "long": '{"kind": "' + "x" * 9_000_000 + '"}',
    "digits": '{"seq": ' + "9" * 5_000 + "}",
}


@pytest.mark.parametrize("line", BAD_LINES)
@pytest.mark.parametrize("place", [0, 2])
def test_a_line_that_would_break_a_parser_is_named(log, line, place):
    lines = log.read_text().splitlines()
    lines[place] = BAD_LINES[line]
    log.write_text("\n".join(lines) + "\n")
    with raises(CorruptLog) as caught:
        imported(log)
    assert len(str(caught.value)) < 1_000


def test_no_more_events_are_read_than_the_header_names(log):
    lines = log.read_text().splitlines()
    header = json.loads(lines[0])
    header["events"] = 2
    log.write_text("\n".join([json.dumps(header), *lines[1:]]) + "\n")
    with raises(CorruptLog):
        imported(log)
    for events in (-1, 10**12):
        header["events"] = events
        log.write_text(json.dumps(header) + "\n")
        with raises(CorruptLog):
            imported(log)


def test_what_is_no_file_is_not_waited_for(tmp_path):
    pipe = tmp_path / "log.jsonl"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", tmp_path):
        with raises(StorageError):
            imported(path)


@pytest.mark.parametrize(
    "name",
    ["ReplayEnvironment", "Problem", "FairLearn", "os", "_kernels", "__builtins__", "Policy"],
)
def test_a_log_names_no_class_but_parts_of_policies(name):
    """Some of our classes read files in their constructors."""
    from fairtrial import allocation

    problem = allocation.Problem(["a", "b"], [0.1, 0.1])
    data = {"name": "FairLearn", "learner": {"name": name, "path": "/etc/passwd"}}
    with raises(InvalidArgument, "learner.name", given=name):
        policy_from_dict(data, problem, 1)


def test_numbers_of_thousands_of_digits_are_refused_in_words():
    with raises(InvalidArgument, "arms"):
        ToyProblem(10**5000)
