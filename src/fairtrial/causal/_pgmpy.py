"""Read networks of pgmpy through their methods, without importing pgmpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._bif import Network
from fairtrial.causal.errors import ModelError

Floats = NDArray[np.float64]

_TOLERANCE = 1e-4


def read_pgmpy(model: Any) -> Network:
    """Return the network of any object with `nodes()` and `get_cpds(node)`.

    Raises
    ------
    ModelError
        If a node has no distribution.
    """
    distributions = {str(node): model.get_cpds(node) for node in model.nodes()}
    for node, distribution in distributions.items():
        if distribution is None:
            raise ModelError(node, "has no distribution in the pgmpy model")
    edges = [
        (str(parent), node)
        for node, distribution in distributions.items()
        for parent in distribution.variables[1:]
    ]
    states = {
        node: _states(distribution, distribution.variables[0])
        for node, distribution in distributions.items()
    }
    tables = {node: _table(distribution, states) for node, distribution in distributions.items()}
    return Network(edges, states, tables)


def _states(distribution: Any, variable: Any) -> list[str]:
    return [str(state) for state in distribution.state_names[variable]]


def _table(distribution: Any, states: dict[str, list[str]]) -> Floats:
    # pgmpy keeps the node's own states on the first axis.
    table = _renormalised(np.moveaxis(np.asarray(distribution.values, float), 0, -1))
    # Every distribution has its own order of the parents' states.
    for axis, parent in enumerate(distribution.variables[1:]):
        order = _states(distribution, parent)
        positions = [order.index(state) for state in states[str(parent)]]
        table = np.take(table, positions, axis=axis)
    return table


def _renormalised(table: Floats) -> Floats:
    totals = table.sum(axis=-1, keepdims=True)
    close = np.abs(totals - 1.0) <= _TOLERANCE
    return np.where(close, table / np.where(close, totals, 1.0), table)
