"""Find or create studies: from an address and a name to a session."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex

from fairtrial.core import Policy, Problem
from fairtrial.core.logs import LogEvent
from fairtrial.core.parameters import Parametrized
from fairtrial.errors import (
    CorruptLog,
    FairtrialError,
    InvalidArgument,
    StudyExists,
    StudyNotFound,
)
from fairtrial.study.location import Durability, Storage, open_store, parse_storage
from fairtrial.study.log import CHAIN
from fairtrial.study.log_file import LogFile
from fairtrial.study.session import Session, transact
from fairtrial.study.specification import Specification
from fairtrial.study.store import NewStudy, Store, StudyRow
from fairtrial.study.witness import Witness
from fairtrial.version import __version__

__all__ = [
    "CREATED",
    "Classes",
    "create_study",
    "find_or_insert",
    "import_study",
    "open_study",
]

CREATED = LogEvent("study", "study created", logging.INFO, ("study", "storage"))
_OPENED = LogEvent("study", "study opened", logging.DEBUG, ("study", "storage", "events"))

Classes = tuple[Sequence[type[Parametrized]], Sequence[type[Problem]]]
"""The caller's own policies, with the classes of their parts, and the caller's own problems."""


def create_study(
    spec: Specification,
    storage: Storage,
    name: str,
    own: Classes,
    *,
    durability: Durability,
    exist_ok: bool,
    any_seed: bool,
    secret: str | None,
    witness: Path | None,
) -> Session:
    """Create a study or, with `exist_ok`, open the existing one with the same specification.

    Raises
    ------
    StudyExists
        If the name is taken; the message says how the two studies differ.
    """
    fresh = spec.build(name, *own)
    spec.require_faithful(fresh)
    if secret is not None and not fresh.randomizes:
        raise InvalidArgument(
            "secret", f"must be left out: {type(fresh).__name__} draws no pull at random"
        )
    kept = _witness_at(witness)
    with _opened(storage, durability) as store:

        def found_or_made() -> tuple[StudyRow, bool]:
            return find_or_insert(
                store, name, spec, fresh, secret, exist_ok=exist_ok, any_seed=any_seed
            )

        row, is_new = transact(store, found_or_made)
        if is_new:
            CREATED.log(study=name, storage=store.url)
        return _session(store, storage, row, own, kept)


def find_or_insert(
    store: Store,
    name: str,
    spec: Specification,
    fresh: Policy,
    secret: str | None = None,
    *,
    exist_ok: bool,
    any_seed: bool,
) -> tuple[StudyRow, bool]:
    """Return a study and whether it is new, within a transaction.

    Raises
    ------
    StudyExists
        If the name is taken by a study with another specification or secret; without `exist_ok`,
        by any study.
    """
    row = store.find_study(name)
    if row is None:
        return store.insert_study(_new_study(name, spec, fresh, secret, store.now())), True
    existing = Specification.from_json(row.spec_json).canonical(row.name, fresh)
    _require_same(row, existing, spec, store.url, exist_ok=exist_ok, any_seed=any_seed)
    if secret not in (None, row.secret):
        raise StudyExists(f"{store.url} has a study {name!r} with another secret")
    return row, False


def open_study(
    storage: Storage,
    name: str,
    own: Classes,
    durability: Durability,
    witness: Path | None = None,
) -> Session:
    """Open an existing study.

    Raises
    ------
    StudyNotFound
        If there is no such study.
    """
    in_memory = _require_storage(storage, name)
    kept = _witness_at(witness)
    with _opened(storage, durability, create=in_memory) as store:
        return _session(store, storage, _found(store, name), own, kept)


def import_study(
    file: LogFile, storage: Storage, name: str, own: Classes, durability: Durability
) -> Session:
    """Create a study from a log in a file.

    Raises
    ------
    CorruptLog
        If the file's policy cannot be built, or an event does not follow from the earlier ones.
    StudyExists
        If the name is taken.
    """
    try:
        fresh = _built(file.spec, name, own, file.secret)
    except FairtrialError:
        raise
    except Exception as error:
        # The policy may be the caller's own, and a damaged file can pass it arbitrary values.
        raise CorruptLog(
            f"the policy of {name!r} cannot be built from the file: {error}"
        ) from error
    with _opened(storage, durability) as store:
        return _session(store, storage, file.insert(store, name, fresh), own)


@contextmanager
def _opened(storage: Storage, durability: Durability, *, create: bool = True) -> Iterator[Store]:
    """Yield the store; close it after an error, unless it is the caller's own."""
    store = open_store(storage, durability, create=create)
    try:
        yield store
    except BaseException:
        if store is not storage:
            store.close()
        raise


def _witness_at(path: Path | None) -> Witness | None:
    return None if path is None else Witness(path)


def _session(
    store: Store,
    storage: Storage,
    row: StudyRow,
    own: Classes,
    witness: Witness | None = None,
) -> Session:
    spec = Specification.from_json(row.spec_json)
    if spec.sha256 != row.spec_sha256:
        raise CorruptLog(
            f"the specification of study {row.name!r} is not the one that it was created with"
        )
    _OPENED.log(study=row.name, storage=store.url, events=row.head_seq)
    build = partial(_built, spec, row.name, own, row.secret)
    return Session(*(store, row, build, spec), owns_store=store is not storage, witness=witness)


# ----------------------------------------------------------------------------- create


def _built(spec: Specification, name: str, own: Classes, secret: str | None) -> Policy:
    """Return a fresh policy; its random numbers come from the secret, if it draws any."""
    policy = spec.build(name, *own)
    if secret is not None and policy.randomizes:
        policy.conceal(secret)
    return policy


def _new_study(
    name: str, spec: Specification, policy: Policy, secret: str | None, now: int
) -> NewStudy:
    return NewStudy(
        name=name,
        spec_json=spec.to_json(),
        spec_sha256=spec.sha256,
        seed=str(spec.seed),
        policy_version=type(policy).version,
        created_with=__version__,
        created_at=now,
        chain=CHAIN,
        secret=secret or fresh_secret(),
    )


def _require_same(
    row: StudyRow,
    existing: Specification,
    spec: Specification,
    url: str,
    *,
    exist_ok: bool,
    any_seed: bool,
) -> None:
    wanted = replace(spec, seed=existing.seed) if any_seed else spec
    difference = existing.difference(wanted)
    if difference:
        raise StudyExists(
            f"{url} has a study {row.name!r} with another specification (existing and wanted "
            f"differ): {difference}; choose another name"
        )
    if not exist_ok:
        raise StudyExists(
            f"{url} has a study {row.name!r} with this specification already; continue it with "
            "`fairtrial study ask`; in Python open it with Study.open, or pass exist_ok=True"
        )


def fresh_secret() -> str:
    """Return 128 random bits, as hexadecimal digits."""
    return token_hex(16)


# ------------------------------------------------------------------------------- open


def _require_storage(storage: Storage, name: str) -> bool:
    """Raise if there is nothing to open; return whether the storage is a new in-memory one."""
    if isinstance(storage, Store):
        return False
    place = parse_storage(storage)
    if isinstance(place, Path) and not os.path.exists(place):  # noqa: PTH110 - it knows too long names
        raise StudyNotFound(f"there is no study {name!r}: no file {place} exists")
    return place is None


def _found(store: Store, name: str) -> StudyRow:
    row = store.find_study(name)
    if row is None:
        names = ", ".join(repr(other.name) for other in store.studies()[:10]) or "none"
        raise StudyNotFound(f"{store.url} has no study {name!r}; it has {names}")
    return row
