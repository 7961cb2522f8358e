"""Check whether many clients' observations could come from one operation after another.

A history is linearizable if every operation can be given a moment between its call and its answer
such that a study that carries them out one at a time, at these moments, gives the same answers.
The search is that of Wing and Gong (1993), with Lowe's cache of states that lead nowhere (2017).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Operation(NamedTuple):
    """What one client asked for, when, and its answer.

    `answer` is None if it never came: then the operation may have been carried out at any time
    after its call, or not at all, and `returned` is infinite.
    """

    kind: str
    called: float
    returned: float
    content: Mapping[str, Any]
    answer: Any = None


def asked(called, returned, pulls, n=1, key=None):
    """Return an ask: `pulls` are pairs of number and id."""
    answer = None if pulls is None else tuple(pulls)
    return Operation("ask", called, returned, {"n": n, "key": key}, answer)


def told(called, returned, pull, value, answer, key=None):
    """Return a tell: answered by the number of its event, or by "conflict"."""
    return Operation("tell", called, returned, {"pull": pull, "value": value, "key": key}, answer)


def looked(called, returned, head):
    """Return a look at the length of the log."""
    return Operation("look", called, returned, {}, head)


@dataclass
class StudyModel:
    """A study, one operation at a time: the slow and obvious judge.

    An ask writes one event for each pull. A tell writes one, unless the pull has an outcome: the
    same outcome is answered with the first event, another one is a conflict. A repeated key gets
    the same answer as the first time.

    `claimed` has the event numbers in answers to tells, so no ask can have written these events.
    Without it the search would find this out only after many more steps.
    """

    head: int = 0
    next_number: int = 0
    outcomes: dict[str, tuple[float, int]] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    claimed: frozenset[int] = frozenset()

    _sum: int = 0

    def state(self) -> tuple[int, int, int]:
        """Return a value that identifies this state; tables enter as sums of hashes."""
        return self.head, self.next_number, self._sum

    def _put(self, table: dict[str, Any], key: str, value: Any) -> None:
        table[key] = value
        self._sum ^= hash((id(table), key, value))

    def _drop(self, table: dict[str, Any], key: str) -> None:
        self._sum ^= hash((id(table), key, table.pop(key)))

    def apply(self, operation: Operation):
        """Carry out an operation if its answer fits; return a function to undo it, or None."""
        if operation.kind == "look":
            return (lambda: None) if operation.answer in (self.head, None) else None
        key = operation.content["key"]
        if key is not None and key in self.answers:
            fits = operation.answer in (self.answers[key], None)
            return (lambda: None) if fits else None
        before = self.head, self.next_number
        answer, take_back = getattr(self, f"_{operation.kind}")(operation)

        def undo() -> None:
            self.head, self.next_number = before
            take_back()
            if key in self.answers:
                self._drop(self.answers, key)

        if answer == "impossible" or operation.answer not in (answer, None):
            undo()
            return None
        if key is not None:
            self._put(self.answers, key, answer)
        return undo

    def _ask(self, operation: Operation):
        n, first = operation.content["n"], self.next_number
        if not self.claimed.isdisjoint(range(self.head + 1, self.head + n + 1)):
            return "impossible", lambda: None
        self.next_number += n
        self.head += n
        numbers = range(first, first + n)
        if operation.answer is None:
            # No client has learned the ids, so no client can tell these pulls.
            return None, lambda: None
        given = [(number, pull) for number, pull in operation.answer]
        fits = [number for number, _ in given] == list(numbers)
        fresh = [pull for _, pull in given if pull not in self.known]
        fits &= len(set(fresh)) == n
        for pull in set(fresh):
            self._put(self.known, pull, first)

        def take_back() -> None:
            for pull in set(fresh):
                self._drop(self.known, pull)

        return (operation.answer if fits else "impossible"), take_back

    def _tell(self, operation: Operation):
        pull, value = operation.content["pull"], operation.content["value"]
        if pull not in self.known:
            return "unknown", lambda: None
        if pull in self.outcomes:
            first, seq = self.outcomes[pull]
            return (seq if value == first else "conflict"), lambda: None
        self.head += 1
        self._put(self.outcomes, pull, (value, self.head))
        return self.head, lambda: self._drop(self.outcomes, pull)


class _Entry:
    """The call or the answer of an operation, in a doubly linked list."""

    def __init__(self, operation: Operation | None, index: int, match: _Entry | None) -> None:
        self.operation = operation
        self.index = index
        self.match = match
        self.before: _Entry | None = None
        self.after: _Entry | None = None


def _linked(history: list[Operation]) -> _Entry:
    moments: list[tuple[float, int, _Entry]] = []
    for index, operation in enumerate(history):
        answer = _Entry(None, index, None)
        # At equal times answers come last, so that the operations overlap.
        moments.append((operation.called, 0, _Entry(operation, index, answer)))
        moments.append((operation.returned, 1, answer))
    moments.sort(key=lambda moment: moment[:2])
    head = last = _Entry(None, -1, None)
    for _, _, entry in moments:
        last.after, entry.before = entry, last
        last = entry
    return head


def _lift(entry: _Entry) -> None:
    for each in (entry, entry.match):
        each.before.after = each.after
        if each.after is not None:
            each.after.before = each.before


def _put_back(entry: _Entry) -> None:
    for each in (entry.match, entry):
        each.before.after = each
        if each.after is not None:
            each.after.before = each


def is_linearizable(operations: Iterable[Operation], model: StudyModel | None = None) -> bool:
    """Return whether there is an order in which one study would have given the same answers.

    Parameters
    ----------
    operations : iterable of Operation
        The operations of all clients, in any order.
    model : StudyModel, optional
        The study before the first of them.
    """
    history, study = list(operations), model or StudyModel()
    study.claimed = frozenset(
        each.answer for each in history if each.kind == "tell" and isinstance(each.answer, int)
    )
    head = _linked(history)
    answered = sum(operation.returned < math.inf for operation in history)
    done, left, trail, seen = 0, answered, [], set()
    entry = head.after
    while left:
        if entry is not None and entry.operation is not None:
            undo = study.apply(entry.operation)
            if undo is not None:
                mark = done | 1 << entry.index, study.state()
                if mark not in seen:
                    seen.add(mark)
                    trail.append((entry, undo))
                    done |= 1 << entry.index
                    left -= entry.operation.returned < math.inf
                    _lift(entry)
                    entry = head.after
                    continue
                undo()
            entry = entry.after
            continue
        # An answer whose operation has not been carried out yet: an earlier choice was wrong.
        if not trail:
            return False
        entry, undo = trail.pop()
        undo()
        done &= ~(1 << entry.index)
        left += entry.operation.returned < math.inf
        _put_back(entry)
        entry = entry.after
    return True
