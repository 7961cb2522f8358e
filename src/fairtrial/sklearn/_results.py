"""What a search reports about its candidates, in the form of scikit-learn's own searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.ma import MaskedArray
from numpy.typing import NDArray

__all__ = ["Results"]

Floats = NDArray[np.float64]

_LASTED = {"best": 0, "undecided": 1, "accepted": 1, "set aside": 1, "rejected": 2, "withdrawn": 3}


class Results:
    """Scores and times of every candidate, by split.

    Parameters
    ----------
    settings : sequence of dict
        The candidates.
    failed : float
        The score of a fit that failed.

    Attributes
    ----------
    failure : object
        What the last failed pull gave instead of scores.
    """

    def __init__(self, settings: Sequence[dict[str, Any]], failed: float = np.nan) -> None:
        self.settings = list(settings)
        self.failed = failed
        self.failure: Any = None
        self._values: list[dict[int, dict[str, Any]]] = [{} for _ in settings]

    def add(self, arm: int, outcome: dict[str, Any], split: int | None = None) -> None:
        """Keep the result of a pull, or nothing if it failed; by default on a separate split."""
        own = self._values[arm]
        own[len(own) if split is None else split] = outcome

    def has(self, arm: int, split: int) -> bool:
        """Return whether a candidate was tried on a split."""
        return split in self._values[arm]

    @property
    def has_any(self) -> bool:
        """Return whether any fit succeeded."""
        return any(outcome for own in self._values for outcome in own.values())

    @property
    def n_pulls(self) -> int:
        """Number of scores of all candidates."""
        return sum(len(own) for own in self._values)

    @property
    def n_splits(self) -> int:
        """Most splits that one candidate was tried on."""
        return max(len(own) for own in self._values)

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics; ``["score"]`` if there is one."""
        return [key.removeprefix("test_") for key in self._keys() if key.startswith("test_")]

    def _keys(self) -> list[str]:
        for own in self._values:
            for outcome in own.values():
                if outcome:
                    return list(outcome)
        return ["fit_time", "score_time", "test_score"]

    def to_dict(
        self,
        states: Sequence[str],
        departures: Sequence[tuple[int | None, str]],
        best: int,
    ) -> dict[str, Any]:
        """Return the columns of `cv_results_`, with one row per candidate."""
        columns: dict[str, Any] = {}
        for key in self._keys():
            table = self._table(key)
            if not key.endswith("_time"):
                columns |= {f"split{at}_{key}": table[:, at] for at in range(table.shape[1])}
            columns[f"mean_{key}"], columns[f"std_{key}"] = _moments(table)
        status = np.array(["best" if arm == best else state for arm, state in enumerate(states)])
        tried = np.array([len(own) for own in self._values])
        for name in self.metrics:
            columns[f"rank_test_{name}"] = _ranks(status, tried, columns[f"mean_test_{name}"])
        return {
            **columns,
            **self._parameters(),
            "params": self.settings,
            "n_splits": tried,
            "status": status,
            "dropped_after": _masked([after for after, _ in departures]),
            "dropped_because": np.array([why for _, why in departures]),
        }

    def _table(self, key: str) -> Floats:
        """Return one quantity by candidate and split; NaN if the candidate was not tried on it."""
        width = 1 + max((split for own in self._values for split in own), default=-1)
        table = np.full((len(self.settings), width), np.nan)
        absent = np.nan if key.endswith("_time") else self.failed
        for arm, own in enumerate(self._values):
            for split, outcome in own.items():
                table[arm, split] = outcome.get(key, absent)
        return table

    def _parameters(self) -> dict[str, Any]:
        names = dict.fromkeys(name for setting in self.settings for name in setting)
        columns = {}
        for name in names:
            column: MaskedArray[Any, Any] = MaskedArray(
                np.empty(len(self.settings), dtype=object), mask=True
            )
            for at, setting in enumerate(self.settings):
                if name in setting:
                    column[at] = setting[name]
            columns[f"param_{name}"] = column
        return columns


def _masked(numbers: Sequence[int | None]) -> MaskedArray[Any, Any]:
    absent = [number is None for number in numbers]
    return MaskedArray([number or 0 for number in numbers], mask=absent, dtype=int)


def _moments(table: Floats) -> tuple[Floats, Floats]:
    known = np.isfinite(table)
    count = known.sum(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.where(known, table, 0.0).sum(axis=1) / count
        squares = np.where(known, (table - mean[:, None]) ** 2, 0.0).sum(axis=1)
        return mean, np.sqrt(squares / count)


def _ranks(status: NDArray[Any], tried: NDArray[np.intp], mean: Floats) -> NDArray[np.int32]:
    """Return ranks from 1: by status of a candidate, how long it lasted, and its mean."""
    lasted = np.array([_LASTED[state] for state in status])
    waits = np.where(lasted == _LASTED["rejected"], -tried, 0)
    order = np.lexsort((-np.nan_to_num(mean, nan=-np.inf), waits, lasted))
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks
