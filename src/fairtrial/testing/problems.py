"""Check that a problem keeps the contract of `fairtrial.core.Problem`."""

from __future__ import annotations

import json
import math
from typing import Any

from fairtrial.core.contract import check_members
from fairtrial.core.keywords import named_arguments
from fairtrial.core.problem import Problem
from fairtrial.core.pull import UNSOLICITED
from fairtrial.core.validation import check_instance
from fairtrial.errors import InvalidArgument, InvalidOutcome

__all__ = ["check_problem"]

_NO_ACTION = "a label that no action has"
_BAD_OUTCOMES: tuple[Any, ...] = (
    None,
    "text",
    math.nan,
    math.inf,
    -math.inf,
    object(),
    [],
    10**400,
)


@named_arguments
def check_problem(problem: Problem) -> None:
    """Check that a problem can be written as JSON, is frozen, and refuses invalid outcomes.

    Parameters
    ----------
    problem : Problem
        The problem; it is not changed.

    Raises
    ------
    AssertionError
        If the problem breaks the contract; the message says where.

    Examples
    --------
    >>> from fairtrial.subpopulations import Problem
    >>> check_problem(Problem(["a", "b"], ["x"], noise_std=1.0))
    """
    check_instance("problem", problem, Problem)
    check_members(problem, Problem, "problem")
    _check_json(problem)
    _check_frozen(problem)
    _check_actions(problem)
    _check_outcomes(problem)


def _check_json(problem: Problem) -> None:
    written = json.loads(json.dumps(problem.to_dict(), allow_nan=False))
    read = type(problem).from_dict(written)
    assert read == problem, "from_dict(to_dict()) must give an equal problem"
    assert read.digest == problem.digest, "equal problems must have equal digests"
    assert hash(read) == hash(problem), "equal problems must have equal hashes"
    assert read.action_labels == problem.action_labels, "from_dict must keep the actions' order"
    try:
        type(problem).from_dict({**written, "schema": type(problem).schema + 1})
    except InvalidArgument:
        return
    raise AssertionError("from_dict must refuse a schema that is newer than the class's own")


def _check_frozen(problem: Problem) -> None:
    try:
        problem.a_new_attribute = 1
    except AttributeError:
        return
    raise AssertionError("a problem must be frozen: end its constructor with self._freeze()")


def _check_actions(problem: Problem) -> None:
    assert problem.n_actions == len(problem.action_labels) >= 1, "n_actions must count the labels"
    for action in range(problem.n_actions):
        labels = problem.labels(action)
        assert problem.action(**labels) == action, f"action {action} must be found by its labels"
        pull = problem.pull(**labels)
        assert (pull.number, pull.action) == (UNSOLICITED, action), "pull() must be unsolicited"
    unknown = dict.fromkeys(problem.labels(0), _NO_ACTION)
    try:
        problem.action(**unknown)
    except InvalidArgument:
        return
    raise AssertionError("action() must refuse labels that no action has")


def _check_outcomes(problem: Problem) -> None:
    for outcome in _BAD_OUTCOMES:
        try:
            problem.check_outcome(outcome)
        except InvalidOutcome:
            continue
        raise AssertionError(f"check_outcome must refuse {outcome!r} with InvalidOutcome")
