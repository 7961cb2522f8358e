"""Tests check the fields of errors, and their words against one file, which a command rewrites."""

import sys
import warnings
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported
from tests import messages
from tests.messages import Rewriting, raises, read, stable, warns, write

HERE = "tests/test_messages.py"
WORDS = "InvalidArgument: delta must be in (0, 1); got 2.0"


@pytest.fixture
def reviewed(request, monkeypatch):
    """Return a function that replaces the reviewed messages of the running test."""
    monkeypatch.setattr(messages, "_writing", False)
    monkeypatch.setattr(messages, "_PYTHON", sys.version_info[:2])

    def have(*words, ids=""):
        found = {(HERE, request.node.originalname, ids): set(words)}
        monkeypatch.setattr(messages, "_reviewed", lambda: found)

    return have


def refuse(error=InvalidArgument):
    raise error("delta", "must be in (0, 1)", 2.0)


def test_an_error_of_the_type_fields_and_words_passes_and_is_yielded(reviewed):
    reviewed(WORDS)
    with raises(InvalidArgument, "delta", given=2.0, accepted="must be in (0, 1)") as caught:
        refuse()
    assert caught.value.name == "delta"


@pytest.mark.parametrize(
    ("name", "fields"),
    [("alpha", {}), ("delta", {"given": 3.0}), ("delta", {"given": 2.0, "line": 7})],
)
def test_a_field_with_another_value_or_none_fails(reviewed, name, fields):
    reviewed(WORDS)
    with pytest.raises(pytest.fail.Exception), raises(InvalidArgument, name, **fields):
        refuse()


def test_another_type_and_no_error_at_all_fail(reviewed):
    reviewed(WORDS)
    with pytest.raises(InvalidArgument), raises(NotSupported):
        refuse()
    with pytest.raises(pytest.fail.Exception), raises(InvalidArgument):
        pass


def test_names_in_quotes_and_numbers_may_differ_and_words_may_not(reviewed):
    reviewed("NotSupported: the study 'a' has 3 pulls, at least 1e-3 of all")
    with raises(NotSupported):
        raise NotSupported("the study 'b 2' has 1,234.5 pulls, at least -7 of all")
    with pytest.raises(pytest.fail.Exception), raises(NotSupported):
        raise NotSupported("the study 'a' has 3 pulls, at most 1e-3 of all")


def test_words_are_compared_and_written_on_one_version_of_python_only(reviewed, monkeypatch):
    reviewed()
    monkeypatch.setattr(messages, "_PYTHON", (3, 0))
    with raises(InvalidArgument, "delta"):
        refuse()
    with pytest.raises(pytest.UsageError):
        Rewriting(None)


def test_a_message_that_was_not_reviewed_fails_and_names_the_command(reviewed):
    for words in ([], [WORDS.replace("must be", "may be")], [WORDS + "."]):
        reviewed(*words)
        with pytest.raises(pytest.fail.Exception) as failed, raises(InvalidArgument, "delta"):
            refuse()
        assert f"./dev messages {HERE}" in str(failed.value)


def test_a_subclass_is_accepted_if_it_was_reviewed(reviewed):
    reviewed(WORDS)
    with pytest.raises(pytest.fail.Exception), raises(InvalidArgument, "delta"):
        refuse(InvalidOutcome)
    reviewed(WORDS.replace("Argument", "Outcome"))
    with raises(InvalidArgument, "delta"):
        refuse(InvalidOutcome)


def test_warnings_of_the_type_are_reviewed_too(reviewed):
    for words, passes in (("UserWarning: no end", True), ("UserWarning: none", False)):
        reviewed(words)
        failure = nullcontext() if passes else pytest.raises(pytest.fail.Exception)
        with failure, warns(UserWarning) as caught:
            warnings.warn("no end", stacklevel=1)
            warnings.warn("another", FutureWarning, stacklevel=1)
        assert len(caught) == 2


@pytest.mark.parametrize("case", ["a"])
def test_a_case_has_its_own_messages(reviewed, case):
    reviewed(WORDS, ids="b")
    with pytest.raises(pytest.fail.Exception), raises(InvalidArgument):
        refuse()
    reviewed(WORDS, ids=case)
    with raises(InvalidArgument):
        refuse()


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        (f"{messages.ROOT}/tests cannot be read", "<repository>/tests cannot be read"),
        ("/tmp/pytest-of-ann/pytest-7/popen-gw1/test_x0/t.csv:", "<folder>/t.csv:"),
        ("'/tmp/tmpq1w2/t.csv' is busy", "'<folder>/t.csv' is busy"),
        ("http://127.0.0.1:40123/studies", "http://127.0.0.1:<port>/studies"),
        ("<object at 0x7f62d15fd390>", "<object at <address>>"),
        ("since 2026-11-27T17:00:01.5Z", "since <time>"),
        ("pull 0b5cd1e2-77aa-4f01-9d3e-aabbccddeeff is", "pull <id> is"),
        ("pull 1cf7250fe6e6ea9e2799cc4031fda1c3 is", "pull <id> is"),
        ("trial.db-12950001.running", "trial.db-<id>.running"),
        ("got '1e100000000'", "got '1e100000000'"),
        ("failed:\nTraceback (most recent call last):\n  x\ny", "failed:\n<traceback>"),
        ("two lines  \n\n  the second", "two lines\n  the second"),
        ("at 127.0.0.1, port 42943: gone", "at 127.0.0.1, port <port>: gone"),
        ("character '\\ud800' in position 63:", "character '\\ud800' in position <place>:"),
        ("127.0.0.1:5432/trials_17: no", "127.0.0.1:<port>/trials_<number>: no"),
        ("lock of process 4711 on ward-3.local;", "lock of process <number> on <host>;"),
        (f"got '{'x' * 200}'", "got 'xxx<and so on>'"),
        ("nothing\x00 \t", "nothing\\x00"),
        ("half a pair: \ud800", "half a pair: \\ud800"),
        ("budget 12345678 and 1e-140 and defaced", "budget 12345678 and 1e-140 and defaced"),
    ],
)
def test_what_differs_from_run_to_run_is_marked(text, marked):
    assert stable(text) == marked


