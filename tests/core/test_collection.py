"""The garbage collector pauses, and goes on as before."""

import gc

import pytest

from fairtrial.core.collection import collecting_rarely, without_collection


@without_collection()
def fail_within():
    assert not gc.isenabled()
    raise ZeroDivisionError


def test_nothing_is_collected_within_and_the_collector_goes_on_after_an_error():
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        fail_within()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with without_collection(), without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_looks_seldom_until_the_last_one_has_left():
    before = gc.get_threshold()
    with collecting_rarely:
        with pytest.raises(ZeroDivisionError), collecting_rarely:
            raise ZeroDivisionError
        assert gc.get_threshold() == collecting_rarely.thresholds
    assert gc.get_threshold() == before
    assert gc.isenabled()
