"""`fairtrial plan`: how many pulls it will take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairtrial.cli.exits import EPILOG
from fairtrial.cli.output import emit, json_option, say, shown_number

if TYPE_CHECKING:
    from fairtrial.cli.planning import Plan
    from fairtrial.subpopulations import Complexity

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
    """Say how many pulls an experiment will take, if the environment is as assumed.

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
    from fairtrial.cli.display import print_table, shares_table, wrapped

    if made.about:
        say(made.about)
    level = "" if made.delta is None else f" at delta = {made.delta:g}"
    say(f"Plan{level}, if the means are as assumed")
    say(wrapped("Answer", _answer(made)))
    if made.range_warning:
        say(wrapped("Warning", made.range_warning))
    found = made.complexity
    if found is not None and found.allocation is None:
        say(wrapped("Pulls", f"no number is enough to be sure: {found.reason}"))
    elif found is not None:
        _print_bound(made, found)
    if made.certifying is not None:
        budgets = ", ".join(
            f"{arm} {'never' if rows is None else f'{rows:,}'}"
            for arm, rows in made.certifying.items()
        )
        say(wrapped("Proven by", f"{budgets} rows, as the verdict on each is expected"))
    if made.assumes:
        say(wrapped("Assumes", made.assumes))
    say(f"Simulated: {replace(made.simulation.summary(), about=None)}")
    if found is not None and found.allocation is not None:
        print_table(
            shares_table("Optimal allocation", made.problem.action_labels, found.allocation)
        )


def _answer(made: Plan) -> str:
    from fairtrial.cli.display import name_of
    from fairtrial.core.wording import listed

    if made.truth.tied:
        return f"none: {listed(made.right)} are equally good; to name one of them counts as wrong"
    if made.right:
        return f"among {listed(made.right)}: all of them count as right"
    return "no arm is acceptable" if made.answer is None else name_of(made.answer)


def _print_bound(made: Plan, found: Complexity) -> None:
    from fairtrial.cli.display import wrapped

    certified = f"certified between {found.lower:.6g} and {found.upper:.6g}"
    say(wrapped("T*", f"{found.value:.6g} ({certified})"))
    bound = shown_number(made.lower_bound)
    say(wrapped("Lower bound", f"{bound} pulls on average, {made.rules_bounded}"))
