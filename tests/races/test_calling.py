"""Score functions in executors: what is sent, and what its failures mean."""

import multiprocessing
import os
import pickle
import signal
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import fairtrial as ft
from fairtrial.errors import InvalidArgument, SourceError
from tests.effort import first
from tests.messages import raises

ITEMS = [f"{at} " + 2_000 * "x" for at in range(300)]
FORK = multiprocessing.get_context("fork")


def score(candidate, item):
    return {"a": 0.2, "b": 0.9}[candidate]


def killing(candidate, item):
    os.kill(os.getpid(), signal.SIGKILL)


def failing(candidate, item):
    if candidate == "b":
        raise ConnectionError("busy")
    return 0.5


def run(score, **given):
    return ft.race(["a", "b"], ITEMS, score, **{"reward_range": (0, 1), "parallel": 2, **given})


def processes():
    return ProcessPoolExecutor(2, mp_context=FORK)


class Measuring(ThreadPoolExecutor):
    """Threads that note how many bytes a process would have got."""

    def __init__(self):
        super().__init__(2)
        self.sizes = []

    def submit(self, *call):
        self.sizes.append(len(pickle.dumps(call)))
        return super().submit(*call)


def test_a_worker_gets_one_item_and_not_all():
    with Measuring() as executor:
        result = run(score, executor=executor)
        assert executor.submit(int).result() == 0
    assert result.best == "b"
    assert len(executor.sizes) >= result.evaluations
    assert max(executor.sizes) < 2 * len(ITEMS[0])


def test_functions_run_in_processes_and_their_failures_count():
    assert run(score, executor=processes).best == "b"
    left = run(failing, executor=processes, on_error="leave", attempts=1)
    assert (left.best, left.states["b"]) == ("a", "withdrawn")


@pytest.mark.parametrize("on_error", first(1, ["leave", "ask", "worst"]))
def test_what_an_executor_cannot_do_is_no_failure_of_a_candidate(on_error):
    for function in (lambda *_: 0.5, killing):
        with raises(SourceError):
            run(function, executor=processes, on_error=on_error, attempts=1)
    with processes() as own, raises(SourceError):
        run(killing, executor=own, on_error=on_error, attempts=1)


def test_an_executor_that_cancels_is_no_failure_of_a_candidate():
    class Cancelling(ThreadPoolExecutor):
        def submit(self, *_):
            future = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    with Cancelling(1) as executor, raises(SourceError):
        run(score, executor=executor, on_error="worst", attempts=1)


def test_coroutines_need_no_executor():
    async def ask(candidate, item):
        return 0.5

    class Asking:
        async def __call__(self, candidate, item):
            return 0.5

    for function in (ask, Asking()):
        with raises(InvalidArgument) as caught:
            run(function, executor=processes)
        assert caught.value.name == "executor"


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(1, ["threads", "processes"]))
def test_functions_run_on_a_cluster_of_dask(dask_client, kind):
    with dask_client(processes=kind == "processes") as client:
        result = run(score, executor=client.get_executor(), parallel=3)
        assert (result.best, result.guarantee.label) == ("b", "proven")
        left = run(failing, executor=client.get_executor(), on_error="leave", attempts=1)
    assert (left.best, left.states["b"]) == ("a", "withdrawn")
