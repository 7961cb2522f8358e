"""What races know of their arms and pulls, as arrays."""

import numpy as np

_GIVEN = ("noise", "reading_std", "duration")
_SUMS = ("folded", "total")


def arms_of(policy):
    """Return what a race has found out about every arm, without the sums behind it."""
    columns = policy._race.arms._asdict().items()
    return np.array([column for name, column in columns if name not in (*_GIVEN, *_SUMS)]).T


def pulls_of(policy):
    """Return what is known of every pull that has started, shape (pulls, columns)."""
    return np.array(policy._race.pulls).T[: policy._race.rows]
