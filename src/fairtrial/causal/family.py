"""Register this family for the callers that serve every family: the command and the service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fairtrial import causal
from fairtrial.causal._functionals import knowledge_of
from fairtrial.causal.environments import NetworkEnvironment
from fairtrial.causal.planning import Complexity, complexity, row_budgets
from fairtrial.causal.problem import Problem
from fairtrial.core import Environment
from fairtrial.core.family import Family
from fairtrial.core.mistakes import Mistakes
from fairtrial.core.wording import listed
from fairtrial.errors import InvalidArgument, NotSupported

if TYPE_CHECKING:
    from fairtrial.causal.policies.block_betting import BlockBetting

__all__ = ["FAMILY"]


class Causal(Family):
    """Find the intervention with the best outcome among those that are counterfactually fair."""

    environment_keys: ClassVar[Mapping[str, Any]] = {"tables": dict[str, Any]}
    means_key = "tables"
    path_arguments = ("model",)
    row_arguments = ("arms",)
    stand_ins: ClassVar[Mapping[str, Callable[[int], Any]]] = {"fairness_bound": float}

    def environment(
        self, problem: Problem, given: Mapping[str, Any], mistakes: Mistakes
    ) -> Environment | None:
        """Return an environment from the problem's model and additional tables."""
        model, tables = problem.model, given.get("tables", {})
        needed = model.ancestors([problem.outcome_node]) - {problem.intervened, *tables}
        missing = sorted(repr(node) for node in needed if not model.is_known(node))
        if missing:
            mistakes.add("tables", f"must hold those of {listed(missing)}: the model has none")
            return None
        if not tables:
            return mistakes.build(NetworkEnvironment, problem)
        network = mistakes.build(model.clone, tables={**model.tables, **tables}, key="tables")
        return None if network is None else mistakes.build(NetworkEnvironment, problem, network)

    def complexity(self, environment: NetworkEnvironment) -> Complexity:
        """Return the lower bound that no rule beats, if `has_bound`."""
        return complexity(environment)

    def has_bound(self, environment: Environment) -> bool:
        """Return whether the model has all tables for the bound, and outcomes can be listed."""
        if (
            not isinstance(environment, NetworkEnvironment)
            or environment.problem.outcome_range is None
        ):
            return False
        try:
            knowledge_of(environment.problem, "cells")
            environment.cell_outcomes()
        except (InvalidArgument, NotSupported):
            return False
        return True

    def certifying_budgets(
        self, environment: NetworkEnvironment, delta: float
    ) -> Mapping[str, int | None] | None:
        """Return by arm the number of rows at which its verdict is expected to be certain."""
        try:
            budgets = row_budgets(environment, delta).certifying_budget
        except (InvalidArgument, NotSupported):
            return None
        return dict(zip(environment.problem.arm_labels, budgets, strict=True))

    def analysis(self, problem: Problem, actions: Sequence[int], delta: float) -> BlockBetting:
        """Return block betting for units that were assigned in a finished experiment."""
        return causal.BlockBetting(problem, delta, assigned=list(actions))


FAMILY = Causal()
