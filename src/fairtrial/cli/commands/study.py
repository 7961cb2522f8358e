"""`fairtrial study`: carry out studies, look at them, audit them, export and import logs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairtrial import client
from fairtrial.cli.config import load_study_section
from fairtrial.cli.display import answer_text, print_rows, wrapped
from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.opening import open_study, refuse_to_replace, required, storage_option
from fairtrial.cli.output import answer, emit, emit_long, json_option, say, shown_number
from fairtrial.cli.status_tables import print_standing
from fairtrial.client.address import is_service
from fairtrial.core.noted import is_problem_of_table
from fairtrial.core.wording import plural
from fairtrial.errors import AccessRefused
from fairtrial.presentation.limits import document_of
from fairtrial.presentation.recruitment import UNITS, about_blinding, recruitment
from fairtrial.presentation.sources import minimizes, replay_note
from fairtrial.presentation.words import decisions_in_words, outcome_in_words
from fairtrial.report import write_report
from fairtrial.report.health import NAMES_OF_UNITS
from fairtrial.study import Event, Study, StudySummary, Verification, accept_loss, list_studies

if TYPE_CHECKING:
    from fairtrial.cli.opening import AnyStudy

__all__ = [
    "accept_loss_",
    "export",
    "head",
    "history",
    "import_",
    "list_",
    "report",
    "show",
    "verification_document",
    "verification_text",
    "verify",
]

_PAGE = 1_000
_MOST_AUDITED = 100_000
"""The most events that are audited while the user waits: it takes a second or two."""
_DOUBT = "DO NOT RELY ON THIS: the log was altered, or its decisions do not follow from it."

_blinded_option = click.option(
    "--blinded",
    is_flag=True,
    help="Show only what people who recruit may see: counts and health, no results, no evidence.",
)


# ------------------------------------------------------------------------ subcommands


@click.command("list", epilog=EPILOG)
@click.argument("config", type=click.Path(path_type=Path), required=False)
@storage_option
@json_option
def list_(config: Path | None, storage: str | None, as_json: bool) -> None:
    """List the studies of a storage.

    It is the storage given by --storage, or by the file CONFIG.
    """
    address = load_study_section(config).storage if config else required(storage)
    found = _listed(address)
    if as_json:
        studies = [asdict(item) | {"created_at": item.created_at.isoformat()} for item in found]
        emit({"storage": address, "studies": studies})
        return
    rows = [
        (item.name, item.status, f"{item.events:,}", item.policy, f"{item.created_at:%Y-%m-%d}")
        for item in found
    ]
    print_rows(("study", "status", "events", "policy", "since"), rows)


def _listed(address: str) -> list[StudySummary]:
    if not is_service(address):
        return list_studies(address)
    with client.connect(address) as connection:
        return connection.studies()


@click.command(epilog=EPILOG)
@click.argument("study")
@_blinded_option
@storage_option
@json_option
def show(study: str, blinded: bool, storage: str | None, as_json: bool) -> None:
    """Show the state of STUDY.

    That is the answer, the evidence against the others, and the health of the study. The log is
    audited first; if it was altered, the answer is shown with a warning. In a log with more than
    100,000 events only the hashes of the last 100,000 are checked; `verify` audits all. If there
    are many arms, only the best are shown; --json has all.
    """
    if blinded:
        _show_blinded(study, storage, as_json)
        return
    with open_study(study, storage) as opened:
        audit = _audit(opened, _MOST_AUDITED)
        progress, health, endless = opened.progress(), opened.health(), opened.policy.endless
        replayed = replay_note(opened)
        if as_json:
            emit(
                {
                    "study": opened.name,
                    "about": replayed,
                    "seed": opened.seed,
                    "notes": opened.notes,
                    "progress": document_of(progress),
                    "health": health,
                    "verification": verification_document(audit),
                    "head": opened.head_hash,
                    "storage_software": opened.storage_software,
                }
            )
        else:
            if not audit.ok:
                say(_DOUBT)
            if replayed:
                say(replayed)
            say(answer_text(progress, endless))
            print_standing(progress, minimizes(opened))
            for topic, said in opened.notes.items():
                if not is_problem_of_table(topic):  # these are warnings, which follow
                    say(wrapped("Noted", f"{topic}: {said}"))
            _say_health_and_log(health, audit, progress.assigned is not None)
            say(wrapped("Head", f"{opened.head_hash} (kept by {opened.storage_software})"))
    _require_verified(audit)
    if not (progress.recommendation.decided or endless):
        raise click.exceptions.Exit(ExitCode.NO_ANSWER)


def _show_blinded(study: str, storage: str | None, as_json: bool) -> None:
    with open_study(study, storage) as opened:
        audit = _audit_if_allowed(opened)
        health, recruited = opened.health(blinded=True), _recruited(opened)
        stopped, name = opened.stopped, opened.name
    if as_json:
        emit(
            {
                "study": name,
                "blinded": True,
                "stopped": stopped,
                "recruitment": recruited,
                "health": health,
                "verification": verification_document(audit),
            }
        )
    else:
        of_units = UNITS in recruited
        state = "has stopped" if stopped else "is running"
        say(f"{name} {'is the analysis of a finished experiment' if of_units else state}")
        say(wrapped("So far", ", ".join(f"{n:,} {what}" for what, n in recruited.items())))
        say(wrapped("Blinded", about_blinding(recruited)))
        _say_health_and_log(health, audit, of_units)
    _require_verified(audit)


def _audit_if_allowed(opened: AnyStudy) -> Verification | None:
    """Return the audit; None if a token for recruitment does not allow it."""
    try:
        return _audit(opened, _MOST_AUDITED)
    except AccessRefused:
        return None


def _recruited(opened: AnyStudy) -> dict[str, int]:
    return recruitment(opened.progress()) if isinstance(opened, Study) else opened.recruitment()


@click.command(epilog=EPILOG)
@click.argument("study")
@click.option("--last", type=click.IntRange(min=1), help="Show only the last N events.")
@storage_option
@json_option
def history(study: str, last: int | None, storage: str | None, as_json: bool) -> None:
    """Print the log of STUDY, event by event."""
    with open_study(study, storage) as opened:
        events = _last(opened, last)
        if as_json:
            documents = (_event_document(opened, event) for event in events)
            emit_long({"study": opened.name}, "events", documents)
        else:
            names = list(opened.problem.action_labels[0])
            moved = _notes_of_decisions(opened)
            rows = (_event_row(opened, event, names, moved) for event in events)
            # A long log is printed in tables of a thousand events, so that no more is in memory.
            while page := list(islice(rows, _PAGE)):
                print_rows(("event", "at", "kind", "pull", *names, "value", "who", "note"), page)


@click.command(epilog=EPILOG)
@click.argument("study")
@click.option(
    "--head",
    "heads",
    metavar="HASH",
    multiple=True,
    help="A hash that `study head` printed; the log must contain it. Can be repeated.",
)
@click.option(
    "--witness",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The file of the study's `witness`; the log must contain everything noted there.",
)
@storage_option
@json_option
def verify(
    study: str, heads: tuple[str, ...], witness: Path | None, storage: str | None, as_json: bool
) -> None:
    """Audit STUDY: its hashes and all its decisions.

    The chain of hashes is checked, and every decision is derived again from the log. A person with
    write access to the file could replace the whole log by another valid one. A hash that was noted
    elsewhere at the time reveals this: give it with --head, or give a file of such hashes with
    --witness.
    """
    with open_study(study, storage) as opened:
        found = opened.verify(heads, witness)
        name = opened.name
    answer(
        as_json,
        {"study": name, "verification": verification_document(found)},
        f"{name}: {verification_text(found)}",
    )
    _require_verified(found)


@click.command(epilog=EPILOG)
@click.argument("study")
@storage_option
@json_option
def head(study: str, storage: str | None, as_json: bool) -> None:
    """Print the hash of STUDY's last event.

    Note it elsewhere, for `verify --head`.
    """
    with open_study(study, storage) as opened:
        name, digest = opened.name, opened.head_hash
    answer(as_json, {"study": name, "head": digest}, digest)


@click.command("accept-loss", epilog=EPILOG)
@storage_option
@json_option
def accept_loss_(storage: str | None, as_json: bool) -> None:
    """Continue studies whose logs have lost their end.

    Opening such a storage is refused, because acknowledged events are missing. With this command
    you confirm that you know this and have no backup. Keep a copy of the files first.
    """
    lost = accept_loss(required(storage))
    if as_json:
        keys = ("study", "acknowledged", "left")
        emit({"lost": [dict(zip(keys, item, strict=True)) for item in lost]})
        return
    for name, acknowledged, left in lost:
        say(f"{name or 'a study'}: {acknowledged:,} events were acknowledged, {left:,} left")
    if not lost:
        say("no acknowledged event is known to be missing")


@click.command(epilog=EPILOG)
@click.argument("study")
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option(
    "--secret",
    is_flag=True,
    help="From a service, write the secret of the random order, too, which `import` needs; for a "
    "token with the scope admin. From a storage, a .jsonl file always has it.",
)
@storage_option
@json_option
def export(
    study: str, path: Path, force: bool, secret: bool, storage: str | None, as_json: bool
) -> None:
    """Write the log of STUDY to the file PATH.

    PATH ends in .jsonl (everything), .csv, .parquet or .xlsx.
    """
    refuse_to_replace(path, force)
    with open_study(study, storage) as opened:
        written = (
            opened.export(path) if isinstance(opened, Study) else opened.export(path, secret=secret)
        )
        name, found = opened.name, opened.recommend()
    document = {"path": str(written), "decisions": [one.to_dict() for one in found.decisions]}
    when = decisions_in_words(found)
    said = f"{name}: the log is in {written}{'.' if when else ''}"
    answer(as_json, {"study": name, **document}, " ".join(filter(None, [said, when])))


@click.command("import", epilog=EPILOG)
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", help="The new study's name; by default the one in the file.")
@storage_option
@json_option
def import_(path: Path, name: str | None, storage: str | None, as_json: bool) -> None:
    """Create a study from an exported log.

    PATH is a .jsonl file that `export` wrote; the head hash stays the same. Every event is checked
    and every decision derived again; if one differs, nothing is kept.
    """
    with Study.import_log(path, storage=required(storage), name=name) as made:
        document = {"study": made.name, "storage": made.storage, "head": made.head_hash}
    answer(as_json, document, f"{document['study']}: its log ends with {document['head']}")


@click.command(epilog=EPILOG)
@click.argument("study")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="The file to write.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--title", help="The page's title; by default the study's name.")
@_blinded_option
@storage_option
@json_option
def report(
    study: str,
    out: Path,
    force: bool,
    title: str | None,
    blinded: bool,
    storage: str | None,
    as_json: bool,
) -> None:
    """Write STUDY as one HTML page.

    It shows the decision, the arms, fairness, health, and the log. The page includes its own style
    and pictures, and an audit of the log.
    """
    refuse_to_replace(out, force)
    with open_study(study, storage) as opened:
        audit = _audit(opened)
        written = write_report(opened, out, title, verification=audit, blinded=blinded)
        name = opened.name
    if as_json:
        document = {"path": str(written), "verification": verification_document(audit)}
        emit({"study": name, **document})
    else:
        say(f"{name}: the report is in {written}")
    _require_verified(audit)


def _audit(opened: AnyStudy, most: int = sys.maxsize) -> Verification:
    """Return the audit of a study, after a warning if its log was altered.

    In a log with more than `most` events only the last of them are checked.
    """
    audit = opened.verify() if opened.n_events <= most else opened.verify_last(most)
    if not audit.ok:
        say(f"WARNING: {opened.name} is {verification_text(audit)}.", err=True)
    return audit


def _require_verified(audit: Verification | None) -> None:
    """Exit with a separate code if an audit was made and found something."""
    if audit is not None and not audit.ok:
        raise click.exceptions.Exit(ExitCode.NOT_VERIFIED)


# ---------------------------------------------------------------------- output


def verification_document(found: Verification | None) -> dict[str, Any] | None:
    """Return an audit as JSON's own types."""
    if found is None:
        return None
    return {
        "ok": found.ok,
        "events": found.events,
        "skipped": found.skipped,
        "first_difference": found.first_difference,
    }


