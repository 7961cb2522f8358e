"""Replications: the same results wherever and however they are run."""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.core import Environment, Policy, Pull, Recommendation, Run, run_policy
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import Simulation, simulate
from fairtrial.simulation._replications import Task, start
from tests import effort
from tests.core.toys import (
    DelayedEnvironment,
    GaussianEnvironment,
    LeadRace,
    PartialRace,
    QuotaKeeper,
    ToyProblem,
    UsedUpEnvironment,
)
from tests.messages import raises

PROBLEM = ToyProblem(["a", "b", "c"])
MEANS = [0.0, 1.0, 2.0]
ENVIRONMENT = GaussianEnvironment(PROBLEM, MEANS)


class CoinToss(Policy):
    """A user's policy in a separate module: pulls random arms, and answers a random one."""

    def __init__(self, problem: ToyProblem, pulls: int = 5, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.pulls = pulls
        self.best = 0
        self.highest = -math.inf

    def choose(self) -> int:
        return self.generator().integers(self.problem.n_actions)

    def learn(self, pull: Pull, outcome: float) -> None:
        if outcome > self.highest:
            self.best, self.highest = pull.action, outcome

    @property
    def stopped(self) -> bool:
        return self.told >= self.pulls

    def recommend(self) -> Recommendation:
        label = self.problem.label(self.best)
        return Recommendation(label, "decided" if self.stopped else "running", leader=label)


class Compiled(CoinToss):
    """Pretends to have compiled code: runs the same loop and leaves a mark."""

    def compiled_run(
        self,
        environment: Environment,
        generator: np.random.Generator,
        horizon: int | None,
        parallel: int = 1,
    ) -> Run | None:
        if horizon == 1:
            return None
        run = run_policy(self, environment, generator, horizon, parallel)
        return Run(run.answer, run.status, run.stopping_time, run.pulls, run.elapsed, {"mark": 1.0})


class Failing(CoinToss):
    """Fails in every other replication, depending on its seed."""

    def learn(self, pull: Pull, outcome: float) -> None:
        if self.seed % 2:
            raise ZeroDivisionError(f"seed {self.seed}")
        super().learn(pull, outcome)


def assert_same(left: Simulation, right: Simulation) -> None:
    """Require that everything is equal to the last bit, except the time taken."""
    for name in ("stopping_time", "answer", "status", "correct", "pulls", "elapsed", "cancelled"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), strict=True)
    assert left.metrics.keys() == right.metrics.keys()
    for name, values in left.metrics.items():
        np.testing.assert_array_equal(values, right.metrics[name], strict=True)
    assert (left.problem, left.policy, left.seed) == (right.problem, right.policy, right.seed)


