"""`fairtrial mcp`: give a language model tools to read studies and, if allowed, to run them."""

from __future__ import annotations

import click

from fairtrial import mcp as tools
from fairtrial.cli.exits import EPILOG
from fairtrial.cli.opening import required, storage_option

__all__ = ["mcp"]


@click.command(epilog=EPILOG)
@click.option(
    "--write", is_flag=True, help="Also offer tools that ask for pulls and tell outcomes."
)
@storage_option
def mcp(write: bool, storage: str | None) -> None:
    """Serve the studies of a storage to a language model, over standard input and output.

    This speaks the Model Context Protocol; a program such as a desktop assistant or an editor
    starts it. Without --write nothing can be changed.
    """
    tools.mcp_server(required(storage), write=write).run()
