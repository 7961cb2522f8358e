"""What callers give, checked, and brought into the form in which it is kept."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairtrial.core import UNSOLICITED, Policy, Problem, Pull
from fairtrial.core.parameters import plain
from fairtrial.core.problem import Outcome
from fairtrial.core.validation import check_instance, check_number
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported, UnknownPull
from fairtrial.study.log import Result, canonical
from fairtrial.study.pull import StudyPull

__all__ = [
    "as_json",
    "as_pairs",
    "as_path",
    "as_result",
    "check_lease",
    "check_name",
    "check_reason",
    "check_template",
    "check_texts",
    "is_encodable",
    "is_unsolicited",
    "own_action",
]

_CENTURY = 3.2e9
"""Seconds: for ever, and small enough for the database."""


def check_name(name: object) -> None:
    """Raise if this cannot be a study's name."""
    fits = isinstance(name, str) and name.isprintable() and 0 < len(name.strip()) <= 200
    if not fits:
        raise InvalidArgument("name", "must be 1 to 200 printable characters", name)


def check_texts(**texts: object) -> None:
    """Raise if one is neither None nor a short text."""
    for name, text in texts.items():
        fits = text is None or (isinstance(text, str) and 0 < len(text) <= 200)
        if not fits or not is_encodable(text):
            raise InvalidArgument(name, "must be a text of 1 to 200 characters, or None", text)


def check_reason(reason: object) -> None:
    """Raise if this is no text that says why."""
    if not isinstance(reason, str) or not reason.strip() or not is_encodable(reason):
        raise InvalidArgument("reason", "must be a text that says why", reason)


def is_encodable(text: object) -> bool:
    """Return whether a database takes the text: it holds no half of a surrogate pair."""
    return text is None or str(text).encode(errors="ignore").decode() == text


def check_lease(lease: object) -> float:
    """Return the seconds of a lease."""
    return check_number("lease", lease, low=0, high=_CENTURY, open_low=True)


def check_template(problem: object, policy: object) -> None:
    """Raise if these are not a problem, and a policy for it."""
    check_instance("problem", problem, Problem)
    made_for = check_instance("policy", policy, Policy).problem
    if made_for != problem:
        raise InvalidArgument("policy", f"must be made for {problem!r}", made_for)


def as_path(path: object) -> Path:
    """Return the path of a file."""
    if not isinstance(path, str | os.PathLike) or "\0" in os.fspath(path):
        raise InvalidArgument("path", "must be the path of a file", path)
    return Path(path)


def as_pairs(outcomes: Any) -> list[tuple[Pull | str, Outcome]]:
    """Return pulls and their outcomes."""
    pairs = list(outcomes) if isinstance(outcomes, Iterable) else [outcomes]
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidArgument("outcomes", "must be pairs (pull, value)", pair)
    return [(pull, value) for pull, value in pairs]


def as_json(
    name: str, data: Mapping[str, Any], error: type[InvalidArgument] = InvalidArgument
) -> dict[str, Any]:
    """Return the data as a replay will read them: through JSON and back."""
    try:
        text = canonical(plain(data, name))
    except (NotSupported, ValueError, RecursionError):
        raise error(name, "must be made of finite numbers, texts and lists", data) from None
    clean: dict[str, Any] = json.loads(text)
    return clean


def as_result(problem: Problem, value: Outcome) -> Result:
    """Return an outcome of this problem as it is stored."""
    clean = problem.check_outcome(value)
    if isinstance(clean, Mapping):
        return Result(None, as_json("reward", clean, InvalidOutcome))
    if not isinstance(clean, int | float) or not math.isfinite(clean):
        raise InvalidOutcome("reward", "must be a finite number, or named fields", value)
    # A database keeps no sign of zero: a replay shall see what the policy sees now.
    return Result(float(clean) + 0.0)


def is_unsolicited(pull: Pull | str) -> bool:
    """Return whether this is data that nobody asked for: what `problem.pull` returns."""
    return isinstance(pull, Pull) and pull.number == UNSOLICITED and not isinstance(pull, StudyPull)


def own_action(problem: Problem, pull: Pull) -> int:
    """Return the action of a pull that `problem.pull` returned."""
    known = 0 <= pull.action < problem.n_actions
    if not known or problem.labels(pull.action) != pull.labels:
        raise UnknownPull(f"{pull!r} is not one of this problem's actions")
    return pull.action
