"""Commands whose modules are imported when they are called."""

from __future__ import annotations

import importlib
from typing import Any

import click

from fairtrial.core.loading import uninterrupted

__all__ = ["LazyCommand"]


class LazyCommand(click.Command):
    """A placeholder for a command in a group, which can be listed and completed by its name.

    Parameters
    ----------
    name : str
        The name of the command.
    place : str
        The place of the command: ``module:name``, with a module of ``fairtrial.cli.commands``.
    short_help : str
        Its line in the list of commands.
    """

    def __init__(self, name: str, place: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self._place = place

    def load(self) -> click.Command:
        """Return the command itself."""
        module, _, name = self._place.partition(":")
        with uninterrupted():
            found = importlib.import_module(f"fairtrial.cli.commands.{module}")
        command: click.Command = getattr(found, name)
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of the command itself: to run, to show help, or to complete it."""
        return self.load().make_context(info_name, args, parent, **extra)
