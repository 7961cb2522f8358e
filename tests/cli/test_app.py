"""The root of the command: help, exit codes, errors."""

import click
import pytest
from click.shell_completion import ShellComplete

from fairtrial import errors
from fairtrial.cli import ExitCode
from fairtrial.cli.app import app
from fairtrial.cli.lazy import LazyCommand
from tests.cli.configurations import replayed, write


def commands(group=app, path=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        yield (*path, name)


@pytest.mark.parametrize("path", [(), *commands()])
def test_every_help_says_what_the_exit_codes_mean(invoke, path):
    result = invoke(*path, "--help")
    assert result.exit_code == ExitCode.OK
    for code in ExitCode:
        assert f"  {code:<4}{code.meaning}" in result.stdout


@pytest.mark.parametrize("path", list(commands()))
def test_every_command_offers_json(path):
    if path == ("mcp",):
        return  # It speaks a protocol of its own on standard output.
    command = app
    for name in path:
        command = command.commands[name]
    if isinstance(command, LazyCommand):
        parameters = command.load().params
        assert "--json" in [option for parameter in parameters for option in parameter.opts]


def test_the_version_is_the_packages(invoke):
    import fairtrial

    assert fairtrial.__version__ in invoke("--version").stdout


@pytest.mark.parametrize(
    "arguments",
    [["runn"], ["run"], ["run", "a.toml", "--pulls", "0"], ["study", "shw"], ["plan", "--no-such"]],
)
def test_a_mistake_in_the_command_line_is_told_as_text_and_as_json(invoke, document, arguments):
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (ExitCode.USAGE, "")
    assert "Error" in result.stderr
    found, result = document(*arguments)
    assert result.exit_code == ExitCode.USAGE
    assert found["error"]["message"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError(["study.name: is required"], "a.toml"), ExitCode.USAGE),
        (errors.InvalidArgument("delta", "must be small", 3), ExitCode.USAGE),
        (errors.MissingExtra("drawing", "plots"), ExitCode.USAGE),
        (errors.StudyNotFound("no such study"), ExitCode.USAGE),
        (errors.StudyExists("another one"), ExitCode.USAGE),
        (errors.InvalidOutcome("reward", "must be finite", 3), ExitCode.FAILURE),
        (errors.SourceError("the probe is broken"), ExitCode.FAILURE),
        (errors.StorageBusy("locked"), ExitCode.FAILURE),
        (errors.StorageError("disk full"), ExitCode.FAILURE),
        (OSError(28, "No space left on device", "report.html"), ExitCode.FAILURE),
        (errors.CorruptLog("event 3"), ExitCode.NOT_VERIFIED),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
    ],
)
def test_every_error_has_its_exit_code_and_is_said_in_both_ways(
    folder, invoke, document, monkeypatch, error, code
):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("fairtrial.cli.commands.run.drive", fail)
    path = write(folder, replayed())
    result = invoke("run", path)
    assert (result.exit_code, result.stdout) == (code, "")
    assert (str(error) or "interrupted") in result.stderr
    found, result = document("run", path)
    assert result.exit_code == code
    assert found["error"]["type"] == type(error).__name__


def test_what_nobody_foresaw_is_not_hidden(folder, invoke, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("a mistake in fairtrial")

    monkeypatch.setattr("fairtrial.cli.commands.run.drive", fail)
    with pytest.raises(RuntimeError, match="a mistake in fairtrial"):
        invoke("run", write(folder, replayed()))


def stand_ins(group=app):
    for command in group.commands.values():
        yield from stand_ins(command) if isinstance(command, click.Group) else [command]


@pytest.mark.parametrize("command", stand_ins(), ids=lambda command: command.name)
def test_what_stands_for_a_command_has_its_name(command):
    assert command.load().name == command.name
    assert command.load().short_help is None, "it is said once, where the command is listed"


def test_commands_and_options_are_completed():
    complete = ShellComplete(app, {}, "fairtrial", "_FAIRTRIAL_COMPLETE")
    found = complete.get_completions(["study"], "ve")
    assert [(item.value, item.help) for item in found] == [
        ("verify", "Audit STUDY: its hashes and all its decisions.")
    ]
    assert [item.value for item in complete.get_completions(["study", "verify"], "--he")] == [
        "--head",
        "--help",
    ]
