"""Carry out a study's pulls in an executor: the function `run_study` and its checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor

from fairtrial.core import Recommendation
from fairtrial.core.keywords import named_arguments
from fairtrial.core.problem import Outcome
from fairtrial.core.validation import check_instance, check_integer, check_number
from fairtrial.errors import ExperimentFinished, InvalidArgument
from fairtrial.study.driver import Driver, is_executor, maker_of
from fairtrial.study.study import Study

__all__ = ["run_study"]


@named_arguments
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
    """Carry out a study's pulls in an executor until the study has its answer.

    The function gets the arm and a `Report`, with which it can report readings before its result.
    Every reading and every result is in the study's log before anything else happens. A pull that
    is no longer needed is cancelled: ``report`` then raises `StopPull` in the function, and a
    result that the function returns anyway still counts. On shared blocks, as in `PairedRacing`,
    the pull stays open until the function ends, because the race may need it again.

    After Ctrl-C, an error or a crash, the same call continues. Pulls left open by a dead driver
    are carried out again. If such a pull has readings it counts as lost instead, because they
    belong to a result that was never returned; if the readings are measures, the pull stays open,
    and the other measures can be told later. Pulls that were requested under another worker's
    name, or while another driver runs the study, are left alone. Several drivers, in one or
    several processes, can run one study.

    Parameters
    ----------
    study : Study
        The study. The workers do not need it.
    function : callable
        ``function(arm, report)`` returns the outcome. It gets the group and other labels of the
        pull as keyword arguments: ``function(arm, report, group="x")``. It is called in the
        executor's threads or processes. ``report(value, stage=, elapsed=, std=)`` records a
        reading if the family uses readings, ``report.should_stop()`` returns whether the pull is
        no longer needed, and ``report.pull`` has the pull's number and labels. With several
        measures, the function can report some, ``report({"cured": 1})``, and return the others by
        name; None is a value that will never be known. Measures that it leaves out can be told
        later, by `Study.tell_known`: the pull stays open and is not carried out again.
    executor : concurrent.futures.Executor or callable
        Where the function is called: threads, processes or ``client.get_executor()`` of Dask; it
        is not shut down. Or a callable that makes an executor, ``lambda: ProcessPoolExecutor(4)``:
        it is shut down at the end, and replaced if it breaks because a worker was killed.
    parallel : int
        Largest number of pulls in flight. A policy may allow fewer.
    deadline : float, optional
        Seconds after which a running pull is given up as ``"timeout"`` and another one takes its
        place. A result that arrives later still counts while the driver runs. If such pulls keep
        all workers busy for a whole deadline, the executor is recreated or, if you passed an
        executor, the call ends with an error.
    pulls : int, optional
        Largest number of pulls in this call; needed if the policy never stops by itself.
    max_failures : int
        Largest number of failures in a row, without a result between them, before giving up.
    watch : callable, optional
        Called with the study after each reading and result.
    host : str
        The address at which workers on other machines reach this one. Other processes send their
        readings through a socket. Both ends prove that they know a key that travels with the work,
        and nothing from the socket is unpickled. After that, readings are neither encrypted nor
        protected against changes on the way: between machines, use a tunnel.

    Returns
    -------
    Recommendation
        The answer; its status is `running` if the limit `pulls` was reached first.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    ExperimentFinished
        If the study had stopped before the call.
    NothingToAsk
        If the policy gives no pull, and no open pull could change that.
    SourceError
        If more than `max_failures` pulls failed in a row, if the executor broke or hangs and cannot
        be recreated, if workers cannot reach this process, or if the function raised it to say
        that no pull can succeed. Pulls in flight are awaited first, and all results are kept.

    Notes
    -----
    A pull fails as ``"error"`` if the function raises or returns no valid outcome, as ``"timeout"``
    after its deadline or if the function raises `TimeoutError`, and as ``"lost"`` if its worker
    dies. The policy's guarantee states how failures affect it.

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
        raise ExperimentFinished(f"study {study.name!r} has stopped and issues no more pulls")
    driver.run()
    return study.recommend()


def _check_callables(study: object, function: object, watch: object) -> None:
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
