"""Means and gaps as sums over cells, for a stated knowledge of the cells' distribution.

Given its cell, a row's mean outcome depends neither on the arm nor on the sensitive attribute. If
the attribute is a parent of the outcome, its value is a part of the cell. Let ``m`` be the mean by
cell, and ``H`` the part of the cells' distribution that no action changes. Then every mean and
every gap is a sum of ``F * H * m`` with a known function F of the cell, and a row of an action
falls into a cell with probability ``G * H``.

If H is known, cells with the same mean outcome are joined, and H becomes a part of F and G. If only
the distribution of the covariates is unknown, cells are joined within equal covariates.
Documentation: docs/explanation/fair-interventions.md.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._gaps import contrasts, mean_direction
from fairtrial.causal._separation import ARM, are_separated, predictors, with_arm
from fairtrial.causal._weighted import influenced_node
from fairtrial.causal.errors import ModelError
from fairtrial.core.wording import listed
from fairtrial.errors import InvalidArgument

if TYPE_CHECKING:
    from fairtrial.causal.problem import Problem

__all__ = ["CELLS", "COVARIATES", "KNOWLEDGE", "RATIOS", "Functionals", "Knowledge", "knowledge_of"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Knowledge = Literal["cells", "covariates", "ratios"]

KNOWLEDGE: tuple[Knowledge, ...] = ("cells", "covariates", "ratios")
CELLS, COVARIATES, RATIOS = range(3)
"""Known part of the cells' law: all; all except the covariates' law; what actions change."""

_ROUNDING = 1e-12


def knowledge_of(problem: Problem, wanted: str) -> Knowledge:
    """Return the knowledge of the cells to use: as wanted, or with ``"auto"`` the most available.

    Raises
    ------
    ModelError
        If the model does not contain the wanted knowledge, cells cannot be listed, the sensitive
        attribute changes the outcome itself, or the model does not say how frequent its values are.
    InvalidArgument
        If ``"cells"`` is wanted although tables were estimated.
    """
    _require_listed(problem)
    if wanted == "auto":
        if _lacks_cells(problem) is None and not problem.model.fitted:
            return "cells"
        return "covariates" if influenced_node(problem) is None else "ratios"
    if wanted == "cells":
        if problem.model.fitted:
            accepted = "must not be 'cells' where tables were estimated from data"
            raise InvalidArgument("knowledge", accepted, wanted)
        node = _lacks_cells(problem)
        if node is not None:
            accepted = f"must not be 'cells': the model has no table for {node!r}"
            raise ModelError("knowledge", accepted, wanted)
        return "cells"
    node = influenced_node(problem)
    if wanted == "covariates" and node is not None:
        accepted = (
            f"must not be 'covariates': the arm or the sensitive attribute influences {node!r}"
        )
        raise ModelError("knowledge", accepted, wanted)
    return "covariates" if wanted == "covariates" else "ratios"


def _lacks_cells(problem: Problem) -> str | None:
    """Return a node whose missing table the cells' law needs; None if the law is known."""
    if cell_model_of(problem).h is not None:
        return None
    model = problem.model
    needed = model.ancestors([*problem.cell_nodes, *problem.attributes])
    missing = sorted(needed - set(model.tables) - {problem.intervened})
    return missing[0] if missing else problem.attributes[0]


