"""Find the best intervention that is counterfactually fair."""

from typing import TYPE_CHECKING

from fairtrial.causal.allocation import Allocation, allocate
from fairtrial.causal.contradictions import Contradiction
from fairtrial.causal.divergences import Divergences, divergences
from fairtrial.causal.environments import (
    CausalTruth,
    NetworkEnvironment,
    ReplayEnvironment,
    chain,
)
from fairtrial.causal.errors import (
    BIFError,
    BoundTooTight,
    BudgetInfeasible,
    ContradictedModel,
    ModelError,
    NoInformation,
    ThinOverlap,
)
from fairtrial.causal.estimates import ArmEstimate, Estimates
from fairtrial.causal.estimation import estimate
from fairtrial.causal.model import CausalModel, Density, ThinRow
from fairtrial.causal.planning import Budgets, Complexity, complexity, row_budgets
from fairtrial.causal.policies import (
    ConstraintSuccessiveRejection,
    PlugIn,
    SuccessiveRejection,
    TwoStageRejection,
    UniformSampling,
)
from fairtrial.causal.problem import Problem
from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.causal.policies.block_betting import BlockBetting
    from fairtrial.causal.reading import read

__all__ = [
    "Allocation",
    "ArmEstimate",
    "BIFError",
    "BlockBetting",
    "BoundTooTight",
    "BudgetInfeasible",
    "Budgets",
    "CausalModel",
    "CausalTruth",
    "Complexity",
    "ConstraintSuccessiveRejection",
    "ContradictedModel",
    "Contradiction",
    "Density",
    "Divergences",
    "Estimates",
    "ModelError",
    "NetworkEnvironment",
    "NoInformation",
    "PlugIn",
    "Problem",
    "ReplayEnvironment",
    "SuccessiveRejection",
    "ThinOverlap",
    "ThinRow",
    "TwoStageRejection",
    "UniformSampling",
    "allocate",
    "chain",
    "complexity",
    "divergences",
    "estimate",
    "read",
    "row_budgets",
]

# This imports compiled code.
__getattr__, __dir__ = lazy_names(__name__, ["policies.block_betting", "reading"])
