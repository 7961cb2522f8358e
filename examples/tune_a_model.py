"""Tune a model in parallel processes; one of them is killed, and the study continues.

Twelve settings of a support vector machine are raced over random splits of handwritten digits.
Every result is in a log on disk before it counts. If a worker dies, its pull is lost and
run again. If you stop the program and run it again, it continues the study.

    python examples/tune_a_model.py [folder]
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path

import fairtrial as ft
from fairtrial.delayed import PairedRacing
from fairtrial.study import run_study

SETTINGS = {
    f"C={C:g} gamma={gamma:g}": {"C": C, "gamma": gamma}
    for C, gamma in itertools.product([0.1, 1.0, 10.0], [1e-4, 3e-4, 1e-3, 3e-3])
}


@lru_cache
def digits():
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def accuracy(arm, report):
    """Run one pull: fit one setting, and score it on the split of its block."""
    from sklearn.model_selection import train_test_split
    from sklearn.svm import SVC

    train, test, target, truth = train_test_split(
        *digits(), train_size=500, stratify=digits()[1], random_state=report.pull.tag
    )
    return SVC(**SETTINGS[arm]).fit(train, target).score(test, truth)


class Killer:
    """Kill one worker without warning, once `after` results have arrived."""

    def __init__(self, after):
        self.after = after
        self.killed = None

    def __call__(self, study):
        """Check the number of results after each result."""
        if self.killed is None and study.policy.told >= self.after:
            self.killed = multiprocessing.active_children()[0].pid
            os.kill(self.killed, signal.SIGKILL)


def main(folder, settings=SETTINGS, processes=2, tolerance=0.002, kill_after=40):
    problem = ft.delayed.Problem(list(settings), noise_std="estimated", tolerance=tolerance)
    study = ft.Study.create(
        problem,
        PairedRacing(problem, delta=0.05, max_pulls=100 * len(settings)),
        storage=Path(folder) / "tuning.db",
        name="digits",
        exist_ok=True,
    )
    killer = Killer(kill_after)
    with study:
        if study.status == "running":
            run_study(
                study,
                accuracy,
                lambda: ProcessPoolExecutor(processes),
                parallel=2 * processes,
                watch=killer,
            )
        answer = study.recommend()
        health = study.health()
        print(f"{answer.status}: {answer.leader} after {answer.evidence['pulls']} fits")
        print(f"guarantee: {answer.guarantee.label} ({answer.guarantee.name})")
        if killer.killed is not None:
            print(f"killed process {killer.killed}")
        print(f"pulls lost: {health['lost']}")
        for estimate in study.progress().arms:
            print(f"  {estimate.labels['arm']:<20} {estimate.mean:.4f} {estimate.pulls:>5} fits")
        print(study.verify())
    return answer


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
