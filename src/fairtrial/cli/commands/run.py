"""`fairtrial run`: a study from a configuration, to its end or until it is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.output import emit, json_option

if TYPE_CHECKING:
    from fairtrial.cli.config import Configuration
    from fairtrial.cli.running import Ending, Interruption
    from fairtrial.cli.sources import RewardSource
    from fairtrial.study import Study

__all__ = ["run"]


@click.command(epilog=EPILOG, short_help="Run a study until it has its answer.")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--pulls", type=click.IntRange(min=1), help="End this session after so many pulls.")
@json_option
def run(config: Path, pulls: int | None, as_json: bool) -> None:
    """Run the study that the file CONFIG describes, until it has its answer.

    Nothing runs before the whole file is found right. Ctrl-C stops safely; the same command
    goes on where it stopped. If a source of rewards fails, its pull stays open and is measured
    again by the next session.
    """
    from fairtrial.cli.config import load_configuration
    from fairtrial.cli.display import answer_text, reporter
    from fairtrial.cli.running import Interruption, drive
    from fairtrial.errors import SourceError

    configuration = load_configuration(config, "run")
    with _study(configuration) as study, Interruption() as interruption:
        source = _source(configuration, study, interruption)
        storage = configuration.study.storage
        try:
            with reporter(study.name) as display:
                ending = drive(study, storage, source, display, interruption, pulls)
        except SourceError as error:
            raise SourceError(f"{error}\n{_resume_hint(config)}") from error
        progress = study.progress()
    if as_json:
        emit(_document(configuration, study, ending, progress.to_dict()))
    else:
        click.echo(answer_text(progress))
    if ending == "interrupted":
        click.echo(f"Interrupted; nothing told is lost. {_resume_hint(config)}", err=True)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)
    if not progress.recommendation.decided:
        raise click.exceptions.Exit(ExitCode.NO_ANSWER)


def _study(configuration: Configuration) -> Study:
    from fairtrial.study import Study

    section = configuration.study
    return Study.create(
        configuration.problem,
        configuration.policy,
        storage=section.storage,
        name=section.name,
        seed=section.seed,
        durability=section.durability,
        exist_ok=True,
    )


def _source(configuration: Configuration, study: Study, interruption: Interruption) -> RewardSource:
    from fairtrial.cli.sections import CommandSource
    from fairtrial.cli.sources import CommandRewards, WorldRewards

    section = configuration.source
    if isinstance(section, CommandSource):
        return CommandRewards(
            section.run,
            configuration.problem,
            timeout=section.timeout,
            retries=section.retries,
            folder=configuration.folder,
            interrupted=interruption,
        )
    assert configuration.environment is not None, "checked when the file was loaded"
    return WorldRewards(configuration.environment, study.seed)


def _document(
    configuration: Configuration, study: Study, ending: Ending, progress: dict[str, object]
) -> dict[str, object]:
    return {
        "study": study.name,
        "storage": configuration.study.storage,
        "seed": study.seed,
        "ending": ending,
        "progress": progress,
    }


def _resume_hint(config: Path) -> str:
    return f"To go on: fairtrial run {config}"
