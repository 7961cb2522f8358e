"""Sequential experiments that find the best option: with a guarantee, few samples, fairness.

The public names are loaded when first used, so that importing the package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fairtrial.core.loading import uninterrupted
from fairtrial.version import __version__ as __version__

if TYPE_CHECKING:
    from fairtrial import (
        allocation,
        causal,
        confidence,
        data,
        delayed,
        errors,
        linear,
        plots,
        sklearn,
        subpopulations,
        testing,
    )
    from fairtrial.client import connect
    from fairtrial.core import (
        Effect,
        Environment,
        Estimate,
        Guarantee,
        Policy,
        Problem,
        Progress,
        Pull,
        Recommendation,
        Truth,
    )
    from fairtrial.races import RaceResult, race
    from fairtrial.report import write_report
    from fairtrial.simulation import Simulation, simulate
    from fairtrial.study import Study, analyse, run_study

__all__ = [
    "Effect",
    "Environment",
    "Estimate",
    "Guarantee",
    "Policy",
    "Problem",
    "Progress",
    "Pull",
    "RaceResult",
    "Recommendation",
    "Simulation",
    "Study",
    "Truth",
    "allocation",
    "analyse",
    "causal",
    "confidence",
    "connect",
    "data",
    "delayed",
    "errors",
    "linear",
    "plots",
    "race",
    "run_study",
    "simulate",
    "sklearn",
    "subpopulations",
    "testing",
    "write_report",
]

_MODULES = frozenset(
    {
        "allocation",
        "causal",
        "confidence",
        "data",
        "delayed",
        "errors",
        "linear",
        "plots",
        "sklearn",
        "subpopulations",
        "testing",
    }
)
_HOMES = {
    "Simulation": "simulation",
    "Study": "study",
    "analyse": "study",
    "connect": "client",
    "RaceResult": "races",
    "race": "races",
    "run_study": "study",
    "simulate": "simulation",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _imported(name)
    if name in __all__:
        home = _imported(_HOMES.get(name, "core"))
        value = globals()[name] = getattr(home, name)
        return value
    raise AttributeError(f"module 'fairtrial' has no attribute {name!r}")


def _imported(name: str) -> Any:
    with uninterrupted():
        return importlib.import_module(f"fairtrial.{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
