"""`fairtrial plan`: how many pulls it will take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairtrial.cli.exits import EPILOG
from fairtrial.cli.output import emit, json_option, say, shown_number

if TYPE_CHECKING:
    from fairtrial.cli.planning import Plan

__all__ = ["plan"]


@click.command(epilog=EPILOG, short_help="Say how many pulls an experiment will take.")
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Plan for this probability of a wrong answer instead of the file's.",
)
@json_option
def plan(config: Path, delta: float | None, as_json: bool) -> None:
    """Say how many pulls an experiment will take, if the world is as assumed.

    The means to assume are those of [plan] in the file CONFIG, or else of its source.
    """
    from fairtrial.cli.config import load_configuration
    from fairtrial.cli.planning import make_plan

    made = make_plan(load_configuration(config, "plan"), delta)
    if as_json:
        emit(made.to_dict())
    else:
        _print(made)


def _print(made: Plan) -> None:
    from fairtrial.cli.display import name_of, print_table, shares_table, wrapped

    found = made.complexity
    answer = "no arm is acceptable" if made.answer is None else name_of(made.answer)
    level = "" if made.delta is None else f" at delta = {made.delta:g}"
    say(f"Plan{level}, if the means are as assumed")
    say(wrapped("Answer", answer))
    if made.range_warning:
        say(wrapped("Warning", made.range_warning))
    if made.certifying is not None:
        budgets = ", ".join(
            f"{arm} {'never' if rows is None else f'{rows:,}'}"
            for arm, rows in made.certifying.items()
        )
        say(wrapped("Proven by", f"{budgets} rows, as the verdict on each is expected"))
    if found is None:
        say(f"Simulated: {'' if made.simulation is None else made.simulation.summary()}")
        return
    if made.simulation is None or found.weights is None:
        say(wrapped("Pulls", f"no rule can ever stop: {found.reason}"))
        return
    certified = f"certified between {found.lower:.6g} and {found.upper:.6g}"
    bound = shown_number(made.lower_bound)
    say(wrapped("T*", f"{found.value:.6g} ({certified})"))
    whatever = f"{bound} pulls on average, {made.rules_bounded}"
    if getattr(made.problem, "reward_range", None) is not None:
        whatever += ", for Gaussian rewards of the same spread"
    say(wrapped("Lower bound", whatever))
    say(f"Simulated: {made.simulation.summary()}")
    print_table(shares_table("Optimal allocation", made.problem.action_labels, found.weights))