def verification_text(found: Verification | None) -> str:
    """Return an audit as one sentence."""
    if found is None:
        return "not done"
    if found.ok and found.skipped:
        return (
            f"none of the last {plural(found.events, 'event')} altered; the {found.skipped:,} "
            "before them and the decisions were not audited: `fairtrial study verify` audits all"
        )
    if found.ok:
        return (
            f"verified: {plural(found.events, 'event')}, none altered, "
            "and every decision follows from those before it"
        )
    if found.skipped:
        return f"NOT verified: {found.first_difference}"
    return f"NOT verified: after {plural(found.events, 'good event')}, {found.first_difference}"


def _say_health_and_log(
    health: dict[str, Any], audit: Verification | None, of_units: bool = False
) -> None:
    for warning in health["warnings"]:
        say(wrapped("Warning", warning))
    say(wrapped("Health", _units_text(health) if of_units else _health_text(health)))
    if "kits_left" in health:
        left = (f"{number:,} of {arm}" for arm, number in health["kits_left"].items())
        say(wrapped("Kits left", ", ".join(left)))
    say(wrapped("Log", verification_text(audit)))


def _health_text(health: dict[str, Any]) -> str:
    counts = {name: value for name, value in health.items() if isinstance(value, int) and value}
    if not counts:
        return "no pull is open, and none was lost, late, corrected or told twice"
    return ", ".join(f"{value} {name}" for name, value in counts.items())


