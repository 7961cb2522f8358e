"""Errors in tests: their type and fields in the test, their words in `tests/messages.txt`.

    with raises(InvalidArgument, "delta", given=2.0):
        BlockBetting(problem, delta=2.0)

The file has the messages that each test may see; names in quotes and numbers may differ. `./dev
messages` writes it again, for a person to review. So whoever changes the words of a message changes
no test.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PLACE = Path(__file__).with_suffix(".txt")

_HEADING = """\
The messages of errors, by test. Review this file when it changes, and write it again by
`./dev messages`, or for one folder or file by `./dev messages tests/core`.
"""

_PYTHON = (3, 11)
"""The version on which words are compared: other versions put other words into some messages."""

_ANY = object()

_VARIES = (
    (re.compile(r"Traceback \(most recent call last\):.*", re.DOTALL), "<traceback>"),
    (re.compile(re.escape(str(ROOT))), "<repository>"),
    (
        re.compile(r"/[^\s'\"]*/pytest-of-[^/\s]+/pytest-\d+(/popen-gw\d+)?/[^/\s'\";:,]+"),
        "<folder>",
    ),
    (re.compile(r"/tmp/tmp[^/\s'\";:,]+"), "<folder>"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "<address>"),
    (re.compile(r"\btrials_\d+\b"), "trials_<number>"),
    (re.compile(r"(?<=in position )\d+"), "<place>"),
    (re.compile(r"\bprocess \d+ on [\w.-]+"), "process <number> on <host>"),
    (
        re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+|(?<=port )\d{4,}|(?<=\[::1\]:)\d+"),
        "<port>",
    ),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d| UTC)?"), "<time>"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{20,}\b"), "<id>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?<=\.db-)[0-9a-f]{8}\b"), "<id>"),
)
"""What differs from run to run, and the mark that stands for it in the file."""

_VALUES = re.compile(r"'[^']*'|-?\d+([.,]\d+)*(e[+-]?\d+)?")
"""Names in quotes, and numbers: fields of errors, and they may vary from run to run."""

_REPEATED = re.compile(r"(.{1,3}?)\1{39,}")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

Case = tuple[str, str, str]
"""A file, a test in it, and the id of its parameters, or "" for any."""

Snapshot = dict[Case, set[str]]
"""The messages of each case, each after the name of its type."""

_LONGEST_ID = 80

_writing = False
_seen: list[str] = []
"""The messages of the running test, only while the file is written again."""


@contextmanager
def raises(
    kind: type[BaseException] | tuple[type[BaseException], ...],
    name: object = _ANY,
    /,
    **fields: object,
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Fail unless an error is raised with these fields, and a message that stands in the file.

    Parameters
    ----------
    kind : type or tuple of types
        A subclass is accepted too; the file has the error's own type.
    name : str, optional
        The field `name`: of an `InvalidArgument`, the argument.
    **fields
        Other fields of the error.

    Yields
    ------
    pytest.ExceptionInfo
    """
    __tracebackhide__ = True
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    for field, expected in (fields if name is _ANY else {"name": name, **fields}).items():
        found = getattr(error, field, "<no such field>")
        if not (found is expected or found == expected):
            pytest.fail(
                f"{field} is {found!r}, not {expected!r}, in {type(error).__name__}: {error}"
            )
    check_words(f"{type(error).__name__}: {error}")


@contextmanager
def warns(kind: type[Warning], /) -> Iterator[pytest.WarningsRecorder]:
    """Fail unless there is a warning of this type, and all of this type stand in the file.

    Yields
    ------
    pytest.WarningsRecorder
    """
    __tracebackhide__ = True
    with pytest.warns(kind) as caught:
        yield caught
    for one in caught:
        if issubclass(one.category, kind):
            check_words(f"{one.category.__name__}: {one.message}")


def check_words(text: str) -> None:
    """Fail unless this message stands in the file for the running test."""
    __tracebackhide__ = True
    words = stable(text)
    if _writing:
        _seen.append(words)
        return
    if sys.version_info[:2] != _PYTHON:
        return
    case = _case_of(os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0])
    file, test, _ = case
    reviewed = set().union(*(_reviewed().get(one, ()) for one in (case, (file, test, ""))))
    if _without_values(words) not in map(_without_values, reviewed):
        pytest.fail(
            f"{PLACE.relative_to(ROOT)} does not have this message of {test}:\n{_indented(words)}\n"
            f"If its words are right, write them there: ./dev messages {file}"
        )


def _without_values(words: str) -> str:
    return _VALUES.sub("<value>", words)


def stable(text: str) -> str:
    """Return a message with marks for what differs from run to run, and nothing endless."""
    # Half of a surrogate pair, which tests give as a bad text, cannot be written to a file.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    for pattern, mark in _VARIES:
        text = pattern.sub(mark, text)
    text = _REPEATED.sub(r"\1\1\1<and so on>", text)
    text = _UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], text)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def read(place: Path = PLACE) -> Snapshot:
    """Return what the file has."""
    found: Snapshot = defaultdict(set)
    file = test = ""
    for block in place.read_text(encoding="utf-8").split("\n\n") if place.exists() else ():
        if block.startswith("== "):
            file = block.removeprefix("== ")
        elif file:
            test, _, text = block.rstrip("\n").partition("\n    ")
            for message in re.split(r"\n {4}(?! )", text):
                match = re.fullmatch(r"(?:\[(.*?)\] )?(\w+: .*)", message, re.DOTALL)
                if match:
                    ids, words = match.groups("")
                    for one in ids.split(" | "):
                        found[file, test, one].add(words.replace("\n        ", "\n"))
    return found


