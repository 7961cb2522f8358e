"""A month of an experimentation team: a messy table, then a live test through the service.

Run it with ``python examples/experimentation_team.py FOLDER``: it writes its files there, and
prints what the team sees. It needs the extras `server` and `client`. docs/how-to/a-month.md
explains each step.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np

QUESTION = """[study]
name = "{name}"
storage = "sqlite:///tests.db"

[problem]
family = "subpopulations"
arms = ["old", "new"]
groups = {groups}
control = "old"
floors = -inf
reward_range = {range}

[policy]
name = "BlockBetting"
delta = 0.05

[tables]
unit = "user"
"""
GROUPS = {"phone": 0.7, "desktop": 0.3}
CONVERSION = {
    "old": {"phone": 0.20, "desktop": 0.30},
    "new": {"phone": 0.45, "desktop": 0.50},
}
LATE = 60
"""Visitors who come between a visit and its conversion, on average."""


# ------------------------------------------------------------- the table of a finished test


def write_visits(path: Path, users: int, seed: int = 0, *, tidy_times: bool) -> None:
    """Write the table of a test with what goes wrong in practice.

    Users come again, some of them in the other variant; a bot comes 500 times; three users spend
    far more than all others; tracking loses 4 % of the revenues of the new variant; and two systems
    wrote the times in two formats, unless somebody has tidied them.
    """
    rng = np.random.default_rng(seed)
    start = datetime(2026, 11, 2, tzinfo=UTC)
    with path.open("w", encoding="utf-8") as file:
        file.write("user,time,variant,country,revenue\n")
        for user in range(users):
            variant = "new" if rng.random() < 0.5 else "old"
            country = rng.choice(["de", "fr", "it"])
            revenue = min(rng.gamma(2.0, 9.0), 99.0) if rng.random() < 0.1 else 0.0
            if user in (users // 3, users // 2, 2 * users // 3):
                revenue = 900.0
            paid = "" if variant == "new" and rng.random() < 0.04 else f"{revenue:.2f}"
            at = start + timedelta(seconds=user)
            written = at.isoformat() if tidy_times or user % 2 else f"{at:%d/%m/%Y %H:%M:%S}"
            file.write(f"u{user},{written},{variant},{country},{paid}\n")
            luck = rng.random()
            again = (at + timedelta(seconds=0.5)).isoformat()
            if luck < 0.001:
                other = "old" if variant == "new" else "new"
                file.write(f"u{user},{again},{other},{country},0.00\n")
            elif luck < 0.05:
                file.write(f"u{user},{again},{variant},{country},0.00\n")
            if user % (users // 500 or 1) == 0:
                file.write(f"crawler,{again},old,de,0.00\n")


def analyse_table(folder: Path, users: int) -> str:
    """Analyse the table as it is, and again with times in one format; return what is said."""
    text = QUESTION.format(name="spring", groups='["all"]', range="[0, 1000]")
    (folder / "spring.toml").write_text(text, encoding="utf-8")
    options = "--order", "time", "--column", "arm=variant", "--outcome", "revenue"
    write_visits(folder / "visits.csv", users, tidy_times=False)
    command("analyse", "spring.toml", "visits.csv", *options, folder=folder, accept=(2,))
    write_visits(folder / "visits.csv", users, tidy_times=True)
    options += "--segment", "country", "--report", "spring.html"
    return command("analyse", "spring.toml", "visits.csv", *options, folder=folder, accept=(0, 3))


# ------------------------------------------------------------------------- the live test


class Service:
    """A service in a process of its own, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = "0"
        self.start()

    def start(self) -> None:
        """Start it; the second time at the same address."""
        words = "serve", "--storage", "sqlite:///tests.db", "--port", self.port
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairtrial", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1].rstrip("/")
        self.port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        """End it as a power failure would."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        self.process.wait()


def posted(client: httpx.Client, path: str, body: dict[str, Any]) -> httpx.Response:
    """Send a request until the service answers: it may be starting again."""
    while True:
        with contextlib.suppress(httpx.TransportError):
            return client.post(path, json=body)
        time.sleep(0.1)


def visitors(seed: int = 1) -> Iterator[tuple[str, str, np.random.Generator]]:
    """Yield visitors with their device; one in five has been here before."""
    rng = np.random.default_rng(seed)
    for number in itertools.count():
        yield f"visitor-{number}", str(rng.choice(list(GROUPS), p=list(GROUPS.values()))), rng


def run_test(folder: Path, most: int) -> dict[str, Any]:
    """Run the live test until the service says that it has stopped; return what happened."""
    groups = "{ phone = 0.7, desktop = 0.3 }"
    text = QUESTION.format(name="live", groups=groups, range="[0, 1]")
    (folder / "live.toml").write_text(text, encoding="utf-8")
    command("study", "create", "live.toml", folder=folder)
    given = "--storage", "sqlite:///tests.db", "--scope", "run", "--scope", "read"
    command(
        "token", "create", "--name", "shop", *given, "--token-file", "shop.token", folder=folder
    )
    token = (folder / "shop.token").read_text(encoding="utf-8").strip()
    service = Service(folder)
    try:
        with httpx.Client(base_url=service.url, timeout=30) as client:
            client.headers["Authorization"] = f"Bearer {token}"
            found = _visits(client, service, most)
            found["answer"] = client.get("/v1/studies/live/recommendation").json()
            found["verified"] = client.get("/v1/studies/live/verify").json()
    finally:
        service.stop()
    return found


def _visits(client: httpx.Client, service: Service, most: int) -> dict[str, Any]:
    study = "/v1/studies/live"
    waiting: list[tuple[int, str, float]] = []
    sold: list[str] = []
    arms: dict[str, str] = {}
    same_again = killed = 0
    for place, (visitor, device, rng) in enumerate(visitors()):
        if place >= most:
            break
        answer = posted(client, f"{study}/asks", {"unit": visitor, "context": {"group": device}})
        pulls = answer.json().get("pulls", [])
        if not pulls:
            break
        (pull,) = pulls
        arms[visitor] = pull["labels"]["arm"]
        bought = float(rng.random() < CONVERSION[arms[visitor]][device])
        heapq.heappush(waiting, (place + int(rng.exponential(LATE)), pull["id"], bought))
        if rng.random() < 0.2:
            earlier = f"visitor-{rng.integers(place + 1)}"
            again = posted(client, f"{study}/asks", {"unit": earlier})
            same_again += again.json()["pulls"][0]["labels"]["arm"] == arms[earlier]
        if place == 100:
            service.kill()
            service.start()
            killed += 1
        while waiting and waiting[0][0] <= place:
            _, identity, value = heapq.heappop(waiting)
            posted(client, f"{study}/pulls/{identity}/tell", {"value": value}).raise_for_status()
            sold += [identity] * int(value)
    for _, identity, value in waiting:
        # Conversions of visitors who came before the end are still told.
        posted(client, f"{study}/pulls/{identity}/tell", {"value": value}).raise_for_status()
    body = {"value": 0.0, "reason": "the order was cancelled"}
    corrected = posted(client, f"{study}/pulls/{sold[0]}/amend", body)
    return {
        "visitors": len(arms),
        "same_again": same_again,
        "killed": killed,
        "corrected": corrected.is_success,
    }


# -------------------------------------------------------------------------------- both


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
    said = done.stdout + re.sub(r"^Analysing units:.*\n", "", done.stderr, flags=re.MULTILINE)
    print(said)
    if done.returncode not in accept:
        raise SystemExit(f"fairtrial {words[0]} ended with code {done.returncode}")
    return said


def main(folder: Path, users: int = 200_000, most: int = 3_000) -> dict[str, Any]:
    """Go through the month; return what happened in the live test."""
    analyse_table(folder, users)
    found = run_test(folder, most)
    print(found)
    given = "--storage", "sqlite:///tests.db"
    command("study", "show", "live", *given, folder=folder, accept=(0, 3))
    command("study", "report", "live", *given, "--out", "live.html", folder=folder)
    return found


if __name__ == "__main__":
    where = Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    main(where, *map(int, sys.argv[2:3]))