def _units_text(health: dict[str, Any]) -> str:
    """Return what happened to the units of a finished experiment."""
    counts = {name: health[key] for key, name in NAMES_OF_UNITS.items() if health.get(key)}
    found = (f"{name[0].lower()}{name[1:]}: {value:,}" for name, value in counts.items())
    return "; ".join(found) or "every unit has an outcome, and none was corrected"


def _last(opened: AnyStudy, last: int | None) -> Iterator[Event]:
    if last is None:
        return opened.events()
    return islice(opened.events(after=max(0, opened.n_events - last)), last)


def _labels(opened: AnyStudy, event: Event) -> dict[str, Any]:
    return {} if event.action is None else dict(opened.problem.labels(event.action))


def _event_document(opened: AnyStudy, event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": event.at.isoformat(),
        "kind": event.kind,
        "pull_id": event.pull_id,
        "number": event.number,
        **_labels(opened, event),
        "value": event.value,
        "actor": event.actor,
        "body": dict(event.body),
        "hash": event.hash,
    }


def _notes_of_decisions(opened: AnyStudy) -> dict[int, str]:
    """Return what to note about the events that decided the study, or took that back."""
    try:
        decisions = opened.recommend().decisions
    except AccessRefused:
        return {}
    back = {one.withdrawn_by: "took back the decision" for one in decisions if one.withdrawn_by}
    # A correction can replace one answer by another.
    return back | {one.event: "decided the study" for one in decisions}


