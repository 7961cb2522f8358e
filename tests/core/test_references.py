"""Kernels get an opened state by reference, and do with it what they do with a tuple."""

from typing import Annotated, NamedTuple

import numpy as np
import pytest
from numba.core import config
from numpy.typing import NDArray

from fairtrial.core import linking
from fairtrial.core.compilation import compiled, kernel, use_tier
from fairtrial.core.layout import Layout, opener

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Inner(NamedTuple):
    sums: Annotated[Floats, "arms groups"]
    numbers: Annotated[Integers, "arms"]


class Rules(NamedTuple):
    step: float
    twice: bool


class Constants(NamedTuple):
    scale: Annotated[Floats, "arms"]
    rules: Rules


class State(NamedTuple):
    total: Annotated[Floats, "1"]
    inner: Inner


CONSTANTS, STATE = Layout(Constants), Layout(State)
opened = opener(CONSTANTS, STATE)


@kernel
def add_in(inner, arm, group, value):
    inner.sums[arm, group] += value
    inner.numbers[arm] += 1


@kernel
def add(scale, rules, state, arm, group):
    value = scale[arm] * rules.step * (2.0 if rules.twice else 1.0)
    add_in(state.inner, arm, group, value)
    state.total[0] += value


@kernel
def add_to_all(arrays, times):
    for _ in range(times):
        (scale, rules), state = opened(arrays)
        for arm in range(scale.size):
            for group in range(state.inner.sums.shape[1]):
                add(scale, rules, state, arm, group)


@kernel
def copied(arrays):
    _, state = opened(arrays)
    return state.inner.sums.copy(), state.inner.numbers


@kernel
def opened_only(arrays):
    _, state = opened(arrays)
    return state.inner


@kernel
def reads_what_was_opened_elsewhere(arrays):
    return opened_only(arrays).sums[0, 0]


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))


@pytest.fixture
def arrays():
    constants = CONSTANTS.pack(Constants(np.array([1.0, 10.0]), Rules(0.5, True)))[0]
    return constants, *STATE.allocate(arms=2, groups=3)


@pytest.fixture
def compiling():
    use_tier("compile")
    yield
    use_tier("auto")


def test_fields_of_a_state_and_of_its_parts_are_read_and_written(arrays, compiling):
    add_to_all(arrays, 4)
    state = STATE.view(*arrays[1:])
    assert state.inner.sums.tolist() == [[4.0] * 3, [40.0] * 3]
    assert state.inner.numbers.tolist() == [12, 12]
    assert state.total.tolist() == [132.0]


def test_both_tiers_leave_the_same_buffers(arrays):
    other = tuple(map(np.copy, arrays))
    add_to_all(arrays, 3)
    with compiled():
        add_to_all(other, 3)
    assert [each.tolist() for each in arrays] == [each.tolist() for each in other]


def test_arrays_that_outlive_a_call_keep_their_buffers(compiling):
    def make():
        constants = CONSTANTS.pack(Constants(np.ones(2), Rules(1.0, False)))[0]
        arrays = constants, *STATE.allocate(arms=2, groups=3)
        add_to_all(arrays, 1)
        return copied(arrays)

    found = [make() for _ in range(50)]
    for sums, numbers in found:
        assert sums.tolist() == [[1.0] * 3] * 2
        assert numbers.tolist() == [3, 3]


def test_a_kernel_that_returns_an_opened_state_is_not_compiled(arrays, compiling):
    with pytest.raises(Exception, match="must not return an opened state"):
        reads_what_was_opened_elsewhere(arrays)


def test_a_name_that_is_no_field_is_an_error(arrays, compiling):
    @kernel
    def wrong(arrays):
        _, state = opened(arrays)
        return state.missing

    with pytest.raises(Exception, match="missing"):
        wrong(arrays)


def test_the_function_that_opens_a_state_has_machine_code_once(arrays, compiling):
    @kernel
    def total_of(arrays):
        _, state = opened(arrays)
        return state.total[0]

    @kernel
    def set_total(arrays):
        _, state = opened(arrays)
        state.total[0] = 7.0

    set_total(arrays)
    assert total_of(arrays) == 7.0
    assert sum("test_references10fill_State" in entry for entry in linking._APART) == 1
