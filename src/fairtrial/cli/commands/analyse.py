"""`fairtrial analyse`: analyse a finished experiment, with the guarantee of a live study."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from fairtrial.cli.config import load_configuration
from fairtrial.cli.display import answer_text, print_table, wrapped
from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.output import decimal_option, emit, json_option, say
from fairtrial.cli.status_tables import print_standing
from fairtrial.core.collection import without_collection
from fairtrial.core.counting import counting
from fairtrial.core.tables import open_table
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.presentation.limits import document_of
from fairtrial.presentation.sources import minimizes, moments_of
from fairtrial.report import write_report
from fairtrial.study.analysis import FROM_TABLE, study_of_table

if TYPE_CHECKING:
    from fairtrial.core import Policy
    from fairtrial.study.analysis import Analysis
    from fairtrial.study.segments import SegmentEffects

__all__ = ["analyse"]

_MOST_AUDITED = 100_000
"""The most events that are audited for a report."""

_ONLY_LIVE = frozenset({"batch", "initial_pulls", "max_pulls", "randomize", "block_draws"})
"""Arguments of a policy that only say how a live study makes its pulls."""


@click.command(epilog=EPILOG)
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@click.option(
    "--order",
    required=True,
    metavar="COLUMN",
    help="Column with the order of assignment: numbers, or dates such as 2026-11-23. 'as given' "
    "means that the rows are in this order already; 'at random', for a table of counts, that the "
    "order is not known.",
)
@click.option(
    "--outcome",
    default="outcome",
    show_default=True,
    metavar="COLUMN",
    help="Column with the outcomes.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="LABEL=COLUMN",
    help="Column with a label, such as arm=treatment; by default the column named like the label.",
)
@click.option(
    "--weights-from-table",
    is_flag=True,
    help="Weight each group by its share of the rows, instead of as stated in the file.",
)
@click.option(
    "--unit",
    metavar="COLUMN",
    help="Column that names the unit of each row, such as a user: units that appear in several "
    "arms are left out, and the first result of a unit counts.",
)
@click.option(
    "--count",
    metavar="COLUMN",
    help="Column with the number of units that each row stands for, if the table has counts.",
)
@click.option(
    "--successes",
    metavar="COLUMN",
    help="With --count, instead of --outcome: column with the number of these units whose outcome "
    "is 1, such as conversions; that of the others is 0.",
)
@click.option(
    "--prediction",
    "predictions",
    multiple=True,
    metavar="COLUMN",
    help="If the problem has a prediction: column with what was known of each unit before its arm "
    "was drawn. Outcomes of this table must not have been used to compute it. If several measures "
    "are predicted, MEASURE=COLUMN for each.",
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="COLUMN",
    help="Instead of --prediction: column with a number that was known of each unit before. Can be "
    "repeated: predictions are fitted to these columns between blocks.",
)
@click.option(
    "--segment",
    "segments",
    multiple=True,
    metavar="COLUMN",
    help="Compare the arms within each value of this column as well, such as each country. Can be "
    "repeated: all intervals hold together.",
)
@decimal_option
@click.option(
    "--name", help="Name of the study to keep; by default the name in the file and '-analysis'."
)
@click.option(
    "--report", type=click.Path(path_type=Path), help="Write the report to this file as well."
)
@json_option
@without_collection()
def analyse(
    config: Path,
    table: Path,
    order: str,
    outcome: str,
    columns: tuple[str, ...],
    weights_from_table: bool,
    unit: str | None,
    count: str | None,
    successes: str | None,
    predictions: tuple[str, ...],
    features: tuple[str, ...],
    segments: tuple[str, ...],
    decimal: str | None,
    name: str | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Analyse the finished experiment in TABLE with the problem, delta and losses in CONFIG.

    TABLE has one row per assigned unit, or with --count one row for several units; an outcome that
    is blank, 'failed' or 'missing' counts as lost.
    The answer has the guarantee of a study that is run by block betting, if neither the order of
    assignment nor the choice of arm for a unit depends on outcomes of the same block. Checks of the
    table warn if its units per arm, missing outcomes, order or single units look wrong. The study
    is kept in the file's storage: `fairtrial study show` and `report` can read it.
    """
    configuration = load_configuration(config, "analyse")
    losses, unused = _read_of_policy(configuration.policy)
    tables = configuration.tables
    unit = unit or tables.unit
    rows = open_table(table, decimal or tables.decimal)
    with counting("Analysing", "unit") as show, _outcomes_of_a_table():
        found = study_of_table(
            configuration.problem,
            rows,
            configuration.policy.delta or 0.05,
            order=order,
            outcome=outcome,
            columns=dict(_label_and_column(text) for text in columns),
            group_weights=FROM_TABLE if weights_from_table else None,
            unit=unit,
            count=count or tables.count,
            successes=successes or tables.successes,
            prediction=_columns_of(configuration.problem, predictions),
            features=features,
            shares=tables.shares,
            losses=losses,
            segments=segments,
            points=None if report is None else moments_of(configuration.problem.n_actions),
            storage=configuration.study.storage,
            name=name or f"{configuration.study.name}-analysis",
            on_progress=show,
        )
    with found.study as study:
        _show(found, unused, as_json)
        if report is not None:
            # The log was written just now, so the last events stand for a long one.
            is_long = study.n_events > _MOST_AUDITED
            if is_long:
                say(f"Writing {report} ...", err=True)
            audit = study.verify_last(_MOST_AUDITED) if is_long else study.verify()
            write_report(study, report, verification=audit)
        decided = study.recommend().decided
    if not decided:
        raise click.exceptions.Exit(ExitCode.NO_ANSWER)


