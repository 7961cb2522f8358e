"""The program that tests of drivers start, interrupt and kill.

python -m tests.study.driven PATH THREADS FREELY

It measures that many pulls without waiting; for more it waits for a file `go` beside the study.
"""

import itertools
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fairtrial.study import Study, postgresql, run_study
from tests.study.toys import OWN
from tests.study.work import measure


def say(line):
    """Write a line at once: threads that print at the same time would mix their lines."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


class Slowly:
    def __init__(self, freely, go):
        self.freely = freely
        self.go = go
        self.begun = itertools.count()

    def __call__(self, arm, report):
        if next(self.begun) >= self.freely:
            while not (self.go.exists() or report.should_stop()):
                time.sleep(0.01)
        time.sleep(0.05)
        outcome = measure(arm, report)
        say(f"measured {report.pull.number}")
        return outcome


def main(path, threads, freely):
    if path.startswith("postgresql:"):
        # The tests' server has only just started, so nobody needs to reconnect.
        postgresql.SETTLING_SECONDS = 0
    with Study.open(path, "toy", durability="process", **OWN) as study:
        say("ready")
        with ThreadPoolExecutor(threads) as pool:
            run_study(study, Slowly(freely, Path(path).with_name("go")), pool, parallel=threads)
        assert study.verify().ok
        say("done")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
