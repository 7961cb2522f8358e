"""`fairtrial simulate`: run the policy of a configuration many times."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from fairtrial.cli.config import load_configuration
from fairtrial.cli.display import characteristics_tables, print_table, wrapped
from fairtrial.cli.evaluation import Evaluation, evaluate
from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.output import answer, emit, json_option, say
from fairtrial.cli.planning import simulate_configuration
from fairtrial.core.files import replacing
from fairtrial.core.wording import listed
from fairtrial.report import write_characteristics
from fairtrial.simulation import example_runs
from fairtrial.version import __version__

__all__ = ["simulate"]

_INPUTS = "inputs.txt"
"""What the finished runs in a folder are of."""


@click.command(epilog=EPILOG)
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--replications", type=click.IntRange(min=1), help="Number of runs.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--scenarios",
    is_flag=True,
    help="Simulate several scenarios: no difference, half the assumed differences, the assumed "
    "means, harm, and those of the blocks [[scenario]] in the file.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="With --scenarios: write the report of the plan to this HTML file as well.",
)
@click.option(
    "--csv",
    "table",
    type=click.Path(path_type=Path),
    help="With --scenarios: write the figures to this CSV file as well.",
)
@json_option
def simulate(
    config: Path,
    replications: int | None,
    seed: int,
    scenarios: bool,
    report: Path | None,
    table: Path | None,
    as_json: bool,
) -> None:
    """Run the policy of the file CONFIG many times in its simulated or replayed environment.

    With --scenarios, show how often it is right, wrong and undecided, and how long it takes, both
    if the means are as assumed and if they are not.
    """
    for name, file in (("--report", report), ("--csv", table)):
        if file is not None and not scenarios:
            raise click.UsageError(f"{name} needs --scenarios")
        if file is not None and not file.absolute().parent.is_dir():
            raise click.UsageError(f"{name} must be a file in a folder that exists; got {file}")
    if scenarios:
        _scenarios(config, replications, seed, report, table, as_json)
        return
    configuration = load_configuration(config, "simulate")
    result = simulate_configuration(configuration, seed=seed, replications=replications)
    summary = result.summary()
    answer(
        as_json, {"seed": result.seed, "horizon": result.horizon, **summary.to_dict()}, str(summary)
    )


def _scenarios(
    config: Path,
    replications: int | None,
    seed: int,
    report: Path | None,
    table: Path | None,
    as_json: bool,
) -> None:
    configuration = load_configuration(config, "simulate")
    keep = None if report is None and table is None else Path(f"{report or table}.unfinished")
    if keep is not None:
        _open(keep, f"{__version__} {seed} {replications}\n{configuration.text}")
    made = evaluate(configuration, seed=seed, replications=replications, keep=keep)
    if made.interrupted:
        names = listed(list(dict.fromkeys(row.scenario.name for row in made.found)))
        say(
            f"Interrupted: these results are of the scenarios that were finished ({names})",
            err=True,
        )
    if table is not None:
        _write_table(made, table)
    if report is not None:
        _write_report(made, report, config)
    if as_json:
        emit(made.to_dict())
    else:
        _print(made)
    if made.interrupted:
        if keep is not None:
            say("The same command goes on from there", err=True)
        raise SystemExit(ExitCode.INTERRUPTED)
    if keep is not None:
        _clear(keep)


def _open(keep: Path, inputs: str) -> None:
    """Prepare the folder of finished runs; empty it if they are of other inputs."""
    note = keep / _INPUTS
    before = note.read_text(encoding="utf-8") if note.is_file() else None
    if before == inputs:
        say(f"Going on from the runs that were finished before, in {keep}", err=True)
        return
    if before is not None:
        _clear(keep)
        text = "the file, the options or the version of fairtrial have changed since then"
        say(f"Starting again, without the runs in {keep}: {text}", err=True)
    keep.mkdir(exist_ok=True)
    note.write_text(inputs, encoding="utf-8")


def _clear(keep: Path) -> None:
    """Remove finished runs, and the folder if it has nothing else."""
    for file in (*keep.glob("*.npz"), keep / _INPUTS):
        file.unlink(missing_ok=True)
    with suppress(OSError):  # somebody else's files are in it
        keep.rmdir()


def _print(made: Evaluation) -> None:
    found = made.found
    if found.about:
        say(found.about)
    say(f"{found.replications:,} runs of {found.policy!r} in each scenario")
    for one in characteristics_tables(found):
        print_table(one)
    error = 100 * found.monte_carlo_error()
    text = (
        f"in brackets the {100 * found.level:g} % interval for this number of runs; "
        f"a probability near one half has a standard error of {error:.2g} %"
    )
    say(wrapped("Note", text))


def _write_table(made: Evaluation, file: Path) -> None:
    with replacing(file) as part:
        part.write_text(made.found.to_csv(), encoding="utf-8", newline="\n")


def _write_report(made: Evaluation, file: Path, config: Path) -> None:
    found, configuration = made.found, made.configuration
    assumed = [row for row in found if row.scenario.environment is configuration.planned]
    examples = example_runs(found.policy, assumed[-1]) if assumed else []
    write_characteristics(
        found,
        file,
        title=f"{configuration.study.name}: plan and operating characteristics",
        curve=made.curve,
        examples=examples,
        configuration=configuration.text,
        protocol=configuration.protocol.in_words,
        starts=configuration.plan.starts,
        command=(
            f"fairtrial simulate {config.name} --scenarios "
            f"--replications {found.replications} --seed {found.seed}"
        ),
    )
