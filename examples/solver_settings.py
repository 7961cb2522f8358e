"""Race 32 settings of a mixed-integer solver live, with its bounds as early readings.

A pull solves one of eleven classic models, drawn at random, under one setting of HiGHS and with
a random seed. Its outcome is the mean gap between the bound and the best solution until a limit
of CPU time (the primal-dual integral of Berthold 2013, from 0 to 1: small is good), minus that of
the default setting on the same model. While the solver runs, the outcome lies between two known
bounds: their middle is a reading, half their distance its standard deviation.

There are three races, each in two processes and with its own study: with readings, without, and
with the same models and seeds for all settings.

    python examples/solver_settings.py [--quick] [--truth] [--tolerance .02] [--seconds 120]
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path

import fairtrial as ft
from fairtrial.data import solver_models
from fairtrial.delayed import PairedRacing
from fairtrial.study import run_study

CHOICES = {
    "presolve": {"on": "on", "off": "off"},
    "mip_detect_symmetry": {"symmetry": True, "-": False},
    "mip_heuristic_run_feasibility_jump": {"jump": True, "-": False},
    "mip_heuristic_effort": {"effort .05": 0.05, "effort .3": 0.3},
    "mip_pscost_minreliable": {"reliable 8": 8, "reliable 1": 1},
}
SETTINGS = {
    " ".join(labels): dict(zip(CHOICES, values, strict=True))
    for labels, values in (
        zip(*choice, strict=True)
        for choice in itertools.product(*(options.items() for options in CHOICES.values()))
    )
}
DEFAULT = next(iter(SETTINGS))
BETWEEN_READINGS = 0.03  # seconds


class Gap:
    """Integrate the gap over CPU time while the solver runs."""

    def __init__(self, limit, report=None):
        self.limit = limit
        self.report = report
        self.began = self.last = self.reported = time.process_time()
        self.gap, self.area, self.stopped = 1.0, 0.0, None

    def __call__(self, event):
        """Receive the solver's bounds; interrupt it at the limit, or if its pull is not needed."""
        now = time.process_time()
        self._add(min(now, self.began + self.limit))
        self.gap = relative_gap(event.data_out.mip_primal_bound, event.data_out.mip_dual_bound)
        if now - self.began >= self.limit:
            event.data_in.user_interrupt = True
        elif self.report is not None and now - self.reported >= BETWEEN_READINGS:
            self.reported = now
            self._report(event)

    def _add(self, now):
        self.area += self.gap * max(0.0, now - self.last)
        self.last = max(now, self.last)

    def _report(self, event):
        left = self.gap * max(0.0, self.began + self.limit - self.last)
        try:
            self.report((self.area + left / 2) / self.limit, left / 2 / self.limit)
        except ft.study.StopPull as stop:
            # The solver would swallow an exception, so keep it until the solver has stopped.
            self.stopped = stop
            event.data_in.user_interrupt = True

    def outcome(self, solved):
        """Return the mean gap; after an optimum, the gap is 0."""
        end = min(time.process_time(), self.began + self.limit)
        self._add(end if solved else self.began + self.limit)
        return self.area / self.limit


def relative_gap(primal, dual):
    if abs(primal) == float("inf") or abs(dual) == float("inf"):
        return 1.0
    return min(1.0, abs(primal - dual) / max(abs(primal), abs(dual), 1e-9))


def solve(setting, model, seed, limit, report=None):
    """Return the mean gap of one solver run, from 0 to 1."""
    import highspy

    solver = highspy.Highs()
    options = {"output_flag": False, "threads": 1, "random_seed": seed, **SETTINGS[setting]}
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.readModel(str(solver_models()[model]))
    gap = Gap(limit, report)
    for event in (solver.cbMipInterrupt, solver.cbMipImprovingSolution):
        event += gap
    solver.run()
    if gap.stopped is not None:
        raise gap.stopped
    return gap.outcome(solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)


@lru_cache
def usual(models, limit):
    """Return the default setting's mean gap by model; every outcome is compared with it."""
    return {
        model: statistics.fmean(solve(DEFAULT, model, seed, limit) for seed in range(3))
        for model in models
    }


def pull(arm, report, baseline, limit, shared):
    """Run one pull: a random model and seed, the same for all arms of a block if `shared`."""
    draw = random.Random(report.pull.tag if shared else ~report.pull.number)
    model, seed = draw.choice(sorted(baseline)), draw.randrange(10**6)
    level = baseline[model]

    def read(value, std):
        report(value - level, std=std)

    return solve(arm, model, seed, limit, None if shared else read) - level


