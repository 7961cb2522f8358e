"""`fairtrial qualify`: check an installation, and write a record of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.output import emit, json_option, say
from fairtrial.core.compilation import tier
from fairtrial.errors import InvalidArgument
from fairtrial.qualification.checks import Check
from fairtrial.qualification.report import Qualification, Request, checks, now, write
from fairtrial.qualification.storage import require_empty

__all__ = ["qualify"]


@click.command(epilog=EPILOG)
@click.option("--operator", required=True, help="Your name, for the record.")
@click.option("--reason", required=True, help="Why the installation is qualified.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default=True,
    help="The folder for the record, on the disk that will hold the studies.",
)
@click.option(
    "--database",
    help="Check PostgreSQL too, in this empty database: postgresql://user@host/database.",
)
@click.option(
    "--compile",
    "compile_all",
    is_flag=True,
    help="Compile all mathematics, which takes minutes, and check what the compiled code decides.",
)
@json_option
def qualify(
    operator: str,
    reason: str,
    output: Path,
    database: str | None,
    compile_all: bool,
    as_json: bool,
) -> None:
    """Check this installation, and write a record of it (IQ and OQ).

    It compares the installed files with their checksums, replays recorded decisions of every
    policy, and checks that the storage keeps what it acknowledges and reveals what was altered.
    The record is a JSON file, a page, and a file with their checksums.
    """
    request = _request(operator, reason, output, database, compile_all)
    begun = now()
    done: list[Check] = []
    for check in checks(request):
        done.append(check)
        if not as_json:
            say(_line(check))
    found = Qualification(request, begun, now(), done)
    paths = write(found)
    if as_json:
        emit({**found.to_dict(), "files": {kind: str(path) for kind, path in paths.items()}})
    else:
        say(_summary(found))
        say("".join(f"  {path}\n" for path in paths.values()).rstrip())
    if not found.passed:
        raise click.exceptions.Exit(ExitCode.NOT_VERIFIED)


def _request(
    operator: str, reason: str, output: Path, database: str | None, compile_all: bool
) -> Request:
    for name, given in (("--operator", operator), ("--reason", reason)):
        if not given.strip():
            raise InvalidArgument(name, "must not be blank", given)
    if compile_all and tier() == "interpret":
        raise InvalidArgument(
            "--compile", "needs an environment in which compiling is not switched off"
        )
    if database is not None:
        require_empty(database)
    output.mkdir(parents=True, exist_ok=True)
    return Request(operator.strip(), reason.strip(), output, database, compile_all)


def _line(check: Check) -> str:
    """Return the line of a check, with why it did not pass; further lines are indented."""
    said = f"{check.outcome:8}{check.name}"
    if check.outcome == "passed":
        return said
    first, *more = check.details.splitlines() or ["no reason was given"]
    return "\n".join([f"{said}: {first}", *(f"        {line}" for line in more)])


def _summary(found: Qualification) -> str:
    counts = Counter(check.outcome for check in found.checks)
    parts = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "skipped", "failed"))
    return f"{'PASSED' if found.passed else 'FAILED'}: {parts}. The record:"
