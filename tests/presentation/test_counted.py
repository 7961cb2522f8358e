"""Which results means and evidence count, and whether means have intervals."""

import pytest

from fairtrial.core import Progress, Recommendation
from fairtrial.core.recommendation import Estimate
from fairtrial.presentation.counted import counted_note, gives_mean_of_all, intervals_note


def progress_with(*actions, **more):
    return Progress(Recommendation(None, "running"), 90, 87, 3, actions=actions, **more)


@pytest.mark.parametrize("counted", [None, 87])
def test_it_is_said_that_means_count_all_results_if_only_the_evidence_does_not(counted):
    mean = Estimate({"arm": "a"}, 87, mean=0.5, counted=counted)
    note = counted_note(progress_with(mean, settled=52))
    assert note.startswith("52 of 87 results count for the evidence")
    assert "Means and differences count all results." in note


def test_nothing_is_said_if_all_results_count():
    mean = Estimate({"arm": "a"}, 87, mean=0.5)
    assert counted_note(progress_with(mean)) == counted_note(progress_with(mean, settled=87)) == ""


def test_an_own_mean_of_results_that_do_not_count_is_named():
    own = Estimate({"arm": "a"}, 9, 0.5, counted=0, predicted=True, own_mean=0.4)
    other = Estimate({"arm": "b"}, 78, 0.5, counted=52, predicted=True, own_mean=0.4)
    assert "own mean" in counted_note(progress_with(own, other, settled=52))
    assert "own mean" not in counted_note(progress_with(other, settled=52))


def test_means_without_intervals_are_called_approximate():
    mean = Estimate({"arm": "a"}, 87, mean=0.5)
    assert "approximate" in intervals_note(progress_with(mean, intervals="none"))
    assert intervals_note(progress_with(mean)) == ""
    unknown = Estimate({"arm": "a"}, 0)
    assert intervals_note(progress_with(unknown, intervals="none")) == ""


def test_means_of_some_results_are_named_although_their_number_is_not_known():
    """With measures that come late, each measure has a number of its own."""
    mean = Estimate({"arm": "a", "measure": "paid"}, 728, mean=0.27, counted=577)
    assert "counted" in counted_note(progress_with(mean, settled=None))


def test_the_mean_of_all_is_named_where_some_results_do_not_count():
    some = Estimate({"arm": "a"}, 39, mean=0.0, counted=16, mean_of_all=0.077)
    every = Estimate({"arm": "a"}, 39, mean=0.077, counted=39, mean_of_all=0.077)
    assert "mean of all is" in counted_note(progress_with(some, settled=52))
    assert "mean of all is" in counted_note(progress_with(some, settled=None))
    assert gives_mean_of_all([some])
    assert not gives_mean_of_all([every])
