"""How pulls became results, event by event."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from fairtrial.presentation.arrivals import Arrivals

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def event(kind, pull, seconds, action=0):
    at = BEGIN + timedelta(seconds=seconds)
    return SimpleNamespace(kind=kind, pull_id=pull, at=at, action=action)


def test_delays_are_counted_between_the_shortest_and_the_longest():
    asks = [event("ask", str(n), 0, action=n % 2) for n in range(5)]
    tells = [
        event("tell", "0", 0.5),
        event("tell", "1", 5, 1),
        event("late_tell", "2", 5 * 60),
        event("tell", "3", 6, 1),
    ]
    found = Arrivals.of([*asks, *tells])
    assert found.delays == [
        ("under 1 second", 1),
        ("1 to 10 seconds", 2),
        ("10 to 60 seconds", 0),
        ("1 to 10 minutes", 1),
    ]
    assert found.usual_delay == "1 to 10 seconds"
    assert found.asked == {0: 3, 1: 2}
    assert found.told == {0: 2, 1: 2}


def test_what_is_told_twice_or_unasked_counts_once_or_not():
    log = [event("ask", "a", 0), event("tell", "a", 1), event("amend", "a", 2)]
    log += [event("late_tell", "a", 3), event("unsolicited", "b", 4), event("wait", None, 5, None)]
    found = Arrivals.of(log)
    assert (found.asked.total(), found.told.total()) == (1, 1)
    assert found.unsolicited == {0: 1}


def test_a_clock_that_was_set_back_makes_a_delay_of_nothing():
    found = Arrivals.of([event("ask", "a", 100), event("tell", "a", 0)])
    assert found.delays == [("under 1 second", 1)]
    assert Arrivals().delays == []
    assert Arrivals().usual_delay == ""


def test_pulls_that_were_given_up_are_told_from_open_ones_until_a_result_comes_after_all():
    log = [event("ask", name, 0) for name in "abcd"]
    log += [event("fail", "a", 1), event("expire", "b", 1), event("cancel", "c", 1)]
    log += [event("expire", "b", 2)]
    assert Arrivals.of(log).given_up == {0: 3}
    later = [*log, event("late_tell", "a", 3), event("reissue", "b", 3), event("tell", "d", 3)]
    found = Arrivals.of(later)
    assert (found.given_up[0], found.told[0]) == (1, 2)
