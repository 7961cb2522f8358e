"""`fairtrial demo`: a real clinical trial, decided by a proven rule."""

from __future__ import annotations

from pathlib import Path

import click

from fairtrial.cli.commands.study import verification_document, verification_text
from fairtrial.cli.demonstration import (
    ACTOR,
    PATIENTS,
    Demonstration,
    Variant,
    demonstrate,
    variants,
)
from fairtrial.cli.display import answer_text, wrapped
from fairtrial.cli.durations import error_probability
from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.output import emit, json_option, say
from fairtrial.presentation.limits import document_of
from fairtrial.presentation.sources import said_of_replay

__all__ = ["demo"]

_INTRODUCTION = """\
The ACTG 175 trial: which HIV treatment raises the number of CD4 cells most, if it must not fall in
any stratum of patients? Every pull draws the result of a real patient, with replacement.
"""


@click.command(epilog=EPILOG)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("fairtrial-demo"),
    show_default=True,
    help="Folder for the study, the picture and the report.",
)
@click.option("--seed", type=click.IntRange(min=0), default=6, show_default=True)
@click.option(
    "--delta",
    type=float,
    callback=error_probability,
    default=0.05,
    show_default=True,
    help="Accepted probability of a wrong answer.",
)
@click.option("--keep", is_flag=True, help="Continue the existing study.")
@json_option
def demo(output: Path, seed: int, delta: float, keep: bool, as_json: bool) -> None:
    """Decide a real clinical trial with a proven rule, and explain and audit the decision."""
    if not as_json:
        say(_INTRODUCTION)
        say("Preparing ...", err=True)
    result = demonstrate(output, seed=seed, delta=delta, keep=keep)
    if result.ending == "interrupted":
        say(f"Interrupted. To continue: fairtrial demo --keep --output {output}", err=True)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)
    if not as_json:
        _print_result(result, output)
    others = variants(seed=seed, delta=delta)
    if as_json:
        emit(_document(result, others))
    else:
        _print_variants(others)
    if result.verification is None or not result.verification.ok:
        raise click.exceptions.Exit(ExitCode.NOT_VERIFIED)


def _document(result: Demonstration, others: list[Variant]) -> dict[str, object]:
    return {
        "progress": document_of(result.progress),
        "patients_in_trial": PATIENTS,
        "lower_bound": result.lower_bound,
        "right_answer": result.best,
        "verification": verification_document(result.verification),
        "picture": None if result.picture is None else str(result.picture),
        "report": None if result.report is None else str(result.report),
        "variants": [variant.to_dict() for variant in others],
    }


def _print_result(result: Demonstration, output: Path) -> None:
    right = result.progress.recommendation.arm == result.best
    paragraphs = {
        "Pulls": (
            f"{result.progress.told:,}; the trial had {PATIENTS:,} patients. If the rewards "
            "were Gaussian with the same spread, every rule that is right as often would need at "
            f"least {result.lower_bound:,.0f} on average, even if it knew that spread"
        ),
        "Truth": f"in these records {result.best}: the answer is {'right' if right else 'wrong'}",
        "Audit": verification_text(result.verification),
        "Picture": str(result.picture or "none: it needs the extra 'plots'"),
        "Report": str(result.report),
        "Study": (
            f'{output / "study.db"}, written with durability "process": unlike by default, the '
            "disk is not flushed after every pull"
        ),
    }
    say(said_of_replay(ACTOR) or "")
    say(answer_text(result.progress))
    for label, text in paragraphs.items():
        say(wrapped(label, text))


def _print_variants(others: list[Variant]) -> None:
    say("\nA harder question about the same patients: who stays alive without progression?")
    for variant in others:
        say(wrapped(f"floor {variant.floor:.2f}", _variant_text(variant)))


def _variant_text(variant: Variant) -> str:
    recommendation, told = variant.progress.recommendation, variant.progress.told
    yardstick = f"by the same yardstick every rule needs at least {variant.lower_bound:,.0f}"
    if not recommendation.decided:
        leader = recommendation.leader
        leads = "so far no arm seems acceptable" if leader is None else f"{leader} leads"
        return (
            f"cannot decide within the budget of {told:,} patients; {leads}, "
            f"without any guarantee ({yardstick})"
        )
    pulls = f"{told:,} pulls"
    if told > PATIENTS:
        pulls += ", more than the trial had patients"
    if recommendation.arm is None:
        return f"no arm is acceptable: each is below the floor in some stratum ({pulls})"
    return f"{recommendation.arm} ({pulls}; {yardstick})"
