"""A user's subclass of a compiled policy is simulated as it is, with all that it overrides."""

from __future__ import annotations

import gc
import inspect
import math
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.core import Policy
from fairtrial.core.compiled_paths import compiled_paths_of
from fairtrial.core.streams import streams_of
from fairtrial.delayed import BlockBetting as LateBlockBetting
from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem
from papers.baics.cache import WatchedBlockBetting
from papers.linear.cache import WatchedBlockBetting as WatchedLinearBlockBetting
from tests.testing.families import POLICIES, Row, late, limited

PROBLEM = Problem(2, 1, noise_std=1.0)
WORLD = GaussianEnvironment(PROBLEM, [[1.5], [0.0]])

REPORTS = {
    "guarantee", "metrics", "progress",
    "open_as_worst", "remarks", "remarks_on_arms", "warnings", "why_no_pull",
}  # fmt: skip

NOT_IN_A_RUN = {
    "clone", "get_params", "get_state", "set_state", "state_fields", "to_dict", "version",
    "expiry", "has_shared_blocks", "results_are_independent",
}  # fmt: skip

PATHS = {"compiled_run", "compiled_runs", "environments"}

MEMBERS = sorted(name for name in dir(Policy) if not name.startswith("_"))

IN_PYTHON = {"PairedRacing"}
"""Policies without compiled runs."""


def first_rows() -> list[Row]:
    """Return the first row of every policy with compiled runs."""
    found: dict[type[Policy], Row] = {}
    for row in POLICIES:
        if row.policy.__name__ not in IN_PYTHON:
            found.setdefault(row.policy, row)
    return list(found.values())


def overriding(cls: type[Policy], *names: str) -> Any:
    """Return a subclass that defines members again, as they are."""
    own = {name: inspect.getattr_static(cls, name) for name in names}
    return type(cls)(cls.__name__, (cls,), own)


def compiled_run(policy: Policy, environment: Any) -> Any:
    return policy.compiled_run(environment, np.random.default_rng(0), 200, 1)


# ------------------------------------------------------------------------------- every member


@pytest.mark.parametrize("row", first_rows(), ids=lambda row: row.name)
def test_an_overridden_member_that_decides_about_a_run_is_used(row: Row) -> None:
    policy, environment = row.make()
    assert compiled_run(policy, environment) is not None
    arguments = {"problem": policy.problem, "seed": 1, **policy.get_params()}
    for name in MEMBERS:
        own = overriding(row.policy, name)(**arguments)
        is_harmless = name in REPORTS | NOT_IN_A_RUN | PATHS
        assert compiled_paths_of(type(own), Policy).one == is_harmless, name
        if not is_harmless:
            assert compiled_run(own, environment) is None, name
            streams = streams_of(0, 0, 2)
            assert own.compiled_runs(environment, streams, 200) is None, name


@pytest.mark.parametrize("row", first_rows(), ids=lambda row: row.name)
def test_a_subclass_with_other_reports_only_still_runs_compiled(row: Row) -> None:
    policy, environment = row.make()
    arguments = {"problem": policy.problem, "seed": 1, **policy.get_params()}
    own = overriding(row.policy, *REPORTS)(**arguments)
    assert compiled_run(own, environment) is not None
    assert own.compiled_runs(environment, streams_of(0, 0, 2), 200) is None


@pytest.mark.parametrize("name", [*MEMBERS, "__init__", "_run", "_finished_runs"])
def test_a_class_that_overrides_anything_makes_its_runs_one_by_one(name: str) -> None:
    assert compiled_paths_of(BlockBetting, Policy).many
    assert not compiled_paths_of(overriding(BlockBetting, name), Policy).many


def test_a_subclass_that_overrides_nothing_makes_many_runs_in_one_call() -> None:
    class Renamed(BlockBetting):
        """Block betting by another name."""

        note = "a member of its own"

    assert Renamed(PROBLEM).compiled_runs(WORLD, streams_of(0, 0, 2), None) is not None


def test_a_member_of_a_mixin_counts_only_if_it_overrides() -> None:
    class Noting:
        def tell(self, *arguments: Any) -> None:
            raise AssertionError

    class First(Noting, BlockBetting):  # type: ignore[misc]
        """Its `tell` is the mixin's."""

    class Last(BlockBetting, Noting):  # type: ignore[misc]
        """Its `tell` is that of every policy."""

    assert not compiled_paths_of(First, Policy).one
    assert compiled_paths_of(Last, Policy).one