def pilot(settings, baseline, limit):
    """Return the standard deviation of outcomes, with every setting tried once.

    It includes the differences between the settings' means.
    """
    draw = random.Random(0)
    models = [draw.choice(sorted(baseline)) for _ in settings]
    return statistics.stdev(
        solve(setting, model, draw.randrange(10**6), limit) - baseline[model]
        for setting, model in zip(settings, models, strict=True)
    )


def race(kind, settings, baseline, noise_std, limit, tolerance, seconds, folder):
    """Return a race's progress, its clock time and its processor time in seconds.

    The race ends after `seconds`.
    """
    about = {"noise_std": noise_std, "tolerance": tolerance, "direction": "minimize"}
    if kind == "paired":
        problem = ft.delayed.Problem(list(settings), **about)
        policy = PairedRacing(problem, delta=0.05)
    else:
        problem = ft.delayed.Problem(list(settings), feedback="refining", **about)
        policy = ft.delayed.InformationRacing(problem, 0.05, use_partial=kind == "readings")
    work = partial(pull, baseline=baseline, limit=limit, shared=kind == "paired")
    began, used = time.perf_counter(), cpu_of_workers()
    with (
        ft.Study.create(
            problem, policy, storage=Path(folder) / "solver.db", name=kind, durability="process"
        ) as study,
        ProcessPoolExecutor(2) as executor,
    ):
        while study.status == "running" and time.perf_counter() - began < seconds:
            run_study(study, work, executor, parallel=4, pulls=30)
        executor.shutdown()
        assert study.verify().ok
        return study.progress(), time.perf_counter() - began, cpu_of_workers() - used


def cpu_of_workers():
    """Return the total processor time of finished worker processes in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def truth(settings, baseline, limit, seeds):
    """Return every setting's mean outcome over all models, and its standard error."""
    cells = [(setting, model) for setting in settings for model in sorted(baseline)]
    with ProcessPoolExecutor(2) as executor:
        runs = [
            [executor.submit(solve, *cell, 10**6 + seed, limit) for seed in range(seeds)]
            for cell in cells
        ]
        gaps = [[run.result() for run in cell] for cell in runs]
    means = {}
    for setting in settings:
        own = [
            (statistics.fmean(values) - baseline[model], statistics.variance(values) / seeds)
            for (one, model), values in zip(cells, gaps, strict=True)
            if one == setting
        ]
        mean = statistics.fmean(value for value, _ in own)
        means[setting] = mean, sum(variance for _, variance in own) ** 0.5 / len(own)
    return means


def described(progress):
    answer = progress.recommendation
    leader = answer.leader[0] if isinstance(answer.leader, tuple) else answer.leader
    left = [one.status for one in progress.arm_states].count("undecided")
    return f"{progress.told:4} results, {left:2} settings left, {answer.status}: {leader}"


def main(settings=tuple(SETTINGS), models=None, limit=0.2, tolerance=0.02, seconds=120.0, seeds=0):
    baseline = usual(tuple(models or solver_models()), limit)
    noise_std = pilot(settings, baseline, limit)
    print(f"{len(settings)} settings, {len(baseline)} models, deviation {noise_std:.3f}")
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("readings", "full", "paired"):
            progress, took, used = race(
                kind, settings, baseline, noise_std, limit, tolerance, seconds, folder
            )
            answers[kind] = progress.recommendation
            print(
                f"{kind:<9} {took:4.0f} s, {used:4.0f} s of CPU, {described(progress)}", flush=True
            )
    if seeds:
        table = truth(settings, baseline, limit, seeds)
        print(f"mean over all models and {seeds} seeds each, minus the default's:")
        for setting, (mean, error) in sorted(table.items(), key=lambda row: row[1]):
            print(f"  {setting:<45} {mean:+.4f} +- {error:.4f}")
    return answers


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4 settings, 3 models, seconds")
    parser.add_argument("--truth", action="store_true", help="measure every setting as well")
    parser.add_argument(
        "--tolerance", type=float, default=0.02, help="difference that does not matter"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="time limit of a race")
    options = parser.parse_args()
    if options.quick:
        small = ("egout", "lseu", "gt2")
        main(tuple(SETTINGS)[::8], small, limit=0.1, seconds=10.0, seeds=2 * options.truth)
    else:
        main(tolerance=options.tolerance, seconds=options.seconds, seeds=2 * options.truth)
