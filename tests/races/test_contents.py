"""Contents of candidates and items: whatever differs has another checksum, in every process."""

import dataclasses
import datetime as dt
import enum
import functools
import subprocess
import sys
from pathlib import PurePosixPath

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fairtrial.races.contents import content_of


@dataclasses.dataclass
class Prompt:
    text: str
    examples: list[str] = dataclasses.field(default_factory=list)


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Opaque:
    def __init__(self, number):
        self.number = number


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (range(100), range(100, 200)),
        (list(np.arange(3)), list(np.arange(1, 4))),
        (np.arange(3), np.arange(3.0)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.array([1, "a"], dtype=object), np.array([1, "b"], dtype=object)),
        (["ab", "c"], ["a", "bc"]),
        ([["a"], "b"], [["a", "b"]]),
        ([1], [1.0]),
        ([1], ["1"]),
        ([True], [1]),
        ([None], ["None"]),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        ({1: "a", "b": 2}, {1: "b", "b": 2}),
        ({"a", "b"}, {"a", "c"}),
        ({"a"}, ["a"]),
        (b"a", b"b"),
        (Prompt("a"), Prompt("b")),
        (Prompt("a", ["x"]), Prompt("a", ["y"])),
        (Level.LOW, Level.HIGH),
        (dt.date(2026, 1, 1), dt.date(2026, 1, 2)),
        (PurePosixPath("a"), PurePosixPath("b")),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})),
        (LogisticRegression(C=1.0), LogisticRegression(C=2.0)),
        ([pd.NA, 1], [pd.NaT, 1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_different_contents_have_different_checksums(one, other):
    first, second = content_of(one), content_of(other)
    assert first.checksum != second.checksum
    assert first.is_whole
    assert second.is_whole


def test_the_order_of_keys_and_the_kind_of_a_sequence_do_not_matter():
    assert content_of({"a": 1, "b": [2, 3]}) == content_of({"b": (2, 3), "a": 1})
    assert content_of(range(3)) == content_of([np.int64(0), 1, 2])


@pytest.mark.parametrize(
    "value", [print, Opaque(1), functools.partial(int, base=2), [{"ask": len}], Prompt]
)
def test_objects_without_content_are_compared_by_name_and_said(value):
    assert not content_of(value).is_whole
    assert content_of(Opaque(1)) == content_of(Opaque(2))
    assert content_of(len) != content_of(print)


def test_a_value_within_itself_has_an_end():
    endless = ["a"]
    endless.append(endless)
    assert content_of(endless) != content_of(["a", ["a"]])


def test_the_checksum_is_the_same_in_every_process():
    value = {"tags": {"x", "y", "z"}, "prompt": "Answer.", 3: [0.1, None]}
    script = (
        f"from fairtrial.races.contents import content_of; print(content_of({value!r}).checksum)"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert seen == {content_of(value).checksum}
