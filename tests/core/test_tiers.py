"""Kernels run in the interpreter at once, as machine code when it pays, and decide the same."""

import errno
import importlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from fairtrial.core import background, compilation, interpretation
from fairtrial.core.compilation import (
    Interpreted,
    compiled,
    interpreted,
    kernel,
    may_compile,
    tier,
    use_tier,
)
from fairtrial.core.exclusion import alone, try_alone
from fairtrial.core.family import FAMILIES
from fairtrial.core.interpretation import plain
from fairtrial.core.loading import NotLoaded, loaded_only
from fairtrial.core.philox import philox_uniform
from fairtrial.linear import GAllocation, Problem
from tests import effort
from tests.golden.logs import ARROW, ROWS, first_difference, player_of, read_logs
from tests.messages import raises
from tests.testing.families import POLICY

DECISIONS = {
    "subpopulations": (
        'Problem(["a", "b", "c"], ["x", "y"], reward_range=(0, 1)), delta=0.05, seed=1',
        "BlockBetting",
    ),
    "linear": ("Problem([[1, 0], [0, 1], [0.7, 0.7]], noise_std=1.0), seed=1", "BlockBetting"),
    "delayed": ("Problem(3, noise_std=1.0)", "BlockBetting"),
    "allocation": ("Problem(3, 0.25), seed=1", "FairLearn"),
}
"""By family: the arguments of its default policy, and the name of the policy."""

CAUSAL = """
import sys
from fairtrial.causal import BlockBetting, chain
arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
problem, environment = chain(0.4, arms, [0.1, 0.9], 0.2)
import numpy as np
generator = np.random.default_rng(0)
policy = BlockBetting(problem, delta=0.05, seed=1)
for _ in range(20):
    pull = policy.ask()
    policy.tell(pull, environment.sample(pull, generator))
policy.progress()
print("numba" in sys.modules)
"""


@pytest.fixture(autouse=True)
def _the_tier_of_before():
    yield
    use_tier("auto")


def output(program: str, **environment: str) -> list[str]:
    """Run a program in a new process; return its words."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize("family", DECISIONS)
def test_first_decisions_import_no_compiler(family, tmp_path):
    arguments, policy = DECISIONS[family]
    program = f"""
import sys
from fairtrial.{family} import *
policy = {policy}({arguments})
for _ in range(20):
    policy.tell(policy.ask(), 0.5)
