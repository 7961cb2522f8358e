"""The root of the command: its subcommands, and exit codes and messages for errors.

A subcommand is imported when it is called, so that help costs no more than click.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, NoReturn

import click

from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.groups import study, token
from fairtrial.cli.lazy import LazyCommand
from fairtrial.cli.output import emit, error_document, say
from fairtrial.core.mistakes import without_python
from fairtrial.errors import (
    AlreadyTold,
    CorruptLog,
    FairtrialError,
    InvalidArgument,
    InvalidOutcome,
    MissingExtra,
    MistakesFound,
    NotSupported,
    StudyExists,
    StudyNotFound,
    UnknownPull,
)
from fairtrial.version import __version__

__all__ = ["app", "main"]

_USAGE_ERRORS = (
    AlreadyTold,
    InvalidArgument,
    MissingExtra,
    MistakesFound,
    NotSupported,
    StudyExists,
    StudyNotFound,
    UnknownPull,
)


class _App(click.Group):
    """A group that turns every expected error into a plain message and its exit code."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["fairtrial.json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except FairtrialError as error:
            _fail(ctx, error, str(error), _exit_code(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            _fail(ctx, error, str(error), ExitCode.FAILURE)
        except click.ClickException as error:
            if not ctx.meta["fairtrial.json"]:
                raise
            _fail(ctx, error, error.format_message(), ExitCode(error.exit_code))
        except (KeyboardInterrupt, click.Abort) as error:
            _fail(ctx, error, "interrupted", ExitCode.INTERRUPTED)


def _exit_code(error: FairtrialError) -> ExitCode:
    if isinstance(error, CorruptLog):
        return ExitCode.NOT_VERIFIED
    # A refused reward is the source's fault, not the command line's.
    if isinstance(error, _USAGE_ERRORS) and not isinstance(error, InvalidOutcome):
        return ExitCode.USAGE
    return ExitCode.FAILURE


def _fail(ctx: click.Context, error: BaseException, message: str, code: ExitCode) -> NoReturn:
    message = without_python(message, none="missing")
    if ctx.meta["fairtrial.json"]:
        emit(error_document(error, message))
    say(f"fairtrial: {message}", err=True)
    raise click.exceptions.Exit(code)


@click.group(
    cls=_App,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="fairtrial")
def app() -> None:
    """Sequential experiments that find the best option: with a guarantee, few samples, fairness."""


for _command in (
    LazyCommand("run", "run:run", "Run a study until it has its answer."),
    LazyCommand("race", "race:race", "Find the best candidate on a list of items."),
    LazyCommand("plan", "plan:plan", "Show how many pulls an experiment will take."),
    LazyCommand(
        "simulate", "simulate:simulate", "Run a policy many times in a simulated environment."
    ),
    LazyCommand("analyse", "analyse:analyse", "Analyse a finished experiment from a table."),
    study,
    LazyCommand("serve", "serve:serve", "Serve the studies of a storage over HTTP."),
    token,
    LazyCommand("mcp", "mcp:mcp", "Serve studies to a language model."),
    LazyCommand("worker", "worker:worker", "Carry out pulls of a study on a service."),
    LazyCommand(
        "compile", "compile:compile_families", "Compile the mathematics before it is needed."
    ),
    LazyCommand("qualify", "qualify:qualify", "Check this installation, and write a record of it."),
    LazyCommand("demo", "demo:demo", "Demonstrate fairtrial on a real clinical trial."),
):
    app.add_command(_command)


def _show_warning(message: Warning | str, *_args: Any, **_options: Any) -> None:
    """Print a warning as a sentence, without the place in our code where it arose."""
    say(f"Warning: {message}", err=True)


def main() -> None:
    """Run the command line and exit with its code."""
    warnings.showwarning = _show_warning
    sys.exit(app(prog_name="fairtrial"))
