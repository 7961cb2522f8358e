"""The program that tests of many servers start and kill: it serves visitors and counts them.

python -m tests.study.serving STORAGE NAME
"""

import sys
import time

from fairtrial.allocation import FairLearn, LocalAllocator, Problem
from fairtrial.study import SharedStatistics, Study

ARMS, SHARES = ["a", "b", "c"], ["9/20", "9/20", 0]


def prefer_last(t, counts, sums, allowed):
    """Prefer the last arm among those that are owed nothing."""
    return allowed[-1]


def template():
    """Return the policy with which every server decides."""
    return FairLearn(Problem(ARMS, SHARES), prefer_last)


def main(storage: str, name: str) -> None:
    with Study.open(storage, name) as study:
        local = LocalAllocator(template(), SharedStatistics(study), interval=0.05)
        served = dict.fromkeys(ARMS, 0)
        print("ready", local.name, flush=True)
        while True:
            pull = local.ask()
            served[pull.arm] += 1
            local.tell(pull, 1.0 if pull.arm == "b" else 0.0)
            print(*served.values(), flush=True)
            time.sleep(0.002)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