def _event_row(
    opened: AnyStudy, event: Event, names: list[str], moved: Mapping[int, str]
) -> tuple[str, ...]:
    labels = _labels(opened, event)
    return (
        str(event.seq),
        f"{event.at:%Y-%m-%d %H:%M:%S}",
        event.kind,
        "-" if event.number is None else str(event.number),
        *(str(labels.get(name, "-")) for name in names),
        _values(event.outcome),
        event.actor or "-",
        "; ".join(filter(None, [_note(event), moved.get(event.seq)])),
    )


def _values(outcome: Any) -> str:
    """Return an outcome or a reading; of several measures all that it has."""
    if isinstance(outcome, Mapping):
        values = (
            f"{name}={'missing' if value is None else _values(value)}"
            for name, value in outcome.items()
        )
        return " ".join(values)
    if isinstance(outcome, str):
        return outcome
    # All digits, so that it can be compared with what was entered.
    return "-" if outcome is None else outcome_in_words(outcome)


def _note(event: Event) -> str:
    if event.kind == "time":
        return f"max_time reached, after {shown_number(event.body['seconds'])} s"
    reason = str(event.body.get("reason", ""))
    if event.kind == "close":
        name = "arm" if "arm" in event.body else "group"
        return f"{name} {event.body[name]}: {reason}"
    return f"{reason} (before: {_values(event.body['old'])})" if event.kind == "amend" else reason
