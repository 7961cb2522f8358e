"""Tables in a buffer: kernels see rows, Python sees columns, both see the same numbers."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from fairtrial.core.compilation import kernel
from fairtrial.core.records import Records


class Sums(NamedTuple):
    """A nested row."""

    whole: float
    number: int


class Arm(NamedTuple):
    """A row of a table."""

    pulls: int
    estimate: float
    sums: Sums


class Control(NamedTuple):
    """A single record."""

    rows: int
    limit: float


class State(NamedTuple):
    """Tables of all kinds, and an array that is not part of the buffer."""

    control: Annotated[Any, Control]
    arms: Annotated[Any, Arm, "arms"]
    better: Annotated[Any, bool, "arms arms"]
    places: Annotated[Any, Control, "places"]
    radii: Any


STATE = Records(State)
open_state = STATE.open


@kernel
def count(words, radii, arm):
    state = open_state(words, radii)
    state.control[0].rows += 1
    state.arms[arm].pulls -= 1
    add(state, state.arms[arm].sums)
    state.better[arm, 0] = 1
    state.places[state.places.shape[0] - 1].limit = np.inf
    return state.arms.shape[0] * radii[1] + state.places.shape[0]


@kernel
def add(state, sums):
    sums.whole += state.arms[0].estimate
    sums.number += 1


def test_what_a_kernel_writes_into_rows_python_reads_in_columns(any_tier):
    words, radii = STATE.allocate(arms=3, places=2), np.array([0.0, 10.0])
    state = STATE.columns(words, radii)
    state.arms.estimate[:] = [0.5, 0.25, 0.125]
    assert count(words, radii, 1) == 32.0
    assert count(words, radii, 2) == 32.0
    assert state.control.rows.tolist() == [2]
    assert state.arms.pulls.tolist() == [0, -1, -1]
    assert state.arms.sums.whole.tolist() == [0.0, 0.5, 0.5]
    assert state.arms.sums.number.tolist() == [0, 1, 1]
    assert state.better.tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 0]]
    assert state.places.limit.tolist() == [0.0, np.inf]
    assert state.radii is radii


def test_a_copy_of_the_buffer_is_a_copy_of_the_state():
    words = STATE.allocate(arms=2, places=1)
    STATE.columns(words, None).arms.estimate[:] = [1.5, -2.5]
    copied = words.copy()
    STATE.columns(words, None).arms.estimate[:] = 0.0
    assert STATE.columns(copied, None).arms.estimate.tolist() == [1.5, -2.5]


def test_larger_tables_begin_with_the_same_records():
    words = STATE.allocate(arms=2, places=1)
    state = STATE.columns(words, None)
    state.control.rows[0], state.arms.pulls[:], state.better[1, 0] = 7, [3, 4], 1
    state.places.limit[:] = 0.5
    larger = STATE.columns(STATE.enlarged(words, places=3), None)
    assert (larger.control.rows[0], larger.arms.pulls.tolist()) == (7, [3, 4])
    assert larger.better.tolist() == [[0, 0], [1, 0]]
    assert larger.places.limit.tolist() == [0.5, 0.0, 0.0]
    wider = STATE.columns(STATE.enlarged(words, arms=3), None)
    assert wider.arms.pulls.tolist() == [3, 4, 0]
    assert wider.better.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]
