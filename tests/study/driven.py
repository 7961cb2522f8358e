"""The program that tests of drivers start, interrupt and kill.

python -m tests.study.driven PATH THREADS
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from fairtrial.study import Study, run_study
from tests.study.toys import OWN
from tests.study.work import measure


def slowly(arm, report):
    time.sleep(0.05)
    outcome = measure(arm, report)
    print("measured", report.pull.number, flush=True)
    return outcome


def main(path, threads):
    with Study.open(path, "toy", durability="process", **OWN) as study:
        print("ready", flush=True)
        with ThreadPoolExecutor(threads) as pool:
            run_study(study, slowly, pool, parallel=threads)
        assert study.verify().ok
        print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
