"""The recorded decisions of every policy in `tests/testing/families.py`, and their files.

What a line of a log says, how it is replayed and compared: `fairtrial.qualification.decisions`.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import fairtrial
from fairtrial.core import Problem
from fairtrial.qualification.decisions import ARROW, DecisionLog, LogPlayer, write_decision_logs
from fairtrial.qualification.decisions import first_difference as first_difference_of
from fairtrial.study.specification import Specification
from tests.golden.epochs import EPOCHS
from tests.testing.families import POLICIES, Row

__all__ = ["ARROW", "FOLDER", "ROWS", "Logs", "first_difference", "player_of", "read_logs"]

FOLDER = Path(__file__).parent
ROWS = {row.name: row for row in POLICIES}

Logs = dict[str, list[list[str]]]
"""Logs by the name of a row: one for every seed, each a list of lines."""


def player_of(row: Row) -> LogPlayer:
    """Return a player of logs for a fresh policy of a row."""
    return LogPlayer(row.make()[0], next_problem_of(row))


def next_problem_of(row: Row) -> Problem | None:
    """Return the problem of a row's next epoch, if it has one."""
    return EPOCHS[row.instance]()[0] if row.instance in EPOCHS else None


def first_difference(row: Row, log: list[str]) -> str | None:
    """Make the calls of a log; return the first decision that differs, if any."""
    return first_difference_of(player_of(row), log, row.name)


# ------------------------------------------------------------------------------ files


def read_logs() -> Logs:
    """Return all recorded logs."""
    logs: Logs = {}
    for path in sorted(FOLDER.glob("*.json.xz")):
        logs.update(json.loads(lzma.decompress(path.read_bytes())))
    return logs


def write_logs(logs: Logs) -> None:
    """Write all logs, one file per family, and those that the package brings along."""
    families = {name.split("-")[0] for name in logs}
    for family in families:
        own = {name: logs[name] for name in sorted(logs) if name.split("-")[0] == family}
        data = json.dumps(own, indent=0).encode()
        (FOLDER / f"{family}.json.xz").write_bytes(lzma.compress(data, preset=9))
    write_decision_logs(Path(fairtrial.__file__).parent / "qualification", shipped(logs))


def shipped(logs: Logs) -> list[DecisionLog]:
    """Return the logs that the package brings along, so that an installation can be checked.

    For each policy the first one; of block betting, on which most guarantees rest, with its
    default arguments on every problem.
    """
    first: dict[type, Row] = {}
    for row in POLICIES:
        first.setdefault(row.policy, row)
    chosen = [
        row
        for row in POLICIES
        if row is first[row.policy] or (row.policy.__name__ == "BlockBetting" and not row.options)
    ]
    return [_with_specification(row, logs[row.name][0]) for row in chosen]


def _with_specification(row: Row, lines: list[str]) -> DecisionLog:
    policy, _ = row.make()
    written = json.loads(Specification.of(policy.problem, policy, policy.seed).to_json())
    following = next_problem_of(row)
    return DecisionLog(
        row.name,
        {part: written[part] for part in ("problem", "policy", "seed")},
        None if following is None else json.loads(json.dumps(following.to_dict())),
        tuple(lines),
    )
