"""Several measures of one pull: what may be told, at once or value by value."""

import math

import numpy as np
import pytest

from fairtrial.core.measures import Measures
from fairtrial.errors import ConflictingOutcome, InvalidArgument, InvalidOutcome

MEASURES = Measures.given({"cd4": (-1, 1), "event_free": (0, 1)})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "measures must be a mapping of names to ranges"),
        ([], "measures must be a mapping of names to ranges"),
        ("cd4", "measures must be a mapping of names to ranges"),
        (3, "measures must be a mapping of names to ranges"),
        (["a", "a"], "measures[1] must differ from measures[0]"),
        (["a", ""], "measures[1] must be a label that is not empty"),
        (["a", 3], "measures[1] must be a name; got 3"),
        ({"a": (0, 1), 3: (0, 1)}, "measures[1] must be a name; got 3"),
        ({"a": (1, 1)}, "measures[a] must be two finite numbers, low < high"),
        ({"a": (2, 1)}, "measures[a] must be two finite numbers, low < high"),
        ({"a": (0, math.inf)}, "measures[a] must be two finite numbers, low < high"),
        ({"a": (math.nan, 1)}, "measures[a] must be two finite numbers, low < high"),
        ({"a": None}, "measures[a] must be two finite numbers, low < high"),
        ({"a": (0, 1e200)}, "measures[a] must be at least 1e-140 wide"),
        ({"a": (0, 1e-200)}, "measures[a] must be at least 1e-140 wide"),
    ],
)
def test_bad_measures_are_refused_and_named(given, message) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Measures.given(given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ({"cd4": 0.1}, "outcome: event_free must be given: None if it will never be known"),
        ({}, "outcome: cd4 must be given"),
        ({"cd4": 0.1, "event_free": 1, "rash": 0}, "outcome must have only measures of"),
        ({"cd4": 1.1, "event_free": 1}, "outcome: cd4 must be in [-1, 1]; got 1.1"),
        ({"cd4": 0.1, "event_free": -1e-12}, "outcome: event_free must be in [0, 1]"),
        ({"cd4": math.nan, "event_free": 1}, "outcome: cd4 must be finite; got nan"),
        ({"cd4": 0.1, "event_free": math.inf}, "outcome: event_free must be finite; got inf"),
        ({"cd4": 10**400, "event_free": 1}, "outcome: cd4 must be finite"),
        ({"cd4": True, "event_free": 1}, "outcome: cd4 must be a number, not a truth value"),
        ({"cd4": "0.1", "event_free": 1}, "outcome: cd4 must be a number, or None; got '0.1'"),
        ({"cd4": [0.1], "event_free": 1}, "outcome: cd4 must be a number, or None"),
        (0.5, "outcome must give a value for each measure by its name: cd4, event_free; got 0.5"),
        (None, "outcome must give a value for each measure by its name"),
        ([0.1, 1.0], "outcome must give a value for each measure by its name"),
    ],
)
def test_bad_outcomes_are_refused_and_the_measure_is_named(outcome, message) -> None:
    with pytest.raises(InvalidOutcome) as caught:
        MEASURES.complete(outcome)
    assert str(caught.value).startswith(message)


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
    with pytest.raises(InvalidOutcome, match=r"^outcome: cd4 must be a number, not a truth value"):
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
        with pytest.raises(ConflictingOutcome, match=r"^cd4 was reported as 0\.31; got"):
            MEASURES.complete({"event_free": 1, "cd4": told}, first)
    with pytest.raises(ConflictingOutcome, match=r"^cd4 was reported as 0\.31; got 0\.4"):
        MEASURES.new_in(MEASURES.partial({"cd4": 0.4, "event_free": 1}), first)


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        ({}, "reading must have a value of at least one of cd4, event_free"),
        ({"cd4": None}, "reading: cd4 must be a number; tell None with the rest"),
        ({"cd4": 0.1, "rash": 1}, "reading must have only measures of"),
        ({"cd4": 0.1, "event_free": 2}, "reading: event_free must be in [0, 1]; got 2"),
    ],
)
def test_bad_readings_are_refused(reading, message) -> None:
    with pytest.raises(InvalidOutcome) as caught:
        MEASURES.partial(reading)
    assert str(caught.value).startswith(message)
