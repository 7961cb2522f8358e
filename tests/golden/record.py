"""Record the decisions that `test_decisions` compares every policy with.

::

    python -m tests.golden.record            # all policies
    python -m tests.golden.record NAME ...   # those with one of these texts in their name

The test fails as soon as one decision differs. After a restructuring that means that the code is
wrong: correct it, and do not record again. Record again only if decisions were meant to change (a
better rule, a corrected error), or if a policy or a problem in `tests/testing/families.py` is new
or has changed. Then record only the affected ones. The commit message must say which decisions
changed and why. If the policy was released, also raise its `version`.

If a log fails only on one kind of processor, the last bits of a number decide a tie in its problem.
Change the problem: no equal features, weights or deviations, no equal shares of a design.

A recorded study has two parts with mishaps, each followed by one without. With mishaps, calls
are random: batches, results in any order, lost results of which some come after all,
corrections, unsolicited results, readings (including late and repeated ones), and policies that
are saved and restored. Without mishaps, the policy continues to its stop. In between, a policy
with epochs begins the next one.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairtrial.allocation import FairLearn
from fairtrial.core import UNSOLICITED, Pull, Reading
from fairtrial.core.problem import Outcome
from fairtrial.qualification.decisions import line_of
from tests.golden.epochs import EPOCHS
from tests.golden.logs import FOLDER, ROWS, Logs, player_of, read_logs, write_logs
from tests.testing.families import Row

SEEDS = 2

_RANDOM_CALLS = 35
_CALLS_AFTER_STOP = 8
_CALM_CALLS = 80
_MOST_CALLS = 260
_MOST_ENDLESS_CALLS = 150
_MOST_BLOCK_CALLS = 800
"""Block betting has more calls, because blocks grow with the pulls."""
_MOST_IN_FLIGHT = 7
_REASONS = ["lost", "lost", "lost", "error", "user", "expired", "cancelled"]


@dataclass
class _Course:
    """The course of one pull: its outcome, the readings to come, and those already reported."""

    pull: Pull
    outcome: Outcome | None
    to_come: list[Reading]
    made: list[Reading] = field(default_factory=list)
    lost_for: str = ""


class Recorder:
    """Makes random calls on the policy of a row, and records what it decides."""

    def __init__(self, row: Row, seed: int) -> None:
        self.log: list[str] = []
        self.player = player_of(row)
        self._row = row
        self._generator = np.random.default_rng([seed, zlib.crc32(row.name.encode())])
        self._environment = row.make()[1].begin(self._generator)
        self._largest_batch = 4 if seed % 2 else 1
        self._names_groups = bool(seed % 2) and row.name.startswith("subpopulations")
        self._in_flight: dict[int, _Course] = {}
        self._lost: dict[int, _Course] = {}
        self._told: dict[int, tuple[_Course, Any]] = {}
        self._unsolicited: list[tuple[int, Any]] = []
        self._now = 0.0

    def record(self) -> list[str]:
        """Return the log of a whole study."""
        self._make_random_calls()
        self._check_numbers()
        self._run_without_mishaps(until=len(self.log) + _CALM_CALLS)
        self._restore()
        self._begin_next_epoch()
        self._make_random_calls()
        self._check_numbers()
        self._bring_back_what_decides()
        self._run_without_mishaps(until=self._most_calls)
        self._restore()
        self._check_numbers()
        return self.log

    @property
    def _most_calls(self) -> int:
        if self._policy.endless:
            return _MOST_ENDLESS_CALLS
        has_blocks = self._row.policy.__name__ == "BlockBetting"
        return _MOST_BLOCK_CALLS if has_blocks else _MOST_CALLS

    @property
    def _policy(self) -> Any:
        return self.player.policy

    def _call(self, name: str, *arguments: Any) -> bool:
        """Make a call and record it; return whether it was accepted."""
        decision = self.player.make(name, *arguments)
        self.log.append(line_of((name, *arguments), decision))
        return "refused" not in decision

    def _check_numbers(self) -> None:
        self._call("progress")
        self._call("answer")

    def _restore(self) -> None:
        self._call("restore")

    def _begin_next_epoch(self) -> None:
        following = EPOCHS.get(self._row.instance)
        if following is None or not isinstance(self._policy, FairLearn):
            return
        while not self._call("epoch"):
            # A round of several plays must be complete.
            self._ask(1)
        self._environment = following()[1].begin(self._generator)

    # ------------------------------------------------------------------ with mishaps

    def _make_random_calls(self) -> None:
        after_stop = 0
        for _ in range(_RANDOM_CALLS):
            self._let_time_pass()
            calls = self._possible_calls()
            chances = np.array(list(calls.values())) / sum(calls.values())
            list(calls)[self._generator.choice(len(calls), p=chances)]()
            self._drop_called_back(share=0.5)
            after_stop += self._policy.stopped
            if after_stop > _CALLS_AFTER_STOP:
                break

    def _possible_calls(self) -> dict[Callable[[], None], float]:
        """Return the calls that make sense now, and how often to make each."""
        is_full = len(self._in_flight) >= _MOST_IN_FLIGHT or self._policy.stopped
        calls: dict[Callable[[], None], float] = {self._ask_for_some: 0.1 if is_full else 3.0}
        if self._in_flight:
            calls |= {self._tell_one: 3.0, self._lose_one: 0.5}
        if any(course.to_come for course in self._in_flight.values()):
            calls[self._report_one] = 4.0
        if self._lost:
            calls |= {self._tell_lost_one: 0.6, self._report_late: 0.3}
        if self._told:
            calls |= {self._amend_one: 0.4, self._report_late: 0.3}
        if self._unsolicited:
            calls[self._amend_unsolicited] = 0.1
        calls |= {self._tell_unsolicited: 0.3, self._restore: 0.3}
        return calls

    def _let_time_pass(self) -> None:
        if self._policy.max_time is not None:
            self._now += 1.0
            self._call("time", self._now)

    def _ask_for_some(self) -> None:
        self._ask(int(self._generator.integers(5)) or None)

    def _ask(self, number: int | None) -> bool:
        """Ask for that many pulls; return whether any were issued."""
        context = self._environment.context(self._generator)
        if self._names_groups and self._generator.random() < 0.3:
            groups = self._policy.problem.groups
            context = {"group": groups[self._generator.integers(len(groups))]}
        known = len(self.player.pulls)
        self._call("ask", *([number, context] if context else [number] if number else []))
        issued = list(self.player.pulls.values())[known:]
        for pull in issued:
            path = self._environment.trajectory(pull, self._generator)
            course = _Course(pull, _rounded(path.outcome), list(path.readings))
            self._in_flight[pull.number] = course
        return bool(issued)

    def _any_of(self, numbers: Mapping[int, Any]) -> int:
        return list(numbers)[self._generator.integers(len(numbers))]

    def _tell_one(self) -> None:
        self._end(self._any_of(self._in_flight))

    def _end(self, number: int) -> None:
        """Tell the outcome of a pull, or that the environment lost it."""
        course = self._in_flight[number]
        if course.outcome is None:
            self._fail(number, "lost")
            return
        del self._in_flight[number]
        self._call("tell", number, course.outcome)
        self._told[number] = (course, course.outcome)

    def _lose_one(self) -> None:
        reason = _REASONS[self._generator.integers(len(_REASONS))]
        self._fail(self._any_of(self._in_flight), reason)

    def _fail(self, number: int, reason: str) -> None:
        self._lost[number] = self._in_flight.pop(number)
        self._lost[number].lost_for = reason
        self._call("fail", number, reason)

    def _tell_lost_one(self) -> None:
        self._tell_late(self._any_of(self._lost))

    def _tell_late(self, number: int) -> None:
        course = self._lost[number]
        if course.outcome is not None and self._call("tell", number, course.outcome):
            del self._lost[number]
            self._told[number] = (course, course.outcome)

    def _report_one(self) -> None:
        """Report the next reading of a pull, an earlier one again, or one too early."""
        number = self._any_of({n: c for n, c in self._in_flight.items() if c.to_come})
        course, chance = self._in_flight[number], self._generator.random()
        if course.made and chance < 0.1:
            self._report(number, course.made[self._generator.integers(len(course.made))])
            return
        place = min(int(chance < 0.2), len(course.to_come) - 1)
        course.made.append(course.to_come.pop(place))
        self._report(number, course.made[-1])

    def _report_late(self) -> None:
        ended = {**self._lost, **{number: course for number, (course, _) in self._told.items()}}
        number = self._any_of(ended)
        if ended[number].to_come:
            self._report(number, ended[number].to_come.pop(0))

    def _report(self, number: int, reading: Reading) -> None:
        self._call("report", number, _rounded(reading.value), _rounded(reading.details))

    def _amend_one(self) -> None:
        number = self._any_of(self._told)
        course, old = self._told[number]
        if course.pull.action >= self._policy.problem.n_actions:
            return
        new = self._draw(course.pull)
        if self._call("amend", number, old, new):
            self._told[number] = (course, new)

    def _draw(self, pull: Pull) -> Any:
        """Return a possible outcome of a pull."""
        while True:
            outcome = self._environment.trajectory(pull, self._generator).outcome
            if outcome is not None:
                return _rounded(outcome)

    def _draw_unsolicited(self, action: int) -> Any:
        return self._draw(Pull(UNSOLICITED, action, self._policy.problem.labels(action)))

    def _tell_unsolicited(self) -> None:
        action = int(self._generator.integers(self._policy.problem.n_actions))
        outcome = self._draw_unsolicited(action)
        if self._call("data", action, outcome):
            self._unsolicited.append((action, outcome))

    def _amend_unsolicited(self) -> None:
        at = int(self._generator.integers(len(self._unsolicited)))
        action, old = self._unsolicited[at]
        if action >= self._policy.problem.n_actions:
            return
        new = self._draw_unsolicited(action)
        if self._call("amend_data", action, old, new):
            self._unsolicited[at] = (action, new)

    def _drop_called_back(self, share: float) -> None:
        """Let this share of the pulls that the policy calls back fail."""
        for number in self.player.called_back:
            if number in self._in_flight and self._generator.random() < share:
                self._fail(number, "cancelled")

    # --------------------------------------------------------------- without mishaps

    def _run_without_mishaps(self, until: int) -> None:
        """Ask, report and tell until the policy has stopped or the number of calls is reached."""
        self._finish_all()
        while len(self.log) < until and not self._policy.stopped:
            self._let_time_pass()
            if not self._ask(1 + int(self._generator.integers(self._largest_batch))):
                break
            self._finish_all()

    def _finish_all(self) -> None:
        while self._in_flight:
            number = self._any_of(self._in_flight)
            course = self._in_flight[number]
            while course.to_come and number in self._in_flight:
                self._report(number, course.to_come.pop(0))
                self._drop_called_back(share=1.0)
            if number in self._in_flight:
                self._end(number)
            self._drop_called_back(share=1.0)

    def _bring_back_what_decides(self) -> None:
        """Tell results that did not fail by chance: without them a race may decide nothing."""
        for number, course in list(self._lost.items()):
            if course.lost_for != "lost":
                self._tell_late(number)


def _rounded(value: Any) -> Any:
    """Return a value with three digits, so that a log is short."""
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    return value


def record(texts: list[str]) -> Logs:
    """Return the logs of all policies whose names contain one of these texts."""
    wanted = [row for name, row in ROWS.items() if any(text in name for text in texts or [""])]
    return {row.name: [Recorder(row, seed).record() for seed in range(SEEDS)] for row in wanted}


def main() -> None:
    """Write the logs, and print how each study ended."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    recorded = record(parser.parse_args().names)
    kept = {name: logs for name, logs in read_logs().items() if name in ROWS}
    write_logs({**kept, **recorded})
    for name, logs in recorded.items():
        for log in logs:
            print(f"{name}: {len(log)} calls, {log[-1]}")
    print(f"{sum(path.stat().st_size for path in FOLDER.glob('*.xz'))} bytes")


if __name__ == "__main__":
    main()
