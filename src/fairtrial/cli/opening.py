"""Find and open the study that a command names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairtrial import client
from fairtrial.cli.config import Configuration, difference_from, load_study_section
from fairtrial.cli.output import say
from fairtrial.cli.sections import ReplaySource, SimulatedSource
from fairtrial.client.address import is_service
from fairtrial.study import Study

if TYPE_CHECKING:
    from fairtrial.client import RemoteStudy

    AnyStudy = Study | RemoteStudy

__all__ = ["create_study", "open_study", "refuse_to_replace", "required", "storage_option"]

Command = TypeVar("Command", bound=Callable[..., Any])

_STORAGE_HELP = (
    "Address of the storage: sqlite:///trial.db, postgresql://user@host/database; or of a service, "
    "https://host, with a token in FAIRTRIAL_TOKEN."
)


def storage_option(command: Command) -> Command:
    """Give a command the option ``--storage``."""
    return click.option("--storage", envvar="FAIRTRIAL_STORAGE", help=_STORAGE_HELP)(command)


def open_study(study: str, storage: str | None) -> AnyStudy:
    """Return the study of that name, or the one that a configuration file names."""
    if not study.endswith(".toml"):
        address = required(storage)
        return _of_service(address, study) if is_service(address) else Study.open(address, study)
    section = load_study_section(study)
    opened = Study.open(
        section.storage, section.name, durability=section.durability, witness=section.witness
    )
    difference = difference_from(opened, study)
    if difference:
        say(
            f"Warning: {study} differs from the recorded study {section.name!r} (recorded, and in "
            f"the file): {difference}. The study is shown as recorded.",
            err=True,
        )
    return opened


def _of_service(url: str, name: str) -> RemoteStudy:
    return client.connect(url).study(name)


def create_study(configuration: Configuration, *, exist_ok: bool) -> Study:
    """Return the study that a configuration describes; a new one unless it may exist."""
    section = configuration.study
    return Study.create(
        configuration.problem,
        configuration.policy,
        storage=section.storage,
        name=section.name,
        seed=section.seed,
        durability=section.durability,
        exist_ok=exist_ok,
        witness=section.witness,
        secret=_secret(configuration),
        notes=configuration.protocol.in_words,
        **section.conduct,
    )


def _secret(configuration: Configuration) -> str | None:
    """Return the source of random choices: a simulated study uses its seed and can be repeated.

    If results come from people, return None: the study draws a secret itself.
    """
    seed = configuration.study.seed
    is_simulated = isinstance(configuration.source, ReplaySource | SimulatedSource)
    if seed is None or not is_simulated or not configuration.policy.randomizes:
        return None
    return str(seed)


def required(storage: str | None) -> str:
    """Return the storage; raise if none is named."""
    if storage is None:
        raise click.UsageError(
            "which storage? Give --storage, set FAIRTRIAL_STORAGE, or name a configuration file"
        )
    return storage


def refuse_to_replace(path: Path, force: bool) -> None:
    """Raise if the file exists, unless `force` allows replacing it."""
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists: give --force to replace it, or another name")
