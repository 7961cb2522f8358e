"""The random streams of many replications: those that NumPy derives one by one."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from fairtrial.core import numpy_streams
from fairtrial.core.numpy_streams import can_reseed, stream_of
from fairtrial.core.seeds import seed_key, spawn_seeds
from fairtrial.core.streams import Reseeded, Streams, streams_of
from fairtrial.simulation import simulate
from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem

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
        reseeded.seed(found.rewards[row])
        expected = np.random.Generator(np.random.PCG64(rewards))
        assert reseeded.generator.bit_generator.state == expected.bit_generator.state
        assert reseeded.generator.normal(size=9).tolist() == expected.normal(size=9).tolist()


def test_a_stream_does_not_depend_on_those_derived_with_it() -> None:
    whole = streams_of(11, 0, 50)
    part = streams_of(11, 30, 1)
    for all_rows, row in zip(whole, part, strict=True):
        assert all_rows[30].tolist() == row[0].tolist()


# ------------------------------------------------------------------ one generator for all runs


def test_the_state_of_this_numpys_generator_can_be_set() -> None:
    assert can_reseed()


def test_seeding_forgets_the_half_of_a_draw_that_was_kept() -> None:
    reseeded = Reseeded()
    reseeded.generator.integers(2**20, dtype=np.uint32)
    assert reseeded.generator.bit_generator.state["has_uint32"] == 1
    reseeded.seed(streams_of(7, 3, 1).rewards[0])
    expected, _ = stream_of(7, 3)
    assert reseeded.generator.bit_generator.state == expected.bit_generator.state


@pytest.mark.parametrize("name", ["words", "kept"])
def test_the_memory_of_a_generator_exists_as_long_as_an_array_of_it(name: str) -> None:
    array = getattr(Reseeded(), name)
    gc.collect()
    assert array.flags.writeable
    assert isinstance(array.base._owner, np.random.PCG64)


def other_rewards(*arguments: Any) -> Streams:
    found = streams_of(*arguments)
    return found._replace(rewards=found.rewards ^ np.uint64(1))


def other_seeds(*arguments: Any) -> Streams:
    found = streams_of(*arguments)
    return found._replace(seeds=found.seeds ^ np.uint64(1))


def other_keys(*arguments: Any) -> Streams:
    found = streams_of(*arguments)
    return found._replace(keys=found.keys ^ np.uint64(1))


@pytest.mark.parametrize("other", [other_rewards, other_seeds, other_keys])
def test_where_numpy_derives_other_streams_runs_are_made_one_by_one(
    other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_streams, "streams_of", other)
    assert not can_reseed.__wrapped__()


def test_the_generator_of_a_replication_does_not_depend_on_numpys_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = Problem(2, 1, noise_std=1.0)
    environment = GaussianEnvironment(problem, [[1.0], [0.0]])
    arguments = (BlockBetting(problem, max_pulls=20), environment, 3)
    expected = simulate(*arguments, engine="python")
    monkeypatch.setattr(
        np.random, "default_rng", lambda seed: np.random.Generator(np.random.Philox(seed))
    )
    for more in ({"engine": "python"}, {"estimates": True}, {}):
        found = simulate(*arguments, **more)
        assert found.pulls.tolist() == expected.pulls.tolist()
