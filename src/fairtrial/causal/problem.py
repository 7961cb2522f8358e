"""The problem: a causal model, arms for one of its nodes, and a fairness bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.causal._arms import arms_from_table, is_table
from fairtrial.causal._outcomes import Outcomes
from fairtrial.causal._structure import as_attributes, as_model, as_outcome, check_structure
from fairtrial.causal.errors import BudgetInfeasible, ModelError
from fairtrial.causal.model import CausalModel, Density
from fairtrial.core.frames import plain_data, rows_of
from fairtrial.core.sizes import check_size
from fairtrial.core.validation import (
    as_floats,
    check_choice,
    check_labels,
    check_number,
    check_range,
)
from fairtrial.core.warning import warn_caller
from fairtrial.core.wording import listed
from fairtrial.errors import InvalidArgument

__all__ = ["NATURAL", "Problem"]

Floats = NDArray[np.float64]

NATURAL = "natural"
"""The label of rows in which the sensitive attribute was not forced."""


class Problem(Outcomes):
    """Find the best arm among those that are counterfactually fair.

    An arm replaces the conditional distribution of one node, `intervened`, in a known causal model.
    Its quality is the mean outcome. Its counterfactual gap for an ordered pair (a, b) of values of
    the sensitive attribute is how much the mean outcome of units with value b would change if their
    value were a. An arm is fair if all its gaps are strictly inside the fairness bound. The answer
    is the fair arm with the best quality, or "no fair arm".

    An action is an arm together with what is done to the sensitive attribute in that row:
    ``"natural"`` does not change it, a value forces it. An outcome is a row of named fields: a
    state for every name in `columns`, and the number under the outcome's name.

    Parameters
    ----------
    model : CausalModel, mapping, or path
        The graph, and the distributions of the sensitive attribute's children. The arguments of a
        `CausalModel`, or the path of a BIF file, are accepted, too; the problem then holds the
        model that it read. The outcome's own distribution is only needed by rules other than
        `BlockBetting`, and only if the attribute is a parent of the outcome.
    sensitive : str or sequence of str
        The sensitive attribute or attributes: discrete nodes, which must be roots of the graph
        unless `forcing` is ``"never"``. The values are those of the attribute, in the order of its
        states, or all combinations of several attributes.
    intervened : str
        The node whose distribution the arms replace.
    outcome : str or (str, mapping of str to float)
        The outcome's node, with numbers for its states if these are not numbers themselves.
    arms : mapping of str to array-like or Density, data frame, or sequence of mappings
        For every arm, the distribution of the intervened node, shape (states of its first parent,
        ..., its own states). Or one tidy table with a row for every arm and combination of the
        parents' states: the columns are ``arm``, one for every parent, and one for the probability
        of every state. Such a table can also have a row for every state, with the columns of the
        intervened node and ``probability``. The first arm is usually the deployed one.
    fairness_bound : float
        Upper bound on the gaps' absolute values, in the outcome's units.
    outcome_range : (float, float) or None
        The range of all outcomes. Rules that clip or certify need it.
    costs : array-like of shape (K,) or (K, modes), optional
        Cost of a row by arm, or by arm and mode (natural first); ``inf`` forbids it. By default all
        costs are 0.
    mean_budget : float, optional
        Largest allowed mean cost of a row.
    direction : {"maximize", "minimize"}
        Whether large or small outcomes are good.
    forcing : {"allowed", "never"}
        Whether rows can be drawn with the sensitive attribute forced to a value. If never, an
        action is just an arm, rows are observed with their own value, and the attribute may have
        parents.
    gap_set : {"pairs", "attributes"}
        Which gaps must be within the bound: those of all ordered pairs of values or, with several
        attributes, those of each attribute alone, without changing the others.

    Raises
    ------
    ModelError
        If the model does not fit the question: the sensitive attribute has parents, the
        intervened node does not influence the outcome, an arm's row is not a distribution, ...
    InvalidArgument
        If another argument is not acceptable.
    BudgetInfeasible
        If `mean_budget` is below the cheapest row.

    Notes
    -----
    Source: Gao and Feng, "Identifying Best Fair Intervention", sections 2 and 3. If the attribute
    is a root, the gap of the pair (a, b) is the difference of the means under a and b, and the gap
    of (b, a) is its negative. This requires that the attribute has no unmeasured common causes with
    the nodes that lead to the outcome, and that rows were not selected on anything that the
    attribute influences.

    If the attribute has parents, the gap is the mean outcome that the group observed with value b
    would have had with value a, minus its actual mean. Groups differ in the causes of their values,
    so the gaps of (a, b) and (b, a) are no longer opposite. The intervened node must not be an
    ancestor of the attribute, and all common causes must be in the graph.

    Examples
    --------
    >>> model = CausalModel(
    ...     [("S", "V"), ("V", "Y")], {"S": ["s", "t"], "V": 2, "Y": 2}, {"S": [0.4, 0.6]}
    ... )
    >>> problem = Problem(
    ...     model, "S", "V", "Y",
    ...     arms={"now": [[0.5, 0.5], [0.4, 0.6]], "new": [[0.2, 0.8], [0.2, 0.8]]},
    ...     fairness_bound=0.05, outcome_range=(0, 1),
    ... )
    >>> problem.n_actions, dict(problem.labels(1))
    (6, {'arm': 'now', 'sensitive': 's'})
    >>> problem.columns, problem.check_outcome({"S": "s", "V": 1, "Y": 0})
    (('S', 'V', 'Y'), {'S': 's', 'V': '1', 'Y': 0.0})

    The same arms as a table:

    >>> rows = [
    ...     {"arm": "now", "S": "s", "0": 0.5, "1": 0.5},
    ...     {"arm": "now", "S": "t", "0": 0.4, "1": 0.6},
    ...     {"arm": "new", "S": "s", "0": 0.2, "1": 0.8},
    ...     {"arm": "new", "S": "t", "0": 0.2, "1": 0.8},
    ... ]
    >>> problem.clone(arms=rows) == problem
    True
    """

    family = "causal"

    def __init__(
        self,
        model: CausalModel | Mapping[str, Any] | str | Path,
        sensitive: str | Sequence[str],
        intervened: str,
        outcome: str | tuple[str, Mapping[str, float]],
        arms: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Any,
        fairness_bound: float,
        outcome_range: tuple[float, float] | None = (0.0, 1.0),
        costs: ArrayLike | None = None,
        mean_budget: float | None = None,
        direction: str = "maximize",
        forcing: str = "allowed",
        gap_set: str = "pairs",
    ) -> None:
        self.forcing = check_choice("forcing", forcing, ["allowed", "never"])
        self.gap_set = check_choice("gap_set", gap_set, ["pairs", "attributes"])
        self.model = as_model(model)
        self.attributes = as_attributes(sensitive)
        self.sensitive = sensitive if isinstance(sensitive, str) else self.attributes
        self.intervened = intervened
        self.outcome = as_outcome(outcome)
        self.outcome_node = outcome if isinstance(outcome, str) else str(outcome[0])
        check_structure(self)
        self.outcome_values = self._given_values()
        self.arms = self._given_arms(arms)
        self.arm_labels = tuple(self.arms)
        self.direction = check_choice("direction", direction, ["maximize", "minimize"])
        self.outcome_range = (
            None if outcome_range is None else check_range("outcome_range", outcome_range)
        )
        if math.isinf(self.width):
            raise InvalidArgument("outcome_range", "must have a finite width", outcome_range)
        self._check_values_in_range()
        self.fairness_bound = check_number("fairness_bound", fairness_bound, low=0.0, open_low=True)
        self._warn_of_loose_bound()
        self.values = self._value_labels()
        self.costs = costs
        self.row_costs = self._given_costs(costs)
        self.mean_budget = mean_budget
        self._check_budget()
        self._freeze()

    # ------------------------------------------------------------------------ arms

    def _given_arms(self, arms: Any) -> dict[str, Any]:
        if (plain := plain_data(arms)) is not arms:
            arms = rows_of(plain)
        if is_table(arms):
            arms = arms_from_table(self.model, self.intervened, arms)
        if not isinstance(arms, Mapping) or not arms:
            accepted = "must be a mapping of labels to distributions, or a table with rows"
            raise InvalidArgument("arms", accepted, arms)
        labels = check_labels("arms", [str(label) for label in arms])
        given = zip(labels, arms.values(), strict=True)
        return {label: self._given_arm(label, value) for label, value in given}

    def _given_arm(self, label: str, value: Any) -> Any:
        if isinstance(value, Density):
            return value
        return self.model.check_table(self.intervened, value, f"arm {label!r}")

    @property
    def n_arms(self) -> int:
        """The number K of arms."""
        return len(self.arms)

    def _warn_of_loose_bound(self) -> None:
        if self.outcome_range is not None and self.fairness_bound >= self.width:
            message = f"fairness_bound {self.fairness_bound:g} cannot bind: no gap can be as large"
            warn_caller(message)

    # ----------------------------------------------------------------------- costs

    def _given_costs(self, costs: ArrayLike | None) -> Floats:
        shape = (self.n_arms, len(self.modes))
        accepted = f"must be numbers of shape {shape[:1]} or {shape}"
        array = as_floats("costs", 0.0 if costs is None else costs, accepted)
        try:
            array = np.array(np.broadcast_to(array[:, None] if array.ndim == 1 else array, shape))
        except ValueError:
            raise InvalidArgument("costs", accepted, costs) from None
        if np.isnan(array).any() or (array < 0).any():
            raise InvalidArgument("costs", "must not be negative", costs)
        array.setflags(write=False)
        return array

    def _check_budget(self) -> None:
        cheapest = float(self.row_costs.min())
        if math.isinf(cheapest):
            raise InvalidArgument("costs", "must leave some row affordable", self.costs)
        if self.mean_budget is not None and self.mean_budget != math.inf:
            budget = check_number("mean_budget", self.mean_budget, low=0.0)
            if budget < cheapest:
                raise BudgetInfeasible(cheapest, budget)

    # --------------------------------------------------------------------- actions

    def _value_labels(self) -> tuple[str, ...]:
        states = [self.model.states[node] for node in self.attributes]
        check_size("sensitive", "actions", len(self.arms) * math.prod(map(len, states)))
        labels = tuple(", ".join(combination) for combination in product(*states))
        if NATURAL in labels:
            raise ModelError("sensitive", f"must have no value called {NATURAL!r}")
        twice = [label for label in labels if labels.count(label) > 1]
        if twice:
            raise ModelError("sensitive", "must have values that differ when joined", twice[0])
        return labels

    @cached_property
    def action_labels(self) -> tuple[Mapping[str, Any], ...]:
        """Arm and mode of every action, arm by arm, with the natural mode first."""
        return tuple({"arm": arm, "sensitive": mode} for arm in self.arms for mode in self.modes)

    @cached_property
    def modes(self) -> tuple[str, ...]:
        """What can be done to the sensitive attribute: nothing, or forcing it to a value."""
        return (NATURAL,) if self.forcing == "never" else (NATURAL, *self.values)

    @property
    def can_force(self) -> NDArray[np.bool_]:
        """Whether rows of some arm can be forced to each value, shape (values,)."""
        if self.forcing == "never":
            return np.zeros(len(self.values), dtype=bool)
        return np.asarray(np.isfinite(self.row_costs[:, 1:]).any(axis=0))

    def in_words(self) -> Mapping[str, str]:
        """Return a description of the problem, by topic."""
        size = "largest" if self.direction == "maximize" else "smallest"
        whose = ", ".join(self.attributes)
        return {
            "Question": f"Which way to set {self.intervened} gives the {size} mean of "
            f"{self.outcome_node}, among those that are fair?",
            "Ways to set it": listed(self.arm_labels),
            "Fair": f"means for people who differ in {whose} alone differ by at most "
            f"{self.fairness_bound:g}",
        }

    @property
    def default_policy(self) -> str:  # type: ignore[override]  # elsewhere it is the same for all
        """The rule for this problem: block betting if it is proven, otherwise a fixed budget.

        It is proven if outcomes have a range, and the model has given tables, not estimated from
        data, for all nodes that the arms and the sensitive attribute change.
        """
        model = self.model
        changed = [node for node in self.carriers if node != self.intervened]
        listed_cells = all(model.is_discrete(node) for node in self.cell_nodes) and not any(
            isinstance(arm, Density) for arm in self.arms.values()
        )
        tabulated = {*changed, *model.ancestors(self.attributes)} <= set(model.tables)
        exact = self.outcome_range is not None and not model.fitted
        through_others = self.outcome_node not in self.carriers
        proven = exact and listed_cells and tabulated and through_others
        return "BlockBetting" if proven else "PlugIn"

    # ------------------------------------------------------------------------ gaps

    @property
    def n_statements(self) -> int:
        """The number of means and gaps of all arms, counting opposite gaps once."""
        gaps = len(self.pairs) // 2 if self.is_root else len(self.pairs)
        return self.n_arms * (1 + max(1, gaps))

    def is_fair(self, gaps: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each arm is fair, shape (K,), by its gaps, shape (K, pairs).

        Examples
        --------
        >>> from fairtrial.causal import chain
        >>> problem, environment = chain(0.4, {"a": [[1, 0], [0, 1]]}, [0.1, 0.9], 0.2)
        >>> problem.is_fair([[0.1, -0.1]]).tolist()
        [True]
        """
        size = np.abs(as_floats("gaps", gaps, "must be an array of numbers"))
        return np.asarray((size < self.fairness_bound).all(axis=-1))

    # -------------------------------------------------------------------- machinery

    @cached_property
    def cache(self) -> dict[Any, Any]:
        """Results derived from the problem, shared by all its runs."""
        return {}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return a problem from the output of `to_dict`.

        Raises
        ------
        InvalidArgument
            If the data name a file instead of containing the model: untrusted data must not choose
            which of your files is opened.
        """
        model = data.get("model")
        if isinstance(model, str | Path):
            accepted = "must be the model itself: data may not name a file to be opened"
            raise InvalidArgument("model", accepted, model)
        return super().from_dict(data)

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)

    __hash__ = Outcomes.__hash__

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "cache"}
