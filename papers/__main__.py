"""``./dev papers NAME``: compute a paper's published tables again, beside ours."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from fairtrial.errors import FairtrialError
from papers import baics, causal, delayed, fair_mab, linear
from papers.paper import Paper

PAPERS: dict[str, Paper[Any]] = {
    "baics": baics.PAPER,
    "linear": linear.PAPER,
    "delayed": delayed.PAPER,
    "causal": causal.PAPER,
    "fair-mab": fair_mab.PAPER,
}


@click.command()
@click.argument("name", type=click.Choice(list(PAPERS)))
@click.option("--quick", is_flag=True, help="Use fewer replications: about a minute.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the tables and figures into this folder.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Source of all randomness.")
@click.option(
    "--email-data",
    type=click.Path(path_type=Path, dir_okay=False),
    help="For baics: file of Hillstrom's e-mail table, which cannot be shipped; omitted if not "
    "given.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the tables as JSON.")
def main(
    name: str, quick: bool, output: Path | None, seed: int, email_data: Path | None, as_json: bool
) -> None:
    """Compute the published tables of paper NAME again and print them beside ours."""
    if email_data is not None and name != "baics":
        raise click.UsageError("--email-data is for baics only")
    try:
        paper = PAPERS[name] if email_data is None else baics.with_email(email_data)
        # Sections that are printed in between must not get into the document.
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            report = paper.reproduce(quick, output, seed)
    except FairtrialError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2, allow_nan=False))


if __name__ == "__main__":
    main(prog_name="./dev papers")
