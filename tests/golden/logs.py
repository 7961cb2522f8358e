"""Decision logs: calls to a policy, line by line, each with what the policy decided.

A line is a call as JSON, an arrow, and the decision in words::

    ["ask",3] -> 0 2 1
    ["tell",4,0.35] -> called back: 2 5
    ["fail",6,"lost"] -> stopped

`LogPlayer` makes the calls. The outcomes are in the log, so that neither an environment nor a
source of random numbers affects it.
"""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from fairtrial.core import UNSOLICITED, Estimate, Progress, Pull
from fairtrial.delayed import PairedRacing
from fairtrial.errors import FairtrialError
from tests.golden.epochs import EPOCHS
from tests.testing.families import POLICIES, Row

FOLDER = Path(__file__).parent
ROWS = {row.name: row for row in POLICIES}

ARROW = " -> "
_NOTHING = "-"
_DIGITS = 6
_RELATIVE, _ABSOLUTE = 1e-5, 1e-6
_SHOWN_BEFORE = 5

Logs = dict[str, list[list[str]]]
"""Logs by the name of a row: one for every seed, each a list of lines."""


class LogPlayer:
    """Makes calls on a policy one after the other, and returns what the policy decides.

    Attributes
    ----------
    policy : Policy
        The current policy: a restored one after ``["restore"]``, the next one after
        ``["epoch"]``.
    pulls : dict of int to Pull
        Every pull that was issued, by number.
    """

    def __init__(self, row: Row) -> None:
        self.policy, _ = row.make()
        self.pulls: dict[int, Pull] = {}
        self._next_epoch = EPOCHS.get(row.instance)
        self._called_back: list[int] = []
        self._stopped = self.policy.stopped

    def make(self, name: str, *arguments: Any) -> str:
        """Make one call, and return the decision, or the name of the error if it was refused."""
        try:
            decisions = [getattr(self, f"_{name}")(*arguments)]
        except FairtrialError as error:
            decisions = [f"refused: {type(error).__name__}"]
        return "; ".join(filter(None, [*decisions, *self._consequences()]))

    def _consequences(self) -> Iterable[str]:
        """Yield further changes: pulls that are called back, and whether the policy has stopped."""
        called_back = [pull.number for pull in self.policy.to_cancel()]
        if called_back != self._called_back:
            self._called_back = called_back
            yield f"called back: {' '.join(map(str, called_back)) or 'none'}"
        if self.policy.stopped != self._stopped:
            self._stopped = self.policy.stopped
            yield "stopped" if self._stopped else "goes on"

    @property
    def called_back(self) -> list[int]:
        """The pulls in flight that are no longer needed, by number."""
        return self._called_back

    # --------------------------------------------------------------------- the calls

    def _ask(self, number: int | None = None, context: dict[str, Any] | None = None) -> str:
        given = context or {}
        issued = [self.policy.ask(**given)] if number is None else self.policy.ask(number, **given)
        self.pulls.update((pull.number, pull) for pull in issued)
        return " ".join(map(self._chosen, issued)) or "none"

    def _chosen(self, pull: Pull) -> str:
        # In a paired race the tag is the block, a part of the decision; otherwise it is private.
        is_paired = isinstance(self.policy, PairedRacing)
        return f"{pull.action}:{pull.tag}" if is_paired else str(pull.action)

    def _tell(self, number: int, outcome: Any) -> None:
        self.policy.tell(self.pulls[number], outcome)

    def _data(self, action: int, outcome: Any) -> None:
        self.policy.tell(self._unsolicited(action), outcome)

    def _unsolicited(self, action: int) -> Pull:
        return Pull(UNSOLICITED, action, self.policy.problem.labels(action))

    def _report(self, number: int, value: float, details: dict[str, float]) -> None:
        self.policy.report(self.pulls[number], value, **details)

    def _fail(self, number: int, reason: str) -> None:
        self.policy.fail(self.pulls[number], reason)

    def _amend(self, number: int, old: Any, new: Any) -> None:
        self.policy.amend(self.pulls[number], old, new)

    def _amend_data(self, action: int, old: Any, new: Any) -> None:
        self.policy.amend(self._unsolicited(action), old, new)

    def _time(self, now: float) -> None:
        self.policy.pass_time(now)

    def _restore(self) -> None:
        fresh = self.policy.clone()
        fresh.set_state(self.policy.get_state())
        self.policy = fresh

    def _epoch(self) -> None:
        assert self._next_epoch is not None
        problem, _ = self._next_epoch()
        self.policy = self.policy.next_epoch(problem)

    def _progress(self) -> str:
        return " ".join(map(_written, _numbers(self.policy.progress())))

    def _answer(self) -> str:
        found = self.policy.recommend()
        answer = [found.status, found.arm, found.leader, found.candidates]
        label = None if found.guarantee is None else found.guarantee.label
        said = len(self.policy.warnings()) + len(self.policy.remarks())
        return json.dumps([*answer, label, said])


def _numbers(progress: Progress) -> Iterable[float | None]:
    """Yield the policy's numbers: its evidence and its estimates."""
    yield from (progress.told, progress.outstanding, progress.evidence, progress.threshold)
    yield progress.remaining
    yield from _estimates(progress.actions)
    yield from _estimates(progress.arms)


def _estimates(estimates: Iterable[Estimate]) -> Iterable[float | None]:
    for estimate in estimates:
        yield from (estimate.pulls, estimate.mean, estimate.lower, estimate.upper)


def _written(number: float | None) -> str:
    return _NOTHING if number is None else f"{number:.{_DIGITS}g}"


# ------------------------------------------------------------------------- comparison


def line_of(call: Iterable[Any], decision: str) -> str:
    """Return a call and its decision as a line of a log."""
    return json.dumps(list(call), separators=(",", ":")) + ARROW + decision


def first_difference(row: Row, log: list[str]) -> str | None:
    """Make the calls of a log; return the first decision that differs, if any."""
    player = LogPlayer(row)
    for number, line in enumerate(log):
        call, recorded = line.split(ARROW)
        made = json.loads(call)
        found = player.make(*made)
        if not _agree(made[0], recorded, found):
            before = "\n".join(log[max(0, number - _SHOWN_BEFORE) : number])
            return (
                f"decision {number} of {row.name} differs\n{before}\n{call}\n"
                f"  recorded: {recorded}\n  found:    {found}"
            )
    return None


def _agree(name: str, recorded: str, found: str) -> bool:
    if name != "progress" or "refused" in recorded + found:
        return recorded == found
    pairs = zip_longest(recorded.split(), found.split(), fillvalue="")
    return all(_close(*pair) for pair in pairs)


def _close(recorded: str, found: str) -> bool:
    """Return whether two numbers differ by no more than processors may."""
    if _NOTHING in (recorded, found) or "" in (recorded, found):
        return recorded == found
    return math.isclose(float(recorded), float(found), rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


# ------------------------------------------------------------------------------ files


def read_logs() -> Logs:
    """Return all recorded logs."""
    logs: Logs = {}
    for path in sorted(FOLDER.glob("*.json.xz")):
        logs.update(json.loads(lzma.decompress(path.read_bytes())))
    return logs


def write_logs(logs: Logs) -> None:
    """Write all logs, one file per family."""
    families = {name.split("-")[0] for name in logs}
    for family in families:
        own = {name: logs[name] for name in sorted(logs) if name.split("-")[0] == family}
        data = json.dumps(own, indent=0).encode()
        (FOLDER / f"{family}.json.xz").write_bytes(lzma.compress(data, preset=9))
