"""Environments that draw rows from a network, or replay a log; each knows its truth."""

from fairtrial.causal.environments.base import CausalTruth, RowEnvironment
from fairtrial.causal.environments.network import NetworkEnvironment
from fairtrial.causal.environments.replay import ReplayEnvironment
from fairtrial.causal.environments.textbook import chain

__all__ = ["CausalTruth", "NetworkEnvironment", "ReplayEnvironment", "RowEnvironment", "chain"]
