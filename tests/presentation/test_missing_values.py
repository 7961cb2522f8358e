"""Values that will never be known: which are shown, and what is said about them."""

from fairtrial.core import Losses, MeasureValues, Progress, Recommendation
from fairtrial.presentation.missing_values import (
    counting_of_missing,
    missing_values,
    summary_of_missing,
)


def progress_of(*rows, counted_as="the worst value"):
    measures = tuple(MeasureValues(*row) for row in rows)
    known = {"measures": measures, "losses": Losses(counted_as)}
    return Progress(Recommendation(None, "running"), 9, 9, 0, **known)


def test_the_largest_shares_come_first_and_complete_cells_are_left_out():
    progress = progress_of(
        ("a", "x", "cured", 10, 0), ("a", "x", "harmed", 90, 10), ("b", "x", "harmed", 1, 1)
    )
    found = missing_values(progress)
    assert [(one.arm, one.measure, one.share) for one in found] == [
        ("b", "harmed", 0.5),
        ("a", "harmed", 0.1),
    ]
    assert summary_of_missing(progress) == (
        "Will never be known: 11 of 102 values of harmed (10.8 %)."
    )


def test_a_measure_that_is_never_known_has_a_share_of_one():
    (one,) = missing_values(progress_of(("a", "x", "note", 0, 3)))
    assert one.share == 1.0


def test_what_a_missing_value_counts_as_is_said():
    assert "worst one" in counting_of_missing(progress_of())
    assert "nothing to do with" in counting_of_missing(progress_of(counted_as="not drawn"))
    again = counting_of_missing(progress_of(counted_as="made again"))
    assert "the limit of replacements is reached or its arm or group is closed" in again


def test_a_progress_without_measures_says_nothing():
    progress = Progress(Recommendation(None, "running"), 1, 1, 0)
    assert (missing_values(progress), summary_of_missing(progress)) == ([], "")
    assert counting_of_missing(progress) == ""


def test_that_nothing_is_missing_is_said():
    assert summary_of_missing(progress_of(("a", "x", "cured", 5, 0))).startswith("No value")
