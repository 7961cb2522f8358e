"""Seeds: one integer from anything, and streams that are independent of each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core.seeds import as_seed, seed_key, spawn_seeds
from fairtrial.errors import InvalidArgument
from tests.messages import raises


@pytest.mark.parametrize("seed", [-1, 1.0, "7", True, [1]])
def test_a_bad_seed_is_refused(seed: object) -> None:
    with raises(InvalidArgument, "seed", given=seed):
        as_seed(seed)


def test_a_generator_gives_its_next_number() -> None:
    generator = np.random.default_rng(1)
    first, second = as_seed(generator), as_seed(generator)
    assert first != second
    assert first == as_seed(np.random.default_rng(1))


def test_fresh_seeds_differ() -> None:
    assert as_seed(None) != as_seed(None)


def test_an_integer_stays_what_it_is() -> None:
    assert as_seed(2**200) == 2**200
    assert type(as_seed(np.uint64(2**63))) is int


@given(st.integers(0, 2**70), st.integers(0, 50), st.integers(1, 20))
def test_a_stream_is_the_same_whoever_asks_for_it(seed: int, start: int, number: int) -> None:
    whole = spawn_seeds(seed, start + number)
    part = spawn_seeds(seed, number, start=start)
    assert [s.generate_state(2).tolist() for s in whole[start:]] == [
        s.generate_state(2).tolist() for s in part
    ]


def test_streams_are_those_of_numpy() -> None:
    expected = np.random.SeedSequence(5).spawn(3)
    actual = spawn_seeds(5, 3)
    assert [s.generate_state(4).tolist() for s in actual] == [
        s.generate_state(4).tolist() for s in expected
    ]


def test_keys_of_different_seeds_differ() -> None:
    assert len({tuple(seed_key(seed)) for seed in range(100)}) == 100
