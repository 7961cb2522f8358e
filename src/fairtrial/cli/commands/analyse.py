"""`fairtrial analyse`: analyse a finished experiment, with the guarantee of a live study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairtrial.cli.config import load_configuration
from fairtrial.cli.display import answer_text, wrapped
from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.output import emit, json_option, say
from fairtrial.cli.status_tables import print_standing
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument
from fairtrial.presentation.sources import minimizes
from fairtrial.report import write_report
from fairtrial.study.analysis import FROM_TABLE
from fairtrial.study.analysis import analyse as analyse_table

if TYPE_CHECKING:
    from fairtrial.study import Study

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
    name: str | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Analyse the finished experiment in TABLE with the problem and delta in the file CONFIG.

    TABLE has one row per assigned unit; a blank outcome is missing, and counts as lost.
    The answer has the guarantee of a study that is run by block betting, if neither the order of
    assignment nor the choice of arm for a unit depends on outcomes of the same block. The study is
    kept in the file's storage: `fairtrial study show` and `report` can read it.
    """
    configuration = load_configuration(config, "analyse")
    study = analyse_table(
        configuration.problem,
        table,
        configuration.policy.delta or 0.05,
        order=order,
        outcome=outcome,
        columns=dict(_label_and_column(text) for text in columns),
        group_weights=FROM_TABLE if weights_from_table else None,
        storage=configuration.study.storage,
        name=name or f"{configuration.study.name}-analysis",
    )
    with study:
        _show(study, as_json)
        if report is not None:
            write_report(study, report)
        decided = study.recommend().decided
    if not decided:
        raise click.exceptions.Exit(ExitCode.NO_ANSWER)


def _label_and_column(text: str) -> tuple[str, str]:
    label, equals, column = text.partition("=")
    if not (equals and label and column):
        raise InvalidArgument("--column", "must be LABEL=COLUMN, such as arm=treatment", text)
    return label.strip(), column.strip()


def _show(study: Study, as_json: bool) -> None:
    progress, health = study.progress(), study.health()
    assigned = len(study.policy.get_params()["assigned"])
    document = {
        "study": study.name,
        "units": {"assigned": assigned, "used": progress.asked, "lost": health["lost"]},
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
    say(answer_text(progress, endless=False))
    print_standing(progress, minimizes(study))
    for warning in health["warnings"]:
        say(wrapped("Warning", warning))
    say(f"Kept as the study {study.name!r}.")
