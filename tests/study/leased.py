"""The program of a worker that only renews leases: it prints what was acknowledged.

python -m tests.study.leased STORAGE LEASE
"""

import itertools
import sys
import time

from fairtrial.errors import AlreadyTold
from fairtrial.study import Study
from tests.study.toys import OWN


def main(storage: str, lease: float) -> None:
    study = Study.open(storage, "toy", **OWN)
    print("ready", flush=True)
    for turn in itertools.count(1):
        if turn % 3 == 0:
            # Some leases run out before they are renewed.
            time.sleep(2 * lease)
        for pull in study.outstanding():
            time.sleep(lease / 10)
            try:
                extended = study.extend(pull, lease)
            except AlreadyTold:
                print("refused", pull.id, flush=True)
            else:
                print("extended", pull.id, round(extended.until.timestamp() * 1e6), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
