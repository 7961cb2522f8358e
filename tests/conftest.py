"""Settings for every test: hypothesis repeats itself, keeps no files and times nothing."""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# What a terminal or a user wishes is not what the tests are about.
for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

# Worker processes inherit the path: so they find the tests' own policies and problems.
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests import effort  # noqa: E402 - only now is it on the path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--long`, by which statistical and repetitive tests run whole."""
    parser.addoption("--long", action="store_true", help="run costly tests whole")


def pytest_configure(config: pytest.Config) -> None:
    """Say how long costly tests are, and set up hypothesis, before any test is read."""
    effort.long = config.getoption("--long")
    settings.register_profile(
        "fairtrial",
        max_examples=effort.runs(50, whole=100),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("fairtrial")


# A shell ignores Ctrl-C for what it starts in the background, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
