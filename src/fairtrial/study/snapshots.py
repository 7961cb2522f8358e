"""Snapshots: a replica's arrays as bytes, tied by a hash to the event they were taken after."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fairtrial.core import Decision, Policy
from fairtrial.errors import FairtrialError
from fairtrial.study.log import as_microseconds, as_time
from fairtrial.study.store import Snapshot

__all__ = ["restore", "take", "undeclared"]

_DEPTH = 6
_PREFIX = "state."
_DECISIONS = "decisions"
_NONE = -1


def take(policy: Policy, seq: int, head_hash: str, decisions: Sequence[Decision] = ()) -> Snapshot:
    """Return a snapshot of the policy after the event with that number and hash.

    Parameters
    ----------
    policy : Policy
        The policy.
    seq, head_hash : int, str
        Number and hash of the event.
    decisions : sequence of Decision
        When it has decided.

    Raises
    ------
    NotSupported
        If the policy's state is not made of arrays.
    """
    stream = io.BytesIO()
    # The prefix prevents a clash with np.savez's own argument "file".
    arrays: dict[str, Any] = {_PREFIX + name: array for name, array in policy.get_state().items()}
    arrays[_DECISIONS] = np.array(list(map(_row, decisions)), dtype=np.int64).reshape(-1, 4)
    np.savez(stream, **arrays)
    state = stream.getvalue()
    name, version = type(policy).__name__, type(policy).version
    return Snapshot(seq, name, version, state, _seal(head_hash, name, version, state))


def restore(snapshot: Snapshot, fresh: Policy, head_hash: str) -> tuple[Decision, ...] | None:
    """Set a fresh policy to the snapshot's state; return when it has decided.

    Return None if the snapshot is not trusted.

    It is trusted if it is unchanged, was made by the same version of the same policy, and was
    taken after the event with this hash.
    """
    name, version = type(fresh).__name__, type(fresh).version
    if snapshot.sha256 != _seal(head_hash, name, version, snapshot.state):
        return None
    try:
        with np.load(io.BytesIO(snapshot.state), allow_pickle=False) as arrays:
            decisions = tuple(map(_decision, arrays[_DECISIONS].tolist()))
            own = [name for name in arrays if name.startswith(_PREFIX)]
            fresh.set_state({name.removeprefix(_PREFIX): arrays[name] for name in own})
    except (FairtrialError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # An older policy with the same version number may have saved it; the log is still valid.
        return None
    return decisions


def _row(decision: Decision) -> tuple[int, int, int, int]:
    by, at = decision.withdrawn_by, decision.withdrawn_at
    withdrawn = (_NONE, _NONE) if by is None or at is None else (by, as_microseconds(at))
    return decision.event, as_microseconds(decision.at), *withdrawn


def _decision(row: Sequence[int]) -> Decision:
    event, at, by, withdrawn_at = row
    if by == _NONE:
        return Decision(event, as_time(at))
    return Decision(event, as_time(at), by, as_time(withdrawn_at))


def _seal(head_hash: str, name: str, version: int, state: bytes) -> str:
    return hashlib.sha256(f"{head_hash}:{name}:{version}:".encode() + state).hexdigest()


# ------------------------------------------------------------------- is the state whole?


def undeclared(policy: Policy) -> list[str]:
    """Return the attributes missing from `state_fields`: they differ after a restore.

    Policies with their own `get_state` or `set_state` are trusted.
    """
    own = type(policy)
    if own.get_state is not Policy.get_state or own.set_state is not Policy.set_state:
        return []
    restored = policy.clone()
    # What a table contradicts stands in the notes of the study, not in the state.
    restored.doubts_of_table = policy.doubts_of_table
    restored.set_state(policy.get_state())
    found = vars(restored)
    return [
        name
        for name, value in _kept(policy).items()
        if name not in found or _differ(value, found[name], _DEPTH)
    ]


def _kept(thing: object) -> dict[str, Any]:
    """Return an object's attributes, except those that are computed when first needed."""
    own = type(thing)
    return {
        name: value
        for name, value in getattr(thing, "__dict__", {}).items()
        if not isinstance(getattr(own, name, None), cached_property)
    }


def _differ(left: Any, right: Any, depth: int) -> bool:
    """Return whether two values certainly differ."""
    if left is right or depth == 0:
        return False
    if isinstance(left, np.ndarray | np.generic | int | float | complex | str | bytes):
        return not _equal(left, right)
    if isinstance(left, np.random.Generator) and isinstance(right, np.random.Generator):
        return _differ(left.bit_generator.state, right.bit_generator.state, depth - 1)
    if type(left) is not type(right):
        return True
    if isinstance(left, Mapping):
        keys = left.keys()
        return keys != right.keys() or any(_differ(left[k], right[k], depth - 1) for k in keys)
    if isinstance(left, Sequence):
        pairs = zip(left, right, strict=False)
        return len(left) != len(right) or any(_differ(a, b, depth - 1) for a, b in pairs)
    if isinstance(left, set | frozenset):
        return bool(left != right)
    return _differ(_kept(left), _kept(right), depth - 1)


def _equal(left: Any, right: Any) -> bool:
    try:
        return np.array_equal(left, right, equal_nan=True)
    except TypeError:
        return np.array_equal(left, right)