CASES: dict[str, dict[str, Any]] = {
    "stops by itself": {"policy": LeadRace(PROBLEM, delta=0.5), "environment": ENVIRONMENT},
    "asynchronous": {
        "policy": PartialRace(PROBLEM, k=2, margin=1.5),
        "environment": DelayedEnvironment(PROBLEM, MEANS, k=2),
        "parallel": 3,
    },
    "never stops": {
        "policy": QuotaKeeper(PROBLEM, [1, 2, 0], 10),
        "environment": ENVIRONMENT,
        "horizon": 20,
    },
    "remembers": {
        "policy": CoinToss(PROBLEM),
        "environment": UsedUpEnvironment(PROBLEM, [[1.0, 2.0, 3.0, 4.0, 5.0]] * 3),
    },
    "of the user": {"policy": CoinToss(PROBLEM), "environment": ENVIRONMENT},
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    if isinstance(request.param["environment"], UsedUpEnvironment):
        return {**request.param, "replications": 11}
    return {**request.param, "replications": 17}


# ------------------------------------------------------------------- reproducibility


def test_a_replication_is_a_run_with_two_seeds_of_its_own() -> None:
    result = simulate(LeadRace(PROBLEM), ENVIRONMENT, replications=5, seed=9)
    for index, stream in enumerate(np.random.SeedSequence(9).spawn(5)):
        rewards, own = stream.spawn(2)
        seed = int(own.generate_state(1, np.uint64)[0]) // 2
        run = run_policy(LeadRace(PROBLEM, seed=seed), ENVIRONMENT, np.random.default_rng(rewards))
        assert result.stopping_time[index] == run.stopping_time
        assert result.answer[index] == run.answer
        assert result.pulls[index].tolist() == run.pulls.tolist()


def test_replications_differ_and_so_do_seeds() -> None:
    one = simulate(LeadRace(PROBLEM), ENVIRONMENT, replications=30, seed=1)
    other = simulate(LeadRace(PROBLEM), ENVIRONMENT, replications=30, seed=2)
    assert len(set(one.stopping_time)) > 5
    assert (one.stopping_time != other.stopping_time).any()


def test_the_policys_own_randomness_differs_between_replications() -> None:
    constant = GaussianEnvironment(PROBLEM.clone(noise_std=1e-9), [0, 0, 0])
    result = simulate(CoinToss(constant.problem), constant, replications=20)
    assert len({tuple(pulls) for pulls in result.pulls}) > 5


def test_more_replications_begin_with_the_same_ones() -> None:
    few = simulate(LeadRace(PROBLEM), ENVIRONMENT, replications=7, seed=3)
    many = simulate(LeadRace(PROBLEM), ENVIRONMENT, replications=20, seed=3)
    assert many.stopping_time[:7].tolist() == few.stopping_time.tolist()


def test_the_template_and_its_seed_do_not_matter() -> None:
    template = LeadRace(PROBLEM, seed=99)
    template.tell(template.ask(), 3.0)
    assert_same(simulate(template, ENVIRONMENT, 5), simulate(LeadRace(PROBLEM), ENVIRONMENT, 5))
    assert (template.asked, template.told) == (1, 1)


@pytest.mark.parametrize("workers", effort.first(1, [4, 2, 1]))
def test_results_do_not_depend_on_the_number_of_threads(case: dict[str, Any], workers: int) -> None:
    expected = simulate(**case, workers=1, chunk_size=10**6)
    assert_same(simulate(**case, workers=workers), expected)


@settings(max_examples=10)
@given(chunk_size=st.integers(1, 20), workers=st.integers(1, 5))
def test_results_do_not_depend_on_the_chunks(chunk_size: int, workers: int) -> None:
    arguments = CASES["never stops"] | {"replications": 13}
    expected = simulate(**arguments)
    assert_same(simulate(**arguments, chunk_size=chunk_size, workers=workers), expected)


class Immediate(Executor):
    """The simplest executor: does the work at once, and counts it."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        self.sizes.append(len(future.result()))
        return future


def test_any_executor_will_do(case: dict[str, Any]) -> None:
    assert_same(simulate(**case, executor=Immediate()), simulate(**case))


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        ({"workers": 1}, [3, 3, 3, 3, 3, 3, 2]),
        ({"workers": 2}, [2] * 10),
        ({"workers": 40}, [1] * 20),
        ({"chunk_size": 9}, [9, 9, 2]),
        ({"chunk_size": 99}, [20]),
    ],
)
def test_the_work_is_cut_into_chunks(arguments: dict[str, int], sizes: list[int]) -> None:
    executor = Immediate()
    simulate(CoinToss(PROBLEM), ENVIRONMENT, 20, executor=executor, **arguments)
    assert executor.sizes == sizes


# ------------------------------------------------------------- processes, also of Dask


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.slow
def test_results_do_not_depend_on_processes(case: dict[str, Any], processes: Executor) -> None:
    assert_same(simulate(**case, executor=processes, workers=2), simulate(**case))


@pytest.mark.slow
def test_an_error_comes_back_from_a_process_as_it_was(processes: Executor) -> None:
    with pytest.raises(ZeroDivisionError, match=r"^seed \d+$"):
        simulate(Failing(PROBLEM), ENVIRONMENT, 20, executor=processes)
    assert simulate(CoinToss(PROBLEM), ENVIRONMENT, 3, executor=processes).replications == 3


def class_that_no_worker_can_import(monkeypatch: pytest.MonkeyPatch) -> type[CoinToss]:
    """Return a policy from a module that exists only in this process."""
    module = ModuleType("module_of_this_process_only")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    hidden = type("Hidden", (CoinToss,), {"__module__": module.__name__})
    vars(module)["Hidden"] = hidden
    return hidden


@pytest.mark.slow
def test_a_class_that_a_process_cannot_import_is_named(
    processes: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = class_that_no_worker_can_import(monkeypatch)
    with pytest.raises(ModuleNotFoundError, match="module_of_this_process_only"):
        simulate(hidden(PROBLEM), ENVIRONMENT, 20, executor=processes)
    assert simulate(CoinToss(PROBLEM), ENVIRONMENT, 3, executor=processes).replications == 3


def test_packing_does_with_what_python_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = simulate(CoinToss(PROBLEM), ENVIRONMENT, 4, executor=Immediate())
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    assert_same(simulate(CoinToss(PROBLEM), ENVIRONMENT, 4, executor=Immediate()), expected)


def test_threads_need_nothing_that_can_be_packed() -> None:
    class Local(CoinToss):
        def __init__(self, problem: ToyProblem, pulls: int = 5, seed: Any = None) -> None:
            super().__init__(problem, pulls, seed)
            self.rule = lambda: None

    assert simulate(Local(PROBLEM), ENVIRONMENT, 3).replications == 3


@pytest.mark.slow
def test_results_do_not_depend_on_a_cluster_of_dask(
    monkeypatch: pytest.MonkeyPatch, dask_client: Any
) -> None:
    with dask_client() as client:
        executor = client.get_executor()
        for case in CASES.values():
            arguments = case | {"replications": 9}
            assert_same(simulate(**arguments, executor=executor, workers=2), simulate(**arguments))
        hidden = class_that_no_worker_can_import(monkeypatch)
        with pytest.raises(ModuleNotFoundError, match="module_of_this_process_only"):
            simulate(hidden(PROBLEM), ENVIRONMENT, 20, executor=executor)
        assert len({os.getpid(), *client.run(os.getpid).values()}) == 3


# ------------------------------------------------------------------- compiled and plain


def test_compiled_code_is_used_where_there_is_some() -> None:
    compiled = simulate(Compiled(PROBLEM), ENVIRONMENT, 8)
    assert compiled.metrics["mark"].tolist() == [1.0] * 8
    plain = simulate(Compiled(PROBLEM), ENVIRONMENT, 8, engine="python")
    assert plain.metrics == {}
    assert compiled.stopping_time.tolist() == plain.stopping_time.tolist()
    assert compiled.pulls.tolist() == plain.pulls.tolist()


def test_compiled_code_may_decline() -> None:
    assert simulate(Compiled(PROBLEM), ENVIRONMENT, 3, horizon=1).metrics == {}


def test_compiled_code_is_told_how_many_pulls_run_in_parallel() -> None:
    found = simulate(Compiled(PROBLEM), ENVIRONMENT, 3, parallel=2)
    assert found.metrics["mark"].tolist() == [1.0, 1.0, 1.0]
    plain = simulate(CoinToss(PROBLEM), ENVIRONMENT, 3, parallel=2)
    assert found.elapsed.tolist() == plain.elapsed.tolist()
    assert (found.elapsed < found.stopping_time).all()


# ---------------------------------------------------------------------------- failures


def test_one_failure_ends_the_simulation_and_cancels_the_rest() -> None:
    raised = threading.Event()

    def held(work: Any, *args: Any) -> Any:
        assert raised.wait(600)
        return work(*args)

    with ThreadPoolExecutor(1) as pool:
        submitted: list[Future[Any]] = []
        submit = pool.submit

        def counting(*args: Any) -> Future[Any]:
            submitted.append(submit(*args) if len(submitted) < 20 else submit(held, *args))
            return submitted[-1]

        pool.submit = counting
        with pytest.raises(ZeroDivisionError, match="seed"):
            simulate(Failing(PROBLEM), ENVIRONMENT, 400, executor=pool, chunk_size=1)
        raised.set()
        assert len(submitted) == 400
        assert any(future.cancelled() for future in submitted)
        pool.submit = submit
        assert simulate(CoinToss(PROBLEM), ENVIRONMENT, 3, executor=pool).replications == 3


def test_after_a_failure_other_threads_begin_no_more_runs() -> None:
    """The first run fails while another thread makes the first of ten thousand."""
    other_has_begun, stopped, begun = threading.Event(), threading.Event(), []
    first_seed = start(CoinToss(PROBLEM), 0, 0)[0].seed

    class Waiting(CoinToss):
        def choose(self) -> int:
            if self.told == 0:
                begun.append(self.seed)
                if self.seed == first_seed:
                    assert other_has_begun.wait(60)
                    raise ZeroDivisionError
                other_has_begun.set()
                assert stopped.wait(60)
            return super().choose()

    with ThreadPoolExecutor(2) as pool:
        submit = pool.submit

        def watched(work: Any, task: Task, *args: Any) -> Future[Any]:
            set_stop = task.stop.set
            task.stop.set = lambda: (set_stop(), stopped.set())
            return submit(work, task, *args)

        pool.submit = watched
        with pytest.raises(ZeroDivisionError):
            simulate(Waiting(PROBLEM), ENVIRONMENT, 20_000, executor=pool, chunk_size=10_000)
    assert len(begun) == 2


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"replications": 0}, "replications"),
        ({"replications": 2.5}, "replications"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": math.inf}, "horizon"),
        ({"parallel": 0}, "parallel"),
        ({"workers": 0}, "workers"),
        ({"chunk_size": 0}, "chunk_size"),
        ({"seed": -1}, "seed"),
        ({"seed": "7"}, "seed"),
        ({"lower_bound": 0}, "lower_bound"),
        ({"lower_bound": math.inf}, "lower_bound"),
        ({"engine": "fast"}, "engine"),
        ({"policy": LeadRace}, "policy"),
        ({"policy": "LeadRace"}, "policy"),
        ({"policy": ENVIRONMENT}, "policy"),
        (
            {"environment": GaussianEnvironment},
            "environment",
        ),
        ({"environment": None}, "environment"),
        (
            {"environment": GaussianEnvironment(ToyProblem(["a", "b"]), [1, 2])},
            "environment",
        ),
        (
            {"policy": QuotaKeeper(PROBLEM, [1, 1, 1], 5)},
            "horizon",
        ),
        (
            {"executor": 4},
            "executor",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_runs(changes: dict[str, Any], name: str) -> None:
    executor = Immediate()
    arguments: dict[str, Any] = {
        "policy": LeadRace(PROBLEM),
        "environment": ENVIRONMENT,
        "replications": 3,
        "executor": executor,
    }
    with raises(InvalidArgument, name):
        simulate(**{**arguments, **changes})
    assert executor.sizes == []


def test_an_equal_problem_is_the_same_problem() -> None:
    assert simulate(LeadRace(ToyProblem(("a", "b", "c"))), ENVIRONMENT, 2).replications == 2


def test_a_seed_may_be_anything_that_numpy_users_have() -> None:
    by_generator = simulate(CoinToss(PROBLEM), ENVIRONMENT, 3, seed=np.random.default_rng(4))
    again = simulate(CoinToss(PROBLEM), ENVIRONMENT, 3, seed=by_generator.seed)
    assert_same(by_generator, again)
    assert simulate(CoinToss(PROBLEM), ENVIRONMENT, 1, seed=None).seed >= 0


# ------------------------------------------------------------------------ progress bar


def test_a_bar_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(CoinToss(PROBLEM), ENVIRONMENT, 20, progress=True)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    simulate(CoinToss(PROBLEM), ENVIRONMENT, 20, progress=False)
    assert capsys.readouterr() == ("", "")
    simulate(CoinToss(PROBLEM), ENVIRONMENT, 20, progress=True)
    output, bar = capsys.readouterr()
    assert output == ""
    assert "replications" in bar
    assert "20/20" in bar


def test_elsewhere_a_long_simulation_writes_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fairtrial.core.counting._LINE_SECONDS", 0.0)
    simulate(CoinToss(PROBLEM), ENVIRONMENT, 20, progress=False)
    assert capsys.readouterr() == ("", "")
    simulate(CoinToss(PROBLEM), ENVIRONMENT, 20, progress=True, chunk_size=10)
    output, lines = capsys.readouterr()
    assert output == ""
    assert lines.splitlines() == [f"{done} of 20 replications" for done in (0, 10, 20)]
