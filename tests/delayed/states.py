"""The state of races' arms and pulls as arrays."""

import numpy as np

_GIVEN = ("noise", "reading_std", "duration")
_SUMS = ("folded", "total")


def arms_of(policy):
    """Return a race's results for every arm, without the underlying sums."""
    columns = policy._race.arms._asdict().items()
    return np.array([column for name, column in columns if name not in (*_GIVEN, *_SUMS)]).T


def pulls_of(policy):
    """Return the state of every started pull, shape (pulls, columns)."""
    return np.array(policy._race.pulls).T[: policy._race.rows]
