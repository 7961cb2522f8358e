"""Settings for every test: hypothesis is deterministic, keeps no files and measures no times."""

import gc
import importlib.util
import math
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The settings of a terminal or a user must not affect the tests.
for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

# Worker processes inherit the path, so they find the tests' own policies and problems.
sys.path.insert(0, str(Path(__file__).parent.parent))

from fairtrial.core import background, compilation, seeds  # noqa: E402 - after the settings of the terminal
from fairtrial.study import opening  # noqa: E402 - after them, too
from tests import effort  # noqa: E402 - only now is it on the path
from tests.costs import Costs  # noqa: E402 - likewise
from tests.long_run import LongRun  # noqa: E402 - likewise
from tests.messages import Rewriting  # noqa: E402 - likewise


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--long`, `--costs`, `--messages`, and `--seed` to repeat a simulation."""
    parser.addoption("--long", action="store_true", help="run costly tests whole")
    parser.addoption("--costs", action="store_true", help="show which tests take most of the time")
    parser.addoption("--messages", action="store_true", help="write tests/messages.txt again")
    parser.addoption("--seed", type=int, help="repeat one simulation of tests/simulator")


def pytest_configure(config: pytest.Config) -> None:
    """Set how long costly tests run, and set up hypothesis, before any test is imported."""
    effort.long = config.getoption("--long")
    # Nearly all objects of a test are freed without this search, so Python may search seldom;
    # but some of the others hold large arrays.
    gc.set_threshold(10_000, 10, 10)
    if effort.long and not hasattr(config, "workerinput"):
        config.pluginmanager.register(LongRun())
    if config.getoption("--costs"):
        config.pluginmanager.register(Costs())
    if config.getoption("--messages"):
        config.pluginmanager.register(Rewriting(config))
    # Tests would compete with the compiler, and some count processes.
    background.COMPILING_SECONDS = math.inf
    # For modules and fixtures that serve several tests; each test draws its own numbers below.
    seeds.fresh_seed = lambda: 20_261_123
    opening.fresh_secret = lambda: "20261123"
    settings.register_profile(
        "fairtrial",
        max_examples=effort.runs(20, whole=100),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("fairtrial")


def pytest_collection() -> None:
    """Do not look for unused objects while the tests are collected: they all stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Look at no collected test again when unused objects are looked for."""
    gc.freeze()
    gc.enable()


# A shell ignores Ctrl-C in background processes, and so would all processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["interpret", "compile"])
def any_tier(request):
    """Run a test twice: with interpreted kernels, and with machine code."""
    compilation.use_tier(request.param)
    yield request.param
    compilation.use_tier("auto")


@pytest.fixture
def load(monkeypatch):
    """Return a function that imports an example by its name."""

    def loaded(name):
        path = Path(__file__).parent.parent / "examples" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        # Workers find the module's classes and functions here.
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return loaded


@pytest.fixture
def dask_client(tmp_path):
    """Return a context manager: a client of a new Dask cluster with two workers."""
    distributed = pytest.importorskip("distributed")

    @contextmanager
    def opened(processes=True, threads=1):
        with (
            distributed.LocalCluster(
                processes=processes,
                n_workers=2,
                threads_per_worker=threads,
                dashboard_address=None,
                local_directory=tmp_path,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        assert cluster.status.name == "closed"

    return opened


@pytest.fixture(scope="session")
def postgresql_server():
    """Start a PostgreSQL server, one for each test process; it takes a second."""
    # Imported only here, because it needs psycopg, which is an extra.
    from tests import postgresql

    with postgresql.running() as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql_server, monkeypatch):
    """Return the address of an empty database."""
    # The server has only just started, so nobody needs to reconnect.
    monkeypatch.setattr("fairtrial.study.postgresql.SETTLING_SECONDS", 0)
    with postgresql_server.database() as url:
        yield url


@pytest.fixture(autouse=True)
def _the_same_randomness_in_every_run(monkeypatch):
    """Make seeds and secrets of studies that are not given the same in every run."""
    generator = np.random.default_rng(20_261_123)
    monkeypatch.setattr(seeds, "fresh_seed", lambda: int(generator.integers(2**63)))
    monkeypatch.setattr(opening, "fresh_secret", lambda: generator.bytes(16).hex())
