"""Views of block betting's state for tests."""

from typing import Any, NamedTuple

import numpy as np

from fairtrial.core import Pull
from fairtrial.subpopulations import BlockBetting


class Ledgers(NamedTuple):
    """The ledgers with the names in docs/explanation/block-betting.md: D, P and C."""

    own: np.ndarray
    pairs: np.ndarray
    limits: np.ndarray


def ledgers_of(policy: BlockBetting) -> Ledgers:
    """Return views of the ledgers."""
    arms, groups = policy.problem.shape
    own, pairs, limits = np.split(policy._blocks.state.book.ledgers, [arms, arms + arms**2])
    limits = limits.reshape((arms, -1))
    # A limit on the overall difference from a control takes only the first group's place.
    limits = np.pad(limits, [(0, 0), (0, -limits.shape[1] % groups)])
    ends = limits.reshape((arms, -1, groups)).swapaxes(0, 1)
    return Ledgers(own, pairs.reshape((arms, arms)).T, ends)


def planned_in(policy: BlockBetting, serial: int) -> np.ndarray:
    """Return the pulls of an open block, by cell."""
    blocks = policy._blocks.state.blocks
    return blocks.planned[serial % len(blocks.waiting)].reshape(policy.problem.shape)


def slots_of(policy: BlockBetting) -> int:
    """Return how many blocks can be open at once."""
    return len(policy._blocks.state.blocks.waiting)


def serial_of(pull: Pull) -> int:
    """Return the serial of the pull's block, -1 outside every block."""
    return pull.tag if pull.tag >= -1 else -2 - pull.tag


def arrays_of(policy: BlockBetting) -> dict[str, Any]:
    """Return every array of the state by its name, without the record that tests the noise."""
    found: dict[str, Any] = {}

    def collect(part: Any) -> None:
        for name, value in part._asdict().items():
            if isinstance(value, tuple):
                collect(value)
            else:
                found[f"blocks.{name}" if name in found else name] = value

    collect(policy._blocks.state)
    return {name: value for name, value in found.items() if "noise" not in name}
