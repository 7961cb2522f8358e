"""Run many simulations: ``python -m tests.simulator FIRST LAST``; print each failure."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulator.simulation import Failed, run

_EVERY = 100


def main() -> int:
    """Run the simulations; return 1 if any of them found an error."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    given = parser.parse_args()
    begin, calls, events, failures = time.monotonic(), 0, 0, 0
    for seed in range(given.first, given.last + 1):
        try:
            simulation = run(seed)
        except Failed as failure:
            failures += 1
            print(failure, flush=True)
        else:
            calls += sum(len(trial.ledger.calls) for trial in simulation.trials)
            events += simulation.events
        if (seed + 1) % _EVERY == 0 or seed == given.last:
            seconds = time.monotonic() - begin
            done = f"{seed - given.first + 1:,} simulations, {calls:,} calls, {events:,} events"
            print(f"{done}, {failures} failures in {seconds:,.0f} s", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
