"""The commands of `fairtrial study` with which people carry out a study: ask, measure, tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairtrial.cli.config import load_configuration
from fairtrial.cli.display import answer_text, print_rows, wrapped
from fairtrial.cli.durations import seconds
from fairtrial.cli.exits import EPILOG
from fairtrial.cli.opening import create_study, open_study, refuse_to_replace, storage_option
from fairtrial.cli.output import answer, decimal_option, emit, json_option, say
from fairtrial.cli.units import read_units
from fairtrial.core.cells import number_of
from fairtrial.core.tables import require_written
from fairtrial.core.wording import (
    choices,
    plural,
    said_at_ask_of_closed_groups,
    said_of_closed_control,
    said_of_closed_groups,
)
from fairtrial.errors import (
    AccessRefused,
    AlreadyTold,
    ExperimentFinished,
    FairtrialError,
    InvalidArgument,
    InvalidOutcome,
    NothingToAsk,
    StorageError,
)
from fairtrial.study import Study
from fairtrial.study.pull import MASKED
from fairtrial.study.pull_tables import participants_of, write_pulls

if TYPE_CHECKING:
    from fairtrial.cli.opening import AnyStudy
    from fairtrial.cli.units import ListedUnit
    from fairtrial.core import Problem, Pull
    from fairtrial.core.problem import Outcome
    from fairtrial.study import Event, StudyPull
    from fairtrial.study.numbers import Asked
    from fairtrial.study.result_tables import Correction

__all__ = [
    "actor_option",
    "amend",
    "ask",
    "check_table",
    "close",
    "create",
    "fail",
    "force_option",
    "kit",
    "outstanding",
    "pull_named",
    "stop",
    "tell",
]

_NEGATIVE_NUMBERS = {"ignore_unknown_options": True}
"""With this, -0.5 is read as a value and not as an option."""

table_option = click.option(
    "--csv",
    "--xlsx",
    "table",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the pulls to this table (.csv or .xlsx), with blank columns for their results.",
)
actor_option = click.option(
    "--actor", metavar="NAME", help="Who does this (recorded); a service records the token's name."
)
force_option = click.option("--force", is_flag=True, help="Replace an existing table.")


@click.command(epilog=EPILOG)
@click.argument("config", type=click.Path(path_type=Path))
@json_option
def create(config: Path, as_json: bool) -> None:
    """Create the study that the file CONFIG describes.

    It is carried out by hand: `ask` shows what to try, and `tell` takes the results. The file needs
    no section [source].
    """
    configuration = load_configuration(config, "create")
    with create_study(configuration, exist_ok=False) as study:
        made = {"study": study.name, "storage": study.storage, "seed": study.seed}
    answer(as_json, made, f"{made['study']}: created. To begin: fairtrial study ask {config}")


@click.command(epilog=EPILOG)
@click.argument("study")
@click.option(
    "-n", "number", type=click.IntRange(min=1), default=1, help="How many pulls; 1 by default."
)
@click.option(
    "--group", help="Group of the person or unit that has arrived; the policy chooses the arm."
)
@click.option(
    "--prediction",
    "predictions",
    multiple=True,
    metavar="VALUE",
    help="If the problem has a prediction: what was known of this unit before its arm; "
    "MEASURE=VALUE for each if several measures are predicted.",
)
@click.option(
    "--participant",
    "participants",
    multiple=True,
    metavar="NUMBER",
    help="Number of the participant, in the form that the study was created with; once for each if "
    "several have arrived.",
)
@click.option(
    "--unit",
    help="Whom or what the pull is for, such as a visitor's id: a unit that asks again gets the "
    "same pull. Only a keyed hash of it is stored.",
)
@click.option(
    "--units",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Ask for every unit in a file: a table with the column unit (and group and prediction, if "
    "it says them), or a text with one unit in each line.",
)
@table_option
@force_option
@click.option(
    "--lease",
    metavar="TIME",
    callback=seconds,
    help="Time after which a pull without a result fails: 30m, 12h, 2d.",
)
@click.option("--worker", help="Who will carry out the pulls (recorded).")
@storage_option
@json_option
def ask(
    study: str,
    number: int,
    group: str | None,
    predictions: tuple[str, ...],
    participants: tuple[str, ...],
    unit: str | None,
    units: Path | None,
    table: Path | None,
    force: bool,
    lease: float | None,
    worker: str | None,
    storage: str | None,
    as_json: bool,
) -> None:
    """Ask STUDY what to try next, for one pull or for many at once.

    A pull stays open until its result is told, even if that is days later. `outstanding` lists the
    open pulls again. To ask with the same file of --units again changes nothing: each unit gets
    its pull again, and units that had none are asked for.
    """
    check_table(table, force)
    with open_study(study, storage) as opened:
        details: dict[str, Any] = {"worker": worker, "lease": lease}
        if units is not None:
            if number != 1 or unit is not None or participants or predictions:
                others = "-n, --unit, --participant nor --prediction"
                raise click.UsageError(f"--units goes with neither {others}")
            _ask_for_all(opened, _listed(opened.problem, units, group), details, table, as_json)
            return
        known = _prediction(opened.problem, predictions)
        details |= _context(opened.problem, group, known)
        if participants:
            if number != 1 or unit is not None:
                raise click.UsageError("--participant goes with neither -n nor --unit")
            _ask_for_participants(opened, participants, details, table, as_json)
            return
        pulls = opened.ask(number, unit=unit, **details)
        # A single ask gives the reason why there is none.
        pulls = pulls or [opened.ask(unit=unit, **details)]
        _show_pulls(opened, pulls, table, as_json)
        _say_what_is_closed(opened)
        if len(pulls) < number:
            say(
                f"{opened.name}: only {plural(len(pulls), 'pull')} can be given now.",
                err=True,
            )


def _listed(problem: Problem, path: Path, group: str | None) -> list[ListedUnit]:
    """Return the units in a file; all are in the group that is given, if any."""
    found = read_units(path, _many_predicted(problem))
    if group is not None and found[0].group is not None:
        raise click.UsageError("--group must be left out if the table has the column group")
    listed = [one if group is None else one._replace(group=group) for one in found]
    for one in listed:
        _require_group(problem, one)
        _require_prediction(problem, one)
    return listed


def _require_prediction(problem: Problem, one: ListedUnit) -> None:
    """Refuse a prediction that the problem does not take before anything is asked for."""
    stated = getattr(problem, "prediction", None)
    if stated is None:
        return
    try:
        stated.check(one.prediction)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"--units, {one.where}: {error.name}", error.accepted, error.given
        ) from None


def _require_group(problem: Problem, one: ListedUnit) -> None:
    """Refuse a group that the problem does not have before anything is asked for."""
    _context(problem, one.group, one.prediction)
    if one.group is None:
        return
    known = list(dict.fromkeys(str(labels["group"]) for labels in problem.action_labels))
    if one.group not in known:
        raise InvalidArgument(
            f"--units, {one.where}: group", f"must be one of {choices(known)}", one.group
        )


def _ask_for_all(
    opened: AnyStudy,
    listed: Sequence[ListedUnit],
    details: Mapping[str, Any],
    table: Path | None,
    as_json: bool,
) -> None:
    """Ask for a pull of each unit, as far as there are some."""
    pulls: list[StudyPull] = []
    for one in listed:
        try:
            context = _context(opened.problem, one.group, one.prediction)
            pull = opened.ask(unit=one.name, **details, **context)
        except (ExperimentFinished, NothingToAsk) as error:
            if not pulls:
                raise
            left = f"{plural(len(listed) - len(pulls), 'unit')} without one, from {one.where} on"
            say(f"{opened.name}: {left}: {error}", err=True)
            break
        pulls.append(pull)
    units = {pull.id: one.name for pull, one in zip(pulls, listed, strict=False)}
    _show_pulls(opened, pulls, table, as_json, units)
    _say_what_is_closed(opened)


def _ask_for_participants(
    opened: AnyStudy,
    participants: Sequence[str],
    details: Mapping[str, Any],
    table: Path | None,
    as_json: bool,
) -> None:
    """Ask for a pull of each participant, as far as there are some."""
    for number in participants:
        opened.checks.conduct.check_participant(number, 1)
    pulls: list[StudyPull] = []
    for place, number in enumerate(participants):
        try:
            pulls.append(opened.ask(participant=number, **details))
        except FairtrialError as error:
            if not pulls:
                raise
            left = f"{plural(len(participants) - place, 'participant')} without a pull, from"
            say(f"{opened.name}: {left} {number} on: {error}", err=True)
            break
    _show_pulls(opened, pulls, table, as_json, asked=opened.asked_for(pulls))
    _say_what_is_closed(opened)


def _say_what_is_closed(opened: AnyStudy) -> None:
    """Say on standard error that new results will hardly count once a group is closed."""
    # A service says so on its page; from here its whole log would have to be read at every ask.
    if not isinstance(opened, Study) or opened.stopped:
        return
    groups = [one.body["group"] for one in opened.rare_events("close") if one.body.get("group")]
    if groups:
        say(f"{opened.name}: {said_at_ask_of_closed_groups(groups)}.", err=True)


@click.command(epilog=EPILOG)
@click.argument("study")
@table_option
@force_option
@storage_option
@json_option
def outstanding(
    study: str, table: Path | None, force: bool, storage: str | None, as_json: bool
) -> None:
    """Show the open pulls of STUDY: those without a result."""
    check_table(table, force)
    with open_study(study, storage) as opened:
        pulls = opened.outstanding()
        _show_pulls(opened, pulls, table, as_json, asked=opened.asked_for(pulls))


@click.command(epilog=EPILOG, context_settings=_NEGATIVE_NUMBERS)
@click.argument("study")
@click.argument("pull")
@click.argument("values", nargs=-1, metavar="[VALUE]")
@click.option(
    "--unsolicited",
    "labels",
    multiple=True,
    metavar="LABEL=NAME",
    help="Tell an old result that the study did not ask for: arm=NAME, and group=NAME if it has "
    "groups. There is then no PULL, only the VALUE.",
)
@click.option("--key", help="With --unsolicited: results with the same key count only once.")
@decimal_option
@actor_option
@storage_option
@json_option
def tell(
    study: str,
    pull: str,
    values: tuple[str, ...],
    labels: tuple[str, ...],
    key: str | None,
    decimal: str | None,
    actor: str | None,
    storage: str | None,
    as_json: bool,
) -> None:
    """Tell STUDY the result of a pull, or the results in a table.

    PULL is the id of a pull, followed by its VALUE; or by FIELD=VALUE for every field, if a result
    has several. Measures that are known before the others can be told separately; MEASURE=missing
    means that a measure will never be known. Without VALUE, PULL is a table with the columns
    pull_id and value: the one that `ask` wrote, filled in. A column participant (or unit) can stand
    for pull_id. A blank value means that the pull is still open; 'failed' or 'missing' means that
    it will have no result. If any row of a table is refused, nothing is told. Telling the same
    result again changes nothing; only an unsolicited result counts again, unless it has a --key.
    """
    if key is not None and not labels:
        raise click.UsageError("--key is only for --unsolicited results")
    with open_study(study, storage) as opened:
        events_before = opened.n_events
        if labels:
            tried = _action_named(opened.problem, labels)
            value = _outcome(opened.problem, (pull, *values))
            events = [opened.tell(tried, value, actor=actor, request_id=key)]
        elif values:
            events = _told(opened, pull_named(opened, pull), values, actor)
        else:
            events = opened.tell_table(_table_path(pull), decimal=decimal, actor=actor)
        _show_told(opened, events, events_before, as_json)


@click.command(epilog=EPILOG)
@click.argument("study")
@click.argument("pull", required=False)
@click.option("--open", "all_open", is_flag=True, help="Fail all open pulls, without a PULL.")
@click.option(
    "--since",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Fail all open pulls from this number on, such as those of a mistaken `ask -n 1000`.",
)
@click.option("--yes", is_flag=True, help="Fail many pulls without being asked.")
@click.option("--reason", required=True, help="Why there will be no result (recorded).")
@actor_option
@storage_option
@json_option
def fail(
    study: str,
    pull: str | None,
    all_open: bool,
    since: int | None,
    yes: bool,
    reason: str,
    actor: str | None,
    storage: str | None,
    as_json: bool,
) -> None:
    """Tell STUDY that a pull will have no result, or that many will have none.

    PULL is the id of the pull. If a result arrives after all, `tell` still takes it. Where a lost
    pull counts as the worst value, as in block betting with a reward range, so do these, even if
    nobody carried them out: the guarantee holds, but evidence is lost.
    """
    if (pull is not None) + all_open + (since is not None) != 1:
        raise click.UsageError("give one of PULL, --open and --since")
    with open_study(study, storage) as opened:
        if pull is None:
            why = {"reason": reason, "actor": actor}
            _fail_many(opened, since or 0, why, yes or as_json, as_json)
            return
        events_before = opened.n_events
        event = opened.fail(pull_named(opened, pull), reason, actor=actor)
        _show_event(opened, event, events_before, "failed", as_json)


def _fail_many(
    opened: AnyStudy, since: int, why: Mapping[str, Any], confirmed: bool, as_json: bool
) -> None:
    """Fail all open pulls from a number on, after a confirmation."""
    pulls = [pull for pull in opened.outstanding() if pull.number >= since]
    count = plural(len(pulls), "pull")
    if pulls and not confirmed:
        numbers = f"numbers {pulls[0].number:,} to {pulls[-1].number:,}"
        click.confirm(f"{opened.name}: fail {count} ({numbers})?", abort=True)
    failed = 0
    for pull in pulls:
        with suppress(AlreadyTold):  # since the question
            opened.fail(pull, **why)
            failed += 1
    still_open = len(opened.outstanding())
    if as_json:
        emit({"study": opened.name, "failed": failed, "open": still_open, **_decision(opened)})
        return
    said = f"{plural(failed, 'pull')} failed; {plural(still_open, 'pull')} still open"
    say(f"{opened.name}: {said}")
    _say_decision(opened)


@click.command(epilog=EPILOG, context_settings=_NEGATIVE_NUMBERS)
@click.argument("study")
@click.argument("pull")
@click.argument("values", nargs=-1, metavar="[VALUE]")
@click.option("--reason", required=True, help="Why the result is corrected (recorded).")
@click.option("--preview", is_flag=True, help="Show what a table would correct; change nothing.")
@decimal_option
@actor_option
@storage_option
@json_option
def amend(
    study: str,
    pull: str,
    values: tuple[str, ...],
    reason: str,
    preview: bool,
    decimal: str | None,
    actor: str | None,
    storage: str | None,
    as_json: bool,
) -> None:
    """Correct a result that was told to STUDY, or the results in a table.

    PULL is the id of the pull, and VALUE has the same form as in `tell`. The log keeps the old
    value, the new one and the reason. MEASURE=missing takes a measure back that was told before the
    others of its pull, for example of another patient. Without VALUE, PULL is a table as in `tell`:
    its rows correct the results that differ, or none of them if a row is refused.
    """
    if preview and values:
        raise click.UsageError(
            "--preview shows what a table would correct: give one, without VALUE"
        )
    with open_study(study, storage) as opened:
        if not values:
            path = _table_path(pull)
            found = opened.amend_table(path, reason, preview=preview, decimal=decimal, actor=actor)
            _show_corrections(opened, found, preview, as_json)
            return
        events_before = opened.n_events
        given = _measures if opened.problem.measures else _outcome
        value = given(opened.problem, values)
        event = opened.amend(pull_named(opened, pull), value, reason, actor=actor)
        _show_event(opened, event, events_before, "corrected", as_json)


@click.command(epilog=EPILOG)
@click.argument("study")
@click.option(
    "--reason", required=True, help="Why the study stops (recorded, and shown with the answer)."
)
@actor_option
@storage_option
@json_option
def stop(study: str, reason: str, actor: str | None, storage: str | None, as_json: bool) -> None:
    """Stop STUDY without an answer: no more pulls are issued.

    Results of pulls in flight still count when they come.
    """
    with open_study(study, storage) as opened:
        events_before = opened.n_events
        event = opened.stop(reason, actor=actor)
        is_new, still_open = event.seq > events_before, len(opened.outstanding())
        if as_json:
            document = {"changed": is_new, "open": still_open, **_decision(opened)}
            emit({"study": opened.name, **document})
            return
        state = "stopped" if is_new else "was already stopped"
        say(f"{opened.name}: {state}; {plural(still_open, 'pull')} still open")
        _say_decision(opened)


@click.command(epilog=EPILOG)
@click.argument("study")
@click.argument("pull")
@click.argument("number", metavar="[KIT]", required=False)
@actor_option
@storage_option
@json_option
def kit(
    study: str, pull: str, number: str | None, actor: str | None, storage: str | None, as_json: bool
) -> None:
    """Record that the kit with the number KIT was handed out for a pull of STUDY.

    PULL is the id of the pull, or the number of its participant. In a masked study leave out KIT:
    the study chooses another kit for the pull.
    """
    with open_study(study, storage) as opened:
        events_before = opened.n_events
        event = opened.record_kit(pull_named(opened, pull), number, actor=actor)
        if opened.checks.conduct.masked and not as_json:
            say(f"{opened.name}: kit {event.body['kit']}")
            return
        _show_event(opened, event, events_before, "kit recorded", as_json)


@click.command(epilog=EPILOG)
@click.argument("study")
@click.option("--arm", help="The arm to close: it is neither asked for nor named any more.")
@click.option("--group", help="The group to close: nobody is asked for there any more.")
@click.option("--reason", required=True, help="Why (recorded, and shown with the answer).")
@actor_option
@storage_option
@json_option
def close(
    study: str,
    arm: str | None,
    group: str | None,
    reason: str,
    actor: str | None,
    storage: str | None,
    as_json: bool,
) -> None:
    """Close an arm or a group of STUDY, for example because it harms. This cannot be undone.

    Results of pulls in flight still count when they come. The answer is then about the open arms,
    with a smaller confidence. Requests must name an open group once a group is closed.
    """
    if (arm is None) == (group is None):
        raise click.UsageError("give one of --arm and --group")
    with open_study(study, storage) as opened:
        events_before = opened.n_events
        if arm is not None:
            event = opened.close_arm(arm, reason, actor=actor)
        else:
            event = opened.close_group(str(group), reason, actor=actor)
        is_new = event.seq > events_before
        control = getattr(opened.problem, "control", None)
        notes = [said_of_closed_control(arm)] if arm is not None and arm == control else []
        if group is not None and not opened.stopped:
            notes.append(said_of_closed_groups([group]))
        if as_json:
            document = {"study": opened.name, "changed": is_new, "notes": notes}
            emit({**document, **_decision(opened)})
            return
        what = f"arm {arm}" if group is None else f"group {group}"
        say(f"{opened.name}: {what} {'is closed' if is_new else 'was closed before'}")
        for note in notes:
            say(wrapped("Note", note))
        _say_decision(opened)


# ------------------------------------------------------------------------ arguments


def check_table(table: Path | None, force: bool) -> None:
    """Refuse a table before pulls are issued for it."""
    if table is None:
        return
    require_written(table)
    refuse_to_replace(table, force)
    if not table.parent.is_dir():
        raise click.UsageError(f"{table.parent} is not a folder")


def _context(problem: Problem, group: str | None, prediction: Any = None) -> dict[str, Any]:
    if group is not None and "group" not in problem.action_labels[0]:
        raise InvalidArgument("--group", "must be left out: the problem has no groups", group)
    if prediction is not None and not getattr(problem, "predictions", {}):
        accepted = "must be left out: the problem has no prediction"
        raise InvalidArgument("prediction", accepted, prediction)
    given = {"group": group, "prediction": prediction}
    return {name: own for name, own in given.items() if own is not None}


def _many_predicted(problem: Problem) -> list[str]:
    """Return the measures that are predicted, if there are several."""
    names = list(getattr(problem, "predictions", {}))
    return names if len(names) > 1 else []


def _prediction(problem: Problem, values: tuple[str, ...]) -> Any:
    """Return the prediction of a unit, or those of its measures; None if none is given."""
    names = list(getattr(problem, "predictions", {}))
    if not values:
        return None
    if len(values) == 1 and not (problem.measures and "=" in values[0]):
        return _number("--prediction", values[0])
    given = dict(_field_and_value(text, names) for text in values)
    if len(given) != len(values) or not set(given) <= set(names):
        wanted = " ".join(f"--prediction {name}=VALUE" for name in names)
        raise click.UsageError(f"give each prediction once: {wanted}; got {' '.join(values)}")
    return given


def _table_path(given: str) -> Path:
    path = Path(given)
    if path.suffix or path.exists():
        return path
    raise click.UsageError(
        f"{given!r} is not a table such as results.csv; after the id of a pull, give its VALUE"
    )


def pull_named(study: AnyStudy, name: str) -> str:
    """Return the id of a pull, which may be named by the number of its participant."""
    form = study.checks.conduct.participants
    is_number = form is not None and len(name) == len(form)
    return study.pull_of(name).id if is_number else name


def _told(study: AnyStudy, pull: str, values: Sequence[str], actor: str | None) -> list[Event]:
    """Tell a result in the form of the command line; if there are measures, only the given ones."""
    if not study.problem.measures:
        return [study.tell(pull, _outcome(study.problem, values), actor=actor)]
    event = study.tell_known(pull, _measures(study.problem, values), actor=actor)
    return [] if event is None else [event]


def _action_named(problem: Problem, labels: Sequence[str]) -> Pull:
    """Return the unsolicited pull with these labels, each given as LABEL=NAME."""
    pairs = [label.partition("=")[::2] for label in labels]
    names = list(problem.action_labels[0])
    own = {
        (name, str(value)): value for row in problem.action_labels for name, value in row.items()
    }
    given = {name: own.get((name, value), value) for name, value in pairs}
    if set(given) != set(names) or len(pairs) != len(names):
        wanted = " ".join(f"--unsolicited {name}=NAME" for name in names)
        raise click.UsageError(f"give each label once: {wanted}")
    return problem.pull(**given)


def _measures(problem: Problem, values: Sequence[str]) -> dict[str, float | None]:
    """Return the measures on the command line; None for one that will never be known."""
    names = list(problem.measures)
    pairs = [_field_and_value(text, names) for text in values]
    given = dict(pairs)
    if len(given) < len(pairs) or not set(given) <= set(names):
        wanted = " ".join(f"{name}=VALUE" for name in names)
        raise click.UsageError(f"give one or more of these, each only once: {wanted}")
    known = {name: None if value == "missing" else value for name, value in given.items()}
    assert problem.measured is not None, "it has measures"
    try:
        return problem.measured.named(known)
    except InvalidOutcome as error:
        raise InvalidArgument(
            error.name.removeprefix("outcome: "), error.accepted, error.given
        ) from None


def _outcome(problem: Problem, values: Sequence[str]) -> Outcome:
    """Return an outcome from the command line: a number, or fields."""
    fields = list(problem.outcome_fields)
    if not fields and len(values) != 1:
        raise click.UsageError(f"give one VALUE; got {len(values)}")
    given = _fields(values, fields) if fields else _number("VALUE", values[0])
    try:
        problem.check_outcome(given)
    except InvalidOutcome as error:
        # Here the outcome comes from the command line.
        raise InvalidArgument("VALUE", error.accepted, error.given) from None
    return given


def _fields(values: Sequence[str], fields: Sequence[str]) -> dict[str, Any]:
    given = dict(_field_and_value(text, fields) for text in values)
    if set(given) != set(fields) or len(values) != len(fields):
        wanted = " ".join(f"{field}=VALUE" for field in fields)
        raise click.UsageError(f"give each field once: {wanted}; got {' '.join(values)}")
    return given


def _field_and_value(text: str, fields: Sequence[str]) -> tuple[str, Any]:
    # A field may contain an equals sign.
    field = next((name for name in fields if text.startswith(f"{name}=")), text)
    value = text[len(field) + 1 :]
    try:
        return field, _number(field, value)
    except ValueError:
        return field, value


def _number(name: str, text: str) -> float:
    try:
        return number_of(text)
    except ValueError:
        accepted = "must be a number, with a decimal point"
        raise InvalidArgument(name, accepted, text) from None


# ------------------------------------------------------------------------ output


def _show_pulls(
    opened: AnyStudy,
    pulls: Sequence[StudyPull],
    table: Path | None,
    as_json: bool,
    units: Mapping[str, str] | None = None,
    asked: Sequence[Asked] = (),
) -> None:
    """Show pulls, or write them to a table.

    `units` has the unit of each, by the pull's id; `asked` when and for whom each was asked for.
    """
    if table is not None:
        try:
            write_pulls(opened.problem, pulls, table, units, participants_of(pulls, asked))
        except StorageError as error:
            hint = "the pulls are open: `fairtrial study outstanding` shows them again"
            raise StorageError(f"{error}; {hint}") from error
    if as_json:
        emit(
            {
                "study": opened.name,
                "pulls": [
                    ({} if units is None else {"unit": units[pull.id]})
                    | _pull_document(opened.problem, pull)
                    | _asked_document(own)
                    for pull, own in zip_longest(pulls, asked)
                ],
                "table": None if table is None else str(table),
            }
        )
    elif table is not None:
        say(f"{opened.name}: {plural(len(pulls), 'pull')} in {table}")
    elif not pulls:
        say(f"{opened.name}: no pull is open")
    else:
        # A masked study shows fewer labels, and kits.
        names = list(pulls[0].labels)
        has_blocks = any(pull.block is not None for pull in pulls)
        has_kits = any(pull.kits for pull in pulls)
        has_participants = any(own.participant is not None for own in asked)
        rows = [
            (
                *([] if units is None else [units[pull.id]]),
                *(pull.id, str(pull.number)),
                *([str(pull.block)] if has_blocks else []),
                *(str(pull.labels[name]) for name in names),
                *([", ".join(pull.kits)] if has_kits else []),
                *([f"{own.at:%Y-%m-%d}"] if own else []),
                *([str(own.participant)] if own and has_participants else []),
            )
            for pull, own in zip_longest(pulls, asked)
        ]
        first = ([] if units is None else ["unit"]) + ["pull_id", "number"]
        more = ["block"] if has_blocks else []
        last = ["kits"] if has_kits else []
        last += ["asked_on"] if asked else []
        last += ["participant"] if has_participants else []
        print_rows((*first, *more, *names, *last), rows)


def _asked_document(asked: Asked | None) -> dict[str, Any]:
    if asked is None:
        return {}
    whom = {} if asked.participant is None else {"participant": asked.participant}
    return {"asked_at": asked.at.isoformat(), **whom}


def _pull_document(problem: Problem, pull: StudyPull) -> dict[str, Any]:
    document: dict[str, Any] = {"pull_id": pull.id, "number": pull.number}
    if pull.block is not None:
        document["block"] = pull.block
    conditions = {} if pull.action == MASKED else dict(problem.conditions(pull.action))
    more: dict[str, Any] = {"conditions": conditions} if conditions else {}
    if pull.kits:
        more["kits"] = list(pull.kits)
    return document | {"labels": dict(pull.labels)} | more


def _show_told(
    opened: AnyStudy, events: Sequence[Event], events_before: int, as_json: bool
) -> None:
    new = sum(event.seq > events_before for event in events)
    before = len(events) - new
    counts = {"told": new, "told_before": before, "open": len(opened.outstanding())}
    if as_json:
        emit({"study": opened.name, **counts, **_decision(opened)})
        return
    repeated = f" ({before:,} more had been told before, and did not change)" if before else ""
    taken = plural(new, "result") if new else "no new result"
    still_open = plural(counts["open"], "pull")
    say(f"{opened.name}: {taken} taken{repeated}; {still_open} still open")
    _say_decision(opened)


def _show_corrections(
    opened: AnyStudy, found: Sequence[Correction], preview: bool, as_json: bool
) -> None:
    if as_json:
        rows = [_correction_document(own) for own in found]
        emit({"study": opened.name, "preview": preview, "corrections": rows, **_decision(opened)})
        return
    if found:
        # Whoever fills in a table knows participants by their numbers, and pulls by their ids.
        has_numbers = any(own.participant is not None for own in found)
        rows_shown = [
            (
                *([own.participant or ""] if has_numbers else []),
                *(own.pull_id, str(own.before), str(own.after)),
            )
            for own in found
        ]
        first = ["participant"] if has_numbers else []
        print_rows((*first, "pull_id", "before", "after"), rows_shown)
    did = "would be corrected; nothing was changed" if preview else "corrected"
    say(f"{opened.name}: {plural(len(found), 'result')} {did}")
    _say_decision(opened)


def _correction_document(own: Correction) -> dict[str, Any]:
    whom = {} if own.participant is None else {"participant": own.participant}
    return {**whom, "pull_id": own.pull_id, "before": own.before, "after": own.after}


def _show_event(
    opened: AnyStudy, event: Event, events_before: int, verb: str, as_json: bool
) -> None:
    is_new = event.seq > events_before
    if as_json:
        document = {"pull_id": event.pull_id, "changed": is_new, **_decision(opened)}
        emit({"study": opened.name, **document})
        return
    say(f"{opened.name}: pull {event.pull_id} {'' if is_new else 'was already '}{verb}")
    _say_decision(opened)


def _decision(opened: AnyStudy) -> Mapping[str, Any]:

    # A token for recruitment or treatment shows no results.
    with suppress(AccessRefused):
        return {"recommendation": opened.recommend().to_dict()}
    return {"stopped": opened.stopped}


def _say_decision(opened: AnyStudy) -> None:
    if not opened.stopped:
        return
    try:
        say(answer_text(opened.progress(), opened.policy.endless))
    except AccessRefused:
        say(f"{opened.name}: has stopped")
