"""The command `fairtrial`."""

from fairtrial.cli.app import main
from fairtrial.cli.exits import ExitCode

__all__ = ["ExitCode", "main"]
