"""Policies for a fixed budget of rows, and block betting, which is imported when it is used."""

from fairtrial.causal.policies.base import FixedBudgetPolicy
from fairtrial.causal.policies.baselines import (
    SuccessiveRejection,
    TwoStageRejection,
    UniformSampling,
)
from fairtrial.causal.policies.constrained import ConstraintSuccessiveRejection
from fairtrial.causal.policies.plug_in import PlugIn
from fairtrial.causal.policies.schedule import n_phases, phase_lengths, smallest_budget

__all__ = [
    "ConstraintSuccessiveRejection",
    "FixedBudgetPolicy",
    "PlugIn",
    "SuccessiveRejection",
    "TwoStageRejection",
    "UniformSampling",
    "n_phases",
    "phase_lengths",
    "smallest_budget",
]
