"""How many runs and values a short and a long test run have."""

import itertools

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


VALUES = ["a", "b", "c"], [False, True], [0, 1, 2, 3], [None, "x"]


def test_a_short_run_has_every_two_values_of_two_parameters_in_few_combinations(monkeypatch):
    monkeypatch.setattr(effort, "long", False)
    chosen = effort.covering(*VALUES)
    for first, second in itertools.combinations(range(len(VALUES)), 2):
        expected = set(itertools.product(VALUES[first], VALUES[second]))
        assert {(found[first], found[second]) for found in chosen} == expected
    assert set(chosen) <= set(itertools.product(*VALUES))
    assert len(chosen) <= 14  # 12 have a pair of the two longest parameters each
    assert chosen == effort.covering(*VALUES)


def test_two_short_runs_have_all_items_and_each_has_every_kind(monkeypatch):
    items = ["a1", "a2", "b1", "a3", "c1", "c2"]

    def of(second):
        return effort.alternate(items, lambda item: item[0], second=second)

    monkeypatch.setattr(effort, "long", False)
    assert of(False) == ["a1", "a3", "b1", "c1"]
    assert of(True) == ["a2", "b1", "c2"]
    monkeypatch.setattr(effort, "long", True)
    assert of(False) == of(True) == items


def test_a_long_run_has_all_combinations(monkeypatch):
    monkeypatch.setattr(effort, "long", True)
    assert effort.covering(*VALUES) == list(itertools.product(*VALUES))
