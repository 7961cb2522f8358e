"""The role of each node of the graph in a problem, and the gaps that exist."""

from __future__ import annotations

from functools import cached_property
from itertools import permutations, product

from fairtrial.causal.model import CausalModel
from fairtrial.core.problem import Problem as BaseProblem


class Roles(BaseProblem):
    """Properties of a problem that follow from its graph and the nodes that it names."""

    model: CausalModel
    attributes: tuple[str, ...]
    intervened: str
    outcome_node: str
    forcing: str
    gap_set: str
    values: tuple[str, ...]

    @cached_property
    def is_root(self) -> bool:
        """Whether no sensitive attribute has parents: effects are the same in every group."""
        return not any(self.model.parents(node) for node in self.attributes)

    @cached_property
    def acts_directly(self) -> bool:
        """Whether the sensitive attributes, all roots, affect the outcome in an unknown way.

        In that case one of them is a parent of the outcome, and the model has no table for its
        effect.
        """
        parents = set(self.model.parents(self.outcome_node))
        is_child = bool(parents & set(self.attributes))
        return is_child and self.is_root and not self.model.is_known(self.outcome_node)

    @cached_property
    def carriers(self) -> tuple[str, ...]:
        """The sensitive attributes' children that lead to the outcome, parents first.

        The outcome is one of them if it is a child, unless the effect on it is unknown.
        """
        leading = self.model.ancestors([self.outcome_node])
        if self.acts_directly:
            leading = leading - {self.outcome_node}
        return tuple(
            node
            for node in self.model.nodes
            if node in leading
            and node not in self.attributes
            and set(self.model.parents(node)) & set(self.attributes)
        )

    @cached_property
    def cell_nodes(self) -> tuple[str, ...]:
        """The nodes, other than the sensitive ones, whose values the weights depend on."""
        used = {self.intervened, *self.carriers}
        for node in tuple(used):
            used |= set(self.model.parents(node))
        return tuple(n for n in self.model.nodes if n in used and n not in self.attributes)

    @cached_property
    def outside_nodes(self) -> tuple[str, ...]:
        """The nodes of a cell that are neither intervened nor carriers."""
        own = (self.intervened, *self.carriers)
        return tuple(node for node in self.cell_nodes if node not in own)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The fields of an outcome: all columns that are ever read from a row."""
        others = [name for name in self.cell_nodes if name != self.outcome_node]
        return (*self.attributes, *others, self.outcome_node)

    @property
    def by_attribute(self) -> bool:
        """Whether gaps are defined for each of several attributes separately."""
        return self.gap_set == "attributes" and len(self.attributes) > 1

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The gaps: ordered pairs (counterfactual, observed); empty if nothing carries S.

        They are pairs of values, or with `gap_set` ``"attributes"`` pairs such as
        ``("sex=f", "sex=m")``.
        """
        if not self.value_pairs or not self.by_attribute:
            return self.value_pairs
        labels = [[f"{node}={s}" for s in self.model.states[node]] for node in self.attributes]
        return tuple(pair for states in labels for pair in permutations(states, 2))

    @cached_property
    def value_pairs(self) -> tuple[tuple[str, str], ...]:
        """The ordered pairs of values that define the gaps."""
        if not self.carriers and not self.acts_directly:
            return ()
        combinations = dict(
            zip(self.values, product(*map(self._places, self.attributes)), strict=True)
        )
        return tuple(
            (a, b)
            for a, b in permutations(self.values, 2)
            if not self.by_attribute
            or sum(s != t for s, t in zip(combinations[a], combinations[b], strict=True)) == 1
        )

    def _places(self, node: str) -> range:
        return range(self.model.size(node))
