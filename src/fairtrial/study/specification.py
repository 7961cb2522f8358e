"""The specification that a study is made from and that never changes: problem, policy, seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from fairtrial.core import Policy, Problem
from fairtrial.core.family import FAMILIES
from fairtrial.core.noted import doubts_noted
from fairtrial.core.parameters import Parametrized
from fairtrial.core.specification import (
    policy_class,
    policy_from_dict,
    problem_from_dict,
)
from fairtrial.core.wording import abridged
from fairtrial.errors import CorruptLog, FairtrialError, InvalidArgument, NotSupported
from fairtrial.study.conduct import Conduct

__all__ = [
    "LONGEST_TEXT",
    "LONGEST_TOPIC",
    "Specification",
    "checked_notes",
    "family_and_policy",
    "own_classes",
]

_UNREADABLE = "unreadable"

_NAMED = 6
"""Differences between two specifications that a message names."""

MOST_TOPICS, LONGEST_TOPIC, LONGEST_TEXT = 1_000, 500, 10_000
"""Limits of what people state about a study: it is read with every opening."""


@dataclass(frozen=True)
class Specification:
    """A study's specification as data.

    Parameters
    ----------
    problem, policy : mapping
        Output of `Problem.to_dict` and `Policy.to_dict`.
    seed : int
        The policy's seed.
    conduct : mapping
        What requests for pulls must state: output of `Conduct.to_dict`.
    notes : mapping of str to str
        What was noted when the study was created, by topic. No decision depends on it, but the
        guarantee of an analysis does if its table contradicts the planned shares.
    """

    problem: Mapping[str, Any]
    policy: Mapping[str, Any]
    seed: int
    conduct: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        problem: Problem,
        policy: Policy,
        seed: int,
        conduct: Mapping[str, Any] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the specification of a new study.

        Raises
        ------
        InvalidArgument
            If people cannot carry out the study as `conduct` says, or `notes` is no text.
        NotSupported
            If a parameter cannot be converted to data.
        """
        rules = Conduct.of(problem, conduct or {}).to_dict()
        stated = checked_notes(notes or {})
        spec = cls(problem.to_dict(), policy.to_dict(), seed, rules, stated)
        return cls.from_json(spec.to_json())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the specification from the output of `to_json`.

        Raises
        ------
        CorruptLog
            If it is not such an output.
        """
        try:
            data = json.loads(text)
            parts = data["problem"], data["policy"], data["seed"]
            return cls(*parts, data.get("conduct", {}), data.get("notes", {}))
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise CorruptLog(
                f"a specification cannot be read: it was altered ({error!r})"
            ) from error

    def to_json(self) -> str:
        """Return the specification as JSON, in which keys keep the order of the actions."""
        parts = {"policy": self.policy, "problem": self.problem, "seed": self.seed}
        if self.conduct:
            parts["conduct"] = self.conduct
        if self.notes:
            parts["notes"] = self.notes
        return json.dumps(parts, separators=(",", ":"))

    @property
    def sha256(self) -> str:
        """SHA-256 of this JSON; the first event of the log follows a hash that includes it."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def build(
        self,
        name: str,
        policies: Sequence[type[Parametrized]] = (),
        problems: Sequence[type[Problem]] = (),
    ) -> Policy:
        """Return a fresh policy for the specification's problem.

        Parameters
        ----------
        name : str
            Name of the study, for messages.
        policies, problems : sequence of type
            The caller's own classes; `policies` includes those of the policies' parts.

        Raises
        ------
        InvalidArgument
            If one of the caller's own classes is needed and was not passed.
        """
        problem = self._problem(name, problems)
        self._require_policy(name, problem, policies)
        Conduct.of(problem, self.conduct)
        try:
            policy = policy_from_dict(self.policy, problem, self.seed, policies)
        except InvalidArgument as error:
            self._require_part(name, error, policies)
            raise
        ignores_losses = policy.get_params().get("losses") == "ignorable"
        policy.doubts_of_table = doubts_noted(self.notes, ignores_losses=ignores_losses)
        return policy

    def _problem(self, name: str, problems: Sequence[type[Problem]]) -> Problem:
        family = self.problem["family"]
        if family not in FAMILIES and family not in [own.family for own in problems]:
            raise InvalidArgument(
                "problems",
                f"must contain the class of the family {family!r}, which study {name!r} was made "
                "with and fairtrial does not have: open it with problems=[TheClass]",
                list(problems),
            )
        return problem_from_dict(self.problem, problems)

    def _require_policy(
        self, name: str, problem: Problem, policies: Sequence[type[Parametrized]]
    ) -> None:
        wanted = self.policy["name"]
        try:
            policy_class(wanted, problem, policies)
        except InvalidArgument:
            raise InvalidArgument(
                "policies",
                f"must contain the class {wanted!r}, which study {name!r} was made with and "
                f"fairtrial does not have: open it with policies=[{wanted}]",
                list(policies),
            ) from None

    def _require_part(
        self, name: str, error: InvalidArgument, policies: Sequence[type[Parametrized]]
    ) -> None:
        """Raise an error that says how to pass the class of a part, if that class is missing."""
        place, _, what = error.name.partition(".")
        if what == "name":
            wanted = error.given
            raise InvalidArgument(
                "policies",
                f"must contain the class {wanted!r}, the {place} that study {name!r} was "
                f"made with and fairtrial does not have: open it with policies=[{wanted}]",
                list(policies),
            ) from None

    def canonical(self, name: str, like: Policy) -> Specification:
        """Return this specification as a new study of the same policy would be specified.

        Older versions wrote some defaults in two ways. `like` brings the caller's own classes; if
        the policy cannot be built with them, return the specification as it is.
        """
        try:
            policy = self.build(name, own_classes(like), (type(like.problem),))
            return Specification.of(policy.problem, policy, self.seed, self.conduct, self.notes)
        except (FairtrialError, ValueError, TypeError, LookupError):
            return self

    def require_faithful(self, policy: Policy) -> None:
        """Raise if a policy built from this specification has other parameters.

        Raises
        ------
        NotSupported
            If a parameter changed during the conversion to JSON and back.
        """
        rebuilt = Specification.of(policy.problem, policy, policy.seed, self.conduct, self.notes)
        changed = self.difference(rebuilt)
        if changed:
            raise NotSupported(f"{self.policy['name']} is not the same when read back: {changed}")

    def difference(self, other: Specification) -> str:
        """Return in words where two specifications differ; empty if they are equal.

        Of many differences the first few are named, and those of notes only after all others.
        """
        mine, theirs = _flat(json.loads(self.to_json())), _flat(json.loads(other.to_json()))
        differing = (key for key in {**mine, **theirs} if _differ(mine, theirs, key))
        keys = sorted(differing, key=lambda key: (key.startswith("notes."), key))
        named = [f"{key} is {_shown(mine, key)} and {_shown(theirs, key)}" for key in keys[:_NAMED]]
        more = [f"and {len(keys) - _NAMED:,} more"] if len(keys) > _NAMED else []
        return "; ".join(named + more)


