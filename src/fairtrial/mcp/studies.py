"""What the tools do: each opens a study, reads it or writes to it, and returns a document."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from typing import Any

from fairtrial.client import Connection, connect
from fairtrial.client.address import is_service
from fairtrial.client.remote_study import RemoteStudy
from fairtrial.core.parameters import plain
from fairtrial.core.problem import Outcome
from fairtrial.core.recommendation import Progress
from fairtrial.errors import InvalidArgument
from fairtrial.mcp.short_forms import short_form
from fairtrial.presentation.limits import document_of
from fairtrial.presentation.sources import minimizes
from fairtrial.server.documents import event_document, spelled
from fairtrial.study import Study, StudyPull, list_studies

__all__ = ["Studies"]

_MOST_PULLS = 100

_LARGEST_LOGARITHM = 700.0


class Studies:
    """The studies of a storage or of a service, as documents for JSON.

    A study of a storage is opened for each call, so that what other processes wrote is seen.

    Parameters
    ----------
    address : str
        The storage, or the URL of a service.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    @cached_property
    def _connection(self) -> Connection | None:
        return connect(self._address) if is_service(self._address) else None

    @contextmanager
    def _opened(self, name: str) -> Iterator[Study | RemoteStudy]:
        opened: Study | RemoteStudy
        if self._connection is None:
            opened = Study.open(self._address, name)
        else:
            opened = self._connection.study(name)
        with opened:
            yield opened

    def listed(self) -> list[dict[str, Any]]:
        """Return one line for each study."""
        if self._connection is None:
            found = list_studies(self._address)
        else:
            found = self._connection.studies()
        return [asdict(item) | {"created_at": item.created_at.isoformat()} for item in found]

    def shown(self, name: str, *, everything: bool) -> dict[str, Any]:
        """Return the question of a study, its estimates so far, and its warnings.

        Unless everything is wanted, long parts are left out.
        """
        with self._opened(name) as study:
            progress = study.progress()
            document = {
                "study": name,
                "problem": study.problem.to_dict(),
                "policy": study.policy.to_dict(),
                "events": study.n_events,
                "progress": _shown(progress),
                "health": study.health(),
            }
            return _of_length(document, study, progress, everything)

    def recommended(self, name: str, *, everything: bool) -> dict[str, Any]:
        """Return the present answer of a study, and what casts doubt on it."""
        with self._opened(name) as study:
            progress = study.progress()
            answer = _shown(progress)["recommendation"]
            document = answer | {"warnings": study.health()["warnings"]}
            return _of_length(document, study, progress, everything)

    def verified(self, name: str) -> dict[str, Any]:
        """Return the result of an audit of a study's log, and the hash of its last event."""
        with self._opened(name) as study:
            return asdict(study.verify()) | {"head": study.head_hash}

    def asked(self, name: str, n: int, group: str | None, unit: str | None) -> dict[str, Any]:
        """Issue pulls, and return them."""
        if not 1 <= n <= _MOST_PULLS:
            raise InvalidArgument("n", f"must be from 1 to {_MOST_PULLS}", n)
        context: dict[str, Any] = {} if group is None else {"group": group}
        with self._opened(name) as study:
            pulls = study.ask(n, unit=unit, **context)
            # A single ask gives the reason why there is none.
            pulls = pulls or [study.ask(unit=unit, **context)]
            return {"pulls": [_pull_document(pull) for pull in pulls]}

    def told(self, name: str, pull: str, value: Outcome) -> dict[str, Any]:
        """Record an outcome; return its event and whether the study has stopped."""
        with self._opened(name) as study:
            event = study.tell(pull, value)
            return _as_document({"event": event_document(event), "stopped": study.stopped})


def _of_length(
    found: dict[str, Any], study: Study | RemoteStudy, progress: Progress, everything: bool
) -> dict[str, Any]:
    """Return a document for JSON: whole, or without what is too long to be read."""
    document = _as_document(found)
    if everything:
        return document
    return short_form(document, progress, minimize=minimizes(study))


def _pull_document(pull: StudyPull) -> dict[str, Any]:
    return {"pull": pull.id, "number": pull.number, **plain(dict(pull.labels))}


def _shown(progress: Progress) -> dict[str, Any]:
    """Return a progress with its evidence on the scale of pages and commands.

    They show e-values, of which the policy keeps the logarithms, and never more than is needed.
    """
    found = document_of(progress)
    if progress.evidence_scale != "log_e_value":
        return found
    del found["evidence_scale"]
    for document in (found, found["recommendation"]["evidence"]):
        if "evidence" not in document:
            continue
        gained, needed = document.pop("evidence"), document.pop("threshold")
        if gained is not None and needed is not None:
            gained = min(gained, needed)
        document["evidence_against_last_rival"] = _e_value(gained)
        document["evidence_needed"] = _e_value(needed)
    return found


def _e_value(logarithm: float | None) -> float | None:
    """Return an e-value to four digits; None if it is too large for a float."""
    if logarithm is None or logarithm > _LARGEST_LOGARITHM:
        return None
    return float(f"{math.exp(logarithm):.4g}")


def _as_document(found: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = spelled(found)
    return document