FOUND = {
    ("tests/b.py", "test_z", ""): {"E: b\n  1: second line\n    deep", "E: a"},
    ("tests/b.py", "test_cases", ""): {"E: of both"},
    ("tests/b.py", "test_cases", "x-1"): {"E: one"},
    ("tests/b.py", "test_cases", "[2]"): {"F: [x] two"},
    ("tests/b.py", "test_cases", "3"): {"F: [x] two"},
    ("tests/a.py", "test_y", ""): {"E: [q] | w"},
}


def test_the_file_is_read_as_it_was_written(tmp_path):
    place = tmp_path / "messages.txt"
    write(FOUND, place)
    assert read(place) == FOUND
    text = place.read_text()
    write(read(place), place)
    assert place.read_text() == text
    assert "\n== tests/a.py\n\ntest_y\n    E: [q] | w\n\n== tests/b.py\n\ntest_cases\n" in text


def test_a_message_stands_once_in_a_test(tmp_path):
    place = tmp_path / "messages.txt"
    write(FOUND, place)
    assert "    [3 | [2]] F: [x] two\n" in place.read_text()
    write({("t.py", "test_x", ids): {"E: one"} for ids in "ab"}, place)
    assert read(place) == {("t.py", "test_x", ""): {"E: one"}}


def run(place, old, args, given, outcome="passed", *, keyword="", exitstatus=0):
    """Write the old messages, then let tests that give these run; return the new ones."""
    write(old, place)
    options = {"keyword": keyword, "markexpr": "", "collectonly": False}
    config = SimpleNamespace(args=args, getoption=options.get)
    rewriting = Rewriting(config, place)
    for nodeid, words in given.items():
        report = pytest.TestReport(nodeid, ("t.py", 1, "t"), {}, outcome, None, "call")
        report.messages = words
        # pytest-xdist passes reports on in this form.
        rewriting.pytest_runtest_logreport(pytest.TestReport._from_json(report._to_json()))
    rewriting.pytest_sessionfinish(exitstatus)
    return read(place)


OLD = defaultdict(set, {(HERE, "test_x", ""): {"E: old"}, (HERE, "test_gone", ""): {"E: gone"}})
NEW = {f"{HERE}::test_x[a]": ["E: new"]}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "_writing", messages._writing)
    monkeypatch.setattr(messages, "_PYTHON", sys.version_info[:2])
    return tmp_path / "messages.txt"


@pytest.mark.parametrize("args", [["tests"], [HERE], ["src", "tests"]])
def test_messages_that_no_test_gives_any_more_are_dropped(place, args):
    assert run(place, OLD, args, NEW) == {(HERE, "test_x", ""): {"E: new"}}


@pytest.mark.parametrize(
    ("args", "others"),
    [
        (["tests/core"], {}),
        ([f"{HERE}::test_x"], {}),
        (["tests"], {"keyword": "x"}),
        (["tests"], {"exitstatus": 1}),
    ],
)
def test_no_message_is_dropped_if_its_test_may_not_have_run(place, args, others):
    found = run(place, OLD, args, NEW, **others)
    assert set().union(*found.values()) == {"E: old", "E: new", "E: gone"}


def test_messages_of_skipped_tests_stay(place):
    found = run(place, OLD, ["tests"], {f"{HERE}::test_x[a]": []}, outcome="skipped")
    assert found == {(HERE, "test_x", ""): {"E: old"}}


def test_messages_of_files_that_are_gone_are_dropped(place):
    old = {("tests/gone.py", "test_x", ""): {"E: old"}}
    assert run(place, old, ["tests/core"], {}) == {}


def uses_a_helper():
    helper()


def helper():
    with raises(InvalidArgument):
        refuse()


def uses_none():
    refuse()


@pytest.mark.parametrize(("test", "checks"), [(helper, 1), (uses_a_helper, 1), (uses_none, 0)])
def test_tests_that_check_messages_are_found(test, checks):
    assert messages._checks_messages(SimpleNamespace(function=test)) == bool(checks)


def test_every_test_of_the_file_exists():
    for file, test, _ in read():
        source = (messages.ROOT / file).read_text(encoding="utf-8")
        assert f"def {test.rpartition('::')[2]}(" in source, f"{file}: ./dev messages {file}"


def test_the_file_is_as_the_command_writes_it(tmp_path):
    again: Path = tmp_path / "messages.txt"
    write(read(), again)
    assert again.read_bytes() == messages.PLACE.read_bytes()
