"""A masked trial from its protocol to its final report: three doses, a placebo and two strata.

Run it with ``python examples/masked_trial.py FOLDER``: it writes its files there, and prints what
the team sees. docs/how-to/a-month.md explains each step.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fairtrial as ft

TRIAL = """[study]
name = "wounds"
storage = "sqlite:///trial.db"
participants = "W#-####"
kits = "K#####"
masked = true

[problem]
family = "subpopulations"
arms = ["A", "B", "C", "D"]
groups = { outpatient = 0.6, inpatient = 0.4 }
measures = { healed = [0, 1], toxic = [0, 1] }
objective = "healed"
control = "A"
ceilings = { toxic = 0.30 }

[policy]
name = "BlockBetting"
delta = 0.05
max_pulls = 900
planned_end = true

[protocol]
treatment = "one of three doses once a day for 28 days, or placebo"
population = "adults with a chronic wound, in two strata"
endpoint = "wound closed on day 28; severe toxicity by day 7"
summary = "difference of the proportions healed, dose minus placebo, weighted by stratum"

[protocol.intercurrent_events]
"dose stopped for toxicity" = "treatment policy: the wound is judged on day 28 all the same"

[plan]
max_pulls = 900
pulls_per_day = 3
delay_days = { healed = 28, toxic = 7 }
starts = 2027-01-04
looks = [2027-05-03]
replications = 20

[plan.means]
healed = [[0.40, 0.30], [0.45, 0.35], [0.85, 0.80], [0.65, 0.55]]
toxic = [[0.05, 0.05], [0.05, 0.05], [0.08, 0.10], [0.50, 0.55]]

[[scenario]]
name = "dropouts"
why = "8 % of the patients are expected to drop out"
loss = { rate = 0.08 }
"""
NAMES = {"A": "placebo", "B": "10 mg", "C": "20 mg", "D": "40 mg"}
HEALED = {"A": (0.40, 0.30), "B": (0.45, 0.35), "C": (0.85, 0.80), "D": (0.65, 0.55)}
TOXIC = {"A": (0.05, 0.05), "B": (0.05, 0.05), "C": (0.08, 0.10), "D": (0.50, 0.55)}
STRATA = ("outpatient", "inpatient")
PER_DAY, DROPOUTS, FORGOTTEN, EMERGENCY = 3, 0.08, 7, 20

Calendar = defaultdict[int, list[Callable[[], object]]]


def command(*words: str, folder: Path, accept: tuple[int, ...] = (0,)) -> str:
    """Run a command, print it with what it says, and return that."""
    print("$ fairtrial", *words)
    done = subprocess.run(
        [sys.executable, "-m", "fairtrial", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout + done.stderr)
    if done.returncode not in accept:
        raise SystemExit(f"fairtrial {words[0]} ended with code {done.returncode}")
    return done.stdout


def prepare(folder: Path, *, plan: bool) -> None:
    """Write the protocol's report, create the study, pack the kits, and seal the codes."""
    (folder / "trial.toml").write_text(TRIAL, encoding="utf-8")
    if plan:
        command(
            *("simulate", "trial.toml", "--scenarios", "--report", "protocol.html"),
            folder=folder,
        )
    command("study", "create", "trial.toml", folder=folder)
    words = "study", "supply", "trial.toml", "400", "--csv", "kits.csv", "--actor", "pharmacy"
    command(*words, folder=folder)
    rows = "\n".join(f"{code},{name}" for code, name in NAMES.items())
    (folder / "names.csv").write_text(f"arm,name\n{rows}\n", encoding="utf-8")
    words = "study", "mask", "trial.toml", "names.csv", "codes.list", "--actor", "pharmacy"
    command(*words, folder=folder)
    (folder / "names.csv").unlink()


class Ward:
    """Admits patients, and enters what becomes known of them on the day when it is known."""

    def __init__(self, study: ft.Study, seed: int = 1) -> None:
        self.study = study
        self.calendar: Calendar = defaultdict(list)
        self.rng = np.random.default_rng(seed)
        self.patients = 0

    def admit(self, day: int) -> None:
        """Ask for a patient, and note when results will come."""
        stratum = int(self.rng.random() < 0.4)
        number, self.patients = self.patients, self.patients + 1
        given = {"participant": f"W1-{number:04}", "group": STRATA[stratum]}
        pull = self.study.ask(**given, worker="ward 1")
        toxic = float(self.rng.random() < TOXIC[pull.arm][stratum])
        healed = float(self.rng.random() < HEALED[pull.arm][stratum])
        self._later(day + 7, pull.id, toxic=toxic)
        if self.rng.random() < DROPOUTS:
            fail = self.study.fail
            self.calendar[day + 10].append(
                lambda: fail(pull.id, "moved away, no visit on day 28", actor="ward 1")
            )
        elif number != FORGOTTEN:
            self._later(day + 28, pull.id, healed=healed)

    def _later(self, day: int, pull: str, **values: float) -> None:
        self.calendar[day].append(lambda: self.study.tell_known(pull, values, actor="ward 1"))

    def pass_day(self, day: int) -> None:
        """Enter what is due."""
        for enter in self.calendar.pop(day, []):
            enter()


def run_trial(folder: Path, days: int) -> ft.Recommendation:
    """Recruit until the study has stopped, and enter the results that are still to come."""
    storage = f"sqlite:///{folder / 'trial.db'}"
    sealed = json.loads((folder / "codes.list").read_text(encoding="utf-8"))
    with ft.Study.open(storage, "wounds") as study:
        ward, day = Ward(study), 0
        while not study.stopped and day < days:
            for _ in range(PER_DAY):
                try:
                    ward.admit(day)
                except (ft.errors.ExperimentFinished, ft.errors.NothingToAsk):
                    break
            ward.pass_day(day)
            if day == EMERGENCY:
                pull = study.pull_of("W1-0003")
                found = study.unmask(sealed, "overdose", pull=pull, actor="doctor on call")
                print(f"day {day}: W1-0003 gets {next(iter(found.values()))}")
            if day % 30 == 0:
                progress = study.progress()
                print(f"day {day}: {progress.asked} patients, {progress.told} results")
            day += 1
        print(f"day {day}: nobody is recruited any more; {study.progress().outstanding} in flight")
        for later in sorted(ward.calendar):
            ward.pass_day(later)
        return study.recommend()


def main(folder: Path, *, plan: bool = True, days: int = 400) -> ft.Recommendation:
    """Go through the trial, with its plan or without; return its answer."""
    prepare(folder, plan=plan)
    answer = run_trial(folder, days)
    command("study", "show", "trial.toml", folder=folder, accept=(0, 3))
    command("study", "verify", "trial.toml", folder=folder)
    command("study", "report", "trial.toml", "--out", "final.html", folder=folder)
    given = "--actor", "statistician", "--reason", "the trial is over"
    command("study", "unmask", "trial.toml", "codes.list", *given, folder=folder)
    return answer


if __name__ == "__main__":
    where = Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    main(where)