def write(found: Snapshot, place: Path = PLACE) -> None:
    """Write the file, sorted; a message that only some cases of a test give names them."""
    tests: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(dict)
    for (file, test, ids), messages in sorted(found.items()):
        tests[file, test][ids] = messages
    text, last = _HEADING, ""
    for (file, test), cases in tests.items():
        text += f"\n== {file}\n" if file != last else ""
        text += f"\n{test}\n"
        last = file
        for message in sorted(set[str]().union(*cases.values())):
            given_by = [one for one, messages in cases.items() if message in messages]
            by_all = "" in given_by or len(given_by) == len(cases.keys() - {""})
            case = "" if by_all else f"[{' | '.join(given_by)}] "
            text += f"{_indented(case + message)}\n"
    place.write_bytes(text.encode("utf-8"))


class Rewriting:
    """Runs only tests that check messages, and writes the file again when they have ended.

    Messages that no test gives any more are left out if all tests of a file have passed.

    Parameters
    ----------
    config : pytest.Config
    place : Path
        The file to write.
    """

    def __init__(self, config: pytest.Config, place: Path = PLACE) -> None:
        global _writing
        if sys.version_info[:2] != _PYTHON:
            raise pytest.UsageError("messages are written on Python {}.{}".format(*_PYTHON))
        _writing = True
        self._place = place
        self._writes = not (hasattr(config, "workerinput") or config.getoption("collectonly"))
        self._covers = [] if _is_part(config) else [one.partition(" ")[0] for one in config.args]
        self._given: Snapshot = defaultdict(set)
        self._skipped: set[tuple[str, str]] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out tests that check no message."""
        others = [item for item in items if not _checks_messages(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the messages of a phase of a test; pytest-xdist passes them on."""
        report = yield
        report.messages = _seen.copy()  # type: ignore[attr-defined]
        _seen.clear()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the messages, in the process that writes the file."""
        file, test, ids = _case_of(report.nodeid)
        self._given[file, test, ids].update(getattr(report, "messages", ()))
        if report.skipped:
            self._skipped.add((file, test))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file, unless this is only a part of the tests' processes."""
        if self._writes:
            passed = exitstatus == pytest.ExitCode.OK
            write(self._merged(read(self._place), passed=passed), self._place)

    def _merged(self, old: Snapshot, *, passed: bool) -> Snapshot:
        """Return what was given, and of the file's messages those that may still be given."""
        merged: Snapshot = defaultdict(set)
        for (file, test, ids), messages in old.items():
            place = ROOT / file
            left = passed and any(place.is_relative_to(ROOT / one) for one in self._covers)
            if place.exists() and (not left or (file, test) in self._skipped):
                merged[file, test, ids] |= messages
        for case, messages in self._given.items():
            if messages:
                merged[case] |= messages
        return merged


def _is_part(config: pytest.Config) -> bool:
    """Return whether only some tests of a file are asked for."""
    return any("::" in one for one in config.args) or bool(
        config.getoption("keyword") or config.getoption("markexpr")
    )


def _checks_messages(item: pytest.Item) -> bool:
    """Return whether a test, or a function that it uses, calls what checks messages."""
    function = getattr(item, "function", None)
    inner = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    fixtures = getattr(item, "_fixtureinfo", None)
    used = (
        [one.func for defs in fixtures.name2fixturedefs.values() for one in defs]
        if fixtures
        else []
    )
    return any(_reaches_check(one) for one in (inner, *used))


_CHECKS = (raises, warns, check_words)


@cache
def _reaches_check(function: object) -> bool:
    """Return whether a function of the tests calls what checks messages, or one that does."""
    todo, known = [function], set[object]()
    while todo:
        one = todo.pop()
        if any(one is check for check in _CHECKS):
            return True
        one = inspect.unwrap(one) if callable(one) else one
        if isinstance(one, FunctionType) and one not in known and "tests" in one.__module__:
            known.add(one)
            todo += [one.__globals__.get(name) for name in _names(one.__code__)]
    return False


def _names(code: CodeType) -> Iterator[str]:
    """Return the global names that a function and the functions in it use."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


@cache
def _reviewed() -> Snapshot:
    return read()


def _case_of(nodeid: str) -> Case:
    """Return the file, the test and the id of its parameters."""
    file, _, name = nodeid.partition("::")
    test, _, ids = name.partition("[")
    ids = ids.removesuffix("]").encode("utf-8", "backslashreplace").decode("utf-8")
    # The file has this mark between ids.
    return file, test, ids[:_LONGEST_ID].replace(" | ", "|")


def _indented(message: str) -> str:
    """Return a message as the file shows it: further lines are indented more."""
    first, *more = message.split("\n")
    return "\n".join([f"    {first}", *(f"        {line}" for line in more)])