def test_a_subclass_may_state_that_its_compiled_runs_do_the_same() -> None:
    class Logged(BlockBetting):
        environments = BlockBetting.environments

        def learn(self, pull: Any, outcome: Any) -> None:
            super().learn(pull, outcome)

    class Changed(Logged):
        def learn(self, pull: Any, outcome: Any) -> None:
            super().learn(pull, -outcome)

    assert compiled_run(Logged(PROBLEM), WORLD) is not None
    assert compiled_run(Changed(PROBLEM), WORLD) is None


def test_a_class_is_forgotten_when_nobody_uses_it() -> None:
    # Without collections in between, the class stays among the youngest objects, which are few.
    gc.disable()
    try:
        own = overriding(BlockBetting, "metrics")
        compiled_paths_of(own, Policy)
        reference = weakref.ref(own)
        del own
        gc.collect(0)
    finally:
        gc.enable()
    assert reference() is None


# ---------------------------------------------------------------------- what users see of it


class Deaf(BlockBetting):
    """Block betting that takes every result for zero."""

    def learn(self, pull, outcome):
        super().learn(pull, 0.0)


class Hasty(BlockBetting):
    """Block betting that stops after twenty results."""

    @property
    def stopped(self):
        return self.told >= 20 or super().stopped


class Modest(BlockBetting):
    """Block betting that never decides."""

    def recommend(self):
        return replace(super().recommend(), arm=None, status="undecided")


class Stubborn(BlockBetting):
    """Block betting that pulls the first cell only."""

    def choose(self, group=None):
        return 0


@pytest.mark.parametrize("cls", [Deaf, Hasty, Modest, Stubborn])
def test_the_simulated_policy_is_the_subclass(cls):
    policy = cls(PROBLEM, max_pulls=60)
    found = ft.simulate(policy, WORLD, replications=4, seed=0)
    expected = ft.simulate(policy, WORLD, replications=4, seed=0, engine="python")
    other = ft.simulate(BlockBetting(PROBLEM, max_pulls=60), WORLD, replications=4, seed=0)
    for name in ("answer", "status", "stopping_time", "pulls"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    names = ("answer", "status", "stopping_time", "pulls")
    assert any((getattr(found, name) != getattr(other, name)).any() for name in names)


def test_a_failed_pull_reaches_the_subclass():
    failed = []

    class Noting(LateBlockBetting):
        def on_failure(self, pull, reason):
            failed.append(reason)
            super().on_failure(pull, reason)

    problem, environment = late()
    ft.simulate(Noting(problem), environment, replications=2, seed=0, parallel=4, horizon=150)
    assert failed


class Counting(BlockBetting):
    """Block betting that reports how many results it has."""

    def metrics(self):
        return {**super().metrics(), "results": float(self.told)}


class Noting(BlockBetting):
    """Block betting that adds a number to each run."""

    def _run(self, *arguments):
        run = super()._run(*arguments)
        return replace(run, metrics={**run.metrics, "twice": 2.0 * run.stopping_time})


class Seeded(BlockBetting):
    """Block betting with a block size that depends on the seed."""

    def __init__(self, problem, seed=None):
        super().__init__(problem, batch=5 + 40 * (seed or 0) // 2**63, seed=seed)


def test_metrics_of_a_subclass_are_those_at_the_end_of_each_run():
    found = ft.simulate(Counting(PROBLEM), WORLD, replications=4, seed=0)
    assert found.metrics["results"].tolist() == found.stopping_time.tolist()
    assert found.stopping_time.min() > 0


def test_a_subclass_may_add_to_each_run():
    found = ft.simulate(Noting(PROBLEM), WORLD, replications=4, seed=0)
    assert found.metrics["twice"].tolist() == (2.0 * found.stopping_time).tolist()


def test_a_subclass_may_begin_each_run_in_its_own_way():
    found = ft.simulate(Seeded(PROBLEM), WORLD, replications=4, seed=0)
    expected = ft.simulate(Seeded(PROBLEM), WORLD, replications=4, seed=0, engine="python")
    assert found.stopping_time.tolist() == expected.stopping_time.tolist()


def test_the_policies_of_the_papers_that_report_more_run_compiled():
    run = compiled_run(WatchedBlockBetting(PROBLEM), WORLD)
    assert run.metrics["true_answer_rejected"] in {0.0, 1.0}
    problem, environment = limited()
    watched = str(environment.truth.best)
    run = compiled_run(WatchedLinearBlockBetting(problem, watched), environment)
    assert run.metrics["watched_rejected"] in {0.0, 1.0}
    assert math.isfinite(run.elapsed)
