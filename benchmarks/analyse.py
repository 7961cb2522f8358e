"""Analyse the messy table of a finished web experiment: processor time, memory, size of the report.

To write the table and its configuration into a folder, and try the command by hand:

    python -m benchmarks.analyse FOLDER [USERS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

CONFIGURATION = """[study]
name = "checkout"
storage = "sqlite:///checkout.db"

[problem]
family = "subpopulations"
arms = ["old", "new"]
groups = ["all"]
control = "old"
reward_range = [0, 100]

[policy]
name = "BlockBetting"
delta = 0.05

[tables]
unit = "user"
"""

OPTIONS = ("--order", "time", "--column", "arm=variant", "--outcome", "revenue")
SEGMENTS = ("--segment", "country", "--segment", "device")

_LOSS = 0.02
"""Part of the revenues of the new variant that its tracking loses."""

_CROSSING = 0.001
"""Part of the users who come again and see the other variant."""

_AGAIN = 0.05
"""Part of the users who come again and see the same variant."""


class Measured(NamedTuple):
    """What a command needed: seconds of processor time and of waiting, and megabytes."""

    cpu: float
    wall: float
    memory: float


def write_experiment(folder: Path, users: int, seed: int = 0) -> tuple[Path, Path]:
    """Write a configuration and its table: `users` users in random order, and what goes wrong.

    Numbers have decimal commas. Some users come again, some of them in the other variant; a bot
    comes 500 times; the new variant loses some revenues; and every 10,000th line is blank.
    """
    rng = np.random.default_rng(seed)
    configuration, table = folder / "checkout.toml", folder / "visits.csv"
    configuration.write_text(CONFIGURATION)
    with table.open("w", encoding="utf-8") as file:
        file.write("user;time;variant;country;device;revenue\n")
        for number, line in enumerate(_lines(rng, users)):
            file.write(";".join(line) + "\n")
            if number % 10_000 == 9_999:
                file.write(";;;;;\n")
    return configuration, table


def _lines(rng: np.random.Generator, users: int) -> Iterator[tuple[str, ...]]:
    new = rng.random(users) < 0.5
    country = rng.choice(["de", "fr", "it", "es"], users, p=[0.4, 0.3, 0.2, 0.1])
    device = rng.choice(["phone", "desktop"], users, p=[0.7, 0.3])
    bought = rng.random(users) < 0.1
    paid = np.where(bought, np.minimum(rng.gamma(2.0, 15.0, users), 99.0), 0.0)
    lost = new & (rng.random(users) < _LOSS)
    fate = rng.random(users)
    bots = set(rng.integers(users, size=500).tolist())
    for user in range(users):
        where = country[user], device[user]
        revenue = "" if lost[user] else f"{paid[user]:.2f}".replace(".", ",")
        yield f"u{user}", str(user), _variant(new[user]), *where, revenue
        if fate[user] < _CROSSING:
            yield f"u{user}", f"{user},5", _variant(not new[user]), *where, "0,00"
        elif fate[user] < _CROSSING + _AGAIN:
            yield f"u{user}", f"{user},5", _variant(new[user]), *where, "0,00"
        if user in bots:
            yield "crawler", f"{user},7", "old", "de", "desktop", "0,00"


def _variant(is_new: bool) -> str:
    return "new" if is_new else "old"


def measured(arguments: Sequence[str | Path], folder: Path) -> Measured:
    """Return what a run of the command `fairtrial` needed; undecided is a result, too."""
    start = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "fairtrial", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        cwd=folder,
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 3):
        raise SystemExit(f"fairtrial {arguments[0]} ended with code {child.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return Measured(cpu, time.perf_counter() - start, usage.ru_maxrss / 1e3)


def run(*, quick: bool) -> None:
    """Print what the analysis of a table needs, without and with segments and report."""
    users = 20_000 if quick else 950_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, table = write_experiment(folder, users)
        with table.open(encoding="utf-8") as lines:
            rows = sum(1 for _ in lines) - 1
        print(f"\nanalysis of a table of {rows:,} rows", flush=True)
        files = "checkout.toml", "visits.csv"
        for what, more in (
            ("answer", ()),
            ("answer and segments", SEGMENTS),
            ("answer, segments and report", (*SEGMENTS, "--report", "page.html")),
        ):
            found = measured(("analyse", *files, *OPTIONS, *more, "--name", what), folder)
            print(
                f"  {what:<30} {found.cpu:6.0f} s of processor time, {found.wall:6.0f} s in all, "
                f"{found.memory:6.0f} MB of memory",
                flush=True,
            )
        print(f"  the report has {(folder / 'page.html').stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    where, number = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200_000
    print(*write_experiment(where, number))
