"""The client for programs that run an event loop: each call waits in a thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar, overload

from fairtrial.client.connection import Connection, connect
from fairtrial.client.remote_study import RemoteStudy
from fairtrial.core import Policy, Problem, Progress, Pull, Recommendation
from fairtrial.core.keywords import named_arguments
from fairtrial.core.problem import Outcome
from fairtrial.core.seeds import Seed
from fairtrial.core.validation import check_integer
from fairtrial.study import Event, Lease, StudyPull, StudySummary

__all__ = ["AsyncConnection", "AsyncStudy", "connect_async"]

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


@named_arguments
def connect_async(
    url: str,
    token: str | None = None,
    *,
    token_file: str | os.PathLike[str] | None = None,
    timeout: float = 30.0,
    patience: float = 60.0,
    ca_file: str | os.PathLike[str] | None = None,
    allow_plain: bool = False,
    parallel: int = 16,
) -> AsyncConnection:
    """Connect to a service from a program that runs an event loop.

    This sends nothing; the first request does.

    Parameters
    ----------
    url, token, token_file, timeout, patience, ca_file, allow_plain
        As for `connect`.
    parallel : int
        Largest number of calls that wait for an answer at the same time; further ones queue.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, or there is no token.
    MissingExtra
        If httpx is not installed.

    Examples
    --------
    >>> connect_async("http://127.0.0.1:8765", token="ft_" + 43 * "x")
    AsyncConnection('http://127.0.0.1:8765')
    """
    threads = check_integer("parallel", parallel, low=1)
    connection = connect(
        url,
        token,
        token_file=token_file,
        timeout=timeout,
        patience=patience,
        ca_file=ca_file,
        allow_plain=allow_plain,
    )
    return AsyncConnection(connection, _Threads(threads))


class _Threads:
    """Carries out calls in threads of its own, so that they never block the event loop.

    Other work in the loop's default threads therefore never waits for a slow service.
    """

    def __init__(self, number: int) -> None:
        self._pool = ThreadPoolExecutor(number, thread_name_prefix="fairtrial-client")

    async def run(
        self,
        function: Callable[_Arguments, _Answer],
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(function, *arguments, **options))

    def close(self) -> None:
        self._pool.shutdown(wait=False)


class AsyncConnection:
    """A service as seen with one token; use `connect_async` to get one.

    Any number of tasks can use it. Close it, or use it in an ``async with`` statement.

    Parameters
    ----------
    connection : Connection
        Sends the requests.
    threads : object
        Carries them out.
    """

    @named_arguments
    def __init__(self, connection: Connection, threads: _Threads) -> None:
        self._connection = connection
        self._threads = threads

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._connection.url

    def __repr__(self) -> str:
        return f"AsyncConnection({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection, and with it all studies that were opened through it."""
        await self._threads.run(self._connection.close)
        self._threads.close()

    async def studies(self) -> list[StudySummary]:
        """Return the studies that the token may see: see `Connection.studies`."""
        return await self._threads.run(self._connection.studies)

    async def study(self, name: str) -> AsyncStudy:
        """Open a study: see `Connection.study`."""
        return AsyncStudy(await self._threads.run(self._connection.study, name), self._threads)

    async def create(
        self,
        problem: Problem,
        policy: Policy,
        *,
        name: str,
        seed: Seed = None,
        exist_ok: bool = False,
        require_group: bool = False,
        participants: str | None = None,
        kits: str | None = None,
        masked: bool = False,
        notes: Mapping[str, str] | None = None,
    ) -> AsyncStudy:
        """Create a study: see `Connection.create`."""
        study = await self._threads.run(
            self._connection.create,
            problem,
            policy,
            name=name,
            seed=seed,
            exist_ok=exist_ok,
            require_group=require_group,
            participants=participants,
            kits=kits,
            masked=masked,
            notes=notes,
        )
        return AsyncStudy(study, self._threads)


