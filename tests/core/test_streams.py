"""The random streams of many replications: those that NumPy derives one by one."""

from __future__ import annotations

import numpy as np
import pytest

from fairtrial.core.seeds import seed_key, spawn_seeds
from fairtrial.core.streams import Reseeded, can_reseed, streams_of

SEEDS = [0, 7, 2**31, 2**32, 2**63 - 1, 2**70 + 5, 2**128 - 3, 2**200 + 99, 2**1000 + 7]


@pytest.mark.parametrize("seed", SEEDS)
def test_streams_are_those_of_numpy(seed: int) -> None:
    found = streams_of(seed, 5, 4)
    reseeded = Reseeded()
    for row in range(4):
        (stream,) = spawn_seeds(seed, 1, start=5 + row)
        rewards, own = stream.spawn(2)
        policy_seed = int(own.generate_state(1, np.uint64)[0] >> np.uint64(1))
        assert int(found.seeds[row]) == policy_seed
        assert found.keys[row].tolist() == seed_key(policy_seed).tolist()
        reseeded.words[:] = found.rewards[row]
        expected = np.random.default_rng(rewards)
        assert reseeded.generator.bit_generator.state == expected.bit_generator.state
        assert reseeded.generator.normal(size=9).tolist() == expected.normal(size=9).tolist()


def test_a_stream_does_not_depend_on_those_derived_with_it() -> None:
    whole = streams_of(11, 0, 50)
    part = streams_of(11, 30, 1)
    for all_rows, row in zip(whole, part, strict=True):
        assert all_rows[30].tolist() == row[0].tolist()


def test_the_state_of_this_numpys_generator_can_be_set() -> None:
    assert can_reseed()
