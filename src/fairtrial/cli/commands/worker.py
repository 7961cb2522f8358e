"""`fairtrial worker`: carry out pulls of a study that a service keeps."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairtrial import client
from fairtrial.cli.durations import seconds
from fairtrial.cli.environments import check_command
from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.output import answer, json_option, say
from fairtrial.cli.running import Interruption
from fairtrial.cli.sources import CommandRewards
from fairtrial.errors import AccessRefused, ConfigurationError

if TYPE_CHECKING:
    from fairtrial.client import RemoteStudy
    from fairtrial.study import Report

__all__ = ["worker"]

_PATIENCE_SECONDS = 15.0
"""How long a request is repeated before the worker checks whether it should end."""


@click.command(epilog=EPILOG)
@click.option("--url", required=True, help="The address of the service.")
@click.option("--study", "name", required=True, help="The name of the study.")
@click.option(
    "--run",
    "command",
    metavar="COMMAND",
    help="A shell command that prints the reward of a pull: '{arm}' and '{group}' stand for its "
    "labels. If there are several measures, each line is a JSON object with some of them.",
)
@click.option(
    "--function",
    metavar="MODULE:NAME",
    help="A Python function that returns the reward: function(arm, report, group=...).",
)
@click.option(
    "--parallel", type=click.IntRange(min=1), default=1, help="Pulls in flight; 1 by default."
)
@click.option(
    "--lease",
    metavar="TIME",
    callback=seconds,
    default="5m",
    show_default=True,
    help="Time after which the pulls of a dead worker fail.",
)
@click.option(
    "--timeout",
    metavar="TIME",
    callback=seconds,
    default="10m",
    show_default=True,
    help="Time after which a command is ended and its pull fails.",
)
@click.option("--pulls", type=click.IntRange(min=1), help="End after N pulls.")
@click.option(
    "--grace",
    metavar="TIME",
    callback=seconds,
    default="20s",
    show_default=True,
    help="Time that pulls in flight have after Ctrl-C; then they are handed back.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the token; by default the token is in FAIRTRIAL_TOKEN.",
)
@click.option(
    "--allow-plain",
    is_flag=True,
    help="Allow http:// to another machine, although others on the way can read the token.",
)
@json_option
def worker(
    url: str,
    name: str,
    command: str | None,
    function: str | None,
    parallel: int,
    lease: float,
    timeout: float,
    pulls: int | None,
    grace: float,
    token_file: Path | None,
    allow_plain: bool,
    as_json: bool,
) -> None:
    """Carry out pulls of a study that a service keeps, until it has stopped.

    Any number of workers, on any machines, can serve one study. Ctrl-C ends a worker safely: it
    finishes its current pulls, or hands them back.
    """
    if (command is None) == (function is None):
        raise click.UsageError("give either --run COMMAND or --function MODULE:NAME")
    options: dict[str, Any] = {"token_file": token_file, "allow_plain": allow_plain}
    with (
        client.connect(url, patience=_PATIENCE_SECONDS, **options) as connection,
        Interruption() as interruption,
    ):
        study = connection.study(name)
        told: list[str] = []

        def watch(sentence: str) -> None:
            told.append(sentence)
            say(sentence, err=True)

        ending = client.work(
            study,
            _measuring(study, command, function, timeout),
            parallel=parallel,
            lease=lease,
            pulls=pulls,
            grace=grace,
            interrupted=interruption,
            watch=watch,
        )
        stopped = study.stopped
    answer(
        as_json,
        {"study": name, "ending": ending, "pulls": len(told), "stopped": stopped},
        f"{name}: {_ENDINGS[ending]}",
    )
    if ending == "interrupted":
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)


_ENDINGS = {
    "stopped": "the study has stopped",
    "limit": "the pulls of this session are done; the study continues",
    "interrupted": "interrupted; no result is lost, and the study continues",
}


def _measuring(
    study: RemoteStudy, command: str | None, function: str | None, timeout: float
) -> Callable[..., Any]:
    """Return the function that measures a pull: it runs a command, or is the user's own."""
    if function is not None:
        return _imported(function)
    assert command is not None, "one of the two was given"
    _check_command(command, study)
    rewards = CommandRewards(command, study.problem, timeout=timeout)

    def measure(_: object, report: Report, **__: object) -> Any:
        return rewards.measure(report.pull, report)

    return measure


def _check_command(command: str, study: RemoteStudy) -> None:
    """Raise if a placeholder is unknown, or if a shell would not read it as one word."""
    mistakes: list[str] = []
    has_blocks = True
    # Without the scope "read" the token does not see the policy.
    with suppress(AccessRefused):
        has_blocks = study.policy.has_shared_blocks
    check_command(study.problem, "--run", command, mistakes, has_blocks=has_blocks)
    if mistakes:
        raise ConfigurationError(mistakes, "command line")


def _imported(name: str) -> Callable[..., Any]:
    """Return the function named by ``module:name``; also search modules in the current folder."""
    module_name, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise click.UsageError(
            f"--function must be the name of a function, as module:name; got {name!r}: {error}"
        ) from error
    if not callable(found):
        raise click.UsageError(f"--function must name a function; {name!r} is not one")
    function: Callable[..., Any] = found
    return function
