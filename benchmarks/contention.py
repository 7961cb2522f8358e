"""Waiting time of writers: `ask` and `tell` by many processes on one study.

    python benchmarks/contention.py [--processes N] [--seconds S] [--folder PATH]

Prints the median and the 99th percentile of the duration of an `ask`, and their ratio, which is
below 10 if the lock is fair.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from study_throughput import OWN, create

from fairtrial.study import Study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, default=None, help="where to write (a temporary)")
    parser.add_argument("--worker", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.seconds)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "shared.db"
        create(path, "process").close()
        command = [sys.executable, __file__, "--worker", str(path), "--seconds"]
        workers = [
            subprocess.Popen([*command, str(options.seconds)], stdout=subprocess.PIPE, text=True)
            for _ in range(options.processes)
        ]
        waits = np.concatenate([json.loads(worker.communicate()[0]) for worker in workers])
    median, tail = np.percentile(waits, [50, 99]) * 1e3
    print(
        f"{options.processes} processes, {len(waits):,} asks: median {median:.1f} ms, 99 % "
        f"{tail:.1f} ms, at most {waits.max() * 1e3:,.0f} ms; ratio {tail / median:.1f}"
    )


def work(path: Path, seconds: float) -> None:
    waits = []
    with Study.open(path, "benchmark", durability="process", **OWN) as study:
        study.ask()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.perf_counter()
            pull = study.ask()
            waits.append(time.perf_counter() - start)
            study.tell(pull, 0.5)
    print(json.dumps(waits))


if __name__ == "__main__":
    main()
