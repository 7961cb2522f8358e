"""The checker of histories, tested with histories made by hand and by a slow search."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import effort
from tests.server.histories import StudyModel, asked, is_linearizable, looked, told

ASK = asked(0, 1, [(0, "p")])

GOOD = {
    "nothing": [],
    "in turn": [ASK, told(2, 3, "p", 0.5, 2), looked(4, 5, 2)],
    "the same twice": [ASK, told(2, 3, "p", 0.5, 2), told(4, 5, "p", 0.5, 2)],
    "a conflict": [ASK, told(2, 3, "p", 0.5, 2), told(4, 5, "p", 0.6, "conflict")],
    "of two at once either may be first": [
        ASK,
        told(2, 5, "p", 0.5, "conflict"),
        told(2, 5, "p", 0.6, 2),
    ],
    "asks that overlap, the later one first": [asked(0, 9, [(1, "p")]), asked(1, 8, [(0, "q")])],
    "a look during a write sees either": [
        ASK,
        told(2, 9, "p", 0.5, 2),
        looked(3, 4, 1),
        looked(5, 6, 2),
    ],
    "a retry is answered as the first time": [
        asked(0, 1, [(0, "p")], key="k"),
        asked(2, 3, [(0, "p")], key="k"),
        looked(4, 5, 1),
    ],
    "an ask without an answer was carried out": [asked(0, math.inf, None), looked(1, 2, 1)],
    "an ask without an answer was not": [asked(0, math.inf, None), looked(1, 2, 0)],
    "it was carried out between two looks": [
        asked(0, math.inf, None),
        looked(1, 2, 0),
        looked(3, 4, 1),
    ],
    "a tell without an answer explains a conflict": [
        ASK,
        told(2, math.inf, "p", 0.5, None),
        told(3, 4, "p", 0.6, "conflict"),
    ],
    "several pulls": [asked(0, 1, [(0, "p"), (1, "q")], n=2), told(2, 3, "q", 1.0, 3)],
}

BAD = {
    "a number twice": [ASK, asked(2, 3, [(0, "q")])],
    "an identity twice": [ASK, asked(2, 3, [(1, "p")])],
    "a number left out": [ASK, asked(2, 3, [(2, "q")])],
    "told before it was asked": [told(0, 1, "p", 0.5, 1), asked(2, 3, [(0, "p")])],
    "an event twice": [
        asked(0, 1, [(0, "p"), (1, "q")], n=2),
        told(2, 3, "p", 1, 3),
        told(4, 5, "q", 1, 3),
    ],
    "an acknowledged tell is lost": [ASK, told(2, 3, "p", 0.5, 2), looked(4, 5, 1)],
    "two outcomes of one pull": [ASK, told(2, 3, "p", 0.5, 2), told(4, 5, "p", 0.6, 3)],
    "a conflict with nothing": [ASK, told(2, 3, "p", 0.5, "conflict")],
    "a conflict with what came later": [
        ASK,
        told(2, 3, "p", 0.5, "conflict"),
        told(4, 5, "p", 0.6, 2),
    ],
    "the same twice counts twice": [ASK, told(2, 3, "p", 0.5, 2), told(4, 5, "p", 0.5, 3)],
    "a look goes backwards": [ASK, told(2, 9, "p", 0.5, 2), looked(3, 4, 2), looked(5, 6, 1)],
    "a retry gives another pull": [
        asked(0, 1, [(0, "p")], key="k"),
        asked(2, 3, [(1, "q")], key="k"),
    ],
    "a retry is carried out again": [
        asked(0, 1, [(0, "p")], key="k"),
        asked(2, 3, [(0, "p")], key="k"),
        looked(4, 5, 2),
    ],
    "an ask without an answer happened and then did not": [
        asked(0, math.inf, None),
        looked(1, 2, 1),
        looked(3, 4, 0),
    ],
    "asks in turn, numbers in the other order": [asked(0, 1, [(1, "p")]), asked(2, 3, [(0, "q")])],
}


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_histories_that_can_have_happened_are_accepted(history):
    assert all(
        is_linearizable(order) for order in itertools.islice(itertools.permutations(history), 24)
    )


@pytest.mark.parametrize("history", BAD.values(), ids=BAD)
def test_histories_that_cannot_have_happened_are_refused(history):
    assert not any(
        is_linearizable(order) for order in itertools.islice(itertools.permutations(history), 24)
    )


def slowly(history):
    """Try every order of every set of operations that includes all answered ones."""
    needed = {index for index, each in enumerate(history) if each.returned < math.inf}
    for size in range(len(needed), len(history) + 1):
        for order in itertools.permutations(range(len(history)), size):
            if not needed <= set(order):
                continue
            in_time = all(
                history[later].returned >= history[earlier].called
                for earlier, later in itertools.combinations(order, 2)
            )
            model = StudyModel()
            if in_time and all(model.apply(history[index]) for index in order):
                return True
    return False


moments = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(sorted)
answered_asks = st.builds(
    lambda when, number: asked(*when, [(number, f"p{number}")]), moments, st.integers(0, 2)
)
lost_asks = st.builds(lambda called: asked(called, math.inf, None), st.integers(0, 8))
tells = st.builds(
    lambda when, number, value, answer: told(*when, f"p{number}", value, answer),
    moments,
    st.integers(0, 1),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([1, 2, 3, 4, "conflict"]),
)
looks = st.builds(lambda when, head: looked(*when, head), moments, st.integers(0, 4))


@settings(max_examples=effort.runs(150, whole=3_000))
@given(st.lists(st.one_of(answered_asks, lost_asks, tells, looks), max_size=5))
def test_the_search_agrees_with_trying_every_order(history):
    assert is_linearizable(history) == slowly(history)
