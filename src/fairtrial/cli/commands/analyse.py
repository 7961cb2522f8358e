"""`fairtrial analyse`: analyse a finished experiment, with the guarantee of a live study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairtrial.cli.config import load_configuration
from fairtrial.cli.display import answer_text, counting, wrapped
from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.output import decimal_option, emit, json_option, say
from fairtrial.cli.status_tables import print_standing
from fairtrial.core.tables import open_table
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument
from fairtrial.presentation.sources import minimizes
from fairtrial.report import write_report
from fairtrial.study.analysis import FROM_TABLE, study_of_table

if TYPE_CHECKING:
    from fairtrial.study import Study
    from fairtrial.study.analysis import RepeatedUnits

__all__ = ["analyse"]


@click.command(epilog=EPILOG)
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@click.option(
    "--order",
    required=True,
    metavar="COLUMN",
    help="Column with the order of assignment: numbers, or dates such as 2026-11-23. 'as given' "
    "means that the rows are in this order already.",
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
@decimal_option
@click.option(
    "--name", help="Name of the study to keep; by default the name in the file and '-analysis'."
)
@click.option(
    "--report", type=click.Path(path_type=Path), help="Write the report to this file as well."
)
@json_option
def analyse(
    config: Path,
    table: Path,
    order: str,
    outcome: str,
    columns: tuple[str, ...],
    weights_from_table: bool,
    unit: str | None,
    decimal: str | None,
    name: str | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Analyse the finished experiment in TABLE with the problem and delta in the file CONFIG.

    TABLE has one row per assigned unit; an outcome that is blank, 'failed' or 'missing' counts as
    lost.
    The answer has the guarantee of a study that is run by block betting, if neither the order of
    assignment nor the choice of arm for a unit depends on outcomes of the same block. The study is
    kept in the file's storage: `fairtrial study show` and `report` can read it.
    """
    configuration = load_configuration(config, "analyse")
    tables = configuration.tables
    unit = unit or tables.unit
    rows = open_table(table, decimal or tables.decimal)
    with counting("Analysing units") as show:
        study, repeated, remarks = study_of_table(
            configuration.problem,
            rows,
            configuration.policy.delta or 0.05,
            order=order,
            outcome=outcome,
            columns=dict(_label_and_column(text) for text in columns),
            group_weights=FROM_TABLE if weights_from_table else None,
            unit=unit,
            storage=configuration.study.storage,
            name=name or f"{configuration.study.name}-analysis",
            on_progress=show,
        )
    with study:
        _show(study, repeated, remarks, as_json)
        if report is not None:
            left_out = "; ".join(repeated.in_words())
            facts = {} if unit is None else {f"repeated units ({unit})": left_out or "none"}
            if remarks:
                facts["assumptions about the table"] = "; ".join(remarks)
            write_report(study, report, facts=facts)
        decided = study.recommend().decided
    if not decided:
        raise click.exceptions.Exit(ExitCode.NO_ANSWER)


def _label_and_column(text: str) -> tuple[str, str]:
    label, equals, column = text.partition("=")
    if not (equals and label and column):
        raise InvalidArgument("--column", "must be LABEL=COLUMN, such as arm=treatment", text)
    return label.strip(), column.strip()


def _show(study: Study, repeated: RepeatedUnits, remarks: Sequence[str], as_json: bool) -> None:
    progress, health = study.progress(), study.health()
    assigned = len(study.policy.get_params()["assigned"])
    document = {
        "study": study.name,
        "units": {
            "assigned": assigned,
            "used": progress.asked,
            "lost": health["lost"],
            "left_out": asdict(repeated),
        },
        "remarks": list(remarks),
        "progress": progress.to_dict(),
        "health": health,
    }
    if as_json:
        emit(document)
        return
    say(
        f"A finished experiment with {plural(assigned, 'unit')}. The answer uses the first "
        f"{progress.asked:,}; {health['lost']:,} of them have no outcome."
    )
    for remark in (*repeated.in_words(), *remarks):
        say(wrapped("Warning", remark))
    say(answer_text(progress, endless=False))
    print_standing(progress, minimizes(study))
    for warning in health["warnings"]:
        say(wrapped("Warning", warning))
    say(f"Kept as the study {study.name!r}.")
