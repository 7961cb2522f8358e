import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.core.philox import philox_uniform, philox_words
from tests import effort

words = st.integers(0, 2**64 - 1)


def numpy_philox(key0: int, key1: int, counter: int) -> np.random.Philox:
    return np.random.Philox(key=np.array([key0, key1], dtype=np.uint64), counter=counter)


def our_words(key0: int, key1: int, counter: int) -> list[int]:
    out = np.zeros(4, dtype=np.uint64)
    philox_words(np.uint64(key0), np.uint64(key1), np.uint64(counter), out)
    return out.tolist()


@settings(deadline=None, max_examples=effort.runs(120, whole=300))
@given(words, words, words)
def test_words_are_those_of_numpy_bit_for_bit(key0: int, key1: int, counter: int) -> None:
    assert (
        our_words(key0, key1, counter) == numpy_philox(key0, key1, counter).random_raw(4).tolist()
    )


@pytest.mark.parametrize("counter", [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 2, 2**64 - 1])
def test_words_are_right_where_the_counter_carries(counter: int) -> None:
    expected = numpy_philox(2**64 - 1, 2**63, counter).random_raw(4).tolist()
    assert our_words(2**64 - 1, 2**63, counter) == expected


def test_counters_follow_one_another_as_blocks_of_one_stream() -> None:
    stream = numpy_philox(3, 4, 10).random_raw(12).tolist()
    assert [word for counter in (10, 11, 12) for word in our_words(3, 4, counter)] == stream


@settings(deadline=None)
@given(words, words, st.integers(0, 2**63 - 1))
def test_uniforms_are_the_doubles_of_a_numpy_generator(key0: int, key1: int, counter: int) -> None:
    expected = np.random.Generator(numpy_philox(key0, key1, counter)).random(4)
    ours = [philox_uniform(np.uint64(key0), np.uint64(key1), counter, lane) for lane in range(4)]
    assert ours == expected.tolist()


def test_small_python_integers_serve_as_keys() -> None:
    expected = np.random.Generator(numpy_philox(7, 9, 5)).random(4)
    assert [philox_uniform(7, 9, 5, lane) for lane in range(4)] == expected.tolist()


def test_a_number_does_not_depend_on_what_was_drawn_before() -> None:
    forwards = [philox_uniform(1, 2, counter, 0) for counter in range(50)]
    backwards = [philox_uniform(1, 2, counter, 0) for counter in reversed(range(50))]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) == 50
