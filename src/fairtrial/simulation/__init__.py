"""Replications of a policy in a simulated environment, on any executor; results as tables."""

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names
from fairtrial.simulation.calendar import Calendar, Look
from fairtrial.simulation.characteristics import Characteristics, OperatingCharacteristics
from fairtrial.simulation.claims import Claim
from fairtrial.simulation.comparators import Comparator
from fairtrial.simulation.examples import ExampleRun, example_runs
from fairtrial.simulation.operating import operating_characteristics
from fairtrial.simulation.proportions import Proportion
from fairtrial.simulation.replicate import simulate
from fairtrial.simulation.results import Simulation
from fairtrial.simulation.scenarios import Scenario, at_effect, default_scenarios
from fairtrial.simulation.smallest_effect import SmallestEffect, smallest_effects
from fairtrial.simulation.summary import Statistics, Summary
from fairtrial.simulation.trace import trace

if TYPE_CHECKING:
    from fairtrial.simulation.disturbed import DriftingEnvironment, LossyEnvironment

__all__ = [
    "Calendar",
    "Characteristics",
    "Claim",
    "Comparator",
    "DriftingEnvironment",
    "ExampleRun",
    "Look",
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
