"""Sizes, views and packed copies of a state follow from its one declaration."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel
from fairtrial.core.layout import Layout, opener

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GRID = 3


class Blocks(NamedTuple):
    """A nested declaration."""

    waiting: Annotated[Integers, "slots"]
    planned: Annotated[Floats, "slots arms"]
    points: Annotated[Floats, f"slots arms {GRID}"]


class State(NamedTuple):
    """Fields may be named like dimensions, or like the variables of the opened function."""

    arms: Annotated[Floats, "arms"]
    sums: Annotated[Floats, "arms groups"]
    floats: Annotated[Floats, "arms groups"]
    answers: Annotated[Integers, "arms+1"]
    blocks: Blocks
    limits: Annotated[Floats, "2 arms groups"]
    control: Annotated[Integers, "2"]


class Rules(NamedTuple):
    """Scalars, and an array whose length they do not determine."""

    bounded: bool
    low: float
    steps: int
    costs: Annotated[Floats, "arms"]
    doubts: bool


STATE = Layout(State)
RULES = Layout(Rules)
open_state = STATE.open
open_rules = RULES.open
opened = opener(RULES, STATE)

SHAPES = {
    "arms": (2,),
    "sums": (2, 5),
    "floats": (2, 5),
    "answers": (3,),
    "blocks.waiting": (4,),
    "blocks.planned": (4, 2),
    "blocks.points": (4, 2, 3),
    "limits": (2, 2, 5),
    "control": (2,),
}


def leaves(state):
    """Return every array of a state, by its path."""
    found = {}
    for array in STATE.arrays:
        found[array.path] = state
        for name in array.path.split("."):
            found[array.path] = getattr(found[array.path], name)
    return found


@kernel
def number(floats, integers):
    state = open_state(floats, integers)
    state.sums[1, 2] = 12.0
    state.blocks.points[3, 1, 2] = 312.0
    state.blocks.waiting[3] = 3
    state.control[1] = 1
    return state.answers.size


@kernel
def take_steps(arrays):
    rules, state = opened(arrays)
    state.control[1] += rules.steps
    return rules.low


@kernel
def describe(floats):
    rules = open_rules(floats)
    return rules.bounded, rules.low, rules.steps, rules.costs.size, rules.doubts


def test_views_have_the_declared_shapes_and_share_no_entry():
    floats, integers = STATE.allocate(arms=2, groups=5, slots=4)
    state = STATE.view(floats, integers)
    for array in leaves(state).values():
        assert (array == 0).all()
        array += 1
    assert {path: array.shape for path, array in leaves(state).items()} == SHAPES
    assert all((array == 1).all() for array in leaves(state).values())
    assert floats.tolist() == [1.0] * floats.size
    assert integers.tolist() == [2, 5, 4] + [1] * (integers.size - 3)
    assert STATE.sizes(arms=2, groups=5, slots=4) == (floats.size, integers.size)


def test_compiled_and_plain_views_see_the_same(any_tier):
    floats, integers = STATE.allocate(arms=2, groups=5, slots=4)
    assert number(floats, integers) == 3
    state = STATE.view(floats, integers)
    assert state.sums[1, 2] == 12.0
    assert state.blocks.points[3, 1, 2] == 312.0
    assert state.blocks.waiting.tolist() == [0, 0, 0, 3]
    assert state.control.tolist() == [0, 1]


def test_a_packed_state_is_opened_as_it_was():
    floats, integers = STATE.allocate(arms=2, groups=5, slots=4)
    floats[:] = np.arange(floats.size)
    integers[3:] = np.arange(integers.size - 3)
    again = STATE.pack(STATE.view(floats, integers))
    np.testing.assert_array_equal(again[0], floats)
    np.testing.assert_array_equal(again[1], integers)


def test_scalars_come_back_in_their_types():
    rules = Rules(bounded=True, low=-0.5, steps=150, costs=np.ones(4), doubts=False)
    floats, integers = RULES.pack(rules)
    assert integers.size == 0
    assert describe(floats) == (True, -0.5, 150, 4, False)
    assert RULES.view(floats)[:3] == (True, -0.5, 150)


def test_constants_and_state_are_opened_together():
    floats, integers = STATE.allocate(arms=2, groups=5, slots=4)
    constants, _ = RULES.pack(Rules(True, low=-0.5, steps=150, costs=np.ones(4), doubts=False))
    assert take_steps((constants, floats, integers)) == -0.5
    assert STATE.view(floats, integers).control.tolist() == [0, 150]


def test_arrays_that_disagree_about_a_dimension_are_refused():
    state = STATE.view(*STATE.allocate(arms=2, groups=5, slots=4))
    with pytest.raises(ValueError, match=r"answers has shape \(4,\), not \(3,\)"):
        STATE.pack(state._replace(answers=np.zeros(4, dtype=np.int64)))


def test_what_is_no_array_is_refused():
    class Wrong(NamedTuple):
        name: str

    with pytest.raises(TypeError, match="name must be"):
        Layout(Wrong)


@pytest.mark.parametrize("array", [NDArray[np.int32], NDArray[np.generic], np.ndarray, list[float]])
def test_an_array_of_another_type_is_refused_by_its_path(array):
    class Wrong(NamedTuple):
        counts: Annotated[array, "arms"]

    with pytest.raises(TypeError, match=r"^counts must be an array"):
        Layout(Wrong)


DECLARATION = """
from typing import Annotated, NamedTuple
import numpy as np
from numpy.typing import NDArray
from fairtrial.core.layout import Layout

WIDTH = {width}

class State(NamedTuple):
    sums: Annotated[NDArray[np.float64], f"arms {{WIDTH}}"]
    last: Annotated[NDArray[np.float64], "1"]

STATE = Layout(State)
open_state = STATE.open
"""

CALLER = """
from fairtrial.core.compilation import kernel
from toy.state import open_state

@kernel
def width(floats):
    return open_state(floats).sums.shape[1]
"""

SESSION = """
import sys
from pathlib import Path
from fairtrial.core import machine_code

machine_code.PACKAGE = Path(sys.argv[1])
sys.path.insert(0, str(machine_code.PACKAGE.parent))
from toy.state import STATE, open_state
from toy.caller import width

floats, _ = STATE.allocate(arms=2)
found = width(floats), open_state(floats).last.size
print(*found, *(sum(k.dispatcher.stats.cache_hits.values()) for k in (width, open_state)))
"""


def test_opening_is_compiled_once_and_again_when_the_declaration_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FAIRTRIAL_KERNELS", "compile")
    toy = tmp_path / "toy"
    toy.mkdir()
    (toy / "caller.py").write_text(CALLER)

    def session(width: int) -> list[int]:
        (toy / "state.py").write_text(DECLARATION.format(width=width))
        command = [sys.executable, "-B", "-c", SESSION, str(toy)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return [int(word) for word in done.stdout.split()]

    assert session(width=3) == [3, 1, 0, 0]
    assert session(width=3) == [3, 1, 1, 1]
    assert session(width=4) == [4, 1, 0, 0]


def test_the_source_of_an_opened_function_is_that_of_its_declaration():
    assert Path(STATE.view.__code__.co_filename) == Path(__file__)
