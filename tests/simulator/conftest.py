"""With `--seed`, repeat one simulation and run no other test."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out all tests that do not belong to the one seed."""
    if config.getoption("--seed") is None:
        return
    others = [item for item in items if "seeds" not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]
