import itertools
import json
import time
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from fairtrial.cli.app import app
from tests.cli.configurations import write_table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table of rewards, in which commands run."""
    write_table(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAIRTRIAL_STORAGE", raising=False)
    return tmp_path


@pytest.fixture
def leap(tmp_path, monkeypatch):
    """While there is a file `hangs`, let an hour pass between two looks at a command's clock."""
    hours = itertools.count(1)

    def monotonic():
        return time.monotonic() + ((tmp_path / "hangs").exists() and 3600 * next(hours))

    leaping = SimpleNamespace(**{**vars(time), "monotonic": monotonic})
    monkeypatch.setattr("fairtrial.cli.command_runner.time", leaping)


@pytest.fixture
def invoke():
    """Run a command in this process; unexpected errors are raised here."""

    def invoke(*arguments: object, **options: object) -> Result:
        result = CliRunner().invoke(app, [str(a) for a in arguments], **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def document(invoke):
    """Run a command with --json; return its only document, and the result."""

    def document(*arguments: object):
        result = invoke(*arguments, "--json")
        return json.loads(result.stdout), result

    return document
