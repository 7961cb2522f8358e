"""Check arguments and convert them to the form in which they are stored."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairtrial.core import Policy, Problem, Pull
from fairtrial.core.contract import check_members
from fairtrial.core.nesting import is_deeper
from fairtrial.core.parameters import plain
from fairtrial.core.problem import Outcome
from fairtrial.core.validation import check_instance, check_number
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported
from fairtrial.study.log import canonical
from fairtrial.study.statements import is_encodable, is_storable

__all__ = [
    "LONGEST_UNIT",
    "MOST_AT_ONCE",
    "MOST_PER_REQUEST",
    "as_hashes",
    "as_json",
    "as_outcome",
    "as_pairs",
    "as_path",
    "as_reading",
    "check_lease",
    "check_name",
    "check_one_of",
    "check_reason",
    "check_secret",
    "check_template",
    "check_texts",
    "check_unit",
    "is_path",
]

MOST_AT_ONCE = 10_000
"""Most pulls or outcomes in one write. It takes less than a second, while other writers wait."""

MOST_PER_REQUEST = 1_000
"""Most pulls or outcomes in one request to a service, unless the service has another setting."""

LONGEST_UNIT = 1_000
"""Most characters of the text that names a unit; only a hash of it is stored."""

_LONGEST_REASON = 10_000
_LONGEST_JSON = 1_000_000
_DEEPEST_JSON = 32

LONGEST_LEASE = 3.2e9
"""Seconds: a century, which is practically for ever, and still fits in the database."""


def check_name(name: object) -> None:
    """Raise if `name` cannot be the name of a study."""
    fits = isinstance(name, str) and name.isprintable() and 0 < len(name.strip()) <= 200
    # A browser takes the last two for a step in a path.
    if not fits or name in (".", ".."):
        raise InvalidArgument(
            "name", 'must be 1 to 200 printable characters, not "." or ".."', name
        )


def check_texts(**texts: object) -> None:
    """Raise if any argument is neither None nor a short text."""
    for name, text in texts.items():
        fits = text is None or (isinstance(text, str) and 0 < len(text) <= 200)
        if not fits or not is_storable(text):
            raise InvalidArgument(name, "must be a text of 1 to 200 characters, or None", text)


def check_reason(reason: object) -> str:
    """Return `reason` if it is a non-blank text of acceptable length; raise otherwise."""
    fits = isinstance(reason, str) and 0 < len(reason.strip()) <= _LONGEST_REASON
    if not isinstance(reason, str) or not fits or not is_encodable(reason):
        accepted = f"must be a text of at most {_LONGEST_REASON:,} characters that says why"
        raise InvalidArgument("reason", accepted, reason)
    return reason


def check_unit(unit: object) -> str:
    """Return `unit` if it is a text that can name a unit; raise otherwise."""
    if not isinstance(unit, str) or not 0 < len(unit) <= LONGEST_UNIT or not is_encodable(unit):
        # The message must not repeat what was given, which is often personal data.
        raise InvalidArgument("unit", f"must be a text of 1 to {LONGEST_UNIT:,} characters")
    return unit


def check_one_of(participant: object, unit: object) -> None:
    """Raise unless exactly one of the two is given."""
    if (participant is None) == (unit is None):
        raise InvalidArgument("participant, unit", "must be one of the two")


def check_secret(secret: object) -> str:
    """Return `secret` if it is a valid text to derive random numbers from; raise otherwise."""
    if not isinstance(secret, str) or not 0 < len(secret) <= 200 or not is_storable(secret):
        # The message must not reveal the secret that was given.
        raise InvalidArgument("secret", "must be a text of 1 to 200 characters")
    return secret


def check_lease(lease: object) -> float:
    """Return the duration of a lease in seconds; raise if it is invalid."""
    return check_number("lease", lease, low=0, high=LONGEST_LEASE, open_low=True)


def check_template(problem: object, policy: object) -> None:
    """Raise unless these are a problem and a policy for it."""
    check_instance("problem", problem, Problem)
    made_for = check_instance("policy", policy, Policy).problem
    check_members(policy, Policy, "policy")
    if made_for != problem:
        raise InvalidArgument("policy", f"must be made for {problem!r}", made_for)


def as_hashes(expected: str | Sequence[str]) -> list[str]:
    """Return one or several hashes of events as a list."""
    given = [expected] if isinstance(expected, str) else list(expected)
    for item in given:
        if not isinstance(item, str) or not re.fullmatch(r"[0-9a-f]{64}", item):
            raise InvalidArgument("expected", "must be hashes, of 64 digits 0-9 and a-f", item)
    return given


def as_path(path: object) -> Path:
    """Return the path of a file; raise if it is invalid."""
    if not isinstance(path, str | os.PathLike) or not is_path(os.fspath(path)):
        raise InvalidArgument("path", "must be the path of a file", path)
    return Path(path)


def is_path(path: object) -> bool:
    """Return whether the operating system accepts the text as a path."""
    try:
        return isinstance(path, str) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def as_pairs(outcomes: Any) -> list[tuple[Pull | str, Outcome]]:
    """Return a list of pairs (pull, outcome); raise if it is invalid."""
    pairs = list(outcomes) if isinstance(outcomes, Iterable) else [outcomes]
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidArgument("outcomes", "must be pairs (pull, value)", pair)
    return [(pull, value) for pull, value in pairs]


def as_json(
    name: str, data: Mapping[str, Any], error: type[InvalidArgument] = InvalidArgument
) -> dict[str, Any]:
    """Return the data after a round trip through JSON, as a replay will read them."""
    if type(data) is dict and not data:
        return {}
    try:
        text = canonical(plain(data, name))
    except (NotSupported, ValueError, RecursionError):
        raise error(name, "must be made of finite numbers, texts and lists", data) from None
    if len(text) > _LONGEST_JSON or is_deeper(text, _DEEPEST_JSON):
        accepted = (
            f"must have at most {_LONGEST_JSON:,} characters as JSON, in {_DEEPEST_JSON} levels"
        )
        raise error(name, accepted, data)
    clean: dict[str, Any] = json.loads(text)
    return clean


def as_outcome(problem: Problem, value: Outcome) -> Outcome:
    """Return an outcome of this problem in the form in which it is stored.

    Some measures can be left out: the writer knows which ones were reported before.
    """
    if problem.measured is not None:
        return problem.measured.named(value)
    clean = problem.check_outcome(value)
    if type(clean) is float and math.isfinite(clean):
        # Databases do not keep the sign of zero; a replay must see what the policy sees now.
        return clean + 0.0
    if isinstance(clean, Mapping):
        return as_json("reward", clean, InvalidOutcome)
    if not isinstance(clean, int | float) or not math.isfinite(clean):
        raise InvalidOutcome("reward", "must be a finite number, or named fields", value)
    return float(clean) + 0.0


def as_reading(problem: Problem, value: Any) -> Any:
    """Return a reading of this problem in the form in which it is stored."""
    clean = problem.check_reading(value)
    return float(clean) + 0.0 if problem.measured is None else problem.measured.named(value)