class Functionals:
    """The functions of a cell that define means, gaps and actions.

    A *place* is a cell, or several joined cells. If the sensitive attribute has parents, or is a
    parent of the outcome, its value is a part of the place. There are X places, K distinct arms and
    L limits.

    Parameters
    ----------
    problem : Problem
        The problem.
    knowledge : {"cells", "covariates", "ratios"}
        What is known about the cells' law, as `knowledge_of` returns it.
    """

    def __init__(self, problem: Problem, knowledge: Knowledge) -> None:
        self.problem = problem
        self.knowledge = knowledge
        self._model = cell_model_of(problem)

    @cached_property
    def _shares(self) -> Floats:
        shares = self._model.shares
        assert shares is not None
        return shares

    # ---------------------------------------------------------------------- the places

    @property
    def _n_values(self) -> int:
        """Number of values that cells distinguish; 1 if the value is not part of a cell."""
        return self._model.n_values if self.problem.acts_directly else self._model.n_groups

    @cached_property
    def _values_of_cells(self) -> Integers:
        """The value of the attribute in every fine cell; 0 if it is not part of a cell."""
        return np.repeat(np.arange(self._n_values), self._model.n_cells)

    @cached_property
    def _groups_of_cells(self) -> Integers:
        """The observed group in every fine cell; 0 everywhere if the attribute is a root."""
        values = self._values_of_cells
        return np.zeros_like(values) if self.problem.is_root else values

    @cached_property
    def _law(self) -> Floats:
        """H in every fine cell; 1 if it is not known."""
        model = self._model
        if self.knowledge != "cells":
            return np.ones(self._n_values * model.n_cells)
        assert model.h is not None
        law = np.broadcast_to(model.h, (model.n_values, model.n_cells))
        if self.problem.is_root:
            return np.tile(law[0], self._n_values)
        return np.asarray((law * self._shares[:, None]).ravel())

    @cached_property
    def _fine_classes(self) -> Integers:
        """Class of every fine cell: by the graph, cells of a class have the same mean outcome."""
        model, problem = self._model, self.problem
        if self._n_values == 1:
            return _numbered(model.codes_of(predictors(problem)))
        nodes = _separating_nodes(problem)
        codes = np.tile(model.codes_of([n for n in nodes if n in model.nodes]), self._n_values)
        for axis, node in enumerate(problem.attributes):
            if node in nodes:
                states = np.array([combination[axis] for combination in model.combinations])
                codes = codes * model.model.size(node) + states[self._values_of_cells]
        return _numbered(codes)

    @cached_property
    def _fine_strata(self) -> Integers:
        """Number of every fine cell's covariates, which include the observed group."""
        outside = self._model.outside_codes
        return _numbered(
            self._groups_of_cells * (outside.max() + 1) + np.tile(outside, self._n_values)
        )

    @cached_property
    def place_of(self) -> Integers:
        """The place of every fine cell, shape (values, cells); -1 if the cell is irrelevant.

        There is one row for all values if the value is not part of a cell.

        A cell into which no row falls still has a place if a gap depends on it: the mean of a group
        under another value may need cells that never occur with the group's own value. If cells are
        joined, other cells with the same mean outcome can inform about it.
        """
        codes = np.arange(len(self._groups_of_cells))
        if self.knowledge == "cells":
            codes = self._fine_classes
        elif self.knowledge == "covariates":
            codes = self._fine_strata * (self._fine_classes.max() + 1) + self._fine_classes
        counts = (self._law > 0.0) & (self._fine_weights > 0.0).any(axis=(0, 1))
        places = np.full(len(codes), -1, dtype=np.int64)
        places[counts] = _numbered(codes[counts])
        return places.reshape(self._n_values, -1)

    @property
    def n_places(self) -> int:
        """The number X of places."""
        return int(self.place_of.max()) + 1

    def _joined(self, fine: Floats) -> Floats:
        """Convert functions of fine cells, shape (..., cells), to functions of places."""
        places, law = self.place_of.ravel(), self._law
        if self.knowledge == "ratios":
            result = np.zeros((*fine.shape[:-1], self.n_places))
            result[..., places[places >= 0]] = fine[..., places >= 0]
            return result
        result = np.zeros((self.n_places, *fine.shape[:-1]))
        values = np.moveaxis(fine * law, -1, 0)
        np.add.at(result, places[places >= 0], values[places >= 0])
        return np.moveaxis(result, 0, -1)

    def _first(self, fine: Integers) -> Integers:
        """Return for every place a property that all its fine cells share."""
        places = self.place_of.ravel()
        result = np.zeros(self.n_places, dtype=np.int64)
        result[places[places >= 0]] = fine[places >= 0]
        return result

    @cached_property
    def classes(self) -> Integers:
        """Class of every place, shape (X,): places of a class have the same mean outcome."""
        return _numbered(self._first(self._fine_classes))

    @cached_property
    def strata(self) -> Integers:
        """Stratum of covariates of every place, shape (X,); a single stratum if not needed."""
        if self.knowledge != "covariates":
            return np.zeros(self.n_places, dtype=np.int64)
        return _numbered(self._first(self._fine_strata))

    @cached_property
    def group_of_stratum(self) -> Integers:
        """The observed value in every stratum, shape (strata,)."""
        found = np.zeros(int(self.strata.max()) + 1, dtype=np.int64)
        if self.knowledge == "covariates":
            found[self.strata] = self._first(self._groups_of_cells)
        return found

    @property
    def group_shares(self) -> Floats:
        """Frequencies of the observed values, shape (groups,)."""
        return np.ones(1) if self.problem.is_root else self._shares

    # --------------------------------------------------------------------- functionals

    @cached_property
    def _fine_weights(self) -> Floats:
        """The arms' weights by value, shape (K, values, fine cells)."""
        return np.tile(self._model.g, self._n_values)

    @cached_property
    def _own_weights(self) -> Floats:
        """The arms' weights where the value equals that of the cell, (K, values, cells)."""
        g = self._fine_weights
        if not self.problem.acts_directly:
            return g
        values = np.arange(self._n_values)[:, None]
        return np.where(values == self._values_of_cells, g, 0.0)

    @cached_property
    def _fine_actions(self) -> Floats:
        if not self.problem.is_root:
            own = self._groups_of_cells
            return np.asarray(self._fine_weights[:, own, np.arange(len(own))])
        g = self._own_weights
        natural = np.einsum("u,kux->kx", self._shares, g)[:, None]
        forced = g if len(self.problem.modes) > 1 else g[:, :0]
        return np.concatenate([natural, forced], axis=1).reshape(self.problem.n_actions, -1)

    @cached_property
    def actions(self) -> Floats:
        """Distribution of every action's rows over places (without an unknown H), (actions, X)."""
        return self._joined(self._fine_actions)

    def _of_effects(self, directions: Floats) -> Floats:
        """Convert linear functions of the effects to functions of fine cells, by arm."""
        groups = self._groups_of_cells
        weights = directions[:, :, groups]
        if not self.problem.is_root:
            shares = self._shares[groups]
            weights = np.where(shares > 0.0, weights / np.where(shares > 0.0, shares, 1.0), 0.0)
        return np.asarray(np.einsum("lux,kux->klx", weights, self._own_weights))

    @cached_property
    def _all_means(self) -> Floats:
        return self._joined(self._of_effects(mean_direction(self.problem, self._shares))[:, 0])

    @cached_property
    def _fine_gaps(self) -> Floats:
        if not self.problem.pairs:
            return np.zeros((self.problem.n_arms, 0, len(self._groups_of_cells)))
        gaps = self._of_effects(contrasts(self.problem, self._shares))
        # For roots, the gaps of (a, b) and (b, a) are opposite, so both signs are included already.
        return gaps if self.problem.is_root else np.concatenate([gaps, -gaps], axis=1)

    @cached_property
    def _all_gaps(self) -> Floats:
        return self._joined(self._fine_gaps)

    @cached_property
    def twins(self) -> tuple[tuple[int, ...], ...]:
        """Groups of arms that no outcome can distinguish, by index, ordered by their first arm."""
        rows = np.concatenate([self._all_means[:, None], self._all_gaps], axis=1)
        left, groups = list(range(len(rows))), []
        while left:
            same = [k for k in left if np.abs(rows[k] - rows[left[0]]).max() <= _ROUNDING]
            groups.append(tuple(same))
            left = [k for k in left if k not in same]
        return tuple(groups)

    @property
    def _distinct(self) -> list[int]:
        return [group[0] for group in self.twins]

    @cached_property
    def means(self) -> Floats:
        """The functions whose sums are the distinct arms' means, shape (K, X)."""
        return self._all_means[self._distinct]

    @cached_property
    def gaps(self) -> Floats:
        """The gaps that must stay below the bound, each with both signs, shape (K, L, X)."""
        return self._all_gaps[self._distinct]

    @cached_property
    def breakable(self) -> NDArray[np.bool_]:
        """Which limits can be broken by some outcomes, shape (K, L)."""
        if self.knowledge == "ratios":
            return np.asarray((np.abs(self.gaps) > _ROUNDING).any(axis=2))
        # The largest possible gap: the outcome is 1 in every place that increases the gap.
        counting = np.maximum(self.gaps, 0.0)
        if self.knowledge == "cells":
            return np.asarray(counting.sum(axis=2) >= self.problem.bound)
        largest = np.zeros(self.gaps.shape[:2])
        for group, share in enumerate(self.group_shares):
            strata = np.flatnonzero(self.group_of_stratum == group)
            own = [counting[:, :, self.strata == stratum].sum(axis=2) for stratum in strata]
            largest += share * np.max(own, axis=0, initial=0.0)
        return np.asarray(largest >= self.problem.bound)

    # ----------------------------------------------------------------------- known totals

    @cached_property
    def basis(self) -> Floats:
        """Functions whose sums weighted by H are known for any H, shape (functions, X)."""
        if self.knowledge != "ratios":
            return np.zeros((0, self.n_places))
        g, values = self._fine_weights, self._values_of_cells
        own = np.arange(self._n_values)[:, None] == values
        return self._joined((g[:, :, None] * own).reshape(-1, g.shape[2]))

    @cached_property
    def totals(self) -> Floats:
        """The known sums of the functions in `basis`, shape (functions,)."""
        if self.problem.is_root:
            return np.ones(len(self.basis))
        number = len(self.basis) // len(self.group_shares)
        return np.tile(self.group_shares, number)


