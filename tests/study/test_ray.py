"""The adapter for Ray that the documentation gives, with a stand-in that has Ray's protocol."""

import re
import sys
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from fairtrial.delayed import InformationRacing, Problem
from fairtrial.study import Study, run_study
from tests.study.work import measure

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "race-late-results.md"


class Reference:
    """The result of `remote`, which is still to come."""

    def __init__(self, inner: Future):
        self._inner = inner

    def future(self) -> Future:
        """Return a future; it does not know whether the work has begun."""
        outer: Future = Future()
        outer.set_running_or_notify_cancel()

        def hand_on(inner):
            error = inner.exception()
            if error is None:
                outer.set_result(inner.result())
            else:
                outer.set_exception(error)

        self._inner.add_done_callback(hand_on)
        return outer


@pytest.fixture
def ray(monkeypatch):
    """Replace Ray by the stand-in, which works in two processes."""
    module = ModuleType("ray")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:

        def remote(**options):
            assert options == {"max_retries": 0}

            def decorate(function):
                class Remote:
                    @staticmethod
                    def remote(*args, **kwargs):
                        return Reference(pool.submit(function, *args, **kwargs))

                return Remote

            return decorate

        module.remote = remote
        module.init = lambda: None
        monkeypatch.setitem(sys.modules, "ray", module)
        yield module


@pytest.mark.slow
def test_a_study_is_driven_by_the_adapter_of_the_documentation(ray):
    pattern = r"```python\n(from concurrent.futures import Executor\n.*?)```"
    [block] = re.findall(pattern, PAGE.read_text(), re.DOTALL)
    problem = Problem(["a", "b", "c"], noise_std=0.1, feedback="unbiased", reading_std=0.2)
    policy = InformationRacing(problem, delta=0.05)
    study = Study.create(problem, policy, storage="memory://", name="race", seed=1)
    names = {"ft": SimpleNamespace(run_study=run_study), "tuning": study, "train": measure}
    exec(compile(block, PAGE.name, "exec"), names)
    assert names["answer"].arm == ("c",)
    assert study.outstanding() == []
    assert study.verify().ok
