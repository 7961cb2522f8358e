"""Pulls: labels as attributes, equality, and sending them between processes."""

import copy
import pickle

import pytest

from fairtrial.core import Pull
from tests.messages import raises

PULL = Pull(3, 1, {"arm": "b", "group": "x"}, tag=2)


def test_labels_are_attributes() -> None:
    assert (PULL.arm, PULL.group) == ("b", "x")
    assert repr(PULL) == "Pull(number=3, arm='b', group='x')"


def test_an_unknown_label_is_an_attribute_error() -> None:
    with raises(AttributeError):
        PULL.dose  # noqa: B018


def test_pulls_are_equal_by_number_and_action() -> None:
    same = Pull(3, 1, {"arm": "b", "group": "x"})
    assert same == PULL
    assert hash(same) == hash(PULL)
    assert Pull(4, 1, PULL.labels) != PULL
    assert Pull(3, 0, PULL.labels) != PULL
    assert PULL != "Pull(number=3)"


@pytest.mark.parametrize(
    "again", [copy.copy(PULL), copy.deepcopy(PULL), pickle.loads(pickle.dumps(PULL))]
)
def test_copies_are_whole(again: Pull) -> None:
    assert (again.number, again.action, again.tag, dict(again.labels)) == (3, 1, 2, PULL.labels)
