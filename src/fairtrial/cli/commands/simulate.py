"""`fairtrial simulate`: many runs of a configuration's policy."""

from __future__ import annotations

from pathlib import Path

import click

from fairtrial.cli.exits import EPILOG
from fairtrial.cli.output import emit, json_option, say

__all__ = ["simulate"]


@click.command(epilog=EPILOG, short_help="Run a policy many times in a simulated environment.")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--replications", type=click.IntRange(min=1), help="Number of runs.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@json_option
def simulate(config: Path, replications: int | None, seed: int, as_json: bool) -> None:
    """Run the policy of the file CONFIG many times in its simulated or replayed environment."""
    from fairtrial.cli.config import load_configuration
    from fairtrial.cli.planning import simulate_configuration

    configuration = load_configuration(config, "simulate")
    result = simulate_configuration(configuration, seed=seed, replications=replications)
    summary = result.summary()
    if as_json:
        emit({"seed": result.seed, "horizon": result.horizon, **summary.to_dict()})
    else:
        say(str(summary))
