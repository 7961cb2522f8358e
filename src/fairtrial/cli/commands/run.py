"""`fairtrial run`: run the study of a configuration until it ends or is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairtrial.cli.config import Configuration, load_configuration
from fairtrial.cli.display import Reporter, answer_text, reporter
from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.opening import create_study
from fairtrial.cli.output import emit, json_option, say
from fairtrial.cli.running import Interruption, drive, drive_commands
from fairtrial.cli.sections import CommandSource
from fairtrial.cli.sources import CommandRewards, EnvironmentRewards
from fairtrial.errors import InvalidArgument, SourceError
from fairtrial.presentation.limits import document_of
from fairtrial.presentation.sources import replay_actor, replay_note

if TYPE_CHECKING:
    from fairtrial.study import Study
    from fairtrial.study.pull_loop import Ending

__all__ = ["run"]


@click.command(epilog=EPILOG)
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--pulls", type=click.IntRange(min=1), help="Stop this session after N pulls.")
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    default=1,
    help="Run N commands at the same time (sources of kind command).",
)
@json_option
def run(config: Path, pulls: int | None, parallel: int, as_json: bool) -> None:
    """Run the study that the file CONFIG describes, until it has its answer.

    Nothing runs before the whole file is checked. Ctrl-C stops safely; the same command continues
    where it stopped. If a source of rewards fails, its pull stays open and is measured again in the
    next session; if results come late and readings before them, the pull counts as failed.
    """
    configuration = load_configuration(config, "run")
    _check_parallel(configuration, parallel)
    if pulls is None and configuration.policy.endless:
        name = type(configuration.policy).__name__
        say(f"{name} never stops by itself: --pulls N or Ctrl-C ends the session.", err=True)
    with create_study(configuration, exist_ok=True) as study, Interruption() as interruption:
        try:
            with reporter(study.name) as display:
                ending = _drive(configuration, study, display, interruption, pulls, parallel)
        except SourceError as error:
            raise SourceError(f"{error}\n{_resume_hint(config)}") from error
        progress, endless = study.progress(), study.policy.endless
        replayed = replay_note(study)
    if as_json:
        emit(_document(study, ending, document_of(progress)) | {"about": replayed})
    else:
        if replayed:
            say(replayed)
        say(answer_text(progress, endless))
    if ending == "interrupted":
        say(f"Interrupted; no result is lost. {_resume_hint(config)}", err=True)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)
    if not (progress.recommendation.decided or endless):
        raise click.exceptions.Exit(ExitCode.NO_ANSWER)


def _check_parallel(configuration: Configuration, parallel: int) -> None:
    if parallel > 1 and not isinstance(configuration.source, CommandSource):
        raise InvalidArgument(
            "--parallel", "is for sources of kind 'command': others answer immediately", parallel
        )


def _drive(
    configuration: Configuration,
    study: Study,
    display: Reporter,
    interruption: Interruption,
    pulls: int | None,
    parallel: int,
) -> Ending:
    section = configuration.source
    if isinstance(section, CommandSource):
        commands = CommandRewards(
            section.run,
            configuration.problem,
            timeout=section.timeout,
            retries=section.retries,
            folder=configuration.folder,
            interrupted=interruption,
        )
        return drive_commands(study, commands, display, interruption, pulls, parallel)
    assert configuration.environment is not None, "checked when the file was loaded"
    environment = EnvironmentRewards(configuration.environment, study.seed)
    actor = None if configuration.rows is None else replay_actor(configuration.rows)
    return drive(study, environment, display, interruption, pulls, actor, environment.units)


def _document(study: Study, ending: Ending, progress: dict[str, object]) -> dict[str, object]:
    return {
        "study": study.name,
        "storage": study.storage,
        "seed": study.seed,
        "ending": ending,
        "progress": progress,
    }


def _resume_hint(config: Path) -> str:
    return f"To continue: fairtrial run {config}"
