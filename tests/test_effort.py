"""How many runs and values a short and a long test run have."""

import pytest

from tests import effort


@pytest.mark.parametrize(("long", "expected"), [(False, ["a"]), (True, ["a", "b", "c"])])
def test_a_short_run_has_the_first_values_and_a_long_one_all(monkeypatch, long, expected):
    monkeypatch.setattr(effort, "long", long)
    assert effort.first(1, ["a", "b", "c"]) == expected


@pytest.mark.parametrize(("long", "expected"), [(False, 3), (True, 50)])
def test_a_short_run_makes_few_runs_and_a_long_one_all(monkeypatch, long, expected):
    monkeypatch.setattr(effort, "long", long)
    assert effort.runs(3, whole=50) == expected
