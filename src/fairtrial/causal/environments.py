"""Worlds: rows drawn from a network, or replayed from a log; each knows its truth."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.causal._fragment import (
    Factor,
    Rows,
    columns_of,
    encode_table,
    shares_of,
    sum_product,
)
from fairtrial.causal._gaps import applied, contrasts, own_effects, own_values
from fairtrial.causal._ledger import open_ledger
from fairtrial.causal._quadrature import integrated_effects
from fairtrial.causal._sampling import Sampler
from fairtrial.causal.errors import ModelError
from fairtrial.causal.model import CausalModel
from fairtrial.causal.problem import NATURAL, Problem
from fairtrial.core.environment import Environment, Truth
from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_array, check_number
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["CausalTruth", "NetworkEnvironment", "ReplayEnvironment", "chain"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROUNDING = 1e-12
_TRUTH_ROWS = 200_000


@dataclass(frozen=True, slots=True)
class CausalTruth(Truth):
    """What a world knows: every arm's mean and gaps, and the best fair arm.

    `means` has shape (K,): mean outcome by arm. `details` holds ``means_by_value``, shape
    (K, values), ``gaps`` and ``fair``, shape (K,).
    """

    @property
    def gaps(self) -> Mapping[tuple[str, str], Floats]:
        """Gap of every arm, shape (K,), by pair (counterfactual value, observed value)."""
        gaps: Mapping[tuple[str, str], Floats] = self.details["gaps"]
        return gaps

    @property
    def means_by_value(self) -> Floats:
        """Mean outcome by arm and value of the sensitive attribute, shape (K, values)."""
        means: Floats = self.details["means_by_value"]
        return means


def _truth_of(
    problem: Problem, means: Floats, effects: Floats, shares: Floats, **details: Any
) -> CausalTruth:
    found = applied(contrasts(problem, shares), effects)
    gaps = dict(zip(problem.pairs, found.T, strict=True))
    fair = problem.is_fair(found)
    quality = np.where(fair, problem.scaled(means), -np.inf)
    acceptable: tuple[str | None, ...] = (None,)
    if fair.any():
        good = np.flatnonzero(quality >= quality.max() - _ROUNDING)
        acceptable = tuple(problem.arm_labels[k] for k in good)
    return CausalTruth(
        best=acceptable[0],
        acceptable=acceptable,
        means=means,
        details={
            "means_by_value": own_values(problem, effects),
            "gaps": gaps,
            "fair": fair,
            **details,
        },
    )


class RowEnvironment(Environment):
    """A world that can answer many pulls at once, exactly as one after another."""

    problem: Problem

    @abstractmethod
    def batch(self, actions: Integers, generator: np.random.Generator) -> Rows:
        """Return one row for each action, as the estimators see it."""

    @property
    def answers_in_batches(self) -> bool:
        """Whether `batch` gives the same rows as one pull after another."""
        return True


class NetworkEnvironment(RowEnvironment):
    """Rows drawn forward from a network with all the distributions that the outcome needs.

    Parameters
    ----------
    problem : Problem
        The problem.
    network : CausalModel, optional
        The world's own network, with the problem's nodes; the problem's model by default.

    Raises
    ------
    ModelError
        If a distribution that leads to the outcome is not given, or the states of the
        outcome stand for no numbers.

    Examples
    --------
    >>> problem, world = chain(0.4, {"a": [[1, 0], [0, 1]], "b": [[0, 1], [0, 1]]}, [0.1, 0.9], 0.2)
    >>> world.truth.means, world.truth.best
    (array([0.58, 0.9 ]), 'b')
    >>> world.truth.gaps[("s", "s'")]
    array([-0.8,  0. ])
    """

    def __init__(self, problem: Problem, network: CausalModel | None = None) -> None:
        self.problem = problem
        self.network = network
        self._network = problem.model if network is None else network
        if not isinstance(self._network, CausalModel):
            raise InvalidArgument("network", "must be a CausalModel", network)
        needed = (problem.intervened, problem.outcome_node, *problem.columns)
        for node in needed:
            same = node in self._network.nodes and self._network.states.get(
                node
            ) == problem.model.states.get(node)
            if not same:
                raise ModelError("network", f"must have the node {node!r} with the same states")
        for node in problem.attributes if problem.is_root else ():
            if self._network.parents(node):
                raise ModelError("network", f"must have no parents of {node!r}")
        if self._network.parents(problem.intervened) != problem.model.parents(problem.intervened):
            raise ModelError("network", f"must have the same parents of {problem.intervened!r}")
        if self._network.is_discrete(problem.outcome_node) and problem.outcome_values is None:
            raise ModelError("outcome", "must give numbers for its states to be simulated")
        self._nodes = self._network.ancestors([problem.outcome_node, *problem.columns])
        self._sampler = Sampler(problem, self._network, self._nodes)

    @property
    def answers_in_batches(self) -> bool:
        """Whether many rows at once are the same as one after another: not with densities."""
        return not self._sampler.has_densities

    def certifying_budgets(self, delta: float = 0.05) -> dict[str, int | None] | None:
        """Return the rows with which each arm's verdict is expected to be proven.

        None for an arm means that no number of rows will do, and None altogether that it
        cannot be told: see `complexity`.
        """
        from fairtrial.causal.complexity import complexity

        try:
            found = complexity(self, delta)
        except InvalidArgument:
            return None
        return dict(zip(self.problem.arm_labels, found.certifying_budget, strict=True))

    def sample(self, pull: Pull, generator: np.random.Generator) -> dict[str, Any]:
        """Return one row: states by their labels, the outcome as a number."""
        arm, mode = divmod(pull.action, len(self.problem.modes))
        columns = self._sampler.draw(np.array([arm]), np.array([mode - 1]), generator)
        return self._labelled({name: column[0] for name, column in columns.items()})

    def _labelled(self, row: Mapping[str, Any]) -> dict[str, Any]:
        states, outcome = self._network.states, self.problem.outcome_node
        values = self.problem.outcome_values
        result: dict[str, Any] = {}
        for name in self.problem.columns:
            code = row[name]
            if name in states:
                label = states[name][int(code)]
                result[name] = values[label] if name == outcome and values else label
            else:
                result[name] = float(code)
        return result

    def batch(self, actions: Integers, generator: np.random.Generator) -> Rows:
        """Return one row for each action, as the estimators see it."""
        arms, modes = np.divmod(np.asarray(actions), len(self.problem.modes))
        columns = self._sampler.draw(arms, modes - 1, generator)
        value, cells = self.problem.fragment.gather(columns)
        outcome = columns[self.problem.outcome_node]
        if self.problem.outcome_values is not None:
            outcome = np.array(list(self.problem.outcome_values.values()))[outcome]
        return Rows(arms, modes > 0, value, cells, self.problem.scaled(outcome))

    def table(self, actions: ArrayLike, generator: np.random.Generator) -> dict[str, list[Any]]:
        """Return a log of one row for each action: arm, s_mode and the problem's columns.

        Examples
        --------
        >>> problem, world = chain(0.4, {"a": [[1, 0], [0, 1]]}, [0.0, 1.0], 0.2)
        >>> world.table([1, 2], np.random.default_rng(0))["V"]
        ['0', '1']
        """
        arms, modes = np.divmod(np.asarray(actions), len(self.problem.modes))
        columns = self._sampler.draw(arms, modes - 1, generator)
        log: dict[str, list[Any]] = {
            "arm": [self.problem.arm_labels[arm] for arm in arms],
            "s_mode": ["forced" if mode else NATURAL for mode in modes],
        }
        values = self.problem.outcome_values
        for name in self.problem.columns:
            column = columns[name].tolist()
            states = self._network.states.get(name)
            if name == self.problem.outcome_node and values is not None:
                numbers = list(values.values())
                log[name] = [numbers[code] for code in column]
            else:
                log[name] = column if states is None else [states[code] for code in column]
        return log

    def cell_moments(self) -> tuple[Floats, Floats]:
        """Return mean and mean square of the scaled outcome by group and cell.

        Shape (values, cells) both; all groups are alike if the sensitive attribute is a root.
        """
        problem, network, fragment = self.problem, self._network, self.problem.fragment
        if not fragment.is_tabulated or problem.outcome_values is None:
            raise NotSupported("the cells of this problem cannot be listed")
        own = {problem.intervened, *problem.carriers}
        roots = set(problem.attributes) if problem.is_root else set()
        hidden = [
            Factor((*network.parents(node), node), network.tables[node])
            for node in sorted(self._nodes - own - roots)
        ]
        numbers = problem.scaled(np.array(list(problem.outcome_values.values())))
        powers = [np.ones_like(numbers), numbers, numbers**2]
        sizes = [network.size(node) for node in problem.attributes]
        kept = (*problem.attributes, *fragment.nodes)
        sums = [
            np.broadcast_to(
                sum_product([*hidden, Factor((problem.outcome_node,), power)], kept),
                (*sizes, *fragment.shape),
            ).reshape(fragment.n_values, -1)
            for power in powers
        ]
        with np.errstate(invalid="ignore", divide="ignore"):
            first, second = (np.where(sums[0] > 0, part / sums[0], 0.0) for part in sums[1:])
        return first, second

    @cached_property
    def truth(self) -> CausalTruth:
        """Means and gaps by summing over the network, and the best fair arm.

        With densities of at most two real-valued nodes they are integrated by quadrature, with
        more estimated from 200,000 rows of every arm and value. ``details["method"]`` says
        which, ``details["error"]`` is the largest error or standard error of an effect.
        """
        problem, network = self.problem, self._network
        if self._sampler.has_densities or problem.outcome_values is None:
            return self._approximate_truth()
        shares = shares_of(problem, network)
        assert shares is not None
        effects = self._enumerated_effects(shares)
        return _truth_of(problem, own_values(problem, effects) @ shares, effects, shares)

    def _approximate_truth(self) -> CausalTruth:
        problem = self.problem
        method = "quadrature"
        found = integrated_effects(problem, self._network, self._nodes)
        if found is None:
            method = "sampling"
            found = self._sampled_effects()
        effects, error, shares = found
        means = own_values(problem, effects) @ shares
        largest = float(np.nanmax(error, initial=0.0))
        return _truth_of(problem, means, effects, shares, method=method, error=largest)

    def _sampled_effects(self) -> tuple[Floats, Floats, Floats]:
        """Return effects, their standard errors, and shares, from a large sample."""
        problem, fragment = self.problem, self.problem.fragment
        shape = (problem.n_arms, fragment.n_values, fragment.n_groups)
        effects, error = np.empty(shape), np.empty(shape)
        generator = np.random.default_rng(0)
        counts = np.zeros(fragment.n_values)
        for k in range(problem.n_arms):
            value, outcome, cells = self._sampled_rows(k, -1, generator)
            counts += np.bincount(value, minlength=fragment.n_values)
            for a in range(fragment.n_values):
                if problem.is_root:
                    terms = self._sampled_rows(k, a, generator)[1]
                    effects[k, a, 0], error[k, a, 0] = _mean_and_error(terms)
                    continue
                for b in range(fragment.n_values):
                    logs = fragment.log_weights(cells[value == b])[:, k]
                    terms = outcome[value == b] * np.exp(logs[:, a] - logs[:, b])
                    effects[k, a, b], error[k, a, b] = _mean_and_error(terms)
        shares = shares_of(problem, self._network)
        return effects, error, counts / counts.sum() if shares is None else shares

    def _sampled_rows(
        self, arm: int, value: int, generator: np.random.Generator
    ) -> tuple[Integers, Floats, NDArray[Any]]:
        columns = self._sampler.draw(
            np.full(_TRUTH_ROWS, arm), np.full(_TRUTH_ROWS, value), generator
        )
        values, cells = self.problem.fragment.gather(columns)
        outcome = columns[self.problem.outcome_node]
        if self.problem.outcome_values is not None:
            outcome = np.array(list(self.problem.outcome_values.values()))[outcome.astype(int)]
        return values, outcome, cells

    def _enumerated_effects(self, shares: Floats) -> Floats:
        """Return the effects, shape (K, values, observed), by summing over the network."""
        problem, network = self.problem, self._network
        family = (*network.parents(problem.intervened), problem.intervened)
        factors = [Factor(("", *family), np.array(list(problem.arms.values())))]
        factors += [
            Factor((*network.parents(node), node), network.tables[node])
            for node in sorted(self._nodes)
            if node != problem.intervened and node not in problem.attributes
        ]
        assert problem.outcome_values is not None
        outcome = problem.outcome_node
        factors.append(Factor((outcome,), np.array(list(problem.outcome_values.values()))))
        sizes = [network.size(node) for node in problem.attributes]
        shape = (problem.n_arms, len(problem.values), problem.fragment.n_groups)
        if problem.is_root:
            sums = sum_product(factors, ("", *problem.attributes))
            return np.broadcast_to(sums, (problem.n_arms, *sizes)).reshape(shape)
        # What leads to the attributes is weighed by the value observed, what follows is not.
        observed = {node: f"observed {node}" for node in problem.attributes}
        factors += [
            Factor(
                tuple(observed.get(name, name) for name in (*network.parents(node), node)),
                network.tables[node],
            )
            for node in problem.attributes
        ]
        sums = sum_product(factors, ("", *problem.attributes, *observed.values()))
        joint = np.broadcast_to(sums, (problem.n_arms, *sizes, *sizes)).reshape(shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            return joint / shares


def _mean_and_error(terms: Floats) -> tuple[float, float]:
    if len(terms) < 2:
        return math.nan, math.nan
    return float(terms.mean()), float(terms.std(ddof=1)) / math.sqrt(len(terms))


class ReplayEnvironment(RowEnvironment):
    """Rows drawn, with replacement, from a log.

    A natural pull draws a natural row of its arm; a forced one draws a row of its arm whose
    sensitive attribute has the value, forced or not: it is a root, so both are the same. The
    truth is that of the log: means are those of the rows, and so are gaps; if the attribute
    has parents, gaps are those of the rows weighed by the model's conditionals.

    Parameters
    ----------
    problem : Problem
        The problem; every action of finite cost needs at least one row.
    table : mapping of str to sequence, pandas.DataFrame, or sequence of mappings
        One row per observation: the problem's `columns`, arm and mode.
    arm, mode : str
        Names of the columns of the arm and of the mode, "natural" or "forced"; without
        a column of that name all rows are natural.

    Raises
    ------
    InvalidArgument
        If a column is missing, or an action has no row.
    InvalidOutcome
        If a value is refused by the problem; row and column are named.

    Examples
    --------
    >>> problem, world = chain(0.5, {"a": [[1, 0], [0, 1]]}, [0.0, 1.0], 0.2)
    >>> log = {"arm": "aaaa", "S": ["s", "s", "s'", "s'"], "V": "0011", "Y": [0, 0, 0, 1]}
    >>> replay = ReplayEnvironment(problem, log)
    >>> replay.truth.means, replay.truth.gaps[("s", "s'")]
    (array([0.25]), array([-0.5]))
    """

    def __init__(
        self, problem: Problem, table: Any, arm: str = "arm", mode: str = "s_mode"
    ) -> None:
        self.problem = problem
        self.table = table
        self.arm, self.mode = arm, mode
        self._rows = encode_table(problem, table, arm, mode)
        self._by_action = [self._rows_of(action) for action in range(problem.n_actions)]
        for action, rows in enumerate(self._by_action):
            affordable = np.isfinite(problem.row_costs.ravel()[action])
            if affordable and not len(rows):
                labels = dict(problem.labels(action))
                raise InvalidArgument(
                    "table", f"must have a row for every action; none for {labels}"
                )
        self._starts = np.cumsum([0, *(len(rows) for rows in self._by_action)])
        self._order = np.concatenate(self._by_action)

    def _rows_of(self, action: int) -> Integers:
        arm, mode = divmod(action, len(self.problem.modes))
        rows = self._rows
        fits = ~rows.forced if mode == 0 else rows.value == mode - 1
        return np.flatnonzero((rows.arm == arm) & fits)

    def _draw(self, actions: Integers, generator: np.random.Generator) -> Integers:
        sizes = self._starts[actions + 1] - self._starts[actions]
        places = (generator.random(len(actions)) * sizes).astype(np.int64)
        chosen: Integers = self._order[self._starts[actions] + places]
        return chosen

    def sample(self, pull: Pull, generator: np.random.Generator) -> dict[str, Any]:
        """Return one row of the log."""
        row = int(self._draw(np.array([pull.action]), generator)[0])
        return {name: column[row] for name, column in self._columns.items()}

    @cached_property
    def _columns(self) -> dict[str, Any]:
        return columns_of(self.table, self.problem.columns, ())

    def batch(self, actions: Integers, generator: np.random.Generator) -> Rows:
        """Return one row for each action, as the estimators see it."""
        chosen = self._draw(np.asarray(actions), generator)
        arms, modes = np.divmod(np.asarray(actions), len(self.problem.modes))
        rows = self._rows
        return Rows(arms, modes > 0, rows.value[chosen], rows.cells[chosen], rows.outcome[chosen])

    @cached_property
    def truth(self) -> CausalTruth:
        """Means and gaps of the log's rows, and the best fair arm."""
        problem = self.problem
        ledger = open_ledger(problem.fragment)
        ledger.add(self._rows)
        effects = problem.unscaled_mean(own_effects(problem, ledger.records()))
        natural = self._by_action[:: len(problem.modes)]
        means = [self._rows.outcome[rows].mean() if len(rows) else np.nan for rows in natural]
        return _truth_of(problem, problem.unscaled_mean(np.array(means)), effects, self._shares)

    @property
    def _shares(self) -> Floats:
        if self.problem.fragment.shares is not None:
            return self.problem.fragment.shares
        values = self._rows.value[~self._rows.forced]
        counts = np.bincount(values, minlength=len(self.problem.values))
        return np.asarray(counts / max(1, counts.sum()))