policy.progress()
print("numba" in sys.modules)
"""
    assert output(program, NUMBA_CACHE_DIR=str(tmp_path)) == ["False"]


def test_first_causal_decisions_import_no_compiler(tmp_path):
    assert output(CAUSAL, NUMBA_CACHE_DIR=str(tmp_path)) == ["False"]


def test_a_tier_that_is_none_is_refused():
    with raises(ValueError):
        use_tier("fastest")
    assert tier() == "auto"
    with pytest.raises(subprocess.CalledProcessError):
        output("import fairtrial.core.compilation", FAIRTRIAL_KERNELS="fastest")


def test_numba_switched_off_means_interpreting():
    program = "from fairtrial.core.compilation import tier; print(tier())"
    assert output(program, NUMBA_DISABLE_JIT="1") == ["interpret"]
    assert output(program, FAIRTRIAL_KERNELS="compile") == ["compile"]


@kernel
def halved(x):
    return 0.5 * x


@kernel
def logarithm_of_half(x):
    return math.log(halved(x))


def test_a_context_compiles_what_it_calls_and_nothing_else_does(monkeypatch):
    monkeypatch.setattr(compilation, "LOADING_SECONDS", math.inf)
    assert logarithm_of_half(2.0) == 0.0
    assert "dispatcher" not in vars(logarithm_of_half)
    with compiled():
        assert logarithm_of_half(2.0) == 0.0
    assert len(logarithm_of_half.dispatcher.signatures) == 1
    use_tier("interpret")
    with compiled():
        assert logarithm_of_half(4) == math.log(2)
    assert len(logarithm_of_half.dispatcher.signatures) == 1


@pytest.mark.parametrize(
    "module",
    [
        "causal._kernels.betting",
        "delayed._kernels.blocks",
        "linear._kernels.blocks",
        "subpopulations._kernels.blocks",
        "subpopulations._kernels.measures.blocks",
    ],
)
def test_the_start_of_a_study_is_never_compiled(module):
    start = importlib.import_module(f"fairtrial.{module}").start
    assert isinstance(start, Interpreted)


def test_an_interpreted_kernel_runs_without_machine_code_in_every_tier(any_tier):
    with compiled():
        assert tripled(2.0) == 6.0
    assert "dispatcher" not in vars(tripled)


@interpreted
def tripled(x):
    return 3.0 * x


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0.0, -math.inf), (-1.0, math.nan), (math.inf, math.inf), (math.nan, math.nan)],
)
def test_both_tiers_compute_beyond_the_domain_of_a_function(any_tier, number, expected):
    assert logarithm_of_half(number) == pytest.approx(expected, nan_ok=True)


@kernel
def beyond(x):
    return math.sqrt(-x), math.exp(x), math.log1p(-x)


def test_both_tiers_compute_overflows_and_roots_of_negative_numbers(any_tier):
    root, power, logarithm = beyond(1e4)
    assert math.isnan(root)
    assert power == math.inf
    assert math.isnan(logarithm)
    assert beyond(1.0)[2] == -math.inf


def test_ctrl_c_waits_for_the_end_of_an_interpreted_kernel():
    state = np.zeros(2)

    @kernel
    def write(array):
        array[0] = 1.0
        signal.raise_signal(signal.SIGINT)
        array[1] = 1.0

    use_tier("interpret")
    with pytest.raises(KeyboardInterrupt):
        write(state)
    assert state.tolist() == [1.0, 1.0]


def test_a_costly_plan_is_compiled_at_once_and_the_first_pulls_are_not():
    allowed = []

    class Noting(GAllocation):
        def choose(self, *args, **context):
            allowed.append(may_compile())
            return 0

        def learn(self, pull, outcome):
            pass

    for arms in (10, 200):
        features = np.random.default_rng(0).normal(size=(arms, 10))
        policy = Noting(Problem(features, noise_std=1.0), initial_pulls=1)
        first = policy.ask()
        policy.tell(first, 0.0)
        policy.ask()
    assert allowed == [False, False, False, True]


def test_plain_copies_call_plain_copies():
    copy = plain(logarithm_of_half.py_func)
    assert copy.__globals__["halved"] is halved.plain
    assert copy(2.0) == 0.0


def test_threads_that_need_a_copy_at_once_get_one_whole_copy(monkeypatch):
    """Since Python 3.12 threads can compute the same cached property at the same time."""
    replaced = interpretation._replaced

    def slowly(value):
        time.sleep(0.01)
        return replaced(value)

    monkeypatch.setattr(interpretation, "_replaced", slowly)
    scope = {"halved": halved, "math": math}
    exec("def root(x):\n    return math.sqrt(halved(x))", scope)
    made = kernel(scope["root"])
    with ThreadPoolExecutor(4) as pool:
        copies = list(pool.map(lambda _: made.plain, range(4)))
    assert [copy(8.0) for copy in copies] == [2.0] * 4
    assert len(set(copies)) == 1


# ----------------------------------------------------------------- machine code on disk

USE = """
import sys
from fairtrial.core import background, compilation
from fairtrial.core.philox import philox_uniform

compilation.LOADING_SECONDS, background.COMPILING_SECONDS = {loading}, {compiling}
for _ in range(3):
    philox_uniform(1, 2, 3, 0)
found = philox_uniform.dispatcher.signatures if "numba" in sys.modules else []
print("numba" in sys.modules, len(found), len(philox_uniform.missing))
"""

COMPILE = """
from fairtrial.core.philox import philox_uniform
philox_uniform(1, 2, 3, 0)
print(sum(philox_uniform.dispatcher.stats.cache_misses.values()))
"""


def test_code_on_disk_is_used_once_interpreting_has_cost_as_much_as_loading(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    late, at_once = (USE.format(loading=each, compiling="float('inf')") for each in (1e9, 0.0))
    assert output(late, **cache) == ["False", "0", "0"]
    assert output(at_once, **cache) == ["True", "0", "1"]
    assert output(COMPILE, FAIRTRIAL_KERNELS="compile", **cache) == ["1"]
    assert output(late, **cache) == ["False", "0", "0"]
    assert output(at_once, **cache) == ["True", "1", "0"]


def test_processes_that_start_at_once_compile_once(tmp_path):
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path),
        "FAIRTRIAL_KERNELS": "compile",
    }
    command = [sys.executable, "-c", COMPILE]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert sorted(process.communicate()[0].strip() for process in processes) == ["0", "0", "0", "1"]


BACKGROUND = """
import sys, time
from fairtrial.core import background, compilation
from fairtrial.core.philox import philox_uniform

compilation.LOADING_SECONDS = background.COMPILING_SECONDS = 0.0
start, found = time.monotonic(), set()
while time.monotonic() < start + 120 and not (
    "dispatcher" in vars(philox_uniform) and philox_uniform.dispatcher.signatures
):
    found.add(philox_uniform(1, 2, 3, 0))
    time.sleep(0.01)
found.add(philox_uniform(1, 2, 3, 0))
print(len(found), len(philox_uniform.dispatcher.signatures),
      sum(philox_uniform.dispatcher.stats.cache_hits.values()))