def checked_notes(notes: Mapping[str, str]) -> dict[str, str]:
    """Return what people state about a study, by topic.

    Raises
    ------
    InvalidArgument
        If it is not a mapping of text to text, or too long.

    Examples
    --------
    >>> checked_notes({"Population": "adults with HIV"})
    {'Population': 'adults with HIV'}
    """
    if not isinstance(notes, Mapping):
        raise InvalidArgument("notes", "must map topics to text", notes)
    if len(notes) > MOST_TOPICS:
        accepted = f"must have at most {MOST_TOPICS} topics"
        raise InvalidArgument("notes", accepted, len(notes))
    for topic, said in notes.items():
        if not isinstance(topic, str) or not 0 < len(topic) <= LONGEST_TOPIC:
            accepted = f"must have topics of 1 to {LONGEST_TOPIC} characters"
            raise InvalidArgument("notes", accepted, abridged(topic))
        if not isinstance(said, str) or not 0 < len(said) <= LONGEST_TEXT:
            accepted = f"must be text of 1 to {LONGEST_TEXT:,} characters"
            raise InvalidArgument(f"notes[{topic}]", accepted, abridged(said))
    return dict(notes)


def family_and_policy(text: str) -> tuple[str, str]:
    """Return the names of family and policy in a stored specification, for a list of studies.

    A specification that was altered until it cannot be read does not hide the other studies; the
    study itself is refused when it is opened.

    Examples
    --------
    >>> family_and_policy("{")
    ('unreadable', 'unreadable')
    """
    try:
        data = json.loads(text)
        return str(data["problem"]["family"]), str(data["policy"]["name"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return _UNREADABLE, _UNREADABLE


def own_classes(policy: Policy) -> tuple[type[Parametrized], ...]:
    """Return the class of a policy and the classes of its parts."""
    parts = policy.get_params().values()
    return type(policy), *(type(part) for part in parts if isinstance(part, Parametrized))


def _flat(data: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(data, dict):
        return {path: data}
    parts: dict[str, Any] = {}
    for key, item in data.items():
        parts |= _flat(item, f"{path}.{key}" if path else key)
    return parts


def _shown(parts: Mapping[str, Any], key: str) -> str:
    return abridged(parts[key]) if key in parts else "not there"


def _differ(left: Mapping[str, Any], right: Mapping[str, Any], key: str) -> bool:
    if key not in left or key not in right:
        return True
    # 0 and 0.0 are the same number, and NaN counts as equal to NaN.
    return bool(left[key] != right[key]) and repr(left[key]) != repr(right[key])