def _read_of_policy(policy: Policy) -> tuple[str, tuple[str, ...]]:
    """Return what the file says about losses, and a remark on arguments of live studies.

    Raises
    ------
    InvalidArgument
        If the file states another policy, or an argument that would change what the answer claims.
    """
    given = policy.get_params()
    if "assigned" not in given:
        accepted = "must be 'BlockBetting' or left out: only it analyses a finished experiment"
        raise InvalidArgument("policy.name", accepted, type(policy).__name__)
    usual = inspect.signature(type(policy)).parameters
    own = set(given) - {"problem", "delta", "losses", "seed"}
    stated = [name for name in usual if name in own and given[name] != usual[name].default]
    for name in stated:
        if name not in _ONLY_LIVE:
            accepted = "must be left out: an analysis reads only delta and losses of [policy]"
            raise InvalidArgument(f"policy.{name}", accepted, given[name])
    unused = ", ".join(f"policy.{name}" for name in stated)
    remark = f"an analysis does not use {unused}: this is about the pulls of a live study"
    return given.get("losses", "informative"), (remark,) if stated else ()


@contextmanager
def _outcomes_of_a_table() -> Iterator[None]:
    """Let an outcome that is refused be a mistake in the table: nothing measures here."""
    try:
        yield
    except InvalidOutcome as error:
        raise InvalidArgument(error.name, error.accepted, error.given) from None


def _label_and_column(text: str) -> tuple[str, str]:
    label, equals, column = text.partition("=")
    if not (equals and label and column):
        raise InvalidArgument("--column", "must be LABEL=COLUMN, such as arm=treatment", text)
    return label.strip(), column.strip()


def _columns_of(problem: Any, given: tuple[str, ...]) -> str | dict[str, str] | None:
    """Return the column of the predictions, or of those of each measure."""
    parts = [text.partition("=") for text in given]
    if problem.measures and parts and all(equals for _, equals, _ in parts):
        return {measure.strip(): column.strip() for measure, _, column in parts}
    if len(given) > 1:
        accepted = "must be given once, or be MEASURE=COLUMN for each measure that is predicted"
        raise InvalidArgument("--prediction", accepted, list(given))
    return given[0] if given else None


def _show(found: Analysis, unused: tuple[str, ...], as_json: bool) -> None:
    study, progress, health = found.study, found.study.progress(), found.study.health()
    assigned = len(study.policy.get_params()["assigned"]) + found.without_outcome
    remarks = (*unused, *found.remarks)
    document = {
        "study": study.name,
        "units": {
            "assigned": assigned,
            "used": progress.asked,
            "lost": health["lost"],
            "without_outcome": found.without_outcome,
            "left_out": asdict(found.repeated),
        },
        "remarks": list(remarks),
        "table": found.check.to_dict(),
        "segments": None if found.segments is None else found.segments.to_dict(),
        "progress": document_of(progress),
        "health": health,
    }
    if as_json:
        emit(document)
        return
    used = "The answer uses" if progress.recommendation.decided else "There is no answer from"
    left_out, lost = "", f"; {health['lost']:,} of them have no outcome"
    if found.without_outcome:
        left_out = f", of which {found.without_outcome:,} without an outcome are left out"
        lost = " of the others"
    say(
        f"A finished experiment with {plural(assigned, 'unit')}{left_out}. {used} the first "
        f"{progress.asked:,}{lost}."
    )
    problems = found.check.in_words()
    for remark in (*found.repeated.in_words(), *remarks, *problems):
        say(wrapped("Warning", remark))
    say(answer_text(progress, endless=False))
    print_standing(progress, minimizes(study))
    if found.segments is not None:
        _show_segments(found.segments)
    for warning in health["warnings"]:
        if warning not in problems:
            say(wrapped("Warning", warning))
    say(f"Kept as the study {study.name!r}.")


def _show_segments(found: SegmentEffects) -> None:
    table = Table(title="Differences by segment", title_justify="left")
    for name in ("column", "segment", "difference of"):
        table.add_column(name)
    for name in ("units", "no outcome", "difference", "interval"):
        table.add_column(name, justify="right")
    for effect in found.effects:
        table.add_row(
            *(effect.column, effect.segment, f"{effect.arm} - {effect.reference}"),
            *(f"{effect.units:,}", f"{effect.missing:,}"),
            *effect.rounded(),
        )
    print_table(table)
    say(wrapped("Note", found.note))
