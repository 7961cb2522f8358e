"""Replications of a policy in a simulated environment, on any executor; results as tables."""

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names
from fairtrial.simulation.characteristics import (
    Characteristics,
    OperatingCharacteristics,
    Proportion,
)
from fairtrial.simulation.examples import ExampleRun, example_runs
from fairtrial.simulation.operating import operating_characteristics
from fairtrial.simulation.replicate import simulate
from fairtrial.simulation.results import Simulation
from fairtrial.simulation.scenarios import Scenario, at_effect, default_scenarios
from fairtrial.simulation.smallest_effect import SmallestEffect, smallest_effects
from fairtrial.simulation.summary import Statistics, Summary
from fairtrial.simulation.trace import trace

if TYPE_CHECKING:
    from fairtrial.simulation.disturbed import DriftingEnvironment, LossyEnvironment

__all__ = [
    "Characteristics",
    "DriftingEnvironment",
    "ExampleRun",
    "LossyEnvironment",
    "OperatingCharacteristics",
    "Proportion",
    "Scenario",
    "Simulation",
    "SmallestEffect",
    "Statistics",
    "Summary",
    "at_effect",
    "default_scenarios",
    "example_runs",
    "operating_characteristics",
    "simulate",
    "smallest_effects",
    "trace",
]

__getattr__, __dir__ = lazy_names("fairtrial.simulation", ["disturbed"])
