"""Files made to keep a program busy, to fill its memory or to break its parsers."""

import sys

import pytest

from fairtrial.cli import ExitCode
from tests.cli.configurations import replayed, write

SECTIONS = """
[study]
name = "s"
storage = "sqlite:///s.db"
[problem]
family = "subpopulations"
arms = ["a", "b"]
groups = ["x", "y"]
noise_std = {noise}
{more}
[source]
kind = "simulate"
means = [[1, 0], [0, 0]]
"""


def file_with(noise="1", more=""):
    return SECTIONS.format(noise=noise, more=more)


BOMBS = {
    "digits": (file_with("9" * 5000), "must be TOML: Exceeds the limit"),
    "many digits": (file_with("9" * 4000), "problem.noise_std: must be a number"),
    "beyond a float": (file_with("1" + "0" * 400), "problem.noise_std: must be a number"),
    "lists": (file_with(more="floors = " + "[" * 5000 + "]" * 5000), "must not be nested more"),
    "tables": (file_with(more="floors = " + "{a=" * 3000 + "1" + "}" * 3000), "must not be nested"),
    "hidden": (file_with(more="# '\"\nfloors = " + "[" * 5000 + "]" * 5000), "must not be nested"),
    "dotted key": (file_with(more=".".join(["a"] * 20000) + " = 1"), "must not be nested more"),
    "quoted key": (file_with(more=" . ".join(['"a"'] * 20000) + " = 1"), "must not be nested more"),
    "dotted section": (file_with() + "[" + ".".join(["a"] * 5000) + "]", "must not be nested more"),
    "long file": ("#" * 100_000_000, "it has more than 4,000,000 bytes"),
    "long word": ("x" * 3_999_999, "must be TOML"),
    "long key": (file_with(more="x" * 3_900_000 + " = 1"), "is not a key here"),
    "long label": (
        file_with().replace('"b"', '"' + "b" * 3_900_000 + '"'),
        "problem.arms[1]: must have at most 1,000 characters",
    ),
    "nul": (file_with().replace('"b"', '"b\\u0000"'), "problem.arms[1]: must have at most 1,000"),
    "long name": (file_with().replace('"s"', '"' + "s" * 3_900_000 + '"'), "study.name: must"),
    "date": (file_with("2025-13-99"), "must be TOML"),
    "many arms": (
        file_with().replace('["a", "b"]', "1000000000"),
        "must lead to at most 1,000,000",
    ),
    "many cells": (
        file_with().replace('["a", "b"]', "200000").replace('["x", "y"]', "200000"),
        "problem",
    ),
}


def test_nesting_is_refused_however_deep_the_interpreter_may_go(folder, invoke):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        (folder / "bomb.toml").write_text(BOMBS["hidden"][0])
        result = invoke("run", "bomb.toml")
    finally:
        sys.setrecursionlimit(limit)
    assert result.exit_code == ExitCode.USAGE
    assert "must not be nested more" in result.stderr


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_would_keep_us_busy_is_refused_in_a_few_words(folder, invoke, name):
    text, expected = BOMBS[name]
    (folder / "bomb.toml").write_text(text)
    result = invoke("run", "bomb.toml")
    assert result.exit_code == ExitCode.USAGE
    assert expected in result.stderr
    assert len(result.stderr) < 3_000


@pytest.mark.parametrize("key", ["table", "storage", "config"])
def test_a_path_that_no_file_can_have_is_one_message(folder, invoke, key):
    sections = replayed()
    path = "z" * 300
    if key == "storage":
        sections["study"]["storage"] = f"sqlite:///{path}.db"
    elif key == "table":
        sections["source"]["table"] = f"{path}.csv"
    file = f"{path}.toml" if key == "config" else write(folder, sections)
    for command in (("run", file), ("study", "show", file)):
        if key == "table" and command[0] == "study":
            continue
        result = invoke(*command)
        assert result.exit_code in (ExitCode.USAGE, ExitCode.FAILURE)
        assert len(result.stderr) < 2_000
