"""`fairtrial reproduce`: a paper's published tables beside ours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from fairtrial.cli.exits import EPILOG
from fairtrial.cli.output import emit, json_option

__all__ = ["reproduce"]


@click.group(epilog=EPILOG, short_help="Compute a paper's tables beside ours.")
def reproduce() -> None:
    """Compute a paper's published tables again and print them beside ours."""


_quick_option = click.option("--quick", is_flag=True, help="Fewer replications: a minute or so.")
_output_option = click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the tables and figures into this folder.",
)


@reproduce.command(epilog=EPILOG)
@_quick_option
@_output_option
@click.option(
    "--email-data",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Hillstrom's e-mail table, which cannot be shipped; without it that world is left out.",
)
@json_option
def baics(quick: bool, output: Path | None, email_data: Path | None, as_json: bool) -> None:
    """Best arm identification with fairness constraints on subpopulations (Wu, Zheng, Zhu)."""
    from fairtrial.reproduce import baics as paper

    _show(paper.main, as_json, quick=quick, output=output, email_data=email_data)


@reproduce.command("fair-mab", epilog=EPILOG)
@_quick_option
@_output_option
@json_option
def fair_mab(quick: bool, output: Path | None, as_json: bool) -> None:
    """Guarantee shares in the stochastic bandit problem (Patil, Ghalme, Nair, Narahari)."""
    from fairtrial.reproduce import fair_mab as paper

    _show(paper.main, as_json, quick=quick, output=output)


@reproduce.command(epilog=EPILOG)
@_quick_option
@_output_option
@json_option
def causal(quick: bool, output: Path | None, as_json: bool) -> None:
    """Identify the best fair intervention in a causal model (Gao, Feng)."""
    from fairtrial.reproduce import causal as paper

    _show(paper.main, as_json, quick=quick, output=output)


@reproduce.command(epilog=EPILOG)
@_quick_option
@_output_option
@json_option
def delayed(quick: bool, output: Path | None, as_json: bool) -> None:
    """Find the best arms in bandits with delayed feedback (Grover and others)."""
    from fairtrial.reproduce import delayed as paper

    _show(paper.main, as_json, quick=quick, output=output)


@reproduce.command(epilog=EPILOG)
@_quick_option
@_output_option
@json_option
def linear(quick: bool, output: Path | None, as_json: bool) -> None:
    """Identify the best of many arms that are described by features (Soare, Lazaric, Munos)."""
    from fairtrial.reproduce import linear as paper

    _show(paper.main, as_json, quick=quick, output=output)


def _show(main: Callable[..., Any], as_json: bool, **options: Any) -> None:
    # What is printed on the way must not be mixed with the document.
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        report = main(**options)
    if as_json:
        emit(report.to_dict())
