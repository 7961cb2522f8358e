"""The server: tools that read studies and, if it is allowed, ask and tell."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from fairtrial.core.keywords import named_arguments
from fairtrial.errors import FairtrialError
from fairtrial.mcp.studies import Studies
from fairtrial.version import __version__

__all__ = ["mcp_server"]

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")

_INSTRUCTIONS = """\
Sequential experiments. A study decides what to try next (a pull), takes outcomes in any order, and
stops by itself once there is enough evidence.

You may look at a study as often as you like: its guarantee holds however often and whenever
somebody looks. But it is a guarantee for the study's own answer, so do not declare a winner before
`status` is "decided": until then `leader` is only who leads so far. Say what the `guarantee` says:
whether it is proven, its assumptions, and its doubts.

`evidence_against_last_rival` is an e-value: the study decides when it reaches `evidence_needed`."""

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)


@named_arguments
def mcp_server(storage: str, *, write: bool = False) -> MCPServer:
    """Return a server of the Model Context Protocol for the studies of a storage or a service.

    Parameters
    ----------
    storage : str
        The storage, or the URL of a service; its token is in the environment variable
        ``FAIRTRIAL_TOKEN``.
    write : bool
        Whether there are also tools that ask for pulls and tell outcomes.

    Raises
    ------
    MissingExtra
        If the package ``mcp`` is not installed.

    Examples
    --------
    >>> import asyncio
    >>> tools = asyncio.run(mcp_server("memory://").list_tools())
    >>> [tool.name for tool in tools]
    ['list_studies', 'show_study', 'recommend', 'verify']
    """
    server = MCPServer("fairtrial", version=__version__, instructions=_INSTRUCTIONS)
    studies = Studies(storage)
    _add_reading(server, studies)
    if write:
        _add_writing(server, studies)
    return server


def _add_reading(server: MCPServer, studies: Studies) -> None:
    def list_studies() -> list[dict[str, Any]]:
        """List the studies: name, status, number of events, family of the problem, policy."""
        return studies.listed()

    def show_study(study: str, everything: bool = False) -> dict[str, Any]:
        """Show a study: its problem and policy, estimates and evidence so far, and warnings.

        Estimates are biased for the arm that leads. Quote their intervals with them. Long tables,
        and most of many arms, are left out: `left_out` names them. `everything` includes them.
        """
        return studies.shown(study, everything=everything)

    def recommend(study: str, everything: bool = False) -> dict[str, Any]:
        """Return the study's answer: the arm, or null while `status` is "running".

        Quote `warnings`, if there are any: they say which assumptions the data contradict. Most of
        many candidates are left out unless you want `everything`.
        """
        return studies.recommended(study, everything=everything)

    def verify(study: str) -> dict[str, Any]:
        """Audit the log: check its chain of hashes, and derive every decision again."""
        return studies.verified(study)

    for tool in (list_studies, show_study, recommend, verify):
        server.add_tool(_explained(tool), annotations=_READS)


def _add_writing(server: MCPServer, studies: Studies) -> None:
    def ask(
        study: str, n: int = 1, group: str | None = None, unit: str | None = None
    ) -> dict[str, Any]:
        """Ask what to try next: up to `n` pulls, each to be carried out and told once.

        `group` is the group that has arrived. `unit` names whom one pull is for: asking again for
        the same unit returns the same pull.
        """
        return studies.asked(study, n, group, unit)

    def tell(study: str, pull: str, value: float | dict[str, float | None]) -> dict[str, Any]:
        """Record the outcome that was measured for a pull, by the pull's id. Never invent one."""
        return studies.told(study, pull, value)

    for tool in (ask, tell):
        server.add_tool(_explained(tool), annotations=_WRITES)


def _explained(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """Return the function with our errors as errors of the tool, which a model can read."""

    @wraps(function)
    def call(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Answer:
        try:
            return function(*arguments, **options)
        except FairtrialError as error:
            raise ToolError(str(error)) from error

    return call
