"""Replications of a policy in a simulated environment, on any executor; results as tables."""

from fairtrial.simulation.replicate import simulate
from fairtrial.simulation.results import Simulation
from fairtrial.simulation.summary import Statistics, Summary
from fairtrial.simulation.trace import trace

__all__ = ["Simulation", "Statistics", "Summary", "simulate", "trace"]