def chain(
    p_sensitive: float | ArrayLike | Mapping[str, float],
    arms: Mapping[str, ArrayLike] | ArrayLike,
    reward: ArrayLike,
    fairness_bound: float,
    **options: Any,
) -> tuple[Problem, NetworkEnvironment]:
    """Return the textbook problem S -> V -> Y with an outcome of 0 or 1, and its world.

    Parameters
    ----------
    p_sensitive : float, array-like of shape (values,), or mapping of str to float
        Distribution of S. A single number is the probability of the first of two values,
        which are then called ``"s"`` and ``"s'"``.
    arms : mapping of str to array-like of shape (values, states), or one array for all
        P(V | S) of every arm; an array of shape (K, values, states) names the arms "0", ...
    reward : array-like of shape (states,)
        P(Y = 1 | V).
    fairness_bound : float
        What the gaps must stay below.
    **options
        Further arguments of `Problem`: costs, mean_budget, direction.

    Returns
    -------
    (Problem, NetworkEnvironment)

    Examples
    --------
    >>> problem, world = chain(
    ...     0.4,
    ...     {"now": [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]], "new": [[0.2, 0.3, 0.5], [0.1, 0.3, 0.6]]},
    ...     reward=[0.1, 0.1, 0.9],
    ...     fairness_bound=0.2,
    ... )
    >>> world.truth.means.round(3), world.truth.best
    (array([0.308, 0.548]), 'new')
    """
    shares = _shares(p_sensitive)
    good = check_array("reward", reward, (None,))
    if ((good < 0) | (good > 1)).any():
        raise InvalidArgument("reward", "must be probabilities", reward)
    if not isinstance(arms, Mapping):
        tables = np.asarray(arms, dtype=np.float64)
        arms = {str(k): table for k, table in enumerate(tables)}
    model = CausalModel(
        [("S", "V"), ("V", "Y")],
        states={"S": list(shares), "V": len(good), "Y": ["0", "1"]},
        tables={"S": list(shares.values()), "Y": np.column_stack([1 - good, good])},
    )
    problem = Problem(model, "S", "V", "Y", arms, fairness_bound, (0.0, 1.0), **options)
    return problem, NetworkEnvironment(problem)


def _shares(given: Any) -> dict[str, float]:
    if isinstance(given, Mapping):
        return {str(label): float(share) for label, share in given.items()}
    if np.ndim(given) == 0:
        share = check_number("p_sensitive", given, low=0.0, high=1.0)
        return {"s": share, "s'": 1.0 - share}
    return {str(place): float(share) for place, share in enumerate(np.asarray(given))}