class AsyncStudy:
    """A study that a service keeps; use `AsyncConnection.study` or `AsyncConnection.create`.

    Methods, arguments, results and errors are those of `RemoteStudy`; each is awaited. If a task is
    cancelled while it waits, its request may arrive all the same: pass `unit` or `request_id`, and
    repeat the call.

    Parameters
    ----------
    study : RemoteStudy
        The study.
    threads : object
        Carries out its calls.

    Attributes
    ----------
    name : str
        The study's name.
    problem : Problem
        The problem.
    """

    @named_arguments
    def __init__(self, study: RemoteStudy, threads: _Threads) -> None:
        self.name = study.name
        self.problem = study.problem
        self._study = study
        self._run = threads.run

    def __repr__(self) -> str:
        return f"AsyncStudy({self.name!r}, {self._study.storage!r})"

    # ------------------------------------------------------------------------- asks

    @overload
    async def ask(
        self,
        n: None = None,
        *,
        lease: float | None = None,
        request_id: str | None = None,
        participant: str | None = None,
        unit: str | None = None,
        **context: Any,
    ) -> StudyPull: ...
    @overload
    async def ask(
        self,
        n: int,
        *,
        lease: float | None = None,
        request_id: str | None = None,
        participant: str | None = None,
        unit: str | None = None,
        **context: Any,
    ) -> list[StudyPull]: ...
    async def ask(self, n: int | None = None, **options: Any) -> StudyPull | list[StudyPull]:
        """Issue the next pull, or up to `n` of them as a list: see `Study.ask`."""
        ask: Callable[..., StudyPull | list[StudyPull]] = self._study.ask
        return await self._run(ask, n, **options)

    async def pull_of(
        self, participant: str | None = None, *, unit: str | None = None
    ) -> StudyPull:
        """Return the pull of a participant, by their number, or of a unit."""
        return await self._run(self._study.pull_of, participant, unit=unit)

    async def outstanding(self) -> list[StudyPull]:
        """Return the open pulls; without the scope ``read``, only those of the own token."""
        return await self._run(self._study.outstanding)

    async def should_stop(self, pull: Pull | str) -> bool:
        """Return whether the policy no longer needs a pull's outcome, or the pull has ended."""
        return await self._run(self._study.should_stop, pull)

    async def extend(self, pull: Pull | str, lease: float) -> Lease:
        """Renew the lease of an open pull for `lease` seconds from now: see `Study.extend`."""
        return await self._run(self._study.extend, pull, lease)

    # ------------------------------------------------------------------------- tells

    async def tell(
        self, pull: Pull | str, value: Outcome, *, request_id: str | None = None
    ) -> Event:
        """Record the outcome of a pull: see `Study.tell`."""
        return await self._run(self._study.tell, pull, value, request_id=request_id)

    async def tell_many(
        self,
        outcomes: Sequence[tuple[Pull | str, Outcome]],
        *,
        request_id: str | None = None,
    ) -> list[Event]:
        """Record many outcomes in one write: all of them or, after an error, none."""
        return await self._run(self._study.tell_many, outcomes, request_id=request_id)

    async def report(
        self,
        pull: Pull | str,
        value: float | Mapping[str, float],
        *,
        request_id: str | None = None,
        **details: Any,
    ) -> Event:
        """Record a partial reading of an open pull: see `Study.report`."""
        return await self._run(self._study.report, pull, value, request_id=request_id, **details)

    async def amend(self, pull: Pull | str, value: Outcome, reason: str) -> Event:
        """Correct an outcome that was told before: see `Study.amend`."""
        return await self._run(self._study.amend, pull, value, reason)

    async def fail(self, pull: Pull | str, reason: str = "lost") -> Event:
        """Record that a pull will have no outcome: see `Study.fail`."""
        return await self._run(self._study.fail, pull, reason)

    async def cancel(self, pull: Pull | str, reason: str = "user") -> Event:
        """Record that a pull was cancelled: see `Study.cancel`."""
        return await self._run(self._study.cancel, pull, reason)

    async def stop(self, reason: str) -> Event:
        """Stop the study without an answer; the token needs the scope ``admin``."""
        return await self._run(self._study.stop, reason)

    # ----------------------------------------------------------------------- answers

    async def recommend(self) -> Recommendation:
        """Return the present answer."""
        return await self._run(self._study.recommend)

    async def progress(self) -> Progress:
        """Return the data for plots and pages."""
        return await self._run(self._study.progress)

    async def health(self, *, blinded: bool = False) -> dict[str, Any]:
        """Return signs of problems with a running study: see `Study.health`."""
        return await self._run(self._study.health, blinded=blinded)
