"""Several measures of one pull: what may be told, at once or value by value."""

import math

import numpy as np
import pytest

from fairtrial.core.measures import Measures
from fairtrial.errors import ConflictingOutcome, InvalidArgument, InvalidOutcome
from tests.messages import raises

MEASURES = Measures.given({"cd4": (-1, 1), "event_free": (0, 1)})


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "measures"),
        ([], "measures"),
        ("cd4", "measures"),
        (3, "measures"),
        (["a", "a"], "measures[1]"),
        (["a", ""], "measures[1]"),
        (["a", 3], "measures[1]"),
        ({"a": (0, 1), 3: (0, 1)}, "measures[1]"),
        ({"a": (1, 1)}, "measures[a]"),
        ({"a": (2, 1)}, "measures[a]"),
        ({"a": (0, math.inf)}, "measures[a]"),
        ({"a": (math.nan, 1)}, "measures[a]"),
        ({"a": None}, "measures[a]"),
        ({"a": (0, 1e200)}, "measures[a]"),
        ({"a": (0, 1e-200)}, "measures[a]"),
    ],
)
def test_bad_measures_are_refused_and_named(given, name) -> None:
    with raises(InvalidArgument, name):
        Measures.given(given)


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        ({"cd4": 0.1}, "outcome: event_free"),
        ({}, "outcome: cd4"),
        ({"cd4": 0.1, "event_free": 1, "rash": 0}, "outcome"),
        ({"cd4": 1.1, "event_free": 1}, "outcome: cd4"),
        ({"cd4": 0.1, "event_free": -1e-12}, "outcome: event_free"),
        ({"cd4": math.nan, "event_free": 1}, "outcome: cd4"),
        ({"cd4": 0.1, "event_free": math.inf}, "outcome: event_free"),
        ({"cd4": 10**400, "event_free": 1}, "outcome: cd4"),
        ({"cd4": True, "event_free": 1}, "outcome: cd4"),
        ({"cd4": "0.1", "event_free": 1}, "outcome: cd4"),
        ({"cd4": [0.1], "event_free": 1}, "outcome: cd4"),
        (0.5, "outcome"),
        (None, "outcome"),
        ([0.1, 1.0], "outcome"),
    ],
)
def test_bad_outcomes_are_refused_and_the_measure_is_named(outcome, name) -> None:
    with raises(InvalidOutcome, name):
        MEASURES.complete(outcome)


def test_an_outcome_becomes_an_array_in_the_order_of_the_names() -> None:
    assert MEASURES.complete({"event_free": True, "cd4": np.float32(0.5)}).tolist() == [0.5, 1.0]
    missing = MEASURES.complete({"event_free": 1, "cd4": None})
    assert math.isnan(missing[0])
    assert missing[1] == 1.0
    assert np.isnan(MEASURES.complete({"event_free": None, "cd4": None})).all()
    assert MEASURES.as_row(missing) == {"cd4": None, "event_free": 1.0}


def test_a_plain_number_will_do_if_there_is_one_measure() -> None:
    one = Measures(("cd4",))
    assert one.complete(0.5).tolist() == [0.5]
    assert math.isnan(one.complete(None)[0])
    with raises(InvalidOutcome, "outcome: cd4"):
        one.complete(True)


def test_values_come_one_by_one() -> None:
    first = MEASURES.partial({"cd4": 0.31})
    assert first[0] == 0.31
    assert math.isnan(first[1])
    assert MEASURES.complete({"event_free": 1}, first).tolist() == [0.31, 1.0]
    assert MEASURES.complete({"event_free": 1, "cd4": 0.31}, first).tolist() == [0.31, 1.0]
    assert math.isnan(MEASURES.complete({"event_free": None}, first)[1])
    assert np.isnan(MEASURES.new_in(first, first)).all()
    assert MEASURES.complete({}, MEASURES.partial({"cd4": 0, "event_free": 1})).tolist() == [0, 1]


def test_another_value_of_a_reported_measure_is_a_conflict() -> None:
    first = MEASURES.partial({"cd4": 0.31})
    for told in (0.3, None):
        with raises(ConflictingOutcome):
            MEASURES.complete({"event_free": 1, "cd4": told}, first)
    with raises(ConflictingOutcome):
        MEASURES.new_in(MEASURES.partial({"cd4": 0.4, "event_free": 1}), first)


@pytest.mark.parametrize(
    ("reading", "name"),
    [
        ({}, "reading"),
        ({"cd4": None}, "reading: cd4"),
        ({"cd4": 0.1, "rash": 1}, "reading"),
        ({"cd4": 0.1, "event_free": 2}, "reading: event_free"),
    ],
)
def test_bad_readings_are_refused(reading, name) -> None:
    with raises(InvalidOutcome, name):
        MEASURES.partial(reading)
