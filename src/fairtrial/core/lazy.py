"""Packages that import their modules when one of their names is first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from fairtrial.core.loading import uninterrupted
from fairtrial.errors import MissingExtra

__all__ = ["lazy_names"]


def lazy_names(
    package: str, modules: Sequence[str], extra: tuple[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that imports its modules when first used.

    A name in the package's `__all__` that the package has not imported itself is looked up in the
    `__all__` of the modules, one after the other, and then kept.

    Parameters
    ----------
    package : str
        Its full name.
    modules : sequence of str
        Names of modules inside it.
    extra : tuple of str, optional
        If these modules import an optional dependency: the feature that needs it, and the extra of
        the package that installs it.
    """

    def find(name: str) -> Any:
        home = vars(sys.modules[package])
        if name not in home["__all__"]:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with uninterrupted():
            for each in modules:
                module = _imported(f"{package}.{each}", extra)
                if name in module.__all__:
                    value = home[name] = getattr(module, name)
                    return value
        raise AttributeError(f"no module of {package!r} has the name {name!r}")

    def names() -> list[str]:
        home = vars(sys.modules[package])
        return sorted({*home, *home["__all__"]})

    return find, names


def _imported(name: str, extra: tuple[str, str] | None) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        is_own = error.name is not None and error.name.partition(".")[0] == "fairtrial"
        if extra is None or is_own:
            raise
        raise MissingExtra(*extra) from None
