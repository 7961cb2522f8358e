"""Carry out a qualification, and write its record: as JSON, as a page, and their checksums."""

from __future__ import annotations

import hashlib
import json
import platform
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import fairtrial
from fairtrial.core.files import replacing
from fairtrial.qualification.checks import Check, Part
from fairtrial.qualification.decisions import decision_checks
from fairtrial.qualification.installation import digest_of, installation_checks
from fairtrial.qualification.storage import storage_checks
from fairtrial.report.document import document
from fairtrial.report.html import Markup, bullets, element, section, table
from fairtrial.study.machine import environment
from fairtrial.study.server_address import without_passwords

__all__ = ["Qualification", "Request", "checks", "write"]

_TITLES: dict[Part, str] = {
    "installation": "Installation qualification (IQ)",
    "operation": "Operational qualification (OQ)",
}

SHOWS = (
    "The files of the package are those that the wheel's RECORD describes.",
    "On this machine, with these libraries, the policies answer recorded calls as recorded.",
    "Acknowledged results survive the sudden end of a process.",
    "Two processes can write to one study at the same time.",
    "The audit finds a result that was altered in the database.",
)
DOES_NOT_SHOW = (
    "That RECORD is genuine: compare the SHA-256 of the files with that of the wheel you received.",
    "That the libraries and Python are unaltered: only their versions are recorded.",
    "That results survive a power failure: this depends on the disk and its controller.",
    "Who wrote this record, and when: names and the clock can be wrong. Sign the checksums.",
    "That the software is fit for your study: performance qualification (PQ) is yours.",
)


@dataclass(frozen=True, slots=True)
class Request:
    """What to check, and for whom.

    Parameters
    ----------
    operator : str
        The name of the person who carries out the qualification.
    reason : str
        Why it is carried out.
    folder : Path
        Where the record is written, on the disk that will hold the studies.
    database : str or None
        The address of an empty database in PostgreSQL.
    compile_all : bool
        Whether to compile all kernels before their decisions are checked.
    """

    operator: str
    reason: str
    folder: Path
    database: str | None = None
    compile_all: bool = False


def checks(request: Request) -> Iterator[Check]:
    """Carry out all checks, one after the other."""
    yield from installation_checks(_distribution(), _package())
    yield from decision_checks(compile_all=request.compile_all)
    yield from storage_checks(request.folder, request.database)


def _distribution() -> Distribution:
    return distribution("fairtrial")


def _package() -> Path:
    return Path(fairtrial.__file__).parent


@dataclass(frozen=True, slots=True)
class Qualification:
    """The record of a qualification.

    Parameters
    ----------
    request : Request
        What was requested.
    begun, ended : datetime
        When, by the clock of this machine, in UTC.
    checks : sequence of Check
        All checks.
    """

    request: Request
    begun: datetime
    ended: datetime
    checks: Sequence[Check]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.outcome != "failed" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON's own types."""
        database = self.request.database
        return {
            "record": "fairtrial qualification",
            "schema": 1,
            "operator": self.request.operator,
            "reason": self.request.reason,
            "begun": self.begun.isoformat(timespec="seconds"),
            "ended": self.ended.isoformat(timespec="seconds"),
            "passed": self.passed,
            "database": None if database is None else without_passwords(database),
            "machine": {"host": socket.gethostname(), "platform": platform.platform()},
            "software": {**environment(), "executable": sys.executable},
            "package": {"folder": str(_package()), "sha256": digest_of(_package())},
            "checks": [asdict(check) for check in self.checks],
            "shows": list(SHOWS),
            "does_not_show": list(DOES_NOT_SHOW),
        }


def write(found: Qualification) -> dict[str, Path]:
    """Write the record into its folder: JSON, page and checksums, completely or not at all.

    Returns
    -------
    dict of str to Path
        The files ``json``, ``html`` and ``sha256``.

    Raises
    ------
    StorageError
        If a file cannot be written.
    """
    name = f"qualification-{found.begun:%Y%m%dT%H%M%SZ}"
    data = found.to_dict()
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    contents = {"json": text, "html": _page(data, _sha256(text), f"{name}.json")}
    sums = [f"{_sha256(content)}  {name}.{kind}\n" for kind, content in contents.items()]
    contents["sha256"] = "".join(sums)
    paths = {kind: found.request.folder / f"{name}.{kind}" for kind in contents}
    with ExitStack() as stack:
        for kind, content in contents.items():
            part = stack.enter_context(replacing(paths[kind]))
            part.write_text(content, encoding="utf-8", newline="\n")
    return paths


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ------------------------------------------------------------------------------ page


def _page(data: Mapping[str, Any], digest: str, name: str) -> str:
    verdict = "passed" if data["passed"] else "FAILED"
    return document(
        f"Qualification of fairtrial {data['software']['fairtrial']}: {verdict}",
        _facts("Record", _about(data)),
        *(_checks_of(part, data["checks"]) for part in _TITLES),
        _facts("Software", data["software"]),
        section("What this shows", bullets(data["shows"])),
        section("What it does not show", bullets(data["does_not_show"])),
        section(
            "Checksum",
            element("p", f"This page shows the file {name}, whose SHA-256 is"),
            element("p", element("code", digest)),
        ),
    )


def _about(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "result": "passed" if data["passed"] else "FAILED",
        "operator": data["operator"],
        "reason": data["reason"],
        "begun (UTC)": data["begun"],
        "ended (UTC)": data["ended"],
        "machine": f"{data['machine']['host']}, {data['machine']['platform']}",
        "database": data["database"] or "none was given",
        "folder of the package": data["package"]["folder"],
        "SHA-256 of its files": data["package"]["sha256"],
    }


def _facts(title: str, facts: Mapping[str, Any]) -> Markup:
    return section(title, table(title, ("what", "value"), list(facts.items())))


def _checks_of(part: Part, found: Sequence[Mapping[str, Any]]) -> Markup:
    rows = [
        (check["name"], check["outcome"], check["details"], f"{check['seconds']:.1f}")
        for check in found
        if check["part"] == part
    ]
    heads = ("check", "result", "details", "seconds")
    return section(_TITLES[part], table(_TITLES[part], heads, rows, words={0, 1, 2}))
