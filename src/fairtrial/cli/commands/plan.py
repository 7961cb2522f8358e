"""`fairtrial plan`: how many pulls an experiment will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairtrial.cli.config import load_configuration
from fairtrial.cli.display import (
    comparators_tables,
    name_of,
    print_table,
    shares_table,
    wrapped,
)
from fairtrial.cli.durations import error_probability
from fairtrial.cli.exits import EPILOG
from fairtrial.cli.output import emit, json_option, say, shown_number
from fairtrial.cli.pilot import pulls_saved, read_pilot, to_dict, with_r_squared
from fairtrial.cli.planning import FoundWith, Plan, end_of, find_effects, make_plan
from fairtrial.core.wording import listed, plural
from fairtrial.presentation.words import percent
from fairtrial.simulation.comparators import ASSUMPTIONS

if TYPE_CHECKING:
    from fairtrial.cli.pilot import Pilot, Saved
    from fairtrial.simulation import Comparator
    from fairtrial.subpopulations import Complexity

__all__ = ["plan"]

_ARMS_SHOWN = 4


@click.command(epilog=EPILOG)
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--delta",
    type=float,
    callback=error_probability,
    help="Plan for this probability of a wrong answer instead of the file's.",
)
@click.option(
    "--pulls",
    type=click.IntRange(min=1),
    help="Also show the smallest effect that N pulls can detect, or those of policy.max_pulls if "
    "they are fewer.",
)
@click.option(
    "--weeks",
    type=click.FloatRange(min=0, min_open=True),
    help="Like --pulls, for the pulls that N weeks give at plan.pulls_per_day, or until max_pulls "
    "if that comes first.",
)
@click.option(
    "--pilot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Table with one row for each unit of a pilot, or of last year: plan with what the column "
    "of --prediction explains there, and show how many pulls it saves.",
)
@click.option("--prediction", metavar="COLUMN", help="With --pilot: column with the prediction.")
@click.option(
    "--outcome",
    default="outcome",
    show_default=True,
    metavar="COLUMN",
    help="With --pilot: column with the outcomes.",
)
@json_option
def plan(
    config: Path,
    delta: float | None,
    pulls: int | None,
    weeks: float | None,
    pilot: Path | None,
    prediction: str | None,
    outcome: str,
    as_json: bool,
) -> None:
    """Show how many pulls an experiment will take, if the environment is as assumed.

    The assumed means are those of [plan] in the file CONFIG, or of its source. With --pulls or
    --weeks, also show the smallest effect that is decided correctly with a probability of 80 % and
    90 %, as a multiple of the assumed differences.
    """
    if pulls is not None and weeks is not None:
        raise click.UsageError("give --pulls or --weeks, not both")
    if (pilot is None) != (prediction is None):
        raise click.UsageError("give --pilot and --prediction together")
    configuration = load_configuration(config, "plan")
    explained = None
    if pilot is not None and prediction is not None:
        # Refuse a file that plans with other units before its problem is asked for a range.
        configuration = with_r_squared(configuration, 0.0)
        explained = read_pilot(pilot, configuration.problem, prediction, outcome)
        configuration = with_r_squared(configuration, explained.r_squared)
    end = end_of(configuration, pulls, weeks)
    found = None if end is None else find_effects(configuration, end, delta)
    made = replace(make_plan(configuration, delta), found_with=found)
    saved = None
    if explained is not None:
        saved = pulls_saved(configuration, delta, made)
    if as_json:
        more = {} if explained is None or saved is None else {"pilot": to_dict(explained, saved)}
        emit(made.to_dict() | more)
        return
    _print(made)
    if explained is not None and saved is not None:
        _print_saved(explained, saved)


def _print(made: Plan) -> None:
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
        say(wrapped("Proven after", f"{budgets} (rows at which a certain verdict is expected)"))
    if made.assumes:
        say(wrapped("Assumes", made.assumes))
    if made.about_losses:
        say(wrapped("Losses", made.about_losses))
    say(f"Simulated: {replace(made.simulation.summary(), about=None)}")
    if made.found_with is not None:
        _print_effects(made.found_with)
    _print_comparators(made.comparators)
    if found is not None and found.allocation is not None:
        print_table(
            shares_table("Optimal allocation", made.problem.action_labels, found.allocation)
        )


def _print_comparators(designs: Sequence[Comparator]) -> None:
    for table, question in comparators_tables(designs):
        print_table(table)
        say(wrapped("Question", question))
    if designs:
        say(wrapped("Assume", ASSUMPTIONS))


def _print_saved(pilot: Pilot, saved: Saved) -> None:
    low, high = percent(pilot.lower), percent(pilot.upper)
    say(
        wrapped(
            "Pilot",
            f"{pilot.column!r} explains {percent(pilot.r_squared)} of the variance of outcomes "
            f"within arms and groups ({low} to {high} with 95 % confidence, by "
            f"{plural(pilot.rows, 'row')}). To plan with it: r_squared = {pilot.r_squared:.2f}",
        )
    )
    low, high = (_signed_percent(share) for share in (saved.lower, saved.upper))
    say(
        wrapped(
            "Saved",
            f"{shown_number(saved.pulls)} pulls on average of the simulated runs, and "
            f"{shown_number(saved.without)} without the prediction: "
            f"{_signed_percent(saved.share)} are saved ({low} to {high}: runs differ by chance)",
        )
    )


def _signed_percent(share: float) -> str:
    return percent(share) if share >= 0.0 else f"-{percent(-share)}"


def _print_effects(found: FoundWith) -> None:
    say(f"Smallest effect that {found.pulls:,} pulls can detect (1 is the assumed effect):")
    if found.end.in_words:
        say(wrapped("Ends by", found.end.in_words))
    for one, values in zip(found.effects, found.values, strict=True):
        name = f"{100 * one.power:g} % power"
        if one.effect is None or one.found is None:
            say(wrapped(name, f"not reached with effects up to {shown_number(one.largest, 3)}"))
            continue
        low, high = (shown_number(end, 3) for end in (one.lower, one.upper))
        right = f"{one.found.count:,} of {one.found.runs:,} runs were right"
        text = (
            f"{shown_number(one.effect, 3)}: {right}; these runs place it between {low} and {high}"
        )
        best = sorted(values.items(), key=lambda pair: -pair[1])[:_ARMS_SHOWN]
        means = ", ".join(f"{label} {shown_number(value, 3)}" for label, value in best)
        say(wrapped(name, f"{text}. True means are then {means}"))


def _answer(made: Plan) -> str:
    if made.truth.tied:
        return f"none: {listed(made.right)} are equally good; naming one of them counts as wrong"
    if made.right:
        return f"among {listed(made.right)}: all of them count as right"
    return "no arm is acceptable" if made.answer is None else name_of(made.answer)


def _print_bound(made: Plan, found: Complexity) -> None:
    certified = f"certified between {found.lower:.6g} and {found.upper:.6g}"
    say(wrapped("Difficulty", f"{found.value:.6g} pulls per unit of evidence ({certified})"))
    bound = shown_number(made.lower_bound)
    say(wrapped("Lower bound", f"{bound} pulls on average, {made.rules_bounded}"))
