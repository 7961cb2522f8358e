"""Recorded decisions: calls to a policy, line by line, each with what the policy decided.

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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import Any

from fairtrial.core import UNSOLICITED, Estimate, Policy, Problem, Progress, Pull
from fairtrial.core.compilation import Tier, kernels, tier, use_tier
from fairtrial.core.specification import problem_from_dict
from fairtrial.errors import FairtrialError
from fairtrial.qualification.checks import Check, CheckFailed, CheckSkipped, carried_out
from fairtrial.study.specification import Specification

__all__ = ["ARROW", "DecisionLog", "LogPlayer", "decision_checks", "first_difference", "line_of"]

ARROW = " -> "
_NOTHING = "-"
_DIGITS = 6
_RELATIVE, _ABSOLUTE = 1e-5, 1e-6
_SHOWN_BEFORE = 5


class LogPlayer:
    """Makes calls on a policy one after the other, and returns what the policy decides.

    Parameters
    ----------
    policy : Policy
        A fresh policy.
    next_problem : Problem, optional
        The problem of its next epoch.

    Attributes
    ----------
    policy : Policy
        The current policy: a restored one after ``["restore"]``, the next one after
        ``["epoch"]``.
    pulls : dict of int to Pull
        Every pull that was issued, by number.
    """

    def __init__(self, policy: Policy, next_problem: Problem | None = None) -> None:
        self.policy: Any = policy
        self.pulls: dict[int, Pull] = {}
        self._next_problem = next_problem
        # In a paired race the tag is the block, a part of the decision; otherwise it is private.
        self._shows_tags = type(policy).__name__ == "PairedRacing"
        self._called_back: list[int] = []
        self._stopped = policy.stopped

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
        return f"{pull.action}:{pull.tag}" if self._shows_tags else str(pull.action)

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
        self.policy = self.policy.next_epoch(self._next_problem)

    def _progress(self) -> str:
        return " ".join(map(_written, _numbers(self.policy.progress())))

    def _answer(self) -> str:
        found = self.policy.recommend()
        answer = [found.status, found.arm, found.leader, found.candidates]
        label = None if found.guarantee is None else found.guarantee.label
        remarks = len(self.policy.remarks()) + len(self.policy.remarks_on_arms())
        said = len(self.policy.warnings()) + remarks
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


def first_difference(player: LogPlayer, lines: Sequence[str], name: str) -> str | None:
    """Make the calls of a log; return the first decision that differs, if any.

    Parameters
    ----------
    player : LogPlayer
        A fresh player.
    lines : sequence of str
        The log.
    name : str
        Its name, for the message.
    """
    for number, line in enumerate(lines):
        call, recorded = line.split(ARROW)
        made = json.loads(call)
        found = player.make(*made)
        if not _agree(made[0], recorded, found):
            before = "\n".join(lines[max(0, number - _SHOWN_BEFORE) : number])
            return (
                f"decision {number} of {name} differs\n{before}\n{call}\n"
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


# ----------------------------------------------------------- the logs of the package


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """A recorded log that the package brings along, with everything that its replay needs.

    Parameters
    ----------
    name : str
        Family, problem, policy and arguments.
    specification : mapping
        ``problem``, ``policy`` and ``seed`` of a `Specification`.
    next_problem : mapping or None
        The problem of the next epoch, if the log has one.
    lines : tuple of str
        Calls and decisions.
    """

    name: str
    specification: Mapping[str, Any]
    next_problem: Mapping[str, Any] | None
    lines: tuple[str, ...]

    @property
    def family(self) -> str:
        """The family of the policy."""
        return str(self.specification["problem"]["family"])

    def difference(self) -> str | None:
        """Replay the log; return the first decision that differs, if any."""
        policy = Specification(**self.specification).build(self.name)
        following = None if self.next_problem is None else problem_from_dict(self.next_problem)
        return first_difference(LogPlayer(policy, following), self.lines, self.name)


_FILE = "decisions.json.xz"


def read_decision_logs() -> list[DecisionLog]:
    """Return the logs of the package: at least one for every policy."""
    data = files("fairtrial.qualification").joinpath(_FILE).read_bytes()
    logs = json.loads(lzma.decompress(data))
    return [DecisionLog(**{**log, "lines": tuple(log["lines"])}) for log in logs]


def write_decision_logs(path: Path, logs: Sequence[DecisionLog]) -> None:
    """Write the logs that the package brings along into a folder."""
    documents = [
        {
            "name": log.name,
            "specification": log.specification,
            "next_problem": log.next_problem,
            "lines": log.lines,
        }
        for log in logs
    ]
    data = json.dumps(documents, separators=(",", ":")).encode()
    (path / _FILE).write_bytes(lzma.compress(data, preset=9))


# -------------------------------------------------------------------------- the checks


def decision_checks(*, compile_all: bool) -> Iterator[Check]:
    """Replay all logs of the package, interpreted and compiled; yield a check for each family.

    Parameters
    ----------
    compile_all : bool
        Whether to compile kernels whose machine code is missing. Otherwise the second replay uses
        the machine code that is on disk, as studies do, and is skipped if there is none.
    """
    logs: dict[str, list[DecisionLog]] = defaultdict(list)
    for log in read_decision_logs():
        logs[log.family].append(log)
    for family, own in logs.items():
        yield _check(f"decisions of {family}, interpreted", "interpret", own)
    second: Tier = "compile" if compile_all else "auto"
    is_possible = compile_all or _has_machine_code()
    for family, own in logs.items():
        name = f"decisions of {family}, compiled"
        yield _check(name, second, own) if is_possible else _skipped(name)


def _check(name: str, wanted: Tier, logs: Sequence[DecisionLog]) -> Check:
    def action() -> str:
        with _in_tier(wanted):
            differences = [each for each in (log.difference() for log in logs) if each]
            machine_code = "" if wanted == "interpret" else f"; {_used_machine_code()}"
        if differences:
            raise CheckFailed("\n".join(differences))
        calls = sum(len(log.lines) for log in logs)
        return f"{len(logs)} logs: all {calls:,} calls answered as recorded{machine_code}"

    return carried_out("operation", name, action)


def _skipped(name: str) -> Check:
    def action() -> str:
        raise CheckSkipped(
            "there is no machine code that this process could use; --compile makes it"
        )

    return carried_out("operation", name, action)


@contextmanager
def _in_tier(wanted: Tier) -> Iterator[None]:
    before = tier()
    use_tier(wanted)
    try:
        yield
    finally:
        use_tier(before)


def _has_machine_code() -> bool:
    """Return whether machine code of any kernel is on disk, and this process may use it."""
    if tier() == "interpret":
        return False
    places = {(kernel.dispatcher.stats.cache_path, kernel.py_func.__name__) for kernel in kernels()}
    return any(any(Path(path).glob(f"*.{name}-*.nbi")) for path, name in places if path)


def _used_machine_code() -> str:
    loaded = sum("dispatcher" in vars(kernel) and bool(kernel.dispatcher.signatures)
                 for kernel in kernels())  # fmt: skip
    return f"{loaded} kernels called by Python ran as machine code so far"
