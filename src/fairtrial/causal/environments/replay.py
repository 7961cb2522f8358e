"""An environment replayed from the rows of a log."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import Rows, cell_model_of
from fairtrial.causal._gaps import own_effects
from fairtrial.causal._ledger import open_ledger
from fairtrial.causal._logs import columns_of, encode_table
from fairtrial.causal.environments.base import CausalTruth, RowEnvironment, truth_of
from fairtrial.causal.problem import Problem
from fairtrial.core.frames import plain_data
from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_instance
from fairtrial.core.wording import plural, said_of_rows
from fairtrial.errors import InvalidArgument

__all__ = ["ReplayEnvironment"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class ReplayEnvironment(RowEnvironment):
    """Draw rows with replacement from a log.

    A natural pull draws a natural row of its arm. A forced pull draws a row of its arm whose
    sensitive attribute has the value, forced or not: the attribute is a root, so both are
    equivalent. The truth is that of the log: means and gaps are those of its rows; if the attribute
    has parents, gaps weight the rows by the model's conditional distributions. Runs only show what
    a policy does with these rows; `about` and a simulation's summary say so.

    Parameters
    ----------
    problem : Problem
        The problem; every action of finite cost needs at least one row.
    table : mapping of str to sequence, data frame, or sequence of mappings
        One row per observation: the problem's `columns`, arm and mode.
    arm, mode : str
        Names of the columns of the arm and of the mode, "natural" or "forced"; without a mode
        column, all rows are natural.

    Raises
    ------
    InvalidArgument
        If a column is missing, or an action has no row.
    InvalidOutcome
        If the problem refuses a value; the message names row and column.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> problem, environment = chain(0.5, {"a": [[1, 0], [0, 1]]}, [0.0, 1.0], 0.2)
    >>> log = {"arm": "aaaa", "S": ["s", "s", "s'", "s'"], "V": "0011", "Y": [0, 0, 0, 1]}
    >>> replay = ReplayEnvironment(problem, log)
    >>> replay.truth.means, replay.truth.gaps[("s", "s'")]
    (array([0.25]), array([-0.5]))
    """

    def __init__(
        self, problem: Problem, table: Any, arm: str = "arm", mode: str = "s_mode"
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.table = table = plain_data(table)
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
        """Return one row for each action, as the estimators see them."""
        chosen = self._draw(np.asarray(actions), generator)
        arms, modes = np.divmod(np.asarray(actions), len(self.problem.modes))
        rows = self._rows
        return Rows(arms, modes > 0, rows.value[chosen], rows.cells[chosen], rows.outcome[chosen])

    @property
    def about(self) -> str:
        """A sentence that says that recorded rows are sampled repeatedly."""
        return said_of_rows(plural(len(self._rows.arm), "row"))

    @cached_property
    def truth(self) -> CausalTruth:
        """Means and gaps of the log's rows, and the best fair arm."""
        problem = self.problem
        ledger = open_ledger(cell_model_of(problem))
        ledger.add(self._rows)
        effects = problem.unscaled_mean(own_effects(problem, ledger.records()))
        natural = self._by_action[:: len(problem.modes)]
        means = [self._rows.outcome[rows].mean() if len(rows) else np.nan for rows in natural]
        return truth_of(problem, problem.unscaled_mean(np.array(means)), effects, self._shares)

    @property
    def _shares(self) -> Floats:
        known = cell_model_of(self.problem).shares
        if known is not None:
            return known
        values = self._rows.value[~self._rows.forced]
        counts = np.bincount(values, minlength=len(self.problem.values))
        return np.asarray(counts / max(1, int(counts.sum())))
