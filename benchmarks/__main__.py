"""Run all benchmarks, or the named ones.

./dev bench [--quick] [NAME ...]
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    alarms_under_delay,
    allocation,
    analyse,
    beside,
    calibration,
    causal,
    compilation,
    control,
    delayed,
    designs,
    drift,
    effects,
    fair_interventions,
    false_alarms,
    gaps,
    group_commit,
    hostile_service,
    intervals,
    labels,
    late_defaults,
    learners,
    linear,
    linear_limits,
    live,
    losses,
    measured_control,
    measures,
    noise,
    open_pulls,
    orders,
    pages,
    planned_end,
    predictions,
    proofs,
    races,
    ranges,
    replications,
    rounds,
    runs,
    search,
    service,
    shares,
    shown,
    simulations,
    start,
    stores,
    tails,
    tolerance,
    top_sets,
    widths,
)


def _study(*, quick: bool) -> None:
    print("\nstudies on disk", flush=True)
    script = Path(__file__).with_name("study_throughput.py")
    sizes = ["--pairs", "300", "--events", "50000"] if quick else []
    subprocess.run([sys.executable, script, *sizes], check=True)


BENCHMARKS: dict[str, Callable[..., None]] = {
    "start": start.run,
    "live": live.run,
    "rounds": rounds.run,
    "runs": runs.run,
    "replications": replications.run,
    "simulations": simulations.run,
    "allocation": allocation.run,
    "beside": beside.run,
    "shown": shown.run,
    "causal": causal.run,
    "gaps": gaps.run,
    "fair_interventions": fair_interventions.run,
    "intervals": intervals.run,
    "delayed": delayed.run,
    "designs": designs.run,
    "effects": effects.run,
    "widths": widths.run,
    "top_sets": top_sets.run,
    "labels": labels.run,
    "late_defaults": late_defaults.run,
    "linear": linear.run,
    "linear_limits": linear_limits.run,
    "search": search.run,
    "calibration": calibration.run,
    "proofs": proofs.run,
    "learners": learners.run,
    "shares": shares.run,
    "noise": noise.run,
    "races": races.run,
    "ranges": ranges.run,
    "tails": tails.run,
    "losses": losses.run,
    "open pulls": open_pulls.run,
    "orders": orders.run,
    "analyse": analyse.run,
    "pages": pages.run,
    "planned end": planned_end.run,
    "predictions": predictions.run,
    "tolerance": tolerance.run,
    "control": control.run,
    "measures": measures.run,
    "measured control": measured_control.run,
    "drift": drift.run,
    "alarms under delay": alarms_under_delay.run,
    "false_alarms": false_alarms.run,
    "study": _study,
    "stores": stores.run,
    "group commit": group_commit.run,
    "service": service.run,
    "hostile service": hostile_service.run,
    "compilation": compilation.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repetitions, the main cases")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    options = parser.parse_args()
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"NAME must be one of {', '.join(BENCHMARKS)}; got {name!r}")
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}")
    for name in options.names or BENCHMARKS:
        BENCHMARKS[name](quick=options.quick)


if __name__ == "__main__":
    main()
