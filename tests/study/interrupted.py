"""One Ctrl-C at a random moment of a process's first ask, in many processes.

python -m tests.study.interrupted --trials 1000        kernels are loaded from disk
python -m tests.study.interrupted --trials 5 --cold    kernels are compiled, in a new folder

Every trial is a fork that has imported everything and loaded no kernel. It opens the study, asks,
and is interrupted within the first `window` seconds. It fails if the process crashes, hangs, raises
anything but KeyboardInterrupt, finds the file locked while it handles that, cannot continue, or if
an acknowledged event is missing in the log.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path

WARM_SECONDS, COLD_SECONDS = 0.15, 60.0
HANGS_SECONDS = 300.0


def make_study(path: Path) -> None:
    from fairtrial.study import Study
    from fairtrial.subpopulations import BlockBetting, Problem

    problem = Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
    Study.create(problem, BlockBetting(problem), storage=path, name="s", seed=1).close()


def go_on(path: Path, ready: int, said: int) -> None:
    """Ask and tell, continue after an interruption, and print what was acknowledged."""
    from fairtrial.study import Study

    found = {"interrupted": False, "locked": False, "told": []}
    study = Study.open(path, "s")
    is_ready = False
    while len(found["told"]) < 3:
        try:
            if not is_ready:
                is_ready = True
                os.write(ready, b"!")
            while len(found["told"]) < 3:
                event = study.tell(study.ask(), 0.5)
                found["told"].append(event.hash)
            # From here on the audit runs, and there will be only one interruption.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:
            found["interrupted"] = True
            found["locked"] |= is_locked(path)
    found["ok"] = study.verify().ok
    study.close()
    os.write(said, json.dumps(found).encode())


def is_locked(path: Path) -> bool:
    other = sqlite3.connect(path, timeout=0.5, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return True
    finally:
        other.close()
    return False


def trial(path: Path, delay: float) -> str:
    """Return how one process ended: "interrupted", "too late", or what went wrong."""
    ready, is_ready = os.pipe()
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            go_on(path, is_ready, said)
            status = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the parent says it
            os.write(said, traceback.format_exc()[-500:].encode())
        finally:
            os._exit(status)
    for end in (is_ready, said):
        os.close(end)
    os.read(ready, 1)
    time.sleep(delay)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGINT)
    status = wait(child)
    text = os.read(heard, 100_000).decode()
    for end in (ready, heard):
        os.close(end)
    if status is None:
        return "hangs"
    if status != 0:
        return f"crashes ({status}): {text}" if status < 0 or not text else text
    return judged(path, json.loads(text))


def wait(child: int) -> int | None:
    deadline = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def judged(path: Path, found: dict) -> str:
    with sqlite3.connect(path) as connection:
        hashes = {row[0] for row in connection.execute("SELECT hash FROM event")}
    connection.close()
    if found["locked"]:
        return "the file is locked"
    if not found["ok"]:
        return "the log does not verify"
    if not set(found["told"]) <= hashes:
        return "an acknowledged event is lost"
    return "interrupted" if found["interrupted"] else "too late"


def trials(number: int, window: float, seed: int) -> Counter[str]:
    """Return how often each ending occurred."""
    chance, ended = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory() as folder:
        for index in range(number):
            path = Path(folder) / f"{index}.db"
            make_study(path)
            ended[trial(path, chance.uniform(0, window))] += 1
    return ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.cold:
            os.environ["NUMBA_CACHE_DIR"] = folder
        window = COLD_SECONDS if given.cold else WARM_SECONDS
        ended = trials(given.trials, window, given.seed)
    for how, count in ended.most_common():
        sys.stdout.write(f"{count:6} {how}\n")


if __name__ == "__main__":
    main()