"""


def test_missing_code_is_compiled_in_the_background_and_then_used(tmp_path):
    assert output(BACKGROUND, NUMBA_CACHE_DIR=str(tmp_path)) == ["1", "1", "1"]


def test_a_background_process_that_cannot_be_started_changes_nothing(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    monkeypatch.setattr(background, "COMPILING_SECONDS", 0.0)
    philox_uniform.missing.add(())
    background._Compiler().start_compiling()
    philox_uniform.missing.clear()


def test_nothing_is_loaded_in_the_middle_of_a_write(monkeypatch):
    monkeypatch.setattr(compilation, "LOADING_SECONDS", 0.0)

    @kernel
    def doubled(x):
        return 2 * x

    with loaded_only(), pytest.raises(NotLoaded) as caught:
        doubled(3)
    caught.value.load()
    with loaded_only():
        assert doubled(3) == 6
    assert len(doubled.missing) == 1


# --------------------------------------------------------------------- the same decisions


def logs_of(family):
    """Return the recorded logs of a family's policies."""
    return {name: logs for name, logs in read_logs().items() if name.startswith(f"{family}-")}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_recorded_decision_is_made_without_machine_code(family):
    """The short run is of half of the rows with one seed; `tests/golden` has all."""
    use_tier("interpret")
    logs = logs_of(family)
    for row in effort.alternate([ROWS[name] for name in logs], POLICY):
        for log in effort.first(1, logs[row.name]):
            assert first_difference(row, log) is None


def numbers_of_numpy(shown, place=""):
    """Yield where a number of NumPy is in what is shown; it would be written in another way."""
    if isinstance(shown, np.generic):
        yield place
    elif is_dataclass(shown):
        for field in fields(shown):
            yield from numbers_of_numpy(getattr(shown, field.name), f"{place}.{field.name}")
    elif isinstance(shown, Mapping):
        for key, value in shown.items():
            yield from numbers_of_numpy((key, value), f"{place}[{key!r}]")
    elif isinstance(shown, list | tuple):
        for value in shown:
            yield from numbers_of_numpy(value, place)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_shown_without_machine_code_has_numbers_of_python(family):
    use_tier("interpret")
    for name, logs in logs_of(family).items():
        player = player_of(ROWS[name])
        for line in logs[0][:30]:
            player.make(*json.loads(line.partition(ARROW)[0]))
        assert [*numbers_of_numpy(player.policy.progress(), name)] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_policy_decides_the_same_if_its_tier_changes_at_random_calls(family):
    """Every digit is the same; recorded ones may come from another processor."""
    draws = random.Random(20261126)
    logs = logs_of(family)
    for name in draws.sample(sorted(logs), effort.runs(2, whole=3)):
        changing, interpreted = player_of(ROWS[name]), player_of(ROWS[name])
        current = "interpret"
        for line in logs[name][0]:
            call = json.loads(line.partition(ARROW)[0])
            if draws.random() < 0.1:
                current = draws.choice(["interpret", "compile"])
            use_tier(current)
            decision = changing.make(*call)
            use_tier("interpret")
            assert interpreted.make(*call) == decision, (name, line)


# ------------------------------------------------------------------------------- locks


def test_only_one_process_has_a_lock_and_others_wait(tmp_path, monkeypatch):
    hold = (
        "import sys, time\nfrom fairtrial.core.exclusion import alone\n"
        "with alone('x'):\n    print('held', flush=True)\n    sys.stdin.readline()\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", hold], env=environment, stdin=pipe, stdout=pipe, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with try_alone("x") as is_alone:
            assert not is_alone
        with try_alone("y") as is_alone:
            assert is_alone
        start = time.monotonic()
        other.stdin.write("\n")
        other.stdin.flush()
        with alone("x"):
            assert time.monotonic() - start < 60


def test_without_a_folder_for_temporary_files_nobody_waits(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with alone("x"), try_alone("x") as is_alone:
        assert is_alone


def test_a_lock_is_kept_while_another_one_is_taken_and_released(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    look = (
        "from fairtrial.core.exclusion import try_alone\n"
        "with try_alone('x') as is_alone:\n    print(is_alone)\n"
    )
    with try_alone("x"):
        with alone("y"):
            pass
        assert output(look, TMPDIR=str(tmp_path)) == ["False"]
    assert output(look, TMPDIR=str(tmp_path)) == ["True"]


def test_all_locks_leave_one_empty_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in "xyz":
        with alone(name):
            pass
    (left,) = tmp_path.iterdir()
    assert left.stat().st_size == 0


@pytest.mark.skipif(sys.platform == "win32", reason="files are locked by another module there")
def test_where_files_have_no_locks_nobody_waits(monkeypatch):
    def without_locks(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.lockf", without_locks)
    with alone("x"), try_alone("y") as is_alone:
        assert is_alone
