"""A user's subclass of a compiled policy keeps what it adds to the result of a run."""

from dataclasses import replace

import fairtrial as ft
from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem

PROBLEM = Problem(2, 1, noise_std=1.0)
WORLD = GaussianEnvironment(PROBLEM, [[1.5], [0.0]])


class Counting(BlockBetting):
    """Block betting that reports how many results it has."""

    def metrics(self):
        return {**super().metrics(), "results": float(self.told)}


class Noting(BlockBetting):
    """Block betting that adds a number to each run."""

    def _run(self, *arguments):
        run = super()._run(*arguments)
        return replace(run, metrics={**run.metrics, "twice": 2.0 * run.stopping_time})


def test_metrics_of_a_subclass_are_those_at_the_end_of_each_run():
    found = ft.simulate(Counting(PROBLEM), WORLD, replications=4, seed=0)
    assert found.metrics["results"].tolist() == found.stopping_time.tolist()
    assert found.stopping_time.min() > 0


def test_a_subclass_may_add_to_each_run():
    found = ft.simulate(Noting(PROBLEM), WORLD, replications=4, seed=0)
    assert found.metrics["twice"].tolist() == (2.0 * found.stopping_time).tolist()
