"""Products of tables, summed over some of their nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal.errors import ModelError

if TYPE_CHECKING:
    from fairtrial.causal.model import CausalModel

Floats = NDArray[np.float64]

_MOST_NUMBERS = 10_000_000
"""Largest number of entries in an intermediate table."""


class Factor(NamedTuple):
    """A non-negative function of some nodes: `array` has one axis per name."""

    names: tuple[str, ...]
    array: Floats


def table_factor(model: CausalModel, node: str) -> Factor:
    """Return P(node given its parents) from the model's table."""
    return Factor((*model.parents(node), node), model.tables[node])


def shares_of(model: CausalModel, attributes: Sequence[str]) -> Floats | None:
    """Return the probability of every combination of some nodes' states, None if unknown."""
    needed = model.ancestors(attributes)
    if any(node not in model.tables for node in needed):
        return None
    factors = [table_factor(model, node) for node in sorted(needed)]
    try:
        return np.asarray(sum_product(factors, attributes).ravel())
    except ModelError:
        return None


def spread(factor: Factor, names: Sequence[str]) -> Floats:
    """Return the factor with one axis for each of `names`; missing axes have length one."""
    order = sorted(range(len(factor.names)), key=lambda axis: names.index(factor.names[axis]))
    shape = dict(zip(factor.names, factor.array.shape, strict=True))
    return factor.array.transpose(order).reshape([shape.get(name, 1) for name in names])


def sum_product(factors: Sequence[Factor], keep: Sequence[str]) -> Floats:
    """Return the product of all factors, summed over every name that is not kept.

    The axes of the result are those of `keep`, with length one if no factor has the name. Names are
    summed out one at a time, in each step the one with the smallest intermediate table.

    Raises
    ------
    ModelError
        If an intermediate table would be too large.
    """
    pending = list(factors)
    while True:
        hidden = {name for factor in pending for name in factor.names} - set(keep)
        if not hidden:
            break
        name = min(sorted(hidden), key=lambda candidate: _cost(pending, candidate))
        if _cost(pending, name) > _MOST_NUMBERS:
            accepted = f"must be summed up with tables of at most {_MOST_NUMBERS:,} numbers"
            raise ModelError("model", f"{accepted}; too many nodes are connected with {name!r}")
        touched = [factor for factor in pending if name in factor.names]
        pending = [factor for factor in pending if name not in factor.names]
        pending.append(_sum_out(touched, name))
    result = np.ones([1] * len(keep))
    sizes = {name: n for f in pending for name, n in zip(f.names, f.array.shape, strict=True)}
    if math.prod(sizes.values()) > _MOST_NUMBERS:
        raise ModelError("model", f"must have at most {_MOST_NUMBERS:,} cells to be listed")
    for factor in pending:
        result = result * spread(factor, keep)
    return result


def _cost(factors: Sequence[Factor], name: str) -> int:
    sizes: dict[str, int] = {}
    for factor in factors:
        if name in factor.names:
            sizes.update(zip(factor.names, factor.array.shape, strict=True))
    return math.prod(sizes.values())


def _sum_out(factors: Sequence[Factor], name: str) -> Factor:
    names = sorted({other for factor in factors for other in factor.names})
    position = {other: place for place, other in enumerate(names)}
    kept = tuple(other for other in names if other != name)
    operands: list[Any] = []
    for factor in factors:
        operands += [factor.array, [position[other] for other in factor.names]]
    array = np.einsum(*operands, [position[other] for other in kept])
    return Factor(kept, array)
