"""`fairtrial race`: find the best candidate on a list of items, from a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairtrial.cli.command_runner import CommandRunner, NotStarted, last_lines, temporary
from fairtrial.cli.config import read_toml, resolve_storage
from fairtrial.cli.display import answer_text
from fairtrial.cli.exits import EPILOG, ExitCode
from fairtrial.cli.output import emit, json_option, say
from fairtrial.cli.running import Interrupting
from fairtrial.cli.shell import misplaced, placeholders
from fairtrial.cli.streams import Trouble, quoted
from fairtrial.client.address import is_service
from fairtrial.core.cells import NotANumber, number_of
from fairtrial.core.tables import read_table
from fairtrial.errors import ConfigurationError
from fairtrial.races import race as run_race
from fairtrial.races.calling import CannotEvaluate

if TYPE_CHECKING:
    from fairtrial.races import RaceResult

__all__ = ["CommandScore", "race"]

_STORAGE = "sqlite:///fairtrial.db"
_TIMEOUT = 3_600.0
_CHARACTERS_OF_ERRORS = 500


@click.command(epilog=EPILOG)
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--max-evaluations", type=click.IntRange(min=1), help="Stop after N evaluations.")
@click.option("--max-cost", type=click.FloatRange(min=0.0), help="Stop at this cost.")
@click.option("--parallel", type=click.IntRange(min=1), help="Run N evaluations at the same time.")
@click.option(
    "--report", type=click.Path(path_type=Path), help="Write the report to this file as well."
)
@json_option
def race(
    config: Path,
    max_evaluations: int | None,
    max_cost: float | None,
    parallel: int | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Find the best candidate on a list of items, as the file CONFIG describes it.

    Every score is stored before it counts. After Ctrl-C or a crash, the same command continues.
    """
    settings, score = _settings(config)
    options = {
        "max_evaluations": max_evaluations,
        "max_cost": max_cost,
        "parallel": parallel,
        "progress": None if as_json else True,
    }
    settings |= {name: value for name, value in options.items() if value is not None}
    candidates, items = settings.pop("candidates"), settings.pop("items")
    with Interrupting():
        try:
            result = run_race(candidates, items, score, **settings)
        finally:
            # On threads of the race, which are awaited at the end of this process.
            if isinstance(score, CommandScore):
                score.close()
    if report is not None:
        result.write_report(report)
    if as_json:
        emit(_document(result))
    else:
        say(answer_text(result.study.progress()))
        say(f"Evaluations: {result.in_words()}")
    is_decided = result.status == "decided"
    result.study.close()
    if not is_decided:
        raise click.exceptions.Exit(ExitCode.NO_ANSWER)


def _document(result: RaceResult) -> dict[str, Any]:
    return {
        "best": result.best,
        "status": result.status,
        "leader": result.leader,
        "candidates": list(result.candidates),
        "evaluations": result.evaluations,
        "reused": result.reused,
        "explained_by_judge": result.explained_by_judge,
        "saved": result.saved,
        "remaining": result.remaining,
        "remaining_at_most": result.remaining_at_most,
        "cost": result.cost,
        "guarantee": {
            "label": result.guarantee.label,
            "statement": result.guarantee.statement,
            "assumptions": list(result.guarantee.assumptions),
        },
        "table": result.rows(),
    }


def _settings(config: Path) -> tuple[dict[str, Any], Any]:
    """Return the arguments of a race, and the score: a function or a table."""
    sections, _ = read_toml(config)
    mistakes = [
        f"{name}: is not a section of a race; sections: race, score"
        for name in sections
        if name not in ("race", "score")
    ]
    settings, score = sections.get("race", {}), sections.get("score", {})
    mistakes += [
        f"race.{name}: is missing"
        for name in ("candidates", "items")
        if not (isinstance(settings, dict) and name in settings)
    ]
    if not isinstance(score, dict) or len({"run", "table"} & set(score)) != 1:
        mistakes.append("score: must have one of 'run', a shell command, and 'table', a file")
    elif unknown := set(score) - {"run", "table", "timeout"}:
        mistakes.append(
            f"score.{min(unknown)}: is no key of this section; keys: run, table, timeout"
        )
    if mistakes:
        raise ConfigurationError(mistakes, str(config))
    folder = config.parent
    storage = str(settings.pop("storage", _STORAGE))
    if not is_service(storage):
        storage = resolve_storage(storage, folder)
    if isinstance(settings["items"], str):
        settings["items"] = _rows(folder / settings["items"])
    if isinstance(settings.get("judge"), str):
        settings["judge"] = read_table(folder / settings["judge"])
    if "table" in score:
        return {**settings, "storage": storage}, read_table(folder / str(score["table"]))
    command = CommandScore(
        str(score["run"]), settings["items"], folder, float(score.get("timeout", _TIMEOUT))
    )
    command.check(str(config))
    return {**settings, "storage": storage}, command


def _rows(file: Path) -> list[dict[str, Any]]:
    columns = read_table(file)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class CommandScore:
    """Scores by a shell command that prints the score as its last line.

    Parameters
    ----------
    command : str
        ``{candidate}`` and ``{item}`` stand for their texts, and other names for columns of the
        items.
    items : sequence
        The items.
    folder : Path
        Where the command runs.
    timeout : float
        Seconds after which it is ended, with all its children.
    """

    def __init__(self, command: str, items: Any, folder: Path, timeout: float) -> None:
        self.command = command
        self._is_closed = False
        self._runner = CommandRunner(command, timeout, folder, lambda: self._is_closed)
        first = items[0] if len(items) else ""
        self.names = ["candidate", "item", *(first if isinstance(first, Mapping) else ())]

    def check(self, file: str) -> None:
        """Raise if the command does not use its candidate, or where the shell would split it."""
        mistakes = [
            f"score.run: {{{one.name}}} must not stand {one.where}"
            for one in misplaced(self.command, self.names)
        ]
        if "candidate" not in placeholders(self.command):
            mistakes.append("score.run: must contain {candidate}")
        if mistakes:
            raise ConfigurationError(mistakes, file)

    def __call__(self, candidate: str, item: Any) -> float:
        """Run the command, and return the number in its last line.

        Raises
        ------
        CannotEvaluate
            If it cannot be started.
        RuntimeError, ValueError
            If it fails, or its last line is no number.
        """
        columns = item if isinstance(item, Mapping) else {}
        values = {name: _text(value) for name, value in columns.items()}
        values |= {"candidate": _text(candidate), "item": _text(item)}
        with temporary() as output, temporary() as errors:
            try:
                self._runner.run(values, (output, errors))
            except NotStarted as trouble:
                raise CannotEvaluate(f"the command {trouble}") from None
            except Trouble as trouble:
                told = " / ".join(last_lines(errors))[-_CHARACTERS_OF_ERRORS:]
                raise RuntimeError(f"the command {trouble}{': ' * bool(told)}{told}") from None
            lines = last_lines(output)
        try:
            return number_of(lines[-1])
        except IndexError:
            raise ValueError("the last line must be the score; the command printed none") from None
        except NotANumber:
            raise ValueError(
                f"the last line must be the score; the command printed {quoted(lines[-1])}"
            ) from None

    def close(self) -> None:
        """End the commands that still run, with all their children; start no others."""
        self._is_closed = True


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