def _numbered(codes: Integers) -> Integers:
    """Renumber codes as consecutive integers from 0."""
    return np.asarray(np.unique(codes, return_inverse=True)[1], dtype=np.int64).reshape(codes.shape)


def _require_listed(problem: Problem) -> None:
    model = cell_model_of(problem)
    if not model.is_tabulated:
        raise ModelError(
            "problem",
            "must have discrete nodes with tables, few enough to list their combinations; "
            "PlugIn takes others",
        )
    if problem.outcome_node in problem.carriers:
        raise ModelError("problem", _wrong_with_direct(problem))
    if model.shares is None:
        raise ModelError(
            "problem", f"must have tables that tell how frequent {problem.sensitive!r} is"
        )


def _wrong_with_direct(problem: Problem) -> str:
    """Return why a sensitive attribute that is a parent of the outcome is not supported."""
    outcome, instead = repr(problem.outcome_node), "it has a fixed budget, and no error probability"
    parents = problem.model.parents(problem.outcome_node)
    direct = listed([repr(node) for node in problem.attributes if node in parents])
    if problem.is_root:
        return (
            f"must have no table of {outcome} if {direct} is a parent of it: BlockBetting learns "
            f"how outcomes come about. Leave the table out. Or use PlugIn: {instead}"
        )
    return (
        f"must not have {direct} as a parent of {outcome}, because the sensitive attribute has "
        f"parents. Record what it acts through as a node between them. Or use PlugIn, with the "
        f"table of {outcome}: {instead}"
    )


def _separating_nodes(problem: Problem) -> tuple[str, ...]:
    """Return observed nodes (attributes included if needed) that determine the mean outcome."""
    parents = with_arm(problem)
    seen = (*problem.attributes, *problem.cell_nodes)
    left = list(seen)
    for node in seen:
        rest = [other for other in left if other != node]
        told = [ARM, *(other for other in seen if other not in rest)]
        if are_separated(parents, [problem.outcome_node], told, rest):
            left = rest
    return tuple(left)
