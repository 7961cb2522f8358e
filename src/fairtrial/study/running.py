"""Carry out a study's pulls in an executor: the function, and what it accepts."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from fairtrial.core import Recommendation
from fairtrial.core.validation import check_instance, check_integer, check_number
from fairtrial.errors import ExperimentFinished, InvalidArgument
from fairtrial.study.driver import Driver
from fairtrial.study.executors import is_executor, maker_of

if TYPE_CHECKING:
    from fairtrial.core.problem import Outcome
    from fairtrial.study.study import Study

__all__ = ["run_study"]


def run_study(
    study: Study,
    function: Callable[..., Outcome],
    executor: Executor | Callable[[], Executor],
    parallel: int = 1,
    *,
    deadline: float | None = None,
    pulls: int | None = None,
    max_failures: int = 10,
    watch: Callable[[Study], None] | None = None,
    host: str = "127.0.0.1",
) -> Recommendation:
    """Carry out a study's pulls in an executor until it has its answer.

    The function gets the arm, and a `Report` by which it can give readings before its result.
    Every reading and every result is in the study's log before the next thing happens. A pull
    that no longer matters is called back: ``report`` then raises `StopPull` in the function,
    and a result that it returns all the same still counts.

    After Ctrl-C, an error or a sudden death the same call goes on. Pulls left open by a driver
    that is gone are carried out again; such of which there are readings count as lost, because
    the readings tell of a result that nobody will see. (If some measures were reported, it stays
    open: somebody may tell the others.) Pulls that were asked for under another
    worker's name, or while another driver runs the study, are left alone. Several drivers, in
    one or several processes, may run one study.

    Parameters
    ----------
    study : Study
        The study; not needed in the workers.
    function : callable
        ``function(arm, report)`` returns the outcome; a group and whatever else the problem's
        pulls are labelled by come as keywords: ``function(arm, report, group="x")``. It is
        called in the executor's threads or processes. ``report(value, stage=, elapsed=, std=)``
        records a reading where the family takes such, ``report.should_stop()`` asks without
        one, ``report.pull`` has the pull's number and labels. Of several measures it may report
        some, ``report({"cured": 1})``, and return the others by name; None is a value that never
        will be known. What it leaves out may be told later, by `Study.tell_known`: the pull stays
        open, and is not carried out again.
    executor : concurrent.futures.Executor or callable
        Where the function is called: threads, processes, ``client.get_executor()`` of Dask. It
        stays open. Or what makes one, ``lambda: ProcessPoolExecutor(4)``: it is shut down at the
        end, and made again when it breaks because a worker was killed.
    parallel : int
        Most pulls in flight at once. A policy may allow fewer.
    deadline : float, optional
        Seconds from its start after which a pull is given up as ``"timeout"`` and its place
        filled. A result that comes later still counts, as long as the driver runs. Once every
        worker has been held for a whole deadline by such pulls, the executor is recreated, or if
        it is yours, the session ends.
    pulls : int, optional
        Most pulls of this session; needed if the policy never stops by itself.
    max_failures : int
        How many failures in a row, without a result between them, are put up with.
    watch : callable, optional
        Called with the study after every reading and result.
    host : str
        The address by which workers on other machines reach this one. The readings of other
        processes come by a socket; both ends prove that they know a key that travels with the
        work, and nothing that comes by the socket is unpickled. Readings can be read on the way
        between machines, but not altered; use a tunnel where they are confidential.

    Returns
    -------
    Recommendation
        The answer; `running` if the session's pulls were used up before.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.
    ExperimentFinished
        If the study has stopped before.
    NothingToAsk
        If the policy gives no pull, and none is in flight whose result could change that.
    SourceError
        If more than `max_failures` pulls failed in a row, the executor broke or hangs and cannot
        be recreated, workers do not reach this process, or the function raised it, to say that no
        pull can do any better. What is in flight is waited for; all that came in is kept.

    Notes
    -----
    A pull fails as ``"error"`` if the function raises or returns no outcome, as ``"timeout"``
    after its deadline or if the function raises `TimeoutError`, as ``"lost"`` if its worker
    dies. What that does to the guarantee is the policy's to say.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from fairtrial.delayed import InformationRacing, Problem
    >>> from fairtrial.study import Study, run_study
    >>> problem = Problem(["a", "b"], noise_std=0.1, feedback="refining", reading_std=0.5)
    >>> policy = InformationRacing(problem, delta=0.05)
    >>> study = Study.create(problem, policy, storage="memory://", name="demo", seed=7)
    >>> def measure(arm, report):
    ...     result = 1.0 if arm == "a" else 0.0
    ...     report(result, stage=1)
    ...     return result
    >>> with ThreadPoolExecutor(2) as threads:
    ...     run_study(study, measure, threads, parallel=2).arm
    ('a',)
    """
    _check_callables(study, function, watch)
    driver = Driver(
        study,
        function,
        maker_of(executor),
        check_integer("parallel", parallel, low=1),
        deadline=_check_deadline(deadline),
        limit=_check_limit(study, pulls),
        max_failures=check_integer("max_failures", max_failures, low=0),
        watch=watch,
        host=_check_host(host),
        may_renew=not is_executor(executor),
    )
    if study.stopped:
        raise ExperimentFinished(f"study {study.name!r} has stopped: see recommend()")
    driver.run()
    return study.recommend()


def _check_callables(study: object, function: object, watch: object) -> None:
    from fairtrial.study.study import Study

    check_instance("study", study, Study)
    for name, given in (("function", function), ("watch", watch)):
        if not callable(given) and (name, given) != ("watch", None):
            raise InvalidArgument(name, "must be callable", given)


def _check_deadline(deadline: float | None) -> float:
    if deadline is None:
        return math.inf
    return check_number("deadline", deadline, low=0.0, open_low=True)


def _check_host(host: object) -> str:
    if not isinstance(host, str) or not host:
        raise InvalidArgument("host", "must be the name or address of this machine", host)
    return host


def _check_limit(study: Study, pulls: int | None) -> float:
    if pulls is not None:
        return check_integer("pulls", pulls, low=1)
    policy = study.policy
    if policy.endless:
        name = type(policy).__name__
        raise InvalidArgument("pulls", f"is needed: {name} never stops by itself", pulls)
    return math.inf
