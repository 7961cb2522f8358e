"""An environment that draws rows from a network."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.causal._cell_model import Rows, cell_model_of
from fairtrial.causal._factors import Factor, shares_of, sum_product, table_factor
from fairtrial.causal._gaps import overall_mean
from fairtrial.causal._quadrature import integrated_effects
from fairtrial.causal._row_source import RowSource
from fairtrial.causal._sampling import Sampler
from fairtrial.causal.environments.base import CausalTruth, RowEnvironment, truth_of
from fairtrial.causal.environments.effects import enumerated_effects, sampled_effects
from fairtrial.causal.errors import ModelError
from fairtrial.causal.model import CausalModel
from fairtrial.causal.problem import NATURAL, Problem
from fairtrial.core.pull import Pull
from fairtrial.core.validation import as_floats, check_instance
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["NetworkEnvironment"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class NetworkEnvironment(RowEnvironment):
    """Draw rows from a network that contains all distributions that lead to the outcome.

    Parameters
    ----------
    problem : Problem
        The problem.
    network : CausalModel, optional
        The environment's own network, with the problem's nodes; the problem's model by default.

    Raises
    ------
    ModelError
        If the network does not fit the problem, a distribution that leads to the outcome is
        missing, or the states of the outcome have no numbers.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[1, 0], [0, 1]], "b": [[0, 1], [0, 1]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.9], 0.2)
    >>> environment.truth.means, environment.truth.best
    (array([0.58, 0.9 ]), 'b')
    >>> environment.truth.gaps[("s", "s'")]
    array([-0.8,  0. ])
    """

    def __init__(self, problem: Problem, network: CausalModel | None = None) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.network = network
        self._network = problem.model if network is None else network
        if not isinstance(self._network, CausalModel):
            raise InvalidArgument("network", "must be a CausalModel", network)
        _require_fit(problem, self._network)
        self._nodes = self._network.ancestors([problem.outcome_node, *problem.columns])
        self._sampler = Sampler(problem, self._network, self._nodes)

    @property
    def answers_in_batches(self) -> bool:
        """Whether a batch has the same rows as single pulls: not with densities."""
        return not self._sampler.has_densities

    @cached_property
    def row_source(self) -> RowSource | None:
        """The source from which compiled code draws the rows of `batch`; None if it cannot."""
        return self._sampler.source()

    # ------------------------------------------------------------------------- rows

    def sample(self, pull: Pull, generator: np.random.Generator) -> dict[str, Any]:
        """Return one row, with states as labels and the outcome as a number."""
        row = self._labelled(self._draw([pull.action], generator))
        return {name: column[0] for name, column in row.items()}

    def batch(self, actions: Integers, generator: np.random.Generator) -> Rows:
        """Return one row for each action, as the estimators see them."""
        problem = self.problem
        arms, modes = np.divmod(np.asarray(actions), len(problem.modes))
        columns = self._draw(actions, generator)
        value, cells = cell_model_of(problem).gather(columns)
        outcome = problem.numbers_of(columns[problem.outcome_node])
        return Rows(arms, modes > 0, value, cells, problem.scaled(outcome))

    def table(self, actions: ArrayLike, generator: np.random.Generator) -> dict[str, list[Any]]:
        """Return a log with one row for each action: arm, s_mode and the problem's columns.

        Examples
        --------
        >>> from fairtrial.causal import chain
        >>> problem, environment = chain(0.4, {"a": [[1, 0], [0, 1]]}, [0.0, 1.0], 0.2)
        >>> environment.table([1, 2], np.random.default_rng(0))["V"]
        ['0', '1']
        """
        wanted = as_floats("actions", actions, "must be integers")
        if wanted.ndim != 1 or not np.isin(wanted, np.arange(self.problem.n_actions)).all():
            raise InvalidArgument(
                "actions",
                f"must be a list of integers from 0 to {self.problem.n_actions - 1}",
                actions,
            )
        check_instance("generator", generator, np.random.Generator)
        whole = wanted.astype(np.int64)
        arms, modes = np.divmod(whole, len(self.problem.modes))
        return {
            "arm": [self.problem.arm_labels[arm] for arm in arms],
            "s_mode": ["forced" if mode else NATURAL for mode in modes],
            **self._labelled(self._draw(whole, generator)),
        }

    def _draw(self, actions: ArrayLike, generator: np.random.Generator) -> dict[str, NDArray[Any]]:
        arms, modes = np.divmod(np.asarray(actions), len(self.problem.modes))
        return self._sampler.draw(arms, modes - 1, generator)

    def _labelled(self, columns: dict[str, NDArray[Any]]) -> dict[str, list[Any]]:
        """Return the problem's columns, with states as labels and outcomes as numbers."""
        result: dict[str, list[Any]] = {}
        for name in self.problem.columns:
            states = self._network.states.get(name)
            if name == self.problem.outcome_node:
                numbers = self.problem.numbers_of(columns[name])
                result[name] = numbers.astype(np.float64).tolist()
            elif states is None:
                result[name] = columns[name].astype(np.float64).tolist()
            else:
                result[name] = [states[code] for code in columns[name].tolist()]
        return result

    # ------------------------------------------------------------------------ truth

    @cached_property
    def truth(self) -> CausalTruth:
        """Means and gaps by summing over the network, and the best fair arm.

        With densities of at most two real-valued nodes, they are integrated by quadrature; with
        more such nodes, they are estimated from 200,000 rows of every arm and value.
        ``details["method"]`` says which, and ``details["error"]`` is the largest error or standard
        error of an effect.
        """
        problem, network = self.problem, self._network
        if self._sampler.has_densities or problem.outcome_values is None:
            return self._approximate_truth()
        shares = shares_of(network, problem.attributes)
        assert shares is not None
        effects = enumerated_effects(problem, network, self._nodes, shares)
        means = overall_mean(problem, effects, shares)
        return truth_of(problem, means, effects, shares)

    def _approximate_truth(self) -> CausalTruth:
        problem, network = self.problem, self._network
        method, found = "quadrature", integrated_effects(problem, network, self._nodes)
        if found is None:
            method, found = "sampling", sampled_effects(problem, network, self._sampler)
        effects, error, shares = found
        means = overall_mean(problem, effects, shares)
        largest = float(np.nanmax(error, initial=0.0))
        return truth_of(problem, means, effects, shares, method=method, error=largest)

    def cell_moments(self) -> tuple[Floats, Floats]:
        """Return mean and mean square of the scaled outcome by group and cell.

        Both have shape (values, cells); all groups are equal if the sensitive attribute is a root.

        Raises
        ------
        NotSupported
            If the cells or the outcome's values cannot be listed.
        """
        problem = self.problem
        self._require_listed()
        assert problem.outcome_numbers is not None
        numbers = problem.scaled(problem.outcome_numbers)
        powers = [np.ones_like(numbers), numbers, numbers**2]
        sums = [self._by_cell(Factor((problem.outcome_node,), power)) for power in powers]
        with np.errstate(invalid="ignore", divide="ignore"):
            first, second = (np.where(sums[0] > 0, part / sums[0], 0.0) for part in sums[1:])
        return first, second

    def cell_outcomes(self) -> tuple[Floats, Floats]:
        """Return the possible scaled outcomes, and their probabilities by group and cell.

        The shapes are (outcomes,), ascending, and (values, cells, outcomes).

        Raises
        ------
        NotSupported
            If the cells or the outcome's values cannot be listed.
        """
        problem = self.problem
        self._require_listed()
        assert problem.outcome_numbers is not None
        values, of_state = np.unique(problem.scaled(problem.outcome_numbers), return_inverse=True)
        sums = np.stack(
            [
                self._by_cell(Factor((problem.outcome_node,), (of_state == one).astype(float)))
                for one in range(len(values))
            ],
            axis=-1,
        )
        total = sums.sum(axis=-1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return values, np.where(total > 0.0, sums / total, 1.0 / len(values))

    def _require_listed(self) -> None:
        if not cell_model_of(self.problem).is_tabulated or self.problem.outcome_numbers is None:
            raise NotSupported("the cells of this problem cannot be listed")

    def _by_cell(self, outcome: Factor) -> Floats:
        """Return a function of the outcome, summed over all nodes that are not part of a cell."""
        problem, network, cell_model = self.problem, self._network, cell_model_of(self.problem)
        own = {problem.intervened, *problem.carriers}
        roots = set(problem.attributes) if problem.is_root else set()
        hidden = [table_factor(network, node) for node in sorted(self._nodes - own - roots)]
        sizes = [network.size(node) for node in problem.attributes]
        found = sum_product([*hidden, outcome], (*problem.attributes, *cell_model.nodes))
        joint = np.broadcast_to(found, (*sizes, *cell_model.shape))
        return joint.reshape(cell_model.n_values, -1)


def _require_fit(problem: Problem, network: CausalModel) -> None:
    """Raise if the network changes the meaning of the problem."""
    for node in (problem.intervened, problem.outcome_node, *problem.columns):
        known = node in network.nodes
        if not known or network.states.get(node) != problem.model.states.get(node):
            raise ModelError("network", f"must have the node {node!r} with the same states")
    for node in problem.attributes if problem.is_root else ():
        if network.parents(node):
            raise ModelError("network", f"must have no parents of {node!r}")
    if network.parents(problem.intervened) != problem.model.parents(problem.intervened):
        raise ModelError("network", f"must have the same parents of {problem.intervened!r}")
    if network.is_discrete(problem.outcome_node) and problem.outcome_values is None:
        raise ModelError("outcome", "must give numbers for its states to be simulated")
