"""Commands whose modules are imported when they are called."""

from __future__ import annotations

import importlib
from typing import Any

import click

from fairtrial.core.loading import uninterrupted

__all__ = ["LazyCommand"]


class LazyCommand(click.Command):
    """Stands for a command in a group, which needs no more than its name to list or complete it.

    Parameters
    ----------
    name : str
        By which it is called.
    place : str
        Where the command is: ``module:name``, the module inside ``fairtrial.cli.commands``.
    short_help : str
        What the list of commands says of it.
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
        """Return the context of the command itself: to run it, for its help or its completion."""
        return self.load().make_context(info_name, args, parent, **extra)
