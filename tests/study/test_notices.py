"""Notifications sent about a study, kept beside it."""

import pytest


def test_a_notice_is_kept_once_and_for_its_study_only(store, make_study):
    make_study(name="one"), make_study(name="other")
    one, other = (store.find_study(name).id for name in ("one", "other"))
    for _ in range(2):
        store.transact(lambda: store.save_notice(one, "stopped", store.now()))
    assert store.notices(one) == {"stopped"}
    assert store.notices(other) == set()


def test_a_notice_of_a_transaction_that_fails_is_not_kept(store, make_study):
    make_study(name="one")
    one = store.find_study("one").id

    def failing():
        store.save_notice(one, "stopped", store.now())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.transact(failing)
    assert store.notices(one) == set()
