"""Plug-in estimates: rows weighted by the mixture of the sources of all rows."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._classes import ClassMeans
from fairtrial.causal._gaps import applied, contrasts, mean_direction, own_values
from fairtrial.causal._structure import require_outcome_table
from fairtrial.causal.errors import ModelError

if TYPE_CHECKING:
    from fairtrial.causal._cell_model import CellModel
    from fairtrial.causal._ledger import LedgerRecords
    from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ESTIMATORS = ("sn", "mis", "cell")


class Weighted:
    """Plug-in estimates: every row is weighted by the mixture of the sources of all rows.

    All numbers are scaled: outcomes from 0 to 1, larger is better. If the sensitive attribute is a
    root, all rows form one group. Otherwise the rows observed with each value form a group with its
    own mixture, and inform about what another value would have done to that group.
    """

    def __init__(self, problem: Problem, records: LedgerRecords, estimator: str) -> None:
        self.problem = problem
        self.records = records
        self.estimator = estimator
        require_outcome_table(problem)
        self.cell_model: CellModel = cell_model_of(problem)
        if estimator == "cell":
            require_cell_estimator(problem)
        counts = np.zeros((problem.n_arms, self.cell_model.n_values))
        np.add.at(counts, (records.arm, records.value), records.number)
        self.counts = counts
        self.group = self.cell_model.group(records.value)
        if problem.is_root:
            mixture = np.einsum("nku,ku->n", records.ratio, counts)
        else:
            own = records.ratio[np.arange(len(self.group)), :, self.group]
            mixture = np.einsum("nk,kn->n", own, counts[:, self.group])
        self.weights = records.ratio / mixture[:, None, None]

    # -------------------------------------------------------------------- estimates

    @cached_property
    def shares(self) -> Floats:
        """Probability of every value of the sensitive attribute, shape (values,)."""
        if self.cell_model.shares is not None:
            return self.cell_model.shares
        natural = self.records.pick(~self.records.forced)
        counts = np.bincount(
            natural.value, weights=natural.number, minlength=self.cell_model.n_values
        )
        if counts.sum() == 0:
            raise ModelError(
                "model",
                f"must give the distribution of {self.problem.sensitive!r}: there is no natural "
                "row to estimate it from",
            )
        return np.asarray(counts / counts.sum())

    @cached_property
    def effects(self) -> Floats:
        """Mean by arm, value and observed group, shape (K, values, groups); NaN if unknown."""
        if self.estimator == "mis":
            sums = self._by_group(self.records.total)
        elif self.estimator == "sn":
            sums = self._averaged(self.records.total)
        else:
            sums = self._model_part() + self._averaged(self._residuals)
        return np.where(self.informed[:, None, None], sums, np.nan)

    def _averaged(self, amounts: Floats) -> Floats:
        """Return the weighted means of the rows' amounts, shape (K, values, groups)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._by_group(amounts) / self.weight_sums

    def _by_group(self, amounts: Floats) -> Floats:
        """Return the sums of amounts times weights, shape (K, values, groups)."""
        if self.cell_model.n_groups == 1:
            return np.asarray(np.einsum("n,nku->ku", amounts, self.weights)[:, :, None])
        parts = [
            np.einsum("n,nku->ku", np.where(self.group == group, amounts, 0.0), self.weights)
            for group in range(self.cell_model.n_groups)
        ]
        return np.stack(parts, axis=2)

    @property
    def by_value(self) -> Floats:
        """Mean outcome by arm and value, shape (K, values), of each group under its own value."""
        return own_values(self.problem, self.effects)

    @cached_property
    def means(self) -> Floats:
        """Mean outcome by arm, shape (K,)."""
        return applied(self.directions[0], self.effects)[:, 0]

    @cached_property
    def gaps(self) -> Floats:
        """Gap by arm and pair, shape (K, pairs)."""
        return applied(self.directions[1], self.effects)

    @cached_property
    def directions(self) -> tuple[Floats, Floats]:
        """Weights of the effects in means and gaps, shapes (1 and pairs, values, groups)."""
        return mean_direction(self.problem, self.shares), contrasts(self.problem, self.shares)

    @cached_property
    def weight_sums(self) -> Floats:
        """Sums of the rows' weights, shape (K, values, groups); their expectation is one."""
        return self._by_group(self.records.number)

    @cached_property
    def informed(self) -> NDArray[np.bool_]:
        """Whether every cell that can occur under an arm can occur in the rows, shape (K,)."""
        if not self.cell_model.is_tabulated:
            return np.asarray(self.weight_sums.min(axis=(1, 2)) > 0.0)
        informed = np.ones(self.problem.n_arms, dtype=bool)
        missing = (self.mixture == 0.0) & self.possible
        for group in missing:
            # A value without rows counts, too: gaps ask what it would have done to other groups.
            informed &= ~((self.cell_model.g > 0.0) & group).any(axis=(1, 2))
        return informed

    @cached_property
    def mixture(self) -> Floats:
        """Expected number of rows by group and cell, without the common part."""
        if self.cell_model.n_groups == 1:
            return np.asarray(np.einsum("ku,kuz->z", self.counts, self.cell_model.g)[None])
        return np.asarray(np.einsum("ku,kuz->uz", self.counts, self.cell_model.g))

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """Whether a cell can occur, shape (groups, cells)."""
        common = self.cell_model.h
        if common is None:
            return np.ones((self.cell_model.n_groups, self.cell_model.n_cells), dtype=bool)
        return np.asarray(common[: self.cell_model.n_groups] > 0.0)

    @cached_property
    def common(self) -> Floats | None:
        """The common part of the cells' probabilities, shape (groups, cells), if it is known.

        It is taken from the model, or counted if nothing influences the outside nodes.
        """
        cell_model = self.cell_model
        if not cell_model.is_tabulated:
            return None
        if cell_model.h is not None:
            return cell_model.h[: cell_model.n_groups]
        if influenced_node(self.problem) is not None:
            return None
        parts = []
        for group in range(cell_model.n_groups):
            own = np.flatnonzero(self.group == group)
            codes = cell_model.outside_codes[self.records.cells[own]]
            numbers = np.bincount(
                codes,
                weights=self.records.number[own],
                minlength=cell_model.outside_codes.max() + 1,
            )
            parts.append(numbers[cell_model.outside_codes] / max(numbers.sum(), 1.0))
        return np.array(parts)

    # ------------------------------------------------------- the classes' own means
    #
    # By the graph, cells of a class have the same mean outcome. A row's outcome is compared with
    # the mean of its class over all *other* rows. If that mean included the row itself, differences
    # between outcomes of small classes, and so all gaps, would shrink.

    @cached_property
    def _row_class(self) -> Integers:
        """Group and class of each record as one number, shape (n,)."""
        classes = self.cell_model.classes
        return np.asarray(self.group * classes.number + classes.of_cell[self.records.cells])

    @cached_property
    def _classes(self) -> ClassMeans:
        size = self.cell_model.n_groups * self.cell_model.classes.number

        def added(amounts: Floats) -> Floats:
            sums = np.bincount(self._row_class, weights=amounts, minlength=size)
            return np.asarray(sums, dtype=np.float64)

        records = self.records
        return ClassMeans(added(records.number), added(records.total), added(records.squares))

    @cached_property
    def _residuals(self) -> Floats:
        """Sum, over each record's rows, of the outcome minus the mean of its class's other rows."""
        place = self._row_class
        inside = self.records.total - self.records.number * self._classes.means[place]
        return np.asarray(inside * self._classes.stretch[place])

    def _model_part(self) -> Floats:
        """Return the mean of the classes' means under every arm and value, by group.

        Every row represents its outside parents, and weights means that do not include the row
        itself.
        """
        classes = self.cell_model.classes
        outside, joint = self.cell_model.outside_codes, self.cell_model.joint_codes
        means = self._classes.means.reshape(self.cell_model.n_groups, -1)
        moved = self._residuals * self._classes.share[self._row_class]
        parts = []
        for group in range(self.cell_model.n_groups):
            own = np.flatnonzero(self.group == group)
            cells, numbers = self.records.cells[own], self.records.number[own]
            size = max(float(numbers.sum()), 1.0)
            common = np.bincount(outside[cells], weights=numbers, minlength=outside.max() + 1)
            by_itself = np.bincount(joint[cells], weights=moved[own], minlength=joint.max() + 1)
            value = common[outside] * means[group][classes.of_cell] - by_itself[joint]
            parts.append(np.einsum("kuz,z->ku", self.cell_model.g, value / size))
        return np.stack(parts, axis=2)


def require_cell_estimator(problem: Problem) -> None:
    """Raise if the `cell` estimator is not valid for the model."""
    if not cell_model_of(problem).is_tabulated:
        raise ModelError("estimator", "'cell' needs cells that can be listed; use 'sn' or 'mis'")
    node = influenced_node(problem)
    if node is not None:
        raise ModelError(
            "estimator",
            f"'cell' needs parents that nothing influences, and {node!r} is influenced; "
            "use 'sn' or 'mis'",
        )


def influenced_node(problem: Problem) -> str | None:
    """Return an outside node that the arm or the sensitive attribute influences, or None."""
    influenced = problem.model.descendants(problem.intervened)
    for attribute in problem.attributes:
        influenced |= problem.model.descendants(attribute)
    return next((node for node in problem.outside_nodes if node in influenced), None)
