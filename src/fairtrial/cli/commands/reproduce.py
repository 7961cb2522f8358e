"""`fairtrial reproduce`: a paper's published tables beside ours."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

from fairtrial.cli.exits import EPILOG
from fairtrial.cli.output import emit, json_option

__all__ = ["reproduce"]


@click.group(epilog=EPILOG, short_help="Compute a paper's tables beside ours.")
def reproduce() -> None:
    """Compute a paper's published tables again and print them beside ours."""


@reproduce.command(epilog=EPILOG)
@click.option("--quick", is_flag=True, help="Fewer replications: a minute or so.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the tables and figures into this folder.",
)
@click.option(
    "--email-data",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Hillstrom's e-mail table, which cannot be shipped; without it that world is left out.",
)
@json_option
def baics(quick: bool, output: Path | None, email_data: Path | None, as_json: bool) -> None:
    """Best arm identification with fairness constraints on subpopulations (Wu, Zheng, Zhu)."""
    from fairtrial.reproduce import baics as paper

    # What is printed on the way must not be mixed with the document.
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        report = paper.main(quick=quick, output=output, email_data=email_data)
    if as_json:
        emit(report.to_dict())
