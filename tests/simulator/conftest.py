"""With `--seed` one simulation is repeated, and nothing else is done."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out all tests that are not about the one seed."""
    if config.getoption("--seed") is None:
        return
    others = [item for item in items if "seeds" not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]
