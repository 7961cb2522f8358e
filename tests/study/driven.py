"""The program that tests of drivers start, interrupt and kill.

python -m tests.study.driven PATH THREADS
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from fairtrial.study import Study, run_study
from tests.study.toys import OWN
from tests.study.work import measure


def say(line):
    """Write a line in one piece: threads that print at once would share a line."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def slowly(arm, report):
    time.sleep(0.05)
    outcome = measure(arm, report)
    say(f"measured {report.pull.number}")
    return outcome


def main(path, threads):
    with Study.open(path, "toy", durability="process", **OWN) as study:
        say("ready")
        with ThreadPoolExecutor(threads) as pool:
            run_study(study, slowly, pool, parallel=threads)
        assert study.verify().ok
        say("done")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
